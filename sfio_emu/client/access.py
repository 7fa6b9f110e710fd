"""Reads and writes of a file's bytes.

Requests are prepared, split over the I/O nodes and transferred, and the errors are collected. For
comparison there is also the plain way, with one message per fragment.
"""

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

# How often `fit` reads the sizes of the subfiles while other clients change them.
MAX_LOOKS = 16

# A message of a long call may always have this size, even if a quarter of the call is less.
PIPELINED_BYTES = (1 << 20) + 4096

# Returns the messages of a call to a host.
Messages = Callable[[str], Iterator[Message]]


class Access(OpenSubfiles):
    """Reads and writes of the subfiles of an open file, by one process.

    A write past the end of the file also extends the subfiles that it does not touch, so that the
    sum of the sizes of the subfiles is always the size of the file. The last known sizes (`sizes`)
    only determine what is sent at first. The answers of the listeners say whether that was enough
    (`sfio_emu.client.size_check`).
    """

    def write(self, memory: Bytes, requests: Requests) -> None:
        """Write blocks.

        Raises:
            SfioError: The first error in the order of the hosts. All hosts have been served.
        """
        self._carry_one("write", memory, requests)

    def read(self, memory: Bytes, requests: Requests) -> int:
        """Read blocks.

        Returns:
            The offset of the first missing byte of the file; `NO_END` if none is missing.

        Raises:
            SfioError: The first error in the order of the hosts. All hosts have been served.
        """
        return self._carry_one("read", memory, requests).end

    def _carry_one(
        self,
        direction: Direction,
        memory: Bytes,
        requests: Requests,
        part_of: WrittenSizes | None = None,
    ) -> Job:
        """Carry out one read or write, and raise its error. The arguments are as in `carry`."""
        job = self.job(direction, memory, requests)
        if len(requests):
            self.carry(direction, [job], part_of)
        if job.fault is not None:
            raise job.fault
        return job

    def write_block(self, memory: Bytes, offset: int) -> None:
        """Write one block, all of `memory`."""
        try:
            is_written = self._write_small(memory, offset)
        except BaseException:
            # This includes KeyboardInterrupt: some of the subfiles may be written.
            self.doubtful = True
            raise
        if not is_written:
            self.write(memory, make_requests([offset], [0], [len(memory)]))

    def read_block(self, memory: Bytes, offset: int) -> int:
        """Read one block, all of `memory`.

        Returns:
            The offset of the first missing byte of the file; `NO_END` if none is missing.
        """
        size = len(memory)
        with self.session.guard:
            if self.is_small(offset, size):
                hosts = self.by_host(block_pieces(self.layout, offset, size), size)
                if hosts is not None:
                    return self.read_small(memory, hosts)
            return self.read(memory, make_requests([offset], [0], [size]))

    def _write_small(self, memory: Bytes, offset: int) -> bool:
        """Write one small block, unless it would have to extend subfiles that it does not touch.

        Returns:
            Whether it was written.
        """
        size = len(memory)
        if not self.is_small(offset, size):
            return False
        with self.session.guard:
            pieces = block_pieces(self.layout, offset, size)
            hosts = self.by_host(pieces, size)
            first = pieces[0].subfile
            is_inside = len(pieces) == 1 and self.sizes[first] >= pieces[0].bounds[1]
            if hosts is None or not (is_inside or self._needs_no_other(pieces, offset + size)):
                return False
            sizes = self.write_small(memory, hosts)
            if not (is_inside and sizes.before[first] == self.sizes[first]):
                self._settle(offset + size, sizes)
            return True

    def _needs_no_other(self, pieces: Sequence[Piece], end: int) -> bool:
        """Return whether a write extends no subfile that it does not touch, by the known sizes.

        Args:
            pieces: The parts of the write.
            end: The offset in the file behind the last written byte.
        """
        shares = [0] * len(self.subfiles)
        for piece in pieces:
            shares[piece.subfile] = piece.size
        due = possibly_short_subfiles(self.layout, end, self._known_sizes(shares))
        return all(shares[number] for number in due)

    def job(self, direction: Direction, memory: Bytes, requests: Requests) -> Job:
        """Return a read or write to be carried out, alone or with others."""
        prepared = prepare(requests, self.settings, writing=direction == "write")
        return Job(memory, prepared, self.layout)

    def carry(
        self, direction: Direction, jobs: Sequence[Job], part_of: WrittenSizes | None = None
    ) -> None:
        """Carry out several reads, or several writes, in order.

        Their messages follow one another without waiting for the end of a job. A job that failed
        has a `fault`: the first error in the order of the hosts, after all hosts have been served.

        Args:
            direction: Whether the jobs read or write.
            jobs: The reads or writes.
            part_of: Receives the answers, if further writes follow before the sizes of the
                subfiles are checked.
        """
        with self.session.guard:
            sizes = part_of or WrittenSizes()
            counters = TransferCounters()
            extends = direction == "write" and part_of is None
            shares = [self._shares(job.requests) for job in jobs]
            for job, share in zip(jobs, shares, strict=True):
                job.sizes = sizes
                job.counters = counters
                if extends:
                    known_sizes = self._known_sizes(share)
                    job.due = possibly_short_subfiles(self.layout, job.requests.end, known_sizes)
                job.expect(self._hosts_with(share, job.due))
            messages = partial(self._messages_of_jobs, direction, jobs)
            try:
                total_shares = [sum(subfile_shares) for subfile_shares in zip(*shares, strict=True)]
                due: set[int] = set()
                for job in jobs:
                    due.update(job.due)
                self._transfer(messages, total_shares, direction, due, counters)
                if extends:
                    self._settle(max(job.requests.end for job in jobs), sizes)
            except BaseException as fault:
                # This includes KeyboardInterrupt, after which the program may go on.
                self.doubtful |= direction == "write"
                if not isinstance(fault, SfioError):
                    raise
                unfinished_jobs = [job for job in jobs if job.unfinished]
                for job in unfinished_jobs or jobs:
                    job.fault = fault
            finally:
                self.count(counters)
        for job in jobs:
            for source, target, size in job.copies:
                job.memory[target : target + size] = job.memory[source : source + size]

    def _hosts_with(self, shares: Sequence[int], due: Collection[int]) -> list[str]:
        """Return the hosts of the subfiles with a share in a call, and of those in `due`."""
        hosts = []
        for host, numbers in self.hosts.items():
            if any(shares[number] or number in due for number in numbers):
                hosts.append(host)
        return hosts

    def _messages_of_jobs(
        self, direction: Direction, jobs: Sequence[Job], host: str
    ) -> Iterator[Message]:
        """Return the messages of several jobs to a host, in the order of the jobs."""
        # These are read before the transfer begins. A call that interrupts it has other links.
        link = self.session.link(host)
        handles = self._handles(host)
        messages_by_job = [
            job.watched(host, self._messages(direction, host, job, link, handles)) for job in jobs
        ]
        return chain.from_iterable(messages_by_job)

    def _messages(
        self, direction: Direction, host: str, job: Job, link: Link, handles: Mapping[int, int]
    ) -> Iterator[Message]:
        """Return the messages of a job to a host."""
        settings = self.settings
        is_write = direction == "write"
        transfer = HostTransfer(
            job=job,
            handles=handles,
            link=link,
            merge=settings.merge,
            combine=settings.combine,
            checked=settings.check_data if is_write else settings.check_reads,
        )
        pieces = chain.from_iterable(
            pieces_of(job.requests, self.layout, number, merge=settings.merge)
            for number in self.hosts[host]
        )
        limit_bytes = self._limit_bytes(link, job.requests.total_bytes // len(self.hosts))
        if is_write:
            return transfer.writes(pieces, limit_bytes)
        return transfer.reads(pieces, limit_bytes)

    def _limit_bytes(self, link: Link, share_bytes: int) -> int:
        """Return the size of the largest message.

        It is at most a quarter of a long call, so that network and disk work at the same time.

        Args:
            link: The connection.
            share_bytes: The number of bytes of the call to this host.
        """
        return min(
            link.limit_bytes, self.settings.message_bytes, max(PIPELINED_BYTES, share_bytes // 4)
        )

    def write_fragments(self, memory: Bytes, offset: int) -> None:
        """Write a block with one message, one answer and one disk call for each fragment."""
        sizes = WrittenSizes()
        with self.session.guard:
            for part in self.layout.fragments(offset, len(memory)):
                requests = make_requests([part.offset], [part.offset - offset], [part.size])
                self._carry_one("write", memory, requests, sizes)
            if len(memory):
                self._settle(offset + len(memory), sizes)

    def read_fragments(self, memory: Bytes, offset: int) -> int:
        """Read a block fragment by fragment, up to the end of the file.

        Returns:
            The offset of the first missing byte of the file; `NO_END` if none is missing.
        """
        with self.session.guard:
            for part in self.layout.fragments(offset, len(memory)):
                end = self.read_block(memory[part.offset - offset :][: part.size], part.offset)
                if end != NO_END:
                    return end
        return NO_END

    def ask_each(
        self, kind: Kind, body: Callable[[int, int], bytes], answer: Callable[[memoryview], Result]
    ) -> list[Result]:
        """Send one message about each subfile.

        Args:
            kind: The kind of message.
            body: Returns the body, given the number of the subfile and its handle.
            answer: Decodes the body of an answer.

        Returns:
            The decoded answers.

        Raises:
            PeerError: The first error.
        """
        handles = [self.session.handle(subfile) for subfile in self.opened]
        questions = [
            (subfile.name, kind, body(number, handles[number]))
            for number, subfile in enumerate(self.opened)
        ]
        return answered(self.session.ask_each(questions, answer))

    def ask_sizes(self) -> list[int]:
        """Return the current sizes of the subfiles in bytes."""
        answers = self.ask_each(
            Kind.SIZE,
            lambda _, handle: message_bodies.HANDLE.pack(handle),
            partial(message_bodies.unpack, message_bodies.SIZE_ANSWER),
        )
        self.sizes = [size for (size,) in answers]
        return self.sizes

    def fit(self, end: int = 0) -> None:
        """Extend subfiles so that their sizes are those of one file again.

        The size of this file follows from the longest subfiles. If other clients change the sizes
        at the same time, this is repeated.

        Args:
            end: The minimum size of the file in bytes.
        """
        for _ in range(MAX_LOOKS):
            if end:
                self.ask_each(Kind.WRITE, partial(_ensuring, self.layout.subfile_sizes(end)), bytes)
            sizes = dict(enumerate(self.ask_sizes()))
            end = min_size(self.layout, sizes)
            if fit_one_file(self.layout, sizes):
                return

    def _known_sizes(self, shares: Sequence[int]) -> WrittenSizes:
        """Return the last known sizes of the subfiles of a call, as if they had been answered."""
        known_sizes = WrittenSizes()
        touched = [number for number, share in enumerate(shares) if share]
        known_sizes.note_before(touched, [self.sizes[number] for number in touched])
        return known_sizes

    def _settle(self, end: int, sizes: WrittenSizes) -> None:
        """After a write, extend the subfiles that may be too short.

        If another client truncated the file between two parts of the write, the sizes are read.

        Args:
            end: The offset in the file behind the last written byte.
            sizes: What the answers to the write said.
        """
        size_before = min_size(self.layout, sizes.before)
        if possibly_short_subfiles(self.layout, end, sizes):
            self.fit(end)
        elif sizes.torn or (size_before < end and not sizes.of_one_time):
            self.fit()
        else:
            self.sizes = list(self.layout.subfile_sizes(max(end, size_before)))

    def _shares(self, requests: Requests) -> list[int]:
        """Return the number of bytes of the requests on each subfile."""
        unit = self.layout.stripe_unit
        count = len(self.subfiles)
        if len(requests) == 1:
            low = int(requests.offsets[0])
            starts = self.layout.subfile_sizes(low)
            ends = self.layout.subfile_sizes(low + int(requests.sizes[0]))
            return [end - start for start, end in zip(starts, ends, strict=True)]
        regular = [regular_pieces(requests, self.layout, number) for number in range(count)]
        if None not in regular:
            return [_total_size(pieces) for pieces in regular]
        # A request has its number of complete rounds on each subfile, and parts of the first and
        # last round. `before` and `after` are the rounds and positions of its two ends.
        before = np.divmod(requests.offsets, unit * count)
        after = np.divmod(requests.offsets + requests.sizes, unit * count)
        in_rounds = int((after[0] - before[0]).sum()) * unit
        shares = []
        for number in range(count):
            unit_start = number * unit
            in_parts = np.clip(after[1] - unit_start, 0, unit)
            in_parts -= np.clip(before[1] - unit_start, 0, unit)
            shares.append(in_rounds + int(in_parts.sum()))
        return shares

    def _handles(self, host: str) -> dict[int, int]:
        return {number: self.session.handle(self.opened[number]) for number in self.hosts[host]}

    def _transfer(
        self,
        messages: Messages,
        shares: Sequence[int],
        direction: Direction,
        due: Collection[int],
        counters: TransferCounters,
    ) -> None:
        """Exchange messages with the hosts that take part in a call, and raise the first error.

        Args:
            messages: The messages of the call.
            shares: The number of bytes of the call on each subfile.
            direction: Whether the call reads or writes.
            due: Subfiles that must be extended.
            counters: Where the transfer is counted.
        """
        hosts: dict[str, Callable[[], Iterator[Message]]] = {}
        sizes: dict[str, int] = {}
        faults: list[SfioError] = []
        for host in self._hosts_with(shares, due):
            try:
                self._handles(host)
            except SfioError as fault:
                faults.append(fault)
                continue
            hosts[host] = partial(messages, host)
            sizes[host] = sum(shares[number] for number in self.hosts[host])
        if hosts:
            faults += self.session.transfer(hosts, sizes, direction, counters, self.settings)
        if faults:
            raise faults[0]


def _total_size(pieces: Sequence[Piece] | None) -> int:
    return sum(piece.size for piece in pieces or ())


def _ensuring(sizes: Sequence[int], number: int, handle: int) -> bytes:
    """Encode a WRITE that extends subfile `number` to its size in `sizes`."""
    return wire.encode_runs([handle], [sizes[number]], [0])
