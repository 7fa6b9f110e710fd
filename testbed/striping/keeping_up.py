"""Whether the machine kept up with a striped-file run: judged by its processors and by how late its threads were, never by the
throughput that came out."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from testbed.striping.measurements import OperationRecord, StripingMeasurements
from testbed.striping.planning import StripingPlan

CIRCUIT_CHANGE_S = 0.008
"""Of a time frame: circuits into the switches, and the last answers on their way."""
MAX_LATE_FRACTION = 0.12
"""Of an operation, spent in waiting for threads of this machine beyond what every time frame is allowed."""
BUSY_FRACTION = 0.95
"""Of all processors, or of what the busiest task can do: nothing was left for the network."""
MAX_STOLEN_FRACTION = 0.2
"""Of all processors, given to other machines by a hypervisor while this one wanted them."""


def change_allowance_s(plan: StripingPlan) -> float:
    """What a time frame is allowed for the change to it."""
    return CIRCUIT_CHANGE_S if plan.options.switching == "circuit" else CIRCUIT_CHANGE_S / 2


def lateness_s(plan: StripingPlan, late_s: Mapping[int, float]) -> float:
    """Seconds by which late threads lengthened an operation; ``late_s``: transfer -> how late its threads were.

    A time frame waits for its latest transfer; without time frames the slowest process waits for all of its own.
    """
    if plan.options.schedule != "none":
        return sum(max((late_s.get(i, 0.0) for i in frame), default=0.0) for frame in plan.frames)
    by_source: dict[str, float] = {}
    for number, late in late_s.items():
        source = plan.transfers[number].source
        by_source[source] = by_source.get(source, 0.0) + late
    return max(by_source.values(), default=0.0)


def why_invalid(plan: StripingPlan, run: StripingMeasurements) -> str | None:
    """Why a run says nothing about the network, None where the machine kept up; medians over its operations without faults."""
    timed = [record for record in run.operations if record.strain is not None and not record.faulty]
    if not timed:
        return None
    mend = "lower --link-rate, or leave the machine to this run"
    strains = [record.strain for record in timed if record.strain is not None]
    stolen = statistics.median(strain.stolen_fraction for strain in strains)
    if stolen >= MAX_STOLEN_FRACTION:
        limit = f"(limit {MAX_STOLEN_FRACTION:.0%})"
        return f"the machine could not keep up: other machines had {stolen:.0%} of its processors {limit}; {mend}"
    if plan.coordinated:
        late = statistics.median(_late_fraction(plan, record) for record in timed)
        if late <= MAX_LATE_FRACTION:
            return None
        return f"the machine could not keep up: its threads were late for {late:.0%} of the time (limit {MAX_LATE_FRACTION:.0%}); {mend}"
    found = (
        (statistics.median(x.cpu_fraction for x in strains), "its processors were busy for {:.0%}"),
        (statistics.median(x.busiest_task_fraction for x in strains), "its busiest task ran for {:.0%}"),
    )
    for fraction, what in found:
        if fraction >= BUSY_FRACTION:
            return f"the machine could not keep up: {what.format(fraction)} of the time; {mend}"
    return None


def _late_fraction(plan: StripingPlan, record: OperationRecord) -> float:
    allowed_s = change_allowance_s(plan) * len(plan.frames) if plan.options.schedule != "none" else 0.0
    return max(0.0, record.late_s - allowed_s) / record.seconds if record.seconds > 0 else 0.0
