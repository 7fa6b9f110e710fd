"""The subfiles of an open file, and reads and writes of one small block.

A small block needs one message to each I/O node that has a part of it (`SmallCall`). Programs make
such calls by the thousand, so the functions here are written for speed.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from xxhash import xxh3_64_intdigest

from sfio_emu import wire
from sfio_emu.client.connection import MAX_SMALL_BYTES, Link, SmallCall, SmallRequest
from sfio_emu.client.session import OpenSubfile, Session
from sfio_emu.client.size_check import NO_END, WrittenSizes
from sfio_emu.client.transfer import note_written
from sfio_emu.layout.piece import Bytes, StripedPiece
from sfio_emu.layout.striping import MAX_OFFSET, Layout
from sfio_emu.names import SubfileName
from sfio_emu.ports import FreeTurns
from sfio_emu.settings import Settings, TransferCounters
from sfio_emu.wire import Kind, Malformed

# An upper limit of the bytes of a message, or of its answer, besides data and runs.
OVERHEAD_BYTES = 256

# Takes body and data of an answer.
Answered = Callable[[memoryview, memoryview], None]


def block_pieces(layout: Layout, offset: int, size: int) -> list[StripedPiece]:
    """Return the parts of one block, in the order of the subfiles.

    Args:
        layout: The layout of the file.
        offset: The offset of the block in the file, in bytes. Its offset in memory is 0.
        size: The size of the block in bytes.
    """
    count = layout.subfiles
    unit = layout.stripe_unit
    end = offset + size
    first = offset // unit
    last = (end - 1) // unit
    if first == last:
        # The most frequent case is a block inside one stripe unit.
        low = (first // count - first) * unit + offset
        return [StripedPiece(layout, first % count, low, low + size, -offset)]
    if last - first >= count:
        touched = list(range(count))
    else:
        touched = sorted({number % count for number in range(first, last + 1)})
    share = layout.share
    return [
        StripedPiece(layout, number, share(offset, number), share(end, number), -offset)
        for number in touched
    ]


def write_message(
    sequence: int, runs: bytes, data: Sequence[bytes | memoryview], *, checked: bool
) -> bytes:
    """Encode a complete WRITE.

    Args:
        sequence: The number of the message.
        runs: The encoded runs.
        data: The data of each run.
        checked: Whether to add a checksum of the data.
    """
    all_data = data[0] if len(data) == 1 else b"".join(data)
    head = wire.encode_head(Kind.WRITE, sequence, runs, len(all_data), checked=checked)
    parts = [head, runs, all_data]
    if checked:
        parts.append(wire.TRAILER.pack(xxh3_64_intdigest(all_data)))
    return b"".join(parts)


class HostPieces(NamedTuple):
    """The parts of a block on one connected host.

    Attributes:
        link: The connection.
        handles: The handle of each part's subfile.
        pieces: The parts.
    """

    link: Link
    handles: list[int]
    pieces: list[StripedPiece]

    @property
    def runs(self) -> bytes:
        """The encoded runs of the parts."""
        sizes = [piece.size for piece in self.pieces]
        return wire.encode_runs(self.handles, [piece.bounds[0] for piece in self.pieces], sizes)


class OpenSubfiles:
    """The subfiles of an open file, and the small calls on them.

    Attributes:
        subfiles: The names of the subfiles.
        layout: The layout of the file.
        session: The session.
        settings: The settings of the file; those of the session unless the file has its own.
        read_only: Whether the file is open for reading only.
        doubtful: Whether the subfiles may not have the sizes of one file, because they had not when
            the file was opened, or because a write or truncation has failed since.
        opened: The open subfiles.
        sizes: The last known size of each subfile.
        counters: The counters of this file.
        hosts: The numbers of the subfiles on each host.
    """

    def __init__(
        self,
        subfiles: Sequence[SubfileName],
        layout: Layout,
        session: Session,
        settings: Settings | None = None,
    ) -> None:
        self.subfiles = tuple(subfiles)
        self.layout = layout
        self.session = session
        self.settings = session.settings if settings is None else settings
        self.read_only = False
        self.doubtful = False
        self.opened: Sequence[OpenSubfile] = ()
        self.sizes = [0] * len(self.subfiles)
        self.counters = TransferCounters()
        self.hosts: dict[str, list[int]] = {}
        for number, subfile in enumerate(self.subfiles):
            self.hosts.setdefault(subfile.host, []).append(number)

    def count(self, counters: TransferCounters) -> None:
        """Add the counters of one call, successful or not, to those of the file and the session."""
        self.counters.add(counters)
        self.session.counters.add(counters)

    def is_small(self, offset: int, size: int) -> bool:
        """Return whether one message to each host is enough for a block, as `SmallCall` needs.

        The block must be small, fragments must be merged and combined, and the session must not
        order its transfers.
        """
        settings = self.settings
        return (
            0 < size <= min(MAX_SMALL_BYTES, settings.message_bytes - OVERHEAD_BYTES)
            and offset + size <= MAX_OFFSET
            and settings.merge
            and settings.combine
            and type(self.session.turns) is FreeTurns
        )

    def by_host(self, pieces: Sequence[StripedPiece], size: int) -> dict[str, HostPieces] | None:
        """Return the parts of a block by host.

        Args:
            pieces: The parts.
            size: The size of the block in bytes.

        Returns:
            None if a host must be connected first, a subfile must be opened first, or a host
            accepts no message of this size.
        """
        pieces_by_host: dict[str, HostPieces] = {}
        size += OVERHEAD_BYTES + wire.RUN_BYTES * len(pieces)
        for piece in pieces:
            host = self.subfiles[piece.subfile].host
            link = self.session.links.get(host)
            handle = None if link is None else link.handles.get(self.opened[piece.subfile].key)
            if link is None or handle is None or size > link.limit_bytes:
                return None
            entry = pieces_by_host.setdefault(host, HostPieces(link, [], []))
            entry.handles.append(handle)
            entry.pieces.append(piece)
        return pieces_by_host

    def write_small(self, memory: Bytes, hosts: Mapping[str, HostPieces]) -> WrittenSizes:
        """Write the parts of a block to all hosts at once.

        Args:
            memory: The block.
            hosts: Its parts.

        Returns:
            The sizes of the subfiles, as the hosts reported them.

        Raises:
            PeerError: The first error in the order of the hosts. All hosts have been served.
        """
        sizes = WrittenSizes()
        counters = TransferCounters()
        calls: dict[str, SmallCall] = {}
        for host, part in hosts.items():
            data = [_gathered(piece, memory) for piece in part.pieces]
            # The number is read once, because a signal handler may send further messages.
            sequence = part.link.next_sequence
            message = write_message(sequence, part.runs, data, checked=self.settings.check_data)
            request = SmallRequest(sequence, message, 0)
            finish = _finish_write(part.pieces, counters, sizes)
            calls[host] = SmallCall(host, part.link, request, finish, counters)
        self._converse(calls, hosts, counters)
        return sizes

    def read_small(self, memory: Bytes, hosts: Mapping[str, HostPieces]) -> int:
        """Read the parts of a block from all hosts at once.

        Args:
            memory: The memory for the block.
            hosts: Its parts.

        Returns:
            The offset of the first missing byte in the file; `NO_END` if none is missing.

        Raises:
            PeerError: The first error in the order of the hosts. All hosts have been served.
        """
        ends = [NO_END]
        counters = TransferCounters()
        checked = self.settings.check_reads
        calls: dict[str, SmallCall] = {}
        for host, part in hosts.items():
            runs = part.runs
            # The number is read once, because a signal handler may send further messages.
            sequence = part.link.next_sequence
            head = wire.encode_head(Kind.READ, sequence, runs, 0, checked=checked)
            data_bytes = sum(piece.size for piece in part.pieces)
            room_bytes = OVERHEAD_BYTES + 4 * len(part.pieces) + data_bytes
            request = SmallRequest(sequence, head + runs, room_bytes)
            finish = self._finish_read(part.pieces, memory, counters, ends)
            calls[host] = SmallCall(host, part.link, request, finish, counters)
        self._converse(calls, hosts, counters)
        return min(ends)

    def _finish_read(
        self,
        pieces: Sequence[StripedPiece],
        memory: Bytes,
        counters: TransferCounters,
        ends: list[int],
    ) -> Answered:
        """Return the function that takes the answer to a READ.

        Args:
            pieces: The parts of the block that are read.
            memory: The memory for the block.
            counters: Where the read is counted.
            ends: Receives the offset in the file of the first missing byte of each part.
        """

        def finish(body: memoryview, data: memoryview) -> None:
            disk_calls, encoded_counts = wire.decode_counts(body, len(pieces))
            counts = struct.unpack(f"<{len(pieces)}I", encoded_counts)
            if sum(counts) != len(data):
                raise Malformed(
                    f"{len(data)} bytes of data where {sum(counts)} are announced", fatal=True
                )
            if any(count > piece.size for count, piece in zip(counts, pieces, strict=True)):
                raise Malformed("more bytes of a run than were requested", fatal=True)
            counters.disk_calls += disk_calls
            counters.bytes_read += len(data)
            start = 0
            for piece, count in zip(pieces, counts, strict=True):
                _scatter(piece, memory, data[start : start + count])
                start += count
                if count < piece.size:
                    ends.append(self.layout.logical_offset(piece.subfile, piece.bounds[0] + count))

        return finish

    def _converse(
        self,
        calls: Mapping[str, SmallCall],
        hosts: Mapping[str, HostPieces],
        counters: TransferCounters,
    ) -> None:
        """Carry out the calls, count them, and raise the first error."""
        for part in hosts.values():
            counters.messages += 1
            counters.requests += len(part.pieces)
            counters.fragments += sum(piece.fragments for piece in part.pieces)
        try:
            faults = self.session.converse(calls)
        finally:
            self.count(counters)
        if faults:
            raise faults[0]


def _finish_write(
    pieces: Sequence[StripedPiece], counters: TransferCounters, sizes: WrittenSizes
) -> Answered:
    """Return the function that takes the answer to a WRITE of these parts."""
    ends = [(piece.subfile, piece.bounds[1]) for piece in pieces]
    return lambda body, data: note_written(body, ends, counters, sizes)


def _gathered(piece: StripedPiece, memory: Bytes) -> memoryview:
    """Return the data of a part of a block."""
    if piece.fragments == 1:
        return memory.data[piece.start : piece.start + piece.size]
    stream = np.empty(piece.size, dtype=np.uint8)
    piece.gather(memory, stream)
    return stream.data


def _scatter(piece: StripedPiece, memory: Bytes, data: memoryview) -> None:
    """Copy the first `len(data)` bytes of a part of a block to memory."""
    if piece.fragments == 1:
        memory.data[piece.start : piece.start + len(data)] = data
    elif len(data):
        piece.slice(0, len(data)).scatter(memory, np.frombuffer(data, dtype=np.uint8))
