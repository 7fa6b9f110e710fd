"""One streaming session from request to verdict on a chosen fabric; what stream, demo and the experiments share."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Unpack

from testbed.emulation.machine.fabric import choose_fabric as choose_fabric
from testbed.model.progress import ReportProgress
from testbed.model.routes import SplitRoute
from testbed.model.run_records import Record
from testbed.stream.fabric import EmulationOptions, StreamFabric
from testbed.stream.judgement.analysis import analyse
from testbed.stream.judgement.records import JudgedRun, session_records
from testbed.stream.judgement.verdict import judge
from testbed.stream.measurements import StreamMeasurements
from testbed.stream.mobility import MobilityOptions, mobility_plan
from testbed.stream.plan import StreamPlan
from testbed.stream.planning import PlanOptions, build_plan, check_concurrent
from topologies import load_network


@dataclass(frozen=True, kw_only=True)
class SessionRequest(PlanOptions):
    """What a user asks of one stream; ``network`` is a catalogue name or a file."""

    network: str
    source: str
    sink: str


@dataclass(frozen=True, kw_only=True)
class MobilityRequest(MobilityOptions):
    """One stream while nodes move: ``networks`` are the frames in order, catalogue names or files of the same nodes."""

    networks: tuple[str, ...]
    source: str
    sink: str


@dataclass(frozen=True, kw_only=True)
class Session(JudgedRun):
    """A finished session. ``attempts`` counts runs, the invalid ones that were repeated included."""

    attempts: int = 1

    def records(self, index: int, title: str) -> list[Record]:
        return session_records(index, title, self)


def plan_session(request: SessionRequest | MobilityRequest) -> tuple[StreamPlan, SplitRoute]:
    """The plan and the route that its predictions come from. Raises InputError or TopologyError before anything is done."""
    if isinstance(request, MobilityRequest):
        return mobility_plan([load_network(name) for name in request.networks], request.source, request.sink, request)
    return build_plan(load_network(request.network), request.source, request.sink, request)


def run_session(
    plan: StreamPlan,
    route: SplitRoute,
    fabric: StreamFabric,
    report_progress: ReportProgress | None = None,
    *,
    repeats_if_invalid: int = 0,
) -> Session:
    """Run, analyse, judge. An invalid run (the machine could not keep up) is repeated at most so many times."""
    for attempt in itertools.count(1):
        session = judged_session(plan, route, fabric.run(plan, report_progress), attempt)
        if session.verdict.invalid is None or attempt > repeats_if_invalid:
            break
    return session


def judged_session(plan: StreamPlan, route: SplitRoute, run: StreamMeasurements, attempt: int = 1) -> Session:
    """A run with its analysis and verdict."""
    analysis = analyse(plan, run)
    verdict = judge(plan, run, analysis)
    return Session(plan=plan, route=route, run=run, analysis=analysis, verdict=verdict, attempts=attempt)


def run_sessions_together(
    plans: Sequence[tuple[StreamPlan, SplitRoute]], fabric: StreamFabric, report_progress: ReportProgress | None = None
) -> tuple[Session, ...]:
    """All streams at once on one network; each has its own analysis and verdict."""
    runs = fabric.run_concurrently([plan for plan, _ in plans], report_progress)
    return tuple(judged_session(plan, route, run) for (plan, route), run in zip(plans, runs, strict=True))


def plans_together(requests: Sequence[SessionRequest]) -> list[tuple[StreamPlan, SplitRoute]]:
    """Plans that can run at once: the first one's faults and length hold for all, each has a seed of its own."""
    first, route = plan_session(requests[0])
    others = [
        plan_session(replace(request, faults=first.faults, duration_s=first.duration_s, seed=request.seed + k))
        for k, request in enumerate(requests[1:], start=1)
    ]
    plans = [(first, route), *others]
    check_concurrent([plan for plan, _ in plans])
    return plans


def open_fabric(name: str, **options: Unpack[EmulationOptions]) -> StreamFabric:
    """The fabric of that name; emulation must be called inside the sandbox."""
    if name == "simulator":
        from testbed.stream.simulated import SimulatedStreamFabric

        return SimulatedStreamFabric()
    from testbed.stream.emulated.fabric import EmulatedStreamFabric

    return EmulatedStreamFabric(**options)
