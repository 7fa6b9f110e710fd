"""The receiving end of a coded stream as a state machine: datagrams and time in, delivered packets and loss reports
out.

Source packets are handed on at once, recovered ones as soon as M symbols of their block are there. Memory is bounded.
"""

import math
from collections import Counter, deque

from fec.code.reed_solomon import ReedSolomonCode
from fec.errors import FecError
from fec.protocol.delivery import SourceDelivery
from fec.protocol.framing import BLOCK_NUMBERS, signed
from fec.protocol.loss_report import MAX_BLOCKS
from fec.protocol.loss_reporting import STAMPS, LossReporter
from fec.protocol.packet_reader import Packet, PacketReader
from fec.protocol.probation import (
    CLOCK_JUMP_S,
    NEAR_BLOCKS,
    QUICKER,
    RESTART_PLAYBACKS,
    SESSIONS_LEFT,
    STEP,
    LateBlocks,
    Probation,
    Schedule,
)
from fec.protocol.receiver_types import (  # noqa: F401 - all that a receiver reports is found here
    BlockComplete,
    BlocksSkipped,
    BlockUndecodable,
    Event,
    OpenBlock,
    PlayoutMoved,
    ReceiverParameters,
    SourceDelivered,
    StreamRestarted,
)

FARTHEST_AHEAD = 4096
"""Blocks that one packet may be ahead of all before it, even where there was time for more; then several must agree."""
CLOCK_WINDOW_S = 30.0
"""The clocks' difference is the smallest of this and the last such window: clocks drift, and a path may grow longer."""
_HALF_STAMPS, S_PER_US = STAMPS // 2, 1e-6


class StreamReceiver:
    """Decodes one stream; ``receive`` and ``advance`` return what happened, in order.

    Every datagram is counted once: accepted, duplicate, late (its block is over) or, by reason, in ``rejected``. A
    block's deadline is the sender's time stamp of its first packet (of those that came, of it or of later blocks) plus
    ``playback_s``, in this end's clock by the smallest difference between arrival and time stamp in the last half
    minute or so. Block numbers count on beyond 2^24. Memory: at most 2 * 4096 open blocks of at most M symbols.

    Not everybody who knows the format is believed (``fec.protocol.probation``): a block ahead of its time, a clock that
    jumps and a session other than the one followed are refused until eight packets agree while the stream itself is
    silent. So a sender that was started again is followed after the time of one and a half blocks, or eight packets.

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

    _new_schedule, _new_reader = Schedule, PacketReader

    def __init__(self, parameters: ReceiverParameters, code: ReedSolomonCode) -> None:
        if code.source_packets != parameters.source_packets:
            raise FecError(f"a code of {code.source_packets} packets for a stream of {parameters.source_packets}")
        self.parameters = parameters
        m = parameters.source_packets
        self._reader = self._new_reader(parameters)
        self.rejected = self._reader.rejected
        self.worst_reordering_s = 0.0
        """How much later than a packet that was already there another one was sent that came after it, at most."""
        self._m, self._half = m, max(min(2, m), (m + 1) // 2)
        self._quicker_s = parameters.playback_s * QUICKER
        self._latest_s = parameters.playback_s + CLOCK_JUMP_S
        self._behind_s = parameters.playback_s * RESTART_PLAYBACKS
        self._counts: Counter[str] = Counter()
        self._delivery = SourceDelivery(code, parameters.symbol_bytes, self._counts)
        self._accepted, self._left = 0, deque[int](maxlen=SESSIONS_LEFT)
        self._follow(0)

    def _follow(self, session: int) -> None:
        """Begin with the packets of one start of the sender; nothing is known of them yet."""
        parameters = self.parameters
        self._session = session
        self._probation, self._schedule = Probation(), self._new_schedule()
        self._late_blocks = LateBlocks(playback_s=parameters.playback_s)
        self._blocks: dict[int, OpenBlock] = {}
        self._highest = -1
        self._newest_us: int | None = None
        self._newest_at_s = self._alive_s = self._window_s = -math.inf
        self._offset_s = self._least_s = self._usual_s = self._closing_s = math.inf
        self._reporter = LossReporter(parameters, session, self._reader.seal)
        self._recent = self._reporter.recent

    @property
    def counters(self) -> Counter[str]:
        """Totals: accepted, duplicate, late, reordered, delivered, recovered, decoded_blocks, undecodable_blocks,
        lost_sources, unused_parity, unused_sources, unreadable, reports, urgent_reports, skipped_blocks, restarts,
        playout_moved."""
        return self._counts + Counter(accepted=self._accepted, delivered=self._delivery.delivered)

    @property
    def received(self) -> int:
        """Packets of the stream, however late or often; what was rejected is not among them."""
        return self._accepted + self._counts["duplicate"] + self._counts["late"]

    @property
    def open_blocks(self) -> int:
        """Blocks whose deadline is still to come."""
        return len(self._blocks)

    def receive(self, data: bytes, now_s: float) -> list[Event]:
        """One datagram. Whatever its bytes are, it is accepted or counted; nothing is raised."""
        events: list[Event] = self.advance(now_s) if now_s >= self._closing_s else []
        fields = self._reader.read(data)
        if fields is None:
            return events
        session, number, symbol, size, stamp, body, path, path_sequence = fields
        newest, block = self._newest_us, self._blocks.get(number)
        sent_us = stamp if newest is None else newest + (stamp - newest + _HALF_STAMPS) % STAMPS - _HALF_STAMPS
        transit_s = now_s - sent_us * S_PER_US
        if block is None or session != self._session or not 0 <= transit_s - self._offset_s <= self._latest_s:
            placed = self._placed(Packet(*fields), data, now_s, events)
            if placed is None:
                return events
            number, sent_us, transit_s, block = placed
            newest = self._newest_us
        self._reporter.waiting += 1
        if newest is None or sent_us >= newest:
            self._newest_us, self._newest_at_s = sent_us, now_s
            if block is not None:
                self._alive_s = now_s
        else:
            self._counts["reordered"] += 1
            self.worst_reordering_s = max(self.worst_reordering_s, (newest - sent_us) * S_PER_US)
        if transit_s < self._least_s:
            self._least_s = transit_s
        if transit_s < self._offset_s:
            self._offset_s = transit_s
            self._plan_closing()
        elif not 0 <= now_s - self._window_s < CLOCK_WINDOW_S:
            self._offset_s, self._least_s, self._window_s = self._least_s, transit_s, now_s
            self._plan_closing()
        if block is None:
            self._counts["late"] += 1
            if self._recent.get(number, 0) >> symbol & 1:
                return events  # it came in time, too
            self._take_late(number, symbol, transit_s, now_s, events)
        elif block.bitmap >> symbol & 1:
            self._counts["duplicate"] += 1
            return events
        else:
            self._accepted += 1
            block.bitmap |= 1 << symbol
            if number in self._recent:
                self._recent[number] = block.bitmap
            if size > block.size:
                block.size = size
            self._use(block, symbol, body, sent_us, now_s, events)
        if path:
            self._reporter.paths.add(path, path_sequence)
        return events

    def _placed(
        self, packet: Packet, data: bytes, now_s: float, events: list[Event]
    ) -> tuple[int, int, float, OpenBlock | None] | None:
        """Where a packet belongs that is not of an open block, of another session or out of its time: block number,
        time stamp, time on the way, open block (None: it is over). None for a packet that is refused, or that was
        received as the first of others."""
        if packet.session != self._session and not self._follows(packet, now_s, events):
            self.rejected["session"] += 1
            return None
        number, newest, highest = packet.block, self._newest_us, self._highest
        if highest >= 0:
            number = highest + signed(number - highest, BLOCK_NUMBERS)
        elif number >= NEAR_BLOCKS:  # the stream was under way when this end was started: nothing before was lost
            highest = self._highest = number - 1
        sent_us = packet.stamp_us if newest is None else newest + signed(packet.stamp_us - newest, STAMPS)
        transit_s = now_s - sent_us * S_PER_US
        late_s = transit_s - self._offset_s
        if now_s < self._newest_at_s - self._quicker_s:
            self._set_clock(late_s, now_s)  # this end's own was set back
        elif 0 <= late_s <= self._latest_s:
            pass  # as usual
        elif newest is None:
            self._usual_s = transit_s
        elif not -CLOCK_JUMP_S <= late_s <= self._latest_s:
            if self._strange_clock(packet, number, late_s, now_s, events):
                events += self.receive(data, now_s)
            else:
                self.rejected["timestamp"] += 1
            return None
        elif transit_s < self._usual_s - self._quicker_s:
            transit_s = self._usual_s - self._quicker_s
            sent_us = int((now_s - transit_s) * 1e6)
        if number > highest:
            if number > highest + FARTHEST_AHEAD or not self._schedule.may_begin(number, highest, sent_us):
                if not self._agreed(packet, now_s):
                    self.rejected["far-ahead"] += 1
                    return None
                self._schedule = self._new_schedule()
            events += self._open_until(number, sent_us, now_s)
        block = self._blocks.get(number)
        if block is None and self._is_behind(packet, sent_us, late_s, now_s):
            self._restart(packet, packet.block if late_s > self._behind_s else number, now_s, events)
            events += self.receive(data, now_s)
            return None
        return number, sent_us, transit_s, block

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
        self._reporter.blocks_apart = self._blocks_apart()
        report = self._reporter.report(
            now_s,
            newest_us=self._newest_us or 0,
            newest_at_s=self._newest_at_s,
            highest=self._highest,
            received=self.received,
            totals=self._counts,
        )
        return [report]

    def _blocks_apart(self) -> int:
        """Blocks that begin while a packet of the longest path is under way and one of the shortest has come."""
        period_us = self._schedule.period_us
        return math.ceil(self.worst_reordering_s * 1e6 / period_us) if period_us else 0

    def _use(self, block: OpenBlock, symbol: int, body: bytes, sent_us: int, now_s: float, events: list[Event]) -> None:
        """A packet that an open block did not have yet."""
        m = self._m
        if sent_us < block.start_us and sent_us >= self._schedule.earliest_us(block.number):
            self._began(block.number, sent_us)
        if block.complete:
            if block.spoilt >> symbol & 1:
                self._delivery.deliver(block.number, symbol, body, now_s, False, events)
            else:
                self._counts["unused_parity" if symbol >= m else "unused_sources"] += 1
            return
        block.symbols[symbol] = body
        arrived = len(block.symbols)
        if symbol < m:
            self._delivery.deliver(block.number, symbol, body, now_s, False, events)
            if arrived == self._half:  # of parity it tells nothing: that may be late
                self._schedule.half_arrived(block.number, sent_us)
                step_s = self._quicker_s * STEP
                self._usual_s += step_s if now_s - sent_us * S_PER_US > self._usual_s else -step_s
        if arrived >= m:
            self._late_blocks.in_time()
            self._delivery.complete(block, now_s, events)
        elif block.bitmap.bit_length() - arrived > block.size - m and not self._reporter.urgent:
            self._reporter.alarm(now_s)  # more than the code can repair is missing among what was sent before

    def _take_late(self, number: int, symbol: int, transit_s: float, now_s: float, events: list[Event]) -> None:
        """A packet of a block that is over. Where so many blocks came whole but too late that it is no chance, play-out
        is set again."""
        known = self._recent.get(number, -1)
        self._reporter.note(number, 1 << symbol, self._highest)
        whole = known >= 0 and known.bit_count() == self._m - 1 and not known >> symbol & 1
        later_s = self._late_blocks.arrived(whole, transit_s, self._offset_s)
        if later_s is not None:
            self._set_clock(later_s, now_s)
            self._counts["playout_moved"] += 1
            events.append(PlayoutMoved(later_s, now_s))

    def _is_behind(self, packet: Packet, sent_us: int, late_s: float, now_s: float) -> bool:
        """Whether the stream goes on behind the blocks that are open: packets of blocks that are over are sent now,
        since it was led astray, or as long ago as a sender began whose blocks and clock start again. (Parity may always
        be late.)"""
        astray = self._newest_us is not None and sent_us >= self._newest_us
        return packet.symbol < self._m and (astray or late_s > self._behind_s) and self._agreed(packet, now_s)

    def _strange_clock(self, packet: Packet, number: int, late_s: float, now_s: float, events: list[Event]) -> bool:
        """Whether a clock was set, or a sender's was started again, since a packet says so and others agree."""
        if not self._agreed(packet, now_s):
            return False
        if number <= self._highest and number not in self._blocks:
            self._restart(packet, packet.block, now_s, events)
        else:
            self._set_clock(late_s, now_s)
        return True

    def _agreed(self, packet: Packet, now_s: float) -> bool:
        """Whether so many packets agree, and the sequence followed has been silent so long, that the stream must be
        where they are."""
        alive_s = self._alive_s if self._schedule.confirmed else -math.inf
        return self._probation.agreed(packet[:3], packet.stamp_us, now_s, alive_s, self._schedule.silent_s(self._m))

    def _follows(self, packet: Packet, now_s: float, events: list[Event]) -> bool:
        """Whether to follow a packet's session from now on: the first one at once."""
        if self._highest < 0:
            self._follow(packet.session)
        elif packet.session in self._left and now_s < self._alive_s + self._behind_s:
            return False  # was under way when it was left
        elif self._agreed(packet, now_s):
            self._restart(packet, packet.block, now_s, events)
        return packet.session == self._session

    def _restart(self, packet: Packet, number: int, now_s: float, events: list[Event]) -> None:
        """Give up what is followed for a packet's sequence, of which block ``number`` is the first to have come."""
        for block in list(self._blocks.values()):
            self._close(block, now_s, events)
        self._left.append(self._session)
        self._follow(packet.session)
        self._highest = number - 1 if number >= NEAR_BLOCKS else -1
        self._counts["restarts"] += 1
        events.append(StreamRestarted(self._highest + 1, now_s))

    def _set_clock(self, late_s: float, now_s: float) -> None:
        """The clocks differ by so much more than before; blocks that are open keep their deadlines where they would get
        later ones."""
        for block in self._blocks.values():
            block.start_us -= max(0, int(late_s * 1e6))
        self._offset_s += late_s
        self._least_s, self._window_s, self._newest_us = self._offset_s, now_s, None
        self._schedule, self._probation = self._new_schedule(), Probation()
        self._late_blocks = LateBlocks(playback_s=self.parameters.playback_s)
        self._plan_closing()

    def _plan_closing(self) -> None:
        block = next(iter(self._blocks.values()), None)
        if block is None:
            self._closing_s = math.inf
        else:
            self._closing_s = block.start_us * S_PER_US + self._offset_s + self.parameters.playback_s

    def _open_until(self, number: int, sent_us: int, now_s: float) -> list[Event]:
        """A block later than all before: it and those skipped (all their packets lost, or late) await their
        deadlines."""
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
            self._blocks[n] = OpenBlock(n, sent_us, self._m)
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

    def _close(self, block: OpenBlock, now_s: float, events: list[Event]) -> None:
        symbols = block.symbols
        del self._blocks[block.number]
        self._plan_closing()
        if block.complete:
            return
        parity = sum(symbol >= self._m for symbol in symbols)
        missing = self._m - (len(symbols) - parity)
        self._counts["undecodable_blocks"] += 1
        self._counts["unused_parity"] += parity
        self._counts["lost_sources"] += missing
        events.append(BlockUndecodable(block.number, len(symbols), missing, now_s))
