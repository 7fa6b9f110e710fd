"""The sending end of a coded stream as a state machine: time and loss reports in, labelled packets and a next deadline out.

No clock, socket or thread: the caller asks what is due, sends it, and hands reports over.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from fec.adaptation import AdaptationParameters, BlockSizeController
from fec.erasure_code import ErasureCode
from fec.errors import MalformedPacket
from fec.labels import LabelOrder
from fec.wire import LossReport, PacketHeader, decode_report, protect

_REORDERING_S = 0.005
"""A packet is counted as lost when one sent this much later has arrived."""
_MOST_BLOCKS = 512
_STAMP_WRAP = 1 << 32


@dataclass(frozen=True, kw_only=True)
class SenderParameters:
    """``rate_pps``: source packets a second; ``base_block_size``: N at rest (M or more); ``block_size``: N fixed, or None;
    ``playback_s``: late parity is sent only for blocks younger than this."""

    source_packets: int
    symbol_bytes: int
    rate_pps: float
    base_block_size: int
    playback_s: float = 0.4
    hold_s: float = 2.0
    block_size: int | None = None
    largest_block: int = 255
    deterministic: bool = True
    stream_id: int = 1


@dataclass(frozen=True, slots=True)
class OutgoingPacket:
    """One packet to be sent now: ``data`` is header and symbol, ``label`` goes into the UDP source port."""

    due_s: float
    label: int
    data: bytes
    block: int
    symbol: int
    block_size: int


@dataclass
class _Block:
    number: int
    first_label: int
    started_s: float
    size: int
    sources: list[bytes] = field(default_factory=list)
    parity: list[bytes] = field(default_factory=list)
    sent_s: dict[int, float] = field(default_factory=dict)
    judged: int = 0
    known: bool = False


class StreamSender:
    """Paces source packets at ``rate_pps`` and each block's parity evenly over the next block's time.

    ``source(i)`` gives the payload of source packet i (at most ``symbol_bytes - 2`` bytes); ``policy`` maps a loss to N.
    """

    def __init__(
        self,
        parameters: SenderParameters,
        code: ErasureCode,
        labels: LabelOrder,
        policy: Callable[[float], int],
        source: Callable[[int], bytes],
    ) -> None:
        self.parameters = parameters
        self.counters = {"source": 0, "parity": 0, "late_parity": 0, "reports": 0, "stale_reports": 0, "bad_reports": 0}
        self._code, self._labels, self._source = code, labels, source
        base = parameters.block_size or parameters.base_block_size
        self._control = BlockSizeController(
            AdaptationParameters(
                base=base,
                largest=parameters.largest_block,
                hold_s=parameters.hold_s,
                deterministic=parameters.deterministic,
            ),
            policy,
        )
        self._interval = 1 / parameters.rate_pps
        self._next_source, self._next_label = 0, 0
        self._blocks: dict[int, _Block] = {}
        self._recent: deque[int] = deque()
        self._queue: list[tuple[float, int, int, int]] = []
        self._order = 0
        self._ended = False
        self._last_report = -1

    @property
    def block_size(self) -> int:
        """N of the blocks started from now on."""
        return self.parameters.block_size or self._control.block_size

    @property
    def loss_estimate(self) -> float:
        return self._control.loss

    @property
    def done(self) -> bool:
        """No source packet will come and no parity waits."""
        return self._ended and not self._queue and self._next_source % self.parameters.source_packets == 0

    def finish_source(self) -> None:
        """No block is begun any more; the one under way is completed."""
        self._ended = True

    def next_due_s(self) -> float:
        """When the next packet is due (inf where none waits)."""
        source = float("inf") if self._source_over() else self._next_source * self._interval
        return min(source, self._queue[0][0] if self._queue else float("inf"))

    def packets_due(self, now_s: float, limit: int = 64) -> list[OutgoingPacket]:
        """At most ``limit`` packets due by now, in the order of their due times."""
        out: list[OutgoingPacket] = []
        while len(out) < limit and (due := self.next_due_s()) <= now_s:
            if self._queue and self._queue[0][0] == due:
                _, _, number, symbol = heapq.heappop(self._queue)
                block = self._blocks.get(number)
                if block is not None:
                    out.append(self._packet(block, symbol, due, now_s))
            else:
                out.append(self._next_source_packet(due, now_s))
        return out

    def receive(self, data: bytes, now_s: float) -> None:
        """A datagram of the return path. What is no report, or older than one already seen, is counted and left."""
        try:
            report = decode_report(data)
        except MalformedPacket:
            self.counters["bad_reports"] += 1
            return
        if report.stream_id != self.parameters.stream_id or report.number <= self._last_report:
            self.counters["stale_reports"] += 1
            return
        self._last_report = report.number
        self.counters["reports"] += 1
        self._learn(report, now_s)

    def _source_over(self) -> bool:
        return self._ended and self._next_source % self.parameters.source_packets == 0

    def _next_source_packet(self, due_s: float, now_s: float) -> OutgoingPacket:
        m = self.parameters.source_packets
        number, symbol = divmod(self._next_source, m)
        if not symbol:
            self._begin_block(number, due_s)
        block = self._blocks[number]
        block.sources.append(protect(self._source(self._next_source), self.parameters.symbol_bytes))
        self._next_source += 1
        if symbol == m - 1:
            self._extend(block, m, block.size, due_s, m * self._interval)
        self.counters["source"] += 1
        return self._packet(block, symbol, due_s, now_s)

    def _begin_block(self, number: int, due_s: float) -> None:
        block = _Block(number=number, first_label=self._next_label, started_s=due_s, size=self.block_size)
        self._next_label += block.size
        self._blocks[number] = block
        self._recent.append(number)
        while len(self._recent) > _MOST_BLOCKS:
            del self._blocks[self._recent.popleft()]

    def _extend(self, block: _Block, first: int, stop: int, from_s: float, over_s: float) -> None:
        """Make parity [first, stop) of a whole block and spread it evenly over ``over_s`` seconds."""
        if stop <= first:
            return
        block.parity += self._code.parity(block.sources, first, stop)
        step = over_s / (stop - first)
        for k, symbol in enumerate(range(first, stop)):
            self._order += 1
            heapq.heappush(self._queue, (from_s + (k + 0.5) * step, self._order, block.number, symbol))

    def _packet(self, block: _Block, symbol: int, due_s: float, now_s: float) -> OutgoingPacket:
        m = self.parameters.source_packets
        body = block.sources[symbol] if symbol < m else block.parity[symbol - m]
        if symbol >= m:
            self.counters["parity"] += 1
        block.sent_s[symbol] = now_s
        header = PacketHeader(
            stream_id=self.parameters.stream_id,
            source_block_number=block.number & 0xFFFFFF,
            encoding_symbol_id=symbol,
            source_packets=m,
            block_size=block.size,
            symbol_length=len(body),
            timestamp_us=int(now_s * 1e6) % _STAMP_WRAP,
        )
        label = self._labels.label(block.first_label + symbol)
        return OutgoingPacket(due_s, label, header.encode(body) + body, block.number, symbol, block.size)

    def _learn(self, report: LossReport, now_s: float) -> None:
        """Count what is newly known to be lost or to have arrived, adapt N, and help blocks that can still be saved."""
        newest_s = _unwrap(report.newest_us, now_s)
        horizon = newest_s - _REORDERING_S
        arrived = dict(report.blocks)
        lost = known = 0
        incomplete: list[tuple[_Block, int]] = []
        for number in self._recent:
            block = self._blocks[number]
            if block.known or block.started_s > horizon:
                continue
            bitmap = arrived.get(number)
            if bitmap is None and number > report.highest_block:
                bitmap = 0
            if bitmap is None:
                block.known = True  # too old to be in the report: nothing more will be learnt
                continue
            news_lost, news_known = self._news(block, bitmap, horizon)
            lost, known = lost + news_lost, known + news_known
            if bitmap.bit_count() < self.parameters.source_packets:
                incomplete.append((block, bitmap.bit_count()))
        if self.parameters.block_size is not None:
            return
        self._control.add(lost, known, now_s)
        for block, _ in incomplete:
            self._rescue(block, now_s)

    def _news(self, block: _Block, bitmap: int, horizon: float) -> tuple[int, int]:
        """(lost, known) among the block's packets sent before the horizon and not judged before."""
        lost = known = 0
        for symbol, sent_s in block.sent_s.items():
            if sent_s <= horizon and not block.judged >> symbol & 1:
                block.judged |= 1 << symbol
                known += 1
                lost += not bitmap >> symbol & 1
        if len(block.sent_s) == block.size and block.judged.bit_count() == block.size:
            block.known = bitmap.bit_count() >= self.parameters.source_packets
        return lost, known

    def _rescue(self, block: _Block, now_s: float) -> None:
        """Late parity up to today's N for a block that is whole at the sender and not past its playback deadline."""
        m = self.parameters.source_packets
        if (
            len(block.sources) < m
            or now_s > block.started_s + self.parameters.playback_s
            or block.size >= self.block_size
        ):
            return
        first, block.size = block.size, self.block_size
        self.counters["late_parity"] += block.size - first
        self._extend(block, first, block.size, now_s, min(0.01, m * self._interval))


def _unwrap(stamp_us: int, now_s: float) -> float:
    """Seconds of stream time of a 32-bit microsecond stamp that lies in the past."""
    now_us = int(now_s * 1e6)
    return (now_us - (now_us - stamp_us) % _STAMP_WRAP) / 1e6
