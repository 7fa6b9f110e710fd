"""The block size N that the sender chooses for a measured loss.

There are two policies: FEC_p of Gabrielyan 2007, eq. 25, for random labels and random losses; and
the exact worst window of the route's label intervals.
"""

import bisect
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from fec import fec_block_size
from fec.redundancy.block_size import (
    stratified_block_size,
    stratified_tolerance_block_size,
)
from fec.redundancy.label_layout import rest_block_size
from fec.redundancy.labels import WEYL_MULTIPLIER
from testbed.stream.plan import StreamPlan
from testbed.stream.prediction.active_faults import is_campaign

# Symbols of one Reed-Solomon block over GF(2^8).
MAX_SYMBOLS = 255
# Additional packets for a few separate label intervals, compared with one interval of the same
# total width (docs/explanation/stream_verdict.md).
_SEPARATE = 2
# A short measurement does not distinguish losses that differ by less than this fraction, so N is
# the one of the larger loss. The first value is for failures that may overlap, the second for
# failures of single links.
_ANY_SLACK = 0.02
_LINK_SLACK = 0.015
# FEC_p is tabulated up to this loss.
_MAX_LOSS = 0.9
# For losses that no single link causes, N is tabulated for the losses 0, 1/20, ..., 18/20.
_STEPS = 20
_MAX_STEP = 18


@dataclass(frozen=True, kw_only=True)
class BlockSizePolicy:
    """The block sizes for losses; calling the policy with a loss, a fraction, returns N.

    Attributes:
        name: "equation 25", "worst window" or "worst window of any failures".
        base: FEC_t, the block size outside faults, which is the smallest.
        largest: The largest block size.
        size_for: N for a loss, before the base is applied.
    """

    name: str
    base: int
    largest: int
    size_for: Callable[[float], int]

    def __call__(self, loss: float) -> int:
        """Return N for a loss."""
        return max(self.base, self.size_for(loss))


def is_deterministic(plan: StreamPlan) -> bool:
    """Return whether the label of a packet determines whether the packet is lost.

    This is the case with stratified labels, if no fault drops packets at random and no link is
    impaired.
    """
    if plan.stream.labels != "stratified":
        return False
    partial_faults = any(fault.partial for fault in plan.faults)
    impaired = any(link.impairments for link in plan.network.links)
    return not partial_faults and not impaired


def largest_block(plan: StreamPlan) -> int:
    """Return the N that the sender never exceeds, at most 255.

    - If the plan has a fixed block size, it is this block size.
    - If ``most_overhead`` is given, it is M (1 + ``most_overhead``).
    - Otherwise it is 1.25 times the N that the failure of any link requires, and at least 2 M.
      Links that carry every label are left out.
    """
    stream = plan.stream
    m = stream.source_packets
    if stream.block_size is not None:
        return stream.block_size
    if stream.most_overhead is not None:
        return min(MAX_SYMBOLS, max(m, int(m * (1 + stream.most_overhead))))
    share = 0.0
    for split in plan.splits:
        for index in split.loaded:
            load = split.load(index)
            if load < 1:
                share = max(share, float(load))
    worst = _fec_p(m, stream.decoding_error_rate, share)
    return min(MAX_SYMBOLS, max(2 * m, worst * 5 // 4))


def largest_in_bursts(plan: StreamPlan) -> int:
    """Return the N that the sender never exceeds when losses arrive in bursts.

    It is 255 unless ``most_overhead`` is given, because bursts may require more than link failures.
    """
    if plan.stream.most_overhead is None:
        return MAX_SYMBOLS
    return largest_block(plan)


def block_size_policy(plan: StreamPlan) -> BlockSizePolicy:
    """Return the policy of the plan's sender.

    Cost: one pass over 65,536 labels for each loaded link.
    """
    if not is_deterministic(plan):
        return _random_loss_policy(plan)
    if is_campaign(plan):
        return _any_window_policy(plan)
    return _worst_window_policy(plan)


def _fec_p(m: int, decoding_error_rate: float, loss: float) -> int:
    return fec_block_size(m, round(min(loss, _MAX_LOSS), 4), decoding_error_rate)


def _random_loss_policy(plan: StreamPlan) -> BlockSizePolicy:
    """Return the policy of equation 25."""
    largest = largest_block(plan)
    stream = plan.stream
    size_for = partial(
        _size_by_equation_25,
        stream.source_packets,
        stream.decoding_error_rate,
        largest,
    )
    return BlockSizePolicy(
        name="equation 25",
        base=size_for(stream.tolerance),
        largest=largest,
        size_for=size_for,
    )


def _size_by_equation_25(m: int, decoding_error_rate: float, largest: int, loss: float) -> int:
    return min(largest, _fec_p(m, decoding_error_rate, loss))


def _any_window_policy(plan: StreamPlan) -> BlockSizePolicy:
    """Return the policy for failures that overlap and for routes that change.

    The sender cannot know which label intervals such a loss consists of. The policy assumes one
    interval whose width is the loss, rounded to percentage points, and adds the two packets that
    two to four separate intervals need. Late parity compensates for the rest.
    """
    largest = largest_block(plan)
    tolerated = stratified_tolerance_block_size(
        plan.stream.tolerance,
        plan.stream.source_packets,
        _any_multiplier(plan),
    )
    base = min(largest, tolerated)
    return BlockSizePolicy(
        name="worst window of any failures",
        base=base,
        largest=largest,
        size_for=partial(_any_window_size, plan, base, largest),
    )


def _any_window_size(plan: StreamPlan, base: int, largest: int, loss: float) -> int:
    if loss <= plan.stream.tolerance:
        return base
    worst = round(min(0.95, loss + _ANY_SLACK), 2)
    m = plan.stream.source_packets
    size = stratified_tolerance_block_size(worst, m, _any_multiplier(plan))
    return min(largest, size + _SEPARATE)


def link_block_size(plan: StreamPlan, link: int) -> int | None:
    """Return the exact worst-window N if this link fails; None if it carries every label."""
    if plan.forward.load(link) >= 1:
        return None
    stream = plan.stream
    intervals = plan.forward.intervals(link)
    return stratified_block_size(intervals, stream.source_packets, stream.label_rule)


def _any_multiplier(plan: StreamPlan) -> int:
    """Return the label multiplier with which N of losses is computed that no single link causes.

    It is the multiplier of the plan's label order, or the default one if the order is given by
    slots, which are optimized for single links only.
    """
    return WEYL_MULTIPLIER if plan.stream.label_slots else plan.stream.label_multiplier


def _worst_window_policy(plan: StreamPlan) -> BlockSizePolicy:
    """Return the policy for failures of single links, one at a time."""
    m = plan.stream.source_packets
    tolerance = plan.stream.tolerance
    largest = largest_block(plan)
    stairs = []
    for link in plan.forward.loaded:
        size = link_block_size(plan, link)
        if size is not None:
            stairs.append((float(plan.forward.load(link)), size))
    stairs.sort()
    shares = [share for share, _ in stairs]
    sizes = [size for _, size in stairs]
    largest_of_links = [m, *itertools.accumulate(sizes, max)]
    # Overlapping failures lose more than any single link: one interval of that width is assumed.
    multiplier = _any_multiplier(plan)
    of_one_interval = []
    for step in range(_MAX_STEP + 1):
        of_one_interval.append(stratified_tolerance_block_size(step / _STEPS, m, multiplier))
    tolerated = sizes[: bisect.bisect_right(shares, tolerance)]
    base = max([rest_block_size(tolerance, m, plan.stream.label_rule), *tolerated])
    return BlockSizePolicy(
        name="worst window",
        base=min(largest, base),
        largest=largest,
        size_for=partial(
            _worst_window_size,
            shares,
            largest_of_links,
            of_one_interval,
            largest,
        ),
    )


def _worst_window_size(
    shares: Sequence[float],
    largest_of_links: Sequence[int],
    of_one_interval: Sequence[int],
    largest: int,
    loss: float,
) -> int:
    """Return N for a loss that one or several failed links cause.

    Args:
        shares: The share of labels that each link carries, in ascending order.
        largest_of_links: The largest N that any of the first k links requires, for k from 0.
        of_one_interval: N if one interval of k / 20 of all labels is lost, for k from 0.
        largest: The largest N that is returned.
        loss: The measured fraction of packets lost.
    """
    links = bisect.bisect_right(shares, loss + _LINK_SLACK)
    step = min(_MAX_STEP, int(loss * _STEPS + 1e-9))
    return min(largest, max(largest_of_links[links], of_one_interval[step]))
