"""A raw file of Python over reads and writes at offsets: a position of its own, what `io.RawIOBase` promises, and the
modes of `open`, as what they mean for the subfiles."""

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


PEEKED_BYTES = 8 << 10


@dataclass(frozen=True, kw_only=True)
class Opening:
    """What a file is opened for.

    `create`: missing subfiles are made; `exclusive`: none may be there; `truncate`: it is made empty; `append`: writing
    goes to its end.
    """

    reads: bool = True
    writes: bool = True
    create: bool = False
    exclusive: bool = False
    truncate: bool = False
    append: bool = False

    def require(self, writing: bool) -> None:
        """Raises `UsageError` where the file was not opened for writing (reading)."""
        if writing and not self.writes:
            raise UsageError("the file is opened for reading only: open it with mode 'rw' or 'r+'")
        if not writing and not self.reads:
            raise UsageError("the file is opened for writing only: open it with mode 'rw'")


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
"""Those of Python, where "b" may be added; "rw" reads and writes and makes what is missing, which Python has no mode
for."""


def parse_mode(mode: object) -> Opening:
    """What a mode means; raises `UsageError` for an unknown one.

    >>> parse_mode("rb").writes, parse_mode("x+").exclusive
    (False, True)
    """
    opening = FILE_MODES.get(mode.replace("b", "", 1)) if isinstance(mode, str) else None
    if opening is None:
        raise UsageError(f"the mode is {mode!r}: give one of {', '.join(map(repr, FILE_MODES))}")
    return opening


class PositionedFile(io.RawIOBase):
    """What `read`, `write` and `seek` make of `pread`, `pwrite` and `size`; one thread of a session at a time moves the
    position."""

    session: Session
    _opening: Opening
    _position: int

    @overload
    def pread(self, target: int, offset: int) -> bytes: ...
    @overload
    def pread(self, target: Buffer, offset: int) -> int: ...
    @abstractmethod
    def pread(self, target: int | Buffer, offset: int) -> bytes | int:
        """As of the file."""

    pwrite: Callable[..., int]
    size: Callable[..., int]

    def readable(self) -> bool:
        """Whether it was opened for reading."""
        return self._opening.reads

    def writable(self) -> bool:
        """Whether it was opened for writing."""
        return self._opening.writes

    def seekable(self) -> bool:
        """True."""
        return True

    def readall(self) -> bytes:
        """All from the position."""
        return self.read()

    def seek(self, offset: int, whence: int = 0) -> int:
        """Set the position: from the start (0), from where it is (1), from the end (2)."""
        if whence not in (0, 1, 2):
            raise UsageError(f"whence is {whence!r}: give 0, 1 or 2")
        offset = whole_number(offset, "offset to seek", -(2**62))
        with self.session.guard:
            position = offset + (0, self._position, self.size() if whence == 2 else 0)[whence]
            if position < 0:
                raise UsageError(f"a position of {position}: it must be at least 0")
            self._position = position
        return position

    def read(self, size: int | None = -1) -> bytes:
        """Up to `size` bytes from the position (all the rest if negative or None), which goes on by them."""
        size = whole_number(-1 if size is None else size, "number of bytes to read", -(2**62))
        with self.session.guard:
            if size < 0:
                size = max(self.size() - self._position, 0)
            result = self.pread(size, self._position)
            self._position += len(result)
        return result

    def peek(self, size: int = 0) -> bytes:
        """Some bytes from the position, which stays: in them `readline` looks for the end of a line, else it would read
        byte by byte."""
        with self.session.guard:
            return self.pread(PEEKED_BYTES, self._position)

    def readinto(self, buffer: Buffer) -> int:
        """Read into a buffer from the position, which goes on."""
        with self.session.guard:
            count = self.pread(buffer, self._position)
            self._position += count
        return count

    def write(self, data: Buffer) -> int:
        """Write at the position (at the end, where the file was opened to append), which goes on."""
        with self.session.guard:
            place = self.size() if self._opening.append else self._position
            count = self.pwrite(data, place)
            self._position = place + count if count else self._position
        return count
