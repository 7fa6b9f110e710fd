"""The judgement of a striped-file run: each operation, its content, and its throughput.

The throughput is compared with the prediction. If the machine did not keep up, that verdict is
invalid. Whether it kept up follows from the load of its processors and the delays of its threads,
never from the measured throughput.
"""

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import ceil
from operator import attrgetter

from testbed.bulk.link_rates import overload_hint, rate_notes
from testbed.faults.fault import describe, fault_not_in_force, injection_check
from testbed.judgement.counts import first_impossible
from testbed.machines.machines_report import MachinesReport
from testbed.model.machine.load import MachineLoadLimits, overload_message, overload_reason
from testbed.model.verdict import Check, Verdict
from testbed.model.workload import Judgement
from testbed.striping.facts import WAKING_S, StripingFacts
from testbed.striping.measurements import (
    MTU_BYTES,
    TIMEOUT_S,
    OperationRecord,
    StripingMeasurements,
)
from testbed.striping.plan import StripingPlan
from testbed.striping.prediction import Prediction
from topologies import JsonObject, label_of

# The share of a coordinated operation that may be spent waiting for threads of this machine, in
# addition to the time that each time frame is allowed.
MAX_LATE_FRACTION = 0.12
# The limit of every run: processors that a hypervisor gave to other machines.
ANY_LIMITS = MachineLoadLimits(stolen_fraction=0.2)
# The limits of a run without time frames and circuits: the load of all processors, and the share of
# the time in which the busiest task ran. Above these, the machine is the bottleneck.
UNCOORDINATED_LIMITS = MachineLoadLimits(cpu_fraction=0.95, busiest_task_fraction=0.95)
# A client that waits for a listener reports the failure within this time after its timeout.
ERROR_SLACK_S = 0.5
# Options that the document has under the same names.
_OPTION_FIELDS = ("compute_nodes", "io_nodes", "operation", "access", "optimise")
# Counts of which the document has the sum over all completed operations.
_SUMMED_FIELDS = ("messages", "fragments", "disk_calls")


def delay_by_late_threads_s(plan: StripingPlan, late_s: Mapping[int, float]) -> float:
    """Return the time by which late threads lengthened an operation.

    A time frame waits for its latest transfer. Without time frames, the slowest process waits for
    all of its transfers.

    Args:
        plan: The plan.
        late_s: The delay of the threads of each transfer, by its index.
    """
    if plan.schedule != "none":
        delay_s = 0.0
        for frame in plan.frames:
            delay_s += max([late_s.get(index, 0.0) for index in frame], default=0.0)
        return delay_s
    delay_of_source_s: dict[str, float] = {}
    for index, late in late_s.items():
        source = plan.transfers[index].source
        delay_of_source_s[source] = delay_of_source_s.get(source, 0.0) + late
    return max(delay_of_source_s.values(), default=0.0)


def judge_striping(plan: StripingPlan, run: StripingMeasurements) -> Judgement:
    """Return the verdict and the document of a run; its rows are the operations."""
    facts = StripingFacts(plan, run)
    verdict = _verdict(facts)
    document = _document(facts, verdict)
    return Judgement(
        verdict=verdict,
        document=document,
        rows=tuple(document["operations"]),
        stored=(document,),
        prediction=facts.prediction,
    )


def _verdict(facts: StripingFacts) -> Verdict:
    """Return the verdict.

    If no throughput is predicted, none is judged, and a run on a slow machine is valid.
    """
    invalid = _impossible_count(facts)
    if invalid is None and facts.long_enough:
        invalid = invalid_reason(facts, facts.tolerated_delay_s)
    return Verdict(checks=tuple(_checks(facts)), notes=tuple(_notes(facts)), invalid=invalid)


# Validity.


def invalid_reason(facts: StripingFacts, tolerated_delay_s: float | None = None) -> str | None:
    """Return why a run says nothing about the network, or None if the machine kept up.

    Medians over the operations without faults are compared with the limits.

    Args:
        facts: The facts of the run.
        tolerated_delay_s: The mean delay of a thread that is too long, unless transfers wait for
            their turn. None: no limit.
    """
    strains = [r.machine_load for r in facts.timed if r.machine_load is not None]
    if not strains:
        return None
    seconds = statistics.median(record.seconds for record in facts.timed)
    hint = overload_hint(facts.plan.rates)
    reason = overload_reason(strains, ANY_LIMITS, seconds, hint)
    if reason is not None:
        return reason
    if not facts.plan.coordinated:
        limits = replace(UNCOORDINATED_LIMITS, mean_lateness_s=tolerated_delay_s)
        return overload_reason(strains, limits, seconds, hint)
    late = facts.late_fraction
    if late <= MAX_LATE_FRACTION:
        return None
    return overload_message(
        f"its threads were late for {late:.0%} of the time (limit {MAX_LATE_FRACTION:.0%})",
        hint,
    )


def _impossible_count(facts: StripingFacts) -> str | None:
    """Return a count that no run of the plan has, or None.

    If no transfer waits for its turn, none can be late. Transfers that wait for a time frame cannot
    deadlock.
    """
    plan = facts.plan
    run = facts.run
    if run.mtu_bytes != MTU_BYTES:
        return f"packets have {run.mtu_bytes} bytes instead of {MTU_BYTES}"
    waiting = 0
    if plan.coordinated and run.fabric == "emulation":
        waiting = len(plan.transfers)
    max_deadlocks = waiting**2 if plan.schedule == "none" else 0
    max_rule_changes = 0
    if waiting and plan.switching == "circuit":
        max_rule_changes = 2 * (waiting + 1)
    for record in run.operations:
        if record.under_faults:
            continue
        limits = {
            "thread_delay_s": (0, waiting * record.seconds),
            "deadlocks": (0, max_deadlocks),
            "rule_changes": (0, max_rule_changes),
        }
        wrong = first_impossible(vars(record), limits)
        if wrong is not None:
            return f"{wrong.name} is {wrong.value:g}; the plan allows 0 to {wrong.most:g}"
    return None


# Checks.


def _checks(facts: StripingFacts) -> Iterator[Check]:
    for number, record in enumerate(facts.run.operations):
        for check in _checks_of_operation(facts, number, record):
            about = replace(check, about=f"operation:{number}")
            # A check of no bytes cannot have passed.
            yield about.of(record.bytes) if check.passed else about
    directions = facts.first_attempts
    if directions != facts.plan.directions:
        why = f"{len(directions)} of {len(facts.plan.directions)}"
        check = Check.unmeasured("all planned operations ran", why)
        yield replace(check, key="operations")
    if facts.prediction is not None:
        for direction, throughput_bps in facts.typical_throughput_bps.items():
            check = _throughput(direction, throughput_bps, facts.prediction)
            yield check.of(facts.long_enough, _too_short(facts.plan, facts.prediction))


def _checks_of_operation(
    facts: StripingFacts, number: int, record: OperationRecord
) -> Iterator[Check]:
    """Yield the checks of one operation: faults, processes and content."""
    plan = facts.plan
    first_or_under_faults = number == 0 or record.under_faults
    injections = facts.injections if first_or_under_faults else ()
    not_in_force = fault_not_in_force(plan.faults, facts.run.faults, record.seconds)
    killed_without_effect = bool(plan.killed) and not record.errors
    effective = not_in_force is None and not killed_without_effect
    for check in injection_check(injections, record.seconds, f"the {record.direction}"):
        yield check.of(effective, "no fault had an effect")
    if record.under_faults and record.errors:
        yield _failures_reported(record)
    else:
        yield _no_process_failed(record)
    if not record.errors:
        yield _content(facts, record)


def _no_process_failed(record: OperationRecord) -> Check:
    again = " in the repetition after the fault" if record.attempt > 1 else ""
    failures = [f"{error.node}: {error.text}" for error in record.errors[:2]]
    return Check(
        name=f"{record.direction}: no process failed{again}",
        key="no-process-failed",
        predicted=0,
        measured=len(record.errors),
        tolerance=0,
        passed=not record.errors and record.failure is None,
        detail=record.failure or "; ".join(failures),
    )


def _failures_reported(record: OperationRecord) -> Check:
    """Return the check that each process that a fault stopped reported an error in time."""
    slowest = max(record.errors, key=attrgetter("since_fault_s"))
    earliest_s = min(error.since_fault_s for error in record.errors)
    in_time = slowest.since_fault_s <= TIMEOUT_S + ERROR_SLACK_S
    return Check(
        name=f"{record.direction} under faults: every process that failed got an error in time, s",
        key="failures-told",
        predicted=TIMEOUT_S,
        measured=slowest.since_fault_s,
        tolerance=ERROR_SLACK_S,
        passed=in_time and earliest_s >= 0,
        detail=f"{len(record.errors)} failed; {slowest.node}: {slowest.text}",
    )


def _content(facts: StripingFacts, record: OperationRecord) -> Check:
    """Return the check of the content, and that the plan can have its counts."""
    allowed = facts.counts.allow(record)
    passed = record.verified
    if record.bytes > 0:
        passed = passed and allowed and record.bytes == facts.counts.bytes
    checked = "every process read the right content"
    if record.direction == "write":
        checked = "the subfiles have the right content"
    detail = f"{record.bytes} bytes"
    if not allowed:
        detail += ", with counts that are impossible for the plan"
    return Check(
        name=f"{record.direction}: {checked}",
        key="content",
        predicted=1,
        measured=float(passed),
        tolerance=0,
        passed=passed,
        detail=detail,
    )


def _throughput(direction: str, throughput_bps: float, prediction: Prediction) -> Check:
    ratio = throughput_bps / prediction.throughput_bps
    measured_mbps = throughput_bps / 1e6
    predicted_mbps = prediction.throughput_bps / 1e6
    return Check(
        name=f"{direction}: measured over predicted throughput",
        key="throughput",
        about=direction,
        predicted=1.0,
        measured=ratio,
        tolerance=1 - prediction.least_ratio,
        passed=prediction.least_ratio <= ratio <= prediction.most_ratio,
        detail=(
            f"{measured_mbps:.1f} of {predicted_mbps:.1f} Mbit/s; at least "
            f"{prediction.least_ratio:g}"
        ),
    )


def _too_short(plan: StripingPlan, prediction: Prediction) -> str:
    """Return the remark of a check that cannot tell because the operation is too short."""
    enough_s = WAKING_S / (1 / prediction.least_ratio - 1)
    predicted_bps = plan.file_bytes * 8 / prediction.seconds
    max_bps = max(prediction.liquid_throughput_bps, predicted_bps)
    enough_kilobytes = ceil(max_bps / 8 * enough_s / 1000)
    return (
        f"predicted to take {prediction.seconds * 1e3:.1f} ms, while round trips and waking threads"
        f" may take {WAKING_S * 1e3:.0f} ms: give --file-size {enough_kilobytes}kB or more"
    )


# The document.


def _notes(facts: StripingFacts) -> Iterator[str]:
    yield from rate_notes(facts.plan.rates)
    placement = facts.plan.placement
    if placement.remote.keys() != placement.paths.keys():
        yield "some processes share a host with an I/O node: their bytes cross no link"
    if facts.queue_drops:
        yield f"{facts.queue_drops} packets were dropped at full queues and sent again"


def _document(facts: StripingFacts, verdict: Verdict) -> JsonObject:
    """Return the document: figures of the plan, sums over its operations, and each operation."""
    plan = facts.plan
    run = facts.run
    completed = facts.completed
    total_bytes = sum(record.bytes for record in completed)
    seconds = sum(record.seconds for record in completed)
    prediction = facts.prediction
    predicted = None
    liquid_throughput_bps = None
    if prediction is not None:
        liquid_throughput_bps = prediction.liquid_throughput_bps
        predicted = {"throughput_bps": prediction.throughput_bps, "seconds": prediction.seconds}
    cut = [fault for fault in plan.faults if fault.kind == "down"]
    impaired = [fault for fault in plan.faults if fault.kind != "down"]
    return {
        "network": plan.network.name,
        "fabric": run.fabric,
        **{name: getattr(plan.options, name) for name in _OPTION_FIELDS},
        "stripe_unit_bytes": plan.options.stripe_unit,
        "file_bytes": plan.file_bytes,
        "disabled": list(plan.options.disable),
        "schedule": plan.schedule,
        "switching": plan.switching,
        "link_rate_bps": plan.link_rate_bps,
        "bytes": total_bytes,
        "seconds": seconds,
        "throughput_bps": total_bytes * 8 / seconds if seconds > 0 else 0.0,
        **_sums(facts),
        "verified": bool(completed) and all(record.verified for record in completed),
        "liquid_links": plan.liquid_links if plan.transfers else None,
        "liquid_throughput_bps": liquid_throughput_bps,
        "predicted": predicted,
        "frames": len(plan.frames),
        "killed_processes": [[killed.node, killed.at_s] for killed in plan.killed],
        "cut_links": [[label_of(f.link), f.start_s, f.ends_s] for f in cut],
        "impaired_links": [[describe(f), f.start_s, f.ends_s] for f in impaired],
        "machines": None if run.machines is None else _machines_figures(run, run.machines),
        "typical_throughput_bps": facts.typical_throughput_bps,
        "operations": [record.to_json() for record in run.operations],
        "verdict": dict(verdict.to_json()),
    }


def _sums(facts: StripingFacts) -> dict[str, int]:
    sums = dict.fromkeys(_SUMMED_FIELDS, 0)
    for record in facts.completed:
        for name in _SUMMED_FIELDS:
            sums[name] += getattr(record, name)
    return sums


def _machines_figures(run: StripingMeasurements, report: MachinesReport) -> JsonObject:
    """Return the figures of a run over several machines.

    The start and the end of an operation may be stamped by two machines. Its ``seconds`` are right
    to within ``seconds_uncertainty_s``. ``errors_undecided`` is the number of calls that failed so
    near to the beginning of a fault that the clocks cannot tell which was earlier.
    """
    failed_s = []
    for record in run.operations:
        for error in record.errors:
            failed_s.append(error.since_fault_s)
    return {
        **report.to_json(),
        "seconds_uncertainty_s": 2 * report.uncertainty_s,
        "errors_undecided": report.undecided(failed_s, [0.0]),
    }
