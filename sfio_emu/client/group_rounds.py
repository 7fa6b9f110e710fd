"""What the processes of one program say to act together, as frames of a stream.

Theory of operation. Each process (rank) has one stream to a coordinator: rank 0, or the program that started them all.

1. A rank sends HELLO with the size of the group and how long it waits for the others. When all have, each gets WELCOME.
2. A collective call is a round. Each rank sends BARRIER or GATHER with its item; when the items of all ranks are there
   each gets all of them, one GATHERED a rank, in their order. Nobody begins a round before it has the last one whole.
3. Outside of rounds a rank sends ADD with an amount and the name of a counter; ADDED says what the counter was before.
4. A rank that has finished sends LEAVE.

Whatever prevents a round from being completed (a lost connection, a rank that has left, another call, a rank that did
not join in time) ends the group: every rank gets FAILED with the reason and the rank to blame, and every later call
raises it again.
"""

import struct
from enum import IntEnum
from typing import NamedTuple

from sfio_emu.errors import PeerError, whole_number

MAGIC = b"SFG2"
HEADER = struct.Struct("!4sBiQ")  # magic, kind, rank (-1: none), payload bytes
HELLO = struct.Struct("!IQ")  # size of the group, milliseconds this rank gives the others to join
AMOUNT = struct.Struct("!q")
MAX_ITEM_BYTES = 256 << 20
MAX_RANKS = 1 << 16


class GroupError(PeerError):
    """The group of processes cannot act together any more; `rank` is the one to blame where one is known."""

    def __init__(self, message: str, rank: int | None = None) -> None:
        super().__init__("process group", message)
        self.rank = rank


class Kind(IntEnum):
    """What a frame says. Ranks send the first five, the coordinator the others."""

    HELLO = 1
    BARRIER = 2
    GATHER = 3
    LEAVE = 4
    ADD = 5
    WELCOME = 6
    GATHERED = 7
    FAILED = 8
    ADDED = 9


class Frame(NamedTuple):
    """One message of the group's protocol."""

    kind: Kind
    rank: int
    payload: bytes = b""

    def encode(self) -> bytes:
        return HEADER.pack(MAGIC, self.kind, self.rank, len(self.payload)) + self.payload


def decode_head(head: bytes) -> tuple[Kind, int, int]:
    """Kind, rank and bytes of the payload that follows. Raises GroupError for bytes that are not this protocol's."""
    magic, kind, rank, length = HEADER.unpack(head)
    if magic != MAGIC or kind not in Kind.__members__.values():
        raise GroupError(f"not a message of a process group: begins with {head[:8].hex()}")
    if length > MAX_ITEM_BYTES:
        raise GroupError(f"a message of {length} bytes is above the {MAX_ITEM_BYTES} bytes allowed")
    return Kind(kind), rank, length


def failure(message: str, rank: int | None) -> Frame:
    """The frame that says to a rank why the group is over."""
    return Frame(Kind.FAILED, -1 if rank is None else rank, message.encode())


def check_membership(rank: int, size: int) -> None:
    """Raises UsageError unless 0 <= rank < size."""
    size = whole_number(size, "size of the group", 1, MAX_RANKS)
    whole_number(rank, f"rank in a group of {size}", 0, size - 1)
