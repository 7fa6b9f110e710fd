"""The block size N that one state of the network requires, and the range that is accepted."""

import math
from typing import NamedTuple

from fec import fec_block_size
from testbed.model.label_split import LABELS
from testbed.stream.plan import StreamPlan
from testbed.stream.prediction.active_faults import (
    Epoch,
    exact_block_size,
    is_diagnosing,
    labels_in,
    lost_intervals,
)
from testbed.stream.prediction.block_size_policy import (
    BlockSizePolicy,
    is_deterministic,
)

# Uncertainty of an estimated loss, as a fraction of all packets: with stratified labels, and with
# random losses. An estimate from few packets is less certain (``_loss_spread``).
_STRATIFIED_SPREAD = 0.02
_RANDOM_SPREAD = 0.015


class Requirement(NamedTuple):
    """The N that an epoch requires.

    Attributes:
        size: N; nan if no N up to the plan's largest is sufficient, or if no loss report arrives.
        low: Smallest accepted N, because the sender cannot distinguish similar losses.
        high: Largest accepted N.
        exact: Whether the sender can know which labels are lost.
    """

    size: float
    low: int
    high: int
    exact: bool

    @property
    def within_reach(self) -> bool:
        """True if ``size`` is a number."""
        return not math.isnan(self.size)

    @property
    def slack(self) -> float:
        """The largest difference of an accepted N from the required N; 0 if none suffices."""
        if not self.within_reach:
            return 0.0
        return max(self.high - self.size, self.size - self.low, 0)


def required_size(plan: StreamPlan, policy: BlockSizePolicy, epoch: Epoch) -> Requirement:
    """Return the N that an epoch of the plan requires."""
    random = any(0 < share < 1 for _, share in epoch.broken)
    exact = is_diagnosing(plan) and not random
    size = _size(plan, policy, epoch, by_labels=exact or is_deterministic(plan))
    if size > policy.largest or (epoch.reports_cut and size > policy.base):
        size = math.nan
    if plan.stream.block_size is not None:
        return Requirement(size, plan.stream.block_size, plan.stream.block_size, exact)
    if not math.isnan(size) and (exact or epoch.loss == 0):
        return Requirement(size, int(size), int(size), exact)
    spread = _loss_spread(plan, epoch)
    low = policy(max(0.0, epoch.loss - spread))
    high = policy(min(0.99, epoch.loss + spread))
    return Requirement(size, low, high, exact)


def _size(plan: StreamPlan, policy: BlockSizePolicy, epoch: Epoch, *, by_labels: bool) -> float:
    """Return the smallest N that repairs the epoch's losses, infinite if there is none.

    Args:
        plan: The plan of the stream.
        policy: The block sizes that the sender chooses for losses.
        epoch: The state of the network.
        by_labels: Whether N follows from the labels that are lost, and not from their share alone.
    """
    if epoch.loss == 0:
        return policy.base
    hit = lost_intervals(plan.splits[epoch.split], epoch.broken)
    if by_labels:
        needed = None if labels_in(hit) == LABELS else exact_block_size(plan)(hit)
        return math.inf if needed is None else max(policy.base, needed)
    if epoch.loss >= 1:
        return math.inf
    stream = plan.stream
    loss = round(min(epoch.loss, 0.9), 4)
    needed_at_random = fec_block_size(stream.source_packets, loss, stream.decoding_error_rate)
    size = max(policy.base, needed_at_random)
    if size > policy.largest and stream.labels == "stratified":
        # No more than the labels that are hit can be lost.
        needed = exact_block_size(plan)(hit)
        if needed is None or needed > policy.largest:
            return math.inf
        return policy.largest
    return size


def _loss_spread(plan: StreamPlan, epoch: Epoch) -> float:
    """Return how far an estimate of the epoch's loss may be off."""
    loss = epoch.loss
    packets = max(1.0, epoch.lasts_s * plan.stream.rate_pps)
    if is_deterministic(plan):
        return _STRATIFIED_SPREAD + 2 / packets
    two_deviations = 2 * math.sqrt(loss * (1 - loss) / packets) + 1 / packets
    return _RANDOM_SPREAD + max(0.1 * loss, two_deviations)
