"""Streams from every process of a group to every other, for what is too much to go over a coordinator: all_to_all. They
are made when first needed; each process listens at an address of its own, so that bytes travel the network between
them."""

from __future__ import annotations

import contextlib
import json
import secrets
import select
import socket
import struct
import time
from collections.abc import Sequence

from sfio_emu.adapters.sockets import watch_peer
from sfio_emu.client.group_rounds import GroupError

CONNECT_S = 30.0
HELLO_S = 2.0
SILENCE_S = (
    30.0  # a queue that overflows for seconds, as all send to one, is no dead link; a dead process shows at once
)
LENGTH = struct.Struct("!Q")
HELLO = struct.Struct("!I16s")  # who comes, and the key of whom it comes to


class PeerMesh:
    """The streams of this process (`rank`) to all others. `door` says to them where it listens, and what it wants to
    hear."""

    def __init__(self, address: str, rank: int) -> None:
        """Raises GroupError where nobody can listen at `address`."""
        self._rank = rank
        self._key = secrets.token_bytes(16)
        self._streams: dict[int, socket.socket] = {}
        try:
            self._listening = socket.create_server((address, 0), backlog=128)
        except OSError as error:
            raise GroupError(
                f"rank {rank} cannot listen at {address} for the others: {error.strerror}", rank
            ) from error
        self.listener = json.dumps([address, self._listening.getsockname()[1], self._key.hex()]).encode()

    def connect(self, doors: Sequence[bytes]) -> None:
        """Connect to all lower ranks and wait for all higher ones; `doors` are those of all ranks. Raises
        GroupError."""
        until_s = time.monotonic() + CONNECT_S
        for rank, listener in enumerate(doors[: self._rank]):
            address, port, key = json.loads(listener)
            try:
                stream = socket.create_connection((address, port), timeout=max(0.1, until_s - time.monotonic()))
                stream.sendall(HELLO.pack(self._rank, bytes.fromhex(key)))
            except OSError as error:
                raise GroupError(
                    f"rank {self._rank} does not reach rank {rank} at {address}:{port}: {error}", rank
                ) from error
            self._take(rank, stream)
        while len(self._streams) < len(doors) - 1:
            self._listening.settimeout(max(0.1, until_s - time.monotonic()))
            try:
                stream, _ = self._listening.accept()
            except TimeoutError:
                missing = next(rank for rank in range(self._rank + 1, len(doors)) if rank not in self._streams)
                raise GroupError(f"rank {missing} does not reach rank {self._rank}", missing) from None
            self._admit(stream, len(doors))
        self._listening.close()

    def _admit(self, stream: socket.socket, size: int) -> None:
        """Take a stream whose sender knows the key; anybody else is turned away."""
        stream.settimeout(HELLO_S)
        said = b""
        with contextlib.suppress(OSError):
            while len(said) < HELLO.size and (part := stream.recv(HELLO.size - len(said))):
                said += part
        rank, key = HELLO.unpack(said) if len(said) == HELLO.size else (0, b"")
        if secrets.compare_digest(key, self._key) and self._rank < rank < size and rank not in self._streams:
            self._take(rank, stream)
        else:
            stream.close()

    def _take(self, rank: int, stream: socket.socket) -> None:
        watch_peer(stream, SILENCE_S)
        stream.setblocking(False)
        self._streams[rank] = stream

    def exchange(self, items: Sequence[bytes]) -> list[bytes]:
        """What every rank has for this one, for `items[i]` to rank i. Raises GroupError naming whom a stream was lost
        to."""
        outgoing = {
            rank: [memoryview(LENGTH.pack(len(items[rank]))), memoryview(items[rank])] for rank in self._streams
        }
        incoming = {rank: _Incoming() for rank in self._streams}
        numbers = {stream.fileno(): rank for rank, stream in self._streams.items()}
        poll = select.poll()
        for number in numbers:
            poll.register(number, select.POLLIN | select.POLLOUT)
        while numbers:
            for number, events in poll.poll():
                rank = numbers[number]
                try:
                    self._move(rank, events, outgoing[rank], incoming[rank])
                except OSError as error:
                    raise GroupError(f"rank {self._rank} lost rank {rank}: {error.strerror or error}", rank) from error
                waiting = 0 if incoming[rank].complete else select.POLLIN
                waiting |= select.POLLOUT if outgoing[rank] else 0
                if waiting:
                    poll.modify(number, waiting)
                else:
                    poll.unregister(number)
                    del numbers[number]
        return [bytes(items[rank]) if rank == self._rank else bytes(incoming[rank].item) for rank in range(len(items))]

    def _move(self, rank: int, events: int, outgoing: list[memoryview], incoming: _Incoming) -> None:
        stream = self._streams[rank]
        if events & ~select.POLLOUT and not incoming.complete:
            with contextlib.suppress(BlockingIOError):
                incoming.receive(stream)
        if events & select.POLLOUT and outgoing:
            with contextlib.suppress(BlockingIOError):
                count = stream.sendmsg(outgoing)
                while outgoing and count >= len(outgoing[0]):
                    count -= len(outgoing.pop(0))
                if outgoing:
                    outgoing[0] = outgoing[0][count:]

    def close(self) -> None:
        """Close all streams."""
        for stream in (self._listening, *self._streams.values()):
            stream.close()


class _Incoming:
    """An item on its way: its length first, then its bytes; nothing behind it is taken from the stream."""

    def __init__(self) -> None:
        self.complete = False
        self.item = bytearray(LENGTH.size)
        self._there = 0
        self._headed = False

    def receive(self, stream: socket.socket) -> None:
        count = stream.recv_into(memoryview(self.item)[self._there :])
        if not count:
            raise ConnectionResetError("it is gone (connection closed)")
        self._there += count
        if self._there == len(self.item) and not self._headed:
            self._headed, self._there = True, 0
            self.item = bytearray(LENGTH.unpack(self.item)[0])
        self.complete = self._headed and self._there == len(self.item)
