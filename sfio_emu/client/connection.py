"""The client's side of the protocol with one listener, without any I/O.

Messages go out and answers come in, in one conversation per call and host. A message is created
when the window has room for it, so that memory holds only the messages in transit.
"""

import errno as error_numbers
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

# The largest block that is read or written by a `SmallCall`.
MAX_SMALL_BYTES = 16 << 10

# The least memory for the answer to a small call. Answers that report an error also fit into it.
MIN_ROOM_BYTES = 512

# Memory that is sent, or filled, before the next slice is requested.
Slice = Sequence[memoryview]

# The key of an open subfile: path, read-only, inode number, identity (`OpenSubfile.key`).
OpenKey = tuple[str, bool, int, int]


@dataclass(kw_only=True)
class Link:
    """The state of the connection to one listener.

    Attributes:
        connection: The byte stream.
        next_sequence: The number of the next message.
        limit_bytes: The size of the largest message that the listener accepts.
        machine: 16 bytes that identify the machine on which the listener runs.
        handles: The handle of each open subfile.
        users: The number of files that use each open subfile.
    """

    connection: Connection
    next_sequence: int = 1
    limit_bytes: int = wire.MIN_LIMIT
    machine: bytes = b""
    handles: dict[OpenKey, int] = field(default_factory=dict)
    users: dict[OpenKey, int] = field(default_factory=dict)
    _stage: Bytes = field(default_factory=lambda: np.empty(0, dtype=np.uint8))

    def stage(self, size: int) -> Bytes:
        """Return `size` bytes of memory for gathering and scattering data.

        The same memory is returned every time, for use within one slice of a message.
        """
        if len(self._stage) < size:
            self._stage = np.empty(size, dtype=np.uint8)
        return self._stage[:size]

    def path_of(self, handle: int) -> str:
        """Return the path of the subfile with this handle, for an error message."""
        for (path, *_), subfile_handle in self.handles.items():
            if subfile_handle == handle:
                return path
        return "its subfiles"


class Message(NamedTuple):
    """A message, and what to do with its answer.

    Attributes:
        kind: The kind of message.
        body: The body.
        data: Yields the data to send in slices. Each slice is requested when the one before has
            been sent.
        data_bytes: The size of the data.
        places: Takes the body of the answer, and returns the expected size of its data and slices
            of memory for them. Each slice is requested when the one before is full.
        finish: Takes the body of a successful answer after all of it has arrived.
        failed: Takes the failure that the answer reports. If it is None, the call fails.
        path: The path of the subfile that the message is about, for errors; empty if there are
            several.
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
    """Check that an answer is the one to the oldest unanswered message.

    Args:
        header: The header of the answer.
        awaited: The number of that message; None if there is none.

    Raises:
        Malformed: The answer has another number. A refusal may have any number, because the
            listener refuses an invalid header without knowing its number.
    """
    if header.sequence != awaited and header.kind != Kind.REFUSED:
        raise Malformed(f"unexpected answer to message {header.sequence}", fatal=True)


def failure_in(
    host: str,
    header: Header,
    body: memoryview,
    path: Callable[[int], str],
    counters: TransferCounters,
) -> RemoteFailure | None:
    """Return the failure that an answer reports, or None if the request was carried out.

    Args:
        host: The name of the I/O node.
        header: The header of the answer.
        body: The body of the answer.
        path: Returns the path of a subfile by its handle.
        counters: Where refused messages are counted.

    Raises:
        ProtocolError: The listener refused the message.
        Malformed: The answer is invalid.
    """
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
    if errno == error_numbers.ESTALE:
        return StaleFileError(host, path(handle))
    return RemoteFailure(host, ALL_CALLS[call], errno, path(handle), done_bytes)


class Exchange:
    """The messages of one call to one host; a `Conversation`.

    As many messages as `settings` allow are sent before the first is answered. If an answer reports
    a failure, the other messages are still sent. An answer that breaks the protocol makes
    `received` raise `ProtocolError`; the connection cannot be used any more.

    Attributes:
        next_sequence: The number of the next message.
        failure: The first failure that an answer reported, or None.
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
        self._host = host
        self._link = link
        self._messages = messages
        self._window = settings.in_flight
        self._check = settings.check_data
        self._check_reads = settings.check_reads
        self._counters = counters
        self.next_sequence = link.next_sequence
        self.failure: PeerError | None = None

        # Unanswered messages with their numbers, the oldest first.
        self._unanswered: deque[tuple[int, Message]] = deque()
        self._exhausted = False
        self._outgoing: deque[memoryview] = deque()
        self._request_slices = self._requests()

        # Memory whose bytes are added to the checksum when it is full.
        self._unsummed: deque[memoryview] = deque()
        self._sum = wire.Checksum()
        self._answer_slices = self._answers()
        self._incoming = deque(next(self._answer_slices))

    @property
    def finished(self) -> bool:
        """True if all messages are answered."""
        return not self.outgoing() and not self._unanswered and self._exhausted

    def outgoing(self) -> Sequence[memoryview]:
        """Return the bytes to send next; empty while the window is full."""
        if not self._outgoing:
            self._outgoing.extend(next(self._request_slices, ()))
        return self._outgoing

    def sent(self, count: int) -> None:
        """Record that `count` bytes were sent."""
        wire.drop_sent(self._outgoing, count)

    def incoming(self) -> Sequence[memoryview]:
        """Return the memory for the next bytes."""
        return self._incoming

    def received(self, count: int) -> None:
        """Process `count` more bytes, or raise `ProtocolError`."""
        incoming = self._incoming
        while count:
            size = len(incoming[0])
            if count < size:
                incoming[0] = incoming[0][count:]
                return
            count -= size
            incoming.popleft()
            if self._unsummed:
                # The checksum is computed while the processor's cache still has the bytes.
                self._sum.add(self._unsummed.popleft())
        try:
            if not incoming:
                incoming.extend(next(self._answer_slices))
        except Malformed as fault:
            self._counters.rejected += 1
            raise ProtocolError(self._host, f"its answer was rejected: {fault}") from fault

    def _requests(self) -> Iterator[Slice]:
        """Yield what to send in slices; an empty slice while the window is full."""
        while True:
            while len(self._unanswered) >= self._window:
                yield ()
            message = next(self._messages, None)
            if message is None:
                self._exhausted = True
                return
            head = wire.encode_header(
                message.kind,
                self.next_sequence,
                message.body,
                message.data_bytes,
                checked=self._check_reads if message.kind in wire.READS else self._check,
            )
            self._unanswered.append((self.next_sequence, message))
            self.next_sequence = (self.next_sequence + 1) & 0xFFFFFFFF
            self._counters.messages += 1
            if message.data is None:
                yield [memoryview(head)]
            else:
                yield from self._with_data(head, message.data(), message.data_bytes)

    def _with_data(self, head: bytes, slices: Iterator[Slice], size: int) -> Iterator[Slice]:
        """Yield a message with data in slices.

        Args:
            head: The encoded header and body.
            slices: The data.
            size: The size of the data in bytes.
        """
        next_slice = [memoryview(head)]
        left = size
        total = wire.Checksum()
        for pieces in slices:
            next_slice += pieces
            left -= sum(map(len, pieces))
            if self._check:
                for piece in pieces:
                    total.add(piece)
                if not left:
                    # The checksum is sent with the last data, so that it arrives with them.
                    next_slice.append(memoryview(total.trailer()))
            yield next_slice
            next_slice = []
        if next_slice:
            yield next_slice

    def _answers(self) -> Iterator[Slice]:
        """Yield memory for what arrives; each slice is full when the next is requested."""
        head = memoryview(bytearray(wire.HEADER_BYTES))
        while True:
            yield [head]
            header = wire.decode_header(head, wire.MAX_LIMIT)
            check_sequence(header, self._unanswered[0][0] if self._unanswered else None)
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
        """Yield memory for the data of an answer and for their checksum."""
        message = self._unanswered[0][1] if self._unanswered else None
        if header.kind != Kind.DONE or message is None or message.places is None:
            raise Malformed("data where none are expected", fatal=True)
        left, slices = message.places(body)
        if header.data_bytes != left:
            raise Malformed(
                f"{header.data_bytes} bytes of data where {left} are expected", fatal=True
            )
        trailer = memoryview(bytearray(header.trailer_bytes))
        self._sum = wire.Checksum()
        while left:
            places = next(slices, ())
            if not places:
                raise Malformed("more data than were announced", fatal=True)
            left -= sum(map(len, places))
            if header.checked:
                self._unsummed.extend(places)
            yield places if left or not header.checked else [*places, trailer]
        if header.checked and bytes(trailer) != self._sum.trailer():
            raise Malformed("the data of a message are corrupted", fatal=True)
        if next(slices, None) is not None:
            raise Malformed("fewer data than were announced", fatal=True)

    def _finish(self, header: Header, body: memoryview) -> None:
        """Process an answer that has arrived completely."""

        def path(handle: int) -> str:
            return self._unanswered[0][1].path or self._link.path_of(handle)

        failure = failure_in(self._host, header, body, path, self._counters)
        _, message = self._unanswered.popleft()
        if failure is not None and message.failed is not None:
            message.failed(failure)
        elif failure is not None:
            self.failure = self.failure or failure
        elif message.finish is not None:
            message.finish(body)


class SmallRequest(NamedTuple):
    """The message of a small call.

    Attributes:
        sequence: The number of the message.
        message: The encoded message.
        room_bytes: The size of the answer if the request is carried out.
    """

    sequence: int
    message: bytes
    room_bytes: int


class SmallCall:
    """A read or write of a few bytes: one message in one piece, and one answer; a `Conversation`.

    For such a call, three quarters of the client's time would go into windows, slices and lists of
    requests, which only long calls need. Here the message is created at once, and the answer is
    received into one piece of memory.

    Args:
        host: The name of the I/O node.
        link: The connection.
        request: The message.
        finish: Takes body and data of a successful answer.
        counters: Where refused messages are counted.

    Attributes:
        next_sequence: The number of the next message.
        finished: Whether the message is answered.
        failure: The failure that the answer reported, or None.
    """

    def __init__(
        self,
        host: str,
        link: Link,
        request: SmallRequest,
        finish: Callable[[memoryview, memoryview], None],
        counters: TransferCounters,
    ) -> None:
        self._host = host
        self._link = link
        self._sequence = request.sequence
        self._finish = finish
        self._counters = counters
        self._outgoing = [memoryview(request.message)]
        self._inbox = memoryview(bytearray(max(request.room_bytes, MIN_ROOM_BYTES)))
        self._arrived = 0
        self.next_sequence = (self._sequence + 1) & 0xFFFFFFFF
        self.finished = False
        self.failure: PeerError | None = None

    def outgoing(self) -> Sequence[memoryview]:
        """Return the bytes to send."""
        return self._outgoing

    def sent(self, count: int) -> None:
        """Record that `count` bytes were sent."""
        unsent = self._outgoing[0][count:]
        self._outgoing = [unsent] if len(unsent) else []

    def incoming(self) -> Sequence[memoryview]:
        """Return the memory for the next bytes."""
        return (self._inbox[self._arrived :],)

    def received(self, count: int) -> None:
        """Process `count` more bytes, or raise `ProtocolError`."""
        self._arrived += count
        try:
            if self._arrived >= wire.HEADER_BYTES:
                self._take_message()
        except Malformed as fault:
            self._counters.rejected += 1
            raise ProtocolError(self._host, f"its answer was rejected: {fault}") from fault

    def _take_message(self) -> None:
        """Process the answer if it has arrived completely."""
        inbox = self._inbox
        header = wire.decode_header(inbox[: wire.HEADER_BYTES], wire.MAX_LIMIT)
        if self.finished:
            raise Malformed(f"unexpected answer to message {header.sequence}", fatal=True)
        check_sequence(header, self._sequence)
        data_start = wire.HEADER_BYTES + header.body_bytes
        data_end = data_start + header.data_bytes
        end = wire.HEADER_BYTES + header.total_bytes
        if end > len(inbox):
            self._make_room(end)
        if self._arrived < end:
            return
        body = inbox[wire.HEADER_BYTES : data_start]
        data = inbox[data_start:data_end]
        wire.check_body(header, body)
        self.failure = failure_in(self._host, header, body, self._link.path_of, self._counters)
        trailer = inbox[data_end:end]
        if len(trailer) and trailer != wire.TRAILER.pack(xxh3_64_intdigest(data)):
            raise Malformed("the data of a message are corrupted", fatal=True)
        if self.failure is None:
            self._finish(body, data)
        self.finished = True
        if self._arrived > end:
            raise Malformed("more bytes than the expected answer", fatal=True)

    def _make_room(self, size: int) -> None:
        """Enlarge the memory for the answer to `size` bytes."""
        if size > MAX_SMALL_BYTES * 4:
            raise Malformed(f"an answer of {size} bytes to a small call", fatal=True)
        arrived = self._inbox[: self._arrived]
        self._inbox = memoryview(bytearray(size))
        self._inbox[: len(arrived)] = arrived
