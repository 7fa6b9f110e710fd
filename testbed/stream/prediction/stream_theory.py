"""All predictions for one plan of a stream, each computed once."""

from functools import cached_property

from fec.protocol.path_deadlines import JITTER, MIN_S
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
    """Predictions for one plan; each is computed once, when it is first needed."""

    def __init__(self, plan: StreamPlan) -> None:
        self.plan = plan

    @cached_property
    def policy(self) -> BlockSizePolicy:
        """The block sizes that the sender chooses for losses."""
        return block_size_policy(self.plan)

    @cached_property
    def adaptive(self) -> bool:
        """True if the sender adapts N to the losses; false if N is fixed."""
        return self.plan.stream.block_size is None

    @cached_property
    def diagnosing(self) -> bool:
        """True if the sender diagnoses which cable or node has failed."""
        return is_diagnosing(self.plan)

    @cached_property
    def deterministic(self) -> bool:
        """True if the label of a packet determines whether it is lost."""
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
        """Lead in seconds after which the sender treats a missing packet as lost.

        The sender does so when a packet that was sent this much later has arrived, whatever paths
        the two packets take.
        """
        return path_spread_s(self.plan) + 2 * JITTER * self.longest_path_s + MIN_S

    @cached_property
    def allowed_reaction_s(self) -> float:
        """Time that a sender may take to react to a failure."""
        return allowed_reaction_s(self.plan)

    @cached_property
    def recovery_s(self) -> float:
        """Time after a repair until the sender is back at its normal N."""
        return self.plan.stream.recovery_s + self.round_trip_s

    def reach_s(self, fault: Fault) -> float:
        """Return the largest propagation delay from the source to the far end of the link."""
        return delay_to_fault_s(self.plan, fault)

    def loss_of(self, fault: Fault) -> float:
        """Return the fraction of the stream's packets that the fault loses."""
        return predicted_loss(self.plan, fault)

    @cached_property
    def largest_planned(self) -> int:
        """The largest N that the plan's faults require."""
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
        """Return the duration up to which a fault has no packets that can be compared.

        In a shorter fault, no complete block is sent and arrives.
        """
        return 2 * self.plan.stream.block_s + self.reach_s(fault)

    def least_share_pps(self, labels: int) -> float:
        """Return the smallest packet rate (packets per second) of a number of labels.

        The rate is the smallest outside faults, when N is smallest.
        """
        stream = self.plan.stream
        size = stream.block_size or self.policy.base
        return stream.rate_pps * size / stream.source_packets * labels / LABELS

    def requirement(self, epoch: Epoch) -> Requirement:
        """Return the N that an epoch requires."""
        return required_size(self.plan, self.policy, epoch)
