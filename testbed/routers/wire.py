"""The frames between two software routers: data, credits, and NAC's two control packets.

Every frame has this layout after the Ethernet header of 14 bytes (type 0x88B5, reserved by IEEE for
local experiments), in big endian:

    kind (1 byte) | body

    data            source (2), destination (2), number (4), hops (2), generated at (8, ns),
                    CRC-32 of payload (4), payload
    credit          empty: a slot of the input buffer at the other end of the cable became free
    identification  router (2), input (1) and output (2) to identify,
                    then router (2), input (1), ...: the path so far
    recovery        router (2), input (1): 0; position in the cycle (2);
                    then router (2), input (1), ...: the cycle; includes the freed slot's credit
"""

import struct
import zlib
from dataclasses import dataclass

ETHERTYPE = 0x88B5
ETHERNET_BYTES = 14
# Kinds of frames.
DATA = 1
CREDIT = 2
IDENTIFICATION = 3
RECOVERY = 4
# The fields before a frame's payload or path, including its kind.
_DATA = struct.Struct("!BHHIHQI")
_CONTROL = struct.Struct("!BHBH")
_INPUT = struct.Struct("!HB")
CREDIT_FRAME = bytes((CREDIT,))

# An input: the number of its router, and the number of its port.
Input = tuple[int, int]
Cycle = tuple[Input, ...]


class WireError(ValueError):
    """A frame is invalid. The text says which frame, and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class DataPacket:
    """A message of a host.

    Attributes:
        source: Router of the source host.
        destination: Router of the destination host.
        number: Sequence number among the messages of this source and destination, from 0.
        made_ns: When the host generated it, in nanoseconds after the start of the run.
        payload: The content.
        hops: Number of cables crossed so far.
    """

    source: int
    destination: int
    number: int
    made_ns: int
    payload: bytes
    hops: int = 0

    def encode(self) -> bytes:
        """Return the bytes of the frame. Its number of hops includes the cable it is sent over."""
        check = zlib.crc32(self.payload)
        head = _DATA.pack(
            DATA, self.source, self.destination, self.number, self.hops + 1, self.made_ns, check
        )
        return head + self.payload


@dataclass(frozen=True, slots=True)
class Identification:
    """A packet that finds out whether a blocked input is on a cycle of full buffers.

    Attributes:
        origin: The blocked input.
        out: The port that the head of this input requests.
        path: The inputs that the packet has passed.
    """

    origin: Input
    out: int
    path: Cycle

    def encode(self) -> bytes:
        """Return the bytes of the frame."""
        return _CONTROL.pack(IDENTIFICATION, *self.origin, self.out) + _encode_path(self.path)


@dataclass(frozen=True, slots=True)
class Recovery:
    """A signal that a move has freed a slot on a cycle.

    Attributes:
        path: The inputs of the cycle.
        place: Index, in the path, of the input that the signal is for. It equals the length of the
            path when the signal has gone round the cycle.
    """

    path: Cycle
    place: int

    def encode(self) -> bytes:
        """Return the bytes of the frame."""
        return _CONTROL.pack(RECOVERY, 0, 0, self.place) + _encode_path(self.path)


def _encode_path(path: Cycle) -> bytes:
    return b"".join(_INPUT.pack(router, port) for router, port in path)


# The content of a frame; None is a credit.
Message = DataPacket | Identification | Recovery | None


def decode(frame: bytes) -> Message:
    """Decode a frame, given as the bytes after its Ethernet header.

    Raises:
        WireError: The frame is empty or ends early, its kind is unknown, or its payload is
            corrupted.

    >>> decode(CREDIT_FRAME) is None
    True
    >>> decode(Recovery(path=((3, 0), (2, 1)), place=1).encode())
    Recovery(path=((3, 0), (2, 1)), place=1)
    """
    if not frame:
        raise WireError("an empty frame")
    kind = frame[0]
    try:
        if kind == CREDIT:
            return None
        if kind == DATA:
            return _decode_data(frame)
        if kind in (IDENTIFICATION, RECOVERY):
            return _decode_control(frame)
    except struct.error as error:
        raise WireError(f"a frame of kind {kind} ends early ({error})") from None
    raise WireError(f"a frame of kind {kind}, which there is not")


def _decode_data(frame: bytes) -> DataPacket:
    _, source, sink, number, hops, made_ns, check = _DATA.unpack_from(frame)
    payload = frame[_DATA.size :]
    if zlib.crc32(payload) != check:
        raise WireError(
            f"the payload of message {number} from {source} to {sink} was changed on its way"
        )
    return DataPacket(source, sink, number, made_ns, payload, hops)


def _decode_control(frame: bytes) -> Identification | Recovery:
    kind, router, port, value = _CONTROL.unpack_from(frame)
    path = tuple((r, p) for r, p in _INPUT.iter_unpack(frame[_CONTROL.size :]))
    if kind == RECOVERY:
        return Recovery(path, value)
    return Identification((router, port), value, path)
