"""A finished stream, and several that ran at once, as judgements: what the command, the library and studies read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from testbed.model.run_records import Record, SessionRun, combined_verdict, group_sessions
from testbed.model.workload import Judgement
from testbed.stream.judgement.analysis import SessionAnalysis, analyse
from testbed.stream.judgement.records import session_records, stream_document
from testbed.stream.judgement.verdict import judge
from testbed.stream.measurements import StreamMeasurements
from testbed.stream.plan import StreamPlan


@dataclass(frozen=True, kw_only=True)
class StreamJudgement(Judgement):
    """One run of one plan, and what was found in it. ``rows``: one a fault."""

    plan: StreamPlan
    run: StreamMeasurements
    analysis: SessionAnalysis

    def records(self, session: int, title: str) -> list[Record]:
        """What is kept of it; ``session`` numbers the streams of a run."""
        return session_records(session, title, self.plan, self.run, self.analysis, self.verdict)


@dataclass(frozen=True, kw_only=True)
class StreamsJudgement(Judgement):
    """Streams of one run, together. ``verdict``: each check under its stream's title; ``document``: the first one's,
    others ``also``."""

    parts: tuple[StreamJudgement, ...]
    records: tuple[Record, ...]

    @property
    def sessions(self) -> tuple[SessionRun, ...]:
        """What is kept, as a reader would load it."""
        return group_sessions(self.records)


def judge_stream(plan: StreamPlan, run: StreamMeasurements) -> StreamJudgement:
    """What the measurements say of the plan's predictions."""
    analysis = analyse(plan, run)
    verdict = judge(plan, run, analysis)
    document = stream_document(plan, run, analysis, verdict)
    rows = tuple(document["per_fault"])
    return StreamJudgement(verdict=verdict, document=document, rows=rows, plan=plan, run=run, analysis=analysis)


def judge_together(parts: Sequence[StreamJudgement], titles: Sequence[str]) -> StreamsJudgement:
    """One judgement of all of them."""
    first, *others = (part.document for part in parts)
    document: Mapping[str, Any] = {**first, **({"also": others} if others else {})}
    records = tuple(record for k, part in enumerate(parts) for record in part.records(k, titles[k]))
    return StreamsJudgement(
        verdict=combined_verdict(group_sessions(records)),
        document=document,
        rows=tuple(row for part in parts for row in part.rows),
        parts=tuple(parts),
        records=records,
    )
