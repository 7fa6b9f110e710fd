"""Striped-file runs held against prediction: the verdict over all operations."""

from __future__ import annotations

import statistics
from dataclasses import replace

from testbed.faults.coming import came_check, fault_moments
from testbed.model.verdict import Check, Verdict
from testbed.striping.keeping_up import why_invalid
from testbed.striping.measurements import OperationRecord, StripingMeasurements
from testbed.striping.plan import StripingPlan
from testbed.striping.prediction import Prediction

ERROR_SLACK_S = 0.5


def judge(plan: StripingPlan, run: StripingMeasurements, prediction: Prediction | None, *, timeout_s: float) -> Verdict:
    """Every operation whole and verified; throughput beside its prediction; errors in time where faults were asked for.

    Where no throughput is predicted none is judged, and a machine that did not keep up takes nothing away.
    """
    checks: list[Check] = []
    moments = fault_moments(plan.options.faults, plan.options.killed)
    for number, record in enumerate(run.operations):
        own = [*came_check(moments, record.seconds, f"the {record.direction}")] if record.faulty else []
        own.append(_error_check(record, timeout_s) if record.faulty and record.errors else _whole(record))
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
    invalid = None if prediction is None else why_invalid(plan, run)
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


def _error_check(record: OperationRecord, timeout_s: float) -> Check:
    """Under a fault: every process that failed was told so in time, and none hung."""
    slowest = max(record.errors, key=lambda e: e.since_fault_s)
    return Check(
        name=f"{record.direction} under faults: every process that failed was told in time, s",
        key="failures-told",
        predicted=timeout_s,
        measured=slowest.since_fault_s,
        tolerance=ERROR_SLACK_S,
        passed=slowest.since_fault_s <= timeout_s + ERROR_SLACK_S,
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
