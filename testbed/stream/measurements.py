"""The measurements of a stream: packet logs of both ends, fault times, block outcomes, health.

All times are seconds since the start of the stream, on one clock. Arrays have one entry for each
packet, in the order of the log, unless their class says otherwise.
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

# Name of the counter that holds the report of the relay of each impaired link.
RELAYED = "impaired_links"


@dataclass(frozen=True, kw_only=True)
class ReceivedPackets:
    """The packets that arrived at the sink, including duplicates.

    Attributes:
        time_s: Time of arrival, shape (n,).
        block: Number of the packet's block, shape (n,).
        symbol: Number of the symbol in the block, shape (n,).
    """

    time_s: FloatArray
    block: IntArray
    symbol: IntArray

    @property
    def key(self) -> IntArray:
        """A number that identifies the block and the symbol of each packet, shape (n,)."""
        return self.block * 256 + self.symbol


@dataclass(frozen=True, kw_only=True)
class SentPackets(ReceivedPackets):
    """The packets that the source sent.

    Attributes:
        time_s: Time at which the packet was passed to the network, shape (n,).
        block: Number of the packet's block, shape (n,).
        symbol: Number of the symbol in the block, shape (n,).
        label: Label of the packet, shape (n,).
        block_size: Block size N when the packet was sent, shape (n,).
    """

    label: IntArray
    block_size: IntArray


@dataclass(frozen=True, kw_only=True)
class BlockOutcomes:
    """The result of each block.

    Attributes:
        block: Number of the block, shape (blocks,).
        started_s: Time at which its first packet was sent, shape (blocks,).
        complete_s: Time at which the sink had all its source packets, shape (blocks,); NaN if that
            was not in time.
        arrived: Number of different symbols that arrived, shape (blocks,).
        late_source_packets: Number of source packets that missed playback, shape (blocks,).
    """

    block: IntArray
    started_s: FloatArray
    complete_s: FloatArray
    arrived: IntArray
    late_source_packets: IntArray


@dataclass(frozen=True, kw_only=True)
class LossReportLog:
    """The loss reports that arrived at the sender, and the packets that it considered lost.

    Attributes:
        told_s: Time of arrival of each report, shape (reports,).
        newest_s: When the newest packet was sent that this report or an earlier one contains,
            shape (reports,).
        block: Block of each packet that the sender considered lost, shape (lost,).
        symbol: Its symbol, shape (lost,).
        lost_s: Time from which the sender considered it lost, shape (lost,).
        came_s: Time at which a report said that it had arrived after all, shape (lost,); infinity
            if none did.
    """

    told_s: FloatArray
    newest_s: FloatArray
    block: IntArray
    symbol: IntArray
    lost_s: FloatArray
    came_s: FloatArray


_NO_TIMES = np.empty(0)
_NO_NUMBERS = np.empty(0, dtype=np.int64)
NO_LOSS_REPORTS = LossReportLog(
    told_s=_NO_TIMES,
    newest_s=_NO_TIMES,
    block=_NO_NUMBERS,
    symbol=_NO_NUMBERS,
    lost_s=_NO_TIMES,
    came_s=_NO_TIMES,
)


@dataclass(frozen=True, kw_only=True)
class RunHealth:
    """Says whether the machine kept up.

    Attributes:
        sender_lag_s: Maximum delay of a packet behind the sender's schedule.
        unplanned_drops: Packets that sockets and switches dropped without a fault.
        cpu_fraction: Share of the processors that was in use (0 to 1); None if unknown.
        notes: Remarks for the reader.
    """

    sender_lag_s: float
    unplanned_drops: int
    cpu_fraction: float | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class StreamClocks:
    """The uncertainties of a run's times, if the parts of the network have different clocks.

    They are 0 if there is one clock.

    Attributes:
        sender_s: Uncertainty of the times of packets sent.
        receiver_s: Uncertainty of the times of packets received.
        faults_s: Uncertainty of the times of faults and route changes.
    """

    sender_s: float = 0.0
    receiver_s: float = 0.0
    faults_s: float = 0.0

    @property
    def fault_to_sender_s(self) -> float:
        """Uncertainty of the time from a fault to an action of the sender."""
        return self.sender_s + self.faults_s

    @property
    def end_to_end_s(self) -> float:
        """Uncertainty of the time from sending to arrival."""
        return self.sender_s + self.receiver_s


ONE_CLOCK = StreamClocks()


@dataclass(frozen=True, kw_only=True)
class StreamMeasurements:
    """The measurements of one run of one plan.

    Attributes:
        fabric: "emulation" or "simulator".
        sent: The packets sent.
        received: The packets received.
        blocks: The result of each block.
        faults: When each fault happened.
        changes: When each route change happened.
        clocks: The uncertainties of the times.
        news: The loss reports, and the packets that the sender considered lost.
        health: Says whether the machine kept up.
        counters: The counters of both ends and facts about the network.
    """

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
        """The arrival of each packet that was sent."""
        return packet_deliveries(
            self.sent.key, self.sent.time_s, self.received.key, self.received.time_s
        )

    @property
    def lost(self) -> BoolArray:
        """A mask of the packets that never arrived, shape (sent,)."""
        return self.deliveries.lost

    @cached_property
    def first_of_block(self) -> BoolArray:
        """A mask of the first packets of blocks, shape (sent,)."""
        first = np.zeros(len(self.sent.block), dtype=np.bool_)
        first[np.unique(self.sent.block, return_index=True)[1]] = True
        return first

    @cached_property
    def block_index(self) -> IntArray:
        """The index of each packet's block in ``blocks``, shape (sent,)."""
        return np.searchsorted(self.blocks.block, self.sent.block)

    @cached_property
    def packets_of_block(self) -> IntArray:
        """The number of packets that were sent of each block, shape (blocks,)."""
        return np.bincount(self.block_index, minlength=len(self.blocks.block))

    @cached_property
    def initial_block_size(self) -> IntArray:
        """The block size N with which each block began, shape (blocks,)."""
        sizes = np.zeros(len(self.blocks.block), dtype=np.int64)
        sizes[self.block_index[self.first_of_block]] = self.sent.block_size[self.first_of_block]
        return sizes

    @property
    def never_complete(self) -> BoolArray:
        """A mask of the blocks that were not complete in time, shape (blocks,)."""
        return np.isnan(self.blocks.complete_s)
