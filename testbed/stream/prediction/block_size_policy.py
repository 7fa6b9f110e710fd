"""Which block size N the sender answers a measured loss with, and which one theory predicts for each link's failure.

Two policies: FEC_p of Gabrielyan 2007, eq. 25 (random labels, random loss) and the exact worst window of the route's
label intervals.
"""

import bisect
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from fec import fec_block_size
from fec.redundancy.block_size import stratified_block_size, stratified_tolerance_block_size
from fec.redundancy.label_layout import rest_block_size
from fec.redundancy.labels import WEYL_MULTIPLIER
from testbed.stream.plan import StreamPlan
from testbed.stream.prediction.active_faults import is_campaign

MAX_SYMBOLS = 255
"""In one Reed-Solomon block over GF(2^8)."""
_SEPARATE = 2
"""Packets that a few separate intervals need over one of their width (docs/explanation/stream_verdict.md)."""
_ANY_SLACK, _LINK_SLACK = 0.02, 0.015
"""Two losses nearer than this are not distinguished by a short measurement, so the larger N of both is taken: losses of
any failures, and of single links."""


@dataclass(frozen=True, kw_only=True)
class BlockSizePolicy:
    """``base`` is FEC_t, the block size at rest; calling the policy with a loss fraction gives N in [M, largest].

    ``largest``: the cap. ``name`` is "equation 25" or "worst window".
    """

    name: str
    base: int
    largest: int
    size_for: Callable[[float], int]

    def __call__(self, loss: float) -> int:
        return max(self.base, self.size_for(loss))


def is_deterministic(plan: StreamPlan) -> bool:
    """True where losses follow from labels alone: stratified labels, no fault that drops packets at random and no
    impaired link."""
    ordered = plan.stream.labels == "stratified" and not any(fault.partial for fault in plan.faults)
    return ordered and not any(link.impairments for link in plan.network.links)


def largest_block(plan: StreamPlan) -> int:
    """N that the sender never exceeds: by ``most_overhead``, else a quarter more than the failure of any protectable
    link calls for, and 2 M at least; at most 255."""
    stream = plan.stream
    m = stream.source_packets
    if stream.block_size is not None:
        return stream.block_size
    if stream.most_overhead is not None:
        return min(MAX_SYMBOLS, max(m, int(m * (1 + stream.most_overhead))))
    loads = (split.load(i) for split in plan.splits for i in split.loaded)
    share = max((float(load) for load in loads if load < 1), default=0.0)
    worst = fec_block_size(m, round(min(share, 0.9), 4), stream.decoding_error_rate)
    return min(MAX_SYMBOLS, max(2 * m, worst * 5 // 4))


def largest_in_bursts(plan: StreamPlan) -> int:
    """The same where losses come in bursts, of which the failure of a link says nothing."""
    return MAX_SYMBOLS if plan.stream.most_overhead is None else largest_block(plan)


def block_size_policy(plan: StreamPlan) -> BlockSizePolicy:
    """The policy that the plan's sender follows. Cost: one pass over 65,536 labels for each loaded link."""
    if is_deterministic(plan):
        return _any_window_policy(plan) if is_campaign(plan) else _worst_window_policy(plan)
    m, der, largest = (
        plan.stream.source_packets,
        plan.stream.decoding_error_rate,
        largest_block(plan),
    )
    size_for = partial(_size_by_equation_25, m, der, largest)
    return BlockSizePolicy(
        name="equation 25", base=size_for(plan.stream.tolerance), largest=largest, size_for=size_for
    )


def _size_by_equation_25(m: int, der: float, largest: int, loss: float) -> int:
    return min(largest, fec_block_size(m, round(min(loss, 0.9), 4), der))


def _any_window_policy(plan: StreamPlan) -> BlockSizePolicy:
    """For failures that overlap and routes that change: no list of links tells which intervals a loss comes from.

    One interval of the loss's width and two packets: what two to four separate ones ask for more; late parity makes up
    for the rest. Steps of one point.
    """
    largest, m = largest_block(plan), plan.stream.source_packets
    base = min(
        largest, stratified_tolerance_block_size(plan.stream.tolerance, m, _any_multiplier(plan))
    )
    size_for = partial(_any_window_size, plan, base, largest)
    return BlockSizePolicy(
        name="worst window of any failures", base=base, largest=largest, size_for=size_for
    )


def _any_window_size(plan: StreamPlan, base: int, largest: int, loss: float) -> int:
    if loss <= plan.stream.tolerance:
        return base
    m, worst = plan.stream.source_packets, round(min(0.95, loss + _ANY_SLACK), 2)
    return min(
        largest, stratified_tolerance_block_size(worst, m, _any_multiplier(plan)) + _SEPARATE
    )


def link_block_size(plan: StreamPlan, link: int) -> int | None:
    """Exact worst-window N when the link (index) carries nothing more; None where it carries every label."""
    if plan.forward.load(link) >= 1:
        return None
    stream = plan.stream
    return stratified_block_size(
        plan.forward.intervals(link), stream.source_packets, stream.label_rule
    )


def _any_multiplier(plan: StreamPlan) -> int:
    """What block sizes of losses that no single link causes are reckoned by: the plan's multiplier, or the usual one
    where slots make its order, which are made for single links only."""
    return WEYL_MULTIPLIER if plan.stream.label_slots else plan.stream.label_multiplier


def _worst_window_policy(plan: StreamPlan) -> BlockSizePolicy:
    m, largest, multiplier = plan.stream.source_packets, largest_block(plan), _any_multiplier(plan)
    stairs = sorted(
        (float(plan.forward.load(link)), size)
        for link in plan.forward.loaded
        if (size := link_block_size(plan, link)) is not None
    )

    shares = [share for share, _ in stairs]
    most = [m, *itertools.accumulate((size for _, size in stairs), max)]
    # What no single link of the route can cause (failures that overlap): one interval of that width, in steps of 5
    # points.
    single = [stratified_tolerance_block_size(step / 20, m, multiplier) for step in range(19)]
    size_for = partial(_worst_window_size, shares, most, single, largest)
    weak = [n for share, n in stairs if share <= plan.stream.tolerance]
    base = max([rest_block_size(plan.stream.tolerance, m, plan.stream.label_rule), *weak])
    return BlockSizePolicy(
        name="worst window", base=min(largest, base), largest=largest, size_for=size_for
    )


def _worst_window_size(
    shares: Sequence[float], most: Sequence[int], single: Sequence[int], largest: int, loss: float
) -> int:
    known = bisect.bisect_right(shares, loss + _LINK_SLACK)
    return min(largest, max(most[known], single[min(18, int(loss * 20 + 1e-9))]))
