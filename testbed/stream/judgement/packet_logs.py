"""Packet logs as arrays, and what became of each block, computed from the logs of both ends alone.

The receiver's own account (what it delivered) is kept as counters, so that the two can be held against each other.
"""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass, field

import numpy as np

from fec.errors import MalformedPacket
from fec.protocol.wire import decode_header
from testbed.stream.measurements import (
    BlockOutcomes,
    FloatArray,
    IntArray,
    LossReportLog,
    ReceivedPackets,
    SentPackets,
)


def _floats() -> array[float]:
    return array("d")


def _ints() -> array[int]:
    return array("q")


@dataclass
class SentLog:
    """Grows by one entry a packet sent; compact while it runs, numpy when it is read."""

    time_s: array[float] = field(default_factory=_floats)
    block: array[int] = field(default_factory=_ints)
    symbol: array[int] = field(default_factory=_ints)
    label: array[int] = field(default_factory=_ints)
    block_size: array[int] = field(default_factory=_ints)
    worst_lag_s: float = 0.0

    def add(self, time_s: float, due_s: float, block: int, symbol: int, label: int, block_size: int) -> None:
        self.time_s.append(time_s)
        self.block.append(block)
        self.symbol.append(symbol)
        self.label.append(label)
        self.block_size.append(block_size)
        self.worst_lag_s = max(self.worst_lag_s, time_s - due_s)

    def packets(self) -> SentPackets:
        return SentPackets(
            time_s=_float_array(self.time_s),
            block=_int_array(self.block),
            symbol=_int_array(self.symbol),
            label=_int_array(self.label),
            block_size=_int_array(self.block_size),
        )


@dataclass
class LossReportRecorder:
    """Grows by one entry a loss report, and by one a packet that the sender takes for lost."""

    told_s: array[float] = field(default_factory=_floats)
    newest_s: array[float] = field(default_factory=_floats)
    block: array[int] = field(default_factory=_ints)
    symbol: array[int] = field(default_factory=_ints)
    lost_s: array[float] = field(default_factory=_floats)
    came_s: array[float] = field(default_factory=_floats)
    _declared_lost: dict[tuple[int, int], int] = field(default_factory=dict)

    def report(self, report_received_s: float, newest_s: float) -> None:
        """A datagram of the return path has been read; ``newest_s``: of the newest packet that the sender now knows
        of."""
        if not self.newest_s or newest_s != self.newest_s[-1]:
            self.told_s.append(report_received_s)
            self.newest_s.append(newest_s)

    def record_decision(self, block: int, symbol: int, lost: bool, at_s: float) -> None:
        """``StreamSender.on_judgement``."""
        if lost:
            self._declared_lost[block, symbol] = len(self.block)
            self.block.append(block)
            self.symbol.append(symbol)
            self.lost_s.append(at_s)
            self.came_s.append(math.inf)
        elif (place := self._declared_lost.pop((block, symbol), None)) is not None:
            self.came_s[place] = at_s

    def log(self) -> LossReportLog:
        return LossReportLog(
            told_s=_float_array(self.told_s),
            newest_s=_float_array(self.newest_s),
            block=_int_array(self.block),
            symbol=_int_array(self.symbol),
            lost_s=_float_array(self.lost_s),
            came_s=_float_array(self.came_s),
        )


@dataclass
class ReceivedLog:
    """Grows by one entry a packet that arrived."""

    time_s: array[float] = field(default_factory=_floats)
    block: array[int] = field(default_factory=_ints)
    symbol: array[int] = field(default_factory=_ints)

    def add(self, time_s: float, block: int, symbol: int) -> None:
        self.time_s.append(time_s)
        self.block.append(block)
        self.symbol.append(symbol)

    def add_datagram(self, time_s: float, data: bytes) -> None:
        """A packet as it came; one whose header does not hold is left out (the receiver counts it)."""
        try:
            header = decode_header(data)
        except MalformedPacket:
            return
        self.add(time_s, header.source_block_number, header.encoding_symbol_id)

    def packets(self) -> ReceivedPackets:
        return ReceivedPackets(
            time_s=_float_array(self.time_s), block=_int_array(self.block), symbol=_int_array(self.symbol)
        )


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
    key = received.block * 256 + received.symbol
    order = np.argsort(received.time_s, kind="stable")
    unique, at = np.unique(key[order], return_index=True)
    block_of, arrival = unique // 256, received.time_s[order][at]
    by_time = np.lexsort((arrival, block_of))
    block_of, arrival, symbol = block_of[by_time], arrival[by_time], (unique % 256)[by_time]
    lead = np.searchsorted(block_of, ids, side="left")
    count = np.searchsorted(block_of, ids, side="right") - lead
    complete = np.full(len(ids), np.nan)
    enough = count >= source_packets
    if enough.any():
        complete[enough] = arrival[(lead + source_packets - 1)[enough]]
    complete[complete > started + playback_s] = np.nan
    arrived = ReceivedPackets(time_s=arrival, block=block_of, symbol=symbol)
    late = _late_sources(sent, ids, complete, arrived, (source_packets, playback_s))
    return BlockOutcomes(
        block=ids.astype(np.int64),
        started_s=started,
        complete_s=complete,
        arrived=count.astype(np.int64),
        late_source_packets=late,
    )


def _late_sources(
    sent: SentPackets,
    ids: IntArray,
    complete: FloatArray,
    arrived: ReceivedPackets,
    limits: tuple[int, float],
) -> IntArray:
    """Late source packets of each block; ``arrived``: each packet's first arrival; ``limits``: M and the playback
    buffer."""
    source_packets, playback_s = limits
    chosen = sent.symbol < source_packets
    key = sent.block[chosen] * 256 + sent.symbol[chosen]
    due = sent.time_s[chosen] + playback_s
    arrived_key = arrived.block * 256 + arrived.symbol
    order = np.argsort(arrived_key, kind="stable")
    place = np.searchsorted(arrived_key[order], key)
    there = place < len(order)
    there[there] = arrived_key[order][place[there]] == key[there]
    at = np.full(len(key), np.inf)
    at[there] = arrived.time_s[order][place[there]]
    where = np.searchsorted(ids, sent.block[chosen])
    decoded = np.where(np.isnan(complete[where]), np.inf, complete[where])
    late = np.minimum(at, decoded) > due
    return np.bincount(where, weights=late, minlength=len(ids)).astype(np.int64)


def undecided_arrivals(sent: SentPackets, received: ReceivedPackets, playback_s: float, within_s: float) -> int:
    """First arrivals so near to ``playback_s`` after their sending that clocks which are known to ``within_s`` cannot
    tell which side."""
    if within_s == 0:
        return 0
    keys, at = (log.block * 256 + log.symbol for log in (sent, received)), []
    for key, times in zip(keys, (sent.time_s, received.time_s), strict=True):
        order = np.argsort(times, kind="stable")
        unique, first = np.unique(key[order], return_index=True)
        at.append((unique, times[order][first]))
    (sent_key, sent_at), (got_key, got_at) = at
    _, ours, theirs = np.intersect1d(sent_key, got_key, assume_unique=True, return_indices=True)
    return int((np.abs(got_at[theirs] - sent_at[ours] - playback_s) <= within_s).sum())


def _float_array(values: array[float]) -> FloatArray:
    return np.frombuffer(values.tobytes(), dtype=np.float64)


def _int_array(values: array[int]) -> IntArray:
    return np.frombuffer(values.tobytes(), dtype=np.int64)
