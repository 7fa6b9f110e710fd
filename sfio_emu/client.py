"""The client's side of the protocol, without any I/O: messages out, answers in, one conversation a call and host.
Messages are made when there is room for them, so that only what is under way is held in memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence

from sfio_emu import wire
from sfio_emu.errors import PeerError, ProtocolError, RemoteFailure
from sfio_emu.settings import CALLS, Counters
from sfio_emu.wire import Header, Kind, Malformed


class Message:
    """A message and what becomes of its answer.

    `data` gathers the pieces to send (asked for when it is the message's turn; they are sent before the next message
    is asked for its own). Of an answer, `places` says where its data go, given its body and their size; `finish`
    takes the body when all has arrived.
    """

    def __init__(
        self,
        kind: Kind,
        body: bytes,
        *,
        data: Callable[[], Sequence[memoryview]] | None = None,
        places: Callable[[memoryview, int], Sequence[memoryview]] | None = None,
        finish: Callable[[memoryview], None] | None = None,
        path: Callable[[int], str] = str,
    ) -> None:
        self.kind, self.body, self.data, self.places, self.finish, self.path = kind, body, data, places, finish, path


class Exchange:
    """The messages of one call to one host: at most `window` are sent without their answer.

    An answer that says "failed" is kept in `failure` (the first one) and the rest goes on; an answer that breaks the
    protocol raises `ProtocolError` from `received`, after which the connection is of no more use.
    """

    def __init__(
        self, host: str, messages: Iterator[Message], *, first: int, window: int, check: bool, counters: Counters
    ) -> None:
        self._host, self._messages, self._window, self._check = host, messages, window, check
        self.next_sequence = first
        self._counters = counters
        self._waiting: deque[tuple[int, Message]] = deque()
        self._outgoing: deque[memoryview] = deque()
        self._exhausted = False
        self._head = memoryview(bytearray(wire.HEADER_BYTES))
        self._body = memoryview(b"")
        self._header: Header | None = None
        self._places: list[memoryview] = []
        self._data: list[memoryview] = []
        self._arrived = 0
        self.failure: PeerError | None = None

    @property
    def finished(self) -> bool:
        self.outgoing()
        return self._exhausted and not self._waiting and not self._outgoing

    def outgoing(self) -> Sequence[memoryview]:
        if not self._outgoing and not self._exhausted and len(self._waiting) < self._window:
            message = next(self._messages, None)
            if message is None:
                self._exhausted = True
            else:
                self._send(message)
        return self._outgoing

    def _send(self, message: Message) -> None:
        data = list(message.data()) if message.data is not None else []
        size = sum(map(len, data))
        check = wire.data_checksum(data) if size and self._check else None
        self._outgoing.append(
            memoryview(wire.encode_header(message.kind, self.next_sequence, message.body, size, check))
        )
        self._outgoing.extend(data)
        self._waiting.append((self.next_sequence, message))
        self.next_sequence = (self.next_sequence + 1) & 0xFFFFFFFF
        self._counters.messages += 1

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
        if self._header is None:
            return (self._head[self._arrived :],)
        return self._places

    def received(self, count: int) -> None:
        """Take `count` more bytes; raises `ProtocolError`."""
        try:
            self._take(count)
        except Malformed as fault:
            self._counters.rejected += 1
            raise ProtocolError(self._host, f"its answer was rejected: {fault}") from fault

    def _take(self, count: int) -> None:
        if self._header is None:
            self._arrived += count
            if self._arrived < wire.HEADER_BYTES:
                return
            self._arrived = 0
            self._header = wire.decode_header(self._head, wire.LARGEST_LIMIT)
            if self._header.sequence != (self._waiting[0][0] if self._waiting else None) and (
                self._header.kind != Kind.REFUSED
            ):
                raise Malformed(f"an answer to message {self._header.sequence}, which is not awaited", fatal=True)
            if self._header.body_bytes > wire.LARGEST_LIMIT // 16:
                raise Malformed("a body larger than any answer's", fatal=True)
            self._body = memoryview(bytearray(self._header.body_bytes))
            self._data = []
            self._places = [self._body] if len(self._body) else []
            if not self._places:
                self._body_arrived(self._header)
            return
        while count:
            first = self._places[0]
            if count < len(first):
                self._places[0] = first[count:]
                return
            count -= len(first)
            self._places.pop(0)
        if self._places:
            return
        if self._data or not self._header.data_bytes:
            self._finish(self._header)
        else:
            self._body_arrived(self._header)

    def _body_arrived(self, header: Header) -> None:
        wire.check_body(header, self._body)
        if not header.data_bytes:
            self._finish(header)
            return
        message = self._waiting[0][1] if self._waiting else None
        if header.kind != Kind.DONE or message is None or message.places is None:
            raise Malformed("data where none are awaited", fatal=True)
        self._data = list(message.places(self._body, header.data_bytes))
        if sum(map(len, self._data)) != header.data_bytes:
            raise Malformed(f"{header.data_bytes} bytes of data where others are awaited", fatal=True)
        self._places = list(self._data)

    def _finish(self, header: Header) -> None:
        if self._data:
            wire.check_data(header, self._data)
        self._header = None
        if header.kind == Kind.REFUSED:
            self._counters.rejected += 1
            text = bytes(self._body).decode("utf-8", "replace")
            raise ProtocolError(self._host, f"it refused a message: {text}")
        _, message = self._waiting.popleft()
        if header.kind == Kind.FAILED:
            self._failed(message)
        elif header.kind != Kind.DONE:
            raise Malformed(f"an answer of kind {header.kind}", fatal=True)
        elif message.finish is not None:
            message.finish(self._body)

    def _failed(self, message: Message) -> None:
        if len(self._body) != wire.FAILURE.size:
            raise Malformed("a failure that says nothing", fatal=True)
        errno, call, handle, _ = wire.FAILURE.unpack(self._body)
        if call >= len(CALLS):
            raise Malformed(f"a failure of the unknown call {call}", fatal=True)
        if self.failure is None:
            self.failure = RemoteFailure(self._host, CALLS[call], errno, message.path(handle))


__all__ = ["Exchange", "Message"]
