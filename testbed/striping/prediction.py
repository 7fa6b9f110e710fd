"""The prediction of a striped-file access: the liquid throughput, and a simulation of its order."""

from dataclasses import dataclass, replace

from testbed.bulk.calibration import AT_ONCE_BYTES
from testbed.bulk.simulated import SimulatedBulkFabric
from testbed.striping.plan import StripingPlan

# The time between two time frames: rules of circuits are changed in the switches, and the last
# answers arrive.
CIRCUIT_CHANGE_S = 0.008
# Smallest ratio of measured to predicted throughput for a liquid schedule, and for a process that
# writes or reads alone.
SCHEDULED_RATIO = 0.9
# Smallest ratio for accesses with many blocks. It is lower, because one machine computes the lists
# of blocks of all processes.
IRREGULAR_RATIO = 0.5
# Largest difference from the same order in virtual time, for circuits without a schedule.
ORDER_TOLERANCE = 0.2
# Smallest ratio to max-min fair shares if transfers share queues. The losses of TCP are what such a
# run measures.
SHARED_RATIO = 0.3
# Largest ratio to the liquid throughput, without the bytes that idle links forward at once.
ABOVE_LIQUID = 1.02
# Largest ratio if only slow runs are refused.
_NO_MAX_RATIO = 10.0
# Volumes that differ by at most this factor count as equal.
_EVEN_FACTOR = 1.25
# The shortest transfer may exceed the rate of its links at most twofold.
_MAX_SHARE_AT_ONCE = 0.5


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """The prediction of one operation. A read is predicted as a write in the other direction.

    Attributes:
        seconds: The duration.
        throughput_bps: The throughput of this order, including changes of circuits.
        liquid_throughput_bps: The throughput that no order exceeds.
        least_ratio: The smallest valid ratio of measured to predicted throughput.
        most_ratio: The largest valid ratio.
    """

    seconds: float
    throughput_bps: float
    liquid_throughput_bps: float
    least_ratio: float
    most_ratio: float


def predict(plan: StripingPlan, mtu_bytes: int) -> Prediction | None:
    """Return the prediction for one operation of the plan, or None if there is none.

    There is none if no byte crosses the network. There is none either if messages are many (each
    fragment has its own, or an optimisation is disabled), because then round trips and processors
    limit the throughput.

    Args:
        plan: The plan.
        mtu_bytes: The size of a packet.
    """
    if not plan.transfers or not plan.options.optimise or plan.options.disable:
        return None
    if plan.schedule == "liquid":
        seconds = _scheduled_s(plan, mtu_bytes)
    else:
        seconds = _virtual_s(plan, mtu_bytes)
    liquid_bps = plan.liquid_links * plan.goodput_bps(mtu_bytes)
    throughput_bps = min(liquid_bps, plan.file_bytes * 8 / seconds)
    least_ratio, most_ratio = _bounds(plan)
    liquid_ratio = liquid_bps / throughput_bps
    return Prediction(
        seconds=plan.file_bytes * 8 / throughput_bps,
        throughput_bps=throughput_bps,
        liquid_throughput_bps=liquid_bps,
        least_ratio=least_ratio,
        most_ratio=min(most_ratio, ABOVE_LIQUID * _idle_link_factor(plan) * liquid_ratio),
    )


def _idle_link_factor(plan: StripingPlan) -> float:
    """Return the factor by which the shortest transfer may exceed the rate of its links.

    A link that was idle forwards some bytes at once.
    """
    shortest_bytes = min(plan.volumes[t.source, t.sink] for t in plan.transfers)
    return 1 / (1 - min(_MAX_SHARE_AT_ONCE, AT_ONCE_BYTES / shortest_bytes))


def _scheduled_s(plan: StripingPlan, mtu_bytes: int) -> float:
    """Return the duration of a liquid schedule.

    Each time frame lasts as long as its longest transfer and the change to the frame.
    """
    relative_bytes = []
    for transfer in plan.transfers:
        slowest = max(plan.relative_time(link) for link in transfer.path)
        relative_bytes.append(plan.volumes[transfer.source, transfer.sink] * slowest)
    total_bytes = 0.0
    for frame in plan.frames:
        total_bytes += max(relative_bytes[index] for index in frame)
    change_s = change_allowance_s(plan) * len(plan.frames)
    return total_bytes * 8 / plan.goodput_bps(mtu_bytes) + change_s


def _virtual_s(plan: StripingPlan, mtu_bytes: int) -> float:
    """Return the duration of the same transfers, all of their mean size, in virtual time."""
    bulk = plan.bulk_plan()
    overhead = plan.link_rate_bps / plan.goodput_bps(mtu_bytes)
    bulk = replace(bulk, message_bytes=round(bulk.message_bytes * overhead))
    setup_s = CIRCUIT_CHANGE_S if plan.switching == "circuit" else 0.0
    return SimulatedBulkFabric(setup_s=setup_s).run(bulk).seconds


def _bounds(plan: StripingPlan) -> tuple[float, float]:
    """Return the smallest and the largest valid ratio of measured to predicted throughput."""
    volumes = [plan.volumes[t.source, t.sink] for t in plan.transfers]
    even = max(volumes) <= _EVEN_FACTOR * min(volumes)
    alone = len({t.source for t in plan.transfers}) == 1
    if not even and not alone:
        return SHARED_RATIO, _NO_MAX_RATIO
    if plan.options.access != "contiguous":
        least_ratio = IRREGULAR_RATIO if plan.coordinated else SHARED_RATIO
        return least_ratio, _NO_MAX_RATIO
    if plan.schedule == "liquid" or alone:
        return SCHEDULED_RATIO, _NO_MAX_RATIO
    if plan.switching == "circuit":
        return 1 - ORDER_TOLERANCE, 1 + ORDER_TOLERANCE
    return SHARED_RATIO, _NO_MAX_RATIO


def change_allowance_s(plan: StripingPlan) -> float:
    """Return the time that each time frame is allowed for the change to it."""
    return CIRCUIT_CHANGE_S if plan.switching == "circuit" else CIRCUIT_CHANGE_S / 2
