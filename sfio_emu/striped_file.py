"""A striped file as a Python object.

It reads and writes any buffers at any offsets, without copying them first: one block in a call, or
many. `StripedFile.open(name, stripe_unit, session=...)` opens one. Opening, closing and truncating
are collective over the process group.
"""

from __future__ import annotations

import secrets
import warnings
import weakref
from collections.abc import Sequence
from contextlib import suppress
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

# `pread` allocates memory for more bytes than this only after asking for the size of the file.
AT_ONCE_BYTES = 1 << 20


class Extent(NamedTuple):
    """The extent of a file.

    Attributes:
        size: The sum of the sizes of the subfiles, in bytes.
        readable: The offset of the first missing byte.
        end: The offset behind the last existing byte.
    """

    size: int
    readable: int
    end: int

    @property
    def whole(self) -> bool:
        """True if the subfiles have the sizes of one file."""
        return self.size == self.readable == self.end


class StripedFile(PositionedFile):
    """An open striped file.

    It is a raw file of Python. `io.BufferedReader`, `BufferedWriter` and `BufferedRandom` accept
    it, and so does everything else that accepts a file.

    Attributes:
        subfiles: The names of the subfiles.
        layout: The distribution of the file over them.
        session: The session.
        name: The name of the file.
        mode: The mode in which it was opened, with "b".
        counters: The counters of its calls.
    """

    def __init__(
        self,
        subfiles: Sequence[SubfileName],
        layout: Layout,
        session: Session,
        settings: Settings | None = None,
        mode: str = "rw",
    ) -> None:
        """Create the object without opening the subfiles; call `open` instead."""
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
        """Open a striped file. Collective, and a point of synchronisation.

        Args:
            name: The name of the file, "host/path;host/path;".
            stripe_unit: The stripe unit in bytes.
            mode: "rw" reads and writes, and creates what is missing. The modes of Python ("r",
                "r+", "w", "w+", "x", "x+", "a", "a+", each also with "b") mean the same as there.
            session: The session; by default that of the process.
            settings: The settings of this file; by default those of the session.

        Raises:
            UsageError: Name, stripe unit or mode are invalid, the processes name different files,
                or the file was written or is open with another layout.
            ListenerLost: An I/O node cannot be reached.
            RemoteFailure: The file is missing (ENOENT), or exists already (EEXIST).
        """
        session = session or current_session()
        arguments: list[object] = [name, stripe_unit]
        if mode != "rw":
            arguments.append(mode)
        with session.agreed("open", arguments):
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
        """Open the subfiles in all processes.

        If the file must not exist or is truncated, rank 0 opens it before the others.
        """
        opening = self._opening
        is_first = self.session.group.rank == 0
        # Each step: whether this process takes part in it, and how it opens the file.
        steps = [(True, opening)]
        if opening.exclusive or opening.truncate:
            steps = [(is_first, opening), (not is_first, Opening(reads=opening.reads))]
        try:
            for number, (takes_part, step_opening) in enumerate(steps):
                with self.session.agreed("open (the subfiles)", [number]):
                    if takes_part:
                        self._open_subfiles(step_opening)
        except Exception:
            # Subfiles that this opening created, and that are still empty, are deleted. Further
            # errors are ignored, because the first one says more.
            self.session.unmake(self._access.opened)
            self._release()
            with suppress(SfioError):
                # No process tries again before the created subfiles are deleted.
                self.session.group.barrier()
            raise

    def _open_subfiles(self, opening: Opening) -> None:
        unit = self.layout.stripe_unit
        access = self._access
        flags = OpenFlag(0)
        if opening.create:
            flags |= OpenFlag.CREATE
        if opening.exclusive:
            flags |= OpenFlag.EXCLUSIVE
        if access.read_only:
            flags |= OpenFlag.READ_ONLY
        access.opened = open_subfiles(
            self.session, self.subfiles, unit, flags, truncate=opening.truncate
        )
        access.sizes = [subfile.opened.size for subfile in access.opened]
        sizes_fit = fit_one_file(self.layout, dict(enumerate(access.sizes)))
        access.doubtful = not opening.truncate and not sizes_fit
        self._check_subfiles()
        if opening.truncate and not all(subfile.opened.created for subfile in access.opened):
            self._resize([0] * len(self.subfiles))
        self._position = sum(access.sizes) if opening.append else 0

    def _check_subfiles(self) -> None:
        """Check that the open subfiles are different files, and have the layout of this file."""
        name_by_file: dict[tuple[bytes, int, int], SubfileName] = {}
        for number, subfile in enumerate(self._access.opened):
            name = self.subfiles[number]
            opened = subfile.opened
            machine = self.session.link(name.host).machine
            other = name_by_file.setdefault((machine, opened.device, opened.inode), name)
            if other is not name:
                raise UsageError(
                    f"{other} and {name} of the file name are one file on the disk: "
                    "name each subfile once"
                )
            check_layout(subfile, (self.layout.stripe_unit, number, len(self.subfiles)))

    def _release(self) -> SfioError | None:
        """Close the subfiles after all requests are done, and return the first error, or None."""
        for request in list(self._requests):
            request.await_end()
        opened = self._access.opened
        self._access.opened = []
        return self.session.release(opened)

    def close(self) -> None:
        """Close the file. Collective, and a point of synchronisation.

        Closing it again does nothing.
        """
        # The guard waits until no other thread is inside a call.
        with self.session.guard:
            if self._closed:
                return
            self._closed = True
        fault = self._release()
        self.session.agree("close", [str(subfile) for subfile in self.subfiles], fault)

    @property
    def closed(self) -> bool:
        """True if the file is closed."""
        return self._closed

    def __del__(self) -> None:
        """Do nothing: closing is collective, and processes do not collect files together."""

    def forget(self) -> None:
        """Let the session close the subfiles when it opens others.

        Finalizers call this, because they must not wait for answers.
        """
        self._closed = True
        self.session.forgotten.append(self._access.opened)

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if error is None:
            self.close()
            return
        # After an error, the other processes may never call `close`. Close without them. Further
        # errors are ignored, because the first one says more.
        with self.session.guard:
            self._closed = True
        self._release()

    # --- reading and writing -------------------------------------------------------------------

    def pwrite(self, data: Buffer, offset: int) -> int:
        """Write all bytes of `data` at an offset of the file.

        Args:
            data: The bytes.
            offset: The offset in bytes.

        Returns:
            The number of bytes. They are in the subfiles.

        Raises:
            UsageError: The file is not open for writing, or an argument is invalid.
            ListenerLost: An I/O node cannot be reached. The data of the others are written.
            RemoteFailure: A system call failed. The data of other subfiles are written.
        """
        memory = as_bytes(data)
        offset = whole_number(offset, "offset")
        with self.session.guard:
            self._require_open(writing=True)
            self._access.write_block(memory, offset)
        return len(memory)

    @overload
    def pread(self, target: int, offset: int) -> bytes: ...
    @overload
    def pread(self, target: Buffer, offset: int) -> int: ...
    def pread(self, target: int | Buffer, offset: int) -> bytes | int:
        """Read at an offset of the file.

        Args:
            target: The buffer to read into, or the number of bytes to read.
            offset: The offset in bytes.

        Returns:
            The number of bytes read into the buffer, or the bytes. They are fewer at the end of the
            file.
        """
        offset = whole_number(offset, "offset")
        if isinstance(target, (int, np.integer)):
            return self._read_bytes(whole_number(target, "number of bytes to read"), offset)
        memory = as_bytes(target, writable=True)
        with self.session.guard:
            self._require_open(writing=False)
            missing = self._access.read_block(memory, offset)
        return max(0, min(len(memory), missing - offset))

    def _read_bytes(self, size: int, offset: int) -> bytes:
        """Return up to `size` bytes at the offset."""
        if size > AT_ONCE_BYTES:
            size = max(min(size, self.size() - offset), 0)
        try:
            buffer = bytearray(size)
        except MemoryError:
            raise UsageError(
                f"{size} bytes do not fit into memory: read them part by part"
            ) from None
        count = self.pread(buffer, offset)
        return bytes(memoryview(buffer)[:count])

    def pwritev(self, buffers: Sequence[Buffer], offsets: int | Sequence[int]) -> int:
        """Write many buffers in one call. Where blocks overlap, the last one is written.

        Args:
            buffers: The buffers.
            offsets: The offset of each buffer in the file, or that of the first if they follow one
                another.

        Returns:
            The number of bytes.
        """
        memory, places, sizes = span(buffers, writable=False)
        return self._write(memory, make_requests(each_offset(offsets, sizes), places, sizes))

    def preadv(self, buffers: Sequence[Buffer], offsets: int | Sequence[int]) -> list[int]:
        """Read into many buffers in one call.

        Args:
            buffers: The buffers.
            offsets: The offset of each buffer in the file, or that of the first if they follow one
                another.

        Returns:
            The number of bytes read into each buffer.
        """
        memory, places, sizes = span(buffers, writable=True)
        file_offsets = each_offset(offsets, sizes)
        missing = self._read(memory, make_requests(file_offsets, places, sizes))
        return _counts(missing, file_offsets, sizes)

    def pwrite_blocks(
        self, data: Buffer, offsets: npt.ArrayLike, places: npt.ArrayLike, sizes: npt.ArrayLike
    ) -> int:
        """Write blocks of one buffer in one call.

        Args:
            data: The buffer.
            offsets: The offset of each block in the file, in bytes.
            places: The offset of each block in the buffer, in bytes.
            sizes: The size of each block in bytes.

        Returns:
            The number of bytes.
        """
        return self._write(*blocks_of(data, offsets, places, sizes))

    def pread_blocks(
        self, target: Buffer, offsets: npt.ArrayLike, places: npt.ArrayLike, sizes: npt.ArrayLike
    ) -> int:
        """Read blocks into one buffer in one call.

        Args:
            target: The buffer.
            offsets: The offset of each block in the file, in bytes.
            places: The offset of each block in the buffer, in bytes.
            sizes: The size of each block in bytes.

        Returns:
            The number of bytes read. Bytes behind the end of the file are not read.
        """
        memory, requests = blocks_of(target, offsets, places, sizes, writable=True)
        return _total(self._read(memory, requests), requests)

    def ipwrite(self, data: Buffer, offset: int) -> Request:
        """Start a `pwrite`. `data` must not change until the request is done."""
        return self._begin("write", *blocks_of(data, [offset], [0], [len(as_bytes(data))]))

    def ipread(self, target: Buffer, offset: int) -> Request:
        """Start a `pread` into a buffer."""
        size = len(as_bytes(target))
        return self._begin("read", *blocks_of(target, [offset], [0], [size], writable=True))

    def ipwrite_blocks(
        self, data: Buffer, offsets: npt.ArrayLike, places: npt.ArrayLike, sizes: npt.ArrayLike
    ) -> Request:
        """Start a write with arguments as `pwrite_blocks`."""
        return self._begin("write", *blocks_of(data, offsets, places, sizes))

    def ipread_blocks(
        self, target: Buffer, offsets: npt.ArrayLike, places: npt.ArrayLike, sizes: npt.ArrayLike
    ) -> Request:
        """Start a read with arguments as `pread_blocks`."""
        return self._begin("read", *blocks_of(target, offsets, places, sizes, writable=True))

    def _begin(self, direction: Direction, memory: Bytes, requests: Requests) -> Request:
        with self.session.guard:
            self._require_open(writing=direction == "write")
            if not len(requests):
                return self.completed(0)
            job = self._access.job(direction, memory, requests)

            def count() -> int:
                # The end of a write is always NO_END: no byte of it is missing.
                return _total(job.end, requests)

            request = start(self._access, direction, job, count)
            self._requests.add(request)
        return request

    def completed(self, count: int) -> Request:
        """Return a request that is done, whose `wait` returns `count` bytes."""
        return start(self._access, "read", None, lambda: count)

    def write_fragments(self, data: Buffer, offset: int) -> int:
        """Write without optimisations: one message, one answer and one disk call per fragment.

        Args:
            data: The bytes.
            offset: The offset in the file, in bytes.

        Returns:
            The number of bytes.
        """
        memory = as_bytes(data)
        offset = whole_number(offset, "offset")
        # This raises an error if the block ends beyond the largest offset.
        make_requests([offset], [0], [len(memory)])
        with self.session.guard:
            self._require_open(writing=True)
            self._access.write_fragments(memory, offset)
        return len(memory)

    def read_fragments(self, target: Buffer, offset: int) -> int:
        """Read without optimisations: one message, one answer and one disk call per fragment.

        Args:
            target: The buffer to read into.
            offset: The offset in the file, in bytes.

        Returns:
            The number of bytes read.
        """
        memory = as_bytes(target, writable=True)
        offset = whole_number(offset, "offset")
        # This raises an error if the block ends beyond the largest offset.
        make_requests([offset], [0], [len(memory)])
        with self.session.guard:
            self._require_open(writing=False)
            missing = self._access.read_fragments(memory, offset)
        return max(0, min(len(memory), missing - offset))

    def _write(self, memory: Bytes, requests: Requests) -> int:
        with self.session.guard:
            self._require_open(writing=True)
            self._access.write(memory, requests)
        return requests.total_bytes

    def _read(self, memory: Bytes, requests: Requests) -> int:
        with self.session.guard:
            self._require_open(writing=False)
            return self._access.read(memory, requests)

    # --- the size ------------------------------------------------------------------------------

    def size(self) -> int:
        """Return the current size of the file in bytes."""
        return self.layout.logical_size(self._sizes())

    def _sizes(self) -> list[int]:
        """Return the current sizes of the subfiles in bytes."""
        with self.session.guard:
            self._require_open()
            return self._access.ask_sizes()

    def truncate(self, size: int | None = None) -> int:
        """Change the size of the file. Collective.

        Args:
            size: The new size in bytes; by default the position. A longer file is filled with
                zeros.

        Returns:
            The new size.
        """
        return self.change_size(self._position if size is None else size)

    def change_size(self, size: int) -> int:
        """Change the size of the file to `size` bytes, and return it. Collective."""
        with self.session.agreed("truncate", [[str(subfile) for subfile in self.subfiles], size]):
            self._require_open()
            self._opening.require(writing=True)
            size = whole_number(size, "size of the file")
        sizes = self.layout.subfile_sizes(size)
        self._access.doubtful = True
        with self.session.agreed("truncate (the change)", [size]):
            if self.session.group.rank == 0:
                self._resize(sizes)
                self._access.fit()
        self._access.sizes = list(sizes)
        self._access.doubtful = False
        return size

    def sync(self, *, durable: bool = False) -> None:
        """Wait for all processes; they then see what each of them wrote before. Collective.

        Args:
            durable: Also write the data to the disks of all I/O nodes (fsync), so that they survive
                a power failure.
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
        """Truncate or extend each subfile to its size in bytes."""
        # The number identifies this truncation (`sfio_emu.client.size_check`).
        cut = secrets.randbits(64)

        def body(number: int, handle: int) -> bytes:
            return message_bodies.RESIZE.pack(handle, sizes[number], cut)

        self._access.ask_each(Kind.RESIZE, body, bytes)

    def extent(self) -> Extent:
        """Return how far the file can be read, and how far its last byte reaches.

        Both are the same unless a process or a listener died during a write.
        """
        sizes = self._sizes()
        readable = min(
            self.layout.logical_offset(number, size) for number, size in enumerate(sizes)
        )
        end = min_size(self.layout, dict(enumerate(sizes)))
        return Extent(size=sum(sizes), readable=readable, end=end)

    def _require_open(self, *, writing: bool | None = None) -> None:
        """Check that the file is open, and before a write that it is complete.

        Args:
            writing: Whether the file shall be written, or read; None for other calls.
        """
        if self._closed:
            raise UsageError(f"the striped file {self.subfiles[0]};... is closed: open it again")
        if writing is not None:
            self._opening.require(writing)
        if writing and self._access.doubtful:
            # Another process may be writing, so that the sizes fit only at the second or third try.
            self._access.doubtful = not any(self.extent().whole for _ in range(3))
            if self._access.doubtful:
                text = (
                    f"{self.name} is not complete: its subfiles do not have the sizes of one file; "
                    f"{REPAIR}"
                )
                warnings.warn(text, RuntimeWarning, stacklevel=3)


def _total(missing: int, requests: Requests) -> int:
    """Return the number of bytes of the requests before the first missing byte of the file."""
    if missing >= NO_END:
        return requests.total_bytes
    return int(np.clip(missing - requests.offsets, 0, requests.sizes).sum())


def _counts(missing: int, offsets: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """Return the number of bytes of each block before the first missing byte of the file."""
    return [
        max(0, min(size, missing - offset)) for offset, size in zip(offsets, sizes, strict=True)
    ]
