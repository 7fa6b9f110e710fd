"""The coordinator of a group of processes over Unix or TCP sockets, and its protocol.

Each process (rank) has one byte stream to a coordinator: rank 0, or the program that started all of
them. The messages are frames.

1. A rank sends HELLO with the size of the group, and with the time for which it waits for the
   others. When all ranks have joined, each gets WELCOME.
2. A collective call is a round. Each rank sends BARRIER, or GATHER with its item. When the items of
   all ranks have arrived, each rank gets all of them in the order of the ranks, one GATHERED per
   rank. No rank begins a round before it has received all frames of the last one.
3. Outside of rounds, a rank sends ADD with an amount and the name of a counter. ADDED has the value
   of the counter before the addition.
4. A rank that has finished sends LEAVE.

Whatever prevents a round from being completed ends the group: a lost connection, a rank that has
left, a different call, or a rank that has not joined in time. Every rank gets FAILED with the
reason and the rank that caused it, and every later call raises this error.
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

# The beginning of each frame; the digit is the version of the protocol.
MAGIC = b"SFG2"

# The header of a frame: magic, kind, rank (-1: none), size of the payload.
HEADER = struct.Struct("!4sBiQ")

# The payload of HELLO: size of the group, and milliseconds for the others to join.
HELLO = struct.Struct("!IQ")

# The payload of ADDED, and the beginning of that of ADD.
AMOUNT = struct.Struct("!q")

# The maximum size of a payload, and of a group. They limit the memory in use.
MAX_ITEM_BYTES = 256 << 20
MAX_RANKS = 1 << 16

# A peer behind a failed link is given up after this time of silence.
LOSS_NOTICED_S = 2.0

# The number of ranks that an error message lists.
_MAX_LISTED_RANKS = 8


class GroupError(PeerError):
    """The processes of a group cannot act together any more.

    Attributes:
        rank: The rank that caused it, or None if it is not known.
    """

    def __init__(self, message: str, rank: int | None = None) -> None:
        super().__init__("process group", message)
        self.rank = rank


class Kind(IntEnum):
    """The kinds of frames. Ranks send the first five, the coordinator sends the others."""

    HELLO = 1
    BARRIER = 2
    GATHER = 3
    LEAVE = 4
    ADD = 5
    WELCOME = 6
    GATHERED = 7
    FAILED = 8
    ADDED = 9


# The collective calls by the frame that begins them.
CALLS = {Kind.BARRIER: "barrier", Kind.GATHER: "all_gather"}


class Frame(NamedTuple):
    """A message of the group's protocol.

    Attributes:
        kind: The kind of frame.
        rank: The rank that sends it, or that it is about.
        payload: The contents.
    """

    kind: Kind
    rank: int
    payload: bytes = b""

    def encode(self) -> bytes:
        """Return the bytes of the frame."""
        return HEADER.pack(MAGIC, self.kind, self.rank, len(self.payload)) + self.payload


def decode_head(head: bytes) -> tuple[Kind, int, int]:
    """Decode the header of a frame.

    Returns:
        The kind, the rank, and the size of the payload in bytes.

    Raises:
        GroupError: The header is invalid.
    """
    magic, kind, rank, length = HEADER.unpack(head)
    if magic != MAGIC or kind not in Kind.__members__.values():
        raise GroupError(f"not a message of a process group: begins with {head[:8].hex()}")
    if length > MAX_ITEM_BYTES:
        raise GroupError(f"a message of {length} bytes is above the {MAX_ITEM_BYTES} bytes allowed")
    return Kind(kind), rank, length


def failure(message: str, rank: int | None) -> Frame:
    """Return the frame that tells a rank why the group has ended, and which rank caused it."""
    return Frame(Kind.FAILED, -1 if rank is None else rank, message.encode())


def check_membership(rank: int, size: int) -> None:
    """Raise UsageError unless 0 <= rank < size."""
    size = whole_number(size, "size of the group", 1, MAX_RANKS)
    whole_number(rank, f"rank in a group of {size}", 0, size - 1)


def parse_address(address: str) -> tuple[socket.AddressFamily, str | tuple[str, int]]:
    """Parse "unix:/path" or "tcp:host:port".

    Returns:
        The address family, and the address for `socket.connect`.

    Raises:
        UsageError: The address is malformed.
    """
    error = UsageError(
        f"address of the process group is {address!r}: give unix:/path or tcp:host:port"
    )
    if not isinstance(address, str):
        raise error
    scheme, _, location = address.partition(":")
    if scheme == "unix" and location:
        return socket.AF_UNIX, location
    host, _, port = location.rpartition(":")
    if scheme == "tcp" and host and port.isdecimal() and int(port) < 65536:
        return family_of(host), (host.strip("[]"), int(port))
    raise error


def watch_silence(connection: socket.socket) -> None:
    """Let the kernel end a TCP connection whose peer is silent for `LOSS_NOTICED_S`.

    Unix sockets need no limit, because they end with their process.
    """
    if connection.family != socket.AF_UNIX:
        watch_peer(connection, LOSS_NOTICED_S)


def _open_listening_socket(address: str) -> socket.socket:
    family, socket_address = parse_address(address)
    if isinstance(socket_address, tuple):
        listening = socket.create_server(socket_address, family=family, backlog=128)
    else:
        listening = socket.socket(family, socket.SOCK_STREAM)
        try:
            listening.bind(socket_address)
        except OSError:
            listening.close()
            raise
        listening.listen(128)
    listening.setblocking(False)
    return listening


class GroupServer(contextlib.AbstractContextManager["GroupServer"]):
    """The coordinator of a group, in a thread of its own from construction to `close`.

    Args:
        address: The address to listen at, "unix:/path" or "tcp:host:port". Port 0 stands for any
            free port.
        size: The number of processes.

    Raises:
        UsageError: Address or size are invalid.
        GroupError: The address is in use.

    Attributes:
        address: The address for the processes, with the port that was chosen.
        size: The number of processes.
        failed_rank: The rank that ended the group; None if none did. For the program that started
            the processes.
    """

    def __init__(self, address: str, size: int) -> None:
        check_membership(0, size)
        self.size = size
        self.failed_rank: int | None = None
        self._unix_path: Path | None = None
        try:
            self._listening = _open_listening_socket(address)
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

        # The stream to each rank that has joined and not left.
        self._members: dict[int, asyncio.StreamWriter] = {}

        # All ranks that have ever joined.
        self._joined: set[int] = set()

        # The frame of each rank that has arrived in the present round.
        self._items: dict[int, Frame] = {}
        self._counters: Counter[bytes] = Counter()
        self._failure: Frame | None = None

        # A child of fork does not have the thread, and must not end the group.
        self._process = os.getpid()
        self._closed = False
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sfio process group", daemon=True)
        self._thread.start()
        self._started.wait()

    def close(self) -> None:
        """Send what is left to send, for at most 2 s, and end all connections.

        Closing it again does nothing.
        """
        if self._closed or os.getpid() != self._process:
            return
        self._closed = True
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        if self._unix_path is not None:
            self._unix_path.unlink(missing_ok=True)

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- in the thread of the coordinator --------------------------------------------------------

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        """Serve until `close` is called."""
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        if self._unix_path is not None:
            server = await asyncio.start_unix_server(self._attend, sock=self._listening)
        else:
            server = await asyncio.start_server(self._attend, sock=self._listening)
        self._started.set()
        await self._stop.wait()
        server.close()
        writers = list(self._members.values())
        is_complete = not self._members and len(self._joined) == self.size
        if self._failure is None and not is_complete:
            self._fail(
                "the coordinator of the process group (rank 0 or the launcher) has ended", None
            )
        if writers:
            closings = [self._loop.create_task(_wait_closed(writer)) for writer in writers]
            await asyncio.wait(closings, timeout=LOSS_NOTICED_S)
        for writer in writers:
            writer.transport.abort()

    async def _attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection from its first frame to its last."""
        stream = writer.get_extra_info("socket")
        if is_foreign_user(stream):
            writer.close()
            return
        watch_silence(stream)
        rank: int | None = None
        # The connection may end, or the peer may not speak this protocol.
        with contextlib.suppress(OSError, EOFError, GroupError):
            while True:
                frame = await _read_frame(reader)
                if self._failure is not None:
                    writer.write(self._failure.encode())
                    break
                if rank is not None:
                    self._process_frame(rank, frame)
                    continue
                refusal = self._refusal(frame)
                if refusal is not None:
                    writer.write(refusal.encode())
                    break
                rank = self._join(frame, writer)
        # asyncio sends what is written before it closes the connection.
        writer.close()
        if rank in self._members and self._failure is None:
            self._fail(f"rank {rank} of the process group died or was disconnected", rank)

    def _refusal(self, frame: Frame) -> Frame | None:
        """Return the answer to a first frame that is no valid HELLO; None if it is valid."""
        if frame.kind is not Kind.HELLO:
            return failure("a message arrived before HELLO", None)
        if len(frame.payload) != HELLO.size:
            return failure("a malformed HELLO", None)
        size, _ = HELLO.unpack(frame.payload)
        rank = frame.rank
        if size != self.size:
            return failure(
                f"rank {rank} says the group has {size} ranks, the coordinator {self.size}", rank
            )
        if not 0 <= rank < self.size:
            return failure(f"rank {rank} is not in 0..{self.size - 1}", rank)
        if rank in self._joined:
            return failure(f"rank {rank} joined twice", rank)
        return None

    def _join(self, frame: Frame, writer: asyncio.StreamWriter) -> int:
        """Add a rank to the group, and return it."""
        self._members[frame.rank] = writer
        self._joined.add(frame.rank)
        _, patience_ms = HELLO.unpack(frame.payload)
        self._loop.call_later(patience_ms / 1000, self._expire)
        if len(self._joined) == self.size:
            self._post(Frame(Kind.WELCOME, rank) for rank in range(self.size))
        return frame.rank

    def _expire(self) -> None:
        """End the group if not all ranks have joined in the time that one of them waits."""
        missing = [rank for rank in range(self.size) if rank not in self._joined]
        if missing and self._failure is None:
            names = ", ".join(map(str, missing[:_MAX_LISTED_RANKS]))
            if len(missing) > _MAX_LISTED_RANKS:
                names += ", ..."
            self._fail(f"rank {names} of a group of {self.size} did not join in time", missing[0])

    def _process_frame(self, rank: int, frame: Frame) -> None:
        """Process a frame of a rank that has joined."""
        if frame.kind in CALLS:
            self._add_item(rank, frame)
        elif frame.kind is Kind.ADD:
            self._add_to_counter(rank, frame.payload)
        elif frame.kind is Kind.LEAVE:
            del self._members[rank]
            self._check_left()
        else:
            self._fail(f"rank {rank} sent a {frame.kind.name} that it may not send", rank)

    def _add_item(self, rank: int, frame: Frame) -> None:
        """Add a rank's frame to the round, and end the round if it is the last."""
        if len(self._joined) < self.size or rank in self._items:
            self._fail(f"rank {rank} makes a collective call out of turn", rank)
            return
        if self._items:
            first_rank, first_frame = next(iter(self._items.items()))
            if first_frame.kind is not frame.kind:
                self._fail(
                    f"rank {rank} calls {CALLS[frame.kind]} where rank {first_rank} "
                    f"calls {CALLS[first_frame.kind]}: "
                    "every rank makes the same collective calls in the same order",
                    rank,
                )
                return
        self._items[rank] = frame
        self._check_left()
        if len(self._items) == self.size and self._failure is None:
            items = self._items
            self._items = {}
            answers = [
                Frame(Kind.GATHERED, member, items[member].payload).encode()
                for member in range(self.size)
            ]
            all_answers = b"".join(answers)
            for writer in self._members.values():
                writer.write(all_answers)

    def _check_left(self) -> None:
        """End the group if ranks wait in a collective call for one that has left."""
        left = self._joined - self._members.keys()
        if self._items and left:
            rank = min(left)
            self._fail(
                f"rank {rank} left the process group while others wait for it in a collective call",
                rank,
            )

    def _add_to_counter(self, rank: int, payload: bytes) -> None:
        """Answer ADD."""
        counter = payload[AMOUNT.size :]
        before = self._counters[counter]
        after = None
        # An amount that is cut off leaves an empty name.
        if counter:
            (amount,) = AMOUNT.unpack_from(payload)
            after = before + amount
        if after is None or not -(2**63) <= after < 2**63:
            self._fail(f"rank {rank} sent a malformed addition", rank)
            return
        self._counters[counter] = after
        self._post([Frame(Kind.ADDED, rank, AMOUNT.pack(before))])

    def _fail(self, message: str, rank: int | None) -> None:
        """End the group.

        Args:
            message: The reason.
            rank: The rank that caused it, or None if it is not known.
        """
        self._failure = failure(message, rank)
        self.failed_rank = rank
        for writer in self._members.values():
            writer.write(self._failure.encode())
            # asyncio sends what is written before it closes the connection.
            writer.close()

    def _post(self, frames: Iterable[Frame]) -> None:
        """Send each frame to its rank."""
        for frame in frames:
            self._members[frame.rank].write(frame.encode())


async def _read_frame(reader: asyncio.StreamReader) -> Frame:
    kind, rank, length = decode_head(await reader.readexactly(HEADER.size))
    return Frame(kind, rank, await reader.readexactly(length))


async def _wait_closed(writer: asyncio.StreamWriter) -> None:
    """Wait until everything is sent; an error means that the peer has disconnected."""
    with contextlib.suppress(OSError):
        await writer.wait_closed()
