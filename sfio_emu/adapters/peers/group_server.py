"""The coordinator of a group of processes over Unix or TCP sockets, in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
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


class GroupServer:
    """Coordinates a group of `size` processes at `address`, in a thread of its own from construction to `close`.

    `address` may request any free port (`tcp:127.0.0.1:0`); the property gives the one to hand out. Raises UsageError
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
        self._members: dict[int, asyncio.StreamWriter] = {}
        self._next_key = 0
        self._process = os.getpid()  # a child of fork has neither the thread nor the right to end the group
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

    def __enter__(self) -> GroupServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def failed_rank(self) -> int | None:
        """The rank that broke the group; None where none did. For the program that started the processes."""
        return self._coordinator.failed_rank

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        start = asyncio.start_unix_server if self._unix_path is not None else asyncio.start_server
        server = await start(self._attend, sock=self._listening, limit=CHUNK_BYTES)
        self._began.set()
        await self._stop.wait()
        server.close()
        leaving = list(self._members.values())
        self._post(self._coordinator.stop())
        for writer in leaving:
            writer.close()
        if leaving:
            await asyncio.wait([self._loop.create_task(_closed(writer)) for writer in leaving], timeout=LOSS_NOTICED_S)
        for writer in leaving:
            writer.transport.abort()

    async def _attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, from its first byte to its last."""
        stream = writer.get_extra_info("socket")
        if is_foreign_user(stream):
            writer.close()
            return
        watch_silence(stream)
        key, self._next_key = self._next_key, self._next_key + 1
        self._members[key], frames = writer, FrameReader()
        with contextlib.suppress(OSError, GroupError):
            while data := await reader.read(CHUNK_BYTES):
                for frame in frames.feed(data):
                    self._post(self._coordinator.receive(key, frame, self._loop.time()))
                self._watch_deadline()
        self._members.pop(key, None)
        writer.close()
        self._post(self._coordinator.lost(key))

    def _watch_deadline(self) -> None:
        deadline_s = self._coordinator.deadline_s
        if deadline_s is not None:
            self._loop.call_at(deadline_s, self._expire)

    def _expire(self) -> None:
        deadline_s = self._coordinator.deadline_s
        if deadline_s is not None and self._loop.time() >= deadline_s:
            self._post(self._coordinator.expire())

    def _post(self, frames: list[tuple[int, Frame]]) -> None:
        encoded: dict[int, bytes] = {}
        for key, frame in frames:
            writer = self._members.get(key)
            if writer is not None:
                writer.write(encoded.setdefault(id(frame), frame.encode()))
                if frame.kind is Kind.FAILED:
                    del self._members[key]
                    writer.close()  # when all is sent


async def _closed(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        await writer.wait_closed()
