"""The modes of MPI_File_open (MPI 4.0, section 14.2.1), as bits and as short names."""

from collections.abc import Mapping
from enum import IntFlag
from numbers import Integral
from typing import Literal

from sfio_emu.errors import UsageError
from sfio_emu.positioned_file import Opening

Short = Literal["r", "w", "rw", "r+", "x", "a"]


class Amode(IntFlag):
    """The bits of MPI's modes, numbered as in MPICH."""

    CREATE = 1
    RDONLY = 2
    WRONLY = 4
    RDWR = 8
    DELETE_ON_CLOSE = 16
    UNIQUE_OPEN = 32
    EXCL = 64
    APPEND = 128
    SEQUENTIAL = 256


# MPI never truncates a file when it opens it, not even with "w".
SHORT_MODES: Mapping[str, Amode] = {
    "rw": Amode.RDWR | Amode.CREATE,
    "r": Amode.RDONLY,
    "r+": Amode.RDWR,
    "w": Amode.WRONLY | Amode.CREATE,
    "x": Amode.RDWR | Amode.CREATE | Amode.EXCL,
    "a": Amode.RDWR | Amode.CREATE | Amode.APPEND,
}


def parse_amode(mode: object) -> Amode:
    """Return the bits of a mode, which is given by a short name or by bits.

    Raises:
        UsageError: The mode is unknown, or its bits contradict each other.

    >>> parse_amode("x") == Amode.RDWR | Amode.CREATE | Amode.EXCL
    True
    """
    amode = SHORT_MODES.get(mode) if isinstance(mode, str) else mode
    number = -1
    if isinstance(amode, Integral) and not isinstance(amode, bool):
        number = int(amode)
    if not 0 <= number < 2 * Amode.SEQUENTIAL:
        names = ", ".join(map(repr, SHORT_MODES))
        raise UsageError(f"the mode is {mode!r}: give one of {names}, or bits of Amode")
    bits = Amode(number)
    if (bits & (Amode.RDONLY | Amode.WRONLY | Amode.RDWR)).bit_count() != 1:
        raise UsageError(f"the mode is {bits!r}: give one of RDONLY, WRONLY and RDWR")
    if bits & Amode.RDONLY and bits & (Amode.CREATE | Amode.EXCL):
        raise UsageError(
            f"the mode is {bits!r}: a file that is opened for reading only cannot be created"
        )
    if bits & Amode.RDWR and bits & Amode.SEQUENTIAL:
        raise UsageError(f"the mode is {bits!r}: a sequential file is read or written, not both")
    return bits


def opening_of(amode: Amode) -> Opening:
    """Return what the bits of a mode allow, and how they open the file."""
    create = bool(amode & Amode.CREATE)
    return Opening(
        reads=not amode & Amode.WRONLY,
        writes=not amode & Amode.RDONLY,
        create=create,
        exclusive=create and bool(amode & Amode.EXCL),
        append=bool(amode & Amode.APPEND),
    )


def file_mode(amode: Amode) -> str:
    """Return the mode of the underlying striped file.

    It is readable even if the MPI file can only be written.
    """
    if amode & Amode.RDONLY:
        return "r"
    if not amode & Amode.CREATE:
        return "r+"
    return "x+" if amode & Amode.EXCL else "rw"
