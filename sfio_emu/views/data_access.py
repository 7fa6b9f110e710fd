"""MPI's data access routines on one open file (MPI 4.0, section 14.4, table 14.1): three ways to say where, alone or
together with the other processes, at once, begun, or split. All of them come down to one multi-block request. What
the processes keep together of a file are counters of their group: the shared pointer (section 14.4.4), and who may
access it in the atomic mode (section 14.6.1)."""

from __future__ import annotations

import weakref
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import numpy as np

from sfio_emu.client.buffers import as_bytes
from sfio_emu.client.nonblocking import Request
from sfio_emu.client.session import Session
from sfio_emu.client.threads import Event
from sfio_emu.errors import SfioError, UsageError, whole_number
from sfio_emu.ports import ProcessGroup
from sfio_emu.positioned_file import Opening
from sfio_emu.striped_file import StripedFile
from sfio_emu.views.access_modes import Amode
from sfio_emu.views.data_representation import Status, swapped
from sfio_emu.views.datatypes import BYTE, Datatype, Integers
from sfio_emu.views.file_views import PairedAccess, View, memory_runs

if TYPE_CHECKING:
    import numpy.typing as npt
    from typing_extensions import Buffer

    Block = Buffer | npt.NDArray[Any]
    Memory = tuple[Block, Datatype | None, int, int]
    """A buffer and what of it is meant: layout, count and start byte as of `DataAccess.read_at`."""

RETRY_S = 0.001
WRITER = 1 << 32

_counted: weakref.WeakKeyDictionary[ProcessGroup, int] = weakref.WeakKeyDictionary()


def _new_counter(group: ProcessGroup, kind: str) -> str:
    """The name of a counter: the same in all processes, which make them in the same order."""
    number = _counted.get(group, 0)
    _counted[group] = number + 1
    return f"{kind}:{number}"


def numbers_of_all(group: ProcessGroup, number: int) -> list[int]:
    """The numbers of all processes, that of rank i at place i; collective."""
    return [int(item) for item in group.all_gather(b"%d" % number)]


class SharedPointer:
    """The shared pointer of one collectively opened file: a counter of the group, in etypes. Making one is
    collective, as opening is. A new view does not reset the counter, which somebody else may be adding to, but notes
    what it was when all had come."""

    def __init__(self, group: ProcessGroup) -> None:
        self._group, self._name = group, _new_counter(group, "shared pointer")
        self._base = 0

    @property
    def position(self) -> int:
        """Where it points now, in etypes of the view."""
        return self._base + self._group.fetch_add(self._name, 0)

    def fetch_and_add(self, etypes: int) -> int:
        """Where an access of so many etypes begins; the next one, of whatever process, begins behind it."""
        return self._base + self._group.fetch_add(self._name, etypes)

    def move(self, position: int) -> None:
        """Let it point to `position`: collective, a synchronisation point."""
        self._group.barrier()  # nobody's call from before is under way any more
        count = self._group.fetch_add(self._name, 0) if self._group.rank == 0 else 0
        self._base = position - numbers_of_all(self._group, count)[0]


class AccessLock:
    """Many processes read, or one writes: what the atomic mode needs, as a counter of the group. Making one is
    collective.

    A reader counts 1 and a writer 2^32; who finds a writer before it, or is a writer and finds anybody, takes its count
    back and tries again. Where a process dies meanwhile the group is over, and nobody waits.
    """

    def __init__(self, group: ProcessGroup) -> None:
        self._group, self._name = group, _new_counter(group, "accesses")

    @contextmanager
    def held(self, *, writing: bool) -> Iterator[None]:
        """Around one access."""
        amount, allowed = (WRITER, 0) if writing else (1, WRITER - 1)
        while self._group.fetch_add(self._name, amount) > allowed:
            self._group.fetch_add(self._name, -amount)
            Event().wait(RETRY_S)
        try:
            yield
        finally:
            self._group.fetch_add(self._name, -amount)


Verb = Literal["read", "write"]
Result = TypeVar("Result")


class _Routine(Generic[Result]):
    """A routine of DataAccess: `act` does it, given the file, the routine's name, an offset in etypes and the memory;
    `start` gives the offset, and may move a pointer (None: the caller gives it)."""

    def __init__(
        self,
        act: Callable[[DataAccess, str, int, Memory], Result],
        start: Callable[[DataAccess, str, Memory], int] | None = None,
    ) -> None:
        self._act, self._start = act, start

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, file: DataAccess, owner: object = None) -> Callable[..., Result]:
        name, start = self._name, self._start

        def at_offset(
            offset: int,
            buffer: Block,
            memory: Datatype | None = None,
            count: int = 1,
            start_byte: int = 0,
        ) -> Result:
            with file.handling():
                file.require_positions(name)
                return self._act(file, name, offset, (buffer, memory, count, start_byte))

        def at_pointer(
            buffer: Block, memory: Datatype | None = None, count: int = 1, start_byte: int = 0
        ) -> Result:
            place = (buffer, memory, count, start_byte)
            with file.handling():
                return self._act(
                    file, name, 0 if start is None else start(file, name, place), place
                )

        return at_offset if start is None else at_pointer


class DataAccess:
    """What an open file needs for its accesses, and the accesses.

    Every routine takes a buffer, of which the whole is meant, or `count` elements of the layout `memory`, element 0 at
    `start_byte`. `..._at` take first an `offset` in etypes of the view; `..._shared` and `..._ordered` use the pointer
    that all processes share; the others the individual one. Names with `_all` and `_ordered` are collective. They give
    the bytes that were moved (`Status`), fewer at the end of the file; pointers move behind what was moved, in whole
    etypes, the shared one behind what was requested.

    Names with `i` only begin: `wait` of the request gives the bytes, `test` says whether it is done; pointers move at
    once. Names with `_begin` and `_end` are the halves of a collective one, of which a file has one at a time: the
    buffer must not be touched between them.
    """

    file: StripedFile
    _session: Session
    amode: Amode
    _opening: Opening
    view: View
    _shared: SharedPointer
    _position = 0
    representation = "native"
    _lock: AccessLock | None = None
    _split: tuple[str, Request] | None = None
    errhandler: Callable[[DataAccess, SfioError], object] | None = None
    """Called with the file and each error of its calls before the error is raised (MPI 4.0, section 9.3)."""

    @contextmanager
    def handling(self) -> Iterator[None]:
        """Around every call."""
        try:
            yield
        except SfioError as error:
            if self.errhandler is not None:
                self.errhandler(self, error)
            raise

    @abstractmethod
    def require_open(self) -> None: ...

    def require_positions(self, what: str) -> None:
        """Raises `UsageError` for a call that positions a sequential file."""
        if self.amode & Amode.SEQUENTIAL:
            raise UsageError(
                f"{what} of a file that was opened as SEQUENTIAL: use the shared pointer"
            )

    # --- where -------------------------------------------------------------------------------------------------------

    def _nowhere(self, name: str, memory: Memory) -> int:
        return 0

    def _here(self, name: str, memory: Memory) -> int:
        self.require_positions(name)
        return self._position

    def _ahead(self, name: str, memory: Memory) -> int:
        """Where the individual pointer was; it has moved behind the access."""
        before = self._here(name, memory)
        self._position += self._etypes_of(name, memory)
        return before

    def _take(self, name: str, memory: Memory) -> int:
        return self._shared.fetch_and_add(self._etypes_of(name, memory))

    def _take_ordered(self, name: str, memory: Memory) -> int:
        with self.together(name):
            etypes = self._etypes_of(name, memory)
        group, counts = self._session.group, numbers_of_all(self._session.group, etypes)
        first = self._shared.fetch_and_add(sum(counts)) if group.rank == 0 else 0
        return numbers_of_all(group, first)[0] + sum(counts[: group.rank])

    def _etypes_of(self, name: str, memory: Memory) -> int:
        return self._blocks(name, 0, memory).required // self.view.etype.size_bytes

    # --- how ---------------------------------------------------------------------------------------------------------

    def _now(self, name: str, offset: int, memory: Memory) -> Status:
        access = self._blocks(name, offset, memory)
        if not access.required:
            return Status(0)
        writing = _verb(name) == "write"
        with nullcontext() if self._lock is None else self._lock.held(writing=writing):
            if self.representation == "external32":
                return Status(self._move_swapped(access, writing=writing))
            return Status(self._move(access, writing=writing))

    def _move(self, access: PairedAccess, *, writing: bool) -> int:
        move = self.file.pwrite_blocks if writing else self.file.pread_blocks
        return min(move(access.octets, *access.blocks), access.there)

    def _move_swapped(self, access: PairedAccess, *, writing: bool) -> int:
        """By a copy whose numbers have the order of the file."""
        from sfio_emu.layout.kernels import gather_list, scatter_list

        memory, stream = (
            np.frombuffer(access.octets, dtype=np.uint8),
            np.empty(access.required, dtype=np.uint8),
        )
        sources, ends = np.ascontiguousarray(access.places.offsets), _ends(access.places.lengths)
        gather_list(memory, sources, ends, stream)
        if writing:
            stream = swapped(stream, self.view.etype)
        moved = self._move(access.of_stream(stream.data), writing=writing)
        if not writing:
            stream[:moved] = swapped(stream[:moved], self.view.etype)
            scatter_list(memory, sources, ends, stream)
        return moved

    def _now_on(self, name: str, offset: int, memory: Memory) -> Status:
        return self._advanced(self._now(name, offset, memory))

    def _all(self, name: str, offset: int, memory: Memory) -> Status:
        with self.together(name):
            return self._now(name, offset, memory)

    def _all_on(self, name: str, offset: int, memory: Memory) -> Status:
        return self._advanced(self._all(name, offset, memory))

    def _advanced(self, moved: Status) -> Status:
        self._position += moved // self.view.etype.size_bytes
        return moved

    def _begin(self, name: str, offset: int, memory: Memory) -> Request:
        file = self.file
        if self._lock is not None or self.representation == "external32":
            return file.completed(self._now(name, offset, memory))
        access = self._blocks(name, offset, memory)
        begin = file.ipwrite_blocks if _verb(name) == "write" else file.ipread_blocks
        return begin(access.octets, *access.blocks)

    def _begin_split(self, name: str, offset: int, memory: Memory) -> None:
        self.require_no_split()
        self._split = name.removesuffix("_begin"), self._begin(name, offset, memory)

    def require_no_split(self) -> None:
        """Raises `UsageError` while a split collective access is under way."""
        if self._split is not None:
            raise UsageError(
                f"{self._split[0]} has begun on this file: end it first ({self._split[0]}_end)"
            )

    def _end_split(self, name: str, offset: int, memory: Memory) -> Status:
        """The second half of a split routine; raises `UsageError` where another has begun, or none."""
        as_bytes(memory[0])
        name, begun, self._split = name.removesuffix("_end"), self._split, None
        with self.together(f"{name}_end"):
            if begun is None or begun[0] != name:
                raise UsageError(
                    f"{name}_end where {begun[0] if begun else 'nothing'} has begun: begin and end alike"
                )
            moved = begun[1].wait()
        return Status(moved)

    def _blocks(self, name: str, offset: int, memory: Memory) -> PairedAccess:
        """What a call means in blocks of the file and of memory. Raises UsageError."""
        self.require_open()
        verb = _verb(name)
        offset = etypes(offset)
        self._opening.require(verb == "write")
        buffer, layout, elements, start_byte = memory
        octets = as_bytes(buffer, writable=verb == "read").data
        if layout is None:
            layout, elements = BYTE, len(octets)
        places = memory_runs(len(octets), elements, layout, start_byte)
        required = there = places.size_bytes
        if required % self.view.etype.size_bytes:
            text = f"{verb} of {required} bytes through a view of etypes of {self.view.etype.size_bytes}"
            raise UsageError(f"{text}: give whole etypes")
        first_byte = offset * self.view.etype.size_bytes
        if required and verb == "read" and self.view.overlapping:
            # bytes up to the end of the file are not what a sum of blocks says
            there = min(required, max(0, self.view.bytes_before(self.file.size()) - first_byte))
        return PairedAccess(octets, places, self.view, first_byte, there)

    @contextmanager
    def together(self, what: str, *same: object) -> Iterator[None]:
        """Around the part of each process in a collective call: every process goes on, or every process raises, also
        where `same` differ."""
        with self._session.agreed(what, same):
            self.require_open()
            self.require_no_split()
            yield

    # --- the routines ------------------------------------------------------------------------------------------------

    read_at, write_at = _Routine(_now), _Routine(_now)
    read_at_all, write_at_all = _Routine(_all), _Routine(_all)
    iread_at, iwrite_at = _Routine(_begin), _Routine(_begin)
    # begun by all processes together (section 14.4.5): a request waits for nobody, so that these do what the others do
    iread_at_all, iwrite_at_all = _Routine(_begin), _Routine(_begin)
    read_at_all_begin, write_at_all_begin = _Routine(_begin_split), _Routine(_begin_split)
    read_at_all_end, write_at_all_end = (
        _Routine(_end_split, _nowhere),
        _Routine(_end_split, _nowhere),
    )

    read, write = _Routine(_now_on, _here), _Routine(_now_on, _here)
    read_all, write_all = _Routine(_all_on, _here), _Routine(_all_on, _here)
    iread, iwrite = _Routine(_begin, _ahead), _Routine(_begin, _ahead)
    iread_all, iwrite_all = _Routine(_begin, _ahead), _Routine(_begin, _ahead)
    read_all_begin, write_all_begin = _Routine(_begin_split, _ahead), _Routine(_begin_split, _ahead)
    read_all_end, write_all_end = _Routine(_end_split, _nowhere), _Routine(_end_split, _nowhere)

    read_shared, write_shared = _Routine(_now, _take), _Routine(_now, _take)
    iread_shared, iwrite_shared = _Routine(_begin, _take), _Routine(_begin, _take)
    read_ordered, write_ordered = _Routine(_all, _take_ordered), _Routine(_all, _take_ordered)
    read_ordered_begin = _Routine(_begin_split, _take_ordered)
    write_ordered_begin = _Routine(_begin_split, _take_ordered)
    read_ordered_end, write_ordered_end = (
        _Routine(_end_split, _nowhere),
        _Routine(_end_split, _nowhere),
    )


def _verb(name: str) -> Verb:
    return "write" if "write" in name else "read"


def _ends(lengths: Integers) -> Integers:
    """Where each block begins in the stream, and behind them its end: shape (n + 1,)."""
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)


def etypes(offset: int) -> int:
    """An offset in etypes of the view; raises `UsageError` for what is none."""
    return whole_number(offset, "offset (etypes of the view)")
