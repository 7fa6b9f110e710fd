"""The receiving end of a coded stream whose packets come when they come: datagrams and time in, packets of flows in
order, held for a missing one at most so long, and loss reports out."""

import heapq
import math
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from fec.code.variable_lengths import VariableLengthCode
from fec.errors import FecError
from fec.protocol.events.event_sender import FRAMING, NUMBERS
from fec.protocol.framing import MAX_SYMBOL_ID, SHORT_FLAG, as_bytes, signed
from fec.protocol.packet_reader import FIRST_BYTES, Fields, PacketReader
from fec.protocol.probation import EARLY_BLOCKS, LAST_US, PERIOD_US, Schedule
from fec.protocol.receiver import StreamReceiver
from fec.protocol.receiver_types import (
    Event,
    OpenBlock,
    ReceiverParameters,
    SourceDelivered,
    StreamRestarted,
)
from fec.protocol.wire import HEADER, HEADER_BYTES

_MOST_WAITING = 4096
"""Packets of one flow; more than a flow sends within any sensible time to hold them."""


class Delivered(NamedTuple):
    """A packet for the listener; ``number``: in its flow, counted on beyond 2^24; ``came_s``: when it was there,
    ``at_s``: when it was handed on; ``recovered``: by the code."""

    flow: int
    number: int
    payload: bytes
    came_s: float
    at_s: float
    recovered: bool


class _Flow:
    __slots__ = ("held", "next")

    def __init__(self, first: int) -> None:
        self.next = max(
            0, first - _MOST_WAITING
        )  # where it was under way before, some earlier ones may still come
        self.held: list[tuple[int, float, bytes, bool]] = []


class FlowOrder:
    """``order_s`` 0: packets are handed on as they come. A packet that comes after later ones of its flow went on
    follows at once: late is better than never.

    >>> order = FlowOrder(0.08)
    >>> [order.take(3, number, b"", 0.0, False) for number in (1,)], order.next_s()
    ([[]], 0.08)
    >>> [packet.number for packet in order.take(3, 0, b"", 0.01, True)]
    [0, 1]
    """

    def __init__(self, order_s: float) -> None:
        self._order_s = order_s
        self._flows: dict[int, _Flow] = {}
        self._until: list[tuple[float, int]] = []
        """(time, flow) of everything held, some of which may have gone on by then."""

    def take(
        self, flow: int, number: int, payload: bytes, now_s: float, recovered: bool
    ) -> list[Delivered]:
        """A packet of the network; what may be handed on now."""
        own = self._flows.get(flow) or self._flows.setdefault(flow, _Flow(number))
        number = own.next + signed(number - own.next, NUMBERS)
        if not self._order_s or number < own.next:
            own.next = max(own.next, number + 1)
            return [Delivered(flow, number, payload, now_s, now_s, recovered)]
        heapq.heappush(own.held, (number, now_s, payload, recovered))
        if number > own.next:
            heapq.heappush(self._until, (now_s + self._order_s, flow))
        out = self._consecutive(flow, own, now_s)
        return out if len(own.held) <= _MOST_WAITING else out + self._go_on(flow, own, now_s)

    def due(self, now_s: float) -> list[Delivered]:
        """What has been held long enough, and all before it."""
        out: list[Delivered] = []
        while self._until and self._until[0][0] <= now_s:
            _, flow = heapq.heappop(self._until)
            own = self._flows[flow]
            while any(came_s + self._order_s <= now_s for _, came_s, _, _ in own.held):
                out += self._go_on(flow, own, now_s)
        return out

    def next_s(self) -> float:
        """When ``due`` has something to give, at the earliest (inf: never)."""
        return self._until[0][0] if self._until else math.inf

    def restart(self, now_s: float) -> list[Delivered]:
        """The numbers of flows begin again; all that is held."""
        flows, self._flows, self._until = self._flows, {}, []
        return [
            Delivered(flow, number, payload, came_s, now_s, recovered)
            for flow, own in flows.items()
            for number, came_s, payload, recovered in sorted(own.held)
        ]

    def _go_on(self, flow: int, own: _Flow, now_s: float) -> list[Delivered]:
        own.next = own.held[0][0]
        return self._consecutive(flow, own, now_s)

    def _consecutive(self, flow: int, own: _Flow, now_s: float) -> list[Delivered]:
        out: list[Delivered] = []
        while own.held and own.held[0][0] <= own.next:
            number, came_s, payload, recovered = heapq.heappop(own.held)
            own.next = number + 1
            out.append(Delivered(flow, number, payload, came_s, now_s, recovered))
        return out


_LEAST_BLOCK_US = 1000
"""In which no sender closes more than one block on end, beyond the first few."""
_SILENT_S = 0.05
_NUMBER_BYTES = FRAMING.size - 2


class _AnyPace(Schedule):
    """Blocks that come when packets come: known is only that they do not come at any rate."""

    def half_arrived(self, block: int, stamp_us: int) -> None:
        super().half_arrived(block, stamp_us)
        self._state[PERIOD_US] = -1

    def may_begin(self, block: int, highest: int, stamp_us: int) -> bool:
        since_us = stamp_us - self._state[LAST_US] if self.confirmed else 0
        return highest < 0 or block <= highest + EARLY_BLOCKS + max(0, since_us) // _LEAST_BLOCK_US

    def silent_s(self, source_packets: int) -> float:
        return _SILENT_S


class _Reader(PacketReader):
    """Packets of any length up to that of a symbol; ``known``: source packets of the last one's block."""

    def read(self, data: bytes) -> Fields | None:
        data = as_bytes(data)
        if HEADER_BYTES < len(data) <= self._packet_bytes:
            first, flags, stream, ids, session, k, n, path, sequence, length, stamp, _ = (
                HEADER.unpack_from(data)
            )
            body, symbol, short = data[HEADER_BYTES:], ids & 0xFF, bool(flags & SHORT_FLAG)
            if (
                flags & ~SHORT_FLAG == self._flags
                and self._is_sealed(data, body)
                and stream == self._stream_id
                and length == len(body)
                and (1 <= k < self._m <= symbol if short else k == self._m)
                and k <= n
                and first == FIRST_BYTES[symbol < self._m]
                and symbol <= MAX_SYMBOL_ID
                and (
                    symbol >= self._m
                    or len(body) == 2 + int.from_bytes(body[:2], "big") >= FRAMING.size
                )
            ):
                self.known = k
                return session, ids >> 8, symbol, n, stamp, body, path, sequence
        self.rejected[self._reason(data)] += 1
        return None

    known = 0


class _Blocks(StreamReceiver):
    """The clocked receiver's blocks, short ones too, of symbols as long as they are."""

    _new_schedule, _new_reader = _AnyPace, _Reader
    _reader: _Reader

    def __init__(self, parameters: ReceiverParameters, code: VariableLengthCode) -> None:
        super().__init__(parameters, code)
        self._half = 1

    def _use(
        self,
        block: OpenBlock,
        symbol: int,
        body: bytes,
        sent_us: int,
        now_s: float,
        events: list[Event],
    ) -> None:
        if self._reader.known < self._m and not block.complete:
            absent = range(self._reader.known, self._m)
            block.symbols |= {number: b"" for number in absent if not block.bitmap >> number & 1}
            block.bitmap |= (1 << self._m) - (1 << self._reader.known)
        super()._use(block, symbol, body, sent_us, now_s, events)

    def _close(self, block: OpenBlock, now_s: float, events: list[Event]) -> None:
        if (
            not block.complete
            and block.bitmap & (block.bitmap + 1) == 0
            and block.bitmap >> self._m == 0
        ):
            block.complete = True  # its first packets and no parity: likely all that it had
            self._counts["unconfirmed_blocks"] += 1
        super()._close(block, now_s, events)


class EventReceiver:
    """Each method gives the packets that may be handed on now; every packet once, and none later than ``playback_s``
    after the first of its block was sent and ``order_s`` more, but for what was held when this end itself stood still.

    Within a flow they are in order as long as none is held longer than ``order_s`` (0: as they come). Whatever the
    bytes of a datagram are, nothing is raised. FecError for an order that holds longer than packets are waited for.
    """

    def __init__(
        self, parameters: ReceiverParameters, code: VariableLengthCode, order_s: float = 0.08
    ) -> None:
        if not 0 <= order_s <= parameters.playback_s:
            raise FecError(
                f"order for {order_s} s: give 0 (as they come) to {parameters.playback_s:g} s, the playback"
            )
        self._blocks, self._order = _Blocks(parameters, code), FlowOrder(order_s)
        self.rejected = self._blocks.rejected

    @property
    def counters(self) -> Counter[str]:
        """Those of the clocked receiver, and unconfirmed_blocks: of which no parity came, and no gap showed a loss."""
        return self._blocks.counters

    @property
    def received(self) -> int:
        """Packets of the stream, however late or often."""
        return self._blocks.received

    def receive(self, data: bytes, now_s: float) -> list[Delivered]:
        """One datagram."""
        return self._ordered(self._blocks.receive(data, now_s), now_s)

    def advance(self, now_s: float) -> list[Delivered]:
        """What time alone brings."""
        return self._ordered(self._blocks.advance(now_s), now_s)

    def next_deadline_s(self) -> float:
        """When ``advance`` or ``reports_due`` has something to do, whatever arrives (inf: never)."""
        return min(self._blocks.next_deadline_s(), self._order.next_s())

    def reports_due(self, now_s: float) -> list[bytes]:
        """The report that is due now, if any; send it over every return path."""
        return self._blocks.reports_due(now_s)

    def _ordered(self, events: Iterable[Event], now_s: float) -> list[Delivered]:
        out = self._order.due(now_s)
        for event in events:
            if isinstance(event, StreamRestarted):
                out += self._order.restart(now_s)
            elif isinstance(event, SourceDelivered) and len(event.payload) >= _NUMBER_BYTES:
                word = int.from_bytes(event.payload[:_NUMBER_BYTES], "big")
                flow, number = divmod(word, NUMBERS)
                out += self._order.take(
                    flow, number, event.payload[_NUMBER_BYTES:], now_s, event.recovered
                )
        return out
