"""A finished stream, and several that ran at once, as judgements: what the command, the library and studies
read, and what a command prints of them when they are over."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields

from fec.redundancy.label_layout import label_layout
from testbed.judgement.documents import document_head
from testbed.model.json_values import json_ready, located
from testbed.model.label_split import LABELS
from testbed.model.machine.load import as_figures
from testbed.model.run_records import (
    FaultOutcome,
    FaultRecord,
    Record,
    SessionRun,
    SummaryRecord,
    combined_verdict,
    group_sessions,
    session_record,
)
from testbed.model.verdict import IMPOSSIBLE, Verdict
from testbed.model.workload import Judgement
from testbed.report.wording import OUTCOMES, check_words
from testbed.routing.label_split.spraying import interval_groups
from testbed.stream.impaired.checks import packets_needed, span_label
from testbed.stream.impaired.traversals import GUARD_S
from testbed.stream.judgement.analysis import Analysis
from testbed.stream.judgement.fault_figures import FaultResult
from testbed.stream.judgement.overview import timeline, whole_route_rors
from testbed.stream.judgement.packet_logs import undecided_arrivals
from testbed.stream.judgement.packet_totals import packet_totals
from testbed.stream.judgement.run_figures import EpochsResult, base_block_size
from testbed.stream.judgement.verdict import judge
from testbed.stream.measurements import ONE_CLOCK, StreamMeasurements
from testbed.stream.plan import StreamPlan
from testbed.stream.prediction.active_faults import (
    DIAGNOSES,
    is_campaign,
    stream_spans,
)
from testbed.stream.prediction.block_size_policy import block_size_policy
from testbed.stream.prediction.loss_by_path import REPORTS
from testbed.stream.prediction.path_delays import delay_to_fault_s
from topologies import Json, JsonObject, label_of


@dataclass(frozen=True, kw_only=True)
class StreamJudgement(Judgement):
    """One run of one plan, and what was found in it. ``rows``: one a fault."""

    plan: StreamPlan
    run: StreamMeasurements
    analysis: Analysis

    def records(self, session: int, title: str) -> list[Record]:
        """What is kept of it, its faults, timeline and summary; ``session`` numbers the streams of a run."""
        plan, found, document = self.plan, self.analysis, self.document
        head = session_record(
            plan.exact_route,
            session=session,
            fabric=self.run.fabric,
            intervals={i: plan.forward.intervals(i) for i in plan.forward.loaded},
            title=title,
            parameters=asdict(plan.stream)
            | {"seed": plan.seed, "tolerated": found.theory.policy.base},
            duration_s=plan.duration_s,
        )
        ending = SummaryRecord(
            session=session,
            verdict=self.verdict,
            ror_predicted=document["ror"]["predicted"] or 0.0,
            ror_measured=document["ror"]["measured"] or 0.0,
            infinite_links=tuple(document["infinite_links"]),
            base_block_size=base_block_size(found),
            figures=document["figures"]
            | {"per_path": document["per_path"], "packets": document["packets"]},
        )
        faults = [fault_record(session, fault, self.verdict) for fault in found.faults]
        return [head, *faults, timeline(self.analysis, session), ending]


def fault_record(index: int, fault: FaultResult, verdict: Verdict) -> FaultRecord:
    """The fault's figures with what all its checks say together."""
    passed, diagnosis = (
        verdict.passed_about(fault.about),
        None if fault.diagnosis is None else asdict(fault.diagnosis),
    )
    known = {one.name: getattr(fault, one.name) for one in fields(FaultOutcome)}
    return FaultRecord(session=index, passed=passed, diagnosis=diagnosis, **known)


def judgement_of(analysis: Analysis, verdict: Verdict) -> StreamJudgement:
    """With the object that ``testbed stream --json`` prints; infinite values are null, with the links named."""
    plan, run, epochs = analysis.plan, analysis.run, analysis.epochs_result
    stated, order, infinite = whole_route_rors(analysis)
    safe = analysis.safe
    document: JsonObject = {
        **document_head(run.fabric, plan, method=plan.method),
        "per_fault": [
            fault.to_json() | {"passed": verdict.passed_about(fault.about)}
            for fault in analysis.faults
        ],
        "per_path": [path.to_json() for path in analysis.paths],
        "ror": {
            **_ror(analysis),
            "links": len(analysis.faults),
            "whole_route_predicted": None if infinite else stated if order is None else order,
            "eq23": stated,
            "label_order": order,
            "labels": plan.stream.labels,
            "source_packets": plan.stream.source_packets,
            "static_tolerance": plan.stream.tolerance,
            "decoding_error_rate": plan.stream.decoding_error_rate,
        },
        "infinite_links": list(infinite),
        "packets": packet_totals(analysis),
        "figures": {
            "policy": analysis.theory.policy.name,
            "base_block_size": {
                "predicted": analysis.theory.policy.base,
                "measured": base_block_size(analysis),
            },
            "packets_sent": len(run.sent.time_s),
            "packets_received": len(run.received.time_s),
            "packets_lost_outside_faults": epochs.wrongly_lost,
            "blocks": len(run.blocks.block),
            "blocks_undecodable_outside_faults": int((safe & run.never_complete).sum()),
            "sender_lag_s": run.health.sender_lag_s,
            "unplanned_drops": run.health.unplanned_drops,
            "timing_errors": as_figures(analysis.lateness),
            "cpu_fraction": run.health.cpu_fraction,
            "loaded_links": len(plan.forward.loaded),
            **_clocks(analysis),
            **_layout(analysis),
            **({"epochs": json_ready(epochs)} if not analysis.theory.faults_alone else {}),
            **{
                name: value
                for name, value in run.counters.items()
                if name not in (REPORTS, DIAGNOSES)
            },
        },
        "verdict": verdict.to_json(),
    }
    rows = tuple(document["per_fault"])
    return StreamJudgement(
        verdict=verdict, document=document, rows=rows, plan=plan, run=run, analysis=analysis
    )


def _ror(facts: Analysis) -> dict[str, float | None]:
    """Null where theory predicts none: without a fault that a block size answers, and with impairments. Where faults
    meet or nodes move, the redundancies."""
    names = ("predicted", "measured", "tolerance", "error")
    if facts.theory.impaired_spans:
        return dict.fromkeys(names)
    if not facts.theory.faults_alone and facts.run.faults:
        found = facts.epochs_result
        figures = (found.redundancy_predicted, found.redundancy_measured, found.ror_tolerance, 0.0)
        return dict(zip(names, figures, strict=True))
    answered = any(fault.predicted_block_size is not None for fault in facts.faults)
    return {name: getattr(facts.ror, name) if answered else None for name in names}


def _clocks(facts: Analysis) -> JsonObject:
    """How far the clocks of several machines can be off, and what they leave undecided; nothing where one clock told
    all."""
    run = facts.run
    if run.clocks == ONE_CLOCK:
        return {}
    undecided = undecided_arrivals(
        run.deliveries, facts.plan.stream.playback_s, run.clocks.end_to_end_s
    )
    return {"clocks": asdict(run.clocks) | {"arrivals_undecided_at_playback": undecided}}


def _layout(facts: Analysis) -> JsonObject:
    """How far the order of labels is from what none can beat, where losses follow from labels."""
    plan, stream = facts.plan, facts.plan.stream
    if not facts.theory.deterministic or plan.changes:
        return {}
    layout = label_layout(
        interval_groups(plan.forward), stream.source_packets, stream.tolerance, stream.label_rule
    )
    return {"label_layout": asdict(layout)}


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


@located("the stream's measurements cannot be those of its plan", kinds=IMPOSSIBLE)
def judge_stream(plan: StreamPlan, run: StreamMeasurements) -> StreamJudgement:
    """What the measurements say of the plan's predictions."""
    facts = Analysis(plan, run)
    return judgement_of(facts, judge(facts))


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
        if not part.analysis.theory.faults_alone:
            yield from campaign_lines(part.analysis.epochs_result)
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


def foreseen(plan: StreamPlan) -> Iterator[str]:
    """A line for each fault and impaired link of which so few packets cannot tell, with what it takes."""
    stream, spans = plan.stream, stream_spans(plan)
    least_pps = (
        stream.rate_pps
        * (stream.block_size or block_size_policy(plan).base)
        / stream.source_packets
    )
    for span in spans:
        others = {
            o.link
            for o in spans
            if o is not span and o.start_s < span.stop_s and span.start_s < o.stop_s
        }
        crossing = [path for path in plan.forward.paths if span.link in path.links]
        alone = (
            sum(path.stop - path.start for path in crossing if others.isdisjoint(path.links))
            / LABELS
        )
        begins_s = 0.0 if span.fault is None else span.start_s + GUARD_S
        lasts_s = max(
            0.0, min(span.stop_s, plan.duration_s - stream.playback_s) - GUARD_S - begins_s
        )
        packets, needed = int(least_pps * alone * lasts_s), packets_needed(span.impairments)
        if crossing and packets < needed:
            more = (
                "no number of packets is enough" if math.isinf(needed) else f"it takes {needed:.0f}"
            )
            yield f"{span_label(plan, span)}: some {packets} packets will meet nothing but it, and {more}"
    for fault in () if spans or is_campaign(plan) else plan.faults:
        empty_s = 2 * stream.block_s + delay_to_fault_s(plan, fault)
        if min(fault.stop_s, plan.duration_s) - fault.start_s <= empty_s:
            yield f"{label_of(fault.link)} {fault.kind}: it has to last longer than {empty_s:g} s for packets to count"
