"""Several sessions as one run: stored as they end, judged together, closed with a table and a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from testbed.emulation.machine.capabilities import as_document, find_capabilities
from testbed.emulation.machine.provenance import describe_run
from testbed.live.adapters.feed import live_progress, record_page_path
from testbed.model.routes import SplitRoute
from testbed.model.run_records import LoadedRun, combined_verdict
from testbed.model.verdict import Verdict
from testbed.results.result_store import ResultStore
from testbed.stream.fabric import EmulationOptions, StreamFabric
from testbed.stream.judgement.records import stream_document
from testbed.stream.live_view import stream_view, streams_view
from testbed.stream.plan import StreamPlan
from testbed.stream.plan_json import plan_to_json
from testbed.stream.session import (
    MobilityRequest,
    Session,
    SessionRequest,
    open_fabric,
    plan_session,
    plans_together,
    run_session,
    run_sessions_together,
)


@dataclass(frozen=True, kw_only=True)
class RunBatch:
    """What to run under one name; ``titles`` name the sessions for the reader, one each. ``together``: all streams at once on
    the first one's network, under its faults."""

    name: str
    command: str
    requests: tuple[SessionRequest | MobilityRequest, ...]
    titles: tuple[str, ...]
    seed: int = 1
    repeats_if_invalid: int = 0
    together: bool = False
    study: Mapping[str, Any] = field(default_factory=dict)
    """What a study's page says of it (``Manifest.study``)."""


@dataclass(frozen=True, kw_only=True)
class RunBatchResult:
    """``run`` as the result store would load it; ``directory`` is where it lies."""

    sessions: tuple[Session, ...]
    run: LoadedRun
    verdict: Verdict
    directory: Path

    def documents(self) -> list[dict[str, Any]]:
        """One ``testbed stream --json`` object a session."""
        return [stream_document(s.plan, s.run, s.analysis, s.verdict) for s in self.sessions]


def run_suite(
    suite: RunBatch, fabric_name: str, results: Path, **fabric_options: Unpack[EmulationOptions]
) -> RunBatchResult:
    """Plan all sessions, then run them in turn or together. One that cannot be planned ends the suite before anything is
    done or stored."""
    if suite.together:
        plans = plans_together([request for request in suite.requests if isinstance(request, SessionRequest)])
    else:
        plans = [plan_session(request) for request in suite.requests]
    fabric = open_fabric(fabric_name, **fabric_options)
    manifest = replace(describe_run(command=suite.command, seed=suite.seed), study=suite.study)
    sessions: list[Session] = []
    with ResultStore(results).new_run(suite.name, manifest) as run:
        for session in _sessions(suite, plans, fabric):
            for record in session.records(len(sessions), suite.titles[len(sessions)]):
                run.add(record)
            sessions.append(session)
        run.manifest = replace(
            run.manifest,
            plans=tuple(plan_to_json(session.plan) for session in sessions),
            capabilities=as_document(find_capabilities()),
        )
        directory = run.finish()
        record_page_path(directory / "page.html")
        loaded = run.loaded()
    verdict = combined_verdict(loaded.sessions)
    return RunBatchResult(sessions=tuple(sessions), run=loaded, verdict=verdict, directory=directory)


def _sessions(
    suite: RunBatch, plans: Sequence[tuple[StreamPlan, SplitRoute]], fabric: StreamFabric
) -> Iterator[Session]:
    if suite.together:
        title = f"{len(plans)} streams at once"
        with live_progress(title, partial(streams_view, [plan for plan, _ in plans], title)) as report_progress:
            sessions = run_sessions_together(plans, fabric, report_progress)
        yield from sessions
        return
    for index, ((plan, route), title) in enumerate(zip(plans, suite.titles, strict=True)):
        named = f"{index + 1}/{len(suite.requests)} {title}"
        with live_progress(named, partial(stream_view, plan, route, title)) as report_progress:
            session = run_session(plan, route, fabric, report_progress, repeats_if_invalid=suite.repeats_if_invalid)
        yield session
