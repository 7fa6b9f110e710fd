"""Files of a run's folder, which may come from somebody else: read and written without following anything below the
folder.

The folder is what the user named, and may be a link. Below it a symbolic link, a pipe or a device is refused where it
would be read, and replaced where it would be written: every step is an openat with O_NOFOLLOW, and a file is written as
a draft and renamed over its name, so that a link that is put there in between is replaced as well.
"""

import contextlib
import errno
import gzip
import os
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, BinaryIO

from testbed.errors import DISK_FULL, InputError, unwritable
from topologies.files.formats import shortened
from topologies.text.text_file import read_at_most, reason, replace_file

MOST_BYTES = 256 << 20
"""A file that is longer, or unpacks to more, is none that a run wrote."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NOT_FOLLOWED = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a directory",
}


def make_directory(directory: Path, option: str) -> None:
    """Make the directory that an option names.

    Raises:
        InputError: There can be no directory.
        CapabilityError: The disk is full.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(
            error, f"{option} {directory}: {error.strerror}; choose a directory that can be written"
        ) from None


def is_there(path: Path) -> bool:
    """Whether the folder has something of that name but a directory; only reading it says whether it is a plain
    file."""
    try:
        return not stat.S_ISDIR(path.lstat().st_mode)
    except (OSError, ValueError):
        return False


def read_plain(path: Path) -> bytes:
    """What the file in the folder ``path.parent`` holds. FileNotFoundError where there is none; InputError for what is
    no plain file, cannot be read, or is longer than MOST_BYTES."""
    with open_plain(path) as file:
        return bounded(file, path)


def read_unpacked(path: Path) -> bytes:
    """What the gzip file of the folder unpacks to; raises as ``read_plain``, and where it is damaged."""
    with open_plain(path) as packed:
        return unpacked(packed, path)


def unpacked(packed: BinaryIO, path: Path) -> bytes:
    """What an open gzip file unpacks to, MOST_BYTES at most; InputError names ``path``."""
    try:
        with gzip.open(packed) as file:
            return bounded(file, path)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path}: {error}; the packed file is damaged, restore it") from None


def open_plain(path: Path) -> BinaryIO:
    """The file in the folder, to be read; raises as ``read_plain``."""
    with _opened(path.parent) as folder:
        return os.fdopen(_open_file(folder, path, os.O_RDONLY), "rb")


def open_to_append(path: Path) -> IO[str]:
    """The text file in the folder, made where there is none, to be read and appended to. InputError as ``read_plain``,
    and where the same file has another name too (a hard link), which appending would change."""
    with _opened(path.parent) as folder:
        handle = _open_file(folder, path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    if os.fstat(handle).st_nlink != 1:
        os.close(handle)
        raise InputError(
            f"{path}: the file has another name too (a hard link); put a copy in its place"
        )
    return os.fdopen(handle, "a+", encoding="utf-8")


def write_below(place: Path, name: str, content: bytes) -> None:
    """Write ``place/name``, whole or not at all. The place and folders in the name ("figures/loss.svg") are made where
    missing.

    InputError where it cannot be written, or a folder in the name is a link; CapabilityError if the
    disk is full.
    """
    try:
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(FileExistsError):
                place.mkdir()
            folder = stack.enter_context(_opened(place))
            *between, last = name.split("/")
            for part in between:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, dir_fd=folder)
                folder = stack.enter_context(_opened(part, folder))
            replace_file(folder, last, content)
    except (OSError, ValueError) as error:
        path = shortened(place / name)
        raise unwritable(
            error, f"{path}: cannot be written ({reason(error)}); {_write_hint(error)}"
        ) from None


def _write_hint(error: OSError | ValueError) -> str:
    """Return what to do about a file of a run's folder that cannot be written."""
    number = error.errno if isinstance(error, OSError) else None
    if number in DISK_FULL:
        return "free space there, or name another folder"
    if number == errno.EFBIG:
        return "raise the limit for the size of a file (ulimit -f)"
    if number == errno.EROFS:
        return "name a folder that can be written"
    return (
        "nothing in a run's folder is followed: remove what is there, or make the folder writable"
    )


def refuse_link(path: Path) -> None:
    """InputError where a folder below what the user named is a symbolic link."""
    if path.is_symlink():
        raise InputError(
            f"{path}: a symbolic link; below the folder of results none is followed: name its target itself"
        )


@contextlib.contextmanager
def _opened(folder: Path | str, below: int | None = None) -> Iterator[int]:
    """A descriptor of the folder; one ``below`` another is not followed."""
    handle = os.open(folder, _FOLDER | (0 if below is None else os.O_NOFOLLOW), dir_fd=below)
    try:
        yield handle
    finally:
        os.close(handle)


def _open_file(folder: int, path: Path, flags: int) -> int:
    """A descriptor of the plain file in the folder. FileNotFoundError where there is none, InputError for all else."""
    try:
        handle = os.open(path.name, flags | _NOT_FOLLOWED, 0o666, dir_fd=folder)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise InputError(
            f"{path}: {_what_it_is(folder, path.name) or reason(error)}; {_HINT}"
        ) from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise InputError(f"{path}: {_what_it_is(folder, path.name)}; {_HINT}")
    return handle


_HINT = "in a run's folder only plain files are read"


def _what_it_is(folder: int, name: str) -> str:
    """What stands there, where it is no plain file."""
    with contextlib.suppress(OSError):
        kind = stat.S_IFMT(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
        return "" if kind == stat.S_IFREG else _KINDS.get(kind, "a device")
    return ""


def bounded(file: IO[bytes] | gzip.GzipFile, path: Path) -> bytes:
    """All that the open file gives, MOST_BYTES at most; InputError names ``path``."""
    content = read_at_most(file, MOST_BYTES)
    if content is None:
        raise InputError(
            f"{path}: it holds more than {MOST_BYTES >> 20} MiB, and is not read; leave it out"
        )
    return content
