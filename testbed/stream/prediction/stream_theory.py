"""All theory of one plan of a stream, each part computed once."""

from functools import cached_property

from fec.protocol.path_deadlines import JITTER, LEAST_S
from testbed.faults.fault import Fault
from testbed.model.label_split import LABELS
from testbed.stream.plan import StreamPlan
from testbed.stream.prediction.active_faults import (
    Epoch,
    ImpairedSpan,
    is_campaign,
    is_diagnosing,
    predicted_loss,
    stream_spans,
)
from testbed.stream.prediction.block_size_policy import (
    BlockSizePolicy,
    block_size_policy,
    is_deterministic,
)
from testbed.stream.prediction.path_delays import (
    allowed_reaction_s,
    delay_to_fault_s,
    longest_path_delay_s,
    path_spread_s,
    round_trip_s,
)
from testbed.stream.prediction.required_size import (
    Requirement,
    required_size,
)


class StreamTheory:
    """Answers questions about a plan; each answer is computed once, when it is first needed."""

    def __init__(self, plan: StreamPlan) -> None:
        self.plan = plan

    @cached_property
    def policy(self) -> BlockSizePolicy:
        """The block sizes with which the sender answers losses."""
        return block_size_policy(self.plan)

    @cached_property
    def adaptive(self) -> bool:
        """True if the sender chooses N."""
        return self.plan.stream.block_size is None

    @cached_property
    def diagnosing(self) -> bool:
        """True if the sender finds out what failed."""
        return is_diagnosing(self.plan)

    @cached_property
    def deterministic(self) -> bool:
        """True if losses follow from labels alone."""
        return is_deterministic(self.plan)

    @cached_property
    def faults_alone(self) -> bool:
        """True if no two faults overlap and no node moves, so that each fault is an epoch."""
        return not is_campaign(self.plan)

    @cached_property
    def impaired_spans(self) -> tuple[ImpairedSpan, ...]:
        """Impaired links that the stream or its loss reports may cross."""
        return stream_spans(self.plan)

    @cached_property
    def round_trip_s(self) -> float:
        """Propagation over the longest path there and the longest path back."""
        return round_trip_s(self.plan)

    @cached_property
    def longest_path_s(self) -> float:
        """Propagation over the longest path there."""
        return longest_path_delay_s(self.plan)

    @cached_property
    def tail_s(self) -> float:
        """Time that a packet must be older than the newest one that arrives, to be judged.

        The sender judges a packet when one that was due later has arrived.
        """
        return path_spread_s(self.plan) + 2 * JITTER * self.longest_path_s + LEAST_S

    @cached_property
    def allowed_reaction_s(self) -> float:
        """Time that a sender may take to answer a failure."""
        return allowed_reaction_s(self.plan)

    @cached_property
    def recovery_s(self) -> float:
        """Time after a repair until the sender is back at its normal N."""
        return self.plan.stream.recovery_s + self.round_trip_s

    def reach_s(self, fault: Fault) -> float:
        """Return how long packets take to the end of the fault's link at most."""
        return delay_to_fault_s(self.plan, fault)

    def loss_of(self, fault: Fault) -> float:
        """Return the fraction of the stream that the fault takes."""
        return predicted_loss(self.plan, fault)

    @cached_property
    def largest_planned(self) -> int:
        """The largest N that the plan's faults call for."""
        if self.plan.stream.block_size is not None:
            return self.plan.stream.block_size
        if not self.faults_alone:
            return self.policy.largest
        sizes = [self.policy.base]
        for fault in self.plan.faults:
            if self.loss_of(fault) < 1:
                sizes.append(self.policy(self.loss_of(fault)))
        return max(sizes)

    def uncounted_s(self, fault: Fault) -> float:
        """Return the duration of a fault of which no packet counts: blocks may have met it in part."""
        return 2 * self.plan.stream.block_s + self.reach_s(fault)

    def least_share_pps(self, labels: int) -> float:
        """Return the rate of the packets with this number of labels, at the smallest N."""
        stream = self.plan.stream
        size = stream.block_size or self.policy.base
        return stream.rate_pps * size / stream.source_packets * labels / LABELS

    def requirement(self, epoch: Epoch) -> Requirement:
        """Return which N answers an epoch."""
        return required_size(self.plan, self.policy, epoch)
