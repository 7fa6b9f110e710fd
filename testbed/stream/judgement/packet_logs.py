"""Packet logs as arrays, and what became of each block, computed from the logs of both ends alone.

The receiver's own account (what it delivered) is kept as counters, so that the two can be held against each other.
"""

import math
from array import array
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fec.protocol.probation import NEAR_BLOCKS
from fec.protocol.receiver_types import ReceiverParameters
from fec.redundancy.labels import RandomLabels, label_table
from testbed.model.verdict import below_nought
from testbed.stream.measurements import (
    BlockOutcomes,
    LossReportLog,
    PacketDeliveries,
    ReceivedPackets,
    SentPackets,
    StreamMeasurements,
    packet_deliveries,
)
from testbed.stream.plan import StreamPlan
from testbed.stream.prediction.active_faults import (
    DIAGNOSES,
    RETURN_LABELS,
    is_impaired,
    stream_spans,
)
from topologies.impairments import ExtraDelay, RateTrace, Reordering


class RowLog:
    """Rows of numbers; compact while they grow, an array a column when they are read: of floats where its name ends in
    ``_s``, else of integers. Those of ``values`` come one by one, else whole batches."""

    def __init__(self, *columns: str) -> None:
        self._columns = columns
        self.values = array("d")
        self._batches, self._batched = list[NDArray[np.float64]](), 0

    def __len__(self) -> int:
        return self._batched + len(self.values) // len(self._columns)

    def add_row(self, *row: float) -> None:
        self.values.extend(row)

    def add_rows(self, rows: NDArray[np.float64]) -> None:
        """A copy of an array, a row each, on its own: one array that grows would be copied again and again."""
        if len(rows):
            self._batches.append(rows.copy())
            self._batched += len(rows)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The columns by name."""
        single = np.array(self.values).reshape(-1, len(self._columns))
        table = np.concatenate((*self._batches, single)).transpose()
        pairs = zip(self._columns, table, strict=True)
        return {
            name: column.astype(np.float64 if name.endswith("_s") else np.int64)
            for name, column in pairs
        }


class SentLog(RowLog):
    """A row a packet sent."""

    def __init__(self) -> None:
        super().__init__("time_s", "block", "symbol", "label", "block_size")
        self.worst_lag_s = 0.0

    def add(
        self, time_s: float, due_s: float, block: int, symbol: int, label: int, block_size: int
    ) -> None:
        self.add_row(time_s, block, symbol, label, block_size)
        self.worst_lag_s = max(self.worst_lag_s, time_s - due_s)

    def add_batch(self, began_s: float, ended_s: float, packets: NDArray[np.float64]) -> None:
        """Packets that left one after another between those times: rows as a ``BatchSender`` logs them."""
        self.add_rows(packets)
        rows = self._batches[-1]
        rows[:, 0] = began_s + (ended_s - began_s) / len(rows) * np.arange(1, len(rows) + 1)
        self.worst_lag_s = max(self.worst_lag_s, float((rows[:, 0] - packets[:, 0]).max()))

    def packets(self) -> SentPackets:
        return SentPackets(**self.arrays())


class LossReportRecorder:
    """A row a loss report, and one a packet that the sender takes for lost."""

    def __init__(self) -> None:
        self._reports, self._taken = (
            RowLog("told_s", "newest_s"),
            RowLog("block", "symbol", "lost_s", "came_s"),
        )
        self._declared_lost: dict[tuple[int, int], int] = {}

    def report(self, report_received_s: float, newest_s: float) -> None:
        """A datagram of the return path has been read; ``newest_s``: of the newest packet that the sender now knows
        of."""
        if not len(self._reports) or newest_s != self._reports.values[-1]:
            self._reports.add_row(report_received_s, newest_s)

    def record_decision(self, block: int, symbol: int, lost: bool, at_s: float) -> None:
        """``StreamSender.on_judgement``."""
        if lost:
            self._taken.add_row(block, symbol, at_s, math.inf)
            self._declared_lost[block, symbol] = len(self._taken.values) - 1
        elif (place := self._declared_lost.pop((block, symbol), None)) is not None:
            self._taken.values[place] = at_s

    def log(self) -> LossReportLog:
        return LossReportLog(**self._reports.arrays(), **self._taken.arrays())


class ReceivedLog(RowLog):
    """A row a packet that arrived."""

    def __init__(self) -> None:
        super().__init__("time_s", "block", "symbol")

    def add(self, time_s: float, block: int, symbol: int) -> None:
        self.add_row(time_s, block, symbol)

    def packets(self) -> ReceivedPackets:
        return ReceivedPackets(**self.arrays())


def block_outcomes(
    sent: SentPackets, received: ReceivedPackets, source_packets: int, playback_s: float
) -> BlockOutcomes:
    """What became of each block of which a packet was sent, in block order.

    A block is complete when M distinct symbols, or all M source symbols, have arrived, at most ``playback_s`` after its
    first packet was sent. A source packet is late when neither it nor its block's decoding came within ``playback_s``
    of its own sending. Cost O((n + m) log) for n packets sent and m received.
    """
    ids, where = np.unique(sent.block, return_inverse=True)
    started = np.full(len(ids), np.inf)
    np.minimum.at(started, where, sent.time_s)
    arrived_s = np.nan_to_num(packet_deliveries(sent, received).arrived_s, nan=np.inf)
    count = np.bincount(where, weights=np.isfinite(arrived_s), minlength=len(ids)).astype(np.int64)
    in_order = np.lexsort((arrived_s, where))
    lead = np.searchsorted(where[in_order], np.arange(len(ids)))
    complete, enough = np.full(len(ids), np.nan), count >= source_packets
    complete[enough] = arrived_s[in_order][(lead + source_packets - 1)[enough]]
    complete[complete > started + playback_s] = np.nan
    decoded = np.nan_to_num(complete, nan=np.inf)[where]
    late = (sent.symbol < source_packets) & (
        np.minimum(arrived_s, decoded) > sent.time_s + playback_s
    )
    return BlockOutcomes(
        block=ids.astype(np.int64),
        started_s=started,
        complete_s=complete,
        arrived=count,
        late_source_packets=np.bincount(where, weights=late, minlength=len(ids)).astype(np.int64),
    )


def undecided_arrivals(deliveries: PacketDeliveries, playback_s: float, within_s: float) -> int:
    """First arrivals so near to ``playback_s`` after their sending that clocks which are known to ``within_s`` cannot
    tell which side."""
    return int((np.abs(deliveries.transit_s - playback_s) <= within_s).sum()) if within_s else 0


_MOST_LABELS = 2000
"""Of random labels, packets spread evenly over the log that are looked at: each costs a call."""


def mislabelled(plan: StreamPlan, run: StreamMeasurements) -> tuple[int, int]:
    """How many packets were sent under another label than the plan's order gives them, and of how many: block b begins
    with the label of index base(b), where base(b + 1) = base(b) + N(b). Nothing of a log that has gaps."""
    blocks, sent = run.blocks.block, run.sent
    if not len(blocks) or blocks[0] != 0 or blocks[-1] != len(blocks) - 1:
        return 0, 0
    base = np.concatenate([[0], np.cumsum(run.size_begun)[:-1]])
    index = base[run.place_of_block] + sent.symbol
    if plan.stream.labels == "stratified":
        table = label_table(plan.stream.label_rule)
        return int((table[index % len(table)] != sent.label).sum()), len(index)
    order = RandomLabels(plan.seed)
    looked_at = np.unique(np.linspace(0, len(index) - 1, _MOST_LABELS).astype(np.int64))
    return sum(order.label(int(index[k])) != int(sent.label[k]) for k in looked_at), len(looked_at)


def miscounted(plan: StreamPlan, run: StreamMeasurements) -> str | None:
    """The first figures of the ends that cannot be so beside the logs, or None. Of a run without counters none."""
    counts = {**vars(run.health), **run.counters}
    said_s = [
        0.0,
        *(event["at_s"] for event in counts.get(DIAGNOSES, ())),
        plan.duration_s + plan.stream.playback_s,
    ]
    if below := below_nought(counts):
        return f"{below[0]} is below 0"
    if said_s != sorted(said_s):
        return "what the sender took to be broken does not stand in the order of time"
    if "sent_source" not in counts:
        return None
    outcomes = vars(
        block_outcomes(run.sent, run.received, plan.stream.source_packets, plan.stream.playback_s)
    )
    if not all(
        np.array_equal(vars(run.blocks)[name], one, equal_nan=True)
        for name, one in outcomes.items()
    ):
        return "what became of the blocks is not what was logged"
    for names, (least, most) in _sums(plan, run).items():
        found = sum(
            counts.get(name.strip("-"), 0) * (-1 if name[0] == "-" else 1) for name in names.split()
        )
        if not least <= found <= most:
            return f"the ends counted {found} ({names}), and what was logged makes {least:g} to {most:g}"
    return None


class _BlockTotals(NamedTuple):
    """Bounds on what a receiver has counted of its blocks by the end of a run.

    Attributes:
        heard_of: Blocks up to the last one of which a packet arrived; no others are counted.
        closed: The fewest of them that the receiver has decoded or closed.
        undecided_symbols: Symbols of blocks with packets that may still be open at the end.
    """

    heard_of: int
    closed: int
    undecided_symbols: int


def _block_totals(plan: StreamPlan, run: StreamMeasurements, refused: int) -> _BlockTotals:
    """Bound what the receiver can have counted of its blocks.

    A block without packets is opened by the first packet of a later block, and closed a playback
    buffer after that packet. Any ``refused`` packets may have been refused: then they open none.
    """
    sent = run.sent
    blocks = run.blocks
    stream = plan.stream
    arrived = ~run.lost
    numbers = sent.block[arrived]
    if not len(numbers):
        return _BlockTotals(0, 0, 0)
    first = int(numbers[run.deliveries.arrived_s[arrived].argmin()])
    # A receiver that is started while the stream is under way counts nothing before its first packet.
    begin = first if first >= NEAR_BLOCKS else 0
    end = int(numbers.max()) + 1
    longest_transit_s = run.deliveries.transit_s[arrived].max()
    closed_by_s = plan.duration_s - stream.playback_s - 2 * stream.block_s - longest_transit_s
    in_time = np.sort(numbers[sent.time_s[arrived] < closed_by_s])
    closed_end = max(begin, int(in_time[-1 - refused]) + 1) if len(in_time) > refused else begin
    may_be_open = (blocks.arrived < stream.source_packets) & (blocks.block >= closed_end)
    may_be_open &= blocks.block < end
    return _BlockTotals(
        heard_of=end - begin,
        closed=end - begin - int(may_be_open.sum()),
        undecided_symbols=256 * int((may_be_open & (blocks.arrived > 0)).sum()),
    )


def _sums(plan: StreamPlan, run: StreamMeasurements) -> dict[str, tuple[float, float]]:
    """Return the least and the most of sums of counters.

    A key names the counters that are added; one behind a "-" is subtracted. Late parity is what was
    sent of a block beyond the N that it had when all its source packets were sent. A report helps
    each block once that can still be played. A packet that arrives after its block was closed, or
    that is refused, counts for nothing more: each may leave a block with another outcome. So may a
    block that is open at the end, or that a receiver began again with.
    """
    counts = run.counters
    sent = run.sent
    blocks = run.blocks
    stream = plan.stream
    news = run.news
    m = stream.source_packets
    received = len(run.received.time_s)
    arrived = ~run.lost
    block_index = run.place_of_block
    source = sent.symbol < m
    last = sent.symbol == m - 1
    size_at_last_source = np.zeros(len(blocks.block), dtype=np.int64)
    size_at_last_source[block_index[last]] = sent.block_size[last]
    late = block_index[~source & (sent.symbol >= size_at_last_source[block_index])]
    refused = sum(n for name, n in counts.items() if name.startswith("rejected_"))
    totals = _block_totals(plan, run, refused)
    loose: float = 256 * (counts.get("late", 0) + refused) + totals.undecided_symbols
    if {"restarts", "skipped_blocks"} & set(counts):
        loose = math.inf
    decoded = int((blocks.arrived >= m).sum())
    source_arrived = int((arrived & source).sum())
    parity_arrived = int((arrived & ~source).sum())
    reports = counts.get("reports", 0)
    heard = counts["sent_reports"]
    misjudged = np.isfinite(news.came_s).sum()
    most_reports = (
        plan.duration_s / min(stream.report_interval_s, ReceiverParameters.urgent_s)
        + received / stream.report_packets
        + 1
    )
    most_repeated = math.inf if is_impaired(plan) else len(RETURN_LABELS) * reports - heard
    # A sender takes the third of three older reports for one of a receiver that was started again.
    reordered = any(
        isinstance(impairment, (ExtraDelay, Reordering, RateTrace))
        for span in stream_spans(plan)
        for impairment in span.impairments
    )
    most_heard = math.inf if reordered else reports
    return {
        "sent_source": (source.sum(), source.sum()),
        "sent_parity": ((~source).sum(), (~source).sum()),
        "sent_late_parity": (len(late), len(late)),
        "accepted": (arrived.sum() - loose, arrived.sum() + loose),
        "decoded_blocks": (decoded - loose, decoded + loose),
        "delivered unused_sources -recovered": (source_arrived - loose, source_arrived + loose),
        "delivered lost_sources": (m * totals.closed - loose, m * totals.heard_of + loose),
        "recovered unused_parity": (parity_arrived - loose, parity_arrived + loose),
        "decoded_blocks undecodable_blocks": (totals.closed - loose, totals.heard_of + loose),
        "accepted duplicate late": (received - refused, received),
        "reordered": (0, received),
        "sent_late_parity_blocks": (
            len(np.unique(late)),
            heard * (stream.playback_s / stream.block_s + 2),
        ),
        "reports": (0 if reordered else heard, most_reports),
        "urgent_reports": (0, reports),
        "sent_reports": (len(news.told_s), most_heard),
        "sent_repeated_reports": (0, most_repeated),
        "sent_spurious_losses": (misjudged, misjudged if len(news.told_s) else math.inf),
    }
