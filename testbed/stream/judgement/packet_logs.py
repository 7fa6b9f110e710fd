"""Logs of packets and loss reports as arrays, and the outcome of each block.

The outcome is computed from the logs of both ends alone. The receiver's own counters are compared
with it (``end_counters``).
"""

import math
from array import array
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fec.redundancy.labels import RandomLabels, label_table
from testbed.judgement.deliveries import Deliveries, packet_deliveries
from testbed.stream.measurements import (
    BlockOutcomes,
    LossReportLog,
    ReceivedPackets,
    SentPackets,
    StreamMeasurements,
)
from testbed.stream.plan import StreamPlan

# With random labels, only this number of packets is compared, because each one costs a function
# call. They are spread evenly over the log.
_MAX_LABELS = 2000


class RowLog:
    """Rows of numbers, compact while they grow.

    When they are read, each column is an array: of floats if its name ends in ``_s``, else of
    integers.

    Attributes:
        values: The rows that were added one by one, one after another.
    """

    def __init__(self, *columns: str) -> None:
        self._columns = columns
        self.values = array("d")
        self._batches: list[NDArray[np.float64]] = []
        self._batched = 0

    def __len__(self) -> int:
        return self._batched + len(self.values) // len(self._columns)

    def add_row(self, *row: float) -> None:
        """Add a row."""
        self.values.extend(row)

    def add_rows(self, rows: NDArray[np.float64]) -> None:
        """Add the rows of an array.

        Each batch is stored as a separate array, because a single array would be copied whenever it
        grows.
        """
        if len(rows):
            self._batches.append(rows.copy())
            self._batched += len(rows)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the columns by name."""
        single = np.array(self.values).reshape(-1, len(self._columns))
        table = np.concatenate((*self._batches, single)).transpose()
        arrays = {}
        for name, column in zip(self._columns, table, strict=True):
            arrays[name] = column.astype(np.float64 if name.endswith("_s") else np.int64)
        return arrays


class SentLog(RowLog):
    """The packets sent, and the largest lag of the sender behind its schedule."""

    def __init__(self) -> None:
        super().__init__("time_s", "block", "symbol", "label", "block_size")
        self.worst_lag_s = 0.0

    def add(
        self,
        time_s: float,
        due_s: float,
        block: int,
        symbol: int,
        label: int,
        block_size: int,
    ) -> None:
        """Add a packet that was due at ``due_s``."""
        self.add_row(time_s, block, symbol, label, block_size)
        self.worst_lag_s = max(self.worst_lag_s, time_s - due_s)

    def add_batch(self, began_s: float, ended_s: float, packets: NDArray[np.float64]) -> None:
        """Add packets that left one after another between two times.

        Args:
            began_s: When the first was handed to the network.
            ended_s: When the last was.
            packets: Rows as a ``BatchSender`` logs them; the first column is when each was due.
        """
        self.add_rows(packets)
        rows = self._batches[-1]
        step_s = (ended_s - began_s) / len(rows)
        rows[:, 0] = began_s + step_s * np.arange(1, len(rows) + 1)
        lag_s = float((rows[:, 0] - packets[:, 0]).max())
        self.worst_lag_s = max(self.worst_lag_s, lag_s)

    def packets(self) -> SentPackets:
        """Return the packets as arrays."""
        return SentPackets(**self.arrays())


class LossReportRecorder:
    """The loss reports, and the packets that the sender treats as lost."""

    def __init__(self) -> None:
        self._reports = RowLog("told_s", "newest_s")
        self._losses = RowLog("block", "symbol", "lost_s", "came_s")
        self._position_of_arrival: dict[tuple[int, int], int] = {}

    def report(self, report_received_s: float, newest_s: float) -> None:
        """Record that the sender received a loss report.

        Args:
            report_received_s: When the sender received it.
            newest_s: When the newest packet was sent that a report has mentioned so far.
        """
        if not len(self._reports) or newest_s != self._reports.values[-1]:
            self._reports.add_row(report_received_s, newest_s)

    def record_decision(self, block: int, symbol: int, lost: bool, at_s: float) -> None:
        """Record that the sender treats a packet as lost, or no longer does.

        See ``StreamSender.on_judgement``.
        """
        if lost:
            self._losses.add_row(block, symbol, at_s, math.inf)
            self._position_of_arrival[block, symbol] = len(self._losses.values) - 1
            return
        position = self._position_of_arrival.pop((block, symbol), None)
        if position is not None:
            self._losses.values[position] = at_s

    def log(self) -> LossReportLog:
        """Return both as arrays."""
        return LossReportLog(**self._reports.arrays(), **self._losses.arrays())


class ReceivedLog(RowLog):
    """The packets that arrived."""

    def __init__(self) -> None:
        super().__init__("time_s", "block", "symbol")

    def add(self, time_s: float, block: int, symbol: int) -> None:
        """Add a packet."""
        self.add_row(time_s, block, symbol)

    def packets(self) -> ReceivedPackets:
        """Return the packets as arrays."""
        return ReceivedPackets(**self.arrays())


def block_outcomes(
    sent: SentPackets,
    received: ReceivedPackets,
    source_packets: int,
    playback_s: float,
) -> BlockOutcomes:
    """Return the outcome of each block of which a packet was sent, in block order.

    A block is complete when M distinct symbols, or all M source symbols, have arrived, at most
    ``playback_s`` after its first packet was sent. A source packet is late if neither it nor its
    block's decoding happened within ``playback_s`` of its own sending. Cost: O((n + m) log) for n
    packets sent and m received.
    """
    blocks, index = np.unique(sent.block, return_inverse=True)
    count = len(blocks)
    started_s = np.full(count, np.inf)
    np.minimum.at(started_s, index, sent.time_s)
    fates = packet_deliveries(sent.key, sent.time_s, received.key, received.time_s)
    arrived_s = np.nan_to_num(fates.arrived_s, nan=np.inf)
    arrived = np.bincount(index, weights=~fates.lost, minlength=count).astype(np.int64)
    by_arrival = np.lexsort((arrived_s, index))
    first_of_block = np.searchsorted(index[by_arrival], np.arange(count))
    enough = arrived >= source_packets
    complete_s = np.full(count, np.nan)
    complete_s[enough] = arrived_s[by_arrival][(first_of_block + source_packets - 1)[enough]]
    complete_s[complete_s > started_s + playback_s] = np.nan
    decoded_s = np.nan_to_num(complete_s, nan=np.inf)[index]
    in_time = np.minimum(arrived_s, decoded_s) <= sent.time_s + playback_s
    late = (sent.symbol < source_packets) & ~in_time
    return BlockOutcomes(
        block=blocks.astype(np.int64),
        started_s=started_s,
        complete_s=complete_s,
        arrived=arrived,
        late_source_packets=np.bincount(index, weights=late, minlength=count).astype(np.int64),
    )


def undecided_arrivals(deliveries: Deliveries, playback_s: float, within_s: float) -> int:
    """Return how many packets may have arrived before or after their playback time.

    The uncertainty of the clocks does not allow a decision for them.

    Args:
        deliveries: The fates of the packets.
        playback_s: The playback time after the sending of a packet.
        within_s: Uncertainty of the clocks in seconds.
    """
    if not within_s:
        return 0
    near = np.abs(deliveries.transit_s - playback_s) <= within_s
    return int(near.sum())


def mislabelled(plan: StreamPlan, run: StreamMeasurements) -> tuple[int, int]:
    """Return how many packets were sent under another label than the plan's order.

    Block b begins with the label of index base(b), where base(b + 1) = base(b) + N(b). No packet is
    compared if the log has gaps.

    Returns:
        The number of packets with another label, and the number of packets that were compared.
    """
    blocks = run.blocks.block
    sent = run.sent
    if not len(blocks) or blocks[0] != 0 or blocks[-1] != len(blocks) - 1:
        return 0, 0
    base = np.concatenate([[0], np.cumsum(run.initial_block_size)[:-1]])
    index = base[run.block_index] + sent.symbol
    if plan.stream.labels == "stratified":
        table = label_table(plan.stream.label_rule)
        wrong = table[index % len(table)] != sent.label
        return int(wrong.sum()), len(index)
    order = RandomLabels(plan.seed)
    compared = np.unique(np.linspace(0, len(index) - 1, _MAX_LABELS).astype(np.int64))
    mistakes = 0
    for packet in compared:
        mistakes += order.label(int(index[packet])) != int(sent.label[packet])
    return mistakes, len(compared)
