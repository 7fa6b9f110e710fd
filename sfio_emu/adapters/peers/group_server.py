"""The coordinator of a group of processes over Unix or TCP sockets, in a thread of its own."""

from __future__ import annotations

import os
import selectors
import socket
import threading
import time
from pathlib import Path

from sfio_emu.adapters.peers.local_users import is_foreign_user
from sfio_emu.adapters.sockets import watch_peer
from sfio_emu.client.group_rounds import Coordinator, Frame, FrameReader, GroupError, Kind
from sfio_emu.errors import UsageError

LOSS_NOTICED_S = 2.0  # a peer behind a cut link is given up after this silence
CHUNK_BYTES = 1 << 18


def parse_address(address: str) -> tuple[socket.AddressFamily, str | tuple[str, int]]:
    """`unix:/path` or `tcp:host:port`. Raises UsageError."""
    if not isinstance(address, str):
        raise UsageError(f"address of the process group is {address!r}: give unix:/path or tcp:host:port")
    scheme, _, rest = address.partition(":")
    if scheme == "unix" and rest:
        return socket.AF_UNIX, rest
    host, _, port = rest.rpartition(":")
    if scheme == "tcp" and host and port.isdecimal() and int(port) < 65536:
        return (socket.AF_INET6 if ":" in host else socket.AF_INET), (host.strip("[]"), int(port))
    raise UsageError(f"address of the process group is {address!r}: give unix:/path or tcp:host:port")


def watch_silence(connection: socket.socket) -> None:
    """Let the kernel end a TCP connection whose peer is silent for LOSS_NOTICED_S; Unix sockets end with their
    process."""
    if connection.family != socket.AF_UNIX:
        watch_peer(connection, LOSS_NOTICED_S)


def _bind(address: str) -> socket.socket:
    family, place = parse_address(address)
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        if family != socket.AF_UNIX:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(place)
        listening.listen(128)
    except OSError:
        listening.close()
        raise
    listening.setblocking(False)
    return listening


class _Member:
    """One accepted connection of the server: what came and what is still to be sent."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.reader = FrameReader()
        self.outgoing = bytearray()
        self.closing = False  # close once everything is sent


class GroupServer:
    """Coordinates a group of `size` processes at `address`, in a thread of its own from construction to `close`.

    `address` may ask for any free port (`tcp:127.0.0.1:0`); the property gives the one to hand out. Raises UsageError
    for an address or size that cannot be, GroupError where the address is taken. A context manager.
    """

    def __init__(self, address: str, size: int) -> None:
        self._coordinator = Coordinator(size)
        self._unix_path: Path | None = None
        try:
            self._listening = _bind(address)
        except OSError as error:
            raise GroupError(f"cannot listen for the process group at {address}: {error.strerror}") from error
        if self._listening.family == socket.AF_UNIX:
            self._unix_path = Path(address.partition(":")[2])
            self.address = address
        else:
            host, port = self._listening.getsockname()[:2]
            self.address = f"tcp:{host}:{port}"
        self._members: dict[int, _Member] = {}
        self._next_key = 0
        self._wake_read, self._wake_write = os.pipe()
        self._stopping = False
        self._process = os.getpid()  # a child of fork has neither the thread nor the right to end the group
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listening, selectors.EVENT_READ, -1)
        self._selector.register(self._wake_read, selectors.EVENT_READ, -2)
        self._thread = threading.Thread(target=self._serve, name="sfio process group", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Send what is still to be sent (for at most 2 s), then end every connection. May be called twice."""
        if self._stopping or os.getpid() != self._process:
            return
        self._stopping = True
        os.write(self._wake_write, b".")
        self._thread.join()
        os.close(self._wake_write)
        os.close(self._wake_read)
        if self._unix_path is not None:
            self._unix_path.unlink(missing_ok=True)

    def __enter__(self) -> GroupServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def failed_rank(self) -> int | None:
        """The rank that broke the group; None where none did. For the program that started the processes."""
        return self._coordinator.failed_rank

    def _serve(self) -> None:
        stop_at_s: float | None = None
        while True:
            now_s = time.monotonic()
            if self._stopping and stop_at_s is None:
                stop_at_s = now_s + LOSS_NOTICED_S
                self._post(self._coordinator.stop())
            if stop_at_s is not None and (now_s >= stop_at_s or not any(m.outgoing for m in self._members.values())):
                break
            deadlines_s = [at for at in (stop_at_s, self._coordinator.deadline_s) if at is not None]
            wait_s = max(0.0, min(deadlines_s) - now_s) if deadlines_s else None
            for key, mask in self._selector.select(wait_s):
                self._handle(key.data, mask)
            deadline_s = self._coordinator.deadline_s
            if deadline_s is not None and time.monotonic() >= deadline_s:
                self._post(self._coordinator.expire())
        for key_number in list(self._members):
            self._drop(key_number)
        self._selector.close()
        self._listening.close()

    def _handle(self, key: int, mask: int) -> None:
        if key == -1:
            self._accept()
        elif key == -2:
            os.read(self._wake_read, 64)
        elif key in self._members:
            if mask & selectors.EVENT_READ:
                self._read(key)
            if mask & selectors.EVENT_WRITE and key in self._members:
                self._write(key)

    def _accept(self) -> None:
        try:
            connection, _ = self._listening.accept()
            if is_foreign_user(connection):
                connection.close()
                return
        except OSError:
            return  # it went away again
        connection.setblocking(False)
        watch_silence(connection)
        key = self._next_key
        self._next_key += 1
        self._members[key] = _Member(connection)
        self._selector.register(connection, selectors.EVENT_READ, key)

    def _read(self, key: int) -> None:
        member = self._members[key]
        try:
            data = member.connection.recv(CHUNK_BYTES)
            frames = list(member.reader.feed(data)) if data else None
        except BlockingIOError:
            return
        except (OSError, GroupError):
            frames = None
        if frames is None:
            self._drop(key)
            self._post(self._coordinator.lost(key))
            return
        for frame in frames:
            self._post(self._coordinator.receive(key, frame, time.monotonic()))

    def _post(self, frames: list[tuple[int, Frame]]) -> None:
        encoded: dict[int, bytes] = {}
        for key, frame in frames:
            if key in self._members:
                member = self._members[key]
                member.outgoing += encoded.setdefault(id(frame), frame.encode())
                member.closing |= frame.kind is Kind.FAILED
                self._write(key)

    def _write(self, key: int) -> None:
        member = self._members[key]
        try:
            while member.outgoing:
                sent = member.connection.send(memoryview(member.outgoing)[:CHUNK_BYTES])
                del member.outgoing[:sent]
        except BlockingIOError:
            pass
        except OSError:
            self._drop(key)
            self._post(self._coordinator.lost(key))
            return
        if not member.outgoing and member.closing:
            self._drop(key)
            return
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if member.outgoing else 0)
        self._selector.modify(member.connection, events, key)

    def _drop(self, key: int) -> None:
        member = self._members.pop(key)
        self._selector.unregister(member.connection)
        member.connection.close()
