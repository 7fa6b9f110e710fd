"""The client's side of the protocol, without any I/O: messages out, answers in, one conversation a call and host.
Messages are made when there is room for them, so that only what is under way is held in memory."""

import errno as numbers
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from sfio_emu import message_bodies, wire
from sfio_emu.client.link import Link
from sfio_emu.errors import PeerError, ProtocolError, RemoteFailure, StaleFileError
from sfio_emu.settings import ALL_CALLS, Settings, TransferCounters
from sfio_emu.wire import Header, Kind, Malformed

INBOX_BYTES = 4096
Slice = Sequence[memoryview]


class Message(NamedTuple):
    """A message and what becomes of its answer.

    `data` gives the `data_bytes` to send in slices: each is requested when the one before has been sent. Of an answer,
    `places` gives the size of its data and places for them, given its body, also in slices: each is requested when the
    one before is full. `finish` takes the body when all has arrived, `failed` the failure that it reports
    (else the call fails). `path`: of the subfile that it is about, where it is about one.
    """

    kind: Kind
    body: bytes = b""
    data: Callable[[], Iterator[Slice]] | None = None
    data_bytes: int = 0
    places: Callable[[memoryview], tuple[int, Iterator[Slice]]] | None = None
    finish: Callable[[memoryview], None] | None = None
    failed: Callable[[RemoteFailure], None] | None = None
    path: str = ""


def check_sequence(header: Header, awaited: int | None) -> None:
    """Raises `Malformed` where an answer is not the one to message `awaited` (None: none is awaited)."""
    if header.sequence != awaited and header.kind != Kind.REFUSED:
        raise Malformed(f"an answer to message {header.sequence}, which is not awaited", fatal=True)


def refusal_of(host: str, body: memoryview) -> ProtocolError:
    """What an answer of the kind REFUSED says."""
    return ProtocolError(host, f"it refused a message: {bytes(body).decode('utf-8', 'replace')}")


def failure_of(host: str, body: memoryview, path: Callable[[int], str]) -> RemoteFailure:
    """What an answer of the kind FAILED says; raises `Malformed`."""
    errno, call, handle, done_bytes = message_bodies.unpack(message_bodies.FAILURE, body)
    if call >= len(ALL_CALLS):
        raise Malformed(f"a failure of the unknown call {call}", fatal=True)
    if errno == numbers.ESTALE:
        return StaleFileError(host, path(handle))
    return RemoteFailure(host, ALL_CALLS[call], errno, path(handle), done_bytes)


class Exchange:
    """The messages of one call to one host: as many as `settings` say are sent before the first is answered.

    An answer that says "failed" is kept in `failure` (the first one) and the rest goes on; an answer that breaks the
    protocol raises `ProtocolError` from `received`, after which the connection is of no more use.
    """

    def __init__(
        self, host: str, link: Link, messages: Iterator[Message], *, settings: Settings, counters: TransferCounters
    ) -> None:
        self._host, self._link, self._messages = host, link, messages
        self._window, self._check, self._check_reads = settings.in_flight, settings.check_data, settings.check_reads
        self.next_sequence = link.next_sequence
        self._counters = counters
        self._waiting: deque[tuple[int, Message]] = deque()
        self._outgoing: deque[memoryview] = deque()
        self._exhausted = False
        self._slices: Iterator[Slice] | None = None
        self._data_left = 0
        self._sum = wire.Checksum()
        self._inbox = memoryview(bytearray(INBOX_BYTES))
        self._arrived = 0
        self._header: Header | None = None
        self._places: list[memoryview] = []
        self._data: Iterator[Slice] | None = None
        self._left = 0  # bytes of data of this answer that are not among the places yet
        self._offered: list[memoryview] = []
        self._trailer = memoryview(bytearray(wire.TRAILER.size))
        self._answer_sum = wire.Checksum()
        self.failure: PeerError | None = None

    @property
    def finished(self) -> bool:
        return not self.outgoing() and not self._waiting and self._exhausted

    def outgoing(self) -> Sequence[memoryview]:
        if not self._outgoing:
            if self._slices is not None:
                self._next_slice(self._slices)
            if not self._outgoing and not self._exhausted and len(self._waiting) < self._window:
                self._next_message()
        return self._outgoing

    def _next_message(self) -> None:
        message = next(self._messages, None)
        if message is None:
            self._exhausted = True
            return
        head = wire.encode_header(
            message.kind, self.next_sequence, message.body, message.data_bytes,
            checked=self._check_reads if message.kind in wire.READS else self._check,
        )  # fmt: skip
        self._outgoing.append(memoryview(head))
        self._waiting.append((self.next_sequence, message))
        self.next_sequence = (self.next_sequence + 1) & 0xFFFFFFFF
        self._counters.messages += 1
        if message.data is not None:
            self._slices = message.data()
            self._data_left = message.data_bytes
            self._sum = wire.Checksum()
            self._next_slice(self._slices)

    def _next_slice(self, slices: Iterator[Slice]) -> None:
        """Queue the next data of the message that is being sent, or what closes it."""
        pieces = next(slices, ())
        self._data_left -= sum(map(len, pieces))
        self._outgoing.extend(pieces)
        for piece in pieces if self._check else ():
            self._sum.add(piece)
        if not (self._data_left and pieces):
            self._slices = None
            if self._check:  # with the last data, so that they arrive together
                self._outgoing.append(memoryview(self._sum.trailer()))

    def sent(self, count: int) -> None:
        wire.drop_sent(self._outgoing, count)

    def incoming(self) -> Sequence[memoryview]:
        if self._places:
            return self._places
        if self._header is not None:
            return (self._inbox[self._arrived : self._end_of(self._header)],)
        if self._waiting and self._waiting[0][1].places is not None:
            return (self._inbox[self._arrived : wire.HEADER_BYTES + wire.MIN_READ_BODY_BYTES],)
        return (self._inbox[self._arrived :],)

    def received(self, count: int) -> None:
        """Take `count` more bytes; raises `ProtocolError`."""
        try:
            if self._places:
                self._take_data(count)
            else:
                self._arrived += count
                while self._take_head():
                    pass
        except Malformed as fault:
            self._counters.rejected += 1
            raise ProtocolError(self._host, f"its answer was rejected: {fault}") from fault

    def _end_of(self, header: Header) -> int:
        return wire.HEADER_BYTES + header.body_bytes

    def _take_head(self) -> bool:
        """Head and body from the inbox; whether another answer may be in it."""
        if self._header is None:
            if self._arrived < wire.HEADER_BYTES:
                return False
            self._header = self._checked(wire.decode_header(self._inbox[: wire.HEADER_BYTES], wire.MAX_LIMIT))
        header, end = self._header, self._end_of(self._header)
        if self._arrived < end:
            return False
        body = self._inbox[wire.HEADER_BYTES : end]
        wire.check_body(header, body)
        if not header.data_bytes:
            self._finish(header)
            return True
        self._begin_data(header, body)
        if self._arrived > end:
            raise Malformed("data that were taken for a body", fatal=True)
        return False

    def _begin_data(self, header: Header, body: memoryview) -> None:
        """Find the places of the data of an answer."""
        message = self._waiting[0][1] if self._waiting else None
        if header.kind != Kind.DONE or message is None or message.places is None:
            raise Malformed("data where none are awaited", fatal=True)
        due, self._data = message.places(body)
        if header.data_bytes != due:
            raise Malformed(f"{header.data_bytes} bytes of data where {due} are awaited", fatal=True)
        self._left = due
        self._answer_sum = wire.Checksum()
        self._next_places(header, self._data)

    def _next_places(self, header: Header, slices: Iterator[Slice]) -> None:
        """Offer places for the next slice of the data of the message; behind the last the checksum's."""
        slice_ = next(slices, None)
        if slice_ is None:
            raise Malformed("more data than were announced", fatal=True)
        self._places, self._offered = list(slice_), list(slice_)
        self._left -= sum(map(len, slice_))
        if not self._left and header.checked:
            self._places.append(self._trailer)

    def _checked(self, header: Header) -> Header:
        check_sequence(header, self._waiting[0][0] if self._waiting else None)
        if header.body_bytes > wire.MAX_LIMIT // 4:
            raise Malformed("a body larger than any answer's", fatal=True)
        if self._end_of(header) > len(self._inbox):
            self._inbox = wire.enlarged(self._inbox[: self._arrived], self._end_of(header))
        return header

    def _take_data(self, count: int) -> None:
        places, header = self._places, self._header
        assert header is not None
        full = 0
        while count:
            size = len(places[full])
            if count < size:
                places[full] = places[full][count:]
                break
            count -= size
            full += 1
        if header.checked:
            for place in self._offered[:full]:  # whole places, while the cache holds them
                self._answer_sum.add(place)
            del self._offered[:full]
        del places[:full]
        if places:
            return
        if self._left:
            assert self._data is not None
            self._next_places(header, self._data)
            return
        if header.checked and bytes(self._trailer) != self._answer_sum.trailer():
            raise Malformed("the data of a message are corrupted", fatal=True)
        self._finish(header)

    def _finish(self, header: Header) -> None:
        """Hand over an answer that has arrived whole."""
        end = self._end_of(header)
        body = self._inbox[wire.HEADER_BYTES : end]
        if header.kind == Kind.REFUSED:
            self._counters.rejected += 1
            raise refusal_of(self._host, body)
        _, message = self._waiting.popleft()
        if self._data is not None:
            if next(self._data, None) is not None:
                raise Malformed("fewer data than were announced", fatal=True)
            self._data = None
        if header.kind == Kind.FAILED:
            failure = failure_of(self._host, body, lambda handle: message.path or self._link.path_of(handle))
            if message.failed is not None:
                message.failed(failure)
            else:
                self.failure = self.failure or failure
        elif header.kind != Kind.DONE:
            raise Malformed(f"an answer of kind {header.kind}", fatal=True)
        elif message.finish is not None:
            message.finish(body)
        self._next_head(end)

    def _next_head(self, end: int) -> None:
        """Forget the message in the inbox; what has arrived behind `end` is the next one's."""
        self._header = None
        left = self._arrived - end
        if left:
            self._inbox[:left] = self._inbox[end : self._arrived]
        self._arrived = left
