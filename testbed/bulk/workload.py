"""The workload ``bulk``: messages between all hosts, by circuit or packet switching."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from testbed.bulk.measurements import BulkMeasurements
from testbed.bulk.options import BulkOptions, BulkRunOptions
from testbed.bulk.plan import BulkPlan, over_switches
from testbed.live.events import RunView
from testbed.model.options.planner import planner
from testbed.model.progress import ReportProgress
from testbed.model.verdict import Verdict
from testbed.model.workload import Carry, How, Judgement, Workload, lazily
from topologies import Json

DESCRIPTION = (
    "Send a message from every sending host to every receiving host, in the time frames of a "
    "scheduling method. With circuit switching, a transfer occupies all links of its path while "
    "it sends, and the switches have a rule for its circuit. With packet switching, the "
    "switches queue packets when links are congested. Both are run and reported side by side; "
    "--switching chooses the one that the verdict is about."
)
_HEADINGS = (
    "switching",
    "seconds",
    "Mbit/s",
    "of liquid",
    "virtual time",
    "verified",
    "queue drops",
    "verdict",
)
_BUILD = partial(lazily("testbed.bulk.planning:build_bulk_plan"), now=time.monotonic)


def _fitted(requested: BulkOptions, plan: BulkPlan, fabric: str) -> tuple[BulkPlan, str]:
    """Return the plan at a rate that the machine can carry, and a note on the rate."""
    from testbed.results.capacity_file import chosen_rate

    assert plan.rates is not None
    paths = [transfer.path for transfer in plan.transfers]
    limit_bps, reason = chosen_rate(requested.link_rate_bps, paths, plan.relative_duration, fabric)
    rates = replace(plan.rates, limit_bps=limit_bps)
    return replace(plan, network=rates.network, rates=rates), rates.limit_note(reason)


def _variants(requested: BulkOptions, plan: BulkPlan) -> Sequence[BulkPlan]:
    """Return the same transfers and time frames with the other switching.

    There is no comparison under faults, because their times refer to one run.
    """
    if requested.no_comparison or plan.faults or plan.killed:
        return ()
    if plan.switching == "circuit":
        return (replace(plan, switching="packet", injected=0),)
    injected = 0
    if any(over_switches(plan.network, transfer.path) for transfer in plan.transfers):
        injected = requested.inject_packets
    return (replace(plan, switching="circuit", injected=injected),)


def _carry(plan: BulkPlan, how: How, report_progress: ReportProgress | None) -> BulkMeasurements:
    with _opened(how) as carry:
        return carry(plan, report_progress)


@contextmanager
def _opened(how: How) -> Iterator[Carry[BulkPlan, BulkMeasurements]]:
    """Provide the function that runs plans on one fabric, whose network or machines they share."""
    requested: BulkRunOptions = how.options or BulkRunOptions()
    if how.fabric == "simulator":
        from testbed.bulk.simulated import SimulatedBulkFabric

        yield SimulatedBulkFabric(on_deadlock=requested.on_deadlock).run
    else:
        from testbed.bulk.emulated.fabric import EmulatedBulkFabric
        from testbed.results.run_folder import make_directory

        if requested.save_messages is not None:
            make_directory(requested.save_messages, "--save-messages")
        with EmulatedBulkFabric(
            on_deadlock=requested.on_deadlock, store=requested.save_messages, machines=how.machines
        ) as fabric:
            yield fabric.run


def _compared(judged: Sequence[Judgement]) -> Judgement:
    """Return the judgement of the first switching, with the document of the other in it."""
    first = judged[0]
    comparison = {}
    for judgement in judged[1:]:
        comparison[judgement.document["switching"]] = judgement.document
    stored: list[Json] = []
    for judgement in judged:
        stored += judgement.rows
    document = {**first.document, "other_switching": comparison}
    return replace(first, document=document, stored=tuple(stored))


def _view(plan: BulkPlan) -> tuple[str, Callable[[], RunView]]:
    """Return the subtitle of the live page, and a function that draws its network."""
    from testbed.live.run_views import network_view

    title = f"{plan.network.name}: bulk transfers, {plan.switching} switching, {plan.method}"
    view = partial(network_view, title, plan.network, plan.loads, plan.faults)
    return f"{plan.switching} switching", view


def _shown(document: Json) -> Iterator[object]:
    """Yield the lines and the table that the command prints for a run's document."""
    from testbed.report.answers import Table
    from testbed.report.wording import counted

    barrier = "without a barrier"
    if document["barrier"]:
        barrier = "with a barrier"
    frames = counted(document["frames"], "time frame")
    if document["rounds"] is not None:
        frames = f"{counted(document['rounds'], 'round')} ({frames} without conflict)"
    parts = document.get("parts", 1)
    unit = "messages"
    if parts != 1:
        unit = f"parts (1/{parts} of a message)"
    message_mb = document["message_bytes"] / 1e6
    yield (
        f"{document['network']}: {document['transfers']} {unit} of {message_mb:g} MB, "
        f"{document['method']}, {frames} {barrier} "
        f"(bottleneck load {document['bottleneck_load']}), {document['fabric']}"
    )
    goodput_mbps = document["goodput_bps"] / 1e6
    liquid_mbps = document["liquid_throughput_bps"] / 1e6
    yield (
        f"predicted: {document['liquid_links']:.2f} links x {goodput_mbps:.2f} Mbit/s of goodput = "
        f"{liquid_mbps:.1f} Mbit/s"
    )
    rows = [_cells(row) for row in (document, *document["other_switching"].values())]
    spare = ("queue drops", "virtual time", "seconds", "Mbit/s")
    yield Table(name="switchings", headings=_HEADINGS, rows=rows, spare=spare)


def _cells(row: Json) -> tuple[str, ...]:
    """Return the cells of one switching in the table."""
    from testbed.model.json_values import from_json
    from testbed.report.wording import state_of

    verdict = from_json(Verdict, row["verdict"], "verdict")
    return (
        row["switching"],
        f"{row['seconds']:.2f}",
        f"{row['throughput_bps'] / 1e6:.1f}",
        f"{row['ratio']:.3f}",
        f"{row['predicted_ratio']:.3f}",
        f"{row['messages_verified']}/{row['transfers']}",
        str(row["queue_drops"]),
        state_of(verdict).replace("-", " "),
    )


bulk_plan = planner(
    "bulk_plan",
    "Make the plan of messages from every host to every other in time frames.",
    BulkOptions,
    _BUILD,
    BulkPlan,
)
BULK = Workload(
    name="bulk",
    title="Bulk transfers",
    description=DESCRIPTION,
    command="testbed bulk swiss-t1 --schedule schedule.json --message-size 100kB",
    plan=BulkPlan,
    options=BulkOptions,
    run_options=BulkRunOptions,
    build=_BUILD,
    fitted=_fitted,
    variants=_variants,
    together=_compared,
    carry=_carry,
    opened=_opened,
    judge=lazily("testbed.bulk.judgement:judge_bulk"),
    spreads=True,
    view=_view,
    figures=lazily("testbed.bulk.figures:bulk_figures"),
    shown=_shown,
    example=lambda: bulk_plan("crossbar:3", message_bytes=100_000),
)
