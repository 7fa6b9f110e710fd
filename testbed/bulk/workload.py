"""Messages from every sending to every receiving host, in time frames, by circuits and by packet switching side by
side."""

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
    "Send a message from every sending to every receiving host, in the time frames of a method. With circuit switching "
    "a transfer holds every link of its path while it sends, and its circuit is in the switches; with packet switching "
    "congestion is left to them. Both are run and reported side by side; --switching says which one the verdict is "
    "about."
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
    from testbed.results.capacity_file import chosen_rate

    assert plan.rates is not None
    paths = [transfer.path for transfer in plan.transfers]
    limit_bps, words = chosen_rate(requested.link_rate_bps, paths, plan.relative_duration, fabric)
    rates = replace(plan.rates, limit_bps=limit_bps)
    return replace(plan, network=rates.network, rates=rates), rates.limit_note(words)


def _others(requested: BulkOptions, plan: BulkPlan) -> Sequence[BulkPlan]:
    """The same transfers and time frames by the other switching; none under faults, whose moments are of one run."""
    if requested.no_comparison or plan.faults or plan.killed:
        return ()
    if plan.switching == "circuit":
        return (replace(plan, switching="packet", injected=0),)
    switched = any(over_switches(plan.network, transfer.path) for transfer in plan.transfers)
    return (
        replace(plan, switching="circuit", injected=requested.inject_packets if switched else 0),
    )


def _carry(plan: BulkPlan, how: How, report_progress: ReportProgress | None) -> BulkMeasurements:
    with _opened(how) as carry:
        return carry(plan, report_progress)


@contextmanager
def _opened(how: How) -> Iterator[Carry[BulkPlan, BulkMeasurements]]:
    """One fabric for all plans: they share its network, or its machines."""
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
    """The first switching's judgement, with the figures of the other under ``other_switching``."""
    comparison = {one.document["switching"]: one.document for one in judged[1:]}
    stored = tuple(row for one in judged for row in one.rows)
    return replace(
        judged[0], document={**judged[0].document, "other_switching": comparison}, stored=stored
    )


def _view(plan: BulkPlan) -> tuple[str, Callable[[], RunView]]:
    from testbed.live.run_views import network_view

    title = f"{plan.network.name}: bulk transfers, {plan.switching} switching, {plan.method}"
    return f"{plan.switching} switching", partial(
        network_view, title, plan.network, plan.loads, plan.faults
    )


def _shown(document: Json) -> Iterator[object]:
    from testbed.report.answers import Table
    from testbed.report.wording import counted

    barrier = "with a barrier" if document["barrier"] else "without a barrier"
    frames = counted(document["frames"], "time frame")
    if document["rounds"] is not None:
        frames = f"{counted(document['rounds'], 'round')} ({frames} without conflict)"
    parts = document.get("parts", 1)
    sent = "messages" if parts == 1 else f"parts (1/{parts} of a message)"
    yield (
        f"{document['network']}: {document['transfers']} {sent} of {document['message_bytes'] / 1e6:g} MB,"
        f" {document['method']}, {frames} {barrier} (bottleneck load {document['bottleneck_load']}),"
        f" {document['fabric']}"
    )
    yield (
        f"predicted: {document['liquid_links']:.2f} links x {document['goodput_bps'] / 1e6:.2f} Mbit/s of goodput = "
        f"{document['liquid_throughput_bps'] / 1e6:.1f} Mbit/s"
    )
    rows = list(map(_cells, (document, *document["other_switching"].values())))
    spare = ("queue drops", "virtual time", "seconds", "Mbit/s")
    yield Table(name="switchings", headings=_HEADINGS, rows=rows, spare=spare)


def _cells(row: Json) -> tuple[str, ...]:
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
    variants=_others,
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
