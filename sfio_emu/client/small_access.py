"""The subfiles of an open file, and reads and writes of one small block of it: one message to each I/O node that holds
a part of the block (`SmallCall`)."""

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from xxhash import xxh3_64_intdigest

from sfio_emu import wire
from sfio_emu.client.connection import MAX_SMALL_BYTES, Link, SmallCall
from sfio_emu.client.session import OpenSubfile, Session
from sfio_emu.client.size_check import NO_END, WrittenSizes
from sfio_emu.client.transfer import note_written
from sfio_emu.layout.piece import Bytes, StripedPiece
from sfio_emu.layout.striping import MAX_OFFSET, Layout
from sfio_emu.names import SubfileName
from sfio_emu.ports import FreeTurns
from sfio_emu.settings import Settings, TransferCounters
from sfio_emu.wire import Kind, Malformed

OVERHEAD_BYTES = 256  # what a message and its answer hold besides data and runs, and more
Answered = Callable[[memoryview, memoryview], None]


def block_pieces(layout: Layout, offset: int, size: int) -> list[StripedPiece]:
    """The parts of `size` bytes at `offset` of the file that lie in the first bytes of memory, in the order of the
    subfiles."""
    count, unit, end = layout.subfiles, layout.stripe_unit, offset + size
    first, last = offset // unit, (end - 1) // unit
    if first == last:  # the usual case, quickly
        low = (first // count - first) * unit + offset
        return [StripedPiece(layout, first % count, low, low + size, -offset)]
    touched = (
        range(count)
        if last - first >= count
        else sorted({number % count for number in range(first, last + 1)})
    )
    share = layout.share
    return [
        StripedPiece(layout, number, share(offset, number), share(end, number), -offset)
        for number in touched
    ]


def write_message(
    sequence: int, runs: bytes, data: Sequence[bytes | memoryview], *, checked: bool
) -> bytes:
    """A WRITE in one piece."""
    whole = data[0] if len(data) == 1 else b"".join(data)
    head = wire.encode_head(Kind.WRITE, sequence, runs, len(whole), checked=checked)
    return b"".join(
        (head, runs, whole, wire.TRAILER.pack(xxh3_64_intdigest(whole)) if checked else b"")
    )


class HostPieces(NamedTuple):
    """A host that is connected, the handles of its subfiles that have a part of the block, and the parts."""

    link: Link
    handles: list[int]
    pieces: list[StripedPiece]

    @property
    def runs(self) -> bytes:
        sizes = [piece.size for piece in self.pieces]
        return wire.encode_runs(self.handles, [piece.bounds[0] for piece in self.pieces], sizes)


class OpenSubfiles:
    """What an open file is made of, and the small calls on it. `settings` are the session's unless the file has its
    own."""

    def __init__(
        self,
        subfiles: Sequence[SubfileName],
        layout: Layout,
        session: Session,
        settings: Settings | None = None,
    ) -> None:
        self.subfiles, self.layout, self.session = tuple(subfiles), layout, session
        self.settings = session.settings if settings is None else settings
        self.read_only = self.doubtful = False
        self.opened: Sequence[OpenSubfile] = ()
        self.sizes = [0] * len(self.subfiles)
        self.counters = TransferCounters()
        self.hosts: dict[str, list[int]] = {}
        for number, subfile in enumerate(self.subfiles):
            self.hosts.setdefault(subfile.host, []).append(number)

    def count(self, counters: TransferCounters) -> None:
        """Add what one call has counted, however it ended, to what the file and the session have."""
        self.counters.add(counters)
        self.session.counters.add(counters)

    def is_small(self, offset: int, size: int) -> bool:
        """Whether a block of `size` bytes goes in one message to each host, and nobody orders the hosts."""
        settings = self.settings
        return (
            0 < size <= min(MAX_SMALL_BYTES, settings.message_bytes - OVERHEAD_BYTES)
            and offset + size <= MAX_OFFSET
            and settings.merge
            and settings.combine
            and type(self.session.turns) is FreeTurns
        )

    def by_host(self, pieces: Sequence[StripedPiece], size: int) -> dict[str, HostPieces] | None:
        """The hosts of the parts of a block; None where one of them must be connected, or a subfile opened, first."""
        found: dict[str, HostPieces] = {}
        size += OVERHEAD_BYTES + wire.RUN_BYTES * len(pieces)
        for piece in pieces:
            host = self.subfiles[piece.subfile].host
            link = self.session.links.get(host)
            handle = None if link is None else link.handles.get(self.opened[piece.subfile].key)
            if link is None or handle is None or size > link.limit_bytes:
                return None
            entry = found.setdefault(host, HostPieces(link, [], []))
            entry.handles.append(handle)
            entry.pieces.append(piece)
        return found

    def write_small(self, memory: Bytes, hosts: Mapping[str, HostPieces]) -> WrittenSizes:
        """Write a block to the hosts that hold its parts, all at once; what they said of the sizes of its subfiles.

        Raises the first fault in the order of hosts when all hosts are served.
        """
        sizes, counters = WrittenSizes(), TransferCounters()
        calls: dict[str, SmallCall] = {}
        for host, one in hosts.items():
            data = [_gathered(piece, memory) for piece in one.pieces]
            sequence = one.link.next_sequence  # read once: a handler of a signal may send more
            message = write_message(sequence, one.runs, data, checked=self.settings.check_data)
            finish = _note_written(one.pieces, counters, sizes)
            calls[host] = SmallCall(host, one.link, (sequence, message), 0, finish, counters)
        self._converse(calls, hosts, counters)
        return sizes

    def read_small(self, memory: Bytes, hosts: Mapping[str, HostPieces]) -> int:
        """Read a block from the hosts that hold its parts; where the first byte of the file lies that is missing
        (`NO_END`: none).

        Raises the first fault in the order of hosts when all hosts are served.
        """
        ends, counters = [NO_END], TransferCounters()
        calls: dict[str, SmallCall] = {}
        for host, one in hosts.items():
            runs, checked, sequence = one.runs, self.settings.check_reads, one.link.next_sequence
            head = wire.encode_head(Kind.READ, sequence, runs, 0, checked=checked)
            finish = self._note_read(one.pieces, memory, counters, ends)
            room = OVERHEAD_BYTES + 4 * len(one.pieces) + sum([piece.size for piece in one.pieces])
            calls[host] = SmallCall(host, one.link, (sequence, head + runs), room, finish, counters)
        self._converse(calls, hosts, counters)
        return min(ends)

    def _note_read(
        self,
        pieces: Sequence[StripedPiece],
        memory: Bytes,
        counters: TransferCounters,
        ends: list[int],
    ) -> Answered:
        def finish(body: memoryview, data: memoryview) -> None:
            disk_calls, found = wire.decode_counts(body, len(pieces))
            counts = struct.unpack(f"<{len(pieces)}I", found)
            if sum(counts) != len(data):
                raise Malformed(
                    f"{len(data)} bytes of data where {sum(counts)} are announced", fatal=True
                )
            if any(count > piece.size for count, piece in zip(counts, pieces, strict=True)):
                raise Malformed("more bytes of a run than were requested", fatal=True)
            counters.disk_calls += disk_calls
            counters.bytes_read += len(data)
            place = 0
            for piece, count in zip(pieces, counts, strict=True):
                _scatter(piece, memory, data[place : place + count])
                place += count
                if count < piece.size:
                    ends.append(self.layout.logical_offset(piece.subfile, piece.bounds[0] + count))

        return finish

    def _converse(
        self,
        calls: Mapping[str, SmallCall],
        hosts: Mapping[str, HostPieces],
        counters: TransferCounters,
    ) -> None:
        for one in hosts.values():
            counters.messages += 1
            counters.requests += len(one.pieces)
            counters.fragments += sum([piece.fragments for piece in one.pieces])
        try:
            faults = self.session.converse(calls)
        finally:
            self.count(counters)
        if faults:
            raise faults[0]


def _note_written(
    pieces: Sequence[StripedPiece], counters: TransferCounters, sizes: WrittenSizes
) -> Answered:
    ends = [(piece.subfile, piece.bounds[1]) for piece in pieces]
    return lambda body, data: note_written(body, ends, counters, sizes)


def _gathered(piece: StripedPiece, memory: Bytes) -> memoryview:
    """The data of a part of a block."""
    if piece.fragments == 1:
        return memory.data[piece.start : piece.start + piece.size]
    stream = np.empty(piece.size, dtype=np.uint8)
    piece.gather(memory, stream)
    return stream.data


def _scatter(piece: StripedPiece, memory: Bytes, data: memoryview) -> None:
    """Put the first `len(data)` bytes of a part of a block in their places."""
    if piece.fragments == 1:
        memory.data[piece.start : piece.start + len(data)] = data
    elif len(data):
        piece.slice(0, len(data)).scatter(memory, np.frombuffer(data, dtype=np.uint8))
