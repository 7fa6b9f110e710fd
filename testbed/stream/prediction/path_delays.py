"""Propagation delays of a stream's paths, and the time that the sender may take to react."""

from collections.abc import Hashable
from typing import NamedTuple

from fec.protocol.path_deadlines import JITTER
from testbed.faults.fault import Fault
from testbed.model.label_split import LabelSplit
from testbed.stream.plan import StreamPlan
from testbed.stream.prediction.active_faults import cable_name, faulty_links
from topologies import lists_by_key

# Time allowed from a failure to the required redundancy, in addition to propagation: a report
# interval, the transit of the report, and a block. It was measured
# (docs/measurements/stream_conditions.md).
REACTION_S = 0.45


class _Hop(NamedTuple):
    """A link of a path, and the times after sending at which a packet enters and leaves it."""

    path: int
    link: int
    enters_s: float
    leaves_s: float


def delay_of_label(split: LabelSplit) -> tuple[float, ...]:
    """Return the propagation delay in seconds of each of the 65,536 labels."""
    return tuple(split.per_label(_delays_s(split)))


def longest_path_delay_s(plan: StreamPlan) -> float:
    """Return the propagation over the longest path of any of the plan's splits."""
    return max(max(_delays_s(split)) for split in plan.splits)


def path_spread_s(plan: StreamPlan) -> float:
    """Return by how much the longest path of any split takes longer than the shortest."""
    shortest_s = min(min(_delays_s(split)) for split in plan.splits)
    return longest_path_delay_s(plan) - shortest_s


def return_spread_s(plan: StreamPlan) -> float:
    """Return by how much the longest return path of any split takes longer than the shortest."""
    delays_s: list[float] = []
    for split in _return_splits(plan):
        delays_s += _delays_s(split)
    return max(delays_s) - min(delays_s)


def round_trip_s(plan: StreamPlan) -> float:
    """Return the propagation over the longest path there and the longest path of reports back."""
    returns_s = [max(_delays_s(split)) for split in _return_splits(plan)]
    return longest_path_delay_s(plan) + max(returns_s)


def delay_to_fault_s(plan: StreamPlan, fault: Fault) -> float:
    """Return the largest propagation delay from the source to the far end of a failed link.

    A packet sent within this time before the failure, or before the repair, may arrive or be lost.
    """
    broken = set(faulty_links(plan.network, fault))
    latest_s = 0.0
    for split in plan.splits:
        for hop in _hops(split):
            if hop.link in broken:
                latest_s = max(latest_s, hop.leaves_s)
    return latest_s


def candidate_spread_s(plan: StreamPlan) -> float:
    """Return the largest difference of delays (in seconds) over paths to the same cable or node.

    The delays are those from the source, with their jitter. Both ends of the stream are left out.
    """
    widest_s = 0.0
    for split in plan.splits:
        first_s: dict[tuple[Hashable, int], float] = {}
        for hop in _hops(split):
            link = split.network.links[hop.link]
            for candidate in (
                cable_name(link.id),
                (link.source,),
                (link.target,),
            ):
                if candidate in ((split.source,), (split.sink,)):
                    continue
                key = (candidate, hop.path)
                first_s[key] = min(hop.enters_s, first_s.get(key, hop.enters_s))
        times_s = lists_by_key((candidate, at_s) for (candidate, _), at_s in first_s.items())
        for at_s in times_s.values():
            spread_s = (1 + JITTER) * max(at_s) - (1 - JITTER) * min(at_s)
            widest_s = max(widest_s, spread_s)
    return widest_s


def allowed_reaction_s(plan: StreamPlan) -> float:
    """Return the time that a sender may take to react to a failure.

    It includes the difference of the path delays to a broken link: the sender cannot draw
    conclusions from packets that were sent within that time of each other.
    """
    return REACTION_S + round_trip_s(plan) + candidate_spread_s(plan)


def _return_splits(plan: StreamPlan) -> tuple[LabelSplit, ...]:
    return (plan.backward, *(change.backward for change in plan.changes))


def _delays_s(split: LabelSplit) -> list[float]:
    """Return the propagation of each path of the split."""
    delays_s = []
    for path in split.paths:
        delays_s.append(sum(split.network.links[index].delay_s for index in path.links))
    return delays_s


def _hops(split: LabelSplit) -> list[_Hop]:
    """Return all links of all paths of the split."""
    hops = []
    for number, path in enumerate(split.paths):
        at_s = 0.0
        for index in path.links:
            after_s = at_s + split.network.links[index].delay_s
            hops.append(_Hop(number, index, at_s, after_s))
            at_s = after_s
    return hops
