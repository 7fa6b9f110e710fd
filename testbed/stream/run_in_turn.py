"""Streams that run one after another under one name: judged as they end, stored, judged together; and
what their live page draws."""

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
    """Several streams at once: loads are shares of the links' capacities, and M is the first one's. A stream by itself:
    its route, loads are shares of the stream, and each fault has the share that it takes by itself."""
    first = plans[0]
    loads: Counter[LinkId] = Counter()
    for plan in plans:
        loads.update({plan.network.links[i].id: plan.forward.load(i) for i in plan.forward.loaded})
    view = network_view(title, first.network, loads, first.faults, first.duration_s)
    view = replace(view, source_packets=first.stream.source_packets)
    if len(plans) > 1:
        return view
    intervals = {i: first.forward.intervals(i) for i in first.forward.loaded}
    return replace(
        view,
        links=session_record(first.exact_route, session=0, fabric="", intervals=intervals).links,
        faults=tuple(
            planned_fault_record(f, predicted_loss(f, loads), first.duration_s)
            for f in first.faults
        ),
        source=first.source,
        sink=first.sink,
        method=first.method,
        share="stream",
        parameters={
            name: value
            for name, value in asdict(first.stream).items()
            if isinstance(value, (int, float, str))
        },
    )


Titled = Sequence[tuple[str, StreamPlan]]
"""A title for the reader, and the plan of one stream, each."""


@dataclass(frozen=True, kw_only=True)
class SessionStudy(Subject):
    """A study of streams: each is judged as ``testbed stream`` judges it, all together are its verdict.
    ``sessions(quick, seed)`` gives them."""

    sessions: Callable[[bool, int], Titled]


def run_and_judge(
    plan: StreamPlan,
    fabric: StreamFabric,
    report_progress: ReportProgress | None = None,
    *,
    repeats_if_invalid: int = 0,
) -> StreamJudgement:
    """An invalid run (the machine could not keep up) is repeated at most so many times."""

    def once() -> StreamJudgement:
        return judge_stream(plan, fabric.run(plan, report_progress))

    return repeated(once, lambda judged: judged.verdict.invalid, repeats_if_invalid)


def run_in_turn(
    titled: Titled, fabric_name: str, results: Path, name: str, manifest: Manifest
) -> tuple[StreamsJudgement, Path]:
    """Run the streams in turn, and keep each as it ends; their judgement, and where they lie."""
    fabric, parts = open_fabric(fabric_name), []
    with ResultStore(results).new_run(name, manifest) as store:
        for number, (title, plan) in enumerate(titled):
            with live_progress(
                f"{number + 1}/{len(titled)} {title}", partial(streams_view, [plan], title)
            ) as progress:
                parts.append(run_and_judge(plan, fabric, progress, repeats_if_invalid=2))
            for record in parts[-1].records(number, title):
                store.add(record)
        return judge_together(parts, [title for title, _ in titled]), _finished(store, parts)


@contextmanager
def stored_streams(
    results: Path, name: str, manifest: Manifest
) -> Iterator[Callable[[StreamsJudgement], Path]]:
    """A place for streams that are about to run at once, and what keeps them there."""
    with ResultStore(results).new_run(name, manifest) as run:

        def keep(judged: StreamsJudgement) -> Path:
            for record in judged.records:
                run.add(record)
            return _finished(run, judged.parts)

        yield keep


def _finished(run: OpenRun, parts: Sequence[StreamJudgement]) -> Path:
    """The run's directory, once its manifest says what was run and what this machine can do."""
    plans = tuple(plan_to_json(part.plan) for part in parts)
    run.manifest = replace(run.manifest, plans=plans, capabilities=as_document(find_capabilities()))
    directory = run.finish()
    record_page_path(directory / "page.html")
    return directory
