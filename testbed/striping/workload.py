"""The workload of striped files: all compute nodes together write or read one file."""

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
# Counts of an operation in the table of a run.
_COUNTS = ("messages", "fragments", "disk calls", "queue drops")

_BUILD = partial(lazily("testbed.striping.planning:build_striping"), now=time.monotonic)


def _fitted(
    requested: StripingOptions, plan: StripingPlan, fabric: str
) -> tuple[StripingPlan, str]:
    """Return the plan at rates that the machine carries, and a note about the limit.

    The duration of a plan with time frames is the number of frames. Otherwise it is the number of
    transfers over the busiest link.
    """
    from testbed.results.capacity_file import chosen_rate
    from testbed.striping.planning import at_rates

    assert plan.rates is not None
    duration = 1.0
    if plan.frames:
        duration = plan.bulk_plan().relative_duration
    elif plan.transfers:
        duration = float(max(plan.bulk_plan().relative_loads.values()))
    limit_bps, limit_text = chosen_rate(
        requested.link_rate_bps, [t.path for t in plan.transfers], duration, fabric
    )
    rates = replace(plan.rates, limit_bps=limit_bps)
    return at_rates(plan, rates), rates.limit_note(limit_text)


def _write_pattern(plan: StripingPlan, options: StripingRunOptions) -> str | None:
    """Write the pairs of hosts of the plan if requested, and return what was written."""
    from topologies.files.formats import write_atomically

    if options.write_pattern is None:
        return None
    pairs = [[t.source, t.sink] for t in plan.transfers]
    write_atomically(options.write_pattern, json.dumps({"pairs": pairs}).encode())
    return f"{options.write_pattern}: {len(pairs)} pairs"


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
    """Run a plan. Emulation must be called inside the sandbox.

    Args:
        plan: The plan.
        root: The directory of the subfiles, which gets a folder for each I/O node.
        fabric: ``emulation`` or ``simulator``.
        report_progress: Called with the progress of the run.
        machines: The machines. Each stores the subfiles of its own I/O nodes until the run is over,
            and ``root`` is not used. None: this machine alone.

    Raises:
        InputError: ``root`` cannot be written.
        CapabilityError: The network cannot be built, or the disk of ``root`` is full.
    """
    from sfio_emu.errors import SfioError

    if machines is None:
        _prepare_folders(root, plan)
    try:
        if fabric == "simulator":
            from testbed.striping.emulated.loopback import run_over_loopback

            return run_over_loopback(plan, root)
        from testbed.striping.emulated.fabric import emulate_striping

        return emulate_striping(plan, root, report_progress=report_progress, machines=machines)
    except SfioError as error:
        from testbed.striping.emulated.clients import opening_error

        raise opening_error(error) from None


def _prepare_folders(root: Path, plan: StripingPlan) -> None:
    """Make the folders of the I/O nodes, and remove the subfiles of an earlier run."""
    from sfio_emu.adapters.root_locks import lock_root, unlock_root
    from testbed.striping.placement import encoded_node_name

    try:
        for node in plan.placement.io:
            folder = root / encoded_node_name(node)
            folder.mkdir(parents=True, exist_ok=True)
            # Locking fails while another run uses the folder.
            unlock_root(lock_root(folder))
            (folder / "data").unlink(missing_ok=True)
    except OSError as error:
        raise unwritable(
            error, f"--subfile-dir {root}: {error.strerror or error}; choose a directory of its own"
        ) from None


def _view(plan: StripingPlan) -> tuple[str, Callable[[], RunView]]:
    from testbed.live.run_views import network_view

    title = f"{plan.network.name}: striped file over {plan.options.io_nodes} I/O nodes"

    def view() -> RunView:
        network = network_view(title, plan.network, plan.link_bytes, plan.faults)
        return replace(network, stores=plan.placement.io)

    return "striped file", view


def _shown(document: Json) -> Iterator[object]:
    """Yield the lines and the table that the command prints for a document."""
    from testbed.report.answers import table_of_rows

    yield (
        f"{document['network']}: {document['file_bytes'] / 1e6:g} MB in stripe units of"
        f" {document['stripe_unit_bytes']} bytes, {document['compute_nodes']} compute and"
        f" {document['io_nodes']} I/O nodes, {document['access']} access,"
        f" {document['switching']} switching, schedule {document['schedule']},"
        f" {document['fabric']}"
    )
    if document["predicted"] is not None:
        predicted_mbps = document["predicted"]["throughput_bps"] / 1e6
        liquid_mbps = document["liquid_throughput_bps"] / 1e6
        yield (
            f"predicted: {predicted_mbps:.1f} Mbit/s; liquid: {document['liquid_links']:.2f} links"
            f" = {liquid_mbps:.1f} Mbit/s"
        )
    rows = [_table_row(record) for record in document["operations"]]
    yield table_of_rows(rows, spare=(*_COUNTS[::-1], "seconds"))


def _table_row(record: Json) -> dict[str, object]:
    """Return the row of an operation in the table."""
    operation = record["direction"]
    if record["attempt"] > 1:
        operation += " again"
    elif record["under_faults"]:
        operation += " under faults"
    throughput = "failed" if record["errors"] else f"{record['throughput_bps'] / 1e6:.1f}"
    return {
        "operation": operation,
        "seconds": f"{record['seconds']:.2f}",
        "Mbit/s": throughput,
        **{column: record[column.replace(" ", "_")] for column in _COUNTS},
        "verified": record["verified"],
    }


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
