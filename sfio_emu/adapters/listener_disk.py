"""Where a listener reads and writes its disk: files below its root; a path that leaves it, also over a symbolic link, is refused.
Failed calls of the operating system are counted by name, as merror reports them."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sfio_emu.listener.operations import CallFailed
from sfio_emu.settings import CALLS

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
PLAIN = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class RootedSubfiles:
    """The subfiles below `root`, which is made if missing.

    Each directory on the way is opened from the one above without following links, so that nothing outside the root
    can be reached whatever the path says or somebody puts there meanwhile.
    """

    def __init__(self, root: Path) -> None:
        """Raises `OSError`, also where another listener serves the root: neither would know of the other's writes."""
        root.mkdir(parents=True, exist_ok=True)
        self._root = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(self._root, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            text = f"{root} is served by another listener{_lock_holder(self._root)}: end it, or give another root"
            os.close(self._root)
            raise OSError(text) from None
        except OSError:  # a file system without locks: nobody can be told apart there
            pass
        self._errors = dict.fromkeys(CALLS, 0)

    def dispose(self) -> None:
        """Close the root itself, for another listener to serve."""
        with suppress(OSError):
            fcntl.flock(self._root, fcntl.LOCK_UN)  # a child of fork may hold the descriptor still
        os.close(self._root)

    def take_errors(self) -> list[int]:
        """Failed calls by name, in the order of `CALLS`, since last asked."""
        counts = [self._errors[call] for call in CALLS]
        self._errors = dict.fromkeys(CALLS, 0)
        return counts

    def open(self, path: str, *, create: bool) -> int:
        """A descriptor of the subfile, which is made (with its directories) if missing and `create` says so."""
        with self._counted("open"), self._parent(path, create=create) as (parent, name):
            file = os.open(name, os.O_RDWR | PLAIN | (os.O_CREAT if create else 0), 0o644, dir_fd=parent)
            self._refuse_special(file)
            return file

    def create(self, path: str) -> None:
        """An empty subfile, also where one with content was."""
        with self._counted("creat"), self._parent(path, create=True) as (parent, name):
            file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC | PLAIN, 0o644, dir_fd=parent)
            self._refuse_special(file)
            os.close(file)

    def unlink(self, path: str) -> None:
        with self._counted("unlink"), self._parent(path, create=False) as (parent, name):
            os.unlink(name, dir_fd=parent)

    def close(self, file: int) -> None:
        with self._counted("close"):
            os.close(file)

    def truncate(self, file: int, size: int) -> None:
        with self._counted("ftruncate"):
            os.ftruncate(file, size)

    def size(self, file: int) -> int:
        with self._counted("lseek"):
            return os.lseek(file, 0, os.SEEK_END)

    def write(self, file: int, piece: memoryview, offset: int) -> int:
        try:
            return os.pwrite(file, piece, offset)
        except (OSError, OverflowError) as fault:
            raise self._failure("write", fault) from fault

    def read(self, file: int, piece: memoryview, offset: int) -> int:
        try:
            return os.preadv(file, [piece], offset)
        except (OSError, OverflowError) as fault:
            raise self._failure("read", fault) from fault

    def _failure(self, call: str, fault: OSError | OverflowError | ValueError) -> CallFailed:
        self._errors[call] += 1
        number = fault.errno if isinstance(fault, OSError) else None
        return CallFailed(call, number if number is not None else errno.EINVAL)

    @contextmanager
    def _counted(self, call: str) -> Iterator[None]:
        try:
            yield
        except (OSError, OverflowError, ValueError) as fault:
            raise self._failure(call, fault) from fault

    @contextmanager
    def _parent(self, path: str, *, create: bool) -> Iterator[tuple[int, str]]:
        """The directory of the subfile, opened step by step from the root, and the last part of the path."""
        pieces = path.split("/")
        if any(piece in ("", ".", "..") or "\0" in piece for piece in pieces):
            raise PermissionError(errno.EACCES, "a path that leaves the root")
        here = os.dup(self._root)
        try:
            for piece in pieces[:-1]:
                below = self._step(here, piece, create=create)
                os.close(here)
                here = below
            yield here, pieces[-1]
        finally:
            os.close(here)

    def _step(self, here: int, piece: str, *, create: bool) -> int:
        if create:
            with suppress(FileExistsError):  # the usual case: it is there, or somebody was faster
                os.mkdir(piece, 0o755, dir_fd=here)
        return os.open(piece, DIRECTORY, dir_fd=here)

    def _refuse_special(self, file: int) -> None:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise OSError(errno.EINVAL, "not a plain file")


def _lock_holder(directory: int) -> str:
    """The process that has locked a directory, as the kernel lists it, in brackets; "" where it does not say."""
    with suppress(OSError):
        inode = str(os.fstat(directory).st_ino)
        for line in Path("/proc/locks").read_text().splitlines():
            words = line.split()
            if words[1] == "FLOCK" and words[5].rpartition(":")[2] == inode:
                return f" (process {words[4]})"
    return ""


__all__ = ["RootedSubfiles"]
