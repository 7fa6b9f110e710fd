"""MPI's data access routines on an open file (MPI 4.0, section 14.4, table 14.1).

The routines differ in three respects. The position is an offset, the individual pointer, or the
shared pointer. A process calls them alone or together with the others. They are blocking,
non-blocking, or split. All of them are carried out by one multi-block request.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

import numpy as np

from sfio_emu.client.buffers import as_bytes
from sfio_emu.client.nonblocking import Request
from sfio_emu.client.session import Session
from sfio_emu.errors import SfioError, UsageError, whole_number
from sfio_emu.positioned_file import Opening
from sfio_emu.striped_file import StripedFile
from sfio_emu.views.access_modes import Amode
from sfio_emu.views.data_representation import Status, swapped
from sfio_emu.views.datatypes import BYTE, Datatype, Integers
from sfio_emu.views.file_views import PairedAccess, View, memory_runs
from sfio_emu.views.shared_counters import AccessLock, SharedPointer, numbers_of_all

if TYPE_CHECKING:
    import numpy.typing as npt
    from typing_extensions import Buffer

    Block = Buffer | npt.NDArray[Any]

Verb = Literal["read", "write"]
Result = TypeVar("Result")


class Memory(NamedTuple):
    """The memory of an access.

    Attributes:
        buffer: The buffer.
        layout: The datatype of an element; None for the complete buffer.
        elements: The number of elements.
        start_byte: The offset of element 0 in the buffer, in bytes.
    """

    buffer: Block
    layout: Datatype | None
    elements: int
    start_byte: int


class _SplitAccess(NamedTuple):
    """A split access in progress.

    Attributes:
        name: The name of its routine, without "_begin".
        request: The access.
    """

    name: str
    request: Request


class _Routine(Generic[Result]):
    """A routine of `DataAccess`, as a descriptor.

    Args:
        act: Carries the routine out, given the file, the name of the routine, the offset in etypes,
            and the memory.
        start: Returns the offset, given the file, the name and the memory. It may move a pointer.
            If it is None, the offset is the first argument of the routine.
    """

    def __init__(
        self,
        act: Callable[[DataAccess, str, int, Memory], Result],
        start: Callable[[DataAccess, str, Memory], int] | None = None,
    ) -> None:
        self._act = act
        self._start = start

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, file: DataAccess, owner: object = None) -> Callable[..., Result]:
        name = self._name
        start = self._start

        def at_offset(
            offset: int,
            buffer: Block,
            memory: Datatype | None = None,
            count: int = 1,
            start_byte: int = 0,
        ) -> Result:
            with file.handling():
                file.require_positions(name)
                return self._act(file, name, offset, Memory(buffer, memory, count, start_byte))

        def at_pointer(
            buffer: Block, memory: Datatype | None = None, count: int = 1, start_byte: int = 0
        ) -> Result:
            access_memory = Memory(buffer, memory, count, start_byte)
            with file.handling():
                offset = 0 if start is None else start(file, name, access_memory)
                return self._act(file, name, offset, access_memory)

        return at_offset if start is None else at_pointer


class DataAccess:
    """The data access routines of an open file; the base class of `MpiFile`.

    Every routine takes these arguments. It transfers the complete buffer, or `count` elements of
    the datatype `memory`, with element 0 at `start_byte`:

        [offset], buffer, memory=None, count=1, start_byte=0

    - `..._at` routines take an `offset` in etypes of the view as their first argument.
      `..._shared` and `..._ordered` use the pointer that all processes share. The others use the
      individual pointer.
    - `..._all` and `..._ordered` routines are collective.
    - They return the number of transferred bytes (`Status`), which is smaller at the end of the
      file. The individual pointer moves behind the transferred bytes, in complete etypes. The
      shared one moves behind the requested bytes.
    - `i...` routines only start the access, and return a request. Its `wait` returns the number of
      bytes, and `test` whether it is done. The pointers move at once.
    - `..._begin` and `..._end` are the halves of a split collective routine. A file can have one of
      these in progress. The buffer must not be touched between the halves.

    Attributes:
        errhandler: Takes the file and each error of its calls, before the error is raised (MPI 4.0,
            section 9.3).
    """

    file: StripedFile
    _session: Session
    amode: Amode
    _opening: Opening
    view: View
    _shared: SharedPointer

    # The individual pointer in etypes.
    _position = 0
    representation = "native"

    # The lock of the atomic mode; None in the other mode.
    _lock: AccessLock | None = None
    _split: _SplitAccess | None = None
    errhandler: Callable[[DataAccess, SfioError], object] | None = None

    @contextmanager
    def handling(self) -> Iterator[None]:
        """Call the error handler for errors of the calls inside this context."""
        try:
            yield
        except SfioError as error:
            if self.errhandler is not None:
                self.errhandler(self, error)
            raise

    @abstractmethod
    def require_open(self) -> None:
        """Raise UsageError if the file is closed."""

    def require_positions(self, name: str) -> None:
        """Raise UsageError if the file is sequential, so that call `name` is not allowed."""
        if self.amode & Amode.SEQUENTIAL:
            raise UsageError(
                f"{name} of a file that was opened as SEQUENTIAL: use the shared pointer"
            )

    # --- the offset of an access -----------------------------------------------------------------

    def _no_offset(self, name: str, memory: Memory) -> int:
        """Return 0 for the second half of a split routine, which has its offset already."""
        return 0

    def _at_pointer(self, name: str, memory: Memory) -> int:
        """Return the individual pointer."""
        self.require_positions(name)
        return self._position

    def _advance_pointer(self, name: str, memory: Memory) -> int:
        """Return the individual pointer, and move it behind the access."""
        before = self._at_pointer(name, memory)
        self._position += self._etypes_of(name, memory)
        return before

    def _advance_shared(self, name: str, memory: Memory) -> int:
        """Return the shared pointer, and move it behind the access."""
        return self._shared.fetch_and_add(self._etypes_of(name, memory))

    def _advance_ordered(self, name: str, memory: Memory) -> int:
        """Return the offset of this process's part of an ordered access. Collective.

        The parts follow one another in the order of the ranks. The shared pointer moves behind all.
        """
        with self.together(name):
            etypes = self._etypes_of(name, memory)
        group = self._session.group
        counts = numbers_of_all(group, etypes)
        first = self._shared.fetch_and_add(sum(counts)) if group.rank == 0 else 0
        return numbers_of_all(group, first)[0] + sum(counts[: group.rank])

    def _etypes_of(self, name: str, memory: Memory) -> int:
        return self._paired(name, 0, memory).required // self.view.etype.size_bytes

    # --- carrying out an access ------------------------------------------------------------------

    def _access(self, name: str, offset: int, memory: Memory) -> Status:
        """Carry out an access at an offset in etypes."""
        access = self._paired(name, offset, memory)
        if not access.required:
            return Status(0)
        writing = _verb(name) == "write"
        with nullcontext() if self._lock is None else self._lock.acquired(writing=writing):
            if self.representation == "external32":
                return Status(self._transfer_swapped(access, writing=writing))
            return Status(self._transfer(access, writing=writing))

    def _transfer(self, access: PairedAccess, *, writing: bool) -> int:
        """Read or write the blocks of an access, and return the number of bytes."""
        transfer = self.file.pwrite_blocks if writing else self.file.pread_blocks
        return min(transfer(access.octets, *access.blocks), access.available)

    def _transfer_swapped(self, access: PairedAccess, *, writing: bool) -> int:
        """Read or write a copy of the data in which the bytes of each number are reversed."""
        # numba takes half a second to import, and few programs use this representation.
        from sfio_emu.layout.kernels import gather_list, scatter_list

        memory = np.frombuffer(access.octets, dtype=np.uint8)
        stream = np.empty(access.required, dtype=np.uint8)
        sources = np.ascontiguousarray(access.memory.offsets)
        positions = _stream_positions(access.memory.lengths)
        gather_list(memory, sources, positions, stream)
        if writing:
            stream = swapped(stream, self.view.etype)
        count = self._transfer(access.of_stream(stream.data), writing=writing)
        if not writing:
            stream[:count] = swapped(stream[:count], self.view.etype)
            scatter_list(memory, sources, positions, stream)
        return count

    def _access_and_advance(self, name: str, offset: int, memory: Memory) -> Status:
        """Carry out an access, and move the individual pointer behind the transferred bytes."""
        return self._advanced(self._access(name, offset, memory))

    def _access_together(self, name: str, offset: int, memory: Memory) -> Status:
        """Carry out an access of all processes. Collective."""
        with self.together(name):
            return self._access(name, offset, memory)

    def _access_together_and_advance(self, name: str, offset: int, memory: Memory) -> Status:
        """Carry out an access of all processes, and move the individual pointer. Collective."""
        return self._advanced(self._access_together(name, offset, memory))

    def _advanced(self, status: Status) -> Status:
        self._position += status // self.view.etype.size_bytes
        return status

    def _begin(self, name: str, offset: int, memory: Memory) -> Request:
        """Start an access.

        In the atomic mode and in external32 it is carried out at once, because something remains to
        be done after the transfer.
        """
        file = self.file
        if self._lock is not None or self.representation == "external32":
            return file.completed(self._access(name, offset, memory))
        access = self._paired(name, offset, memory)
        begin = file.ipwrite_blocks if _verb(name) == "write" else file.ipread_blocks
        return begin(access.octets, *access.blocks)

    def _begin_split(self, name: str, offset: int, memory: Memory) -> None:
        """Carry out the first half of a split routine."""
        self.require_no_split()
        request = self._begin(name, offset, memory)
        self._split = _SplitAccess(name.removesuffix("_begin"), request)

    def require_no_split(self) -> None:
        """Raise UsageError if a split access is in progress."""
        if self._split is not None:
            name = self._split.name
            raise UsageError(f"{name} has begun on this file: end it first ({name}_end)")

    def _end_split(self, name: str, offset: int, memory: Memory) -> Status:
        """Carry out the second half of a split routine.

        Raises:
            UsageError: No access is in progress, or one of another routine.
        """
        # This checks the type of the buffer, which is not used otherwise.
        as_bytes(memory.buffer)
        name = name.removesuffix("_end")
        split = self._split
        self._split = None
        with self.together(f"{name}_end"):
            if split is None or split.name != name:
                begun_name = split.name if split else "nothing"
                raise UsageError(f"{name}_end where {begun_name} has begun: begin and end alike")
            count = split.request.wait()
        return Status(count)

    def _paired(self, name: str, offset: int, memory: Memory) -> PairedAccess:
        """Return the blocks of file and memory that a call means.

        Args:
            name: The name of the routine.
            offset: The offset in etypes.
            memory: The memory.

        Raises:
            UsageError: The file does not allow it, or the memory does not consist of etypes.
        """
        self.require_open()
        verb = _verb(name)
        offset = etypes(offset)
        self._opening.require(verb == "write")
        octets = as_bytes(memory.buffer, writable=verb == "read").data
        if memory.layout is None:
            runs = memory_runs(len(octets), len(octets), BYTE, memory.start_byte)
        else:
            runs = memory_runs(len(octets), memory.elements, memory.layout, memory.start_byte)
        required = runs.size_bytes
        if required % self.view.etype.size_bytes:
            raise UsageError(
                f"{verb} of {required} bytes through a view of etypes "
                f"of {self.view.etype.size_bytes}: give whole etypes"
            )
        first_byte = offset * self.view.etype.size_bytes
        available = required
        if required and verb == "read" and self.view.overlapping:
            # If a byte of the file appears twice in the view, the sum of the blocks that were read
            # does not say where the file ends in the view's stream.
            available = max(0, self.view.bytes_before(self.file.size()) - first_byte)
            available = min(required, available)
        return PairedAccess(octets, runs, self.view, first_byte, available)

    @contextmanager
    def together(self, name: str, *arguments: object) -> Iterator[None]:
        """Run the part of this process in a collective call.

        If it fails in one process, or the arguments differ, every process raises an error.

        Args:
            name: The name of the call.
            arguments: The arguments that must be the same in all processes.
        """
        with self._session.agreed(name, arguments):
            self.require_open()
            self.require_no_split()
            yield

    # --- the routines ----------------------------------------------------------------------------

    read_at = _Routine(_access)
    write_at = _Routine(_access)
    read_at_all = _Routine(_access_together)
    write_at_all = _Routine(_access_together)
    iread_at = _Routine(_begin)
    iwrite_at = _Routine(_begin)
    # All processes start these together (section 14.4.5). No request waits for another process, so
    # that they do the same as those above.
    iread_at_all = _Routine(_begin)
    iwrite_at_all = _Routine(_begin)
    read_at_all_begin = _Routine(_begin_split)
    write_at_all_begin = _Routine(_begin_split)
    read_at_all_end = _Routine(_end_split, _no_offset)
    write_at_all_end = _Routine(_end_split, _no_offset)

    read = _Routine(_access_and_advance, _at_pointer)
    write = _Routine(_access_and_advance, _at_pointer)
    read_all = _Routine(_access_together_and_advance, _at_pointer)
    write_all = _Routine(_access_together_and_advance, _at_pointer)
    iread = _Routine(_begin, _advance_pointer)
    iwrite = _Routine(_begin, _advance_pointer)
    iread_all = _Routine(_begin, _advance_pointer)
    iwrite_all = _Routine(_begin, _advance_pointer)
    read_all_begin = _Routine(_begin_split, _advance_pointer)
    write_all_begin = _Routine(_begin_split, _advance_pointer)
    read_all_end = _Routine(_end_split, _no_offset)
    write_all_end = _Routine(_end_split, _no_offset)

    read_shared = _Routine(_access, _advance_shared)
    write_shared = _Routine(_access, _advance_shared)
    iread_shared = _Routine(_begin, _advance_shared)
    iwrite_shared = _Routine(_begin, _advance_shared)
    read_ordered = _Routine(_access_together, _advance_ordered)
    write_ordered = _Routine(_access_together, _advance_ordered)
    read_ordered_begin = _Routine(_begin_split, _advance_ordered)
    write_ordered_begin = _Routine(_begin_split, _advance_ordered)
    read_ordered_end = _Routine(_end_split, _no_offset)
    write_ordered_end = _Routine(_end_split, _no_offset)


def _verb(name: str) -> Verb:
    return "write" if "write" in name else "read"


def _stream_positions(lengths: Integers) -> Integers:
    """Return the position of each run in the stream, and that behind the last: shape (n + 1,)."""
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)


def etypes(offset: int) -> int:
    """Return an offset in etypes of the view, or raise UsageError if it is invalid."""
    return whole_number(offset, "offset (etypes of the view)")
