"""The epochs of a run, and the block size N that each of them requires.

An epoch is a time in which nothing changes: the same links are broken, and packets take the same
paths. The time of a fault that overlaps no other fault is one epoch.
"""

from functools import cached_property

import numpy as np

from testbed.stream.measurements import (
    BoolArray,
    FloatArray,
    IntArray,
    StreamMeasurements,
)
from testbed.stream.plan import StreamPlan
from testbed.stream.prediction.active_faults import Epoch, epochs, joined_epochs
from testbed.stream.prediction.required_size import Requirement
from testbed.stream.prediction.stream_theory import StreamTheory


class EpochFacts:
    """The epochs of one run of one plan.

    Arrays have one entry for each epoch in the order of time, unless their docstring says
    otherwise.
    """

    def __init__(self, plan: StreamPlan, run: StreamMeasurements) -> None:
        self.theory = StreamTheory(plan)
        self.plan = plan
        self.run = run

    @cached_property
    def epochs(self) -> tuple[Epoch, ...]:
        """The epochs by the times at which faults and changes of routes were carried out."""
        return epochs(self.plan, self.run.faults, self.run.changes)

    @cached_property
    def joined_epochs(self) -> tuple[Epoch, ...]:
        """Additional epochs for packets that are in transit from one epoch to a later one.

        Such a packet may meet the broken links of both; see ``active_faults.joined_epochs``.
        """
        return joined_epochs(self.plan, self.epochs, self.theory.longest_path_s)

    @cached_property
    def starts_s(self) -> FloatArray:
        """The beginning of each epoch."""
        return np.array([epoch.start_s for epoch in self.epochs])

    @cached_property
    def stops_s(self) -> FloatArray:
        """The end of each epoch."""
        return np.array([epoch.stop_s for epoch in self.epochs])

    @cached_property
    def losses(self) -> FloatArray:
        """The share of labels lost in each epoch."""
        return np.array([epoch.loss for epoch in self.epochs])

    @cached_property
    def required(self) -> tuple[Requirement, ...]:
        """The N that each epoch requires, with its tolerances."""
        return tuple(self.theory.requirement(epoch) for epoch in self.epochs)

    @cached_property
    def sizes(self) -> FloatArray:
        """The N that each epoch requires, as a number; nan if no N is sufficient."""
        return np.array([required.size for required in self.required])

    @cached_property
    def lowest_sizes(self) -> IntArray:
        """The smallest N that is accepted as an answer to each epoch."""
        return np.array([required.low for required in self.required])

    @cached_property
    def highest_sizes(self) -> IntArray:
        """The largest N that is accepted as an answer to each epoch."""
        return np.array([required.high for required in self.required])

    @cached_property
    def exact(self) -> BoolArray:
        """A mask of the epochs in which the sender can know the lost labels."""
        return np.array([required.exact for required in self.required])

    @cached_property
    def estimated(self) -> BoolArray:
        """A mask of the epochs in which the sender estimates a random loss."""
        if self.theory.deterministic:
            return np.zeros(len(self.epochs), dtype=np.bool_)
        return np.asarray(~self.exact & (self.losses > 0))

    @cached_property
    def epoch_of_block(self) -> IntArray:
        """The index of the epoch in which each block began, shape (blocks,)."""
        return self.epochs_at(self.run.blocks.started_s)

    def epochs_at(self, times_s: FloatArray) -> IntArray:
        """Return the indices of the epochs in which the times lie."""
        indices = np.searchsorted(self.starts_s, times_s, side="right") - 1
        return np.asarray(np.clip(indices, 0, len(self.epochs) - 1), dtype=np.int64)

    def epoch_at(self, at_s: float) -> int:
        """Return the index of the epoch in which the time lies."""
        return int(self.epochs_at(np.array([at_s]))[0])
