"""Reads and writes of a file's bytes: requests prepared, split over the I/O nodes, moved, their faults gathered.
A block in one message to each I/O node, and the plain way (one message a fragment) that it is compared with."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain

import numpy as np

from sfio_emu import message_bodies, wire
from sfio_emu.client.connection import Link, Message
from sfio_emu.client.session import Result, answered
from sfio_emu.client.size_check import (
    NO_END,
    WrittenSizes,
    fit_one_file,
    min_size,
    possibly_short_subfiles,
)
from sfio_emu.client.small_access import OpenSubfiles, block_pieces
from sfio_emu.client.transfer import HostTransfer, Job
from sfio_emu.errors import SfioError
from sfio_emu.layout.piece import Bytes, Piece, pieces_of, regular_pieces
from sfio_emu.layout.requests import Requests, make_requests, prepare
from sfio_emu.ports import Direction
from sfio_emu.settings import TransferCounters
from sfio_emu.wire import Kind

MAX_LOOKS = 16
PIPELINED_BYTES = (1 << 20) + 4096
Messages = Callable[[str], Iterator[Message]]
"""The messages of a call to a host."""


class Access(OpenSubfiles):
    """The subfiles of an open file as seen by one process.

    Whoever writes past the end of the file makes the subfiles it does not touch as long as they are in a file that
    reaches so far: the sum of their sizes is always its size. `sizes`, what the subfiles were last seen to hold, only
    says what to send at once; what the listeners answer says whether it was enough (`sfio_emu.client.size_check`).
    `doubtful`: the subfiles did not have the sizes of one file when it was opened, or a write or truncation did not end
    well since.
    """

    def write(self, memory: Bytes, requests: Requests) -> None:
        """Write the blocks; raises the first fault in the order of hosts when all hosts are served."""
        self._carry_one("write", memory, requests)

    def read(self, memory: Bytes, requests: Requests) -> int:
        """Read the blocks; where the first byte of the file lies that is missing (`NO_END`: none)."""
        return self._carry_one("read", memory, requests).end

    def _carry_one(
        self,
        direction: Direction,
        memory: Bytes,
        requests: Requests,
        part_of: WrittenSizes | None = None,
    ) -> Job:
        job = self.job(direction, memory, requests)
        if len(requests):
            self.carry(direction, [job], part_of)
        if job.fault is not None:
            raise job.fault
        return job

    def write_block(self, memory: Bytes, offset: int) -> None:
        """Write one block, all of `memory`."""
        try:
            small = self._write_small(memory, offset)
        except BaseException:
            self.doubtful = True
            raise
        if not small:
            self.write(memory, make_requests([offset], [0], [len(memory)]))

    def read_block(self, memory: Bytes, offset: int) -> int:
        """Read one block, all of `memory`; where the first byte of the file lies that is missing (`NO_END`: none)."""
        size = len(memory)
        with self.session.guard:
            if self.is_small(offset, size):
                hosts = self.by_host(block_pieces(self.layout, offset, size), size)
                if hosts is not None:
                    return self.read_small(memory, hosts)
            return self.read(memory, make_requests([offset], [0], [size]))

    def _write_small(self, memory: Bytes, offset: int) -> bool:
        """Write one small block, unless it makes subfiles longer on which it has no part; whether that was done."""
        size = len(memory)
        if not self.is_small(offset, size):
            return False
        with self.session.guard:
            pieces = block_pieces(self.layout, offset, size)
            hosts = self.by_host(pieces, size)
            first = pieces[0].subfile
            inside = len(pieces) == 1 and self.sizes[first] >= pieces[0].bounds[1]
            if hosts is None or not (inside or self._needs_no_other(pieces, offset + size)):
                return False
            sizes = self.write_small(memory, hosts)
            if not (inside and sizes.before[first] == self.sizes[first]):
                self._settle(offset + size, sizes)
            return True

    def _needs_no_other(self, pieces: Sequence[Piece], end: int) -> bool:
        """Whether, by what was last seen, a write up to `end` leaves no subfile too short on which it has no part."""
        shares = [0] * len(self.subfiles)
        for piece in pieces:
            shares[piece.subfile] = piece.size
        due = possibly_short_subfiles(self.layout, end, self._seen(shares))
        return all(shares[number] for number in due)

    def job(self, direction: Direction, memory: Bytes, requests: Requests) -> Job:
        """One read or write to be carried out, alone or with others."""
        return Job(
            memory, prepare(requests, self.settings, writing=direction == "write"), self.layout
        )

    def carry(
        self, direction: Direction, jobs: Sequence[Job], part_of: WrittenSizes | None = None
    ) -> None:
        """Carry out reads, or writes, in their order, their messages one behind the other over the windows of all
        hosts.

        A job that could not be carried out has a `fault`: the first in the order of hosts when all hosts are served.
        `part_of`: what the answers say, of a write that others follow before the sizes of the subfiles are looked at.
        """
        with self.session.guard:
            sizes, counters = part_of or WrittenSizes(), TransferCounters()
            extends = direction == "write" and part_of is None
            shares = [self._shares(job.requests) for job in jobs]
            for job, share in zip(jobs, shares, strict=True):
                job.sizes, job.counters = sizes, counters
                if extends:
                    job.due = possibly_short_subfiles(
                        self.layout, job.requests.end, self._seen(share)
                    )
                job.expect(
                    host
                    for host, own in self.hosts.items()
                    if any(share[n] or n in job.due for n in own)
                )

            def messages(host: str) -> Iterator[Message]:
                link, handles = (
                    self.session.link(host),
                    self._handles(host),
                )  # not those of a call in the middle of it
                each = [
                    job.watched(host, self._messages(direction, host, job, link, handles))
                    for job in jobs
                ]
                return chain.from_iterable(each)

            try:
                due = {number for job in jobs for number in job.due}
                self._transfer(
                    messages,
                    [sum(each) for each in zip(*shares, strict=True)],
                    direction,
                    due,
                    counters,
                )
                if extends:
                    self._settle(max(job.requests.end for job in jobs), sizes)
            except BaseException as fault:  # a program that is interrupted may go on too
                self.doubtful |= direction == "write"
                if not isinstance(fault, SfioError):
                    raise
                for job in [job for job in jobs if job.unfinished] or jobs:
                    job.fault = fault
            finally:
                self.count(counters)
        for job in jobs:
            for source, target, size in job.copies:
                job.memory[target : target + size] = job.memory[source : source + size]

    def _messages(
        self, direction: Direction, host: str, job: Job, link: Link, handles: Mapping[int, int]
    ) -> Iterator[Message]:
        settings, writing = self.settings, direction == "write"
        transfer = HostTransfer(
            job=job, handles=handles, link=link, merge=settings.merge, combine=settings.combine,
            checked=settings.check_data if writing else settings.check_reads,
        )  # fmt: skip
        pieces = (
            piece
            for number in self.hosts[host]
            for piece in pieces_of(job.requests, self.layout, number, merge=settings.merge)
        )
        limit_bytes = self._limit_bytes(link, job.requests.total_bytes // len(self.hosts))
        return (
            transfer.writes(pieces, limit_bytes) if writing else transfer.reads(pieces, limit_bytes)
        )

    def _limit_bytes(self, link: Link, share_bytes: int) -> int:
        """Of a message: no more than a quarter of a long call, so that network and disk work at the same time."""
        return min(
            link.limit_bytes, self.settings.message_bytes, max(PIPELINED_BYTES, share_bytes // 4)
        )

    def write_fragments(self, memory: Bytes, offset: int) -> None:
        """Write a block as one message, one answer and one call of the disk for each fragment."""
        sizes = WrittenSizes()
        with self.session.guard:
            for part in self.layout.fragments(offset, len(memory)):
                requests = make_requests([part.offset], [part.offset - offset], [part.size])
                self._carry_one("write", memory, requests, sizes)
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
        questions = [
            (one.name, kind, body(number, handles[number]))
            for number, one in enumerate(self.opened)
        ]
        return answered(self.session.ask_each(questions, answer))

    def ask_sizes(self) -> list[int]:
        """How long the subfiles are now."""
        read = partial(message_bodies.unpack, message_bodies.SIZE_ANSWER)
        self.sizes = [
            size
            for (size,) in self.ask_each(
                Kind.SIZE, lambda _, handle: message_bodies.HANDLE.pack(handle), read
            )
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
            whole
            + int(
                (
                    np.clip(after[1] - n * unit, 0, unit) - np.clip(before[1] - n * unit, 0, unit)
                ).sum()
            )
            for n in range(count)
        ]

    def _handles(self, host: str) -> dict[int, int]:
        return {number: self.session.handle(self.opened[number]) for number in self.hosts[host]}

    def _transfer(
        self, messages: Messages, shares: Sequence[int], direction: Direction, also: Collection[int],
        counters: TransferCounters,
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
            faults += self.session.transfer(hosts, sizes, direction, counters, self.settings)
        if faults:
            raise faults[0]


def _ensuring(sizes: Sequence[int], number: int, handle: int) -> bytes:
    """The body of a WRITE that makes a subfile at least as long as its place in `sizes` says."""
    return wire.encode_runs([handle], [sizes[number]], [0])
