"""Messages on a persistent connection: a header, the payload, its checksum; bytes in, events out.

What arrives is believed only when the checksum agrees; a message that breaks off is never called whole.

What a run and its end-point processes say to each other over a pipe is here too, orders one way, reports the other.
Each process reports ``Ready`` once, when its receivers listen or its connections stand. The sending process then takes
``Send`` and reports ``ConnectionBroke`` where a connection ends too early; a receiving process reports
``MessageDone`` for every message that is complete. ``Count`` asks for ``Counted``, and a process that cannot go on
reports ``AgentFailed``.
"""

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from testbed.bulk.coordinator import Send
from testbed.bulk.plan import Ends
from testbed.errors import InputError, InvalidRunError

_HEADER = struct.Struct("!4sBBHIQI")
_TRAILER = struct.Struct("!I")
_MAGIC, _VERSION = b"BULK", 1
HEADER_BYTES, TRAILER_BYTES = _HEADER.size, _TRAILER.size
OVERHEAD_BYTES = HEADER_BYTES + TRAILER_BYTES
MAX_ATTEMPTS = 255


class MessageError(InvalidRunError):
    """What arrived is no message: the connection cannot be used any longer."""


@dataclass(frozen=True, kw_only=True)
class MessageHeader:
    """``transfer``: its number in the plan; ``attempt``: 1 and up; ``length``: bytes of payload."""

    transfer: int
    attempt: int
    length: int

    def encode(self) -> bytes:
        """32 bits of checksum over the header itself come last."""
        if not 1 <= self.attempt <= MAX_ATTEMPTS:
            raise InputError(
                f"attempt {self.attempt} of transfer {self.transfer}; give 1 to {MAX_ATTEMPTS}"
            )
        bare = _HEADER.pack(_MAGIC, _VERSION, self.attempt, 0, self.transfer, self.length, 0)[:-4]
        return bare + _TRAILER.pack(zlib.crc32(bare))

    @staticmethod
    def decode(data: bytes) -> "MessageHeader":
        """MessageError for anything that ``encode`` did not write."""
        magic, version, attempt, _, transfer, length, check = _HEADER.unpack(data)
        if magic != _MAGIC or version != _VERSION or zlib.crc32(data[:-4]) != check:
            raise MessageError(f"{data[:8].hex()}... is not the header of a message")
        return MessageHeader(transfer=transfer, attempt=attempt, length=length)


def trailer(checksum: int) -> bytes:
    """What follows the payload: its CRC-32."""
    return _TRAILER.pack(checksum)


@dataclass(frozen=True, kw_only=True)
class MessageStarted:
    """A header has come."""

    header: MessageHeader


@dataclass(frozen=True, kw_only=True)
class PayloadPart:
    """Some payload; a view of the bytes handed in, good until the next call."""

    header: MessageHeader
    payload: memoryview


@dataclass(frozen=True, kw_only=True)
class MessageArrived:
    """All of it is there; ``intact``: the checksum of what came agrees with the one that was sent."""

    header: MessageHeader
    checksum: int
    intact: bool


Event = MessageStarted | PayloadPart | MessageArrived


class MessageReader:
    """One connection's receiving side."""

    def __init__(self) -> None:
        self._small = b""
        self._header: MessageHeader | None = None
        self._left = 0
        self._checksum = 0

    @property
    def unfinished(self) -> MessageHeader | None:
        """The message that has begun and is not whole yet."""
        return self._header

    def receive(self, data: memoryview) -> Iterator[Event]:
        """Events of these bytes, in order. MessageError where they are no message."""
        while data:
            if self._header is None:
                data = self._gather(data, HEADER_BYTES)
                if len(self._small) == HEADER_BYTES:
                    self._header = MessageHeader.decode(self._small)
                    self._small, self._left, self._checksum = b"", self._header.length, 0
                    yield MessageStarted(header=self._header)
            elif self._left:
                part, data = data[: self._left], data[self._left :]
                self._left -= len(part)
                self._checksum = zlib.crc32(part, self._checksum)
                yield PayloadPart(header=self._header, payload=part)
            else:
                data = self._gather(data, TRAILER_BYTES)
                if len(self._small) == TRAILER_BYTES:
                    (sent,) = _TRAILER.unpack(self._small)
                    header, self._header, self._small = self._header, None, b""
                    yield MessageArrived(
                        header=header, checksum=self._checksum, intact=sent == self._checksum
                    )

    def _gather(self, data: memoryview, required: int) -> memoryview:
        missing = required - len(self._small)
        self._small += bytes(data[:missing])
        return data[missing:]


class Inbox:
    """What one receiver has: each transfer's message at most once, however often it is sent."""

    def __init__(self, expected: dict[int, int]) -> None:
        """``expected``: transfer -> checksum of the message that must come."""
        self._expected = expected
        self._whole: set[int] = set()

    def take(self, arrived: MessageArrived) -> bool:
        """Whether this is the first whole and right message of its transfer: only then it is delivered."""
        number = arrived.header.transfer
        right = arrived.intact and self._expected.get(number) == arrived.checksum
        if not right or number in self._whole:
            return False
        self._whole.add(number)
        return True

    def has(self, transfer: int) -> bool:
        """Whether the transfer's message has been delivered."""
        return transfer in self._whole


class Payloads:
    """The content of every message: a window of one pseudo-random block, at a place of its own.

    So no two messages of a run look alike, and neither end has to hold a message that it does not need.
    """

    def __init__(self, block: bytes, message_bytes: int) -> None:
        """``block``: at least ``message_bytes`` long; what is longer makes room for different windows."""
        if len(block) < message_bytes:
            raise InputError(f"a block of {len(block)} bytes holds no message of {message_bytes}")
        self._block = memoryview(block)
        self._bytes = message_bytes
        self._places = len(block) - message_bytes + 1

    def __reduce__(self) -> "tuple[type[Payloads], tuple[bytes, int]]":
        return Payloads, (bytes(self._block), self._bytes)

    def payload(self, transfer: int) -> memoryview:
        """The bytes of that transfer's message."""
        start = transfer * 7919 % self._places
        return self._block[start : start + self._bytes]

    def checksum(self, transfer: int) -> int:
        """CRC-32 of the payload."""
        return zlib.crc32(self.payload(transfer))


@dataclass(frozen=True, kw_only=True)
class Pacing:
    """The rates that a connection does not exceed.

    A sender that is faster than its circuit would fill a queue, and delay acknowledgements beyond TCP's time-out.

    Attributes:
        first_bps: The rate of the first attempt.
        again_bps: The rate of later attempts, which may have to take the other path.
    """

    first_bps: float
    again_bps: float


@dataclass(frozen=True, kw_only=True)
class MessageSet:
    """Every message that may be sent in a run: ``ends[n]`` are the hosts of message ``n``, and which part it is.

    ``pacing``: the rates of connections; the kernel decides those of others. ``store``: a directory that keeps the first
    ``stored`` messages, None for none.
    """

    ends: tuple[Ends, ...]
    payloads: Payloads
    message_bytes: int
    pacing: Mapping[Ends, Pacing] = field(default_factory=dict)
    store: Path | None = None
    stored: int = 0


@dataclass(frozen=True, kw_only=True)
class Count:
    """Say how much TCP has sent again so far (a sending process), or how often each message has been delivered."""


@dataclass(frozen=True, kw_only=True)
class Ready:
    """Every receiver of this process accepts connections, or every connection of this sender stands."""


@dataclass(frozen=True, kw_only=True)
class MessageDone:
    """All bytes of a message have come, at ``at_s`` on the monotonic clock; ``intact``: its checksum is the right
    one."""

    transfer: int
    attempt: int
    intact: bool
    at_s: float


@dataclass(frozen=True, kw_only=True)
class ConnectionBroke:
    """The connection ended while this message was being sent."""

    transfer: int
    attempt: int


@dataclass(frozen=True, kw_only=True)
class Counted:
    """Of a receiving process (transfer, times that a whole and verified message of it was delivered). Of a sending one
    (transfer, bytes, packets, time-outs): what TCP has sent again since the connection was made, and how often it had
    waited for nothing before; one entry a connection, under the first transfer that uses it."""

    counts: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, kw_only=True)
class AgentFailed:
    """The process cannot go on."""

    reason: str


Order = Send | Count
Report = Ready | MessageDone | ConnectionBroke | Counted | AgentFailed
