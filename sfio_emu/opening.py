"""How a file is opened: the modes of Python's `open`, and those of MPI_File_open, as what they mean for the
subfiles."""

from collections.abc import Mapping
from dataclasses import dataclass

from sfio_emu.errors import UsageError


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

MPI_MODES: Mapping[str, Opening] = {
    "rw": Opening(create=True),
    "r": Opening(writes=False),
    "r+": Opening(),
    "w": Opening(reads=False, create=True),
    "x": Opening(create=True, exclusive=True),
    "a": Opening(create=True, append=True),
}
"""MPI_MODE_RDWR | CREATE, RDONLY, RDWR, WRONLY | CREATE, RDWR | CREATE | EXCL, RDWR | CREATE | APPEND: MPI never cuts a
file."""


def parse_mode(mode: object, modes: Mapping[str, Opening] = FILE_MODES) -> Opening:
    """What a mode means; raises `UsageError` for an unknown one.

    >>> parse_mode("rb").writes, parse_mode("x+").exclusive
    (False, True)
    """
    opening = modes.get(mode.replace("b", "", 1)) if isinstance(mode, str) else None
    if opening is None:
        raise UsageError(f"the mode is {mode!r}: give one of {', '.join(map(repr, modes))}")
    return opening
