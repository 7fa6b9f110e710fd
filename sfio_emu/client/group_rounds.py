"""What the processes of one program exchange to act together, without sockets: frames, and the coordinator of their
rounds.

Theory of operation. Each process (rank) has one stream to a coordinator: rank 0, or the program that started them all.

1. A rank sends HELLO with the size of the group and how long it waits for the others. When all have, each gets WELCOME.
2. A collective call is a round. Each rank sends BARRIER or GATHER with the number of the round and its item; when the
   items of all ranks are there each gets GATHERED with all items. Rounds are numbered, so that a rank that makes
   another call than the others is noticed instead of misunderstood.
3. A rank that has finished sends LEAVE.

Whatever prevents a round from being completed (a lost connection, a rank that has left, another call, a rank that did
not join in time) ends the group: every rank gets FAILED with the reason and the rank to blame, and every later call
raises it again. Nothing here reads a clock; the caller is given the deadline to join and calls `expire` when it has
passed.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from sfio_emu.errors import PeerError, whole_number

MAGIC = b"SFG1"
HEADER = struct.Struct("!4sBIIQ")  # magic, kind, rank (or size in a welcome), round, payload bytes
HELLO = struct.Struct("!IQ")  # size of the group, milliseconds this rank gives the others to join
LENGTH = struct.Struct("!Q")
AMOUNT = struct.Struct("!q")
MAX_ITEM_BYTES = 256 << 20
MAX_RANKS = 1 << 16


class GroupError(PeerError):
    """The group of processes cannot act together any more; `rank` is the one to blame where one is known."""

    def __init__(self, message: str, rank: int | None = None) -> None:
        super().__init__("process group", message)
        self.rank = rank


class Kind(IntEnum):
    """What a frame says. Ranks send the first four and ADD, the coordinator the others."""

    HELLO = 1
    BARRIER = 2
    GATHER = 3
    LEAVE = 4
    WELCOME = 5
    GATHERED = 6
    FAILED = 7
    ADD = 8  # a rank's, outside of rounds: the amount and the name of a counter
    ADDED = 9  # what the counter was before


NO_RANK = 0xFFFFFFFF


@dataclass(frozen=True, kw_only=True)
class Frame:
    """One message of the group's protocol."""

    kind: Kind
    rank: int
    round: int = 0
    payload: bytes = b""

    def encode(self) -> bytes:
        return HEADER.pack(MAGIC, self.kind, self.rank, self.round, len(self.payload)) + self.payload


class FrameReader:
    """Cuts a byte stream into frames; lengths are checked before anything of that length is kept."""

    def __init__(self, max_payload_bytes: int = MAX_ITEM_BYTES) -> None:
        self._max_payload_bytes = max_payload_bytes
        self._pending = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames completed by `data`. Raises GroupError for bytes that are not this protocol's."""
        self._pending += data
        while len(self._pending) >= HEADER.size:
            magic, kind, rank, round_number, length = HEADER.unpack_from(self._pending)
            if magic != MAGIC or kind not in Kind.__members__.values():
                raise GroupError(f"not a message of a process group: begins with {bytes(self._pending[:8]).hex()}")
            if length > self._max_payload_bytes:
                raise GroupError(f"a message of {length} bytes is above the {self._max_payload_bytes} bytes allowed")
            end = HEADER.size + length
            if len(self._pending) < end:
                return
            payload = bytes(memoryview(self._pending)[HEADER.size : end])
            del self._pending[:end]
            yield Frame(kind=Kind(kind), rank=rank, round=round_number, payload=payload)


def pack_items(items: list[bytes]) -> bytes:
    """The items of a complete round as one payload: each behind its length."""
    return b"".join(LENGTH.pack(len(item)) + item for item in items)


def unpack_items(payload: bytes, count: int) -> list[bytes]:
    """The `count` items of a payload made by pack_items. Raises GroupError where the lengths do not add up."""
    items = []
    at = 0
    for _ in range(count):
        if at + LENGTH.size > len(payload):
            raise GroupError(f"a round with fewer than {count} items received from the coordinator")
        (length,) = LENGTH.unpack_from(payload, at)
        at += LENGTH.size
        if at + length > len(payload):
            raise GroupError("an item longer than its message received from the coordinator")
        items.append(payload[at : at + length])
        at += length
    if at != len(payload):
        raise GroupError(f"{len(payload) - at} bytes behind the items received from the coordinator")
    return items


def failure(message: str, rank: int | None) -> Frame:
    """The frame that says to a rank why the group is over."""
    return Frame(kind=Kind.FAILED, rank=NO_RANK if rank is None else rank, payload=message.encode())


def failure_error(frame: Frame) -> GroupError:
    """The error a rank raises for a failure frame."""
    rank = None if frame.rank == NO_RANK else frame.rank
    return GroupError(frame.payload.decode(errors="replace"), rank)


def check_membership(rank: int, size: int) -> None:
    """Raises UsageError unless 0 <= rank < size."""
    size = whole_number(size, "size of the group", 1, MAX_RANKS)
    whole_number(rank, f"rank in a group of {size}", 0, size - 1)


class Coordinator:
    """Decides what is sent to whom. Members are known by a `key` of the caller's (a connection's number), later by
    rank.

    Every method gives the frames to send as (key, Frame); nothing is sent here and no clock is read.
    """

    def __init__(self, size: int) -> None:
        check_membership(0, size)
        self.size = size
        self._keys: dict[int, int] = {}  # rank -> key
        self._ranks: dict[int, int] = {}  # key -> rank
        self._left: set[int] = set()
        self._round = 0
        self._items: dict[int, Frame] = {}
        self._counters: dict[bytes, int] = {}
        self._failed: Frame | None = None
        self._deadline_s: float | None = None

    @property
    def assembled(self) -> bool:
        """Whether every rank has joined."""
        return len(self._keys) == self.size

    @property
    def deadline_s(self) -> float | None:
        """When `expire` must be called, in the caller's clock; None when nothing is awaited."""
        return None if self.assembled or self._failed else self._deadline_s

    @property
    def over(self) -> bool:
        """Whether the group has failed or all its ranks have left."""
        return self._failed is not None or (self.assembled and len(self._left) == self.size)

    @property
    def failed_rank(self) -> int | None:
        """The rank that broke the group; None where none did."""
        return None if self._failed is None or self._failed.rank == NO_RANK else self._failed.rank

    def receive(self, key: int, frame: Frame, now_s: float) -> list[tuple[int, Frame]]:
        """A frame came from the member `key`."""
        if self._failed is not None:
            return [(key, self._failed)]
        if frame.kind is Kind.HELLO:
            return self._join(key, frame, now_s)
        rank = self._ranks.get(key)
        if rank is None:
            return [(key, failure("a message came before the hello", None))]
        if frame.kind is Kind.LEAVE:
            self._left.add(rank)
            return self._fail(self._gone_message(rank), rank) if self._items else []
        if frame.kind in (Kind.BARRIER, Kind.GATHER):
            return self._give(rank, frame)
        if frame.kind is Kind.ADD:
            return self._add(key, rank, frame)
        return self._fail(f"rank {rank} sent a {frame.kind.name} that only the coordinator may send", rank)

    def lost(self, key: int) -> list[tuple[int, Frame]]:
        """The connection of `key` ended: a failure of the group, unless its rank had left or never joined."""
        rank = self._ranks.get(key)
        if rank is None or rank in self._left or self._failed is not None:
            return []
        return self._fail(f"rank {rank} of the process group died or was cut off", rank)

    def expire(self) -> list[tuple[int, Frame]]:
        """The time to join is over."""
        missing = [rank for rank in range(self.size) if rank not in self._keys]
        if not missing or self._failed is not None:
            return []
        names = ", ".join(map(str, missing[:8])) + (", ..." if len(missing) > 8 else "")
        return self._fail(f"rank {names} of a group of {self.size} did not join in time", missing[0])

    def stop(self) -> list[tuple[int, Frame]]:
        """The coordinator ends: the ranks that have not left are sent the reason."""
        return (
            []
            if self.over
            else self._fail("the coordinator of the process group (rank 0 or the launcher) has ended", None)
        )

    def _join(self, key: int, frame: Frame, now_s: float) -> list[tuple[int, Frame]]:
        if len(frame.payload) != HELLO.size:
            return [(key, failure("a malformed hello", None))]
        size, patience_ms = HELLO.unpack(frame.payload)
        if size != self.size:
            text = f"rank {frame.rank} says the group has {size} ranks, the coordinator {self.size}"
            return [(key, failure(text, frame.rank))]
        if not 0 <= frame.rank < self.size:
            return [(key, failure(f"rank {frame.rank} is none of 0..{self.size - 1}", frame.rank))]
        if frame.rank in self._keys or key in self._ranks:
            return [(key, failure(f"rank {frame.rank} joined twice", frame.rank))]
        self._keys[frame.rank] = key
        self._ranks[key] = frame.rank
        deadline_s = now_s + patience_ms / 1000
        self._deadline_s = deadline_s if self._deadline_s is None else min(self._deadline_s, deadline_s)
        if not self.assembled:
            return []
        return [(self._keys[rank], Frame(kind=Kind.WELCOME, rank=rank)) for rank in range(self.size)]

    def _give(self, rank: int, frame: Frame) -> list[tuple[int, Frame]]:
        if not self.assembled or frame.round != self._round or rank in self._items:
            return self._fail(f"rank {rank} is in round {frame.round}, the group in round {self._round}", rank)
        first = next(iter(self._items.items()), None)
        if first is not None and first[1].kind is not frame.kind:
            named = {Kind.BARRIER: "barrier", Kind.GATHER: "all_gather"}
            text = f"rank {rank} calls {named[frame.kind]} where rank {first[0]} calls {named[first[1].kind]}"
            return self._fail(text + ": every rank makes the same collective calls in the same order", rank)
        self._items[rank] = frame
        if self._left:
            gone = min(self._left)
            return self._fail(self._gone_message(gone), gone)
        if len(self._items) < self.size:
            return []
        return self._complete()

    def _add(self, key: int, rank: int, frame: Frame) -> list[tuple[int, Frame]]:
        counter = frame.payload[AMOUNT.size :]
        before = self._counters.get(counter, 0)
        after = before + AMOUNT.unpack_from(frame.payload)[0] if len(frame.payload) > AMOUNT.size else 2**63
        if not -(2**63) <= after < 2**63:
            return self._fail(f"rank {rank} sent a malformed addition", rank)
        self._counters[counter] = after
        return [(key, Frame(kind=Kind.ADDED, rank=rank, round=frame.round, payload=AMOUNT.pack(before)))]

    def _complete(self) -> list[tuple[int, Frame]]:
        items = [self._items[rank].payload for rank in range(self.size)]
        answer = Frame(kind=Kind.GATHERED, rank=self.size, round=self._round, payload=pack_items(items))
        self._round += 1
        self._items = {}
        return [(self._keys[rank], answer) for rank in range(self.size)]

    def _gone_message(self, rank: int) -> str:
        return f"rank {rank} left the process group while others wait for it in a collective call"

    def _fail(self, message: str, rank: int | None) -> list[tuple[int, Frame]]:
        self._failed = failure(message, rank)
        return [(key, self._failed) for other, key in sorted(self._keys.items()) if other not in self._left]
