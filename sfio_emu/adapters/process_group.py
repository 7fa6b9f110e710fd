"""The processes of one program as a group over Unix or TCP sockets: join, barrier, all_gather. One of them (rank 0), or
the program that starts them (GroupServer), coordinates; a rank that dies is named to the others at once, a silent one
within 2 s."""

import atexit
import contextlib
import errno
import os
import socket
import threading
import time
from pathlib import Path

from sfio_emu.adapters.local_users import is_foreign_user
from sfio_emu.adapters.peers.group_server import (
    AMOUNT,
    HEADER,
    HELLO,
    LOSS_NOTICED_S,
    MAX_ITEM_BYTES,
    Frame,
    GroupError,
    GroupServer,
    Kind,
    check_membership,
    decode_head,
    parse_address,
    watch_silence,
)
from sfio_emu.errors import UsageError

_RETRY_S = 0.02
_INTERRUPTED = GroupError("an earlier call was interrupted before its answer had come")


class SocketGroup(contextlib.AbstractContextManager["SocketGroup"]):
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
        self._stream = connection.makefile("rb")
        self._server = server
        self._broken: GroupError | None = None
        self._closed = False
        self._turn = threading.RLock()
        self._process = os.getpid()

    @classmethod
    def join(cls, address: str, rank: int, size: int, timeout_s: float) -> "SocketGroup":
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
            group._ask(Kind.HELLO, hello, Kind.WELCOME)
            if is_foreign_user(
                connection
            ):  # known only now: whoever has not accepted yet is nobody
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
        self._ask(Kind.BARRIER, b"", Kind.GATHERED, self.size)

    def all_gather(self, item: bytes) -> list[bytes]:
        """The items given by every rank, that of rank i at place i. Raises GroupError; UsageError for an item above 256
        MiB."""
        item = bytes(item)
        if len(item) > MAX_ITEM_BYTES:
            raise UsageError(
                f"item of {len(item)} bytes: all_gather takes at most {MAX_ITEM_BYTES}"
            )
        return self._ask(Kind.GATHER, item, Kind.GATHERED, self.size)

    def fetch_add(self, counter: str, amount: int) -> int:
        """Add to a counter of the group (0 when first named) and give what it was before. Raises GroupError."""
        (before,) = self._ask(Kind.ADD, AMOUNT.pack(amount) + counter.encode(), Kind.ADDED)
        return int(AMOUNT.unpack(before)[0])

    def close(self) -> None:
        """Leave the group; ranks that still wait for this one in a collective call get an error. May be called
        twice."""
        if self._closed:
            return
        self._closed = True
        if os.getpid() == self._process:  # a child of fork leaves without a word: its parent stays
            with contextlib.suppress(OSError):
                self._connection.sendall(Frame(Kind.LEAVE, self.rank).encode())
                self._connection.shutdown(
                    socket.SHUT_RDWR
                )  # whoever waits for an answer lets go of the stream
            self._stream.close()
        self._connection.close()
        if self._server is not None:
            self._server.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, kind: Kind, payload: bytes, awaited: Kind, answers: int = 1) -> list[bytes]:
        """Send a frame and wait for so many that answer it."""
        if os.getpid() != self._process:
            raise UsageError(
                f"this process was forked from rank {self.rank} and has no place in its group of {self.size}: it may"
                " read and write; make collective calls (open, close, truncate, ..._all) in the processes of the group"
            )
        with self._turn:
            if self._broken is not None:
                raise self._broken
            if self._closed:
                raise UsageError(
                    f"rank {self.rank} has left the group: make collective calls before close"
                )
            self._broken = _INTERRUPTED
            try:
                # where the send fails, the reason may already lie in what was received
                with contextlib.suppress(BrokenPipeError, ConnectionResetError, TimeoutError):
                    self._connection.sendall(Frame(kind, self.rank, payload).encode())
                found = [self._receive(awaited) for _ in range(answers)]
            except GroupError as error:
                self._broken = error
                raise
            self._broken = None
        return found

    def _receive(self, awaited: Kind) -> bytes:
        """What the next frame holds, which is to be of that kind."""
        try:
            head = self._stream.read(HEADER.size)
            kind, rank, length = (
                decode_head(head) if len(head) == HEADER.size else (Kind.FAILED, -1, 0)
            )
            payload = self._stream.read(length)
        except TimeoutError:
            raise GroupError("the process group gave no answer in time") from None
        except OSError as error:
            raise GroupError(
                f"the coordinator of the process group is lost: {error.strerror}"
            ) from error
        if len(head) < HEADER.size or len(payload) < length:
            raise GroupError(
                "the coordinator of the process group (rank 0 or the launcher) has ended"
            )
        if kind is Kind.FAILED:
            raise GroupError(payload.decode(errors="replace"), None if rank < 0 else rank)
        if kind is not awaited:
            raise GroupError(f"the coordinator sent {kind.name} where {awaited.name} was due")
        return payload


def _reach(
    address: str, rank: int, size: int, deadline_s: float
) -> tuple[socket.socket, GroupServer | None]:
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
                if server is not None:
                    server.close()
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
    atexit.register(
        server.close
    )  # answers on their way reach the others even where close is forgotten
    return server
