"""Striped-file runs held against prediction: the verdict over all operations."""

import statistics
from dataclasses import replace

from testbed.faults.fault import describe, injection_check, injection_times
from testbed.machines.machines_report import MachinesReport
from testbed.model.verdict import Check, Verdict
from testbed.model.workload import Judgement
from testbed.striping.measurements import TIMEOUT_S, OperationRecord, StripingMeasurements
from testbed.striping.overload import invalid_reason
from testbed.striping.plan import StripingPlan
from testbed.striping.prediction import Prediction, predict
from topologies.network import label_of
from topologies.text.json_types import JsonObject

ERROR_SLACK_S = 0.5


def judge_striping(plan: StripingPlan, run: StripingMeasurements) -> Judgement:
    """The verdict, and the document: sums over the operations that came to their end, and each of them."""
    prediction = predict(plan, run.mtu_bytes)
    verdict = judge(plan, run, prediction)
    document = _document(plan, run, prediction, verdict)
    rows = tuple(document["operations"])
    return Judgement(verdict=verdict, document=document, rows=rows, stored=(document,), prediction=prediction)


def judge(plan: StripingPlan, run: StripingMeasurements, prediction: Prediction | None) -> Verdict:
    """Every operation whole and verified; throughput next to its prediction; errors in time where faults were
    requested.

    Where no throughput is predicted none is judged, and a machine that did not keep up takes nothing away.
    """
    checks: list[Check] = []
    moments = injection_times(plan.faults, plan.killed)
    for number, record in enumerate(run.operations):
        own = [*injection_check(moments, record.seconds, f"the {record.direction}")] if record.faulty else []
        own.append(_error_check(record) if record.faulty and record.errors else _whole(record))
        if not record.errors:
            own.append(_content(record))
        own = [replace(check, about=f"operation:{number}") for check in own]
        checks += [check.of(record.bytes) if check.passed else check for check in own]
    if prediction is not None:
        checks += [_throughput(direction, found, prediction) for direction, found in typical_throughput(run).items()]
    notes = []
    if plan.placement.remote.keys() != plan.placement.paths.keys():
        notes.append("some processes share a host with an I/O node: their bytes cross no link")
    drops = sum(record.queue_drops for record in run.operations)
    if drops:
        notes.append(f"{drops} packets found a full queue and were sent again")
    invalid = None if prediction is None else invalid_reason(plan, run)
    return Verdict(checks=tuple(checks), notes=tuple(notes), invalid=invalid)


def _whole(record: OperationRecord) -> Check:
    again = ", after what failed was mended" if record.attempt > 1 else ""
    return Check(
        name=f"{record.direction}: no process failed{again}",
        key="no-process-failed",
        predicted=0,
        measured=len(record.errors),
        tolerance=0,
        passed=not record.errors and record.failure is None,
        detail=record.failure or "; ".join(f"{e.node}: {e.text}" for e in record.errors[:2]),
    )


def _error_check(record: OperationRecord) -> Check:
    """Under a fault: every process that failed was told so in time, and none hung."""
    slowest = max(record.errors, key=lambda e: e.since_fault_s)
    return Check(
        name=f"{record.direction} under faults: every process that failed was told in time, s",
        key="failures-told",
        predicted=TIMEOUT_S,
        measured=slowest.since_fault_s,
        tolerance=ERROR_SLACK_S,
        passed=slowest.since_fault_s <= TIMEOUT_S + ERROR_SLACK_S,
        detail=f"{len(record.errors)} failed; {slowest.node}: {slowest.text}",
    )


def _content(record: OperationRecord) -> Check:
    what = "subfiles hold" if record.direction == "write" else "every process read"
    return Check(
        name=f"{record.direction}: {what} exactly what they must",
        key="content",
        predicted=1,
        measured=float(record.verified),
        tolerance=0,
        passed=record.verified,
        detail=f"{record.bytes} bytes",
    )


def typical_throughput(run: StripingMeasurements) -> dict[str, float]:
    """Direction -> median throughput of its operations that came to their end, without faults."""
    found: dict[str, list[float]] = {}
    for record in run.operations:
        if not record.faulty and not record.errors:
            found.setdefault(record.direction, []).append(record.throughput_bps)
    return {direction: statistics.median(values) for direction, values in found.items()}


def _throughput(direction: str, throughput_bps: float, prediction: Prediction) -> Check:
    ratio = throughput_bps / prediction.throughput_bps
    return Check(
        name=f"{direction}: measured over predicted throughput",
        key="throughput",
        about=direction,
        predicted=1.0,
        measured=ratio,
        tolerance=1 - prediction.least_ratio,
        passed=prediction.least_ratio <= ratio <= prediction.most_ratio,
        detail=f"{throughput_bps / 1e6:.1f} of {prediction.throughput_bps / 1e6:.1f} Mbit/s; at least "
        f"{prediction.least_ratio:g}",
    )


def _document(
    plan: StripingPlan, run: StripingMeasurements, prediction: Prediction | None, verdict: Verdict
) -> JsonObject:
    ended = [record for record in run.operations if not record.errors]
    total, seconds = sum(r.bytes for r in ended), sum(r.seconds for r in ended)
    options = plan.options
    return {
        "network": plan.network.name,
        "fabric": run.fabric,
        "compute_nodes": options.compute_nodes,
        "io_nodes": options.io_nodes,
        "stripe_unit": options.stripe_unit,
        "file_size": plan.file_bytes,
        "operation": options.operation,
        "access": options.access,
        "optimise": options.optimise,
        "without": list(options.disable),
        "schedule": plan.schedule,
        "switching": plan.switching,
        "link_rate_bps": plan.link_rate_bps,
        "bytes": total,
        "seconds": seconds,
        "throughput_bps": total * 8 / seconds if seconds > 0 else 0.0,
        "messages": sum(r.messages for r in ended),
        "fragments": sum(r.fragments for r in ended),
        "disk_calls": sum(r.disk_calls for r in ended),
        "verified": bool(ended) and all(r.verified for r in ended),
        "liquid_links": plan.liquid_links if plan.transfers else None,
        "liquid_throughput_bps": None if prediction is None else prediction.liquid_throughput_bps,
        "predicted": None
        if prediction is None
        else {"throughput_bps": prediction.throughput_bps, "seconds": prediction.seconds},
        "frames": len(plan.frames),
        "killed": [[killed.node, killed.at_s] for killed in plan.killed],
        "cut": [[label_of(fault.link), fault.start_s, fault.ends_s] for fault in plan.faults if fault.kind == "down"],
        "impaired": [[describe(fault), fault.start_s, fault.ends_s] for fault in plan.faults if fault.kind != "down"],
        "several_machines": None if run.machines is None else _of_machines(run, run.machines),
        "typical_throughput_bps": typical_throughput(run),
        "operations": [record.to_json() for record in run.operations],
        "verdict": dict(verdict.to_json()),
    }  # fmt: skip


def _of_machines(run: StripingMeasurements, report: MachinesReport) -> JsonObject:
    """An operation's ``seconds`` lie between the stamps of two machines and are right to within
    ``seconds_uncertainty_s``; ``errors_undecided``: calls that failed so near to the beginning of a fault that the
    clocks cannot tell whether before it."""
    failed = [error.since_fault_s for record in run.operations for error in record.errors]
    return {
        **report.to_json(),
        "seconds_uncertainty_s": 2 * report.uncertainty_s,
        "errors_undecided": report.undecided(failed, [0.0]),
    }
