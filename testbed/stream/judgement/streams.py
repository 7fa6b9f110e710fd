"""A finished stream, and several that ran at once, as judgements: what the command, the library and studies
read, and what a command prints of them when they are over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from testbed.model.run_records import Record, SessionRun, combined_verdict, group_sessions
from testbed.model.workload import Judgement
from testbed.report.wording import OUTCOMES, check_words
from testbed.stream.judgement.analysis import SessionAnalysis, analyse
from testbed.stream.judgement.records import session_records, stream_document
from testbed.stream.judgement.verdict import judge
from testbed.stream.measurements import StreamMeasurements
from testbed.stream.plan import StreamPlan
from testbed.stream.prediction.epoch_analysis import EpochsResult
from topologies.text.json_types import Json


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
    document: Json = {**first, **({"also": others} if others else {})}
    records = tuple(record for k, part in enumerate(parts) for record in part.records(k, titles[k]))
    return StreamsJudgement(
        verdict=combined_verdict(group_sessions(records)),
        document=document,
        rows=tuple(row for part in parts for row in part.rows),
        parts=tuple(parts),
        records=records,
    )


def closing_words(judged: StreamsJudgement) -> Iterator[object]:
    """Tables of ``rich`` and lines."""
    from testbed.report.tables import closing_table

    for session, part in zip(judged.sessions, judged.parts, strict=True):
        yield closing_table(session)
        if part.analysis.campaign is not None:
            yield from campaign_lines(part.analysis.campaign)
    for check in judged.verdict.checks:
        if not check.passed:
            yield f"{OUTCOMES[check.outcome].lower()}: {check.name}: {check_words(check)}"


def campaign_lines(campaign: EpochsResult) -> Iterator[str]:
    """Frames and outages, one a line."""
    frames = campaign.frames if len(campaign.frames) > 1 else ()
    if frames:
        yield "frame   from s   packets  predicted %  measured %  links gone  change ms"
    for part in frames:
        change = "" if part.change_s is None else f"{1000 * part.change_s:.0f}"
        yield (
            f"{part.frame:5d} {part.start_s:8.1f} {part.packets:9d} {100 * part.predicted_loss:12.2f} "
            f"{100 * part.measured_loss:11.2f} {part.lost_links:11d} {change:>10s}"
        )
    yield (
        f"{campaign.faults} faults, up to {campaign.most_at_once} at once; {campaign.failing_s:.1f} s with failures, "
        f"{campaign.overlapping_s:.1f} s of that with several"
    )
    for one in campaign.outages:
        needed = "no N" if one.needed is None else f"N = {one.needed}"
        yield (
            f"beyond reach ({one.reason}): {one.start_s:.2f} to {one.stop_s:.2f} s, loss {100 * one.loss:.1f} %, "
            f"{needed} would help; of {one.blocks} open blocks {one.predicted} to {one.predicted_most} predicted "
            f"undecodable, {one.measured} were"
        )
