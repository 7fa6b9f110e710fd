"""The receiving end of a coded stream without a fixed packet rate, as a state machine.

The caller gives datagrams and the time, and gets packets and loss reports. Packets of a flow are
delivered in order. They wait for a missing packet for a limited time.
"""

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

# Maximum number of waiting packets of a flow. A flow sends fewer packets within any useful waiting
# time.
_MAX_WAITING = 4096

# No sender closes blocks in shorter intervals than this, apart from the first few.
_MIN_BLOCK_US = 1000

# The stream must be silent for this time before another sequence is accepted.
_SILENT_S = 0.05

# Length of flow and packet number in front of the payload.
_NUMBER_BYTES = FRAMING.size - 2


class Delivered(NamedTuple):
    """A delivered packet.

    Attributes:
        flow: Flow of the packet.
        number: Number of the packet in its flow, which continues beyond 2^24.
        payload: Payload of the packet.
        came_s: Time at which it arrived or was recovered.
        at_s: Time at which it was delivered.
        recovered: The code recovered the packet.
    """

    flow: int
    number: int
    payload: bytes
    came_s: float
    at_s: float
    recovered: bool


class _Flow:
    """The packets of a flow that wait for earlier ones.

    Attributes:
        next: Number of the packet that is delivered next.
        waiting: A heap of (number, time of arrival, payload, recovered).
    """

    __slots__ = ("next", "waiting")

    def __init__(self, first: int) -> None:
        # If the flow began earlier, packets before the first one may still arrive.
        self.next = max(0, first - _MAX_WAITING)
        self.waiting: list[tuple[int, float, bytes, bool]] = []


class FlowOrder:
    """Delivers the packets of each flow in order.

    A packet that arrives after later ones were delivered is delivered at once.

    Args:
        order_s: Time for which packets wait for a missing one; 0 to deliver them as they arrive.

    >>> order = FlowOrder(0.08)
    >>> order.take(3, 1, b"", 0.0, False), order.next_s()
    ([], 0.08)
    >>> [packet.number for packet in order.take(3, 0, b"", 0.01, True)]
    [0, 1]
    """

    def __init__(self, order_s: float) -> None:
        self._order_s = order_s
        self._flows: dict[int, _Flow] = {}
        # A heap of (time, flow): the flow has a packet that waits until this time. It may have been
        # delivered earlier.
        self._deadlines: list[tuple[float, int]] = []

    def take(
        self, flow: int, number: int, payload: bytes, now_s: float, recovered: bool
    ) -> list[Delivered]:
        """Add a packet, and return the packets that can be delivered now.

        Args:
            flow: Flow of the packet.
            number: Number of the packet in its flow, modulo 2^24.
            payload: Payload of the packet.
            now_s: Time at the receiver.
            recovered: The code recovered the packet.
        """
        packets = self._flows.get(flow)
        if packets is None:
            packets = _Flow(number)
            self._flows[flow] = packets
        number = packets.next + signed(number - packets.next, NUMBERS)
        if not self._order_s or number < packets.next:
            packets.next = max(packets.next, number + 1)
            return [Delivered(flow, number, payload, now_s, now_s, recovered)]
        heapq.heappush(packets.waiting, (number, now_s, payload, recovered))
        if number > packets.next:
            heapq.heappush(self._deadlines, (now_s + self._order_s, flow))
        delivered = self._consecutive(flow, packets, now_s)
        if len(packets.waiting) > _MAX_WAITING:
            delivered += self._skip_missing(flow, packets, now_s)
        return delivered

    def due(self, now_s: float) -> list[Delivered]:
        """Return the packets that have waited long enough, and those before them."""
        delivered: list[Delivered] = []
        while self._deadlines and self._deadlines[0][0] <= now_s:
            _, flow = heapq.heappop(self._deadlines)
            packets = self._flows[flow]
            while any(came_s + self._order_s <= now_s for _, came_s, _, _ in packets.waiting):
                delivered += self._skip_missing(flow, packets, now_s)
        return delivered

    def next_s(self) -> float:
        """Return the earliest time at which ``due`` has packets, or infinity."""
        return self._deadlines[0][0] if self._deadlines else math.inf

    def restart(self, now_s: float) -> list[Delivered]:
        """Begin the numbers of all flows again, and return the packets that waited."""
        delivered = []
        for flow, packets in self._flows.items():
            for number, came_s, payload, recovered in sorted(packets.waiting):
                delivered.append(Delivered(flow, number, payload, came_s, now_s, recovered))
        self._flows = {}
        self._deadlines = []
        return delivered

    def _skip_missing(self, flow: int, packets: _Flow, now_s: float) -> list[Delivered]:
        """Return the packets behind the first missing ones, up to the next missing packet."""
        packets.next = packets.waiting[0][0]
        return self._consecutive(flow, packets, now_s)

    def _consecutive(self, flow: int, packets: _Flow, now_s: float) -> list[Delivered]:
        """Return the packets up to the next missing one."""
        delivered: list[Delivered] = []
        while packets.waiting and packets.waiting[0][0] <= packets.next:
            number, came_s, payload, recovered = heapq.heappop(packets.waiting)
            packets.next = number + 1
            delivered.append(Delivered(flow, number, payload, came_s, now_s, recovered))
        return delivered


class _AnyPace(Schedule):
    """The schedule of a stream without a fixed rate; only the maximum rate of blocks is known."""

    def half_arrived(self, block: int, stamp_us: int) -> None:
        """Record that half of a block has arrived; a period of blocks does not exist."""
        super().half_arrived(block, stamp_us)
        self._state[PERIOD_US] = -1

    def may_begin(self, block: int, highest: int, stamp_us: int) -> bool:
        """Return whether a new block can have begun (see ``Schedule.may_begin``)."""
        if highest < 0:
            return True
        since_us = 0.0
        if self.confirmed:
            since_us = max(0.0, stamp_us - self._state[LAST_US])
        return block <= highest + EARLY_BLOCKS + since_us // _MIN_BLOCK_US

    def silent_s(self, source_packets: int) -> float:
        """Return how long the stream must be silent before another sequence is accepted."""
        return _SILENT_S


class _Reader(PacketReader):
    """Reads packets whose symbols have different lengths.

    Attributes:
        known: Number of source packets of the block of the last packet.
    """

    known = 0

    def read(self, data: bytes) -> Fields | None:  # noqa: PLR0914 - the fields of a header
        """Return the fields of a packet, or None if it is rejected.

        This runs for every packet; see ``PacketReader.read``.
        """
        data = as_bytes(data)
        if HEADER_BYTES < len(data) <= self._packet_bytes:
            first, flags, stream, ids, session, k, n, path, sequence, length, stamp, _ = (
                HEADER.unpack_from(data)
            )
            body = data[HEADER_BYTES:]
            symbol = ids & 0xFF
            is_source = symbol < self._m
            if flags & SHORT_FLAG:
                is_right_size = 1 <= k < self._m and not is_source
            else:
                is_right_size = k == self._m
            if (
                flags & ~SHORT_FLAG == self._flags
                and self._is_sealed(data, body)
                and stream == self._stream_id
                and length == len(body)
                and is_right_size
                and k <= n
                and first == FIRST_BYTES[is_source]
                and symbol <= MAX_SYMBOL_ID
                and (not is_source or _is_framed(body))
            ):
                self.known = k
                return session, ids >> 8, symbol, n, stamp, body, path, sequence
        self.rejected[self._reason(data)] += 1
        return None


def _is_framed(body: bytes) -> bool:
    """Return whether a source symbol has the length that it says, and contains flow and number."""
    return len(body) >= FRAMING.size and len(body) == 2 + int.from_bytes(body[:2], "big")


class _Blocks(StreamReceiver):
    """The blocks of ``StreamReceiver``, also short ones, with symbols of different lengths."""

    _new_schedule = _AnyPace
    _new_reader = _Reader
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
        """Use a symbol of a block; the symbols that a short block does not have are added."""
        if self._reader.known < self._m and not block.complete:
            for number in range(self._reader.known, self._m):
                if not block.bitmap >> number & 1:
                    block.symbols[number] = b""
            block.bitmap |= (1 << self._m) - (1 << self._reader.known)
        super()._use(block, symbol, body, sent_us, now_s, events)

    def _close(self, block: OpenBlock, now_s: float, events: list[Event]) -> None:
        """Close a block.

        If only its first packets and no parity have arrived, it probably had no other packets.
        """
        has_parity = block.bitmap >> self._m != 0
        has_gap = block.bitmap & (block.bitmap + 1) != 0
        if not block.complete and not has_parity and not has_gap:
            block.complete = True
            self._counts["unconfirmed_blocks"] += 1
        super()._close(block, now_s, events)


class EventReceiver:
    """Receives a stream without a fixed packet rate.

    Methods return the packets that can be delivered now. Every packet is delivered once, at most
    ``playback_s`` and ``order_s`` after the first packet of its block was sent, unless the receiver
    itself was delayed. Packets of a flow are in order if none is missing for longer than
    ``order_s``. No datagram raises an error.

    Args:
        parameters: The parameters of the receiver.
        code: The code of the stream.
        order_s: Time for which packets wait for a missing one; 0 to deliver them as they arrive.

    Attributes:
        rejected: Number of rejected datagrams by reason.

    Raises:
        FecError: Packets would wait for longer than the playback buffer.
    """

    def __init__(
        self, parameters: ReceiverParameters, code: VariableLengthCode, order_s: float = 0.08
    ) -> None:
        if not 0 <= order_s <= parameters.playback_s:
            raise FecError(
                f"order for {order_s} s: give 0 (as they come) to {parameters.playback_s:g} s, "
                "the playback"
            )
        self._blocks = _Blocks(parameters, code)
        self._order = FlowOrder(order_s)
        self.rejected = self._blocks.rejected

    @property
    def counters(self) -> Counter[str]:
        """The counters of ``StreamReceiver``, and ``unconfirmed_blocks``.

        A block is unconfirmed if it was closed without any parity, and no gap shows a lost packet.
        It was probably a short block.
        """
        return self._blocks.counters

    @property
    def received(self) -> int:
        """Number of packets of the stream, including late and duplicate ones."""
        return self._blocks.received

    def receive(self, data: bytes, now_s: float) -> list[Delivered]:
        """Process a datagram, and return the packets that can be delivered now."""
        return self._in_order(self._blocks.receive(data, now_s), now_s)

    def advance(self, now_s: float) -> list[Delivered]:
        """Close blocks whose deadlines have passed, and return the packets that are due."""
        return self._in_order(self._blocks.advance(now_s), now_s)

    def next_deadline_s(self) -> float:
        """Return when ``advance`` or ``reports_due`` is due if nothing arrives, or infinity."""
        return min(self._blocks.next_deadline_s(), self._order.next_s())

    def reports_due(self, now_s: float) -> list[bytes]:
        """Return the loss report that is due, if any; send it over every return path."""
        return self._blocks.reports_due(now_s)

    def _in_order(self, events: Iterable[Event], now_s: float) -> list[Delivered]:
        """Return the packets of these events, and those that are due, in order."""
        delivered = self._order.due(now_s)
        for event in events:
            if isinstance(event, StreamRestarted):
                delivered += self._order.restart(now_s)
            elif isinstance(event, SourceDelivered) and len(event.payload) >= _NUMBER_BYTES:
                word = int.from_bytes(event.payload[:_NUMBER_BYTES], "big")
                flow, number = divmod(word, NUMBERS)
                delivered += self._order.take(
                    flow, number, event.payload[_NUMBER_BYTES:], now_s, event.recovered
                )
        return delivered
