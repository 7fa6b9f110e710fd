"""A read or write so small that each of its I/O nodes gets one message, sent in one piece, and gives one answer.

Three of four microseconds of the client went into what only long calls need: windows, stages, slices, lists of
requests. Here a message is made at once and the answer taken from one piece of memory. What is sent and answered is the
same.
"""

from collections.abc import Callable, Sequence

from xxhash import xxh3_64_intdigest

from sfio_emu import wire
from sfio_emu.client.connection import Link, check_sequence, failure_in
from sfio_emu.errors import PeerError, ProtocolError
from sfio_emu.layout.piece import StripedPiece
from sfio_emu.layout.striping import Layout
from sfio_emu.settings import TransferCounters
from sfio_emu.wire import Kind, Malformed

MAX_SMALL_BYTES = 16 << 10
MIN_ROOM_BYTES = 512
OVERHEAD_BYTES = 256  # what a message and its answer hold besides data and runs, and more


def block_pieces(layout: Layout, offset: int, size: int) -> list[StripedPiece]:
    """The parts of `size` bytes at `offset` of the file that lie in the first bytes of memory, in the order of the
    subfiles."""
    count, unit, end = layout.subfiles, layout.stripe_unit, offset + size
    first, last = offset // unit, (end - 1) // unit
    if first == last:  # the usual case, quickly
        low = (first // count - first) * unit + offset
        return [StripedPiece(layout, first % count, low, low + size, -offset)]
    touched = range(count) if last - first >= count else sorted({number % count for number in range(first, last + 1)})
    share = layout.share
    return [StripedPiece(layout, number, share(offset, number), share(end, number), -offset) for number in touched]


def write_message(sequence: int, runs: bytes, data: Sequence[bytes | memoryview], *, checked: bool) -> bytes:
    """A WRITE in one piece."""
    if len(data) > 1:
        data = (b"".join(data),)
    head = wire.encode_head(Kind.WRITE, sequence, runs, len(data[0]), checked=checked)
    if checked:
        return b"".join((head, runs, data[0], wire.TRAILER.pack(xxh3_64_intdigest(data[0]))))
    return b"".join((head, runs, data[0]))


class SmallCall:
    """One message to the listener of `host` and its answer, which needs no more than `room_bytes` where it is what was
    requested.

    A `Conversation`. `finish(body, data)` is given the answer; an answer that says "failed" is kept in `failure`.
    """

    def __init__(
        self, host: str, link: Link, message: bytes, room_bytes: int,
        finish: Callable[[memoryview, memoryview], None], counters: TransferCounters,
    ) -> None:  # fmt: skip
        self._host, self._link, self._finish, self._counters = host, link, finish, counters
        self._sequence = link.next_sequence
        self._outgoing = [memoryview(message)]
        self._inbox = memoryview(bytearray(max(room_bytes, MIN_ROOM_BYTES)))
        self._arrived = 0
        self.next_sequence = (self._sequence + 1) & 0xFFFFFFFF
        self.finished = False
        self.failure: PeerError | None = None

    def outgoing(self) -> Sequence[memoryview]:
        return self._outgoing

    def sent(self, count: int) -> None:
        rest = self._outgoing[0][count:]
        self._outgoing = [rest] if len(rest) else []

    def incoming(self) -> Sequence[memoryview]:
        return (self._inbox[self._arrived :],)

    def received(self, count: int) -> None:
        """Take `count` more bytes; raises `ProtocolError`."""
        self._arrived += count
        try:
            if self._arrived >= wire.HEADER_BYTES:
                self._take_message()
        except Malformed as fault:
            self._counters.rejected += 1
            raise ProtocolError(self._host, f"its answer was rejected: {fault}") from fault

    def _take_message(self) -> None:
        """Take the answer once it has arrived whole."""
        inbox = self._inbox
        header = wire.decode_header(inbox[: wire.HEADER_BYTES], wire.MAX_LIMIT)
        if self.finished:
            raise Malformed(f"an answer to message {header.sequence}, which is not awaited", fatal=True)
        check_sequence(header, self._sequence)
        data_start = wire.HEADER_BYTES + header.body_bytes
        end = wire.HEADER_BYTES + header.total_bytes
        if end > len(inbox):
            self._make_room(end)
        if self._arrived < end:
            return
        body, data = inbox[wire.HEADER_BYTES : data_start], inbox[data_start : data_start + header.data_bytes]
        wire.check_body(header, body)
        self.failure = failure_in(self._host, header, body, self._link.path_of, self._counters)
        trailer = inbox[data_start + header.data_bytes : end]
        if len(trailer) and trailer != wire.TRAILER.pack(xxh3_64_intdigest(data)):
            raise Malformed("the data of a message are corrupted", fatal=True)
        if self.failure is None:
            self._finish(body, data)
        self.finished = True
        if self._arrived > end:
            raise Malformed("more than the answer that is awaited", fatal=True)

    def _make_room(self, size: int) -> None:
        if size > MAX_SMALL_BYTES * 4:
            raise Malformed(f"an answer of {size} bytes to a small call", fatal=True)
        arrived, self._inbox = self._inbox[: self._arrived], memoryview(bytearray(size))
        self._inbox[: len(arrived)] = arrived
