"""The files of a listener, below its root directory.

Paths that leave the root, also through symbolic links, are refused. Failed system calls are counted
by name, for `merror`.
"""

import errno
import os
import stat
import struct
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from sfio_emu.adapters.root_locks import lock_root, unlock_root
from sfio_emu.listener.ports import CallFailed
from sfio_emu.message_bodies import (
    NO_LAYOUT,
    UNSTORABLE,
    Entry,
    OpenFlag,
    RenameWay,
    Stat,
    StoredLayout,
    encode_path,
)
from sfio_emu.settings import COUNTED

# The flags of open(2) for folders.
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

# The flags of open(2) for files. Without O_NONBLOCK, opening a pipe would wait for its other end.
PLAIN = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK

# The extended attribute that stores the layout, and its formats by version. Version 1 has no
# identity of the striped file.
LAYOUT_ATTRIBUTE = "user.sfio.layout"
LAYOUTS = {1: struct.Struct("<BQII"), 2: struct.Struct("<BQIIQ")}

# The errors of file systems without extended attributes or links.
NO_ATTRIBUTES = (errno.ENOTSUP, errno.ENOSYS, errno.EPERM)

# The number of folders whose names are stored between the pages of their listings.
MAX_LISTINGS = 4


class LastSync(NamedTuple):
    """The last synchronisation of a file with the disk.

    Attributes:
        began_s: Its beginning on the monotonic clock; -1 if there was none.
        path: The path whose folders were also synchronised; None if they were not.
        failure: Its failure, or None.
    """

    began_s: float = -1.0
    path: str | None = None
    failure: CallFailed | None = None


class Cuts:
    """The state that all openings of a file share, such as its truncations ("cuts").

    Attributes:
        key: The device and inode numbers of the file.
        value: The exclusive or of the numbers of the truncations since the file was opened. Each
            truncation has a random number (`sfio_emu.client.size_check`).
        files: The descriptors by which it is open.
        synced: Its last synchronisation.
    """

    __slots__ = ("files", "key", "synced", "value")

    def __init__(self, key: tuple[int, int]) -> None:
        self.key = key
        self.value = 0
        self.synced = LastSync()
        self.files: set[int] = set()


@dataclass
class Opening:
    """One opening of a file.

    Attributes:
        path: The path of the file.
        cuts: The state that all openings of the file share.
        created_folders: The folders that were created by this opening; None if the file existed.
        placed: Whether the folders on the path have been synchronised since the file was opened or
            renamed.
    """

    path: str
    cuts: Cuts
    created_folders: list[str] | None
    placed: bool = False


class OpenFiles:
    """The open files of all roots of a listener.

    Args:
        limit: The maximum number of open files.

    Attributes:
        limit: The maximum number of open files.
        count: The number of open files.
        replaced: The descriptors of files whose name belongs to another file now. They must not be
            written, because no client could find the data.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.count = 0
        self.replaced: set[int] = set()

        # By device and inode numbers.
        self._cuts: dict[tuple[int, int], Cuts] = {}

    def enter(self, file: int, status: os.stat_result) -> Cuts:
        """Add an opening of a file, and return the state that all its openings share."""
        self.count += 1
        key = status.st_dev, status.st_ino
        cuts = self._cuts.setdefault(key, Cuts(key))
        cuts.files.add(file)
        return cuts

    def leave(self, file: int, cuts: Cuts) -> None:
        """Remove an opening of a file."""
        self.count -= 1
        self.replaced.discard(file)
        cuts.files.discard(file)
        if not cuts.files:
            del self._cuts[cuts.key]

    def note_found(self, status: os.stat_result) -> None:
        """Remove the descriptors of a file from `replaced`, because the file has a name again."""
        cuts = self._cuts.get((status.st_dev, status.st_ino))
        if cuts is not None:
            self.replaced -= cuts.files

    def note_replaced(self, status: os.stat_result) -> None:
        """Add the descriptors of a file to `replaced`, because another file gets its name."""
        cuts = self._cuts.get((status.st_dev, status.st_ino))
        if cuts is not None:
            self.replaced |= cuts.files


class RootedSubfiles:
    """The subfiles below a root directory; implements `sfio_emu.listener.ports.Subfiles`.

    Each directory on a path is opened from the one above it, without following symbolic links.
    Nothing outside the root can be reached, whatever the path is and whatever links are created
    meanwhile. The layout of a striped file is stored with each subfile as an extended attribute,
    if the file system has these.

    Args:
        root: The root directory, which is created if it is missing.
        open_files: The open files of all roots of the listener.

    Raises:
        OSError: Another listener serves the root, a folder in it, or a folder around it. Neither
            would know of the other's writes.

    Attributes:
        locks: The client that holds the lock of each path.
        replaced: The open files whose name belongs to another file now.
    """

    def __init__(self, root: Path, open_files: OpenFiles | None = None) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self._folders = lock_root(root)
        self._root = self._folders[0]
        self._errors = dict.fromkeys(COUNTED, 0)
        self._open_files = open_files or OpenFiles(2**31)
        self._opened: dict[int, Opening] = {}

        # The sorted names in folders that are being listed page by page.
        self._listings: dict[str, list[str]] = {}
        self.locks: dict[str, object] = {}
        self.replaced = self._open_files.replaced

    def dispose(self) -> None:
        """Unlock the root, so that another listener can serve it."""
        unlock_root(self._folders)

    def take_errors(self) -> list[int]:
        """Return and reset the counters, in the order of `COUNTED`."""
        counts = list(self._errors.values())
        self._errors = dict.fromkeys(COUNTED, 0)
        return counts

    def note_rejected(self) -> None:
        """Count a message that was rejected."""
        self._errors["rejected"] += 1

    # --- names -----------------------------------------------------------------------------------

    def open(self, path: str, flags: OpenFlag) -> tuple[int, bool]:
        """Open a subfile.

        Args:
            path: The path of the subfile. Missing folders are created with it.
            flags: How to open it.

        Returns:
            The descriptor, and whether the subfile was created. The descriptor is -1 if it does not
            exist and IF_THERE is set.
        """
        access = os.O_RDONLY if flags & OpenFlag.READ_ONLY else os.O_RDWR
        created_folders: list[str] = []
        ignored = [FileNotFoundError] if flags & OpenFlag.IF_THERE else []
        with self._counted("open"), suppress(*ignored):
            with self._parent(
                path, create=bool(flags & OpenFlag.CREATE), created_folders=created_folders
            ) as entry:
                parent, name = entry
                if self._open_files.count >= self._open_files.limit:
                    raise OSError(errno.ENFILE, "too many files are open for all clients together")
                file, created = _open_or_create(parent, name, access | PLAIN, flags)
            cuts = self._open_files.enter(file, self._plain(file))
            self._opened[file] = Opening(path, cuts, created_folders if created else None)
            return file, created
        return -1, False

    def create(self, path: str) -> None:
        """Create an empty subfile without a layout, and replace an existing one."""
        with self._counted("creat"), self._parent(path, create=True) as (parent, name):
            with suppress(FileNotFoundError):
                self._open_files.note_replaced(_plain_stat(parent, name))
                os.unlink(name, dir_fd=parent)
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | PLAIN
            os.close(os.open(name, flags, 0o644, dir_fd=parent))

    def unmake(self, file: int) -> None:
        """Delete a file that was created by this opening, and the folders created with it.

        Nothing is deleted if the file is not empty, or its name belongs to another file now.
        Folders that are not empty remain.
        """
        opened = self._opened[file]
        folders = opened.created_folders
        opened.created_folders = None
        if folders is None:
            return
        with self._counted("unlink"), self._parent(opened.path, create=False) as (parent, name):
            status = os.fstat(file)
            status_of_name = os.stat(name, dir_fd=parent, follow_symlinks=False)
            if status.st_size or not os.path.samestat(status, status_of_name):
                return
            os.unlink(name, dir_fd=parent)
        for folder in reversed(folders):
            self._remove_empty(folder)

    def unlink(self, path: str) -> None:
        """Delete a regular file. Anything else is refused."""
        with self._counted("unlink"), self._parent(path, create=False) as (parent, name):
            _plain_stat(parent, name)
            os.unlink(name, dir_fd=parent)

    def make_folder(self, path: str) -> None:
        """Create a folder in an existing one."""
        with self._counted("mkdir"), self._parent(path, create=False) as (parent, name):
            os.mkdir(name, 0o755, dir_fd=parent)

    def remove_folder(self, path: str) -> None:
        """Remove an empty folder."""
        with self._counted("rmdir"), self._parent(path, create=False) as (parent, name):
            os.rmdir(name, dir_fd=parent)

    def rename(self, source: str, target: str, way: RenameWay) -> None:
        """Rename a regular file, and create the folders of its new path.

        Args:
            source: The path of the file.
            target: The new path. If it is another name of the same file, `source` is deleted.
            way: What to do if another file has the new path, or whether the file keeps both paths.
        """
        with (
            self._counted("rename"),
            self._parent(source, create=False) as (source_folder, old),
            self._parent(target, create=True) as (target_folder, new),
        ):
            status = _plain_stat(source_folder, old)
            same = False
            with suppress(FileNotFoundError):
                target_status = _plain_stat(target_folder, new)
                same = os.path.samestat(status, target_status)
                if way is RenameWay.REFUSE and not same:
                    raise FileExistsError(errno.EEXIST, "there is a file of that name")
                if not same:
                    self._open_files.note_replaced(target_status)
            if way is RenameWay.LINK:
                _link(source_folder, old, target_folder, new)
                return
            os.rename(old, new, src_dir_fd=source_folder, dst_dir_fd=target_folder)
            if same and source != target:
                # rename(2) does nothing if both names belong to the same file.
                os.unlink(old, dir_fd=source_folder)
            self._open_files.note_found(status)
        for opened in self._opened.values():
            if opened.path == source:
                opened.path = target
                opened.placed = False

    def stat(self, path: str) -> Stat:
        """Return the status of a file or folder; "" is the root."""
        with self._counted("stat"):
            if not path:
                return _stat(os.fstat(self._root), NO_LAYOUT)
            with self._parent(path, create=False) as (parent, name):
                status = os.stat(name, dir_fd=parent, follow_symlinks=False)
                layout = NO_LAYOUT
                if stat.S_ISREG(status.st_mode):
                    # The layout of a file that this user may not read is not known.
                    with suppress(PermissionError):
                        layout = _layout_below(parent, name)
                return _stat(status, layout)

    def list_folder(self, path: str, after: str) -> Iterator[Entry]:
        """Yield the entries of a folder, sorted by name.

        A folder is read once for all its pages: if a call is left before its end, its names are
        stored for the next call.

        Args:
            path: The folder; "" is the root.
            after: The name behind which to begin.
        """
        with self._counted("readdir"), self._directory(path) as folder:
            names = self._listings.pop(path, None) if after else None
            if names is None:
                names = _sorted_names(folder)
            self._listings[path] = names
            if len(self._listings) > MAX_LISTINGS:
                self._listings.pop(next(iter(self._listings)))
            for index in range(bisect_right(names, after), len(names)):
                yield _entry(folder, names[index])
            self._listings.pop(path, None)

    # --- open files ------------------------------------------------------------------------------

    def close(self, file: int) -> None:
        """Close a file."""
        opened = self._opened.pop(file, None)
        if opened is not None:
            self._open_files.leave(file, opened.cuts)
        with self._counted("close"):
            os.close(file)

    def describe(self, file: int) -> Stat:
        """Return the status of an open file."""
        with self._counted("stat"):
            return _stat(os.fstat(file), _layout_of(file))

    def store_layout(self, file: int, layout: StoredLayout) -> None:
        """Store a layout with an open file, if the file system has extended attributes."""
        with self._counted("open"):
            try:
                os.setxattr(file, LAYOUT_ATTRIBUTE, LAYOUTS[2].pack(2, *layout))
            except OSError as fault:
                if fault.errno not in NO_ATTRIBUTES:
                    raise

    def truncate(self, file: int, size: int) -> None:
        """Truncate or extend an open file to `size` bytes."""
        with self._counted("ftruncate"):
            os.ftruncate(file, size)

    def note_cut(self, file: int, cut: int) -> None:
        """Note that a file was truncated.

        Args:
            file: The descriptor.
            cut: The number of the truncation (`sfio_emu.client.size_check`).
        """
        self._opened[file].cuts.value ^= cut

    def cuts(self, file: int) -> int:
        """Return the exclusive or of the numbers of the truncations since the file was opened."""
        return self._opened[file].cuts.value

    def size(self, file: int) -> int:
        """Return the size of an open file in bytes."""
        with self._counted("lseek"):
            return os.lseek(file, 0, os.SEEK_END)

    def sync(self, file: int) -> Callable[[], None]:
        """Return a function that synchronises an open file with the disk.

        If the folders on the file's path have not been synchronised since it was opened or renamed,
        the function does this, too. It uses a descriptor of its own, and runs in one thread for all
        files.
        """
        with self._counted("fsync"):
            opened = self._opened[file]
            path = None if opened.placed else opened.path
            return partial(self._sync_once, os.dup(file), path, opened, time.monotonic())

    def _sync_once(self, file: int, path: str | None, opened: Opening, requested_s: float) -> None:
        """Synchronise a file, unless this was done for another client since the request.

        Several requests are so served by one call (group commit).

        Args:
            file: A descriptor, which is closed at the end.
            path: The path whose folders are also synchronised, or None.
            opened: The open file.
            requested_s: The time of the request on the monotonic clock.
        """
        shared = opened.cuts
        try:
            last = shared.synced
            if last.began_s <= requested_s or path not in (None, last.path):
                began_s = time.monotonic()
                failure = None
                try:
                    self.fsync(file, path)
                except CallFailed as fault:
                    failure = fault
                shared.synced = LastSync(began_s, path, failure)
        finally:
            os.close(file)
        if shared.synced.failure is not None:
            raise shared.synced.failure
        if path is not None and opened.path == path:
            # Only now: after a failure the folders are synchronised again.
            opened.placed = True

    def fsync(self, file: int, path: str | None) -> None:
        """Synchronise a file, and the folders on its path if one is given, with the disk."""
        with self._counted("fsync"):
            os.fsync(file)
            pieces = path.split("/") if path is not None else []
            for depth in range(len(pieces) - 1, -1, -1):
                with self._directory("/".join(pieces[:depth])) as folder:
                    os.fsync(folder)

    def write(self, file: int, piece: memoryview, offset: int) -> int:
        """Write at an offset, and return the number of bytes written.

        `write` and `read` run for every request, and do without the slower `_counted`.
        """
        try:
            return os.pwrite(file, piece, offset)
        except (OSError, OverflowError) as fault:
            raise self._failure("write", fault) from fault

    def read(self, file: int, piece: memoryview, offset: int) -> int:
        """Read at an offset, and return the number of bytes read."""
        try:
            return os.preadv(file, [piece], offset)
        except (OSError, OverflowError) as fault:
            raise self._failure("read", fault) from fault

    # --- failures and paths ----------------------------------------------------------------------

    def _failure(self, call: str, fault: OSError | OverflowError | ValueError) -> CallFailed:
        """Count a failed system call, and return the error that reports it."""
        self._errors[call] += 1
        number = fault.errno if isinstance(fault, OSError) else None
        return CallFailed(call, number if number is not None else errno.EINVAL)

    @contextmanager
    def _counted(self, call: str) -> Iterator[None]:
        """Count and report the failures of a system call inside this context."""
        try:
            yield
        except (OSError, OverflowError, ValueError) as fault:
            raise self._failure(call, fault) from fault

    @contextmanager
    def _parent(
        self, path: str, *, create: bool, created_folders: list[str] | None = None
    ) -> Iterator[tuple[int, bytes]]:
        """Open the folder of a path.

        After an error, created folders are removed again.

        Args:
            path: The path.
            create: Create missing folders.
            created_folders: Receives the created folders.

        Yields:
            The descriptor of the folder, and the last part of the path, in UTF-8 whatever the
            locale is.
        """
        folder_path, _, name = path.rpartition("/")
        if name in ("", ".", ".."):
            raise PermissionError(errno.EACCES, "a path that leaves the root")
        created_folders = [] if created_folders is None else created_folders
        try:
            with self._directory(folder_path, created_folders if create else None) as folder:
                yield folder, encode_path(name)
        except OSError:
            for directory in reversed(created_folders):
                self._remove_empty(directory)
            raise

    @contextmanager
    def _directory(self, path: str, created_folders: list[str] | None = None) -> Iterator[int]:
        """Open a folder, step by step from the root.

        Args:
            path: The folder; "" is the root.
            created_folders: Receives missing folders, which are created. If it is None, a missing
                folder is an error.

        Yields:
            The descriptor of the folder.
        """
        pieces = path.split("/") if path else []
        if any(piece in ("", ".", "..") or "\0" in piece for piece in pieces):
            raise PermissionError(errno.EACCES, "a path that leaves the root")
        folder = os.dup(self._root)
        try:
            for number, piece in enumerate(pieces, 1):
                if created_folders is not None:
                    # Usually the folder exists. Otherwise another client may be faster.
                    with suppress(FileExistsError):
                        os.mkdir(encode_path(piece), 0o755, dir_fd=folder)
                        created_folders.append("/".join(pieces[:number]))
                below = os.open(encode_path(piece), DIRECTORY, dir_fd=folder)
                os.close(folder)
                folder = below
            yield folder
        finally:
            os.close(folder)

    def _remove_empty(self, path: str) -> None:
        """Remove a folder if it is empty."""
        folder_path, _, name = path.rpartition("/")
        with suppress(OSError), self._directory(folder_path) as folder:
            os.rmdir(encode_path(name), dir_fd=folder)

    def _plain(self, file: int) -> os.stat_result:
        """Return the status of an open file, or close it if it is not a regular file."""
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            os.close(file)
            raise OSError(errno.EINVAL, "not a plain file")
        return status


def _open_or_create(parent: int, name: bytes, open_flags: int, flags: OpenFlag) -> tuple[int, bool]:
    """Open or create a file.

    It is tried again if another process deletes or creates the file between the two attempts.

    Args:
        parent: The descriptor of the folder.
        name: The name in the folder.
        open_flags: The flags of open(2).
        flags: The flags of the request.

    Returns:
        The descriptor, and whether the file was created.
    """
    while True:
        if not (flags & OpenFlag.EXCLUSIVE and flags & OpenFlag.CREATE):
            try:
                return os.open(name, open_flags, dir_fd=parent), False
            except FileNotFoundError:
                if not flags & OpenFlag.CREATE:
                    raise
        try:
            return os.open(name, open_flags | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=parent), True
        except FileExistsError:
            if flags & OpenFlag.EXCLUSIVE:
                raise


def _plain_stat(parent: int, name: bytes) -> os.stat_result:
    """Return the status of a name, or raise OSError if it is not a regular file."""
    status = os.stat(name, dir_fd=parent, follow_symlinks=False)
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "a directory")
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a plain file")
    return status


def _link(source_folder: int, old: bytes, target_folder: int, new: bytes) -> None:
    """Give a file a second name, and replace the file that has this name.

    If the file system has no links, the file is renamed.

    Args:
        source_folder: The descriptor of the file's folder.
        old: The name of the file.
        target_folder: The descriptor of the folder of the second name.
        new: The second name.
    """
    with suppress(FileNotFoundError):
        os.unlink(new, dir_fd=target_folder)
    try:
        os.link(old, new, src_dir_fd=source_folder, dst_dir_fd=target_folder, follow_symlinks=False)
    except OSError as fault:
        if fault.errno not in (*NO_ATTRIBUTES, errno.EMLINK):
            raise
        os.rename(old, new, src_dir_fd=source_folder, dst_dir_fd=target_folder)


def _stat(status: os.stat_result, layout: StoredLayout) -> Stat:
    # The time of a file can be set to values that do not fit into 64 bits.
    modified_ns = min(max(status.st_mtime_ns, -(2**63)), 2**63 - 1)
    return Stat(status.st_mode, status.st_size, modified_ns, status.st_dev, status.st_ino, layout)


def _layout_of(file: int) -> StoredLayout:
    """Return the layout that is stored with an open file."""
    try:
        stored = os.getxattr(file, LAYOUT_ATTRIBUTE)
        return StoredLayout(*LAYOUTS[stored[0]].unpack(stored)[1:])
    except (struct.error, LookupError):
        # The attribute has an unknown version, or was changed by another program.
        return NO_LAYOUT
    except OSError as fault:
        if fault.errno == errno.ENODATA:
            return NO_LAYOUT
        if fault.errno in NO_ATTRIBUTES:
            return UNSTORABLE
        raise


def _layout_below(parent: int, name: bytes) -> StoredLayout:
    """Return the layout that is stored with a file in a folder."""
    file = os.open(name, os.O_RDONLY | PLAIN, dir_fd=parent)
    try:
        return _layout_of(file)
    finally:
        os.close(file)


def _sorted_names(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        names = [os.fsencode(entry.name).decode("utf-8", "surrogateescape") for entry in entries]
    return sorted(names)


def _entry(folder: int, name: str) -> Entry:
    """Return the entry of a name in a folder."""
    try:
        status = os.stat(encode_path(name), dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        # It was deleted after the folder was read.
        return Entry(name, "other", 0)
    if stat.S_ISDIR(status.st_mode):
        return Entry(name, "folder", 0)
    if stat.S_ISREG(status.st_mode):
        return Entry(name, "file", status.st_size)
    return Entry(name, "other", 0)
