"""A file that is striped over the I/O nodes of a network, written or read by all compute nodes together."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from testbed.errors import unwritable
from testbed.live.events import RunView
from testbed.machines.machines_request import MachinesRequest
from testbed.model.options.planner import planner
from testbed.model.progress import ReportProgress
from testbed.model.workload import How, Workload, lazily
from testbed.striping.measurements import StripingMeasurements
from testbed.striping.options import StripingOptions, StripingRunOptions
from testbed.striping.plan import StripingPlan
from topologies import Json

DESCRIPTION = (
    "Let all compute nodes write or read one file that is striped over the I/O nodes, through "
    "the links of a network. The content is verified after every run, and the throughput is "
    "compared with the limit of the network."
)


_BUILD = partial(lazily("testbed.striping.planning:build_striping"), now=time.monotonic)


def _fitted(
    requested: StripingOptions, plan: StripingPlan, fabric: str
) -> tuple[StripingPlan, str]:
    """In time frames, or where all may go at once as many as the fullest link has transfers."""
    from testbed.results.capacity_file import chosen_rate
    from testbed.striping.planning import at_rates

    assert plan.rates is not None
    frames = 1.0
    if plan.frames:
        frames = plan.bulk_plan().relative_duration
    elif plan.transfers:
        frames = float(max(plan.bulk_plan().relative_loads.values()))
    limit_bps, words = chosen_rate(
        requested.link_rate_bps, [t.path for t in plan.transfers], frames, fabric
    )
    rates = replace(plan.rates, limit_bps=limit_bps)
    return at_rates(plan, rates), rates.limit_note(words)


def _write_pattern(plan: StripingPlan, own: StripingRunOptions) -> str | None:
    from topologies.files.formats import write_atomically

    if own.write_pattern is None:
        return None
    pairs = [[t.source, t.sink] for t in plan.transfers]
    write_atomically(own.write_pattern, json.dumps({"pairs": pairs}).encode())
    return f"{own.write_pattern}: {len(pairs)} pairs"


def _carry(
    plan: StripingPlan, how: How, report_progress: ReportProgress | None
) -> StripingMeasurements:
    from testbed.striping.emulated.scratch_folders import scratch_folder

    carry = partial(
        run_striping,
        plan,
        fabric=how.fabric,
        report_progress=report_progress,
        machines=how.machines,
    )
    if how.options is not None and how.options.subfile_dir is not None:
        return carry(how.options.subfile_dir)
    with scratch_folder(how.results) as root:
        return carry(root)


def run_striping(
    plan: StripingPlan,
    root: Path,
    *,
    fabric: str = "emulation",
    report_progress: ReportProgress | None = None,
    machines: MachinesRequest | None = None,
) -> StripingMeasurements:
    """Run it; ``root`` gets the subfiles, a directory for each I/O node; over several ``machines`` each keeps those of
    its own I/O nodes, until the run is over. Emulation must be called inside the sandbox.

    Raises InputError where ``root`` cannot be written, CapabilityError where the network cannot be
    built or the disk of ``root`` is full.
    """
    from sfio_emu.errors import SfioError

    if machines is None:
        _claim(root, plan)
    try:
        if fabric == "simulator":
            from testbed.striping.emulated.loopback import run_over_loopback

            return run_over_loopback(plan, root)
        from testbed.striping.emulated.fabric import emulate_striping

        return emulate_striping(plan, root, report_progress=report_progress, machines=machines)
    except SfioError as error:
        from testbed.striping.emulated.clients import opening_error

        raise opening_error(error) from None


def _claim(root: Path, plan: StripingPlan) -> None:
    """Directories of the I/O nodes, without the subfiles of an earlier run."""
    from sfio_emu.adapters.root_locks import lock_root, unlock_root
    from testbed.striping.placement import file_host

    try:
        for node in plan.placement.io:
            folder = root / file_host(node)
            folder.mkdir(parents=True, exist_ok=True)
            unlock_root(lock_root(folder))  # which fails while another run uses it
            (folder / "data").unlink(missing_ok=True)
    except OSError as error:
        raise unwritable(
            error, f"--subfile-dir {root}: {error.strerror or error}; choose a directory of its own"
        ) from None


def _view(plan: StripingPlan) -> tuple[str, Callable[[], RunView]]:
    from testbed.live.run_views import network_view

    title = f"{plan.network.name}: striped file over {plan.options.io_nodes} I/O nodes"

    def view() -> RunView:
        return replace(
            network_view(title, plan.network, plan.link_bytes, plan.faults),
            stores=plan.placement.io,
        )

    return "striped file", view


def _shown(document: Json) -> Iterator[object]:
    from testbed.report.answers import table_of_rows

    yield (
        f"{document['network']}: {document['file_bytes'] / 1e6:g} MB in stripe units of {document['stripe_unit_bytes']} bytes,"
        f" {document['compute_nodes']} compute and {document['io_nodes']} I/O nodes, {document['access']} access, "
        f"{document['switching']} switching, schedule {document['schedule']}, {document['fabric']}"
    )
    if document["predicted"] is not None:
        yield (
            f"predicted: {document['predicted']['throughput_bps'] / 1e6:.1f} Mbit/s; liquid:"
            f" {document['liquid_links']:.2f} links = {document['liquid_throughput_bps'] / 1e6:.1f} Mbit/s"
        )
    counts = ("messages", "fragments", "disk calls", "queue drops")
    rows = []
    for record in document["operations"]:
        when = (
            " again" if record["attempt"] > 1 else " under faults" if record["under_faults"] else ""
        )
        rate = "failed" if record["errors"] else f"{record['throughput_bps'] / 1e6:.1f}"
        row = {
            "operation": record["direction"] + when,
            "seconds": f"{record['seconds']:.2f}",
            "Mbit/s": rate,
        }
        rows.append(
            row
            | {name: record[name.replace(" ", "_")] for name in counts}
            | {"verified": record["verified"]}
        )
    yield table_of_rows(rows, spare=(*counts[::-1], "seconds"))


striping_plan = planner(
    "striping_plan",
    "Make the plan of a striped file, written or read by many at once.",
    StripingOptions,
    _BUILD,
    StripingPlan,
)
STRIPING = Workload(
    name="striping",
    title="A striped file",
    description=DESCRIPTION,
    command="testbed sfio swiss-t1 --compute-nodes 4 --io-nodes 4 --stripe-unit 1000",
    plan=StripingPlan,
    options=StripingOptions,
    run_options=StripingRunOptions,
    build=_BUILD,
    fitted=_fitted,
    instead=_write_pattern,
    carry=_carry,
    judge=lazily("testbed.striping.judgement:judge_striping"),
    spreads=True,
    view=_view,
    figures=lazily("testbed.striping.figures:striping_figures"),
    shown=_shown,
    example=lambda: striping_plan("crossbar:4", 2, 2, file_bytes=200_000),
)
