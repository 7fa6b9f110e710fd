"""Striped-file runs held against prediction: the verdict over all operations, where the machine kept up: that is judged
by its processors and by how late its threads were, never by the throughput that came out."""

import statistics
from collections.abc import Mapping
from dataclasses import replace
from math import ceil

import numpy as np

from testbed.bulk.link_rates import overload_hint, rate_notes
from testbed.faults.fault import describe, fault_not_in_force, injection_check, injection_times
from testbed.judgement.counts import first_impossible
from testbed.machines.machines_report import MachinesReport
from testbed.model.machine.load import MachineLoadLimits, overload_message, overload_reason
from testbed.model.verdict import Check, Verdict
from testbed.model.workload import Judgement
from testbed.striping.access import subfile_spans
from testbed.striping.measurements import (
    MTU_BYTES,
    TIMEOUT_S,
    OperationRecord,
    StripingMeasurements,
)
from testbed.striping.plan import StripingPlan
from testbed.striping.prediction import Prediction, change_allowance_s, predict
from topologies import JsonObject, label_of, lists_by_key

MAX_LATE_FRACTION = 0.12
"""Of an operation, spent in waiting for threads of this machine beyond what every time frame is allowed."""
WAKING_S = 0.01
"""What threads and round trips may take of an operation: where the bound on its throughput leaves less, it cannot
tell."""
ANY_LIMITS = MachineLoadLimits(stolen_fraction=0.2)
"""Processors that a hypervisor gave to other machines while this one wanted them."""
UNCOORDINATED_LIMITS = MachineLoadLimits(cpu_fraction=0.95, busiest_task_fraction=0.95)
"""Of all processors, and of what the busiest task can do: nothing was left for the network."""


def delay_by_late_threads_s(plan: StripingPlan, late_s: Mapping[int, float]) -> float:
    """Seconds by which late threads lengthened an operation; ``late_s``: transfer -> how late its threads were.

    A time frame waits for its latest transfer; without time frames the slowest process waits for all of its own.
    """
    if plan.schedule != "none":
        return sum(max((late_s.get(i, 0.0) for i in frame), default=0.0) for frame in plan.frames)
    by_source: dict[str, float] = {}
    for number, late in late_s.items():
        source = plan.transfers[number].source
        by_source[source] = by_source.get(source, 0.0) + late
    return max(by_source.values(), default=0.0)


def invalid_reason(
    plan: StripingPlan, run: StripingMeasurements, borne_s: float | None = None
) -> str | None:
    """Why a run says nothing about the network, None where the machine kept up; medians over its operations without
    faults. ``borne_s``: by how much an operation may be later than predicted, which one thread may not be alone."""
    timed = [
        record
        for record in run.operations
        if record.machine_load is not None and not record.under_faults
    ]
    if not timed:
        return None
    strains = [record.machine_load for record in timed if record.machine_load is not None]
    seconds = statistics.median(record.seconds for record in timed)
    hint = overload_hint(plan.rates)
    reason = overload_reason(strains, ANY_LIMITS, seconds, hint)
    if reason is not None or not plan.coordinated:
        limits = replace(UNCOORDINATED_LIMITS, mean_lateness_s=borne_s)
        return reason or overload_reason(strains, limits, seconds, hint)
    late = statistics.median(_late_fraction(plan, record) for record in timed)
    if late <= MAX_LATE_FRACTION:
        return None
    return overload_message(
        f"its threads were late for {late:.0%} of the time (limit {MAX_LATE_FRACTION:.0%})",
        hint,
    )


def _late_fraction(plan: StripingPlan, record: OperationRecord) -> float:
    allowed_s = change_allowance_s(plan) * len(plan.frames) if plan.schedule != "none" else 0.0
    return (
        max(0.0, record.thread_delay_s - allowed_s) / record.seconds if record.seconds > 0 else 0.0
    )


ERROR_SLACK_S = 0.5
OF_OPTIONS = "compute_nodes", "io_nodes", "operation", "access", "optimise"
"""What the document has of them, by their names."""


def judge_striping(plan: StripingPlan, run: StripingMeasurements) -> Judgement:
    """The verdict, and the document: sums over the operations that came to their end, and each of them."""
    prediction = predict(plan, run.mtu_bytes)
    verdict = judge(plan, run, prediction)
    document = _document(plan, run, prediction, verdict)
    rows = tuple(document["operations"])
    return Judgement(
        verdict=verdict, document=document, rows=rows, stored=(document,), prediction=prediction
    )


def judge(plan: StripingPlan, run: StripingMeasurements, prediction: Prediction | None) -> Verdict:
    """Every operation whole and verified; throughput next to its prediction; errors in time where faults were
    requested.

    Where no throughput is predicted none is judged, and a machine that did not keep up takes nothing away.
    """
    checks: list[Check] = []
    moments = injection_times(plan.faults, plan.killed)
    for number, record in enumerate(run.operations):
        missed = fault_not_in_force(plan.faults, run.faults, record.seconds) or (
            plan.killed and not record.errors
        )
        due = moments if record.under_faults or not number else ()
        came = injection_check(due, record.seconds, f"the {record.direction}")
        own = [check.of(not missed, "nothing broke") for check in came]
        own.append(
            _error_check(record) if record.under_faults and record.errors else _whole(record)
        )
        if not record.errors:
            own.append(_content(record, plan))
        own = [replace(check, about=f"operation:{number}") for check in own]
        checks += [check.of(record.bytes) if check.passed else check for check in own]
    ran = tuple(
        one.direction
        for one in run.operations
        if one.attempt == 1 and (moments or not one.under_faults)
    )
    if ran != plan.directions:
        words = f"{len(ran)} of {len(plan.directions)}"
        checks.append(
            replace(
                Check.unmeasured("operations that ran are those planned", words), key="operations"
            )
        )
    if prediction is not None:
        tells = run.fabric == "simulator" or _borne_s(prediction) >= WAKING_S
        for direction, found in typical_throughput(run).items():
            checks.append(
                _throughput(direction, found, prediction).of(tells, _too_short(plan, prediction))
            )
    notes = rate_notes(plan.rates)
    if plan.placement.remote.keys() != plan.placement.paths.keys():
        notes.append("some processes share a host with an I/O node: their bytes cross no link")
    drops = sum(record.queue_drops for record in run.operations)
    if drops:
        notes.append(f"{drops} packets found a full queue and were sent again")
    invalid = _impossible(plan, run)
    if invalid is None and prediction is not None and tells:
        invalid = invalid_reason(plan, run, _borne_s(prediction))
    return Verdict(checks=tuple(checks), notes=tuple(notes), invalid=invalid)


def _impossible(plan: StripingPlan, run: StripingMeasurements) -> str | None:
    """Which count no run of this plan has, or None: where no transfer waits to be admitted none is late for it, and
    what waits for a time frame closes no circle."""
    if run.mtu_bytes != MTU_BYTES:
        return f"packets of {run.mtu_bytes} bytes, where the network's have {MTU_BYTES}"
    count = len(plan.transfers) if plan.coordinated and run.fabric == "emulation" else 0
    free, circuits = (
        count * (plan.schedule == "none"),
        2 * (count + 1) * bool(count and plan.switching == "circuit"),
    )
    for one in run.operations:
        most = {
            "thread_delay_s": count * one.seconds,
            "deadlocks": free * count,
            "rule_changes": circuits,
        }
        limits = {name: (0, limit) for name, limit in most.items()}
        wrong = None if one.under_faults else first_impossible(vars(one), limits)
        if wrong is not None:
            return f"{wrong.name} is {wrong.value:g}, where the plan has 0 to {wrong.most:g}"
    return None


def _borne_s(prediction: Prediction) -> float:
    """By how much an operation may be later than predicted."""
    return prediction.seconds * (1 / prediction.least_ratio - 1)


def _too_short(plan: StripingPlan, prediction: Prediction) -> str:
    enough_s = WAKING_S / (1 / prediction.least_ratio - 1)
    most = max(prediction.liquid_throughput_bps, plan.file_bytes * 8 / prediction.seconds)
    return (
        f"predicted to take {prediction.seconds * 1e3:.1f} ms, where round trips and threads that wake may take "
        f"{WAKING_S * 1e3:.0f}: give --file-size {ceil(most / 8 * enough_s / 1000)}kB or more"
    )


def _whole(record: OperationRecord) -> Check:
    again = ", after what failed was mended" if record.attempt > 1 else ""
    return Check(
        name=f"{record.direction}: no process failed{again}", key="no-process-failed", predicted=0,
        measured=len(record.errors), tolerance=0, passed=not record.errors and record.failure is None,
        detail=record.failure or "; ".join(f"{e.node}: {e.text}" for e in record.errors[:2]),
    )  # fmt: skip


def _error_check(record: OperationRecord) -> Check:
    """Under a fault: every process that failed was told so in time, and none hung."""
    slowest = max(record.errors, key=lambda e: e.since_fault_s)
    return Check(
        name=f"{record.direction} under faults: every process that failed was told in time, s",
        key="failures-told", predicted=TIMEOUT_S, measured=slowest.since_fault_s, tolerance=ERROR_SLACK_S,
        passed=slowest.since_fault_s <= TIMEOUT_S + ERROR_SLACK_S and min(e.since_fault_s for e in record.errors) >= 0,
        detail=f"{len(record.errors)} failed; {slowest.node}: {slowest.text}",
    )  # fmt: skip


def _content(record: OperationRecord, plan: StripingPlan) -> Check:
    """A process sends a message at least to each subfile of which it has bytes; those that adjoin are a run, in as many
    fragments as stripe units, less where blocks go on in memory; a full message cuts one of either in two. The disk
    takes a call a message at least, and two a run at most. Of no byte it cannot tell."""
    unit, count, joined = plan.options.stripe_unit, plan.options.io_nodes, plan.options.optimise
    spans = [
        (np.sort(a[b > a]), np.sort(b[b > a]))
        for one in plan.blocks
        for a, b in subfile_spans(one, unit, count)
    ]
    least_runs = sum(len(a) - int((a[1:] == b[:-1]).sum()) for a, b in spans)
    edges = [(one.offsets, one.offsets + one.sizes) for one in plan.blocks]
    units = [(b - 1) // unit - a // unit + 1 for a, b in edges]
    in_one = sum(
        int(((a[1:] == b[:-1]) & ((b[:-1] % unit != 0) | (count == 1))).sum()) for a, b in edges
    )
    least = sum(len(each) if count == 1 else int(each.sum()) for each in units) - in_one
    limits = count if joined and not plan.options.disable else None, None
    cuts = record.messages - sum(len(a) > 0 for a, _ in spans)
    runs, fragments = (
        sum(int(each.clip(0, most).sum()) for each in units) + cuts for most in limits
    )
    counted = cuts >= 0 and record.messages <= record.requests <= record.fragments
    counted = (
        counted and least_runs <= record.requests <= runs and least <= record.fragments <= fragments
    )
    counted = counted and record.messages <= record.disk_calls <= 2 * record.requests
    planned_bytes = sum(one.size_bytes for one in plan.blocks)
    right = record.verified and (record.bytes == 0 or (record.bytes == planned_bytes and counted))
    what = "subfiles hold" if record.direction == "write" else "every process read"
    return Check(
        name=f"{record.direction}: {what} exactly what they must", key="content", predicted=1, measured=float(right),
        tolerance=0, passed=right, detail=f"{record.bytes} bytes" + ("" if counted else ", by counts of no such plan"),
    )  # fmt: skip


def typical_throughput(run: StripingMeasurements) -> dict[str, float]:
    """Direction -> median throughput of its operations that came to their end, without faults."""
    clean = (record for record in run.operations if not record.under_faults and not record.errors)
    found = lists_by_key((record.direction, record.throughput_bps) for record in clean)
    return {direction: statistics.median(values) for direction, values in found.items()}


def _throughput(direction: str, throughput_bps: float, prediction: Prediction) -> Check:
    ratio = throughput_bps / prediction.throughput_bps
    return Check(
        name=f"{direction}: measured over predicted throughput", key="throughput", about=direction, predicted=1.0,
        measured=ratio, tolerance=1 - prediction.least_ratio,
        passed=prediction.least_ratio <= ratio <= prediction.most_ratio,
        detail=f"{throughput_bps / 1e6:.1f} of {prediction.throughput_bps / 1e6:.1f} Mbit/s; at least "
        f"{prediction.least_ratio:g}",
    )  # fmt: skip


def _document(
    plan: StripingPlan, run: StripingMeasurements, prediction: Prediction | None, verdict: Verdict
) -> JsonObject:
    ended = [record for record in run.operations if not record.errors]
    total, seconds = sum(r.bytes for r in ended), sum(r.seconds for r in ended)
    options = plan.options
    return {
        "network": plan.network.name,
        "fabric": run.fabric,
        **{name: getattr(options, name) for name in OF_OPTIONS},
        "stripe_unit_bytes": options.stripe_unit,
        "file_bytes": plan.file_bytes,
        "disabled": list(options.disable),
        "schedule": plan.schedule,
        "switching": plan.switching,
        "link_rate_bps": plan.link_rate_bps,
        "bytes": total,
        "seconds": seconds,
        "throughput_bps": total * 8 / seconds if seconds > 0 else 0.0,
        **{name: sum(getattr(r, name) for r in ended) for name in ("messages", "fragments", "disk_calls")},
        "verified": bool(ended) and all(r.verified for r in ended),
        "liquid_links": plan.liquid_links if plan.transfers else None,
        "liquid_throughput_bps": None if prediction is None else prediction.liquid_throughput_bps,
        "predicted": prediction and {"throughput_bps": prediction.throughput_bps, "seconds": prediction.seconds},
        "frames": len(plan.frames),
        "killed_processes": [[killed.node, killed.at_s] for killed in plan.killed],
        "cut_links": [[label_of(fault.link), fault.start_s, fault.ends_s] for fault in plan.faults if fault.kind == "down"],
        "impaired_links": [[describe(fault), fault.start_s, fault.ends_s] for fault in plan.faults if fault.kind != "down"],
        "machines": None if run.machines is None else _of_machines(run, run.machines),
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
