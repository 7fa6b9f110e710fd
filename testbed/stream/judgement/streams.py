"""The judgement of one stream, and of several streams of one run.

A judgement has the verdict, the JSON document and the records for the result store.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields

from fec.redundancy.label_layout import label_layout
from testbed.judgement.documents import document_head
from testbed.model.json_values import json_ready, prefix_errors
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
from testbed.routing.label_split.spraying import interval_groups
from testbed.stream.judgement.analysis import Analysis
from testbed.stream.judgement.fault_figures import FaultResult
from testbed.stream.judgement.overview import timeline, whole_route_rors
from testbed.stream.judgement.packet_logs import undecided_arrivals
from testbed.stream.judgement.packet_totals import packet_totals
from testbed.stream.judgement.run_figures import base_block_size
from testbed.stream.judgement.verdict import judge
from testbed.stream.measurements import ONE_CLOCK, StreamMeasurements
from testbed.stream.plan import StreamPlan
from testbed.stream.prediction.active_faults import DIAGNOSES
from testbed.stream.prediction.loss_by_path import REPORTS
from topologies import Json, JsonObject


@dataclass(frozen=True, kw_only=True)
class StreamJudgement(Judgement):
    """The judgement of one run of one plan; it has a row for each fault."""

    plan: StreamPlan
    run: StreamMeasurements
    analysis: Analysis

    def records(self, session: int, title: str) -> list[Record]:
        """Return what is stored: the stream, its faults, its timeline and its summary.

        Args:
            session: The number of the stream in its run.
            title: The name of the stream for people.
        """
        plan = self.plan
        facts = self.analysis
        parameters = asdict(plan.stream)
        parameters["seed"] = plan.seed
        parameters["tolerated"] = facts.theory.policy.base
        head = session_record(
            plan.exact_route,
            session=session,
            fabric=self.run.fabric,
            intervals={i: plan.forward.intervals(i) for i in plan.forward.loaded},
            title=title,
            parameters=parameters,
            duration_s=plan.duration_s,
        )
        faults = [fault_record(session, fault, self.verdict) for fault in facts.faults]
        return [
            head,
            *faults,
            timeline(facts, session),
            self._summary(session),
        ]

    def _summary(self, session: int) -> SummaryRecord:
        document = self.document
        figures = dict(document["figures"])
        figures["per_path"] = document["per_path"]
        figures["packets"] = document["packets"]
        return SummaryRecord(
            session=session,
            verdict=self.verdict,
            ror_predicted=document["ror"]["predicted"] or 0.0,
            ror_measured=document["ror"]["measured"] or 0.0,
            infinite_links=tuple(document["infinite_links"]),
            base_block_size=base_block_size(self.analysis),
            figures=figures,
        )


def fault_record(index: int, fault: FaultResult, verdict: Verdict) -> FaultRecord:
    """Return the record of a fault: its figures, and whether all its checks passed.

    Args:
        index: The number of the stream in its run, not of the fault.
        fault: The figures of the fault.
        verdict: The verdict on the stream.
    """
    diagnosis = None
    if fault.diagnosis is not None:
        diagnosis = asdict(fault.diagnosis)
    outcome = {field.name: getattr(fault, field.name) for field in fields(FaultOutcome)}
    passed = verdict.passed_about(fault.about)
    return FaultRecord(session=index, passed=passed, diagnosis=diagnosis, **outcome)


def judgement_of(facts: Analysis, verdict: Verdict) -> StreamJudgement:
    """Return the judgement with the document that ``testbed stream --json`` prints.

    Infinite values are null, and the document names their links.
    """
    plan = facts.plan
    run = facts.run
    rows = []
    for fault in facts.faults:
        row = fault.to_json()
        row["passed"] = verdict.passed_about(fault.about)
        rows.append(row)
    stated, order, infinite = whole_route_rors(facts)
    document: JsonObject = {
        **document_head(run.fabric, plan, method=plan.method),
        "per_fault": rows,
        "per_path": [path.to_json() for path in facts.paths],
        "ror": {
            **_ror(facts),
            "links": len(facts.faults),
            "whole_route_predicted": _whole_route(stated, order, infinite),
            "eq23": stated,
            "label_order": order,
            "labels": plan.stream.labels,
            "source_packets": plan.stream.source_packets,
            "static_tolerance": plan.stream.tolerance,
            "decoding_error_rate": plan.stream.decoding_error_rate,
        },
        "infinite_links": list(infinite),
        "packets": packet_totals(facts),
        "figures": _figures(facts),
        "verdict": verdict.to_json(),
    }
    return StreamJudgement(
        verdict=verdict,
        document=document,
        rows=tuple(rows),
        plan=plan,
        run=run,
        analysis=facts,
    )


def _whole_route(
    for_random_labels: float,
    for_order: float | None,
    infinite: Sequence[str],
) -> float | None:
    """Return ROR over all links of the route, or None if it is infinite.

    Args:
        for_random_labels: ROR for random labels.
        for_order: ROR for the stream's order of labels, which takes precedence; None if it is
            unknown.
        infinite: The links whose failure no code repairs.
    """
    if infinite:
        return None
    return for_random_labels if for_order is None else for_order


def _ror(facts: Analysis) -> dict[str, float | None]:
    """Return ROR over the faults, or the redundancies if faults overlap or nodes move.

    The figures are None if they are not predicted: with impairments, or if no N repairs the losses
    of any fault.
    """
    names = ("predicted", "measured", "tolerance", "error")
    if facts.theory.impaired_spans:
        return dict.fromkeys(names)
    if not facts.theory.faults_alone and facts.run.faults:
        result = facts.epochs_result
        return {
            "predicted": result.redundancy_predicted,
            "measured": result.redundancy_measured,
            "tolerance": result.ror_tolerance,
            "error": 0.0,
        }
    if any(fault.predicted_block_size is not None for fault in facts.faults):
        return {name: getattr(facts.ror, name) for name in names}
    return dict.fromkeys(names)


def _figures(facts: Analysis) -> JsonObject:
    """Return the figures of the machine, the sender and the packets."""
    run = facts.run
    undecodable = int((facts.safe & run.never_complete).sum())
    figures: JsonObject = {
        "policy": facts.theory.policy.name,
        "base_block_size": {
            "predicted": facts.theory.policy.base,
            "measured": base_block_size(facts),
        },
        "packets_sent": len(run.sent.time_s),
        "packets_received": len(run.received.time_s),
        "packets_lost_outside_faults": facts.epochs_result.wrongly_lost,
        "blocks": len(run.blocks.block),
        "blocks_undecodable_outside_faults": undecodable,
        "sender_lag_s": run.health.sender_lag_s,
        "unplanned_drops": run.health.unplanned_drops,
        "timing_errors": as_figures(facts.lateness),
        "cpu_fraction": run.health.cpu_fraction,
        "loaded_links": len(facts.plan.forward.loaded),
        **_clocks(facts),
        **_layout(facts),
    }
    if not facts.theory.faults_alone:
        figures["epochs"] = json_ready(facts.epochs_result)
    for name, value in run.counters.items():
        if name not in (REPORTS, DIAGNOSES):
            figures[name] = value
    return figures


def _clocks(facts: Analysis) -> JsonObject:
    """Return the uncertainty of the machines' clocks, and the packets that it leaves undecided.

    The result is empty if one clock gave all times.
    """
    run = facts.run
    if run.clocks == ONE_CLOCK:
        return {}
    playback_s = facts.plan.stream.playback_s
    undecided = undecided_arrivals(run.deliveries, playback_s, run.clocks.end_to_end_s)
    clocks = asdict(run.clocks)
    clocks["arrivals_undecided_at_playback"] = undecided
    return {"clocks": clocks}


def _layout(facts: Analysis) -> JsonObject:
    """Return N for the stream's order of labels, compared with the lower bound of any order.

    The result is empty if labels do not determine the losses, or if routes change.
    """
    plan = facts.plan
    stream = plan.stream
    if not facts.theory.deterministic or plan.changes:
        return {}
    groups = interval_groups(plan.forward)
    layout = label_layout(groups, stream.source_packets, stream.tolerance, stream.label_rule)
    return {"label_layout": asdict(layout)}


@dataclass(frozen=True, kw_only=True)
class StreamsJudgement(Judgement):
    """The judgement of all streams of one run.

    Each check of the verdict has the title of its stream. The document is that of the first stream;
    the key ``also`` contains the documents of the others.
    """

    parts: tuple[StreamJudgement, ...]
    records: tuple[Record, ...]

    @property
    def sessions(self) -> tuple[SessionRun, ...]:
        """The records, grouped by stream as in a stored run."""
        return group_sessions(self.records)


@prefix_errors("the stream's measurements cannot be those of its plan", kinds=IMPOSSIBLE)
def judge_stream(plan: StreamPlan, run: StreamMeasurements) -> StreamJudgement:
    """Return the judgement of a run of the plan."""
    facts = Analysis(plan, run)
    return judgement_of(facts, judge(facts))


def judge_together(parts: Sequence[StreamJudgement], titles: Sequence[str]) -> StreamsJudgement:
    """Return one judgement of all streams of a run."""
    records: list[Record] = []
    rows: list[Json] = []
    for number, (part, title) in enumerate(zip(parts, titles, strict=True)):
        records += part.records(number, title)
        rows += part.rows
    document = dict(parts[0].document)
    if len(parts) > 1:
        document["also"] = [part.document for part in parts[1:]]
    return StreamsJudgement(
        verdict=combined_verdict(group_sessions(records)),
        document=document,
        rows=tuple(rows),
        parts=tuple(parts),
        records=tuple(records),
    )
