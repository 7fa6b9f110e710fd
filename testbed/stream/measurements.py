"""What a fabric measured while it ran a stream: packet logs of both ends, fault times, block outcomes, health of the
run.

All times are seconds since the stream's start on one clock. Arrays are numpy, one entry a packet, in log order.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from testbed.arrays import BoolArray as BoolArray
from testbed.arrays import FloatArray as FloatArray
from testbed.arrays import IntArray as IntArray
from testbed.faults.fault import ChangeTimes, FaultTimes
from testbed.judgement.deliveries import Deliveries, packet_deliveries
from topologies import Json

RELAYED = "impaired_links"
"""Name of the counter that holds, link by link, what a relay did with an impaired link's packets and how late it
was."""


@dataclass(frozen=True, kw_only=True)
class ReceivedPackets:
    """Shape (n,): arrivals at the sink, duplicates included."""

    time_s: FloatArray
    block: IntArray
    symbol: IntArray

    @property
    def key(self) -> IntArray:
        """Shape (n,): the same number for the same symbol of the same block."""
        return self.block * 256 + self.symbol


@dataclass(frozen=True, kw_only=True)
class SentPackets(ReceivedPackets):
    """Shape (n,): when each packet was handed to the network, its block, symbol id, label and the block size N then."""

    label: IntArray
    block_size: IntArray


@dataclass(frozen=True, kw_only=True)
class BlockOutcomes:
    """Shape (n,), one a block: when it was started (first packet sent), when it had all its source packets (nan:
    never), how many symbols arrived, how many source packets were late or lost for the listener."""

    block: IntArray
    started_s: FloatArray
    complete_s: FloatArray
    arrived: IntArray
    late_source_packets: IntArray


@dataclass(frozen=True, kw_only=True)
class LossReportLog:
    """What loss reports told the sender, and when. Shape (reports,): ``told_s``, when it had each, and ``newest_s``,
    when the newest packet that it knew of by then was sent. Shape (taken,): ``block`` and ``symbol`` of each packet
    that it took for lost, from ``lost_s`` until ``came_s``, when a report told that it had come after all (inf: none
    ever did)."""

    told_s: FloatArray
    newest_s: FloatArray
    block: IntArray
    symbol: IntArray
    lost_s: FloatArray
    came_s: FloatArray


_TIMES, _NUMBERS = np.empty(0), np.empty(0, dtype=np.int64)
NO_LOSS_REPORTS = LossReportLog(
    told_s=_TIMES, newest_s=_TIMES, block=_NUMBERS, symbol=_NUMBERS, lost_s=_TIMES, came_s=_TIMES
)


@dataclass(frozen=True, kw_only=True)
class RunHealth:
    """Whether the machine kept up: worst lag of the sender behind its schedule, packets lost in no fault, CPU share
    (0..1)."""

    sender_lag_s: float
    unplanned_drops: int
    cpu_fraction: float | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class StreamClocks:
    """How far the times of a run can be off where its parts have clocks of their own, seconds: of packets sent, of
    packets received, and of faults and route changes. All 0 where one clock told everything."""

    sender_s: float = 0.0
    receiver_s: float = 0.0
    faults_s: float = 0.0

    @property
    def fault_to_sender_s(self) -> float:
        """Of a time from a fault to something that the sender did."""
        return self.sender_s + self.faults_s

    @property
    def end_to_end_s(self) -> float:
        """Of a time from sending to arrival."""
        return self.sender_s + self.receiver_s


ONE_CLOCK = StreamClocks()


@dataclass(frozen=True, kw_only=True)
class StreamMeasurements:
    """One run of one plan on one fabric ("emulation" or "simulator")."""

    fabric: str
    sent: SentPackets
    received: ReceivedPackets
    blocks: BlockOutcomes
    faults: tuple[FaultTimes, ...]
    changes: tuple[ChangeTimes, ...] = ()
    clocks: StreamClocks = ONE_CLOCK
    news: LossReportLog = NO_LOSS_REPORTS
    health: RunHealth
    counters: Json = field(default_factory=dict)

    @cached_property
    def deliveries(self) -> Deliveries:
        """Whether and when each packet that was sent arrived."""
        sent, received = self.sent, self.received
        return packet_deliveries(sent.key, sent.time_s, received.key, received.time_s)

    @property
    def lost(self) -> BoolArray:
        """A mask of the packets that never arrived, shape (sent,)."""
        return self.deliveries.lost

    @cached_property
    def first_of_block(self) -> BoolArray:
        """Shape (sent,): which packets are the first of their block."""
        first = np.zeros(len(self.sent.block), dtype=np.bool_)
        first[np.unique(self.sent.block, return_index=True)[1]] = True
        return first

    @cached_property
    def place_of_block(self) -> IntArray:
        """Shape (sent,): the index of each packet's block in ``blocks``."""
        return np.searchsorted(self.blocks.block, self.sent.block)

    @cached_property
    def packets_of_block(self) -> IntArray:
        """Shape (blocks,): how many packets were sent of each."""
        return np.bincount(self.place_of_block, minlength=len(self.blocks.block))

    @cached_property
    def size_begun(self) -> IntArray:
        """Shape (blocks,): the N that each was begun with."""
        begun = np.zeros(len(self.blocks.block), dtype=np.int64)
        begun[self.place_of_block[self.first_of_block]] = self.sent.block_size[self.first_of_block]
        return begun

    @property
    def never_complete(self) -> BoolArray:
        """Shape (blocks,): which were never decoded in time."""
        return np.isnan(self.blocks.complete_s)
