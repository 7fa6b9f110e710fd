"""The receiving end of a coded stream as a state machine: datagrams and time in, delivered packets and loss reports out.

Source packets are handed on at once, recovered ones as soon as M symbols of their block are there. Memory is bounded.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from fec.erasure_code import ErasureCode
from fec.errors import FecError, MalformedPacket
from fec.wire import LossReport, PacketHeader, decode_header, symbol_of, unprotect

_FARTHEST_AHEAD = 4096
_REPORTED_BLOCKS = 24
_WORD = 1 << 32


@dataclass(frozen=True, kw_only=True)
class ReceiverParameters:
    """``report_interval_s`` and ``report_packets``: a report is due at the earlier of both; ``urgent_s``: least time between
    reports that a block which cannot be repaired calls for."""

    source_packets: int
    symbol_bytes: int
    playback_s: float = 0.4
    report_interval_s: float = 0.1
    report_packets: int = 100
    urgent_s: float = 0.02
    stream_id: int = 1


@dataclass(frozen=True, slots=True)
class SourceDelivered:
    """Source packet ``index`` is there for the listener; ``recovered``: by the code, not by arriving itself."""

    index: int
    payload: bytes
    at_s: float
    recovered: bool


@dataclass(frozen=True, slots=True)
class BlockUndecodable:
    """A block's playback deadline passed with fewer than M symbols; ``missing`` source packets are lost."""

    block: int
    arrived: int
    missing: int
    at_s: float


Event = SourceDelivered | BlockUndecodable


class UnexpectedPacket(MalformedPacket):
    """A packet of the protocol that does not belong to this stream, or not yet; ``reason`` says which."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason  # type: ignore[misc]


@dataclass
class _Block:
    number: int
    deadline_s: float
    symbols: dict[int, bytes] = field(default_factory=dict)
    bitmap: int = 0
    complete: bool = False
    size: int = 0


class StreamReceiver:
    """Decodes one stream. ``events`` of a call are returned by ``receive`` and ``advance`` in order.

    ``counters``: accepted, duplicate, late, recovered, delivered, decoded_blocks, undecodable_blocks, unused_parity, and
    ``rejected`` by reason; every datagram is in exactly one of accepted, duplicate, late and rejected.
    """

    def __init__(self, parameters: ReceiverParameters, code: ErasureCode) -> None:
        self.parameters = parameters
        self._code = code
        self.counters: Counter[str] = Counter()
        self.rejected: Counter[str] = Counter()
        self._blocks: dict[int, _Block] = {}
        self._recent: dict[int, int] = {}
        self._highest = -1
        self._closed_below = 0
        self._newest_us = 0
        self._newest_at_s = float("-inf")
        self._reports = 0
        self._since_report = 0
        self._last_report_s = 0.0
        self._urgent = False

    def receive(self, data: bytes, now_s: float) -> list[Event]:
        """One datagram. Whatever its bytes are, it is accepted or counted; nothing is raised."""
        try:
            header = decode_header(data)
            self._check(header)
        except MalformedPacket as error:
            self.rejected[error.reason] += 1
            return []
        number, symbol = header.source_block_number, header.encoding_symbol_id
        self._since_report += 1
        if number > self._highest:
            self._open_until(number, now_s)
        if not self._newest_us or (header.timestamp_us - self._newest_us) % _WORD < _WORD // 2:
            self._newest_us, self._newest_at_s = header.timestamp_us, now_s
        block = self._blocks.get(number)
        if block is None:
            self.counters["late"] += 1
            self._note(number, symbol)
            return []
        if block.bitmap >> symbol & 1:
            self.counters["duplicate"] += 1
            return []
        block.bitmap |= 1 << symbol
        block.size = max(block.size, header.block_size)
        self._recent[number] = block.bitmap
        self.counters["accepted"] += 1
        return self._use(block, symbol, symbol_of(data, header), now_s)

    def advance(self, now_s: float) -> list[Event]:
        """Close the blocks whose playback deadline has passed."""
        events: list[Event] = []
        while self._blocks:
            block = next(iter(self._blocks.values()))
            if block.deadline_s > now_s:
                break
            del self._blocks[block.number]
            self._closed_below = block.number + 1
            if not block.complete:
                self.counters["undecodable_blocks"] += 1
                have = (block.bitmap & ((1 << self.parameters.source_packets) - 1)).bit_count()
                missing = self.parameters.source_packets - have
                events.append(BlockUndecodable(block.number, block.bitmap.bit_count(), missing, now_s))
        return events

    def next_deadline_s(self) -> float:
        """When ``advance`` or ``reports_due`` has something to do, whatever arrives (inf: never)."""
        block = next(iter(self._blocks.values()), None)
        closing = block.deadline_s if block is not None else float("inf")
        report = self._last_report_s + self.parameters.report_interval_s if self._since_report else float("inf")
        urgent = self._last_report_s + self.parameters.urgent_s if self._urgent else float("inf")
        return min(closing, report, urgent)

    def reports_due(self, now_s: float) -> list[bytes]:
        """The report that is due now, if any; send it over every return path."""
        p = self.parameters
        # The same sums as in next_deadline_s: a caller that sleeps until then must find the report due.
        timely = now_s >= self._last_report_s + p.report_interval_s
        due = self._since_report > 0 and (timely or self._since_report >= p.report_packets)
        if not due and not (self._urgent and now_s >= self._last_report_s + p.urgent_s):
            return []
        report = LossReport(
            stream_id=p.stream_id,
            number=self._reports % _WORD,
            newest_us=self._newest_us,
            newest_age_us=max(0, int((now_s - self._newest_at_s) * 1e6)) % _WORD,
            highest_block=max(0, self._highest),
            received=self.counters["accepted"] % _WORD,
            decoded_blocks=self.counters["decoded_blocks"] % _WORD,
            undecodable_blocks=self.counters["undecodable_blocks"] % _WORD,
            unused_parity=self.counters["unused_parity"] % _WORD,
            blocks=tuple(sorted(self._recent.items())),
        )
        self._reports += 1
        self._since_report, self._last_report_s, self._urgent = 0, now_s, False
        return [report.encode()]

    def _check(self, header: PacketHeader) -> None:
        p = self.parameters
        if header.stream_id != p.stream_id:
            raise UnexpectedPacket("stream", f"{header.stream_id} is not {p.stream_id}")
        if header.source_packets != p.source_packets or header.symbol_length != p.symbol_bytes:
            raise UnexpectedPacket("shape", f"k = {header.source_packets}, symbols of {header.symbol_length} bytes")
        if header.encoding_symbol_id > 254:
            raise UnexpectedPacket("symbol", "id 255 is beyond the code")
        if header.source_block_number > max(0, self._highest) + _FARTHEST_AHEAD:
            raise UnexpectedPacket("block", f"{header.source_block_number} lies far ahead of {self._highest}")

    def _open_until(self, number: int, now_s: float) -> None:
        """A block later than all before: it and those skipped (all their packets lost, or late) await their deadlines."""
        for n in range(max(self._highest + 1, self._closed_below), number + 1):
            self._blocks[n] = _Block(number=n, deadline_s=now_s + self.parameters.playback_s)
            self._note(n, None)
        if self._highest >= 0:
            before = self._blocks.get(number - 2)
            self._urgent |= before is not None and not before.complete
        self._highest = number

    def _note(self, number: int, symbol: int | None) -> None:
        self._recent.setdefault(number, 0)
        if symbol is not None:
            self._recent[number] |= 1 << symbol
        while len(self._recent) > _REPORTED_BLOCKS:
            del self._recent[min(self._recent)]

    def _use(self, block: _Block, symbol: int, body: bytes, now_s: float) -> list[Event]:
        m = self.parameters.source_packets
        if block.complete:
            self.counters["unused_parity"] += symbol >= m
            return self._deliver(block, symbol, body, now_s) if symbol < m and symbol not in block.symbols else []
        block.symbols[symbol] = body
        events = self._deliver(block, symbol, body, now_s) if symbol < m else []
        if len(block.symbols) >= m:
            events += self._recover(block, now_s)
        elif symbol == block.size - 1:
            self._urgent = True  # the last one of the block came, and too few before it
        return events

    def _recover(self, block: _Block, now_s: float) -> list[Event]:
        block.complete = True
        self.counters["decoded_blocks"] += 1
        missing = [i for i in range(self.parameters.source_packets) if i not in block.symbols]
        events: list[Event] = []
        if missing:
            try:
                sources = self._code.decode(block.symbols)
            except FecError:
                self.rejected["undecodable"] += 1
                return []
            for i in missing:
                self.counters["recovered"] += 1
                events += self._deliver(block, i, sources[i], now_s, recovered=True)
        block.symbols = dict.fromkeys(range(self.parameters.source_packets), b"")
        return events

    def _deliver(
        self, block: _Block, symbol: int, body: bytes, now_s: float, *, recovered: bool = False
    ) -> list[Event]:
        try:
            payload = unprotect(body)
        except MalformedPacket as error:
            self.rejected[error.reason] += 1
            return []
        self.counters["delivered"] += 1
        index = block.number * self.parameters.source_packets + symbol
        return [SourceDelivered(index, payload, now_s, recovered)]
