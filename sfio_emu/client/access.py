"""Reads and writes of a file's bytes: requests prepared, split over the I/O nodes, moved, their faults gathered.
The optimised way (one message an I/O node) and the plain one (one message a fragment) that it is compared with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from sfio_emu import wire
from sfio_emu.client.connection import Message
from sfio_emu.client.session import Session
from sfio_emu.client.transfer import Stage, TransferOptions, pack, read_message, write_message
from sfio_emu.errors import SfioError
from sfio_emu.layout.block_stage import MIN_BLOCK_BYTES, BlockStage, room_bytes
from sfio_emu.layout.pieces import Bytes, Piece, StripedPiece, pieces_of
from sfio_emu.layout.requests import Requests, make_requests, prepare
from sfio_emu.layout.striping import Layout
from sfio_emu.names import SubfileName
from sfio_emu.ports import Direction
from sfio_emu.settings import Counters, Settings

CONTIGUOUS_FACTOR = 8  # a run alone in its message may be so much longer than others: the listener does not hold it
PLAIN = Settings(sort=False, merge=False, combine=False, pipeline=False)
NO_END = 2**63
Talk = Callable[[], Iterator[Message]]


class Access:
    """The subfiles of an open file as seen by one process.

    `sizes`: what the subfiles are known to hold at least. Whoever writes past the end of the file makes the subfiles
    it does not touch as long as they are in a file that reaches so far: the sum of their sizes is always its size.
    """

    def __init__(self, subfiles: Sequence[SubfileName], layout: Layout, session: Session) -> None:
        self.subfiles, self.layout, self.session = tuple(subfiles), layout, session
        self.counters = Counters()
        self.sizes = [0] * len(self.subfiles)
        self.hosts: dict[str, list[int]] = {}
        for number, subfile in enumerate(self.subfiles):
            self.hosts.setdefault(subfile.host, []).append(number)

    def write(self, memory: Bytes, requests: Requests) -> None:
        """Write the blocks; raises the first fault in the order of hosts when all hosts are served."""
        if not len(requests):
            return
        settings = self.session.settings
        due = self._too_short(requests.end)
        chosen = prepare(requests, settings, writing=True).requests
        shares = self._shares(chosen)
        hosts = [host for host, numbers in self.hosts.items() if any(shares[n] or n in due for n in numbers)]
        counters = Counters()
        block = self._block(memory, chosen)

        def talk(host: str) -> Talk:
            return lambda: self._write_messages(host, memory, chosen, due, counters, block)

        self._transfer({host: talk(host) for host in hosts}, shares, "write", settings, counters)
        self._note_sizes(due)

    def _block(self, memory: Bytes, requests: Requests) -> BlockStage | None:
        """Stages shared by all hosts, where there is one large block for several subfiles."""
        if len(requests) != 1 or len(self.subfiles) == 1 or not self.session.settings.merge:
            return None
        offset, place, size = int(requests.offsets[0]), int(requests.memory[0]), int(requests.sizes[0])
        if size < MIN_BLOCK_BYTES:
            return None
        room = self.session.block_room.room(room_bytes(len(self.subfiles)))
        return BlockStage(self.layout, memory, offset, place, size, room)

    def read(self, memory: Bytes, requests: Requests) -> int:
        """Read the blocks; where the first byte of the file lies that is missing (`NO_END`: none)."""
        if not len(requests):
            return NO_END
        settings = self.session.settings
        prepared = prepare(requests, settings, writing=False)
        shares = self._shares(prepared.requests)
        hosts = [host for host, numbers in self.hosts.items() if any(shares[number] for number in numbers)]
        end = [NO_END]
        counters = Counters()
        block = self._block(memory, prepared.requests)

        def talk(host: str) -> Talk:
            return lambda: self._read_messages(host, memory, prepared.requests, end, counters, block)

        try:
            self._transfer({host: talk(host) for host in hosts}, shares, "read", settings, counters)
        finally:
            if block is not None:
                block.flush()
        for source, target, size in prepared.copies:
            memory[target : target + size] = memory[source : source + size]
        return end[0]

    def write_fragments(self, memory: Bytes, offset: int) -> None:
        """Write a block as one message, one answer and one call of the disk for each fragment."""
        due = self._too_short(offset)
        hosts = [host for host, numbers in self.hosts.items() if any(number in due for number in numbers)]
        none = make_requests([], [], [])
        counters = Counters()
        if hosts and len(memory):

            def ensure(host: str) -> Talk:
                return lambda: self._write_messages(host, memory, none, due, counters)

            self._transfer({host: ensure(host) for host in hosts}, [0] * len(self.subfiles), "write", PLAIN, counters)
            self._note_sizes(due)
        stage = Stage()
        options = TransferOptions(merge=False, copied=True)
        for piece in self._fragments(memory, offset):
            number, counters = piece.subfile, Counters()
            host = self.subfiles[number].host

            def talk(piece: Piece = piece, host: str = host, counters: Counters = counters) -> Iterator[Message]:
                for pieces in pack([piece], self.session.link(host).limit_bytes, combine=False):
                    yield write_message(
                        pieces, memory, self._handles(host), stage, counters, options, path=self._path_of(host)
                    )

            self._transfer({host: talk}, self._only(number, piece.size), "write", PLAIN, counters)
            self._note_sizes({number: piece.runs()[0][0] + piece.size})

    def read_fragments(self, memory: Bytes, offset: int) -> int:
        """Read a block fragment by fragment, as far as the file goes; where the first missing byte lies."""
        end = [NO_END]
        stage = Stage()
        options = TransferOptions(merge=False, copied=True)
        for piece in self._fragments(memory, offset):
            host, counters = self.subfiles[piece.subfile].host, Counters()

            def talk(piece: Piece = piece, host: str = host, counters: Counters = counters) -> Iterator[Message]:
                for pieces in pack([piece], self.session.link(host).limit_bytes, combine=False):
                    yield read_message(
                        pieces, memory, self._handles(host), stage, counters, options,
                        path=self._path_of(host), missing=self._ends_at(end),
                    )  # fmt: skip

            self._transfer({host: talk}, self._only(piece.subfile, piece.size), "read", PLAIN, counters)
            if end[0] != NO_END:
                break
        return end[0]

    def ask_each(self, message: Callable[[int, int], Message]) -> None:
        """Send each subfile the message made for (its number, its handle)."""
        self.session.ask({
            host: [message(number, self.session.handle(self.subfiles[number])) for number in numbers]
            for host, numbers in self.hosts.items()
        })  # fmt: skip

    def _fragments(self, memory: Bytes, offset: int) -> Iterator[Piece]:
        for part in self.layout.fragments(offset, len(memory)):
            low = part.local_offset
            yield StripedPiece(self.layout, part.subfile, low, low + part.size, -offset)

    def _only(self, number: int, size: int) -> list[int]:
        shares = [0] * len(self.subfiles)
        shares[number] = size
        return shares

    def _too_short(self, end: int) -> dict[int, int]:
        """The subfiles that may be shorter than in a file of `end` bytes, and how long they are there."""
        shares = enumerate(self.layout.subfile_sizes(end))
        return {number: share for number, share in shares if share > self.sizes[number]}

    def _note_sizes(self, sizes: Mapping[int, int]) -> None:
        for number, size in sizes.items():
            self.sizes[number] = max(self.sizes[number], size)

    def _pieces(self, host: str, requests: Requests, *, merge: bool) -> Iterator[Piece]:
        for number in self.hosts[host]:
            yield from pieces_of(requests, self.layout, number, merge=merge)

    def _options(self) -> TransferOptions:
        settings = self.session.settings
        return TransferOptions(merge=settings.merge, copied=settings.check_data)

    def _write_messages(
        self,
        host: str,
        memory: Bytes,
        requests: Requests,
        due: Mapping[int, int],
        counters: Counters,
        block: BlockStage | None = None,
    ) -> Iterator[Message]:
        """The messages for a host; the last one also makes its subfiles as long as they must be."""
        settings, link, handles = self.session.settings, self.session.link(host), self._handles(host)
        longest = _longest_run(settings, link.limit_bytes)
        reached = dict.fromkeys(self.hosts[host], 0)
        room = link.limit_bytes - wire.RUN_BYTES * (len(reached) + 1)
        waiting: list[Piece] = []

        def message(pieces: list[Piece], ensured: Sequence[tuple[int, int]] = ()) -> Message:
            return write_message(
                pieces, memory, handles, link.stage, counters, self._options(),
                path=self._path_of(host), block=block, ensured=ensured,
            )  # fmt: skip

        for pieces in pack(
            self._pieces(host, requests, merge=settings.merge), room, combine=settings.combine, longest_run=longest
        ):
            if waiting:
                yield message(waiting)
            waiting = pieces
            for piece in pieces:
                offsets, sizes = piece.runs()
                reached[piece.subfile] = max(reached[piece.subfile], offsets[-1] + sizes[-1])
        ensured = [(number, due[number]) for number in reached if due.get(number, 0) > reached[number]]
        if waiting or ensured:
            yield message(waiting, ensured)

    def _read_messages(
        self,
        host: str,
        memory: Bytes,
        requests: Requests,
        end: list[int],
        counters: Counters,
        block: BlockStage | None,
    ) -> Iterator[Message]:
        settings, link, handles = self.session.settings, self.session.link(host), self._handles(host)
        longest = _longest_run(settings, link.limit_bytes)
        pieces = self._pieces(host, requests, merge=settings.merge)
        for packed in pack(pieces, link.limit_bytes, combine=settings.combine, longest_run=longest):
            yield read_message(
                packed, memory, handles, link.stage, counters, self._options(),
                path=self._path_of(host), block=block, missing=self._ends_at(end),
            )  # fmt: skip

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
        before = np.divmod(requests.offsets, unit * count)
        after = np.divmod(requests.offsets + requests.sizes, unit * count)
        whole = int((after[0] - before[0]).sum()) * unit
        return [
            whole + int((np.clip(after[1] - n * unit, 0, unit) - np.clip(before[1] - n * unit, 0, unit)).sum())
            for n in range(count)
        ]

    def _handles(self, host: str) -> dict[int, int]:
        return {number: self.session.handle(self.subfiles[number]) for number in self.hosts[host]}

    def _path_of(self, host: str) -> Callable[[int], str]:
        def path(handle: int) -> str:
            for number, known in self._handles(host).items():
                if known == handle:
                    return self.subfiles[number].path
            return "its subfiles"

        return path

    def _transfer(
        self, talks: dict[str, Talk], shares: Sequence[int], direction: Direction, settings: Settings,
        counters: Counters,
    ) -> None:  # fmt: skip
        faults: list[SfioError] = []
        for host in list(talks):
            try:
                self._handles(host)
            except SfioError as fault:
                faults.append(fault)
                del talks[host]
        sizes = {host: sum(shares[number] for number in self.hosts[host]) for host in talks}
        try:
            faults += self.session.transfer(talks, sizes, direction, counters, settings)
        finally:
            self.counters.add(counters)
            self.session.counters.add(counters)
        if faults:
            raise faults[0]


def _longest_run(settings: Settings, limit_bytes: int) -> int:
    """How long a run may be that is alone in its message; without a pipeline the disk would wait for all of it."""
    return CONTIGUOUS_FACTOR * limit_bytes if settings.pipeline and not settings.check_data else limit_bytes


__all__ = ["NO_END", "Access"]
