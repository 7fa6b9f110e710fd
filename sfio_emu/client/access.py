"""Reads and writes of a file's bytes: requests prepared, split over the I/O nodes, moved, their faults gathered.
A block in one message to each I/O node, and the plain way (one message a fragment) that it is compared with."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np

from sfio_emu import message_bodies, wire
from sfio_emu.client.connection import Message
from sfio_emu.client.session import OpenSubfile, Result, Session, answered
from sfio_emu.client.size_check import NO_END, WrittenSizes, fit_one_file, min_size, possibly_short_subfiles
from sfio_emu.client.small_access import host_parts, is_small, read_small, write_small
from sfio_emu.client.small_calls import BlockPart, block_parts
from sfio_emu.client.transfer import Call, HostTransfer, Job, pack
from sfio_emu.errors import SfioError
from sfio_emu.layout.piece import Bytes, Piece
from sfio_emu.layout.piece_builder import pieces_of, regular_pieces
from sfio_emu.layout.requests import Requests, make_requests, prepare
from sfio_emu.layout.striping import Layout
from sfio_emu.names import SubfileName
from sfio_emu.ports import Direction
from sfio_emu.settings import Settings, TransferCounters
from sfio_emu.wire import Kind

MAX_LOOKS = 16
PIPELINED_BYTES = (1 << 20) + 4096
Messages = Callable[[str], Iterator[Message]]
"""The messages of a call to a host."""


class Access:
    """The subfiles of an open file as seen by one process; `settings` are the session's unless the file has its own.

    Whoever writes past the end of the file makes the subfiles it does not touch as long as they are in a file that
    reaches so far: the sum of their sizes is always its size. `sizes`, what the subfiles were last seen to hold, only
    says what to send at once; what the listeners answer says whether it was enough (`sfio_emu.client.size_check`).
    `doubtful`: the subfiles did not have the sizes of one file when it was opened, or a write failed since.
    """

    def __init__(
        self, subfiles: Sequence[SubfileName], layout: Layout, session: Session, settings: Settings | None = None
    ) -> None:
        self.subfiles, self.layout, self.session = tuple(subfiles), layout, session
        self.settings = session.settings if settings is None else settings
        self.read_only = self.doubtful = False
        self.opened: Sequence[OpenSubfile] = ()
        self.counters = TransferCounters()
        self.sizes = [0] * len(self.subfiles)
        self.hosts: dict[str, list[int]] = {}
        for number, subfile in enumerate(self.subfiles):
            self.hosts.setdefault(subfile.host, []).append(number)

    def write(self, memory: Bytes, requests: Requests) -> None:
        """Write the blocks; raises the first fault in the order of hosts when all hosts are served."""
        if len(requests):
            job = self.job("write", memory, requests)
            self.carry("write", [job])
            if job.fault is not None:
                raise job.fault

    def read(self, memory: Bytes, requests: Requests) -> int:
        """Read the blocks; where the first byte of the file lies that is missing (`NO_END`: none)."""
        if not len(requests):
            return NO_END
        job = self.job("read", memory, requests)
        self.carry("read", [job])
        if job.fault is not None:
            raise job.fault
        return job.end[0]

    def write_block(self, memory: Bytes, offset: int) -> None:
        """Write one block, all of `memory`."""
        try:
            small = self._write_small(memory, offset)
        except SfioError:
            self.doubtful = True
            raise
        if not small:
            self.write(memory, make_requests([offset], [0], [len(memory)]))

    def read_block(self, memory: Bytes, offset: int) -> int:
        """Read one block, all of `memory`; where the first byte of the file lies that is missing (`NO_END`: none)."""
        end = self._read_small(memory, offset)
        return self.read(memory, make_requests([offset], [0], [len(memory)])) if end is None else end

    def _write_small(self, memory: Bytes, offset: int) -> bool:
        """Write one small block, unless it makes subfiles longer on which it has no part; whether that was done."""
        size = len(memory)
        if not is_small(self, offset, size):
            return False
        with self.session.guard:
            parts = block_parts(self.layout, offset, size)
            hosts = host_parts(self, parts, size)
            first = parts[0]
            inside = len(parts) == 1 and self.sizes[first.subfile] >= first.high
            if hosts is None or not (inside or self._needs_no_other(parts, offset + size)):
                return False
            sizes = write_small(self, memory, offset, hosts)
            if not (inside and sizes.before[first.subfile] == self.sizes[first.subfile]):
                self._settle(offset + size, sizes)
            return True

    def _needs_no_other(self, parts: Sequence[BlockPart], end: int) -> bool:
        """Whether, by what was last seen, a write up to `end` leaves no subfile too short on which it has no part."""
        shares = [0] * len(self.subfiles)
        for part in parts:
            shares[part.subfile] = part.size
        due = possibly_short_subfiles(self.layout, end, self._seen(shares))
        return all(shares[number] for number in due)

    def _read_small(self, memory: Bytes, offset: int) -> int | None:
        """Read one small block; where the first missing byte of the file lies. None where it is not small."""
        size = len(memory)
        if not is_small(self, offset, size):
            return None
        with self.session.guard:
            hosts = host_parts(self, block_parts(self.layout, offset, size), size)
            return None if hosts is None else read_small(self, memory, offset, hosts)

    def job(self, direction: Direction, memory: Bytes, requests: Requests) -> Job:
        """One read or write to be carried out, alone or with others."""
        return Job(memory, prepare(requests, self.settings, writing=direction == "write"))

    def carry(self, direction: Direction, jobs: Sequence[Job], part_of: WrittenSizes | None = None) -> None:
        """Carry out reads, or writes, in their order, their messages one behind the other over the windows of all
        hosts.

        A job that could not be carried out has a `fault`: the first in the order of hosts when all hosts are served.
        `part_of`: what the answers say, of a write that others follow before the sizes of the subfiles are looked at.
        """
        settings, alone = self.settings, len(jobs) == 1
        with self._counted() as counters:
            sizes, extends = part_of or WrittenSizes(), direction == "write" and part_of is None
            calls = [Call(job.memory, settings, counters, sizes) for job in jobs]
            shares = [self._shares(job.requests) for job in jobs]
            due: set[int] = set()
            for job, share in zip(jobs, shares, strict=True) if extends else ():
                job.due = possibly_short_subfiles(self.layout, job.requests.end, self._seen(share))
                due |= set(job.due)
            if not alone:
                for job, share in zip(jobs, shares, strict=True):
                    job.expect(
                        host for host, numbers in self.hosts.items() if any(share[n] or n in job.due for n in numbers)
                    )

            def messages(host: str) -> Iterator[Message]:
                for job, call in zip(jobs, calls, strict=True):
                    made = self._messages(direction, host, job, call)
                    yield from made if alone else job.watched(host, made)

            all_shares = shares[0] if alone else [sum(each) for each in zip(*shares, strict=True)]
            try:
                self._transfer(calls[0], messages, all_shares, direction, also=due)
                if extends:
                    self._settle(max(job.requests.end for job in jobs), sizes)
            except SfioError as fault:
                for job in [job for job in jobs if job.unfinished] or jobs:
                    job.fault = fault
        for job in jobs:
            for source, target, size in job.copies:
                job.memory[target : target + size] = job.memory[source : source + size]

    def _messages(self, direction: Direction, host: str, job: Job, call: Call) -> Iterator[Message]:
        pieces = self._pieces(host, job.requests, merge=self.settings.merge)
        limit_bytes = self._limit_bytes(host, job.requests.total_bytes // len(self.hosts))
        if direction == "write":
            return self._write_messages(host, call, pieces, limit_bytes, job.due)
        return self._read_messages(host, call, pieces, limit_bytes, job.end)

    def write_fragments(self, memory: Bytes, offset: int) -> None:
        """Write a block as one message, one answer and one call of the disk for each fragment."""
        sizes = WrittenSizes()
        with self.session.guard:
            for part in self.layout.fragments(offset, len(memory)):
                job = self.job("write", memory, make_requests([part.offset], [part.offset - offset], [part.size]))
                self.carry("write", [job], sizes)
                if job.fault is not None:
                    raise job.fault
            if len(memory):
                self._settle(offset + len(memory), sizes)

    def read_fragments(self, memory: Bytes, offset: int) -> int:
        """Read a block fragment by fragment, as far as the file goes; where the first missing byte lies."""
        with self.session.guard:
            for part in self.layout.fragments(offset, len(memory)):
                end = self.read_block(memory[part.offset - offset :][: part.size], part.offset)
                if end != NO_END:
                    return end
        return NO_END

    def ask_each(
        self, kind: Kind, body: Callable[[int, int], bytes], answer: Callable[[memoryview], Result]
    ) -> list[Result]:
        """What `answer` reads of each subfile, queried by a message with the body made for (its number, its handle)."""
        handles = [self.session.handle(one) for one in self.opened]
        questions = [(one.name, kind, body(number, handles[number])) for number, one in enumerate(self.opened)]
        return answered(self.session.ask_each(questions, answer))

    @contextmanager
    def _counted(self) -> Iterator[TransferCounters]:
        """The turn of one call, and its counters, added to those of the file and of the session however it ends."""
        counters = TransferCounters()
        with self.session.guard:
            try:
                yield counters
            finally:
                self.counters.add(counters)
                self.session.counters.add(counters)

    def ask_sizes(self) -> list[int]:
        """How long the subfiles are now."""
        read = partial(message_bodies.unpack, message_bodies.SIZE_ANSWER)
        self.sizes = [
            size for (size,) in self.ask_each(Kind.SIZE, lambda _, handle: message_bodies.HANDLE.pack(handle), read)
        ]
        return self.sizes

    def fit(self, end: int = 0) -> None:
        """Make the subfiles those of one file again, of at least `end` bytes: none is shorter than in a file as long as
        the longest of them says. What others change meanwhile is looked at again."""
        for _ in range(MAX_LOOKS):
            if end:
                self.ask_each(Kind.WRITE, partial(_ensuring, self.layout.subfile_sizes(end)), bytes)
            sizes = dict(enumerate(self.ask_sizes()))
            end = min_size(self.layout, sizes)
            if fit_one_file(self.layout, sizes):
                return

    def _seen(self, shares: Sequence[int]) -> WrittenSizes:
        """What was last seen of the subfiles that a call writes to, as if it had been answered already."""
        seen = WrittenSizes()
        touched = [number for number, share in enumerate(shares) if share]
        seen.note_before(touched, [self.sizes[number] for number in touched])
        return seen

    def _settle(self, end: int, sizes: WrittenSizes) -> None:
        """After a write up to `end`: where a subfile may be too short, let it grow.

        A write between whose parts somebody has truncated the file looks again.
        """
        least = min_size(self.layout, sizes.before)
        if possibly_short_subfiles(self.layout, end, sizes):
            self.fit(end)
        elif sizes.torn or (least < end and not sizes.of_one_time):
            self.fit()
        else:
            self.sizes = list(self.layout.subfile_sizes(max(end, least)))

    def _pieces(self, host: str, requests: Requests, *, merge: bool) -> Iterator[Piece]:
        for number in self.hosts[host]:
            yield from pieces_of(requests, self.layout, number, merge=merge)

    def _host_transfer(self, host: str, call: Call, *, checked: bool) -> HostTransfer:
        handles = self._handles(host)

        def path(handle: int) -> str:
            return next((self.subfiles[number].path for number in handles if handles[number] == handle), "its subfiles")

        return HostTransfer(
            memory=call.memory, handles=handles, stage=self.session.link(host).stage, counters=call.counters,
            merge=call.settings.merge, checked=checked,
            path=path,
        )  # fmt: skip

    def _write_messages(
        self, host: str, call: Call, pieces: Iterable[Piece], limit_bytes: int, due: Mapping[int, int]
    ) -> Iterator[Message]:
        """The messages for a host; the last one also makes its subfiles as long as they must be."""
        transfer = self._host_transfer(host, call, checked=call.settings.check_data)
        reached = dict.fromkeys(self.hosts[host], 0)
        room = limit_bytes - wire.STRIDED_BYTES * (len(reached) + 1)
        waiting: list[Piece] = []
        for packed in pack(pieces, room, combine=call.settings.combine):
            if waiting:
                yield transfer.write(waiting, sizes=call.sizes)
            waiting = packed
            for piece in packed:
                reached[piece.subfile] = max(reached[piece.subfile], piece.bounds[1])
        ensured = [(number, due[number]) for number in reached if due.get(number, 0) > reached[number]]
        if waiting or ensured:
            yield transfer.write(waiting, ensured, call.sizes)

    def _read_messages(
        self, host: str, call: Call, pieces: Iterable[Piece], limit_bytes: int, end: list[int]
    ) -> Iterator[Message]:
        transfer = self._host_transfer(host, call, checked=call.settings.check_reads)
        for packed in pack(pieces, limit_bytes, combine=call.settings.combine):
            yield transfer.read(packed, self._ends_at(end))

    def _ends_at(self, end: list[int]) -> Callable[[int, int], None]:
        def note(subfile: int, place: int) -> None:
            end[0] = min(end[0], self.layout.logical_offset(subfile, place))

        return note

    def _shares(self, requests: Requests) -> list[int]:
        """Bytes of the requests on each subfile."""
        unit, count = self.layout.stripe_unit, len(self.subfiles)
        if len(requests) == 1:
            low, size = int(requests.offsets[0]), int(requests.sizes[0])
            starts, ends = self.layout.subfile_sizes(low), self.layout.subfile_sizes(low + size)
            return [end - start for start, end in zip(starts, ends, strict=True)]
        regular = [regular_pieces(requests, self.layout, number) for number in range(count)]
        if None not in regular:
            return [sum(piece.size for piece in pieces or ()) for pieces in regular]
        before = np.divmod(requests.offsets, unit * count)
        after = np.divmod(requests.offsets + requests.sizes, unit * count)
        whole = int((after[0] - before[0]).sum()) * unit
        return [
            whole + int((np.clip(after[1] - n * unit, 0, unit) - np.clip(before[1] - n * unit, 0, unit)).sum())
            for n in range(count)
        ]

    def _limit_bytes(self, host: str, share_bytes: int) -> int:
        """Of a message: no more than a quarter of a long call, so that network and disk work at the same time."""
        most = min(self.session.link(host).limit_bytes, self.settings.message_bytes)
        return min(most, max(PIPELINED_BYTES, share_bytes // 4))

    def _handles(self, host: str) -> dict[int, int]:
        return {number: self.session.handle(self.opened[number]) for number in self.hosts[host]}

    def _transfer(
        self, call: Call, messages: Messages, shares: Sequence[int], direction: Direction,
        also: Collection[int] = (),
    ) -> None:  # fmt: skip
        """Exchange the messages with the hosts that have a share, or a subfile in `also`; raises the first fault.

        `shares`: the bytes of the call on each subfile.
        """
        hosts: dict[str, Callable[[], Iterator[Message]]] = {}
        sizes: dict[str, int] = {}
        faults: list[SfioError] = []
        for host, numbers in self.hosts.items():
            if any(shares[number] or number in also for number in numbers):
                try:
                    self._handles(host)
                except SfioError as fault:
                    faults.append(fault)
                    continue
                hosts[host] = partial(messages, host)
                sizes[host] = sum(shares[number] for number in numbers)
        if hosts:
            faults += self.session.transfer(hosts, sizes, direction, call.counters, call.settings)
        if faults:
            self.doubtful |= direction == "write"
            raise faults[0]


def _ensuring(sizes: Sequence[int], number: int, handle: int) -> bytes:
    """The body of a WRITE that makes a subfile at least as long as its place in `sizes` says."""
    return wire.encode_runs([handle], [sizes[number]], [0])
