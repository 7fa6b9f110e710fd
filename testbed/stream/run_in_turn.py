"""Runs streams one after another under one name.

Each stream is judged and stored when it ends, and all are judged together at the end. The module
also makes the contents of the live page of streams.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from testbed.emulation.machine.capabilities import as_document, find_capabilities
from testbed.live.adapters.feed import live_progress, record_page_path
from testbed.live.events import RunView
from testbed.live.run_views import network_view, planned_fault_record, predicted_loss
from testbed.model.progress import ReportProgress
from testbed.model.run_records import Manifest, session_record
from testbed.model.studies.study import Subject
from testbed.model.verdict import repeated
from testbed.results.result_store import OpenRun, ResultStore
from testbed.stream.fabric import StreamFabric, open_fabric
from testbed.stream.judgement.streams import (
    StreamJudgement,
    StreamsJudgement,
    judge_stream,
    judge_together,
)
from testbed.stream.plan import StreamPlan, plan_to_json
from topologies import LinkId


def streams_view(plans: Sequence[StreamPlan], title: str) -> RunView:
    """Return the contents of the live page of streams that run at the same time.

    The page of a single stream shows its route. The loads are shares of the stream, and each fault
    has the share that it loses alone. The page of several streams shows shares of the links'
    capacities, and M of the first stream.

    Args:
        plans: The plans of the streams.
        title: The title of the page.
    """
    first = plans[0]
    loads: Counter[LinkId] = Counter()
    for plan in plans:
        for index in plan.forward.loaded:
            loads.update({plan.network.links[index].id: plan.forward.load(index)})
    view = network_view(title, first.network, loads, first.faults, first.duration_s)
    view = replace(view, source_packets=first.stream.source_packets)
    if len(plans) > 1:
        return view
    intervals = {index: first.forward.intervals(index) for index in first.forward.loaded}
    route = session_record(first.exact_route, session=0, fabric="", intervals=intervals)
    faults = []
    for fault in first.faults:
        loss = predicted_loss(fault, loads)
        faults.append(planned_fault_record(fault, loss, first.duration_s))
    parameters = {}
    for name, value in asdict(first.stream).items():
        if isinstance(value, (int, float, str)):
            parameters[name] = value
    return replace(
        view,
        links=route.links,
        faults=tuple(faults),
        source=first.source,
        sink=first.sink,
        method=first.method,
        share="stream",
        parameters=parameters,
    )


# The title and the plan of each stream.
Titled = Sequence[tuple[str, StreamPlan]]


@dataclass(frozen=True, kw_only=True)
class SessionStudy(Subject):
    """A study of streams.

    Each stream is judged as by ``testbed stream``. The verdict of the study covers all.

    Attributes:
        sessions: Returns the streams, given whether the study is a quick one, and the seed.
    """

    sessions: Callable[[bool, int], Titled]


def run_and_judge(
    plan: StreamPlan,
    fabric: StreamFabric,
    report_progress: ReportProgress | None = None,
    *,
    repeats_if_invalid: int = 0,
) -> StreamJudgement:
    """Run and judge one stream.

    Args:
        plan: The plan of the stream.
        fabric: The fabric.
        report_progress: Receives the progress.
        repeats_if_invalid: How often an invalid run is repeated at most. A run is invalid if the
            machine did not keep up.
    """

    def once() -> StreamJudgement:
        return judge_stream(plan, fabric.run(plan, report_progress))

    def invalid_reason(judgement: StreamJudgement) -> str | None:
        return judgement.verdict.invalid

    return repeated(once, invalid_reason, repeats_if_invalid)


def run_in_turn(
    titled: Titled, fabric_name: str, results: Path, name: str, manifest: Manifest
) -> tuple[StreamsJudgement, Path]:
    """Run streams one after another, and store each when it ends.

    Args:
        titled: The titles and the plans of the streams.
        fabric_name: "emulation" or "simulator".
        results: The directory of all results.
        name: The name of the run.
        manifest: The manifest of the run.

    Returns:
        The judgement of all streams, and the directory of the run.
    """
    fabric = open_fabric(fabric_name)
    judgements = []
    with ResultStore(results).new_run(name, manifest) as store:
        for number, (title, plan) in enumerate(titled):
            heading = f"{number + 1}/{len(titled)} {title}"
            view = partial(streams_view, [plan], title)
            with live_progress(heading, view) as progress:
                judgement = run_and_judge(plan, fabric, progress, repeats_if_invalid=2)
            judgements.append(judgement)
            for record in judgement.records(number, title):
                store.add(record)
        together = judge_together(judgements, [title for title, _ in titled])
        return together, _finish(store, judgements)


@contextmanager
def stored_streams(
    results: Path, name: str, manifest: Manifest
) -> Iterator[Callable[[StreamsJudgement], Path]]:
    """Open a run for streams that run at the same time.

    Args:
        results: The directory of all results.
        name: The name of the run.
        manifest: The manifest of the run.

    Yields:
        A function that stores the judgement of the streams and returns the directory of the run.
    """
    with ResultStore(results).new_run(name, manifest) as run:

        def store(judgement: StreamsJudgement) -> Path:
            for record in judgement.records:
                run.add(record)
            return _finish(run, judgement.parts)

        yield store


def _finish(run: OpenRun, judgements: Sequence[StreamJudgement]) -> Path:
    """Complete the manifest of a run, finish the run, and return its directory."""
    plans = tuple(plan_to_json(judgement.plan) for judgement in judgements)
    run.manifest = replace(run.manifest, plans=plans, capabilities=as_document(find_capabilities()))
    directory = run.finish()
    record_page_path(directory / "page.html")
    return directory
