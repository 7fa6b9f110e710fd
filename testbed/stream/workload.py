"""Coded packets over a split route while links fail, or while nodes move: one stream as a plan, several at once as a
command runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from testbed.model.naming.names import parse_captures
from testbed.model.options.planner import planner
from testbed.model.progress import ReportProgress
from testbed.model.run_records import Manifest
from testbed.model.workload import How, Workload, lazily
from testbed.stream.measurements import StreamMeasurements
from testbed.stream.options import MobilityOptions, StreamOptions, StreamRunOptions
from testbed.stream.plan import ProbePlan, StreamPlan, StreamsPlan

if TYPE_CHECKING:
    from testbed.stream.judgement.streams import StreamJudgement, StreamsJudgement

MOVING = (
    "Stream coded packets while the nodes of a network move, links appear and disappear, and "
    "other links fail at random. For each frame the controller computes the routes again and "
    "replaces the active ones."
)
Runs = tuple[StreamMeasurements, ...]


_BUILD: Callable[[StreamOptions], StreamPlan] = lazily("testbed.stream.planning:build_stream")
_BUILD_MOVING: Callable[[MobilityOptions], StreamPlan] = lazily(
    "testbed.stream.mobility:build_mobility"
)
_JUDGE: Callable[[StreamPlan, StreamMeasurements], StreamJudgement] = lazily(
    "testbed.stream.judgement.streams:judge_stream"
)
_FORESEEN = lazily("testbed.stream.judgement.closing_lines:foreseen")
_KEEPS = lazily("testbed.stream.run_in_turn:stored_streams")


def _titled(requested: MobilityOptions) -> StreamsPlan:
    first = requested.frames[0] if isinstance(requested.frames, (list, tuple)) else requested.frames
    title = f"{first} {requested.source} to {requested.sink}, moving"
    return StreamsPlan(plans=(_BUILD_MOVING(requested),), titles=(title,))


def _measure(
    plan: StreamPlan, how: How, report_progress: ReportProgress | None
) -> StreamMeasurements:
    return carry_streams(StreamsPlan(plans=(plan,), titles=("",)), how, report_progress)[0]


def carry_streams(streams: StreamsPlan, how: How, report_progress: ReportProgress | None) -> Runs:
    """All of them at once."""
    from testbed.stream.fabric import open_fabric

    own = how.options or StreamRunOptions()
    fabric = open_fabric(
        how.fabric,
        mtu=own.mtu,
        pcap=parse_captures(own.pcap, streams.network, named=True),
        background_bps=own.background_bps or 0.0,
        queues=own.queues,
        machines=how.machines,
    )
    return fabric.run_concurrently(streams.plans, report_progress)


def _judge_together(streams: StreamsPlan, runs: Runs) -> StreamsJudgement:
    from testbed.stream.judgement.streams import judge_together

    return judge_together(
        [_JUDGE(plan, run) for plan, run in zip(streams.plans, runs, strict=True)], streams.titles
    )


@contextmanager
def _keeps_one(
    results: Path, name: str, manifest: Manifest
) -> Iterator[Callable[[StreamJudgement], Path]]:
    from testbed.stream.judgement.streams import judge_together

    with _KEEPS(results, name, manifest) as keep:
        yield lambda judged: keep(judge_together([judged], [_title(judged.plan)]))


def _title(plan: StreamPlan) -> str:
    return f"{plan.network.name} {plan.forward.source} to {plan.forward.sink}"


def _probe_view(probe: ProbePlan) -> tuple[str, Callable[[], object]]:
    return _view(
        StreamsPlan(plans=(probe.plan,), titles=(f"{probe.blocks} blocks of fixed size, twice",))
    )


def _view(streams: StreamsPlan) -> tuple[str, Callable[[], object]]:
    from testbed.stream.run_in_turn import streams_view

    title = (
        streams.titles[0] if len(streams.plans) == 1 else f"{len(streams.plans)} streams at once"
    )
    return title, partial(streams_view, streams.plans, title)


stream_plan = planner(
    "stream_plan",
    "Make the plan of a coded stream over a split route while links fail.",
    StreamOptions,
    _BUILD,
    StreamPlan,
)
mobility_plan = planner(
    "mobility_plan",
    "Make the plan of a coded stream while nodes move.",
    MobilityOptions,
    _BUILD_MOVING,
    StreamPlan,
)
STREAM = Workload(
    name="stream",
    plan=StreamPlan,
    carry=_measure,
    judge=_JUDGE,
    keeps=_keeps_one,
    example=lambda: stream_plan(
        "ring:4", "s0", "s2", faults=["s0->s1@2-3"], duration_s=4, rate_pps=200
    ),
)
"""One stream, as the library runs it."""
STREAMS = Workload(
    name="stream",
    plan=StreamsPlan,
    foreseen=lambda streams: (line for plan in streams.plans for line in _FORESEEN(plan)),
    carry=carry_streams,
    judge=_judge_together,
    spreads=True,
    keeps=_KEEPS,
    view=_view,
    closing=lazily("testbed.stream.judgement.closing_lines:closing_words"),
)
"""Streams at once, as commands run them."""
PROBE: Workload[ProbePlan, list[tuple[StreamPlan, StreamMeasurements]]] = Workload(
    name="probe",
    plan=ProbePlan,
    foreseen=lazily("testbed.stream.probe:foreseen"),
    carry=lazily("testbed.stream.probe:carry_probe"),
    judge=lazily("testbed.stream.probe:judged_probe"),
    view=_probe_view,
    shown=lambda document: [f"{document['link']} down, {document['fabric']}"],
    keeps=lambda *_: nullcontext(lambda _: None),
)
"""A probe of a block size by the command ``stream``; nothing of it is kept."""
MOBILITY = replace(
    STREAMS,
    description=MOVING,
    command="testbed mobility manet:nodes=20,seed=3 --from n0 --to n19 --frames 4",
    options=MobilityOptions,
    build=_titled,
)
