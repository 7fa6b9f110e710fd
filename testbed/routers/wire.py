"""What two software routers say to each other over a cable: data, credits, and NAC's two control packets, as Ethernet
frames.

Every frame has this layout after the Ethernet header of 14 bytes (type 0x88B5, IEEE's for local experiments), big
endian:

    kind (1 byte) | body

    data            source (2), destination (2), number (4), hops (2), made at (8, ns), CRC-32 of payload (4), payload
    credit          nothing: one slot of the input buffer at the other end of the cable is free again
    identification  router (2), input (1), output (2) it is about, then router (2), input (1), ...: its way
    recovery        router (2), input (1): 0; place (2); then router (2), input (1), ...: the cycle; carries the freed
                    slot's credit
"""

import struct
import zlib
from dataclasses import dataclass

ETHERTYPE = 0x88B5
ETHERNET_BYTES = 14
DATA, CREDIT, IDENTIFICATION, RECOVERY = 1, 2, 3, 4
_DATA = struct.Struct("!BHHIHQI")
_CONTROL = struct.Struct("!BHBH")
_INPUT = struct.Struct("!HB")
CREDIT_FRAME = bytes((CREDIT,))

Input = tuple[int, int]
"""A router's number, and the number of its port at which the input is."""
Cycle = tuple[Input, ...]


class WireError(ValueError):
    """A frame that no router sends: which, and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class DataPacket:
    """A message of a host. ``hops``: cables crossed so far; ``made_ns``: when its host made it, on the run's clock."""

    source: int
    destination: int
    number: int
    made_ns: int
    payload: bytes
    hops: int = 0

    def encode(self) -> bytes:
        """The frame's bytes, with one hop more than the packet has now."""
        check = zlib.crc32(self.payload)
        head = _DATA.pack(
            DATA, self.source, self.destination, self.number, self.hops + 1, self.made_ns, check
        )
        return head + self.payload


@dataclass(frozen=True, slots=True)
class Identification:
    """Asks whether the blocked input ``origin``, whose head wants the port ``out``, is on a cycle of full buffers."""

    origin: Input
    out: int
    path: Cycle

    def encode(self) -> bytes:
        """The frame's bytes."""
        return _CONTROL.pack(IDENTIFICATION, *self.origin, self.out) + _encode_path(self.path)


@dataclass(frozen=True, slots=True)
class Recovery:
    """A slot was freed on the cycle ``path`` by a move; ``place``: the next of its inputs."""

    path: Cycle
    place: int

    def encode(self) -> bytes:
        """The frame's bytes."""
        return _CONTROL.pack(RECOVERY, 0, 0, self.place) + _encode_path(self.path)


def _encode_path(path: Cycle) -> bytes:
    return b"".join(_INPUT.pack(*each) for each in path)


Message = DataPacket | Identification | Recovery | None
"""None: a credit."""


def decode(frame: bytes) -> Message:
    """What the bytes after the Ethernet header say. Raises WireError for anything that ``encode`` does not give.

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
            _, source, sink, number, hops, made_ns, check = _DATA.unpack_from(frame)
            if zlib.crc32(payload := frame[_DATA.size :]) != check:
                raise WireError(
                    f"the payload of message {number} from {source} to {sink} was changed on its way"
                )
            return DataPacket(source, sink, number, made_ns, payload, hops)
        if kind in (IDENTIFICATION, RECOVERY):
            _, router, port, value = _CONTROL.unpack_from(frame)
            path = tuple((r, p) for r, p in _INPUT.iter_unpack(frame[_CONTROL.size :]))
            return (
                Recovery(path, value)
                if kind == RECOVERY
                else Identification((router, port), value, path)
            )
    except struct.error as error:
        raise WireError(f"a frame of kind {kind} ends early ({error})") from None
    raise WireError(f"a frame of kind {kind}, which there is not")
