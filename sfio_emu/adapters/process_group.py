"""The processes of one program as a group over Unix or TCP sockets: join, barrier, all_gather. One of them (rank 0), or
the program that starts them (GroupServer), coordinates; a rank that dies is named to the others at once, a silent one
within 2 s."""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import socket
import threading
import time
from pathlib import Path

from sfio_emu.adapters.peers.group_server import (
    CHUNK_BYTES,
    LOSS_NOTICED_S,
    GroupServer,
    parse_address,
    watch_silence,
)
from sfio_emu.adapters.peers.local_users import is_foreign_user
from sfio_emu.client.group_rounds import (
    AMOUNT,
    HELLO,
    MAX_ITEM_BYTES,
    Frame,
    FrameReader,
    GroupError,
    Kind,
    check_membership,
    failure_error,
    unpack_items,
)
from sfio_emu.errors import UsageError

_RETRY_S = 0.02
_MAX_ROUND_BYTES = 1 << 32  # a complete round holds the items of every rank


class SocketGroup:
    """This process as a member of a group: `rank`, `size` and the calls of the port sfio_emu.ports.ProcessGroup.

    Everything goes over the coordinator. Threads take turns, but must all make their collective calls in the order of
    the other processes. A child of fork has no place in the group: its calls raise UsageError. After an error the group
    is over: every further call raises it again.
    """

    def __init__(
        self,
        connection: socket.socket,
        rank: int,
        size: int,
        server: GroupServer | None,
    ) -> None:
        self.rank = rank
        self.size = size
        self._connection = connection
        self._server = server
        self._reader = FrameReader(_MAX_ROUND_BYTES)
        self._round = 0
        self._broken: GroupError | None = None
        self._closed = False
        self._turn = threading.RLock()
        self._process = os.getpid()

    @classmethod
    def join(cls, address: str, rank: int, size: int, timeout_s: float) -> SocketGroup:
        """Join the group at `address` (`unix:/path` or `tcp:host:port`) and return when all `size` ranks have.

        Rank 0 coordinates itself where nobody listens at the address yet. Raises UsageError for arguments that cannot
        be, GroupError where not everybody has come within `timeout_s` (it names who is missing) or the group refuses
        this rank.
        """
        check_membership(rank, size)
        if not timeout_s > 0:
            raise UsageError(f"time to join is {timeout_s} s: give a positive number of seconds")
        deadline_s = time.monotonic() + timeout_s
        connection, server = _reach(address, rank, size, deadline_s)
        group = cls(connection, rank, size, server)
        hello = HELLO.pack(size, max(1, round((deadline_s - time.monotonic()) * 1000)))
        try:
            connection.settimeout(max(0.001, deadline_s - time.monotonic()) + LOSS_NOTICED_S)
            group._send(Frame(kind=Kind.HELLO, rank=rank, payload=hello))
            group._receive(Kind.WELCOME)
            if is_foreign_user(connection):  # known only now: whoever has not accepted yet is nobody
                raise GroupError(
                    f"the process group at {address} is not known to be this user's; choose another address"
                )
            connection.settimeout(None)
        except GroupError:
            group.close()
            raise
        return group

    def barrier(self) -> None:
        """Return when every rank has called barrier. Raises GroupError where one is lost or has left."""
        self._exchange(Kind.BARRIER, b"")

    def all_gather(self, item: bytes) -> list[bytes]:
        """The items given by every rank, that of rank i at place i. Raises GroupError; UsageError for an item above 256
        MiB."""
        item = bytes(item)
        if len(item) > MAX_ITEM_BYTES:
            raise UsageError(f"item of {len(item)} bytes: all_gather takes at most {MAX_ITEM_BYTES}")
        return self._exchange(Kind.GATHER, item)

    def fetch_add(self, counter: str, amount: int) -> int:
        """Add to a counter of the group (0 when first named) and give what it was before. Raises GroupError."""
        payload = AMOUNT.pack(amount) + counter.encode()
        answer = self._ask(Frame(kind=Kind.ADD, rank=self.rank, payload=payload), Kind.ADDED)
        return int(AMOUNT.unpack(answer.payload)[0])

    def close(self) -> None:
        """Leave the group; ranks that still wait for this one in a collective call get an error. May be called
        twice."""
        if self._closed:
            return
        self._closed = True
        if os.getpid() == self._process:  # a child of fork leaves without a word: its parent stays
            with contextlib.suppress(OSError):
                self._connection.sendall(Frame(kind=Kind.LEAVE, rank=self.rank).encode())
        self._connection.close()
        if self._server is not None:
            self._server.close()

    def __enter__(self) -> SocketGroup:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _exchange(self, kind: Kind, item: bytes) -> list[bytes]:
        with self._turn:
            frame = self._ask(Frame(kind=kind, rank=self.rank, round=self._round, payload=item), Kind.GATHERED)
            if frame.round != self._round:
                raise self._break(
                    f"the coordinator answered round {frame.round} where rank {self.rank} is in {self._round}"
                )
            self._round += 1
        return unpack_items(frame.payload, self.size)

    def _ask(self, frame: Frame, awaited: Kind) -> Frame:
        """Send a frame and wait for what answers it."""
        if os.getpid() != self._process:
            raise UsageError(
                f"this process was forked from rank {self.rank} and has no place in its group of {self.size}: it may"
                " read and write; make collective calls (open, close, truncate, ..._all) in the processes of the group"
            )
        with self._turn:
            if self._broken is not None:
                raise self._broken
            if self._closed:
                raise UsageError(f"rank {self.rank} has left the group: make collective calls before close")
            self._send(frame)
            return self._receive(awaited)

    def _send(self, frame: Frame) -> None:
        # where the send fails, the reason may already lie in what was received
        with contextlib.suppress(BrokenPipeError, ConnectionResetError, TimeoutError):
            self._connection.sendall(frame.encode())

    def _receive(self, kind: Kind) -> Frame:
        data = b""  # a frame may have come together with the one before
        while True:
            for frame in self._reader.feed(data):
                if frame.kind is Kind.FAILED:
                    self._broken = failure_error(frame)
                    raise self._broken
                if frame.kind is not kind:
                    raise self._break(f"the coordinator sent {frame.kind.name} where {kind.name} was due")
                return frame
            try:
                data = self._connection.recv(CHUNK_BYTES)
            except TimeoutError:
                raise self._break("the process group gave no answer in time") from None
            except OSError as error:
                raise self._break(f"the coordinator of the process group is lost: {error.strerror}") from error
            if not data:
                raise self._break("the coordinator of the process group (rank 0 or the launcher) has ended")

    def _break(self, message: str) -> GroupError:
        self._broken = GroupError(message)
        return self._broken


def _reach(address: str, rank: int, size: int, deadline_s: float) -> tuple[socket.socket, GroupServer | None]:
    """A connection to the coordinator, which rank 0 starts where there is none."""
    family, place = parse_address(address)
    server: GroupServer | None = None
    while True:
        connection = socket.socket(family, socket.SOCK_STREAM)
        connection.settimeout(max(0.001, deadline_s - time.monotonic()))
        try:
            connection.connect(place)
        except OSError as error:
            connection.close()
            if time.monotonic() + _RETRY_S >= deadline_s:
                _close(server)
                raise GroupError(
                    f"rank {rank} found no process group at {address}: {error.strerror or error}", 0
                ) from error
            nobody = error.errno in (errno.ECONNREFUSED, errno.ENOENT)
            if rank == 0 and server is None and nobody:
                server = _coordinate(address, size)
            if server is None:
                time.sleep(_RETRY_S)
            continue
        watch_silence(connection)
        return connection, server


def _coordinate(address: str, size: int) -> GroupServer | None:
    """The coordinator inside rank 0's own process, or None where the address is another's to listen at."""
    family, place = parse_address(address)
    if family == socket.AF_UNIX and isinstance(place, str):
        Path(place).unlink(missing_ok=True)  # nobody answers there: a leftover of a killed process
    try:
        server = GroupServer(address, size)
    except GroupError:
        return None
    atexit.register(server.close)  # answers on their way reach the others even where close is forgotten
    return server


def _close(server: GroupServer | None) -> None:
    if server is not None:
        server.close()
