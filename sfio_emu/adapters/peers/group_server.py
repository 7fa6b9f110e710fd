"""The coordinator of a group of processes over Unix or TCP sockets, in a thread of its own, and what they say to it as
frames of a stream.

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

import asyncio
import contextlib
import os
import socket
import struct
import threading
from collections import Counter
from collections.abc import Iterable
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

from sfio_emu.adapters.local_users import is_foreign_user
from sfio_emu.adapters.sockets import family_of, watch_peer
from sfio_emu.errors import PeerError, UsageError, whole_number

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


LOSS_NOTICED_S = 2.0  # a peer behind a cut link is given up after this silence
CALLS = {Kind.BARRIER: "barrier", Kind.GATHER: "all_gather"}


def parse_address(address: str) -> tuple[socket.AddressFamily, str | tuple[str, int]]:
    """`unix:/path` or `tcp:host:port`. Raises UsageError."""
    if not isinstance(address, str):
        raise UsageError(
            f"address of the process group is {address!r}: give unix:/path or tcp:host:port"
        )
    scheme, _, rest = address.partition(":")
    if scheme == "unix" and rest:
        return socket.AF_UNIX, rest
    host, _, port = rest.rpartition(":")
    if scheme == "tcp" and host and port.isdecimal() and int(port) < 65536:
        return family_of(host), (host.strip("[]"), int(port))
    raise UsageError(
        f"address of the process group is {address!r}: give unix:/path or tcp:host:port"
    )


def watch_silence(connection: socket.socket) -> None:
    """Let the kernel end a TCP connection whose peer is silent for LOSS_NOTICED_S; Unix sockets end with their
    process."""
    if connection.family != socket.AF_UNIX:
        watch_peer(connection, LOSS_NOTICED_S)


def _bind(address: str) -> socket.socket:
    family, place = parse_address(address)
    if isinstance(place, tuple):
        listening = socket.create_server(place, family=family, backlog=128)
    else:
        listening = socket.socket(family, socket.SOCK_STREAM)
        try:
            listening.bind(place)
        except OSError:
            listening.close()
            raise
        listening.listen(128)
    listening.setblocking(False)
    return listening


class GroupServer(contextlib.AbstractContextManager["GroupServer"]):
    """Coordinates a group of `size` processes at `address`, in a thread of its own from construction to `close`.

    `address` may request any free port (`tcp:127.0.0.1:0`); the property gives the one to hand out. Raises UsageError
    for an address or size that cannot be, GroupError where the address is taken. A context manager.
    """

    def __init__(self, address: str, size: int) -> None:
        check_membership(0, size)
        self.size = size
        self.failed_rank: int | None = None
        """The rank that broke the group; None where none did. For the program that started the processes."""
        self._unix_path: Path | None = None
        try:
            self._listening = _bind(address)
        except OSError as error:
            raise GroupError(
                f"cannot listen for the process group at {address}: {error.strerror}"
            ) from error
        if self._listening.family == socket.AF_UNIX:
            self._unix_path = Path(address.partition(":")[2])
            self.address = address
        else:
            host, port = self._listening.getsockname()[:2]
            self.address = f"tcp:{host}:{port}"
        self._members: dict[int, asyncio.StreamWriter] = {}  # by rank, from HELLO to LEAVE
        self._joined: set[int] = set()
        self._items: dict[int, Frame] = {}  # of the round under way
        self._counters: Counter[bytes] = Counter()
        self._failure: Frame | None = None
        self._process = (
            os.getpid()
        )  # a child of fork has neither the thread nor the right to end the group
        self._closed, self._began = False, threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve()), name="sfio process group", daemon=True
        )
        self._thread.start()
        self._began.wait()

    def close(self) -> None:
        """Send what is still to be sent (for at most 2 s), then end every connection. May be called twice."""
        if self._closed or os.getpid() != self._process:
            return
        self._closed = True
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        if self._unix_path is not None:
            self._unix_path.unlink(missing_ok=True)

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- in the thread of the server ---------------------------------------------------------------------------------

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        start = asyncio.start_unix_server if self._unix_path is not None else asyncio.start_server
        server = await start(self._attend, sock=self._listening)
        self._began.set()
        await self._stop.wait()
        server.close()
        leaving = list(self._members.values())
        if self._failure is None and (self._members or len(self._joined) < self.size):
            self._fail(
                "the coordinator of the process group (rank 0 or the launcher) has ended", None
            )
        if leaving:
            await asyncio.wait(
                [self._loop.create_task(_closed(writer)) for writer in leaving],
                timeout=LOSS_NOTICED_S,
            )
        for writer in leaving:
            writer.transport.abort()

    async def _attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, from its first byte to its last."""
        stream, rank = writer.get_extra_info("socket"), None
        if is_foreign_user(stream):
            writer.close()
            return
        watch_silence(stream)
        with contextlib.suppress(OSError, EOFError, GroupError):  # it ends, or is a stranger's
            while True:
                frame = await _read(reader)
                if self._failure is not None:
                    writer.write(self._failure.encode())
                    break
                if rank is None:
                    if refusal := self._refusal(frame):
                        writer.write(refusal.encode())
                        break
                    rank = self._join(frame, writer)
                else:
                    self._take(rank, frame)
        writer.close()  # when all is sent
        if rank in self._members and self._failure is None:
            self._fail(f"rank {rank} of the process group died or was cut off", rank)

    def _refusal(self, frame: Frame) -> Frame | None:
        """Why nobody joins by this frame; None where it is right."""
        if frame.kind is not Kind.HELLO:
            return failure("a message came before the hello", None)
        if len(frame.payload) != HELLO.size:
            return failure("a malformed hello", None)
        size, rank = HELLO.unpack(frame.payload)[0], frame.rank
        if size != self.size:
            return failure(
                f"rank {rank} says the group has {size} ranks, the coordinator {self.size}", rank
            )
        if not 0 <= rank < self.size:
            return failure(f"rank {rank} is none of 0..{self.size - 1}", rank)
        return failure(f"rank {rank} joined twice", rank) if rank in self._joined else None

    def _join(self, frame: Frame, writer: asyncio.StreamWriter) -> int:
        self._members[frame.rank] = writer
        self._joined.add(frame.rank)
        self._loop.call_later(HELLO.unpack(frame.payload)[1] / 1000, self._expire)
        if len(self._joined) == self.size:
            self._post(Frame(Kind.WELCOME, rank) for rank in range(self.size))
        return frame.rank

    def _expire(self) -> None:
        """The time that a rank gives the others to join is over."""
        missing = [rank for rank in range(self.size) if rank not in self._joined]
        if missing and self._failure is None:
            names = ", ".join(map(str, missing[:8])) + (", ..." if len(missing) > 8 else "")
            self._fail(f"rank {names} of a group of {self.size} did not join in time", missing[0])

    def _take(self, rank: int, frame: Frame) -> None:
        """What a rank that has joined sends."""
        if frame.kind in CALLS:
            self._give(rank, frame)
        elif frame.kind is Kind.ADD:
            self._add(rank, frame.payload)
        elif frame.kind is Kind.LEAVE:
            del self._members[rank]
            self._check_left()
        else:
            self._fail(f"rank {rank} sent a {frame.kind.name} that it may not send", rank)

    def _give(self, rank: int, frame: Frame) -> None:
        first, kind = next(
            ((other, item.kind) for other, item in self._items.items()), (rank, frame.kind)
        )
        if len(self._joined) < self.size or rank in self._items:
            self._fail(f"rank {rank} makes a collective call out of turn", rank)
        elif kind is not frame.kind:
            text = f"rank {rank} calls {CALLS[frame.kind]} where rank {first} calls {CALLS[kind]}"
            self._fail(
                f"{text}: every rank makes the same collective calls in the same order", rank
            )
        else:
            self._items[rank] = frame
            self._check_left()
        if len(self._items) == self.size and self._failure is None:
            items, self._items = self._items, {}
            whole = b"".join(
                Frame(Kind.GATHERED, rank, items[rank].payload).encode()
                for rank in range(self.size)
            )
            for writer in self._members.values():
                writer.write(whole)

    def _check_left(self) -> None:
        """Nobody waits for a rank that has left."""
        gone = self._joined - self._members.keys()
        if self._items and gone:
            text = f"rank {min(gone)} left the process group while others wait for it in a collective call"
            self._fail(text, min(gone))

    def _add(self, rank: int, payload: bytes) -> None:
        counter = payload[AMOUNT.size :]
        before = self._counters[counter]
        after = before + AMOUNT.unpack_from(payload)[0] if counter else 2**63
        if not -(2**63) <= after < 2**63:
            self._fail(f"rank {rank} sent a malformed addition", rank)
            return
        self._counters[counter] = after
        self._post([Frame(Kind.ADDED, rank, AMOUNT.pack(before))])

    def _fail(self, message: str, rank: int | None) -> None:
        self._failure, self.failed_rank = failure(message, rank), rank
        for writer in self._members.values():
            writer.write(self._failure.encode())
            writer.close()  # when all is sent

    def _post(self, frames: Iterable[Frame]) -> None:
        for frame in frames:
            self._members[frame.rank].write(frame.encode())


async def _read(reader: asyncio.StreamReader) -> Frame:
    kind, rank, length = decode_head(await reader.readexactly(HEADER.size))
    return Frame(kind, rank, await reader.readexactly(length))


async def _closed(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        await writer.wait_closed()
