"""The workloads of coded streams, while links fail or while nodes move.

The library runs one stream, and commands run one or several at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from testbed.model.naming.names import parse_captures
from testbed.model.options.planner import planner
from testbed.model.progress import ReportProgress
from testbed.model.run_records import Manifest
from testbed.model.workload import How, Judgement, Workload, lazily
from testbed.stream.measurements import StreamMeasurements
from testbed.stream.options import MobilityOptions, StreamOptions, StreamRunOptions
from testbed.stream.plan import ProbePlan, StreamPlan, StreamsPlan
from topologies import Json

if TYPE_CHECKING:
    from testbed.stream.judgement.streams import StreamJudgement, StreamsJudgement

# The description of the command ``mobility``.
MOVING = (
    "Stream coded packets while the nodes of a network move, links appear and disappear, and "
    "other links fail at random. For each frame the controller computes the routes again and "
    "replaces the active ones."
)
Runs = tuple[StreamMeasurements, ...]

# These modules are imported when they are first used, so that commands start quickly.
_BUILD: Callable[[StreamOptions], StreamPlan] = lazily("testbed.stream.planning:build_stream")
_BUILD_MOVING: Callable[[MobilityOptions], StreamPlan] = lazily(
    "testbed.stream.mobility:build_mobility"
)
_JUDGE: Callable[[StreamPlan, StreamMeasurements], StreamJudgement] = lazily(
    "testbed.stream.judgement.streams:judge_stream"
)
_FORESEEN = lazily("testbed.stream.judgement.closing_lines:foreseen")
_STORED = lazily("testbed.stream.run_in_turn:stored_streams")


def _build_moving(requested: MobilityOptions) -> StreamsPlan:
    """Make the plan of a stream while nodes move, with a title."""
    frames = requested.frames
    first_frame = frames[0] if isinstance(frames, (list, tuple)) else frames
    title = f"{first_frame} {requested.source} to {requested.sink}, moving"
    return StreamsPlan(plans=(_BUILD_MOVING(requested),), titles=(title,))


def _carry_stream(
    plan: StreamPlan, how: How, report_progress: ReportProgress | None
) -> StreamMeasurements:
    return carry_streams(StreamsPlan(plans=(plan,), titles=("",)), how, report_progress)[0]


def carry_streams(streams: StreamsPlan, how: How, report_progress: ReportProgress | None) -> Runs:
    """Run streams at the same time.

    Args:
        streams: The plans of the streams.
        how: The fabric, the machines and the options of the run.
        report_progress: Receives the progress.
    """
    from testbed.stream.fabric import open_fabric

    options = how.options or StreamRunOptions()
    fabric = open_fabric(
        how.fabric,
        mtu=options.mtu,
        pcap=parse_captures(options.pcap, streams.network, named=True),
        background_bps=options.background_bps or 0.0,
        queues=options.queues,
        machines=how.machines,
    )
    return fabric.run_concurrently(streams.plans, report_progress)


def _foresee(streams: StreamsPlan) -> Iterator[str]:
    """Yield a line for each check that the runs will not be able to decide."""
    for plan in streams.plans:
        yield from _FORESEEN(plan)


def _judge_together(streams: StreamsPlan, runs: Runs) -> StreamsJudgement:
    from testbed.stream.judgement.streams import judge_together

    judgements = []
    for plan, run in zip(streams.plans, runs, strict=True):
        judgements.append(_JUDGE(plan, run))
    return judge_together(judgements, streams.titles)


@contextmanager
def _stored_stream(
    results: Path, name: str, manifest: Manifest
) -> Iterator[Callable[[StreamJudgement], Path]]:
    """Open a run for one stream (see ``stored_streams``)."""
    from testbed.stream.judgement.streams import judge_together

    with _STORED(results, name, manifest) as store_streams:

        def store(judgement: StreamJudgement) -> Path:
            together = judge_together([judgement], [_title(judgement.plan)])
            directory: Path = store_streams(together)
            return directory

        yield store


def _title(plan: StreamPlan) -> str:
    return f"{plan.network.name} {plan.forward.source} to {plan.forward.sink}"


@contextmanager
def _not_stored(
    results: Path, name: str, manifest: Manifest
) -> Iterator[Callable[[Judgement], None]]:
    """Store nothing of a probe."""

    def store(judgement: Judgement) -> None:
        pass

    yield store


def _probe_view(probe: ProbePlan) -> tuple[str, Callable[[], object]]:
    title = f"{probe.blocks} blocks of fixed size, twice"
    return _view(StreamsPlan(plans=(probe.plan,), titles=(title,)))


def _probe_lines(document: Json) -> list[str]:
    """Return the lines that a command prints about a probe."""
    return [f"{document['link']} down, {document['fabric']}"]


def _view(streams: StreamsPlan) -> tuple[str, Callable[[], object]]:
    """Return the title of the live page, and the function that returns its contents."""
    from testbed.stream.run_in_turn import streams_view

    title = streams.titles[0]
    if len(streams.plans) > 1:
        title = f"{len(streams.plans)} streams at once"
    return title, partial(streams_view, streams.plans, title)


def _example_plan() -> StreamPlan:
    return stream_plan("ring:4", "s0", "s2", faults=["s0->s1@2-3"], duration_s=4, rate_pps=200)


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

# One stream, as the library runs it.
STREAM = Workload(
    name="stream",
    plan=StreamPlan,
    carry=_carry_stream,
    judge=_JUDGE,
    keeps=_stored_stream,
    example=_example_plan,
)

# Streams at the same time, as commands run them.
STREAMS = Workload(
    name="stream",
    plan=StreamsPlan,
    foreseen=_foresee,
    carry=carry_streams,
    judge=_judge_together,
    spreads=True,
    keeps=_STORED,
    view=_view,
    closing=lazily("testbed.stream.judgement.closing_lines:closing_words"),
)

# A probe of a block size by the command ``stream``. Nothing of it is stored.
PROBE: Workload[ProbePlan, list[tuple[StreamPlan, StreamMeasurements]]] = Workload(
    name="probe",
    plan=ProbePlan,
    foreseen=lazily("testbed.stream.probe:foreseen"),
    carry=lazily("testbed.stream.probe:run_probe"),
    judge=lazily("testbed.stream.probe:judge_probe_runs"),
    view=_probe_view,
    shown=_probe_lines,
    keeps=_not_stored,
)

# A stream while nodes move, by the command ``mobility``.
MOBILITY = replace(
    STREAMS,
    description=MOVING,
    command="testbed mobility manet:nodes=20,seed=3 --from n0 --to n19 --frames 4",
    options=MobilityOptions,
    build=_build_moving,
)
