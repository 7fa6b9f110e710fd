"""The receiving end of a coded stream as a state machine: datagrams and time in, delivered packets and loss reports out.

Source packets are handed on at once, recovered ones as soon as M symbols of their block are there. Memory is bounded.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from fec.code.erasure_code import ErasureCode
from fec.errors import FecError, MalformedPacket
from fec.protocol.loss_reporting import STAMPS, LossReporter, signed
from fec.protocol.stream_events import BlockComplete, BlocksSkipped, BlockUndecodable, Event, SourceDelivered
from fec.protocol.wire import (
    BLOCK_NUMBERS,
    CRC_OFFSET,
    HEADER,
    HEADER_BYTES,
    MAX_BLOCKS,
    MAX_SYMBOL_ID,
    VERSION,
    PacketType,
    decode_header,
    unprotect,
)

__all__ = [
    "BlockComplete",
    "BlockUndecodable",
    "BlocksSkipped",
    "Event",
    "ReceiverParameters",
    "SourceDelivered",
    "StreamReceiver",
]

FARTHEST_AHEAD = 4096
"""Blocks that one packet may be ahead of all before it; more is taken for damage until several agree."""
_AGREEING = 8
_CLOCK_JUMP_S = 5.0
"""A packet that seems to have been sent this much later than it arrived is not of this stream's clock, until several agree."""
_CLOCK_WINDOW_S = 30.0
"""The clocks' difference is the smallest of this and the last such window: clocks drift, and a path may grow longer."""
_HALF_BLOCKS = BLOCK_NUMBERS // 2
_FIRST_BYTES = (VERSION << 4 | PacketType.PARITY, VERSION << 4 | PacketType.DATA)
_NO_CRC = bytes(4)
_S_PER_US = 1e-6


@dataclass(frozen=True, kw_only=True)
class ReceiverParameters:
    """FecError for values that cannot be used.

    ``playback_s``: a block is over so long after its first packet was sent. A report is due every ``report_interval_s`` or
    ``report_packets`` packets, and ``urgent_s`` after the last one when a block cannot be repaired by what was sent of it.
    """

    source_packets: int
    symbol_bytes: int
    playback_s: float = 0.4
    report_interval_s: float = 0.1
    report_packets: int = 100
    urgent_s: float = 0.02
    stream_id: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.source_packets <= MAX_SYMBOL_ID or not 3 <= self.symbol_bytes <= 65535:
            raise FecError(f"M = {self.source_packets} (1..254), symbols of {self.symbol_bytes} bytes (3..65535)")
        if min(self.playback_s, self.report_interval_s, self.report_packets, self.urgent_s) <= 0:
            raise FecError("playback, report interval, report packets and urgent interval must all be above 0")


@dataclass(slots=True)
class _Block:
    number: int
    start_us: int
    size: int
    symbols: dict[int, bytes] = field(default_factory=dict)
    bitmap: int = 0
    complete: bool = False


class _Packet(NamedTuple):
    """The fields of a packet of this stream; ``block`` counts on beyond 2^24."""

    block: int
    symbol: int
    block_size: int
    stamp_us: int
    body: bytes
    path: int
    path_sequence: int


_new_packet = tuple.__new__
"""A named tuple's own constructor takes twice the time, and this runs for every packet."""


class StreamReceiver:
    """Decodes one stream; ``receive`` and ``advance`` return what happened, in order.

    Every datagram is counted once: accepted, duplicate, late (its block is over) or, by reason, in ``rejected``. A block's
    deadline is the sender's time stamp of its first packet (of those that came, of it or of later blocks) plus
    ``playback_s``, in this end's clock by the smallest difference between arrival and time stamp in the last half minute or so.
    Block numbers in events count on beyond 2^24. Memory: at most 2 * 4096 open blocks of at most M symbols.

    >>> from fec.code.reed_solomon import ReedSolomonCode
    >>> from fec.protocol.wire import PacketHeader, protect
    >>> code = ReedSolomonCode(2, "reedsolo")
    >>> symbols = code.encode([protect(b"one", 8), protect(b"two", 8)], 3)
    >>> receiver = StreamReceiver(ReceiverParameters(source_packets=2, symbol_bytes=8), code)
    >>> def packet(symbol):
    ...     header = PacketHeader(stream_id=1, source_block_number=0, encoding_symbol_id=symbol, source_packets=2,
    ...                           block_size=3, symbol_length=8, timestamp_us=symbol)
    ...     return header.encode(symbols[symbol]) + symbols[symbol]
    >>> [(e.index, e.payload, e.recovered) for e in receiver.receive(packet(0), 0.0)]
    [(0, b'one', False)]
    >>> receiver.receive(packet(2), 0.1)[0].payload
    b'two'
    """

    def __init__(self, parameters: ReceiverParameters, code: ErasureCode) -> None:
        if code.source_packets != parameters.source_packets:
            raise FecError(
                f"a code of {code.source_packets} source packets for a stream of {parameters.source_packets}"
            )
        self.parameters = parameters
        self._stream_id, self._symbol_bytes = parameters.stream_id, parameters.symbol_bytes
        self._packet_bytes = HEADER_BYTES + parameters.symbol_bytes
        self._full_prefix = (parameters.symbol_bytes - 2).to_bytes(2, "big")
        self._all_sources = (1 << parameters.source_packets) - 1
        self.rejected: Counter[str] = Counter()
        self.worst_reordering_s = 0.0
        """How much later than a packet that was already there another one was sent that came after it, at most."""
        self._code, self._m = code, parameters.source_packets
        self._counts: Counter[str] = Counter()
        self._accepted = self._delivered = 0
        self._blocks: dict[int, _Block] = {}
        self._highest = -1
        self._stray, self._strays = 0, 0
        self._newest_us: int | None = None
        self._newest_at_s = 0.0
        self._offset_s = self._least_s = math.inf
        self._window_s = -math.inf
        self._strange_s, self._strange_times = 0.0, 0
        self._closing_s = math.inf
        self._reporter = LossReporter(
            stream_id=parameters.stream_id,
            interval_s=parameters.report_interval_s,
            most_packets=parameters.report_packets,
            urgent_s=parameters.urgent_s,
        )
        self._recent = self._reporter.recent

    @property
    def counters(self) -> Counter[str]:
        """Totals: accepted, duplicate, late, reordered, delivered, recovered, decoded_blocks, undecodable_blocks,
        lost_sources, unused_parity, unused_sources, unreadable, reports, urgent_reports, skipped_blocks."""
        return self._counts + Counter(accepted=self._accepted, delivered=self._delivered)

    @property
    def open_blocks(self) -> int:
        """Blocks whose deadline is still to come."""
        return len(self._blocks)

    def receive(self, data: bytes, now_s: float) -> list[Event]:
        """One datagram. Whatever its bytes are, it is accepted or counted; nothing is raised."""
        events: list[Event] = self.advance(now_s) if now_s >= self._closing_s else []
        packet = self._parsed(data)
        if packet is None:
            return events
        number, stamp = packet.block, packet.stamp_us
        newest = self._newest_us
        sent_us = stamp if newest is None else newest + (stamp - newest + STAMPS // 2) % STAMPS - STAMPS // 2
        if number > self._highest + FARTHEST_AHEAD and not self._agreed(number):
            self.rejected["far-ahead"] += 1
            return events
        transit_s = now_s - sent_us * _S_PER_US
        if transit_s < self._offset_s - _CLOCK_JUMP_S and newest is not None:
            if not self._clock_agreed(transit_s):
                self.rejected["timestamp"] += 1
                return events
            self._set_clock(transit_s, now_s)
        self._strange_times = 0
        self._reporter.waiting += 1
        if number > self._highest:
            events += self._open_until(number, sent_us, now_s)
        self._strays = 0
        if newest is None or sent_us >= newest:
            self._newest_us, self._newest_at_s = sent_us, now_s
        else:
            self._counts["reordered"] += 1
            self.worst_reordering_s = max(self.worst_reordering_s, (newest - sent_us) * _S_PER_US)
        if transit_s < self._least_s:
            self._least_s = transit_s
        if transit_s < self._offset_s:
            self._offset_s = transit_s
            self._plan_closing()
        elif not 0 <= now_s - self._window_s < _CLOCK_WINDOW_S:
            self._offset_s, self._least_s, self._window_s = self._least_s, transit_s, now_s
            self._plan_closing()
        if self._accept(packet, sent_us, now_s, events) and packet.path:
            self._reporter.paths.add(packet.path, packet.path_sequence)
        return events

    def advance(self, now_s: float) -> list[Event]:
        """Close the blocks whose playback deadline has passed."""
        events: list[Event] = []
        while self._closing_s <= now_s:
            self._close(next(iter(self._blocks.values())), now_s, events)
        return events

    def next_deadline_s(self) -> float:
        """When ``advance`` or ``reports_due`` has something to do, whatever arrives (inf: never)."""
        return min(self._closing_s, self._reporter.next_s())

    def reports_due(self, now_s: float) -> list[bytes]:
        """The report that is due now, if any; send it over every return path."""
        if not self._reporter.due(now_s):
            return []
        counts = self._counts
        report = self._reporter.report(
            now_s,
            newest_us=self._newest_us or 0,
            newest_at_s=self._newest_at_s,
            highest=self._highest,
            received=self._accepted + counts["duplicate"] + counts["late"],
            totals=counts,
        )
        return [report]

    def _accept(self, packet: _Packet, sent_us: int, now_s: float, events: list[Event]) -> bool:
        """A packet of this stream, into its block; False where it came before."""
        number, symbol = packet.block, packet.symbol
        block = self._blocks.get(number)
        if block is None:
            self._counts["late"] += 1
            self._reporter.note(number, 1 << symbol, self._highest)
            return True
        if block.bitmap >> symbol & 1:
            self._counts["duplicate"] += 1
            return False
        self._accepted += 1
        block.bitmap |= 1 << symbol
        if number in self._recent:
            self._recent[number] = block.bitmap
        if packet.block_size > block.size:
            block.size = packet.block_size
        if sent_us < block.start_us:
            self._began(number, sent_us)
        self._use(block, symbol, packet.body, now_s, events)
        return True

    def _parsed(self, data: bytes) -> _Packet | None:
        """A packet of this stream; anything else is counted by reason."""
        if len(data) == self._packet_bytes:
            first, flags, stream, ids, k, n, path, sequence, length, stamp, crc = HEADER.unpack_from(data)
            body = data[HEADER_BYTES:]
            symbol = ids & 0xFF
            if (
                zlib.crc32(body, zlib.crc32(_NO_CRC, zlib.crc32(data[:CRC_OFFSET]))) == crc
                and k == self._m <= n
                and stream == self._stream_id
                and flags == 0
                and first == _FIRST_BYTES[symbol < k]
                and symbol <= MAX_SYMBOL_ID
                and length == self._symbol_bytes
            ):
                number = ids >> 8
                if not -_HALF_BLOCKS <= number - self._highest < _HALF_BLOCKS and self._highest >= 0:
                    number = self._highest + signed(number - self._highest, BLOCK_NUMBERS)
                return _new_packet(_Packet, (number, symbol, n, stamp, body, path, sequence))
        self.rejected[self._reason(data)] += 1
        return None

    def _reason(self, data: bytes) -> str:
        """Why a datagram is no packet of this stream, in a word."""
        try:
            header = decode_header(data)
        except MalformedPacket as error:
            return error.reason
        if header.stream_id != self.parameters.stream_id:
            return "stream"
        # Without a time stamp a packet has no deadline and its loss cannot be told.
        return "compact" if header.compact else "shape"

    def _agreed(self, number: int) -> bool:
        """Whether so many packets in a row were as far ahead that the stream itself must have moved on."""
        near = self._strays > 0 and abs(number - self._stray) <= FARTHEST_AHEAD // 64
        self._strays = self._strays + 1 if near else 1
        self._stray = number
        return self._strays >= _AGREEING

    def _clock_agreed(self, transit_s: float) -> bool:
        """Whether so many packets in a row tell of the same jump that one of the two clocks must have been set."""
        near = self._strange_times > 0 and abs(transit_s - self._strange_s) < _CLOCK_JUMP_S / 2
        self._strange_times = self._strange_times + 1 if near else 1
        self._strange_s = transit_s
        return self._strange_times >= _AGREEING

    def _set_clock(self, transit_s: float, now_s: float) -> None:
        self._offset_s = self._least_s = transit_s
        self._window_s = now_s
        self._plan_closing()

    def _plan_closing(self) -> None:
        block = next(iter(self._blocks.values()), None)
        if block is None:
            self._closing_s = math.inf
        else:
            self._closing_s = block.start_us * _S_PER_US + self._offset_s + self.parameters.playback_s

    def _open_until(self, number: int, sent_us: int, now_s: float) -> list[Event]:
        """A block later than all before: it and those skipped (all their packets lost, or late) await their deadlines."""
        events: list[Event] = []
        first = self._highest + 1
        if number > self._highest + FARTHEST_AHEAD:
            for block in list(self._blocks.values()):
                self._close(block, now_s, events)
            if number > first:
                events.append(BlocksSkipped(first, number, now_s))
                self._counts["skipped_blocks"] += number - first
                self._counts["lost_sources"] += (number - first) * self._m
            first = number
        for n in range(first, number + 1):
            self._blocks[n] = _Block(n, sent_us, self._m)
            if number - n < MAX_BLOCKS:
                self._reporter.note(n, 0, self._highest)
        before = self._blocks.get(number - 2)
        self._highest = number
        while len(self._blocks) > 2 * FARTHEST_AHEAD:
            self._close(next(iter(self._blocks.values())), now_s, events)
        self._began(first - 1, sent_us)
        if before is not None and not before.complete:
            self._reporter.alarm(now_s)  # its parity was due before this block began
        return events

    def _began(self, number: int, sent_us: int) -> None:
        """A block began no later than its earliest packet was sent, and the blocks before it no later than it did."""
        while (block := self._blocks.get(number)) is not None and block.start_us > sent_us:
            block.start_us = sent_us
            number -= 1
        self._plan_closing()

    def _use(self, block: _Block, symbol: int, body: bytes, now_s: float, events: list[Event]) -> None:
        m = self._m
        if block.complete:
            self._counts["unused_parity" if symbol >= m else "unused_sources"] += 1
            return
        block.symbols[symbol] = body
        if symbol < m:
            self._deliver(block.number, symbol, body, now_s, False, events)
        if len(block.symbols) >= m:
            self._complete(block, now_s, events)
        elif block.bitmap.bit_length() - len(block.symbols) > block.size - m and not self._reporter.urgent:
            self._reporter.alarm(now_s)  # more than the code can repair is missing among what was sent before

    def _complete(self, block: _Block, now_s: float, events: list[Event]) -> None:
        block.complete = True
        self._counts["decoded_blocks"] += 1
        missing: list[int] = []
        if block.bitmap & self._all_sources != self._all_sources:
            missing = [i for i in range(self._m) if i not in block.symbols]
            sources = self._code.decode(block.symbols)
            for i in missing:
                self._deliver(block.number, i, sources[i], now_s, True, events)
            self._counts["recovered"] += len(missing)
        block.symbols.clear()
        events.append(BlockComplete(block.number, block.bitmap.bit_count(), len(missing), now_s))

    def _deliver(
        self, number: int, symbol: int, body: bytes, now_s: float, recovered: bool, events: list[Event]
    ) -> None:
        if body[:2] == self._full_prefix:
            payload = body[2:]
        else:
            try:
                payload = unprotect(body)
            except MalformedPacket:
                self._counts["unreadable"] += 1  # the sender itself protected it wrongly
                return
        self._delivered += 1
        # tuple.__new__, because a named tuple's own constructor takes twice the time and this runs for every packet
        events.append(tuple.__new__(SourceDelivered, (number * self._m + symbol, payload, now_s, recovered)))

    def _close(self, block: _Block, now_s: float, events: list[Event]) -> None:
        del self._blocks[block.number]
        self._plan_closing()
        if block.complete:
            return
        parity = sum(symbol >= self._m for symbol in block.symbols)
        missing = self._m - (len(block.symbols) - parity)
        self._counts["undecodable_blocks"] += 1
        self._counts["unused_parity"] += parity
        self._counts["lost_sources"] += missing
        events.append(BlockUndecodable(block.number, len(block.symbols), missing, now_s))
