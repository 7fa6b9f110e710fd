"""Reads and writes files of a run's folder, which may come from an unknown source.

The folder is named by the user, and may itself be a link. Below it, a symbolic link, a pipe or a
device is refused if it would be read, and replaced if it would be written. Each component of a path
is opened by openat with O_NOFOLLOW. A file is written under another name and renamed, so that a
link that is created meanwhile is replaced too.
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

# Largest size of a file, packed or not. No run writes larger ones.
MAX_BYTES = 256 << 20
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# O_NONBLOCK prevents that the open of a pipe waits for its other end.
_FILE_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_HINT = "in a run's folder only plain files are read"
_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a directory",
}


def make_directory(directory: Path, option: str) -> None:
    """Create the directory that an option names, if it does not exist.

    Args:
        directory: The directory.
        option: Name of the option, for messages.

    Raises:
        InputError: The directory cannot be created.
        CapabilityError: The disk is full.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(
            error, f"{option} {directory}: {error.strerror}; choose a directory that can be written"
        ) from None


def path_exists(path: Path) -> bool:
    """Return whether the path exists and is not a directory. It need not be a plain file."""
    try:
        return not stat.S_ISDIR(path.lstat().st_mode)
    except (OSError, ValueError):
        return False


def read_plain(path: Path) -> bytes:
    """Return the content of a file.

    Raises:
        FileNotFoundError: There is no such file.
        InputError: It is not a plain file, cannot be read, or is larger than MAX_BYTES.
    """
    with open_plain(path) as file:
        return bounded(file, path)


def read_unpacked(path: Path) -> bytes:
    """Return the content of a gzip file.

    Raises:
        FileNotFoundError: There is no such file.
        InputError: It is not a plain file, cannot be read, is damaged, or its content is larger
            than MAX_BYTES.
    """
    with open_plain(path) as packed:
        return unpacked(packed, path)


def unpacked(packed: BinaryIO, path: Path) -> bytes:
    """Return the content of an open gzip file.

    Args:
        packed: The file.
        path: The path in messages.

    Raises:
        InputError: The file is damaged, or its content is larger than MAX_BYTES.
    """
    try:
        with gzip.open(packed) as file:
            return bounded(file, path)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path}: {error}; the packed file is damaged, restore it") from None


def open_plain(path: Path) -> BinaryIO:
    """Open a file for reading; errors are those of ``read_plain``."""
    with _opened(path.parent) as folder:
        return os.fdopen(_open_file(folder, path, os.O_RDONLY), "rb")


def open_to_append(path: Path) -> IO[str]:
    """Open a text file for reading and appending, and create it if it does not exist.

    Raises:
        InputError: It is not a plain file or cannot be opened, or the same file has another name
            too (a hard link), under which it would be changed.
    """
    with _opened(path.parent) as folder:
        handle = _open_file(folder, path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    if os.fstat(handle).st_nlink != 1:
        os.close(handle)
        raise InputError(
            f"{path}: the file has another name too (a hard link); put a copy in its place"
        )
    return os.fdopen(handle, "a+", encoding="utf-8")


def write_below(directory: Path, name: str, content: bytes) -> None:
    """Write a file completely or not at all.

    Args:
        directory: The run's folder. It is created if it does not exist.
        name: Name of the file. Folders in it ("figures/loss.svg") are created too.
        content: Content of the file.

    Raises:
        InputError: The file cannot be written, or a folder in the name is a link.
        CapabilityError: The disk is full.
    """
    try:
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(FileExistsError):
                directory.mkdir()
            folder = stack.enter_context(_opened(directory))
            *subfolders, file_name = name.split("/")
            for subfolder in subfolders:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(subfolder, dir_fd=folder)
                folder = stack.enter_context(_opened(subfolder, folder))
            replace_file(folder, file_name, content)
    except (OSError, ValueError) as error:
        path = shortened(directory / name)
        raise unwritable(
            error, f"{path}: cannot be written ({reason(error)}); {_write_hint(error)}"
        ) from None


def _write_hint(error: OSError | ValueError) -> str:
    """Return what the user can do about a file that cannot be written."""
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
    """Raise InputError if a folder below the one that the user named is a symbolic link."""
    if path.is_symlink():
        raise InputError(
            f"{path}: a symbolic link; below the folder of results none is followed: "
            "name its target itself"
        )


@contextlib.contextmanager
def _opened(folder: Path | str, below: int | None = None) -> Iterator[int]:
    """Open a folder, and yield its descriptor.

    Args:
        folder: The folder.
        below: Descriptor of the parent folder. Then ``folder`` must not be a link. None: the user
            has named the folder.
    """
    flags = _FOLDER_FLAGS
    if below is not None:
        flags |= os.O_NOFOLLOW
    handle = os.open(folder, flags, dir_fd=below)
    try:
        yield handle
    finally:
        os.close(handle)


def _open_file(folder: int, path: Path, flags: int) -> int:
    """Open a plain file, and return its descriptor.

    Args:
        folder: Descriptor of the folder.
        path: Path of the file.
        flags: Flags of the open.

    Raises:
        FileNotFoundError: There is no such file.
        InputError: It is not a plain file, or cannot be opened.
    """
    try:
        handle = os.open(path.name, flags | _FILE_FLAGS, 0o666, dir_fd=folder)
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


def _what_it_is(folder: int, name: str) -> str:
    """Return what is in the folder under this name, or "" for a plain file or none."""
    with contextlib.suppress(OSError):
        kind = stat.S_IFMT(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
        if kind != stat.S_IFREG:
            return _KINDS.get(kind, "a device")
    return ""


def bounded(file: IO[bytes] | gzip.GzipFile, path: Path) -> bytes:
    """Return the content of an open file.

    Args:
        file: The file.
        path: The path in messages.

    Raises:
        InputError: The content is larger than MAX_BYTES.
    """
    content = read_at_most(file, MAX_BYTES)
    if content is None:
        raise InputError(
            f"{path}: it holds more than {MAX_BYTES >> 20} MiB, and is not read; leave it out"
        )
    return content
