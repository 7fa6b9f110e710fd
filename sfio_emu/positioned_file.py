"""A raw file of Python on top of reads and writes at offsets.

It adds a position, the methods of `io.RawIOBase`, and the modes of `open`.
"""

from __future__ import annotations

import io
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, overload

from sfio_emu.client.session import Session
from sfio_emu.errors import UsageError, whole_number

if TYPE_CHECKING:
    from typing_extensions import Buffer


# `readline` searches this many bytes at once for the end of the line.
PEEKED_BYTES = 8 << 10


@dataclass(frozen=True, kw_only=True)
class Opening:
    """The meaning of a mode.

    Attributes:
        reads: The file can be read.
        writes: The file can be written.
        create: Missing subfiles are created.
        exclusive: Opening fails if a subfile exists.
        truncate: The file is truncated to 0 bytes.
        append: `write` writes at the end of the file.
    """

    reads: bool = True
    writes: bool = True
    create: bool = False
    exclusive: bool = False
    truncate: bool = False
    append: bool = False

    def require(self, writing: bool) -> None:
        """Check that the file was opened for writing, or for reading.

        Raises:
            UsageError: It was not.
        """
        if writing and not self.writes:
            raise UsageError("the file is opened for reading only: open it with mode 'rw' or 'r+'")
        if not writing and not self.reads:
            raise UsageError("the file is opened for writing only: open it with mode 'rw'")


# The modes of Python, to which "b" may be added, and "rw". Python has no mode that reads, writes,
# creates what is missing, and keeps what exists.
FILE_MODES: Mapping[str, Opening] = {
    "rw": Opening(create=True),
    "r": Opening(writes=False),
    "r+": Opening(),
    "w": Opening(reads=False, create=True, truncate=True),
    "w+": Opening(create=True, truncate=True),
    "x": Opening(reads=False, create=True, exclusive=True),
    "x+": Opening(create=True, exclusive=True),
    "a": Opening(reads=False, create=True, append=True),
    "a+": Opening(create=True, append=True),
}


def parse_mode(mode: object) -> Opening:
    """Return the meaning of a mode.

    Raises:
        UsageError: The mode is unknown.

    >>> parse_mode("rb").writes, parse_mode("x+").exclusive
    (False, True)
    """
    opening = FILE_MODES.get(mode.replace("b", "", 1)) if isinstance(mode, str) else None
    if opening is None:
        raise UsageError(f"the mode is {mode!r}: give one of {', '.join(map(repr, FILE_MODES))}")
    return opening


class PositionedFile(io.RawIOBase):
    """Implements `read`, `write` and `seek` by `pread`, `pwrite` and `size` of a subclass.

    One thread of a session at a time uses the position.
    """

    session: Session
    _opening: Opening
    _position: int

    @overload
    def pread(self, target: int, offset: int) -> bytes: ...
    @overload
    def pread(self, target: Buffer, offset: int) -> int: ...
    @abstractmethod
    def pread(self, target: int | Buffer, offset: int) -> bytes | int:
        """Read at an offset, into a buffer or a given number of bytes."""

    pwrite: Callable[..., int]
    size: Callable[..., int]

    def readable(self) -> bool:
        """Return whether the file was opened for reading."""
        return self._opening.reads

    def writable(self) -> bool:
        """Return whether the file was opened for writing."""
        return self._opening.writes

    def seekable(self) -> bool:
        """Return True."""
        return True

    def readall(self) -> bytes:
        """Return all bytes from the position to the end of the file."""
        return self.read()

    def seek(self, offset: int, whence: int = 0) -> int:
        """Set the position.

        Args:
            offset: The offset in bytes.
            whence: What the offset is relative to: the start of the file (0), the position (1), or
                the end of the file (2).

        Returns:
            The new position.
        """
        if whence not in (0, 1, 2):
            raise UsageError(f"whence is {whence!r}: give 0, 1 or 2")
        offset = whole_number(offset, "offset to seek", -(2**62))
        with self.session.guard:
            position = offset
            if whence == 1:
                position += self._position
            elif whence == 2:
                position += self.size()
            if position < 0:
                raise UsageError(f"a position of {position}: it must be at least 0")
            self._position = position
        return position

    def read(self, size: int | None = -1) -> bytes:
        """Read from the position, and advance it.

        Args:
            size: The maximum number of bytes; all up to the end of the file if negative or None.
        """
        size = whole_number(-1 if size is None else size, "number of bytes to read", -(2**62))
        with self.session.guard:
            if size < 0:
                size = max(self.size() - self._position, 0)
            result = self.pread(size, self._position)
            self._position += len(result)
        return result

    def peek(self, size: int = 0) -> bytes:
        """Return some bytes from the position, without advancing it.

        `readline` searches them for the end of a line. Without this method it would read byte by
        byte.
        """
        with self.session.guard:
            return self.pread(PEEKED_BYTES, self._position)

    def readinto(self, buffer: Buffer) -> int:
        """Read into a buffer from the position, advance it, and return the number of bytes."""
        with self.session.guard:
            count = self.pread(buffer, self._position)
            self._position += count
        return count

    def write(self, data: Buffer) -> int:
        """Write at the position, advance it, and return the number of bytes.

        A file that was opened to append is written at its end.
        """
        with self.session.guard:
            offset = self.size() if self._opening.append else self._position
            count = self.pwrite(data, offset)
            if count:
                self._position = offset + count
        return count
