"""The client's side of the protocol, without any I/O: messages out, answers in, one conversation a call and host.
Messages are made when there is room for them, so that only what is under way is held in memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from sfio_emu import wire
from sfio_emu.errors import PeerError, ProtocolError, RemoteFailure
from sfio_emu.settings import CALLS, Counters, Settings
from sfio_emu.wire import Header, Kind, Malformed

INBOX_BYTES = 4096
Slice = Sequence[memoryview]


class Message(NamedTuple):
    """A message and what becomes of its answer.

    `data` gives the `data_bytes` to send in slices: each is asked for when the one before has been sent. Of an answer,
    `places` gives the places of its data, given its body and their size, also in slices: each is asked for when the
    one before is full. `finish` takes the body when all has arrived. `path` names the subfile of a handle in an error.
    """

    kind: Kind
    body: bytes = b""
    data: Callable[[], Iterator[Slice]] | None = None
    data_bytes: int = 0
    places: Callable[[memoryview, int], Iterator[Slice]] | None = None
    finish: Callable[[memoryview], None] | None = None
    path: Callable[[int], str] = str


class Exchange:
    """The messages of one call to one host: as many as `settings` say are sent before the first is answered.

    An answer that says "failed" is kept in `failure` (the first one) and the rest goes on; an answer that breaks the
    protocol raises `ProtocolError` from `received`, after which the connection is of no more use.
    """

    def __init__(
        self, host: str, messages: Iterator[Message], *, first: int, settings: Settings, counters: Counters
    ) -> None:
        self._host, self._messages = host, messages
        self._window, self._check = settings.in_flight, settings.check_data
        self.next_sequence = first
        self._counters = counters
        self._waiting: deque[tuple[int, Message]] = deque()
        self._outgoing: deque[memoryview] = deque()
        self._exhausted = False
        self._slices: Iterator[Slice] | None = None
        self._sum = wire.Checksum()
        self._inbox = memoryview(bytearray(INBOX_BYTES))
        self._arrived = 0
        self._header: Header | None = None
        self._places: list[memoryview] = []
        self._data: Iterator[Slice] | None = None
        self._slice: Slice = ()
        self._data_left = 0
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
            message.kind, self.next_sequence, message.body, message.data_bytes, checked=self._check
        )
        self._outgoing.append(memoryview(head))
        self._waiting.append((self.next_sequence, message))
        self.next_sequence = (self.next_sequence + 1) & 0xFFFFFFFF
        self._counters.messages += 1
        if message.data is not None:
            self._slices = message.data()
            self._sum = wire.Checksum()
            self._next_slice(self._slices)

    def _next_slice(self, slices: Iterator[Slice]) -> None:
        """Queue the next data of the message that is being sent, or what closes it."""
        pieces = next(slices, None)
        if pieces is not None:
            self._outgoing.extend(pieces)
            if self._check:
                for piece in pieces:
                    self._sum.add(piece)
            return
        self._slices = None
        if self._check:
            self._outgoing.append(memoryview(self._sum.trailer()))

    def sent(self, count: int) -> None:
        outgoing = self._outgoing
        while count:
            first = outgoing[0]
            if count < len(first):
                outgoing[0] = first[count:]
                return
            count -= len(first)
            outgoing.popleft()

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
        wire.check_body(header, self._inbox[wire.HEADER_BYTES : end])
        if not header.data_bytes:
            self._finish(header)
            return True
        message = self._waiting[0][1] if self._waiting else None
        if header.kind != Kind.DONE or message is None or message.places is None or self._arrived > end:
            raise Malformed("data where none are awaited", fatal=True)
        self._data = message.places(self._inbox[wire.HEADER_BYTES : end], header.data_bytes)
        self._data_left = header.data_bytes
        self._answer_sum = wire.Checksum()
        self._slice = ()
        self._next_places(header)
        return False

    def _next_places(self, header: Header) -> None:
        """The slice is full: add it to the checksum, go on to the next one, to the trailer, or to the end."""
        if header.checked:
            for piece in self._slice:
                self._answer_sum.add(piece)
        self._data_left -= sum(map(len, self._slice))
        assert self._data is not None
        self._slice = next(self._data, ())
        if not self._slice:
            if self._data_left:
                raise Malformed(f"{header.data_bytes} bytes of data where others are awaited", fatal=True)
            self._data = None
            if header.checked:
                self._slice = (memoryview(bytearray(wire.TRAILER.size)),)
        self._places = list(self._slice)
        if not self._places:
            self._finish(header)

    def _checked(self, header: Header) -> Header:
        awaited = self._waiting[0][0] if self._waiting else None
        if header.sequence != awaited and header.kind != Kind.REFUSED:
            raise Malformed(f"an answer to message {header.sequence}, which is not awaited", fatal=True)
        if header.body_bytes > wire.MAX_LIMIT // 4:
            raise Malformed("a body larger than any answer's", fatal=True)
        if self._end_of(header) > len(self._inbox):
            larger = memoryview(bytearray(self._end_of(header)))
            larger[: self._arrived] = self._inbox[: self._arrived]
            self._inbox = larger
        return header

    def _take_data(self, count: int) -> None:
        places = self._places
        while count:
            if count < len(places[0]):
                places[0] = places[0][count:]
                return
            count -= len(places.pop(0))
        if places:
            return
        assert self._header is not None
        if self._data is not None:
            self._next_places(self._header)
            return
        if bytes(self._slice[0]) != self._answer_sum.trailer():
            raise Malformed("the data of a message are corrupted", fatal=True)
        self._finish(self._header)

    def _finish(self, header: Header) -> None:
        end = self._end_of(header)
        body = self._inbox[wire.HEADER_BYTES : end]
        if header.kind == Kind.REFUSED:
            self._counters.rejected += 1
            raise ProtocolError(self._host, f"it refused a message: {bytes(body).decode('utf-8', 'replace')}")
        _, message = self._waiting.popleft()
        if header.kind == Kind.FAILED:
            self._failed(message, body)
        elif header.kind != Kind.DONE:
            raise Malformed(f"an answer of kind {header.kind}", fatal=True)
        elif message.finish is not None:
            message.finish(body)
        self._header = None
        left = self._arrived - end
        if left:
            self._inbox[:left] = self._inbox[end : self._arrived]
        self._arrived = left

    def _failed(self, message: Message, body: memoryview) -> None:
        errno, call, handle, _ = wire.unpack(wire.FAILURE, body)
        if call >= len(CALLS):
            raise Malformed(f"a failure of the unknown call {call}", fatal=True)
        if self.failure is None:
            self.failure = RemoteFailure(self._host, CALLS[call], errno, message.path(handle))


__all__ = ["Exchange", "Message"]
