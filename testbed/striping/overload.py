"""Whether the machine kept up with a striped-file run: judged by its processors and by how late its threads were, never
by the throughput that came out."""

import statistics
from collections.abc import Mapping

from testbed.model.machine.load import MachineLoadLimits, overload_message, overload_reason
from testbed.striping.measurements import OperationRecord, StripingMeasurements
from testbed.striping.plan import StripingPlan
from testbed.striping.prediction import change_allowance_s

MAX_LATE_FRACTION = 0.12
"""Of an operation, spent in waiting for threads of this machine beyond what every time frame is allowed."""
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


def invalid_reason(plan: StripingPlan, run: StripingMeasurements) -> str | None:
    """Why a run says nothing about the network, None where the machine kept up; medians over its operations without
    faults."""
    timed = [record for record in run.operations if record.strain is not None and not record.faulty]
    if not timed:
        return None
    strains = [record.strain for record in timed if record.strain is not None]
    seconds = statistics.median(record.seconds for record in timed)
    reason = overload_reason(strains, ANY_LIMITS, seconds)
    if reason is not None or not plan.coordinated:
        return reason or overload_reason(strains, UNCOORDINATED_LIMITS, seconds)
    late = statistics.median(_late_fraction(plan, record) for record in timed)
    if late <= MAX_LATE_FRACTION:
        return None
    return overload_message(f"its threads were late for {late:.0%} of the time (limit {MAX_LATE_FRACTION:.0%})")


def _late_fraction(plan: StripingPlan, record: OperationRecord) -> float:
    allowed_s = change_allowance_s(plan) * len(plan.frames) if plan.schedule != "none" else 0.0
    return max(0.0, record.late_s - allowed_s) / record.seconds if record.seconds > 0 else 0.0
