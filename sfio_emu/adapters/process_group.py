"""The processes of one program as a group over Unix or TCP sockets.

One process coordinates: rank 0, or the program that starts the others (`GroupServer`). If a rank
dies, the others get an error that names it at once. If a rank is silent, they get it within 2 s.
"""

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

# The pause before connecting to the coordinator again.
_RETRY_S = 0.02

# The state of a group while a call waits for its answer. It remains if an exception, for instance
# KeyboardInterrupt, ends the call.
_INTERRUPTED = GroupError("an earlier call was interrupted before its answer had come")

# The shortest time limit. A time limit of 0 would make a socket non-blocking.
_MIN_TIMEOUT_S = 0.001


class SocketGroup(contextlib.AbstractContextManager["SocketGroup"]):
    """A member of a group of processes; implements `sfio_emu.ports.ProcessGroup`.

    All messages go over the coordinator. Threads take turns, but their collective calls must be in
    the same order as in the other processes. A child of fork is not a member: its calls raise
    UsageError. After an error the group has ended, and every further call raises the error again.
    """

    def __init__(
        self,
        connection: socket.socket,
        rank: int,
        size: int,
        server: GroupServer | None,
    ) -> None:
        """Create the object for a connection to the coordinator; call `join` instead.

        Args:
            connection: The connection.
            rank: The rank of this process.
            size: The number of processes.
            server: The coordinator, if it runs in this process.
        """
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
        """Join a group, and return when all ranks have joined.

        If no coordinator listens at the address yet, rank 0 becomes the coordinator.

        Args:
            address: The address of the coordinator, "unix:/path" or "tcp:host:port".
            rank: The rank of this process.
            size: The number of processes.
            timeout_s: The time limit.

        Raises:
            UsageError: An argument is invalid.
            GroupError: Some ranks have not joined within the time limit (the message names them),
                or the group refuses this rank.
        """
        check_membership(rank, size)
        if not timeout_s > 0:
            raise UsageError(f"time to join is {timeout_s} s: give a positive number of seconds")
        deadline_s = time.monotonic() + timeout_s
        connection, server = _reach(address, rank, size, deadline_s)
        group = cls(connection, rank, size, server)
        hello = HELLO.pack(size, max(1, round((deadline_s - time.monotonic()) * 1000)))
        try:
            remaining_s = max(_MIN_TIMEOUT_S, deadline_s - time.monotonic())
            connection.settimeout(remaining_s + LOSS_NOTICED_S)
            group._ask(Kind.HELLO, hello, Kind.WELCOME)
            # The kernel knows the user at the other end only after the connection was accepted.
            if is_foreign_user(connection):
                raise GroupError(
                    f"the process group at {address} is not known to be this user's; "
                    "choose another address"
                )
            connection.settimeout(None)
        except GroupError:
            group.close()
            raise
        return group

    def barrier(self) -> None:
        """Return when every rank has called `barrier`.

        Raises:
            GroupError: A rank is lost, or has left the group.
        """
        self._ask(Kind.BARRIER, b"", Kind.GATHERED, self.size)

    def all_gather(self, item: bytes) -> list[bytes]:
        """Return the items of all ranks in the order of the ranks. Collective.

        Raises:
            GroupError: A rank is lost, or has left the group.
            UsageError: The item is larger than 256 MiB.
        """
        item = bytes(item)
        if len(item) > MAX_ITEM_BYTES:
            raise UsageError(
                f"item of {len(item)} bytes: all_gather takes at most {MAX_ITEM_BYTES}"
            )
        return self._ask(Kind.GATHER, item, Kind.GATHERED, self.size)

    def fetch_add(self, counter: str, amount: int) -> int:
        """Add to a counter of the group, and return its value before the addition.

        Args:
            counter: The name of the counter. A new counter is 0.
            amount: The number to add.

        Raises:
            GroupError: A rank is lost.
        """
        (before,) = self._ask(Kind.ADD, AMOUNT.pack(amount) + counter.encode(), Kind.ADDED)
        return int(AMOUNT.unpack(before)[0])

    def close(self) -> None:
        """Leave the group. Leaving it again does nothing.

        Ranks that wait for this one in a collective call get an error.
        """
        if self._closed:
            return
        self._closed = True
        # A child of fork leaves silently, because its parent remains in the group.
        if os.getpid() == self._process:
            # The coordinator may have ended already.
            with contextlib.suppress(OSError):
                self._connection.sendall(Frame(Kind.LEAVE, self.rank).encode())
                # A thread that waits for an answer stops reading, so that the stream can be closed.
                self._connection.shutdown(socket.SHUT_RDWR)
            self._stream.close()
        self._connection.close()
        if self._server is not None:
            self._server.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, kind: Kind, payload: bytes, awaited: Kind, answers: int = 1) -> list[bytes]:
        """Send a frame, and wait for the frames that answer it.

        Args:
            kind: The kind of frame.
            payload: The contents of the frame.
            awaited: The kind of the answers.
            answers: The number of answers.

        Returns:
            The contents of the answers.
        """
        if os.getpid() != self._process:
            raise UsageError(
                f"this process was forked from rank {self.rank} and is not a member of its group "
                f"of {self.size}: it may read and write; make collective calls "
                "(open, close, truncate, ..._all) in the processes of the group"
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
                # If sending fails, the coordinator may have sent the reason before. Receive it.
                with contextlib.suppress(BrokenPipeError, ConnectionResetError, TimeoutError):
                    self._connection.sendall(Frame(kind, self.rank, payload).encode())
                payloads = [self._receive(awaited) for _ in range(answers)]
            except GroupError as error:
                self._broken = error
                raise
            self._broken = None
        return payloads

    def _receive(self, awaited: Kind) -> bytes:
        """Return the contents of the next frame, which must be of the awaited kind."""
        try:
            head = self._stream.read(HEADER.size)
            if len(head) < HEADER.size:
                raise _coordinator_ended()
            kind, rank, length = decode_head(head)
            payload = self._stream.read(length)
        except TimeoutError:
            raise GroupError("the process group gave no answer in time") from None
        except OSError as error:
            raise GroupError(
                f"the coordinator of the process group is lost: {error.strerror}"
            ) from error
        if len(payload) < length:
            raise _coordinator_ended()
        if kind is Kind.FAILED:
            raise GroupError(payload.decode(errors="replace"), None if rank < 0 else rank)
        if kind is not awaited:
            raise GroupError(f"the coordinator sent {kind.name} where {awaited.name} was expected")
        return payload


def _coordinator_ended() -> GroupError:
    return GroupError("the coordinator of the process group (rank 0 or the launcher) has ended")


def _reach(
    address: str, rank: int, size: int, deadline_s: float
) -> tuple[socket.socket, GroupServer | None]:
    """Connect to the coordinator, which rank 0 starts if there is none.

    Args:
        address: The address of the coordinator.
        rank: The rank of this process.
        size: The number of processes.
        deadline_s: The time limit on the monotonic clock.

    Returns:
        The connection, and the coordinator if it runs in this process.
    """
    family, socket_address = parse_address(address)
    server: GroupServer | None = None
    while True:
        connection = socket.socket(family, socket.SOCK_STREAM)
        connection.settimeout(max(_MIN_TIMEOUT_S, deadline_s - time.monotonic()))
        try:
            connection.connect(socket_address)
        except OSError as error:
            connection.close()
            if time.monotonic() + _RETRY_S >= deadline_s:
                if server is not None:
                    server.close()
                raise GroupError(
                    f"rank {rank} found no process group at {address}: {error.strerror or error}", 0
                ) from error
            no_listener = error.errno in (errno.ECONNREFUSED, errno.ENOENT)
            if rank == 0 and server is None and no_listener:
                server = _coordinate(address, size)
            if server is None:
                time.sleep(_RETRY_S)
            continue
        watch_silence(connection)
        return connection, server


def _coordinate(address: str, size: int) -> GroupServer | None:
    """Start the coordinator in this process, or return None if the address cannot be used."""
    family, socket_address = parse_address(address)
    if family == socket.AF_UNIX and isinstance(socket_address, str):
        # No process listens there: a killed one has left the socket file.
        Path(socket_address).unlink(missing_ok=True)
    try:
        server = GroupServer(address, size)
    except GroupError:
        return None
    # If the program forgets `close`, answers in transit still reach the other ranks.
    atexit.register(server.close)
    return server
