"""MPI-I/O on striped files: each process sees the file through its view and its memory through a layout, both datatypes;
independent and collective blocking calls, individual pointers. Every access is one multi-block request below."""

from __future__ import annotations

import struct as binary
from collections.abc import Callable
from types import TracebackType
from typing import Any, Literal, Protocol, TypeVar

from sfio_emu.client.buffers import as_bytes
from sfio_emu.client.session import Session
from sfio_emu.errors import PeerError, SfioError, UsageError, whole_number
from sfio_emu.ports import ProcessGroup, SoloGroup
from sfio_emu.striped_file import StripedFile
from sfio_emu.views.datatypes import BYTE, Datatype, Integers
from sfio_emu.views.file_views import PairedRuns, View, memory_runs, pair_runs

__all__ = ["BlockFile", "MpiFile", "View"]

Mode = Literal["r", "w", "rw"]
Whence = Literal["set", "current", "end"]
Result = TypeVar("Result")


class BlockFile(Protocol):
    """What an MpiFile stands on: blocks of a file moved from and to one buffer in one call; StripedFile is one.

    Block i is `sizes[i]` bytes at `places[i]` of the buffer and `offsets[i]` of the file, int64 arrays of shape (n,).
    Reading stops at the end of the file (fewer bytes are returned), writing extends the file. `truncate` and `close` are
    called by every process of the group.
    """

    def pread_blocks(self, target: memoryview, offsets: Integers, places: Integers, sizes: Integers) -> int: ...
    def pwrite_blocks(self, data: memoryview, offsets: Integers, places: Integers, sizes: Integers) -> int: ...
    def size(self) -> int: ...
    def truncate(self, size: int) -> None: ...
    def close(self) -> None: ...


class MpiFile:
    """A file opened by every process of a group, each with a view of its own (MPI 4.0, chapter 14).

    Calls named `_all`, and set_view, set_size, sync and close, are collective: every process makes them, in the same order,
    and they end alike everywhere: with success, or with an error in each process. What `write_all` or `write_at_all` wrote
    is seen by every read of any process that begins after it returned. Where processes write the same bytes in one
    collective call (or in calls at the same time), each such byte is one of those written; which one is not said.
    """

    def __init__(self, file: BlockFile, group: ProcessGroup | None = None, *, mode: Mode = "rw") -> None:
        if mode not in ("r", "w", "rw"):
            raise UsageError(f"mode is {mode!r}: give 'r', 'w' or 'rw'")
        self._file = file
        self._group: ProcessGroup = group or SoloGroup()
        self._mode = mode
        self._view = View(writable="w" in mode)
        self._position = 0
        self._closed = False

    @classmethod
    def open(cls, name: str, stripe_unit: int, *, mode: Mode = "rw", session: Session | None = None) -> MpiFile:
        """Open a striped file (`"host/path;host/path;"`) in every process of the session's group. Collective.

        Raises as StripedFile.open does.
        """
        file = StripedFile.open(name, stripe_unit, session=session)
        return cls(file, file.session.group, mode=mode)

    def __enter__(self) -> MpiFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()

    @property
    def file(self) -> BlockFile:
        """What this stands on: the striped file, with its counters and its layout."""
        return self._file

    @property
    def view(self) -> View:
        """What this process sees of the file; bytes from the beginning until `set_view`."""
        return self._view

    @property
    def position(self) -> int:
        """The individual pointer, in etypes of the view."""
        return self._position

    def set_view(self, displacement: int = 0, etype: Datatype = BYTE, filetype: Datatype | None = None) -> None:
        """See the file from `displacement` on through `filetype` (by default the etype itself); the pointer goes to 0.

        Collective; views may differ, the extent of the etype may not. Raises UsageError as View does.
        """

        def build() -> View:
            self._check_open()
            return View(
                displacement=displacement,
                etype=etype,
                filetype=etype if filetype is None else filetype,
                writable="w" in self._mode,
            )

        extent_bytes = etype.extent_bytes if isinstance(etype, Datatype) else 0
        view, extents = self._together(build, _NUMBER.pack(extent_bytes))
        for rank, extent in enumerate(extents):
            if extent != extents[0]:
                text = f"set_view: etype of {_NUMBER.unpack(extent)[0]} bytes in rank {rank}"
                raise UsageError(
                    f"{text}, of {_NUMBER.unpack(extents[0])[0]} in rank 0: give etypes of the same extent"
                )
        self._view = view
        self._position = 0

    def read_at(
        self, offset: int, buffer: Any, memory: Datatype | None = None, count: int = 1, start_byte: int = 0
    ) -> int:
        """Read from `offset` (etypes of the view) into `buffer`; returns the bytes read, fewer at the end of the file.

        Without `memory` the whole buffer is filled; with it `count` elements of that layout, element 0 at `start_byte`.
        """
        return self._access("read", offset, buffer, memory, count, start_byte)

    def write_at(
        self, offset: int, buffer: Any, memory: Datatype | None = None, count: int = 1, start_byte: int = 0
    ) -> int:
        """Write to `offset` (etypes of the view) from `buffer`, laid out as in `read_at`; returns the bytes written."""
        return self._access("write", offset, buffer, memory, count, start_byte)

    def read(self, buffer: Any, memory: Datatype | None = None, count: int = 1, start_byte: int = 0) -> int:
        """As read_at from the individual pointer, which moves behind what was read (whole etypes)."""
        return self._advance(self.read_at(self._position, buffer, memory, count, start_byte))

    def write(self, buffer: Any, memory: Datatype | None = None, count: int = 1, start_byte: int = 0) -> int:
        """As write_at from the individual pointer, which moves behind what was written."""
        return self._advance(self.write_at(self._position, buffer, memory, count, start_byte))

    def read_at_all(
        self, offset: int, buffer: Any, memory: Datatype | None = None, count: int = 1, start_byte: int = 0
    ) -> int:
        """Collective read_at."""
        return self._together(lambda: self.read_at(offset, buffer, memory, count, start_byte))[0]

    def write_at_all(
        self, offset: int, buffer: Any, memory: Datatype | None = None, count: int = 1, start_byte: int = 0
    ) -> int:
        """Collective write_at."""
        return self._together(lambda: self.write_at(offset, buffer, memory, count, start_byte))[0]

    def read_all(self, buffer: Any, memory: Datatype | None = None, count: int = 1, start_byte: int = 0) -> int:
        """Collective read."""
        return self._advance(self.read_at_all(self._position, buffer, memory, count, start_byte))

    def write_all(self, buffer: Any, memory: Datatype | None = None, count: int = 1, start_byte: int = 0) -> int:
        """Collective write."""
        return self._advance(self.write_at_all(self._position, buffer, memory, count, start_byte))

    def seek(self, offset: int, whence: Whence = "set") -> int:
        """Move the individual pointer by etypes from the beginning, from itself or from the end; returns it.

        The end is the first whole etype of the view at or behind the end of the file. Raises UsageError before the beginning.
        """
        if whence == "set":
            base = 0
        elif whence == "current":
            base = self._position
        elif whence == "end":
            base = -(-self._view.bytes_before(self.size()) // self._view.etype.size_bytes)
        else:
            raise UsageError(f"seek from {whence!r}: give 'set', 'current' or 'end'")
        position = base + whole_number(offset, "offset to seek (etypes)", -(2**62))
        if position < 0:
            raise UsageError(f"seek to etype {position}: the view begins at 0")
        self._position = position
        return self._position

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
            self._check_writable("set_size")
            return whole_number(size_bytes, "size of the file (bytes)")

        size, _ = self._together(check)
        sizes = self._group.all_gather(_NUMBER.pack(size))
        if any(other != sizes[0] for other in sizes):
            raise UsageError("set_size with different sizes: give the same in every process")
        self._together(lambda: self._file.truncate(size))

    def sync(self) -> None:
        """Return when every process has come: what they wrote before is seen by all afterwards. Collective."""
        self._together(self._check_open)

    def close(self) -> None:
        """Close in every process. Collective; once closed, nothing happens."""
        if not self._closed:
            self._closed = True
            self._file.close()

    def _access(
        self,
        verb: Literal["read", "write"],
        offset: int,
        buffer: Any,
        memory: Datatype | None,
        count: int,
        start_byte: int,
    ) -> int:
        self._check_open()
        offset = _etypes(offset)
        if verb == "write":
            self._check_writable(verb)
        elif "r" not in self._mode:
            raise UsageError("read of a file opened for writing only: open it with mode 'rw'")
        octets = as_bytes(buffer, writable=verb == "read").data
        layout, elements = (BYTE, len(octets)) if memory is None else (memory, count)
        places = memory_runs(len(octets), elements, layout, start_byte)
        wanted = places.size_bytes
        if wanted % self._view.etype.size_bytes:
            text = f"{verb} of {wanted} bytes through a view of etypes of {self._view.etype.size_bytes}"
            raise UsageError(f"{text}: give whole etypes")
        if not wanted:
            return 0
        first_byte = offset * self._view.etype.size_bytes
        if (
            verb == "read" and self._view.overlapping
        ):  # bytes up to the end of the file are not what a sum of blocks says
            wanted = min(wanted, max(0, self._view.bytes_before(self._file.size()) - first_byte))
        paired = pair_runs(places, self._view.runs(first_byte, places.size_bytes))
        moved = self._move(verb, octets, paired)
        return min(moved, wanted)

    def _move(self, verb: Literal["read", "write"], octets: memoryview, blocks: PairedRuns) -> int:
        move = self._file.pread_blocks if verb == "read" else self._file.pwrite_blocks
        return move(octets, blocks.file_offsets, blocks.memory_offsets, blocks.lengths)

    def _advance(self, moved_bytes: int) -> int:
        self._position += moved_bytes // self._view.etype.size_bytes
        return moved_bytes

    def _together(self, act: Callable[[], Result], item: bytes = b"") -> tuple[Result, list[bytes]]:
        """Act, then learn how it went everywhere: every process goes on, or every process raises."""
        result: list[Result] = []
        failure: SfioError | None = None
        try:
            result.append(act())
        except SfioError as error:
            failure = error
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

    def _check_writable(self, verb: str) -> None:
        if "w" not in self._mode:
            raise UsageError(f"{verb} of a file opened for reading only: open it with mode 'rw'")


_NUMBER = binary.Struct("!q")


def _etypes(offset: int) -> int:
    return whole_number(offset, "offset (etypes of the view)")
