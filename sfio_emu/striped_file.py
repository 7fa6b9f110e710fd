"""A striped file as a Python object: reads and writes of any buffer at any offset, in place, one block or many.
`StripedFile.open(name, stripe_unit, session=...)`; opening, closing and truncating are collective over the group."""

from __future__ import annotations

import secrets
import warnings
import weakref
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, NoReturn, Self, overload

import numpy as np
import numpy.typing as npt

from sfio_emu import message_bodies
from sfio_emu.client.access import Access
from sfio_emu.client.buffers import as_bytes, blocks_of, each_offset, span
from sfio_emu.client.catalogue import sync_subfiles
from sfio_emu.client.current_session import current_session
from sfio_emu.client.nonblocking import Request, start
from sfio_emu.client.opening import REPAIR, check_layout, open_subfiles
from sfio_emu.client.session import Session
from sfio_emu.client.size_check import NO_END, fit_one_file, min_size
from sfio_emu.errors import SfioError, UsageError, whole_number
from sfio_emu.layout.piece import Bytes
from sfio_emu.layout.requests import Requests, make_requests
from sfio_emu.layout.striping import Layout
from sfio_emu.message_bodies import OpenFlag
from sfio_emu.names import SubfileName, parse_file_name
from sfio_emu.ports import Direction
from sfio_emu.positioned_file import Opening, PositionedFile, parse_mode
from sfio_emu.settings import Settings
from sfio_emu.wire import Kind

if TYPE_CHECKING:
    from typing_extensions import Buffer

AT_ONCE_BYTES = 1 << 20


class Extent(NamedTuple):
    """Sizes of a file in bytes: the sum of its subfiles; up to its first missing byte; up to its furthest byte."""

    size: int
    readable: int
    end: int

    @property
    def whole(self) -> bool:
        """Whether the subfiles are those of one file."""
        return self.size == self.readable == self.end


class StripedFile(PositionedFile):
    """An open striped file. `counters` say what its calls have done, `layout` how it lies, `subfiles` where.

    It is a raw file of Python: `io.BufferedReader`, `BufferedWriter` and `BufferedRandom` take it, and all that take a
    file.
    """

    def __init__(
        self,
        subfiles: Sequence[SubfileName],
        layout: Layout,
        session: Session,
        settings: Settings | None = None,
        mode: str = "rw",
    ) -> None:
        """Use `open`."""
        self.subfiles = tuple(subfiles)
        self.layout = layout
        self.session = session
        self.name = ";".join(map(str, self.subfiles))
        self._opening = parse_mode(mode)
        self.mode = mode if "b" in mode else f"{mode}b"
        self._access = Access(subfiles, layout, session, settings)
        self.counters = self._access.counters
        self._access.read_only = not self._opening.writes
        self._closed = False
        self._position = 0
        self._requests: weakref.WeakSet[Request] = weakref.WeakSet()

    def __reduce__(self) -> NoReturn:
        raise TypeError("an open striped file belongs to its process: open it in the other")

    @classmethod
    def open(
        cls,
        name: str,
        stripe_unit: int,
        *,
        mode: str = "rw",
        session: Session | None = None,
        settings: Settings | None = None,
    ) -> Self:
        """Open a striped file: collective, a synchronisation point.

        `mode`: as in `sfio_emu.positioned_file.FILE_MODES`; by default it is read, written and made where missing.
        `settings`: of this file, where they are not to be the session's. Raises `UsageError` (name, stripe unit, mode;
        another process means another file; the file was written, or is open, with another layout), `ListenerLost`,
        `RemoteFailure` (ENOENT: missing, EEXIST: there already).
        """
        session = session or current_session()
        with session.agreed(
            "open", [name, stripe_unit] if mode == "rw" else [name, stripe_unit, mode]
        ):
            if settings is not None and not isinstance(settings, Settings):
                raise UsageError(
                    f"settings of type {type(settings).__name__}: give a Settings, or None"
                )
            subfiles = parse_file_name(name)
            layout = Layout(stripe_unit=stripe_unit, subfiles=len(subfiles))
            file = cls(subfiles, layout, session, settings, mode)
        file._open_together()
        return file

    def _open_together(self) -> None:
        """Open the subfiles in all processes; what one alone may do, rank 0 does before the others."""
        opening, rank = self._opening, self.session.group.rank
        steps = [(True, opening)]
        if opening.exclusive or opening.truncate:
            steps = [(rank == 0, opening), (rank != 0, Opening(reads=opening.reads))]
        try:
            for number, (mine, meant) in enumerate(steps):
                with self.session.agreed("open (the subfiles)", [number]):
                    if mine:
                        self._open_subfiles(meant)
        except Exception:
            self.session.unmake(
                self._access.opened
            )  # what was made by this opening, and is empty, goes
            self._release()  # the error on its way says more
            with suppress(SfioError):
                self.session.group.barrier()  # what was made is gone before anybody tries again
            raise

    def _open_subfiles(self, opening: Opening) -> None:
        unit, access = self.layout.stripe_unit, self._access
        flags = OpenFlag.CREATE if opening.create else OpenFlag(0)
        flags |= OpenFlag.EXCLUSIVE if opening.exclusive else OpenFlag(0)
        flags |= OpenFlag.READ_ONLY if access.read_only else OpenFlag(0)
        access.opened = open_subfiles(
            self.session, self.subfiles, unit, flags, truncate=opening.truncate
        )
        access.sizes = [one.opened.size for one in access.opened]
        access.doubtful = not opening.truncate and not fit_one_file(
            self.layout, dict(enumerate(access.sizes))
        )
        known: dict[tuple[bytes, int, int], SubfileName] = {}
        for number, (subfile, one) in enumerate(zip(self.subfiles, access.opened, strict=True)):
            opened, machine = one.opened, self.session.link(subfile.host).machine
            other = known.setdefault((machine, opened.device, opened.inode), subfile)
            if other is not subfile:
                raise UsageError(
                    f"{other} and {subfile} of the file name are one file on the disk: name each subfile once"
                )
            check_layout(one, (unit, number, len(self.subfiles)))
        if opening.truncate and not all(one.opened.created for one in access.opened):
            self._resize([0] * len(self.subfiles))
        self._position = sum(access.sizes) if opening.append else 0

    def _release(self) -> SfioError | None:
        """Close the subfiles when all requests are done, going on after a fault; the first fault, or None."""
        for request in list(self._requests):
            request.await_end()
        opened, self._access.opened = self._access.opened, []
        return self.session.release(opened)

    def close(self) -> None:
        """Close the file: collective, a synchronisation point. Closing again does nothing."""
        with self.session.guard:  # no other thread is in the middle of a call
            if self._closed:
                return
            self._closed = True
        fault = self._release()
        self.session.agree("close", [str(subfile) for subfile in self.subfiles], fault)

    @property
    def closed(self) -> bool:
        """Whether it is."""
        return self._closed

    def __del__(self) -> None:
        """Nothing: closing is collective, and no process knows when another forgets its file."""

    def forget(self) -> None:
        """Leave the subfiles to be closed by the session when it opens others; for a finalizer, which may not wait."""
        self._closed = True
        self.session.forgotten.append(self._access.opened)

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if error is None:
            self.close()
            return
        with self.session.guard:
            self._closed = (
                True  # the others may never come to a collective close: leave without them
            )
        self._release()  # the error on its way says more

    # --- reading and writing -------------------------------------------------------------------------------------

    def pwrite(self, data: Buffer, offset: int) -> int:
        """Write all bytes of `data` at `offset` of the file; returns their number. When it returns they are in the
        subfiles. Raises `UsageError`, `ListenerLost`, `RemoteFailure` (other subfiles are written nevertheless)."""
        memory, offset = as_bytes(data), whole_number(offset, "offset")
        with self.session.guard:
            self._require_open(writing=True)
            self._access.write_block(memory, offset)
        return len(memory)

    @overload
    def pread(self, target: int, offset: int) -> bytes: ...
    @overload
    def pread(self, target: Buffer, offset: int) -> int: ...
    def pread(self, target: int | Buffer, offset: int) -> bytes | int:
        """Read into the buffer `target` (returns how many bytes, fewer at the end of the file), or as many bytes as
        the number `target` says (returns them)."""
        offset = whole_number(offset, "offset")
        if isinstance(target, (int, np.integer)):
            target = whole_number(target, "number of bytes to read")
            size = target if target <= AT_ONCE_BYTES else max(min(target, self.size() - offset), 0)
            try:
                buffer = bytearray(size)
            except MemoryError:
                raise UsageError(
                    f"{size} bytes do not fit into memory: read them part by part"
                ) from None
            return bytes(memoryview(buffer)[: self.pread(buffer, offset)])
        memory = as_bytes(target, writable=True)
        with self.session.guard:
            self._require_open(writing=False)
            missing = self._access.read_block(memory, offset)
        return max(0, min(len(memory), missing - offset))

    def pwritev(self, buffers: Sequence[Buffer], offsets: int | Sequence[int]) -> int:
        """Write many buffers in one call: one after the other from an offset, or each at its own.

        Where blocks overlap, the later one of the call wins. Returns the number of bytes.
        """
        memory, places, sizes = span(buffers, writable=False)
        return self._write(memory, make_requests(each_offset(offsets, sizes), places, sizes))

    def preadv(self, buffers: Sequence[Buffer], offsets: int | Sequence[int]) -> list[int]:
        """Read into many buffers in one call; how many bytes each got."""
        memory, places, sizes = span(buffers, writable=True)
        every = each_offset(offsets, sizes)
        return _counts(self._read(memory, make_requests(every, places, sizes)), every, sizes)

    def pwrite_blocks(
        self, data: Buffer, offsets: npt.ArrayLike, places: npt.ArrayLike, sizes: npt.ArrayLike
    ) -> int:
        """Write blocks of one buffer: `sizes[i]` bytes from byte `places[i]` of `data` to `offsets[i]` of the file."""
        return self._write(*blocks_of(data, offsets, places, sizes))

    def pread_blocks(
        self, target: Buffer, offsets: npt.ArrayLike, places: npt.ArrayLike, sizes: npt.ArrayLike
    ) -> int:
        """Read blocks into one buffer; how many bytes in all (a block past the end of the file gets fewer or none)."""
        memory, requests = blocks_of(target, offsets, places, sizes, writable=True)
        return _total(self._read(memory, requests), requests)

    def ipwrite(self, data: Buffer, offset: int) -> Request:
        """As `pwrite`, but only begun: `wait` of the request gives the number of bytes. `data` must not change
        before."""
        return self._begin("write", *blocks_of(data, [offset], [0], [len(as_bytes(data))]))

    def ipread(self, target: Buffer, offset: int) -> Request:
        """As `pread` into a buffer, but only begun: `wait` of the request gives the number of bytes."""
        return self._begin(
            "read", *blocks_of(target, [offset], [0], [len(as_bytes(target))], writable=True)
        )

    def ipwrite_blocks(
        self, data: Buffer, offsets: npt.ArrayLike, places: npt.ArrayLike, sizes: npt.ArrayLike
    ) -> Request:
        """As `pwrite_blocks`, but only begun."""
        return self._begin("write", *blocks_of(data, offsets, places, sizes))

    def ipread_blocks(
        self, target: Buffer, offsets: npt.ArrayLike, places: npt.ArrayLike, sizes: npt.ArrayLike
    ) -> Request:
        """As `pread_blocks`, but only begun."""
        return self._begin("read", *blocks_of(target, offsets, places, sizes, writable=True))

    def _begin(self, direction: Direction, memory: Bytes, requests: Requests) -> Request:
        writing = direction == "write"
        with self.session.guard:
            self._require_open(writing=writing)
            if not len(requests):
                return self.completed(0)
            job = self._access.job(direction, memory, requests)
            count = (
                partial(_total, NO_END, requests) if writing else lambda: _total(job.end, requests)
            )
            request = start(self._access, direction, job, count)
            self._requests.add(request)
        return request

    def completed(self, moved: int) -> Request:
        """The request of an access that has been carried out."""
        return start(self._access, "read", None, lambda: moved)

    def write_fragments(self, data: Buffer, offset: int) -> int:
        """Write without any optimisation: one message, one answer, one call of the disk for each fragment."""
        memory, offset = as_bytes(data), whole_number(offset, "offset")
        make_requests([offset], [0], [len(memory)])
        with self.session.guard:
            self._require_open(writing=True)
            self._access.write_fragments(memory, offset)
        return len(memory)

    def read_fragments(self, target: Buffer, offset: int) -> int:
        """Read without any optimisation; how many bytes."""
        memory, offset = as_bytes(target, writable=True), whole_number(offset, "offset")
        make_requests([offset], [0], [len(memory)])
        with self.session.guard:
            self._require_open(writing=False)
            return sum(
                _counts(self._access.read_fragments(memory, offset), [offset], [len(memory)])
            )

    def _write(self, memory: Bytes, requests: Requests) -> int:
        with self.session.guard:
            self._require_open(writing=True)
            self._access.write(memory, requests)
        return requests.total_bytes

    def _read(self, memory: Bytes, requests: Requests) -> int:
        with self.session.guard:
            self._require_open(writing=False)
            return self._access.read(memory, requests)

    # --- the size ------------------------------------------------------------------------------------------------

    def size(self) -> int:
        """The size of the file now: the sum of the sizes of its subfiles."""
        return self.layout.logical_size(self._sizes())

    def _sizes(self) -> list[int]:
        """Of the subfiles now."""
        with self.session.guard:
            self._require_open()
            return self._access.ask_sizes()

    def truncate(self, size: int | None = None) -> int:
        """Make the file `size` bytes long (up to the position unless given), shorter or, with zeros, longer:
        collective."""
        return self.change_size(self._position if size is None else size)

    def change_size(self, size: int) -> int:
        """As `truncate`, the size given: collective."""
        with self.session.agreed("truncate", [[str(subfile) for subfile in self.subfiles], size]):
            self._require_open()
            self._opening.require(writing=True)
            size = whole_number(size, "size of the file")
        sizes, self._access.doubtful = self.layout.subfile_sizes(size), True
        with self.session.agreed("truncate (the change)", [size]):
            if self.session.group.rank == 0:
                self._resize(sizes)
                self._access.fit()
        self._access.sizes, self._access.doubtful = list(sizes), False
        return size

    def sync(self, *, durable: bool = False) -> None:
        """Return when every process has come: what any of them wrote before is seen by all. Collective.

        `durable`: it is on the medium of every I/O node too (fsync), and survives a power cut.
        """
        with self.session.agreed("sync", [[str(subfile) for subfile in self.subfiles], durable]):
            self._require_open()
            for request in list(self._requests):
                request.await_end()
        if not durable:
            return
        with self.session.agreed("sync (to the medium)", []):
            if self.session.group.rank == 0:
                sync_subfiles(self.session, self._access.opened)

    def _resize(self, sizes: Sequence[int]) -> None:
        cut, pack = (
            secrets.randbits(64),
            message_bodies.RESIZE.pack,
        )  # a number that no other truncation has
        self._access.ask_each(
            Kind.RESIZE, lambda number, handle: pack(handle, sizes[number], cut), bytes
        )

    def extent(self) -> Extent:
        """How far the file can be read, and how far its furthest byte reaches: the same unless somebody died while
        writing."""
        sizes = self._sizes()
        readable = min(
            self.layout.logical_offset(number, size) for number, size in enumerate(sizes)
        )
        return Extent(
            size=sum(sizes), readable=readable, end=min_size(self.layout, dict(enumerate(sizes)))
        )

    def _require_open(self, *, writing: bool | None = None) -> None:
        if self._closed:
            raise UsageError(f"the striped file {self.subfiles[0]};... is closed: open it again")
        if writing is not None:
            self._opening.require(writing)
        if writing and self._access.doubtful:
            self._access.doubtful = not any(
                self.extent().whole for _ in range(3)
            )  # others may be writing
            if self._access.doubtful:
                text = f"{self.name} is not whole: its subfiles do not have the sizes of one file; {REPAIR}"
                warnings.warn(text, RuntimeWarning, stacklevel=3)


def _total(missing: int, requests: Requests) -> int:
    """How many bytes of the requests lie before the first that is missing."""
    if missing >= NO_END:
        return requests.total_bytes
    return int(np.clip(missing - requests.offsets, 0, requests.sizes).sum())


def _counts(missing: int, offsets: Sequence[int], sizes: Sequence[int]) -> list[int]:
    return [
        max(0, min(size, missing - offset)) for offset, size in zip(offsets, sizes, strict=True)
    ]
