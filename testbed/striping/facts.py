"""Facts of a striped-file run: what follows from the plan and the measurements together; pure.

``StripingFacts`` computes each fact once, when it is first needed. None of them is a verdict:
``judgement`` compares them.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from testbed.faults.fault import injection_times
from testbed.striping.access import Blocks, Integers, subfile_spans
from testbed.striping.measurements import Direction, OperationRecord, StripingMeasurements
from testbed.striping.plan import StripingPlan
from testbed.striping.prediction import Prediction, change_allowance_s, predict
from topologies import lists_by_key

# The time that waking threads and round trips may add to an operation. If the tolerated delay is
# shorter, the operation is too short to be compared with its prediction.
WAKING_S = 0.01


class StripingFacts:
    """Facts of one run of one plan."""

    def __init__(self, plan: StripingPlan, run: StripingMeasurements) -> None:
        self.plan = plan
        self.run = run

    # Predictions.

    @cached_property
    def prediction(self) -> Prediction | None:
        """The prediction for one operation, or None if no throughput is predicted."""
        return predict(self.plan, self.run.mtu_bytes)

    @cached_property
    def tolerated_delay_s(self) -> float:
        """The time by which an operation may exceed its prediction; 0 if there is none."""
        if self.prediction is None:
            return 0.0
        return self.prediction.seconds * (1 / self.prediction.least_ratio - 1)

    @cached_property
    def long_enough(self) -> bool:
        """True if the throughput can be compared with its prediction.

        Delays of threads matter only in a run that is timed on the machine itself.
        """
        if self.prediction is None:
            return False
        return self.run.fabric == "simulator" or self.tolerated_delay_s >= WAKING_S

    @cached_property
    def injections(self) -> tuple[tuple[str, float], ...]:
        """The link or node of each planned fault, and when it begins, in seconds."""
        return injection_times(self.plan.faults, self.plan.killed)

    @cached_property
    def counts(self) -> "CountLimits":
        """The limits of the counts of one operation."""
        return count_limits(self.plan)

    # Operations.

    @cached_property
    def completed(self) -> Sequence[OperationRecord]:
        """The operations in which no process failed."""
        return [record for record in self.run.operations if not record.errors]

    @cached_property
    def first_attempts(self) -> tuple[Direction, ...]:
        """The directions of the operations that ran, without repetitions after a failure.

        An operation under faults is not counted if the plan has none.
        """
        directions = []
        for record in self.run.operations:
            expected = bool(self.injections) or not record.under_faults
            if record.attempt == 1 and expected:
                directions.append(record.direction)
        return tuple(directions)

    @cached_property
    def typical_throughput_bps(self) -> Mapping[str, float]:
        """The median throughput of each direction, over completed operations without faults."""
        clean = [record for record in self.completed if not record.under_faults]
        values_bps = lists_by_key((record.direction, record.throughput_bps) for record in clean)
        return {direction: statistics.median(values) for direction, values in values_bps.items()}

    @cached_property
    def queue_drops(self) -> int:
        """The packets that were dropped at full queues."""
        return sum(record.queue_drops for record in self.run.operations)

    # The machine.

    @cached_property
    def timed(self) -> Sequence[OperationRecord]:
        """The operations without faults during which the load of the machine was measured."""
        operations = self.run.operations
        measured = [record for record in operations if record.machine_load is not None]
        return [record for record in measured if not record.under_faults]

    @cached_property
    def late_fraction(self) -> float:
        """The median share of an operation that was spent waiting for threads of this machine.

        The time that each time frame is allowed for the change to it is not counted.
        """
        allowed_s = 0.0
        if self.plan.schedule != "none":
            allowed_s = change_allowance_s(self.plan) * len(self.plan.frames)
        fractions = []
        for record in self.timed:
            fraction = 0.0
            if record.seconds > 0:
                fraction = max(0.0, record.thread_delay_s - allowed_s) / record.seconds
            fractions.append(fraction)
        return statistics.median(fractions)


@dataclass(frozen=True, kw_only=True)
class CountLimits:
    """The smallest and largest counts that an operation of a plan can have.

    A *request* is a contiguous range of a subfile. Each message to a listener has one or more
    requests, and each request gathers one or more *fragments*, which are contiguous in memory too
    and lie in one stripe unit. A full message cuts one request and one fragment in two.

    Attributes:
        bytes: Bytes of all blocks.
        min_messages: One message for each process and each subfile of which it has bytes.
        min_requests: The contiguous ranges of all subfiles.
        max_requests: The requests if no two ranges are merged, without cuts by full messages.
        min_fragments: The fragments if blocks that adjoin in the file adjoin in memory.
        max_fragments: The fragments if they do not, without cuts by full messages.
    """

    bytes: int
    min_messages: int
    min_requests: int
    max_requests: int
    min_fragments: int
    max_fragments: int

    def allow(self, record: OperationRecord) -> bool:
        """Return whether an operation of the plan can have these counts.

        The listeners' disks take at least one call per message, and at most two per request.
        """
        cuts = record.messages - self.min_messages
        requests = record.requests
        fragments = record.fragments
        return (
            cuts >= 0
            and record.messages <= requests
            and requests <= fragments
            and self.min_requests <= requests <= self.max_requests + cuts
            and self.min_fragments <= fragments <= self.max_fragments + cuts
            and record.messages <= record.disk_calls <= 2 * requests
        )


def count_limits(plan: StripingPlan) -> CountLimits:
    """Return the limits of the counts of one operation of the plan."""
    unit_bytes = plan.options.stripe_unit
    subfiles = plan.options.io_nodes
    ranges = []
    for blocks in plan.blocks:
        for start, end in subfile_spans(blocks, unit_bytes, subfiles):
            ranges.append(_contiguous_ranges(start, end))
    max_requests = 0
    max_fragments = 0
    joined = 0
    for blocks in plan.blocks:
        units = _units_of_blocks(blocks, unit_bytes)
        max_fragments += int(units.sum())
        # Merging leaves at most one request of a block in each subfile.
        merged = plan.options.optimise and not plan.options.disable
        requests = np.minimum(units, subfiles) if merged else units
        max_requests += int(requests.sum())
        joined += _joined_blocks(blocks, unit_bytes, one_subfile=subfiles == 1)
    # In one subfile, a block is contiguous.
    fragments = sum(map(len, plan.blocks)) if subfiles == 1 else max_fragments
    return CountLimits(
        bytes=sum(blocks.size_bytes for blocks in plan.blocks),
        min_messages=int(np.count_nonzero(ranges)),
        min_requests=sum(ranges),
        max_requests=max_requests,
        min_fragments=fragments - joined,
        max_fragments=max_fragments,
    )


def _contiguous_ranges(start: Integers, end: Integers) -> int:
    """Return the number of contiguous ranges of a subfile; empty spans are ignored."""
    starts = np.sort(start[end > start])
    ends = np.sort(end[end > start])
    adjoining = int((starts[1:] == ends[:-1]).sum())
    return len(starts) - adjoining


def _units_of_blocks(blocks: Blocks, unit_bytes: int) -> Integers:
    """Return the number of stripe units in which each block has bytes."""
    last = (blocks.offsets + blocks.sizes - 1) // unit_bytes
    units: Integers = last - blocks.offsets // unit_bytes + 1
    return units


def _joined_blocks(blocks: Blocks, unit_bytes: int, one_subfile: bool) -> int:
    """Return the number of blocks whose first fragment continues the previous block's last one.

    If there are several subfiles, the blocks must adjoin inside a stripe unit.
    """
    ends = (blocks.offsets + blocks.sizes)[:-1]
    joined = blocks.offsets[1:] == ends
    if not one_subfile:
        joined &= ends % unit_bytes != 0
    return int(joined.sum())
