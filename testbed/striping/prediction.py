"""What theory says that a striped-file access will measure: liquid throughput of its volumes, and its own order in
virtual time."""

from dataclasses import dataclass, replace

from testbed.bulk.calibration import AT_ONCE_BYTES
from testbed.bulk.simulated import SimulatedBulkFabric
from testbed.striping.plan import StripingPlan

CIRCUIT_CHANGE_S = 0.008
"""Of a time frame: circuits into the switches, and the last answers on their way."""
SCHEDULED_RATIO = 0.9
"""What a liquid schedule must reach of its prediction, and one process that writes or reads alone of its link."""
IRREGULAR_RATIO = 0.5
"""Where blocks are many: their lists are made for all processes by the processors of this one machine."""
ORDER_TOLERANCE = 0.2
"""How far circuits requested as they come may lie from the same order in virtual time."""
SHARED_RATIO = 0.3
"""Of max-min fair shares: what TCP must reach where many transfers share queues (their losses are what is measured)."""
ABOVE_LIQUID = 1.02
"""Of what no order can exceed, next to what links that have rested pass at once."""


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What one operation will measure; reading is predicted as writing, the links' directions swapped.

    ``liquid_throughput_bps``: no order can be faster. ``throughput_bps``: of this order, switching included. Measured
    over predicted throughput must lie from ``least_ratio`` to ``most_ratio``.
    """

    seconds: float
    throughput_bps: float
    liquid_throughput_bps: float
    least_ratio: float
    most_ratio: float


def predict(plan: StripingPlan, mtu_bytes: int) -> Prediction | None:
    """The prediction; None where nothing crosses the network, or where messages are many (every fragment one of its
    own, or an optimisation left out), because then round trips and processors set the pace."""
    if not plan.transfers or not plan.options.optimise or plan.options.disable:
        return None
    seconds = (
        _scheduled_s(plan, mtu_bytes) if plan.schedule == "liquid" else _virtual_s(plan, mtu_bytes)
    )
    liquid = plan.liquid_links * plan.goodput_bps(mtu_bytes)
    throughput = min(liquid, plan.file_bytes * 8 / seconds)
    least, most = _bounds(plan)
    return Prediction(
        seconds=plan.file_bytes * 8 / throughput,
        throughput_bps=throughput,
        liquid_throughput_bps=liquid,
        least_ratio=least,
        most_ratio=min(most, ABOVE_LIQUID * _rested(plan) * liquid / throughput),
    )


def _rested(plan: StripingPlan) -> float:
    """By how much the shortest transfer may exceed its links' rate, because they have rested (at most twice)."""
    return 1 / (
        1 - min(0.5, AT_ONCE_BYTES / min(plan.volumes[t.source, t.sink] for t in plan.transfers))
    )


def _scheduled_s(plan: StripingPlan, mtu_bytes: int) -> float:
    """Seconds of a liquid schedule: each time frame lasts as long as its longest transfer and the change to it."""
    sizes = []
    for transfer in plan.transfers:
        slowest = max(plan.relative_time(link) for link in transfer.path)
        sizes.append(plan.volumes[transfer.source, transfer.sink] * slowest)
    longest = [max(sizes[i] for i in frame) for frame in plan.frames]
    return sum(longest) * 8 / plan.goodput_bps(mtu_bytes) + change_allowance_s(plan) * len(longest)


def _virtual_s(plan: StripingPlan, mtu_bytes: int) -> float:
    """Seconds of the same transfers in virtual time, all of their mean size."""
    bulk = plan.bulk_plan()
    on_the_wire = plan.link_rate_bps / plan.goodput_bps(mtu_bytes)
    bulk = replace(bulk, message_bytes=round(bulk.message_bytes * on_the_wire))
    setup_s = CIRCUIT_CHANGE_S if plan.switching == "circuit" else 0.0
    return SimulatedBulkFabric(setup_s=setup_s).run(bulk).seconds


def _bounds(plan: StripingPlan) -> tuple[float, float]:
    volumes = [plan.volumes[t.source, t.sink] for t in plan.transfers]
    even = max(volumes) <= 1.25 * min(volumes)
    alone = len({t.source for t in plan.transfers}) == 1
    if not even and not alone:
        return SHARED_RATIO, 10.0
    if plan.options.access != "contiguous":
        return min(IRREGULAR_RATIO, SHARED_RATIO if not plan.coordinated else 1.0), 10.0
    if plan.schedule == "liquid" or alone:
        return SCHEDULED_RATIO, 10.0
    if plan.switching == "circuit":
        return 1 - ORDER_TOLERANCE, 1 + ORDER_TOLERANCE
    return SHARED_RATIO, 10.0


def change_allowance_s(plan: StripingPlan) -> float:
    """What a time frame is allowed for the change to it."""
    return CIRCUIT_CHANGE_S if plan.switching == "circuit" else CIRCUIT_CHANGE_S / 2
