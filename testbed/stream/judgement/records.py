"""A finished session as records (what the result store keeps and the page draws) and as the object ``--json``
prints."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

from fec.redundancy.label_layout import label_layout
from testbed.model.json_values import json_ready
from testbed.model.machine.load import as_figures
from testbed.model.run_records import FaultRecord, Record, SummaryRecord, session_record
from testbed.model.verdict import Verdict
from testbed.routing.label_split.spraying import interval_groups
from testbed.stream.judgement.analysis import SessionAnalysis, timeline, whole_route_rors
from testbed.stream.judgement.fault_results import FaultResult
from testbed.stream.judgement.packet_logs import undecided_arrivals
from testbed.stream.measurements import ONE_CLOCK, StreamMeasurements
from testbed.stream.plan import StreamPlan
from testbed.stream.prediction.active_faults import is_impaired
from testbed.stream.prediction.block_size_policy import is_deterministic
from testbed.stream.prediction.failure_candidates import DIAGNOSES
from testbed.stream.prediction.loss_by_path import REPORTS


def session_records(
    index: int, title: str, plan: StreamPlan, run: StreamMeasurements, analysis: SessionAnalysis, verdict: Verdict
) -> list[Record]:
    """The session, each of its faults, its timeline and its summary; ``index`` numbers the sessions of a run."""
    session = session_record(
        plan.exact_route,
        session=index,
        fabric=run.fabric,
        intervals={i: plan.forward.intervals(i) for i in plan.forward.loaded},
        title=title,
        parameters=asdict(plan.stream) | {"seed": plan.seed, "tolerated": analysis.policy.base},
        duration_s=plan.duration_s,
    )
    *_, infinite = whole_route_rors(plan, analysis.policy)
    per_path = [path.to_json() for path in analysis.paths]
    ending = SummaryRecord(
        session=index,
        verdict=verdict,
        ror_predicted=analysis.ror_predicted,
        ror_measured=analysis.ror_measured,
        infinite_links=infinite,
        base_block_size=analysis.base_block_size,
        figures=summary_figures(plan, run, analysis) | {"per_path": per_path},
    )
    faults = [fault_record(index, fault, verdict) for fault in analysis.faults]
    return [session, *faults, timeline(plan, run, index), ending]


def fault_record(index: int, fault: FaultResult, verdict: Verdict) -> FaultRecord:
    """The fault's figures with what all its checks say together."""
    passed = verdict.passed_about(fault.about)
    known = {f.name: getattr(fault, f.name) for f in fields(FaultRecord) if hasattr(fault, f.name)}
    return FaultRecord(session=index, **known | {"passed": passed, "diagnosis": fault.to_json()["diagnosis"]})


def stream_document(
    plan: StreamPlan, run: StreamMeasurements, analysis: SessionAnalysis, verdict: Verdict
) -> dict[str, Any]:
    """The object that ``testbed stream --json`` prints; infinite values are null, with the links named."""
    stated, order, infinite = whole_route_rors(plan, analysis.policy)
    return {
        "fabric": run.fabric,
        "network": plan.network.name,
        "source": plan.source,
        "sink": plan.sink,
        "method": plan.method,
        "seed": plan.seed,
        "per_fault": [fault.to_json() | {"passed": verdict.passed_about(fault.about)} for fault in analysis.faults],
        "per_path": [path.to_json() for path in analysis.paths],
        "ror": {
            **_ror(plan, analysis),
            "links": len(analysis.faults),
            "whole_route": None if infinite else stated if order is None else order,
            "eq23": stated,
            "label_order": order,
            "labels": plan.stream.labels,
            "m": plan.stream.source_packets,
            "static_tolerance": plan.stream.tolerance,
            "der": plan.stream.decoding_error_rate,
        },
        "infinite_links": list(infinite),
        "figures": summary_figures(plan, run, analysis),
        "verdict": verdict.to_json(),
    }


def _ror(plan: StreamPlan, analysis: SessionAnalysis) -> dict[str, float | None]:
    """Null where theory predicts none: without a fault that a block size answers, and with impairments."""
    names = ("predicted", "measured", "tolerance", "error")
    answered = any(fault.predicted_block_size is not None for fault in analysis.faults)
    failures = analysis.campaign.faults if analysis.campaign is not None else 0
    if is_impaired(plan) or not (answered or failures):
        return dict.fromkeys(names)
    return {name: getattr(analysis, f"ror_{name}") for name in names}


def summary_figures(plan: StreamPlan, run: StreamMeasurements, analysis: SessionAnalysis) -> dict[str, Any]:
    """Totals, health and counters of the run by name, JSON-ready."""
    return {
        "policy": analysis.policy.name,
        "base_block_size": {"predicted": analysis.policy.base, "measured": analysis.base_block_size},
        "packets_sent": analysis.sent,
        "packets_received": len(run.received.time_s),
        "packets_lost_outside_faults": analysis.lost_outside,
        "blocks": analysis.blocks,
        "blocks_undecodable_outside_faults": analysis.undecodable_outside,
        "sender_lag_s": run.health.sender_lag_s,
        "unplanned_drops": run.health.unplanned_drops,
        "lateness": as_figures(analysis.lateness),
        "cpu_fraction": run.health.cpu_fraction,
        "loaded_links": len(plan.forward.loaded),
        **_clocks(plan, run),
        **_layout(plan),
        **({"campaign": json_ready(analysis.campaign)} if analysis.campaign is not None else {}),
        **{name: value for name, value in run.counters.items() if name not in (REPORTS, DIAGNOSES)},
    }


def _clocks(plan: StreamPlan, run: StreamMeasurements) -> dict[str, Any]:
    """How far the clocks of several machines can be off, and what they leave undecided; nothing where one clock told
    all."""
    if run.clocks == ONE_CLOCK:
        return {}
    undecided = undecided_arrivals(run.deliveries, plan.stream.playback_s, run.clocks.end_to_end_s)
    return {"clocks": asdict(run.clocks) | {"arrivals_undecided_at_playback": undecided}}


def _layout(plan: StreamPlan) -> dict[str, Any]:
    """How far the order of labels is from what none can beat, where losses follow from labels."""
    if not is_deterministic(plan) or plan.changes:
        return {}
    stream = plan.stream
    layout = label_layout(interval_groups(plan.forward), stream.source_packets, stream.tolerance, stream.label_rule)
    return {"label_layout": asdict(layout)}
