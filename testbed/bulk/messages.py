"""Messages on a persistent connection, and the orders and reports of the end-point processes.

A message is a header, the payload, and its checksum. ``MessageReader`` turns bytes into events. A
message counts only if it is complete and its checksum is right.

A run and its end-point processes communicate over a pipe. Each process reports ``Ready`` once, when
its receivers listen or its connections are established. The sending process then executes ``Send``,
and reports ``ConnectionBroke`` if a connection ends too early. A receiving process reports
``MessageDone`` for every message that is complete. ``Count`` is answered by ``Counted``. A process
that cannot continue reports ``AgentFailed``.
"""

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from testbed.bulk.coordinator import Send
from testbed.bulk.plan import Ends
from testbed.errors import InputError, InvalidRunError

# Magic, version, attempt, padding, transfer, length, CRC-32 of the header before it.
_HEADER = struct.Struct("!4sBBHIQI")
# The CRC-32 of the payload.
_TRAILER = struct.Struct("!I")
_MAGIC = b"BULK"
_VERSION = 1
HEADER_BYTES = _HEADER.size
TRAILER_BYTES = _TRAILER.size
OVERHEAD_BYTES = HEADER_BYTES + TRAILER_BYTES
# The header has one byte for the attempt.
MAX_ATTEMPTS = 255
# Distance in bytes between the windows of successive messages (see ``Payloads``). It is a prime,
# so that many messages have different windows.
_WINDOW_STEP = 7919


class MessageError(InvalidRunError):
    """Received bytes are not a message, so the connection cannot be used any longer."""


@dataclass(frozen=True, kw_only=True)
class MessageHeader:
    """The header of a message.

    Attributes:
        transfer: The index of the transfer in the plan.
        attempt: The number of the attempt, from 1 on.
        length: The size of the payload in bytes.
    """

    transfer: int
    attempt: int
    length: int

    def encode(self) -> bytes:
        """Return the bytes of the header, which end with a checksum of it.

        Raises:
            InputError: The attempt is not from 1 to MAX_ATTEMPTS.
        """
        if not 1 <= self.attempt <= MAX_ATTEMPTS:
            raise InputError(
                f"attempt {self.attempt} of transfer {self.transfer}; give 1 to {MAX_ATTEMPTS}"
            )
        header = _HEADER.pack(_MAGIC, _VERSION, self.attempt, 0, self.transfer, self.length, 0)
        fields = header[: -_TRAILER.size]
        return fields + _TRAILER.pack(zlib.crc32(fields))

    @staticmethod
    def decode(data: bytes) -> "MessageHeader":
        """Decode the bytes of a header.

        Raises:
            MessageError: ``encode`` did not write these bytes.
        """
        magic, version, attempt, _, transfer, length, checksum = _HEADER.unpack(data)
        if magic != _MAGIC or version != _VERSION or zlib.crc32(data[:-4]) != checksum:
            raise MessageError(f"{data[:8].hex()}... is not the header of a message")
        return MessageHeader(transfer=transfer, attempt=attempt, length=length)


def trailer(checksum: int) -> bytes:
    """Return the bytes that follow the payload: its CRC-32."""
    return _TRAILER.pack(checksum)


@dataclass(frozen=True, kw_only=True)
class MessageStarted:
    """A header has arrived."""

    header: MessageHeader


@dataclass(frozen=True, kw_only=True)
class PayloadPart:
    """A part of a payload has arrived.

    Attributes:
        header: The header of the message.
        payload: A view of the received bytes, valid until the next call of the reader.
    """

    header: MessageHeader
    payload: memoryview


@dataclass(frozen=True, kw_only=True)
class MessageArrived:
    """A complete message has arrived.

    Attributes:
        header: Its header.
        checksum: The CRC-32 of the payload.
        intact: Whether the sender computed the same checksum.
    """

    header: MessageHeader
    checksum: int
    intact: bool


Event = MessageStarted | PayloadPart | MessageArrived


class MessageReader:
    """Decodes the messages of one connection."""

    def __init__(self) -> None:
        # The received part of a header or trailer.
        self._partial = b""
        self._header: MessageHeader | None = None
        self._left_bytes = 0
        self._checksum = 0

    @property
    def unfinished(self) -> MessageHeader | None:
        """The header of the message that has begun and is not complete, or None."""
        return self._header

    def receive(self, data: memoryview) -> Iterator[Event]:
        """Yield the events of received bytes, in order.

        Raises:
            MessageError: The bytes are not a message.
        """
        while data:
            if self._header is None:
                data = self._gather(data, HEADER_BYTES)
                if len(self._partial) == HEADER_BYTES:
                    self._header = MessageHeader.decode(self._partial)
                    self._partial = b""
                    self._left_bytes = self._header.length
                    self._checksum = 0
                    yield MessageStarted(header=self._header)
            elif self._left_bytes:
                part = data[: self._left_bytes]
                data = data[self._left_bytes :]
                self._left_bytes -= len(part)
                self._checksum = zlib.crc32(part, self._checksum)
                yield PayloadPart(header=self._header, payload=part)
            else:
                data = self._gather(data, TRAILER_BYTES)
                if len(self._partial) == TRAILER_BYTES:
                    (sent_checksum,) = _TRAILER.unpack(self._partial)
                    header = self._header
                    self._header = None
                    self._partial = b""
                    yield MessageArrived(
                        header=header,
                        checksum=self._checksum,
                        intact=sent_checksum == self._checksum,
                    )

    def _gather(self, data: memoryview, required_bytes: int) -> memoryview:
        """Take the bytes that a header or trailer lacks, and return the others."""
        missing_bytes = required_bytes - len(self._partial)
        self._partial += bytes(data[:missing_bytes])
        return data[missing_bytes:]


class Inbox:
    """The messages that receivers have delivered: each once, however often it is sent."""

    def __init__(self, expected: dict[int, int]) -> None:
        """Expect messages.

        Args:
            expected: The checksum of the message of each transfer.
        """
        self._expected = expected
        self._delivered: set[int] = set()

    def take(self, arrived: MessageArrived) -> bool:
        """Deliver a message, unless it is wrong or was delivered before.

        Returns:
            Whether it was delivered.
        """
        number = arrived.header.transfer
        right = arrived.intact and self._expected.get(number) == arrived.checksum
        if not right or number in self._delivered:
            return False
        self._delivered.add(number)
        return True

    def has(self, transfer: int) -> bool:
        """Return whether the transfer's message has been delivered."""
        return transfer in self._delivered


class Payloads:
    """The content of every message: a window of one pseudo-random block.

    The windows begin at different positions, so that the messages of a run differ. Neither end has
    to store a message that it does not need.
    """

    def __init__(self, block: bytes, message_bytes: int) -> None:
        """Set the block.

        Args:
            block: The block. Bytes beyond the size of a message allow different windows.
            message_bytes: The size of a message.

        Raises:
            InputError: The block is shorter than a message.
        """
        if len(block) < message_bytes:
            raise InputError(
                f"a block of {len(block)} bytes is too short for a message of {message_bytes}"
            )
        self._block = memoryview(block)
        self._bytes = message_bytes
        self._windows = len(block) - message_bytes + 1

    def __reduce__(self) -> "tuple[type[Payloads], tuple[bytes, int]]":
        return Payloads, (bytes(self._block), self._bytes)

    def payload(self, transfer: int) -> memoryview:
        """Return the bytes of the transfer's message."""
        start = transfer * _WINDOW_STEP % self._windows
        return self._block[start : start + self._bytes]

    def checksum(self, transfer: int) -> int:
        """Return the CRC-32 of the payload."""
        return zlib.crc32(self.payload(transfer))


@dataclass(frozen=True, kw_only=True)
class Pacing:
    """The rates that a connection does not exceed.

    A sender that is faster than its circuit would fill a queue, and delay acknowledgements beyond
    TCP's time-out.

    Attributes:
        first_bps: The rate of the first attempt.
        again_bps: The rate of later attempts, which may have to take the alternative path.
    """

    first_bps: float
    again_bps: float


@dataclass(frozen=True, kw_only=True)
class MessageSet:
    """Every message that may be sent in a run.

    Attributes:
        ends: The hosts and the part of each message.
        payloads: The content of each message.
        message_bytes: The size of a message.
        pacing: The rates of connections. The kernel decides the rates of the others.
        store: The directory in which the first ``stored`` messages are stored, or None.
        stored: The number of these messages.
    """

    ends: tuple[Ends, ...]
    payloads: Payloads
    message_bytes: int
    pacing: Mapping[Ends, Pacing] = field(default_factory=dict)
    store: Path | None = None
    stored: int = 0


@dataclass(frozen=True, kw_only=True)
class Count:
    """The order to report counts.

    A sending process reports the retransmissions of TCP, and a receiving process the deliveries of
    each message.
    """


@dataclass(frozen=True, kw_only=True)
class Ready:
    """Every receiver of the process listens, or every connection of its senders is established."""


@dataclass(frozen=True, kw_only=True)
class MessageDone:
    """All bytes of a message have arrived.

    Attributes:
        transfer: The transfer.
        attempt: The attempt.
        intact: Whether the checksum is right.
        at_s: The arrival on the monotonic clock.
    """

    transfer: int
    attempt: int
    intact: bool
    at_s: float


@dataclass(frozen=True, kw_only=True)
class ConnectionBroke:
    """A connection ended while this message was being sent."""

    transfer: int
    attempt: int


@dataclass(frozen=True, kw_only=True)
class Counted:
    """The counts of a process.

    Attributes:
        counts: A receiving process has an entry for each message: the transfer, and how often it
            was delivered. A sending process has an entry for each connection: the first transfer
            that uses it, then the bytes, packets and time-outs of TCP's retransmissions since the
            connection was established.
    """

    counts: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, kw_only=True)
class AgentFailed:
    """The process cannot continue."""

    reason: str


Order = Send | Count
Report = Ready | MessageDone | ConnectionBroke | Counted | AgentFailed
