"""The packets of a run that crossed each impaired link, in the order in which they reached it."""

import math
from dataclasses import dataclass

import numpy as np

from testbed.model.label_split import LabelSplit
from testbed.stream.facts.loss_bounds import split_paths
from testbed.stream.facts.run_facts import RunFacts
from testbed.stream.impaired.delay_spread import longest_wait_s
from testbed.stream.measurements import (
    BoolArray,
    FloatArray,
    IntArray,
)
from testbed.stream.prediction.active_faults import (
    ImpairedSpan,
    faulty_links,
)

# Packets sent within this time of the beginning or the end of an impairment or a fault may have met
# it or not, and are not counted.
GUARD_S = 0.05


@dataclass(frozen=True, kw_only=True)
class LinkTraversal:
    """The packets that reached a link while it was surely impaired.

    Attributes:
        span: The link, its impairments and their time.
        packets: The indices of the packets in the sender's log, in order.
        alone: A mask of the packets that crossed no other impaired or faulty link.
        base_s: The transit time of each packet without the impairment, shape (packets,).
        unrest_s: Spread of the transit times of packets that met no impairment: their 99th
            percentile and their maximum, each minus the median; 0 if there are no such packets.
    """

    span: ImpairedSpan
    packets: IntArray
    alone: BoolArray
    base_s: FloatArray
    unrest_s: tuple[float, float] = (0.0, 0.0)

    @property
    def own(self) -> IntArray:
        """The packets that crossed no other impaired or faulty link."""
        return self.packets[self.alone]


def link_traversals(facts: RunFacts) -> tuple[LinkTraversal, ...]:
    """Return the packets of each impaired span that the stream crosses, in the plan's order."""
    plan = facts.plan
    run = facts.run
    split = plan.forward
    sent_s = run.sent.time_s
    path = split_paths(split, run.sent.label)
    delays_s = _path_delays_s(split)[path]
    spans = [span for span in facts.theory.impaired_spans if span.link in split.loaded]
    met = np.zeros(len(sent_s), dtype=np.int64)
    for span in spans:
        start_s, stop_s = _times_of(facts, span)
        crossed = _crosses(split, span.link)[path]
        met += crossed & (sent_s >= start_s - GUARD_S) & (sent_s < stop_s + GUARD_S)
    for times in run.faults:
        if times.fault.kind == "impaired":
            continue
        during = (sent_s >= times.start_s - GUARD_S) & (sent_s < times.stop_s + GUARD_S)
        for link in faulty_links(plan.network, times.fault):
            # The factor excludes packets that met a failure from ``alone``.
            met += 2 * (_crosses(split, link)[path] & during)
    undisturbed = (met == 0) & ~run.lost
    excess_s = np.zeros(1)
    if undisturbed.any():
        excess_s = (run.deliveries.transit_s - delays_s)[undisturbed]
    usual_s = float(np.median(excess_s))
    unrest_s = (
        float(np.quantile(excess_s, 0.99)) - usual_s,
        float(excess_s.max()) - usual_s,
    )
    last_s = _last_complete_s(facts)
    traversals = []
    for span in spans:
        start_s, stop_s = _times_of(facts, span)
        until_s = min(stop_s, last_s) - GUARD_S
        crossed = _crosses(split, span.link)[path]
        packets = np.flatnonzero(crossed & (sent_s >= start_s + GUARD_S) & (sent_s < until_s))
        traversal = LinkTraversal(
            span=span,
            packets=packets,
            alone=met[packets] == 1,
            base_s=delays_s[packets] + usual_s,
            unrest_s=unrest_s,
        )
        traversals.append(traversal)
    return tuple(traversals)


def _times_of(facts: RunFacts, span: ImpairedSpan) -> tuple[float, float]:
    """Return when the impairment began and ended; (0, 0) for a fault that did not happen."""
    if span.fault is None:
        return -GUARD_S, math.inf
    for times in facts.run.faults:
        if times.fault == facts.plan.faults[span.fault]:
            return times.start_s, times.stop_s
    return 0.0, 0.0


def _last_complete_s(facts: RunFacts) -> float:
    """Return the time until which a packet must be sent to arrive, or be lost, before the end."""
    plan = facts.plan
    wait_s: dict[int, float] = {}
    for span in facts.theory.impaired_spans:
        wait_s[span.link] = wait_s.get(span.link, 0.0) + longest_wait_s(span.impairments)
    longest_s = 0.0
    for path in plan.forward.paths:
        delays_s = (plan.network.links[i].delay_s + wait_s.get(i, 0.0) for i in path.links)
        longest_s = max(longest_s, sum(delays_s))
    return plan.duration_s - max(plan.stream.playback_s, longest_s)


def _path_delays_s(split: LabelSplit) -> FloatArray:
    """Return the propagation of each path of the split."""
    delays_s = []
    for path in split.paths:
        delays_s.append(sum(split.network.links[index].delay_s for index in path.links))
    return np.array(delays_s)


def _crosses(split: LabelSplit, link: int) -> BoolArray:
    """Return a mask of the split's paths that cross the link."""
    return np.array([link in path.links for path in split.paths], dtype=np.bool_)
