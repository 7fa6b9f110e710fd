"""MPI-I/O on striped files: each process sees the file through its view and its memory through a layout, both
datatypes; independent, collective and non-blocking calls, individual and shared pointers. Every access is one
multi-block request below."""

from __future__ import annotations

import struct as binary
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from sfio_emu.client.buffers import as_bytes
from sfio_emu.client.nonblocking import Request
from sfio_emu.client.session import Session
from sfio_emu.errors import PeerError, SfioError, UsageError, whole_number
from sfio_emu.ports import ProcessGroup, SoloGroup
from sfio_emu.positioned_file import FILE_MODES, MPI_MODES, parse_mode
from sfio_emu.striped_file import StripedFile
from sfio_emu.views.collective_buffering import Hints, SharedPointer, TwoPhase
from sfio_emu.views.datatypes import BYTE, Datatype
from sfio_emu.views.file_views import BlockFile, PairedAccess, View, memory_runs

if TYPE_CHECKING:
    import numpy.typing as npt
    from typing_extensions import Buffer

    Block = Buffer | npt.NDArray[Any]
    Memory = tuple[Block, Datatype | None, int, int]
    """A buffer and what of it is meant: layout, count and start byte as of `MpiFile.read_at`."""

Mode = Literal["r", "w", "rw", "r+", "x", "a"]
Whence = Literal["set", "current", "end"]
Verb = Literal["read", "write"]
Result = TypeVar("Result")


class MpiFile:
    """A file opened by every process of a group, each with a view of its own (MPI 4.0, chapter 14).

    Calls named `_all`, and set_view, set_size, sync and close, are collective: every process makes them, in the same
    order, and they end alike everywhere: with success, or with an error in each process. What `write_all` or
    `write_at_all` wrote is seen by every read of any process that begins after it returned. Where processes write the
    same bytes in one collective call (or in calls at the same time), each such byte is one of those written; which one
    is not said.
    """

    def __init__(
        self,
        file: BlockFile,
        group: ProcessGroup | None = None,
        *,
        mode: Mode = "rw",
        hints: Mapping[str, str] | None = None,
    ) -> None:
        self._file = file
        self._group: ProcessGroup = group or SoloGroup()
        self._opening = parse_mode(mode, MPI_MODES)
        self._hints = Hints.read(hints or {})
        self._view = View(writable=self._opening.writes)
        self._position = 0
        self._shared = SharedPointer(self._group)
        self._closed = False

    @classmethod
    def open(
        cls,
        name: str,
        stripe_unit: int,
        *,
        mode: Mode = "rw",
        session: Session | None = None,
        hints: Mapping[str, str] | None = None,
    ) -> MpiFile:
        """Open a striped file (`"host/path;host/path;"`) in every process of the session's group. Collective.

        `mode`: `sfio_emu.positioned_file.MPI_MODES`; with "a" (MPI_MODE_APPEND) all pointers begin at the end.
        `hints`: as `sfio_emu.views.collective_buffering` has them, the same in every process. Raises as
        StripedFile.open does.
        """
        opening = parse_mode(mode, MPI_MODES)
        below = next(text for text, meant in FILE_MODES.items() if meant == replace(opening, reads=True, append=False))
        file = StripedFile.open(name, stripe_unit, mode=below, session=session)
        opened = cls(file, file.session.group, mode=mode, hints=hints)
        if opening.append:
            opened.seek(0, "end")
            opened.seek_shared(0, "end")
        return opened

    def __enter__(self) -> MpiFile:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            self.close()
        elif isinstance(self._file, StripedFile):  # without the others, as a striped file does
            self._file.__exit__(kind, error, trace)

    @property
    def file(self) -> BlockFile:
        """What this stands on: the striped file, with its counters and its layout."""
        return self._file

    @property
    def view(self) -> View:
        """What this process sees of the file; bytes from the beginning until `set_view`."""
        return self._view

    @property
    def hints(self) -> dict[str, str]:
        """The hints that are obeyed, as texts."""
        found = self._hints.texts()
        if isinstance(self._file, StripedFile):
            layout = self._file.layout
            found |= {"striping_unit": str(layout.stripe_unit), "striping_factor": str(layout.subfiles)}
        return found | {"cb_nodes": str(self._gatherers)}

    @property
    def position(self) -> int:
        """The individual pointer, in etypes of the view."""
        return self._position

    def set_view(self, displacement: int = 0, etype: Datatype = BYTE, filetype: Datatype | None = None) -> None:
        """See the file from `displacement` on through `filetype` (by default the etype itself); the pointers go to 0.

        Collective; views may differ, the extent of the etype may not. Raises UsageError as View does.
        """

        def build() -> View:
            self._check_open()
            return View(
                displacement=displacement,
                etype=etype,
                filetype=etype if filetype is None else filetype,
                writable=self._opening.writes,
            )

        extent_bytes = etype.extent_bytes if isinstance(etype, Datatype) else 0
        view, extents = self._together(build, _NUMBER.pack(extent_bytes))
        for rank, extent in enumerate(extents):
            if extent != extents[0]:
                text = f"set_view: etype of {_NUMBER.unpack(extent)[0]} bytes in rank {rank}"
                raise UsageError(
                    f"{text}, of {_NUMBER.unpack(extents[0])[0]} in rank 0: give etypes of the same extent"
                )
        self._shared.move(0)
        self._view = view
        self._position = 0

    def read_at(
        self, offset: int, buffer: Block, memory: Datatype | None = None, count: int = 1, start_byte: int = 0
    ) -> int:
        """Read from `offset` (etypes of the view) into `buffer`; returns the bytes read, fewer at the end of the file.

        Without `memory` the whole buffer is filled; with it `count` elements of that layout, element 0 at `start_byte`.
        """
        return self._access("read", offset, (buffer, memory, count, start_byte))

    def write_at(
        self, offset: int, buffer: Block, memory: Datatype | None = None, count: int = 1, start_byte: int = 0
    ) -> int:
        """Write to `offset` (etypes of the view) from `buffer`, laid out as in `read_at`; returns the bytes written."""
        return self._access("write", offset, (buffer, memory, count, start_byte))

    def read(self, buffer: Block, memory: Datatype | None = None, count: int = 1, start_byte: int = 0) -> int:
        """As read_at from the individual pointer, which moves behind what was read (whole etypes)."""
        return self._advance(self.read_at(self._position, buffer, memory, count, start_byte))

    def write(self, buffer: Block, memory: Datatype | None = None, count: int = 1, start_byte: int = 0) -> int:
        """As write_at from the individual pointer, which moves behind what was written."""
        return self._advance(self.write_at(self._position, buffer, memory, count, start_byte))

    def read_at_all(
        self, offset: int, buffer: Block, memory: Datatype | None = None, count: int = 1, start_byte: int = 0
    ) -> int:
        """Collective read_at."""
        return self._collective("read", offset, (buffer, memory, count, start_byte))

    def write_at_all(
        self, offset: int, buffer: Block, memory: Datatype | None = None, count: int = 1, start_byte: int = 0
    ) -> int:
        """Collective write_at."""
        return self._collective("write", offset, (buffer, memory, count, start_byte))

    def read_all(self, buffer: Block, memory: Datatype | None = None, count: int = 1, start_byte: int = 0) -> int:
        """Collective read."""
        return self._advance(self.read_at_all(self._position, buffer, memory, count, start_byte))

    def write_all(self, buffer: Block, memory: Datatype | None = None, count: int = 1, start_byte: int = 0) -> int:
        """Collective write."""
        return self._advance(self.write_at_all(self._position, buffer, memory, count, start_byte))

    def iread_at(
        self, offset: int, buffer: Block, memory: Datatype | None = None, count: int = 1, start_byte: int = 0
    ) -> Request:
        """As read_at, but only begun: `wait` of the request gives the bytes read, `test` says whether it is done."""
        return self._begin("read", offset, (buffer, memory, count, start_byte))

    def iwrite_at(
        self, offset: int, buffer: Block, memory: Datatype | None = None, count: int = 1, start_byte: int = 0
    ) -> Request:
        """As write_at, but only begun; the buffer must not change before it is done."""
        return self._begin("write", offset, (buffer, memory, count, start_byte))

    def iread(self, buffer: Block, memory: Datatype | None = None, count: int = 1, start_byte: int = 0) -> Request:
        """Begin read: the individual pointer moves at once behind what is requested."""
        place = (buffer, memory, count, start_byte)
        return self._begin("read", self._ahead("read", place), place)

    def iwrite(self, buffer: Block, memory: Datatype | None = None, count: int = 1, start_byte: int = 0) -> Request:
        """Begin write: the individual pointer moves at once behind what is written."""
        place = (buffer, memory, count, start_byte)
        return self._begin("write", self._ahead("write", place), place)

    # Begun by all processes together (MPI 4.0, 14.4.5): a request waits for nobody, so that these do what the others
    # do.
    iread_at_all, iwrite_at_all, iread_all, iwrite_all = iread_at, iwrite_at, iread, iwrite

    def iread_shared(
        self, buffer: Block, memory: Datatype | None = None, count: int = 1, start_byte: int = 0
    ) -> Request:
        """Begin read_shared: the shared pointer moves at once behind what is requested."""
        place = (buffer, memory, count, start_byte)
        return self._begin("read", self._take("read", place), place)

    def iwrite_shared(
        self, buffer: Block, memory: Datatype | None = None, count: int = 1, start_byte: int = 0
    ) -> Request:
        """Begin write_shared."""
        place = (buffer, memory, count, start_byte)
        return self._begin("write", self._take("write", place), place)

    def _ahead(self, verb: Verb, memory: Memory) -> int:
        """Where the individual pointer was; it has moved behind the access."""
        before = self._position
        self._position += self._etypes_of(verb, memory)
        return before

    def seek(self, offset: int, whence: Whence = "set") -> int:
        """Move the individual pointer by etypes from the beginning, from itself or from the end; returns it.

        The end is the first whole etype of the view at or behind the end of the file. Raises UsageError before the
        beginning.
        """
        self._position = self._sought(offset, whence, self._position)
        return self._position

    def _sought(self, offset: int, whence: Whence, current: int) -> int:
        if whence == "set":
            base = 0
        elif whence == "current":
            base = current
        elif whence == "end":
            base = -(-self._view.bytes_before(self.size()) // self._view.etype.size_bytes)
        else:
            raise UsageError(f"seek from {whence!r}: give 'set', 'current' or 'end'")
        position = base + whole_number(offset, "offset to seek (etypes)", -(2**62))
        if position < 0:
            raise UsageError(f"seek to etype {position}: the view begins at 0")
        return position

    def byte_offset(self, offset: int) -> int:
        """The byte of the file where etype `offset` of the view begins."""
        offset = _etypes(offset)
        return self._view.file_offset(offset * self._view.etype.size_bytes)

    def size(self) -> int:
        """Bytes of the file, whatever the view."""
        self._check_open()
        return self._file.size()

    def set_size(self, size_bytes: int) -> None:
        """Cut or extend the file (by zeros) to `size_bytes`, the same in every process. Collective."""

        def check() -> int:
            self._check_open()
            self._opening.require(writing=True)
            return whole_number(size_bytes, "size of the file (bytes)")

        size, _ = self._together(check)
        sizes = self._group.all_gather(_NUMBER.pack(size))
        if any(other != sizes[0] for other in sizes):
            raise UsageError("set_size with different sizes: give the same in every process")
        self._together(lambda: self._file.truncate(size))

    def sync(self, *, durable: bool = False) -> None:
        """Return when every process has come: what they wrote before is seen by all afterwards. Collective.

        `durable`: it is on the medium of every I/O node too, as MPI_FILE_SYNC has it; of striped files only.
        """
        self._together(self._check_open)
        if durable:
            if not isinstance(self._file, StripedFile):
                raise UsageError("this file is not striped: sync it by the means of its own file system")
            self._file.sync(durable=True)

    def close(self) -> None:
        """Close in every process. Collective; once closed, nothing happens."""
        if not self._closed:
            self._closed = True
            self._file.close()

    # --- the shared pointer ----------------------------------------------------------------------------------------

    @property
    def position_shared(self) -> int:
        """The pointer that all processes share, in etypes of the view."""
        return self._shared.position

    def read_shared(self, buffer: Block, memory: Datatype | None = None, count: int = 1, start_byte: int = 0) -> int:
        """As read_at from the shared pointer, which has moved behind what was requested when the reading begins."""
        place = (buffer, memory, count, start_byte)
        return self._access("read", self._take("read", place), place)

    def write_shared(self, buffer: Block, memory: Datatype | None = None, count: int = 1, start_byte: int = 0) -> int:
        """As write_at to the shared pointer, which has moved behind what is written when the writing begins."""
        place = (buffer, memory, count, start_byte)
        return self._access("write", self._take("write", place), place)

    def read_ordered(self, buffer: Block, memory: Datatype | None = None, count: int = 1, start_byte: int = 0) -> int:
        """Collective read_shared, the processes in the order of their ranks."""
        place = (buffer, memory, count, start_byte)
        return self._collective("read", self._take_ordered("read", place), place)

    def write_ordered(self, buffer: Block, memory: Datatype | None = None, count: int = 1, start_byte: int = 0) -> int:
        """Collective write_shared, the processes in the order of their ranks."""
        place = (buffer, memory, count, start_byte)
        return self._collective("write", self._take_ordered("write", place), place)

    def seek_shared(self, offset: int, whence: Whence = "set") -> int:
        """Move the shared pointer as `seek` moves the individual one; the same in every process. Collective."""
        _, wishes = self._together(
            lambda: f"{whole_number(offset, 'offset to seek (etypes)', -(2**62))} {whence}".encode(), after=True
        )
        if any(wish != wishes[0] for wish in wishes):
            raise UsageError("seek_shared to different places: give the same in every process")

        def seek() -> bytes:
            return _NUMBER.pack(self._sought(offset, whence, self._shared.position) if self._group.rank == 0 else 0)

        found = int(_NUMBER.unpack(self._together(seek, after=True)[1][0])[0])
        self._shared.move(found)
        return found

    def _take(self, verb: Verb, memory: Memory) -> int:
        return self._shared.fetch_and_add(self._etypes_of(verb, memory))

    def _take_ordered(self, verb: Verb, memory: Memory) -> int:
        etypes, _ = self._together(lambda: self._etypes_of(verb, memory))
        counts = [int(_NUMBER.unpack(item)[0]) for item in self._group.all_gather(_NUMBER.pack(etypes))]
        first = self._shared.fetch_and_add(sum(counts)) if self._group.rank == 0 else 0
        (first,) = _NUMBER.unpack(self._group.all_gather(_NUMBER.pack(first))[0])
        return int(first) + sum(counts[: self._group.rank])

    def _etypes_of(self, verb: Verb, memory: Memory) -> int:
        return self._blocks(verb, 0, memory).required // self._view.etype.size_bytes

    # --- how an access is carried out --------------------------------------------------------------------------------

    def _access(self, verb: Verb, offset: int, memory: Memory) -> int:
        access = self._blocks(verb, offset, memory)
        if not access.required:
            return 0
        file, strided = self._file, access.strided
        if strided is not None and isinstance(file, StripedFile):
            moved = (file.pread_strided if verb == "read" else file.pwrite_strided)(access.octets, strided)
            return min(moved, access.there)
        move = self._file.pread_blocks if verb == "read" else self._file.pwrite_blocks
        blocks = access.blocks
        moved = move(access.octets, blocks.file_offsets, blocks.memory_offsets, blocks.lengths)
        return min(moved, access.there)

    def _begin(self, verb: Verb, offset: int, memory: Memory) -> Request:
        access, file = self._blocks(verb, offset, memory), self._file
        if not isinstance(file, StripedFile):
            raise UsageError(
                f"a {type(file).__name__} has no requests: call read_at or write_at, or open a striped file"
            )
        begin = file.ipread_blocks if verb == "read" else file.ipwrite_blocks
        blocks = access.blocks
        return begin(access.octets, blocks.file_offsets, blocks.memory_offsets, blocks.lengths)

    def _collective(self, verb: Verb, offset: int, memory: Memory) -> int:
        if not (self._hints.buffer_writes if verb == "write" else self._hints.buffer_reads):
            return self._together(lambda: self._access(verb, offset, memory))[0]
        access, _ = self._together(lambda: self._blocks(verb, offset, memory))
        two_phase = TwoPhase(
            self._file,
            self._group,
            lambda act: self._together(act, after=True)[1],
            nodes=self._gatherers,
            buffer_bytes=self._hints.cb_buffer_size,
            align_bytes=self._file.layout.round_bytes if isinstance(self._file, StripedFile) else 1,
        )
        move = two_phase.write if verb == "write" else two_phase.read
        return min(move(access.octets, access.blocks), access.there)

    @property
    def _gatherers(self) -> int:
        return min(self._hints.cb_nodes or self._group.size, self._group.size)

    def _blocks(self, verb: Verb, offset: int, memory: Memory) -> PairedAccess:
        """What a call means in blocks of the file and of memory. Raises UsageError."""
        self._check_open()
        offset = _etypes(offset)
        self._opening.require(verb == "write")
        buffer, layout, elements, start_byte = memory
        octets = as_bytes(buffer, writable=verb == "read").data
        if layout is None:
            layout, elements = BYTE, len(octets)
        places = memory_runs(len(octets), elements, layout, start_byte)
        required = there = places.size_bytes
        if required % self._view.etype.size_bytes:
            text = f"{verb} of {required} bytes through a view of etypes of {self._view.etype.size_bytes}"
            raise UsageError(f"{text}: give whole etypes")
        first_byte = offset * self._view.etype.size_bytes
        if required and verb == "read" and self._view.overlapping:
            # bytes up to the end of the file are not what a sum of blocks says
            there = min(required, max(0, self._view.bytes_before(self._file.size()) - first_byte))
        return PairedAccess(octets, places, self._view, first_byte, there)

    def _advance(self, moved_bytes: int) -> int:
        self._position += moved_bytes // self._view.etype.size_bytes
        return moved_bytes

    def _together(
        self, act: Callable[[], Result], item: bytes = b"", *, after: bool = False
    ) -> tuple[Result, list[bytes]]:
        """Act, then learn how it went everywhere: every process goes on, or every process raises.

        The second result is the `item` of every process, or, with `after`, the bytes that `act` gave in each.
        """
        result: list[Result] = []
        failure: SfioError | None = None
        try:
            result.append(act())
        except SfioError as error:
            failure = error
        if after and failure is None:
            assert isinstance(result[0], bytes)
            item = result[0]
        mine = b"\0" + item if failure is None else b"\1" + str(failure).encode()
        answers = self._group.all_gather(mine)
        if failure is not None:
            raise failure
        for rank, answer in enumerate(answers):
            if answer[:1] == b"\1":
                raise PeerError(f"rank {rank}", answer[1:].decode(errors="replace"))
        return result[0], [answer[1:] for answer in answers]

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError("the file is closed: open it again")


_NUMBER = binary.Struct("!q")


def _etypes(offset: int) -> int:
    return whole_number(offset, "offset (etypes of the view)")
