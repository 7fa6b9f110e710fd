"""Propagation along a stream's paths: what its sender knows of it, and what a schedule and a verdict allow for it."""

from collections.abc import Hashable

from fec.protocol.path_deadlines import JITTER
from testbed.faults.fault import Fault
from testbed.model.label_split import LabelSplit
from testbed.stream.plan import StreamPlan
from testbed.stream.prediction.active_faults import cable_name, faulty_links
from topologies import lists_by_key

REACTION_S = 0.45
"""Allowed from a failure to redundancy that answers it, beside what propagation takes: a report interval, the way back,
a block; measured: see docs."""


def delay_of_label(split: LabelSplit) -> tuple[float, ...]:
    """65,536 delays in seconds, one a label."""
    delays = _delays_s(split)
    spans = zip(delays, split.paths, strict=True)
    return tuple(delay_s for delay_s, path in spans for _ in range(path.start, path.stop))


def longest_path_delay_s(plan: StreamPlan) -> float:
    """Propagation over the longest path of any of the plan's splits, in seconds."""
    return max(max(_delays_s(split)) for split in plan.splits)


def path_spread_s(plan: StreamPlan) -> float:
    """By how much the longest path of any of the plan's splits takes longer than the shortest."""
    return longest_path_delay_s(plan) - min(min(_delays_s(split)) for split in plan.splits)


def return_spread_s(plan: StreamPlan) -> float:
    """Return by how much the longest return path of any split takes longer than the shortest."""
    delays_s = [delay_s for split in _return_splits(plan) for delay_s in _delays_s(split)]
    return max(delays_s) - min(delays_s)


def round_trip_s(plan: StreamPlan) -> float:
    """Propagation over the longest path there and the longest that reports take back."""
    returns_s = [max(_delays_s(split)) for split in _return_splits(plan)]
    return longest_path_delay_s(plan) + max(returns_s)


def delay_to_fault_s(plan: StreamPlan, fault: Fault) -> float:
    """How long packets take to the end of a failed link at most: those sent so long before a repair, or before the
    failure, may come through or be lost."""
    hit = set(faulty_links(plan.network, fault))
    reached = (
        at_s for split in plan.splits for _, index, at_s in _hops(split, ends=True) if index in hit
    )
    return max(reached, default=0.0)


def candidate_spread_s(plan: StreamPlan) -> float:
    """By how much packets of different paths may differ in the time that they take to anything that may break."""
    widest_s = 0.0
    for split in plan.splits:
        reached: dict[tuple[Hashable, Hashable], list[float]] = {}
        for path, index, at_s in _hops(split):
            link = split.network.links[index]
            for one in (cable_name(link.id), (link.source,), (link.target,)):
                if one not in ((split.source,), (split.sink,)):
                    reached.setdefault((one, path), []).append(at_s)
        times = lists_by_key((one, min(found)) for (one, _), found in reached.items())
        spreads = (
            (1 + JITTER) * max(found) - (1 - JITTER) * min(found) for found in times.values()
        )
        widest_s = max(widest_s, *spreads)
    return widest_s


def allowed_reaction_s(plan: StreamPlan) -> float:
    """``REACTION_S``, the report's way, and what the ways to a broken link differ by: what left less apart proves
    nothing."""
    return REACTION_S + round_trip_s(plan) + candidate_spread_s(plan)


def _return_splits(plan: StreamPlan) -> tuple[LabelSplit, ...]:
    return (plan.backward, *(change.backward for change in plan.changes))


def _delays_s(split: LabelSplit) -> list[float]:
    return [sum(split.network.links[i].delay_s for i in path.links) for path in split.paths]


def _hops(split: LabelSplit, *, ends: bool = False) -> list[tuple[int, int, float]]:
    """(path, link, when a packet comes to it, or with ``ends`` has passed it)."""
    found = []
    for number, path in enumerate(split.paths):
        at_s = 0.0
        for index in path.links:
            delay_s = split.network.links[index].delay_s
            found.append((number, index, at_s + delay_s if ends else at_s))
            at_s += delay_s
    return found
