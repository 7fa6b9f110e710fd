"""Striped-file runs against prediction: what virtual time says of the same transfers, and the verdict over all operations."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from testbed.bulk.simulated import SimulatedBulkFabric
from testbed.model.verdict import Check, Verdict
from testbed.striping.keeping_up import CIRCUIT_CHANGE_S, change_allowance_s, why_invalid
from testbed.striping.measurements import OperationRecord, StripingMeasurements
from testbed.striping.planning import StripingPlan

SCHEDULED_RATIO = 0.9
"""What a liquid schedule must reach of its prediction, and one process that writes or reads alone of its link."""
IRREGULAR_RATIO = 0.5
"""Where blocks are many: their lists are made for all processes by the processors of this one machine."""
ORDER_TOLERANCE = 0.2
"""How far circuits asked for as they come may lie from the same order in virtual time."""
SHARED_RATIO = 0.3
"""Of max-min fair shares: what TCP must reach where many transfers share queues (their losses are what is measured)."""
ABOVE_LIQUID = 1.02
ERROR_SLACK_S = 0.5


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """Of one operation (writing and reading are alike, the other way round). ``liquid_throughput_bps``: no order can be
    faster; ``throughput_bps``: of this order, switching included; ``least_ratio`` and ``most_ratio`` of measured over it."""

    seconds: float
    throughput_bps: float
    liquid_throughput_bps: float
    least_ratio: float
    most_ratio: float


def predict(plan: StripingPlan, mtu_bytes: int) -> Prediction | None:
    """None where nothing crosses the network, or every fragment is a message of its own (round trips set the pace)."""
    if not plan.transfers or not plan.options.optimise:
        return None
    seconds = _scheduled_s(plan, mtu_bytes) if plan.options.schedule == "liquid" else _virtual_s(plan, mtu_bytes)
    liquid = plan.liquid_links * plan.goodput_bps(mtu_bytes)
    throughput = min(liquid, plan.file_bytes * 8 / seconds)
    least, most = _bounds(plan)
    return Prediction(
        seconds=plan.file_bytes * 8 / throughput,
        throughput_bps=throughput,
        liquid_throughput_bps=liquid,
        least_ratio=least,
        most_ratio=min(most, ABOVE_LIQUID * liquid / throughput),
    )


def _scheduled_s(plan: StripingPlan, mtu_bytes: int) -> float:
    """Every time frame lasts as long as its longest transfer, and the change to it."""
    longest = [
        max(plan.volumes[plan.transfers[i].source, plan.transfers[i].sink] for i in frame) for frame in plan.frames
    ]
    return sum(longest) * 8 / plan.goodput_bps(mtu_bytes) + change_allowance_s(plan) * len(longest)


def _virtual_s(plan: StripingPlan, mtu_bytes: int) -> float:
    """The same transfers in virtual time, all of their mean size."""
    bulk = plan.bulk_plan()
    on_the_wire = plan.options.link_rate_bps / plan.goodput_bps(mtu_bytes)
    bulk = replace(bulk, message_bytes=round(bulk.message_bytes * on_the_wire))
    setup_s = CIRCUIT_CHANGE_S if plan.options.switching == "circuit" else 0.0
    return SimulatedBulkFabric(setup_s=setup_s).run(bulk).seconds


def _bounds(plan: StripingPlan) -> tuple[float, float]:
    volumes = [plan.volumes[t.source, t.sink] for t in plan.transfers]
    even = max(volumes) <= 1.25 * min(volumes)
    alone = len({t.source for t in plan.transfers}) == 1
    if not even and not alone:
        return SHARED_RATIO, 10.0
    if plan.options.access != "contiguous":
        return min(IRREGULAR_RATIO, SHARED_RATIO if not plan.coordinated else 1.0), 10.0
    if plan.options.schedule == "liquid" or alone:
        return SCHEDULED_RATIO, 10.0
    if plan.options.switching == "circuit":
        return 1 - ORDER_TOLERANCE, 1 + ORDER_TOLERANCE
    return SHARED_RATIO, 10.0


def judge(plan: StripingPlan, run: StripingMeasurements, prediction: Prediction | None, *, timeout_s: float) -> Verdict:
    """Every operation whole and verified; throughput beside its prediction; errors in time where faults were asked for.

    Where no throughput is predicted none is judged, and a machine that did not keep up takes nothing away.
    """
    checks: list[Check] = []
    for record in run.operations:
        checks += _error_checks(record, timeout_s) if record.faulty else [_whole(record)]
        if not record.errors:
            checks.append(_content(record))
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
        predicted=0,
        measured=len(record.errors),
        tolerance=0,
        passed=not record.errors and record.failure is None,
        detail=record.failure or "; ".join(f"{e.node}: {e.text}" for e in record.errors[:2]),
    )


def _error_checks(record: OperationRecord, timeout_s: float) -> list[Check]:
    """Under a fault: whoever failed was told in time; nobody hung."""
    if not record.errors:
        return [_whole(record)]
    slowest = max(record.errors, key=lambda e: e.since_fault_s)
    return [
        Check(
            name=f"{record.direction} under faults: every process that failed was told in time, s",
            predicted=timeout_s,
            measured=slowest.since_fault_s,
            tolerance=ERROR_SLACK_S,
            passed=slowest.since_fault_s <= timeout_s + ERROR_SLACK_S,
            detail=f"{len(record.errors)} failed; {slowest.node}: {slowest.text}",
        )
    ]


def _content(record: OperationRecord) -> Check:
    what = "subfiles hold" if record.direction == "write" else "every process read"
    return Check(
        name=f"{record.direction}: {what} exactly what they must",
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
        predicted=1.0,
        measured=ratio,
        tolerance=1 - prediction.least_ratio,
        passed=prediction.least_ratio <= ratio <= prediction.most_ratio,
        detail=f"{throughput_bps / 1e6:.1f} of {prediction.throughput_bps / 1e6:.1f} Mbit/s; at least "
        f"{prediction.least_ratio:g}",
    )


def document(
    plan: StripingPlan, run: StripingMeasurements, prediction: Prediction | None, verdict: Verdict
) -> Mapping[str, Any]:
    """What ``--json`` prints: sums over the operations that came to their end, and each of them."""
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
        "schedule": options.schedule,
        "switching": options.switching,
        "link_rate_bps": options.link_rate_bps,
        "bytes": total,
        "seconds": seconds,
        "throughput_bps": total * 8 / seconds if seconds > 0 else 0.0,
        "messages": sum(r.messages for r in ended),
        "fragments": sum(r.fragments for r in ended),
        "disk_calls": sum(r.disk_calls for r in ended),
        "verified": bool(ended) and all(r.verified for r in ended),
        "liquid_links": plan.liquid_links if plan.transfers else None,
        "liquid_throughput_bps": None if prediction is None else prediction.liquid_throughput_bps,
        "predicted": None if prediction is None else {"throughput_bps": prediction.throughput_bps, "seconds": prediction.seconds},
        "frames": len(plan.frames),
        "typical_throughput_bps": typical_throughput(run),
        "operations": [record.to_json() for record in run.operations],
        "verdict": dict(verdict.to_json()),
    }  # fmt: skip
