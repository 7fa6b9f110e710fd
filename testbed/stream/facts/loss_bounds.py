"""The smallest and the largest probability with which each packet of a run was lost.

A packet may meet several epochs while it is in transit, and the recorded times of changes have
small errors. Therefore each packet has a smallest and a largest probability of loss. If they are
equal, the fate of the packet is called certain, and losses can be compared with the prediction.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from testbed.model.label_split import LabelSplit
from testbed.stream.measurements import (
    BoolArray,
    FloatArray,
    IntArray,
    StreamMeasurements,
)
from testbed.stream.prediction.active_faults import Epoch, path_losses

# A change may have been active this long before its recorded time.
EARLY_S = 0.01


@dataclass(frozen=True)
class LossShare:
    """Losses over the packets whose fate was certain, as fractions; None if no fate was certain.

    Attributes:
        certain: The number of packets whose fate was certain.
        predicted_loss: The fraction that theory says is lost.
        measured_loss: The fraction that was lost.
        tolerance: The largest accepted difference of the two fractions.
    """

    certain: int
    predicted_loss: float | None = None
    measured_loss: float | None = None
    tolerance: float | None = None


@dataclass(frozen=True)
class LossBounds:
    """The predicted bounds and the fate of every packet, shape (packets,).

    Attributes:
        lowest: The smallest probability of loss that each packet may have met.
        highest: The largest one.
        lost: A mask of the packets that were lost.
    """

    lowest: FloatArray
    highest: FloatArray
    lost: BoolArray

    @cached_property
    def certain(self) -> BoolArray:
        """A mask of the packets whose two bounds are equal."""
        return np.asarray(self.lowest == self.highest)

    @cached_property
    def wrongly_lost(self) -> BoolArray:
        """A mask of the packets that vanished although they must have arrived."""
        return np.asarray(self.lost & (self.highest == 0))

    @cached_property
    def wrongly_arrived(self) -> BoolArray:
        """A mask of the packets that arrived although they must have vanished."""
        return np.asarray(~self.lost & (self.lowest == 1))

    @cached_property
    def random(self) -> BoolArray:
        """A mask of the packets that were lost with a known probability between 0 and 1."""
        return np.asarray(self.certain & (self.lowest > 0) & (self.lowest < 1))

    def share(self, chosen: BoolArray | slice) -> LossShare:
        """Return the losses among the chosen packets whose fate was certain."""
        certain = self.certain[chosen]
        packets = int(certain.sum())
        if not packets:
            return LossShare(0)
        probability = self.lowest[chosen][certain]
        lost = self.lost[chosen][certain]
        four_deviations = 4 * float(np.sqrt((probability * (1 - probability)).sum()))
        tolerance = (four_deviations + 1 + 1e-3 * packets) / packets
        return LossShare(packets, float(probability.mean()), float(lost.mean()), tolerance)


def bounds_over(
    course: Sequence[Epoch],
    splits: Sequence[LabelSplit],
    run: StreamMeasurements,
    latest_arrival_s: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return the smallest and the largest probability of loss of each packet, shape (packets,).

    Args:
        course: All epochs, in order.
        splits: The label splits of the plan.
        run: The measurements.
        latest_arrival_s: The latest possible time of arrival of each packet.
    """
    sent = run.sent
    clock_error_s = run.clocks.fault_to_sender_s
    begins_s = np.array([epoch.start_s for epoch in course]) - clock_error_s
    ends_s = np.array([epoch.stop_s for epoch in course]) + EARLY_S + clock_error_s
    first = np.searchsorted(ends_s, sent.time_s, side="right")
    first = np.minimum(first, len(course) - 1)
    last = np.maximum(first, np.searchsorted(begins_s, latest_arrival_s, side="right") - 1)
    lowest = np.zeros(len(first))
    highest = np.zeros(len(first))
    for packets in _groups(first, last):
        met = course[first[packets[0]] : last[packets[0]] + 1]
        low, high = _bounds_of(met, splits, sent.label[packets])
        lowest[packets] = low
        highest[packets] = high
    return lowest, highest


def _bounds_of(
    met: Sequence[Epoch], splits: Sequence[LabelSplit], labels: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return the bounds for packets with these labels that met these epochs.

    The lower bound counts links that lose packets in all of these epochs, the upper bound those
    that do so in any of them: a packet may cross one link in the first epoch and another link in
    the second.
    """
    surely = dict(met[0].broken)
    perhaps = dict(met[0].broken)
    for epoch in met[1:]:
        broken = dict(epoch.broken)
        common = surely.keys() & broken.keys()
        surely = {link: min(surely[link], broken[link]) for link in common}
        for link, loss in broken.items():
            perhaps[link] = max(loss, perhaps.get(link, 0.0))
    lowest = np.ones(len(labels))
    highest = np.zeros(len(labels))
    for number in {epoch.split for epoch in met}:
        split = splits[number]
        path = split_paths(split, labels)
        lowest = np.minimum(lowest, path_losses(split, frozenset(surely.items()))[path])
        highest = np.maximum(highest, path_losses(split, frozenset(perhaps.items()))[path])
    return lowest, highest


def split_paths(split: LabelSplit, labels: IntArray) -> IntArray:
    """Return the index in ``split.paths`` of the path that each label takes."""
    starts = np.array([path.start for path in split.paths])
    return np.asarray(np.searchsorted(starts, labels, side="right") - 1, dtype=np.int64)


def _groups(first: IntArray, last: IntArray) -> Iterator[IntArray]:
    """Yield groups of packets with the same first and the same last epoch, as arrays of indices."""
    if not len(first):
        return
    order = np.lexsort((last, first))
    changed = (np.diff(first[order]) != 0) | (np.diff(last[order]) != 0)
    yield from np.split(order, np.flatnonzero(changed) + 1)
