"""Reads and writes of one small block of a file: one message to each I/O node that holds a part of it
(`small_calls`)."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from sfio_emu import message_bodies, wire
from sfio_emu.client.session import Link, OpenSubfile, Session
from sfio_emu.client.size_check import NO_END, WrittenSizes
from sfio_emu.client.small_calls import (
    MAX_SMALL_BYTES,
    OVERHEAD_BYTES,
    BlockPart,
    SmallCall,
    gathered,
    scatter,
    write_message,
)
from sfio_emu.layout.piece import Bytes
from sfio_emu.layout.striping import MAX_OFFSET, Layout
from sfio_emu.names import SubfileName
from sfio_emu.ports import FreeTurns
from sfio_emu.settings import Settings, TransferCounters
from sfio_emu.wire import Kind, Malformed


class OpenSubfiles(Protocol):
    """The subfiles of an open file, as `Access` has them."""

    subfiles: tuple[SubfileName, ...]
    layout: Layout
    session: Session
    settings: Settings
    opened: Sequence[OpenSubfile]
    counters: TransferCounters
    hosts: dict[str, list[int]]


class HostParts(NamedTuple):
    """A host that is connected, the handles of its subfiles that have a part, and the parts."""

    link: Link
    handles: Sequence[int]
    parts: Sequence[BlockPart]

    @property
    def runs(self) -> bytes:
        parts = self.parts
        return wire.encode_runs(self.handles, [part.low for part in parts], [part.high - part.low for part in parts])


def is_small(access: OpenSubfiles, offset: int, size: int) -> bool:
    """Whether a block of `size` bytes goes in one message to each host, and nobody orders the hosts."""
    settings = access.settings
    return (
        0 < size <= min(MAX_SMALL_BYTES, settings.message_bytes - OVERHEAD_BYTES)
        and offset + size <= MAX_OFFSET
        and settings.merge
        and settings.combine
        and type(access.session.turns) is FreeTurns
    )


def host_parts(access: OpenSubfiles, parts: Sequence[BlockPart], size: int) -> dict[str, HostParts] | None:
    """The hosts of the parts in their order; None where one of them must be connected, or a subfile opened, first."""
    found: dict[str, HostParts] = {}
    for host, numbers in _by_host(access, parts).items():
        link = access.session.live(host)
        if link is None or size + OVERHEAD_BYTES + wire.RUN_BYTES * len(numbers) > link.limit_bytes:
            return None
        handles = [link.handles.get(access.opened[part.subfile].key) for part in numbers]
        known = [handle for handle in handles if handle is not None]
        if len(known) < len(handles):
            return None
        found[host] = HostParts(link, known, numbers)
    return found


def _by_host(access: OpenSubfiles, parts: Sequence[BlockPart]) -> Mapping[str, Sequence[BlockPart]]:
    if len(parts) == 1:
        return {access.subfiles[parts[0].subfile].host: parts}
    by_host: dict[str, list[BlockPart]] = {host: [] for host in access.hosts}
    for part in parts:
        by_host[access.subfiles[part.subfile].host].append(part)
    return {host: some for host, some in by_host.items() if some}


def write_small(access: OpenSubfiles, memory: Bytes, offset: int, hosts: Mapping[str, HostParts]) -> WrittenSizes:
    """Write a block to the hosts that hold its parts, all at once; what they said of the sizes of its subfiles.

    Raises the first fault in the order of hosts when all hosts are served.
    """
    sizes, counters = WrittenSizes(), TransferCounters()
    calls: dict[str, SmallCall] = {}
    for host, (link, handles, parts) in hosts.items():
        data = [gathered(access.layout, part, memory, offset) for part in parts]
        runs = hosts[host].runs
        message = write_message(link.next_sequence, runs, data, checked=access.settings.check_data)
        finish = _note_written(parts, sizes, counters)
        calls[host] = SmallCall(host, link.next_sequence, message, 0, finish, counters)
        calls[host].path = _paths(access, handles, parts)
    _carry(access, calls, hosts, counters)
    return sizes


def _note_written(
    parts: Sequence[BlockPart], sizes: WrittenSizes, counters: TransferCounters
) -> Callable[[memoryview, memoryview], None]:
    def finish(body: memoryview, data: memoryview) -> None:
        written = message_bodies.decode_written(body, len(parts))
        counters.disk_calls += written.disk_calls
        counters.bytes_written += written.written_bytes
        sizes.note_answer([part.subfile for part in parts], written)
        sizes.record_end((part.subfile, part.high) for part in parts)

    return finish


def read_small(access: OpenSubfiles, memory: Bytes, offset: int, hosts: Mapping[str, HostParts]) -> int:
    """Read a block from the hosts that hold its parts; where the first byte of the file lies that is missing (`NO_END`:
    none).

    Raises the first fault in the order of hosts when all hosts are served.
    """
    counters, end = TransferCounters(), [NO_END]
    calls: dict[str, SmallCall] = {}
    for host, (link, handles, parts) in hosts.items():
        runs = hosts[host].runs
        head = wire.encode_head(Kind.READ, link.next_sequence, runs, 0, checked=access.settings.check_reads)
        finish = _note_read(access.layout, parts, memory, offset, (counters, end))
        room = OVERHEAD_BYTES + 4 * len(parts) + sum(part.size for part in parts)
        calls[host] = SmallCall(host, link.next_sequence, head + runs, room, finish, counters)
        calls[host].path = _paths(access, handles, parts)
    _carry(access, calls, hosts, counters)
    return end[0]


def _note_read(
    layout: Layout, parts: Sequence[BlockPart], memory: Bytes, offset: int, notes: tuple[TransferCounters, list[int]]
) -> Callable[[memoryview, memoryview], None]:
    counters, end = notes

    def finish(body: memoryview, data: memoryview) -> None:
        disk_calls, counts = wire.decode_counts(body, len(parts))
        if sum(counts) != len(data):
            raise Malformed(f"{len(data)} bytes of data where {sum(counts)} are announced", fatal=True)
        if any(count > part.size for count, part in zip(counts, parts, strict=True)):
            raise Malformed("more bytes of a run than were requested", fatal=True)
        counters.disk_calls += disk_calls
        counters.bytes_read += len(data)
        place = 0
        for part, count in zip(parts, counts, strict=True):
            scatter(layout, part, memory, offset, data[place : place + count])
            place += count
            if count < part.size:
                end[0] = min(end[0], layout.logical_offset(part.subfile, part.low + count))

    return finish


def _paths(access: OpenSubfiles, handles: Sequence[int], parts: Sequence[BlockPart]) -> Callable[[int], str]:
    def path(handle: int) -> str:
        for known, part in zip(handles, parts, strict=True):
            if known == handle:
                return access.subfiles[part.subfile].path
        return "its subfiles"

    return path


def _carry(
    access: OpenSubfiles, calls: Mapping[str, SmallCall], hosts: Mapping[str, HostParts], counters: TransferCounters
) -> None:
    unit = access.layout.stripe_unit
    try:
        faults = access.session.converse(calls)
        if faults:
            raise faults[0]
    finally:
        for reached_ in hosts.values():
            counters.messages += 1
            counters.requests += len(reached_.parts)
            for part in reached_.parts:
                counters.fragments += 1 if part.place is not None else (part.high - 1) // unit - part.low // unit + 1
            counters.copies["strided"] += 1
        access.counters.add(counters)
        access.session.counters.add(counters)
