"""The client's side of the protocol, without any I/O: messages out, answers in, one conversation a call and host.
Messages are made when there is room for them, so that only what is under way is held in memory."""

import errno as numbers
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from xxhash import xxh3_64_intdigest

from sfio_emu import message_bodies, wire
from sfio_emu.errors import PeerError, ProtocolError, RemoteFailure, StaleFileError
from sfio_emu.layout.piece import Bytes
from sfio_emu.ports import Connection
from sfio_emu.settings import ALL_CALLS, Settings, TransferCounters
from sfio_emu.wire import Header, Kind, Malformed

MAX_SMALL_BYTES = 16 << 10
MIN_ROOM_BYTES = 512
Slice = Sequence[memoryview]
OpenKey = tuple[str, bool, int, int]


@dataclass(kw_only=True)
class Link:
    """The number of the next message, what a message may hold, the machine the listener says it runs on, the handles
    and users of open subfiles by key (as of `OpenSubfile`)."""

    connection: Connection
    next_sequence: int = 1
    limit_bytes: int = wire.MIN_LIMIT
    machine: bytes = b""
    handles: dict[OpenKey, int] = field(default_factory=dict)
    users: dict[OpenKey, int] = field(default_factory=dict)
    _stage: Bytes = field(default_factory=lambda: np.empty(0, dtype=np.uint8))

    def stage(self, size: int) -> Bytes:
        """Memory for gathering and scattering the messages of one conversation, used again."""
        if len(self._stage) < size:
            self._stage = np.empty(size, dtype=np.uint8)
        return self._stage[:size]

    def path_of(self, handle: int) -> str:
        """The subfile of a handle, for an error."""
        return next(
            (path for (path, *_), known in self.handles.items() if known == handle), "its subfiles"
        )


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


def failure_in(
    host: str,
    header: Header,
    body: memoryview,
    path: Callable[[int], str],
    counters: TransferCounters,
) -> RemoteFailure | None:
    """What an answer of the kind FAILED says, None where it is DONE; raises `ProtocolError` where it is REFUSED, which
    is counted, and `Malformed`."""
    if header.kind == Kind.DONE:
        return None
    if header.kind == Kind.REFUSED:
        counters.rejected += 1
        raise ProtocolError(host, f"it refused a message: {bytes(body).decode('utf-8', 'replace')}")
    if header.kind != Kind.FAILED:
        raise Malformed(f"an answer of kind {header.kind}", fatal=True)
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
        self,
        host: str,
        link: Link,
        messages: Iterator[Message],
        *,
        settings: Settings,
        counters: TransferCounters,
    ) -> None:
        self._host, self._link, self._messages = host, link, messages
        self._window, self._check, self._check_reads = (
            settings.in_flight,
            settings.check_data,
            settings.check_reads,
        )
        self.next_sequence = link.next_sequence
        self._counters = counters
        self._waiting: deque[tuple[int, Message]] = deque()
        self._exhausted = False
        self._outgoing: deque[memoryview] = deque()
        self._to_send = self._requests()
        self._offered: deque[memoryview] = (
            deque()
        )  # places whose checksum is taken when they are full
        self._sum = wire.Checksum()
        self._awaited = self._answers()
        self._places = deque(next(self._awaited))
        self.failure: PeerError | None = None

    @property
    def finished(self) -> bool:
        return not self.outgoing() and not self._waiting and self._exhausted

    def outgoing(self) -> Sequence[memoryview]:
        if not self._outgoing:
            self._outgoing.extend(next(self._to_send, ()))
        return self._outgoing

    def sent(self, count: int) -> None:
        wire.drop_sent(self._outgoing, count)

    def incoming(self) -> Sequence[memoryview]:
        return self._places

    def received(self, count: int) -> None:
        """Take `count` more bytes; raises `ProtocolError`."""
        places = self._places
        while count:
            size = len(places[0])
            if count < size:
                places[0] = places[0][count:]
                return
            count -= size
            places.popleft()
            if self._offered:  # whole places, while the cache holds them
                self._sum.add(self._offered.popleft())
        try:
            if not places:
                places.extend(next(self._awaited))
        except Malformed as fault:
            self._counters.rejected += 1
            raise ProtocolError(self._host, f"its answer was rejected: {fault}") from fault

    def _requests(self) -> Iterator[Slice]:
        """What is sent, slice by slice; nothing while the window is full."""
        while True:
            while len(self._waiting) >= self._window:
                yield ()
            message = next(self._messages, None)
            if message is None:
                self._exhausted = True
                return
            head = wire.encode_header(
                message.kind, self.next_sequence, message.body, message.data_bytes,
                checked=self._check_reads if message.kind in wire.READS else self._check,
            )  # fmt: skip
            self._waiting.append((self.next_sequence, message))
            self.next_sequence = (self.next_sequence + 1) & 0xFFFFFFFF
            self._counters.messages += 1
            due, left, total = [memoryview(head)], message.data_bytes, wire.Checksum()
            for pieces in message.data() if message.data is not None else ():
                due += pieces
                left -= sum(map(len, pieces))
                for piece in pieces if self._check else ():
                    total.add(piece)
                if self._check and not left:  # with the last data, so that they arrive together
                    due.append(memoryview(total.trailer()))
                yield due
                due = []
            if due:
                yield due

    def _answers(self) -> Iterator[Slice]:
        """The places of what arrives; each slice is full when the next is requested."""
        head = memoryview(bytearray(wire.HEADER_BYTES))
        while True:
            yield [head]
            header = wire.decode_header(head, wire.MAX_LIMIT)
            check_sequence(header, self._waiting[0][0] if self._waiting else None)
            if header.body_bytes > wire.MAX_LIMIT // 4:
                raise Malformed("a body larger than any answer's", fatal=True)
            body = memoryview(bytearray(header.body_bytes))
            if len(body):
                yield [body]
            wire.check_body(header, body)
            if header.data_bytes:
                yield from self._data_places(header, body)
            self._finish(header, body)

    def _data_places(self, header: Header, body: memoryview) -> Iterator[Slice]:
        """The places of the data of an answer, behind the last the checksum's."""
        message = self._waiting[0][1] if self._waiting else None
        if header.kind != Kind.DONE or message is None or message.places is None:
            raise Malformed("data where none are awaited", fatal=True)
        left, slices = message.places(body)
        if header.data_bytes != left:
            raise Malformed(
                f"{header.data_bytes} bytes of data where {left} are awaited", fatal=True
            )
        trailer, self._sum = memoryview(bytearray(header.trailer_bytes)), wire.Checksum()
        while left:
            places = next(slices, ())
            if not places:
                raise Malformed("more data than were announced", fatal=True)
            left -= sum(map(len, places))
            if header.checked:
                self._offered.extend(places)
            yield places if left or not header.checked else [*places, trailer]
        if header.checked and bytes(trailer) != self._sum.trailer():
            raise Malformed("the data of a message are corrupted", fatal=True)
        if next(slices, None) is not None:
            raise Malformed("fewer data than were announced", fatal=True)

    def _finish(self, header: Header, body: memoryview) -> None:
        """Hand over an answer that has arrived whole."""

        def path(handle: int) -> str:
            return self._waiting[0][1].path or self._link.path_of(handle)

        failure = failure_in(self._host, header, body, path, self._counters)
        _, message = self._waiting.popleft()
        if failure is not None and message.failed is not None:
            message.failed(failure)
        elif failure is not None:
            self.failure = self.failure or failure
        elif message.finish is not None:
            message.finish(body)


class SmallCall:
    """A read or write so small that the listener of `host` gets one message, sent in one piece, and gives one answer,
    which needs no more than `room_bytes` where it is what was requested.

    Three of four microseconds of the client went into what only long calls need: windows, stages, slices, lists of
    requests. Here a message is made at once and the answer taken from one piece of memory. A `Conversation`.
    `message`: its number, and all of it. `finish(body, data)` is given the answer; an answer that says "failed" is
    kept in `failure`.
    """

    def __init__(
        self, host: str, link: Link, message: tuple[int, bytes], room_bytes: int,
        finish: Callable[[memoryview, memoryview], None], counters: TransferCounters,
    ) -> None:  # fmt: skip
        self._host, self._link, self._finish, self._counters = host, link, finish, counters
        self._sequence, outgoing = message
        self._outgoing = [memoryview(outgoing)]
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
            raise Malformed(
                f"an answer to message {header.sequence}, which is not awaited", fatal=True
            )
        check_sequence(header, self._sequence)
        data_start = wire.HEADER_BYTES + header.body_bytes
        end = wire.HEADER_BYTES + header.total_bytes
        if end > len(inbox):
            self._make_room(end)
        if self._arrived < end:
            return
        body, data = (
            inbox[wire.HEADER_BYTES : data_start],
            inbox[data_start : data_start + header.data_bytes],
        )
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
