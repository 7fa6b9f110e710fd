"""Where a listener reads and writes its disk: files below its root; a path that leaves it, also over a symbolic link,
is refused. Failed calls of the operating system are counted by name, as merror reports them."""

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

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
PLAIN = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
LAYOUT_ATTRIBUTE = "user.sfio.layout"
LAYOUTS = {
    1: struct.Struct("<BQII"),
    2: struct.Struct("<BQIIQ"),
}  # by version; the first knew no identities
NO_ATTRIBUTES = (errno.ENOTSUP, errno.ENOSYS, errno.EPERM)
MAX_LISTINGS = 4


class Cuts:
    """The truncations that a file has been through since it was opened first, the numbers of them exclusive or; the
    descriptors by which it is open; when its last sync began, by which path, and what failed in it."""

    __slots__ = ("files", "key", "synced", "value")

    def __init__(self, key: tuple[int, int]) -> None:
        self.key, self.value = key, 0
        self.synced: tuple[float, str | None, CallFailed | None] = -1.0, None, None
        self.files: set[int] = set()


@dataclass
class Opening:
    """An open file: its path, the folders that its opening made (None: the file was there), and whether the names that
    lead to it are on the medium."""

    path: str
    cuts: Cuts
    made: list[str] | None
    placed: bool = False


class OpenFiles:
    """How many subfiles are open, over all roots of a listener, and how many may be; the truncations of those that are,
    and those (`replaced`) whose name was given to another file: nobody shall write into what nobody can find."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.count = 0
        self.replaced: set[int] = set()
        self._cuts: dict[tuple[int, int], Cuts] = {}  # by device and inode

    def enter(self, file: int, found: os.stat_result) -> Cuts:
        """A file is opened once more."""
        self.count += 1
        key = found.st_dev, found.st_ino
        cuts = self._cuts.setdefault(key, Cuts(key))
        cuts.files.add(file)
        return cuts

    def leave(self, file: int, cuts: Cuts) -> None:
        """One opening of a file has ended."""
        self.count -= 1
        self.replaced.discard(file)
        cuts.files.discard(file)
        if not cuts.files:
            del self._cuts[cuts.key]

    def note_found(self, found: os.stat_result) -> None:
        """A file that may be open has a name again."""
        cuts = self._cuts.get((found.st_dev, found.st_ino))
        if cuts is not None:
            self.replaced -= cuts.files

    def note_replaced(self, found: os.stat_result) -> None:
        """Another file has, or is about to get, the name of a file that may be open."""
        cuts = self._cuts.get((found.st_dev, found.st_ino))
        if cuts is not None:
            self.replaced |= cuts.files


class RootedSubfiles:
    """The subfiles below `root`, which is made if missing.

    Each directory on the way is opened from the one above without following links, so that nothing outside the root
    can be reached whatever the path says or somebody puts there meanwhile. The layout of a striped file is stored with
    each subfile as an extended attribute, where the file system has such.
    """

    def __init__(self, root: Path, open_files: OpenFiles | None = None) -> None:
        """Raises `OSError`, also where another listener serves the root, a folder in it or one around it: neither would
        know of the other's writes."""
        root.mkdir(parents=True, exist_ok=True)
        self._folders = lock_root(root)
        self._root = self._folders[0]
        self._errors = dict.fromkeys(COUNTED, 0)
        self._open_files = open_files or OpenFiles(2**31)
        self._opened: dict[int, Opening] = {}
        self._listings: dict[
            str, list[str]
        ] = {}  # names of folders that are being listed page by page
        self.locks: dict[str, object] = {}
        self.replaced = self._open_files.replaced

    def dispose(self) -> None:
        """Close the root itself, for another listener to serve."""
        unlock_root(self._folders)

    def take_errors(self) -> list[int]:
        """Failed calls and rejected messages, in the order of `COUNTED`, since the last query."""
        counts, self._errors = list(self._errors.values()), dict.fromkeys(COUNTED, 0)
        return counts

    def note_rejected(self) -> None:
        """Count a message that was refused."""
        self._errors["rejected"] += 1

    # --- names ---------------------------------------------------------------------------------------------------

    def open(self, path: str, flags: OpenFlag) -> tuple[int, bool]:
        """A descriptor of the subfile (-1: `IF_THERE`, and it is not), and whether it (with its directories) was made
        now."""
        way = os.O_RDONLY if flags & OpenFlag.READ_ONLY else os.O_RDWR
        made: list[str] = []
        file, created = -1, False
        with (
            self._counted("open"),
            suppress(*[FileNotFoundError] if flags & OpenFlag.IF_THERE else ()),
        ):
            with self._parent(path, create=bool(flags & OpenFlag.CREATE), made=made) as (
                parent,
                name,
            ):
                if self._open_files.count >= self._open_files.most:
                    raise OSError(errno.ENFILE, "too many files are open for all clients together")
                file, created = _open_or_make(parent, name, way | PLAIN, flags)
            cuts = self._open_files.enter(file, self._plain(file))
            self._opened[file] = Opening(path, cuts, made if created else None)
        return file, created

    def create(self, path: str) -> None:
        """A new and empty subfile without a layout, in the place of one that may have been there."""
        with self._counted("creat"), self._parent(path, create=True) as (parent, name):
            with suppress(FileNotFoundError):
                self._open_files.note_replaced(_plain_stat(parent, name))
                os.unlink(name, dir_fd=parent)
            os.close(
                os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | PLAIN, 0o644, dir_fd=parent)
            )

    def unmake(self, file: int) -> None:
        """Delete again a file that an opening made, with the folders it made, as far as all are empty still: else
        nothing."""
        opened = self._opened[file]
        folders, opened.made = opened.made, None
        if folders is None:
            return
        with self._counted("unlink"), self._parent(opened.path, create=False) as (parent, name):
            found, there = os.fstat(file), os.stat(name, dir_fd=parent, follow_symlinks=False)
            if found.st_size or (found.st_dev, found.st_ino) != (there.st_dev, there.st_ino):
                return
            os.unlink(name, dir_fd=parent)
        for folder in reversed(folders):
            self._remove_empty(folder)

    def unlink(self, path: str) -> None:
        """Delete a plain file; anything else stays."""
        with self._counted("unlink"), self._parent(path, create=False) as (parent, name):
            _plain_stat(parent, name)
            os.unlink(name, dir_fd=parent)

    def make_folder(self, path: str) -> None:
        """Make a folder in one that is there."""
        with self._counted("mkdir"), self._parent(path, create=False) as (parent, name):
            os.mkdir(name, 0o755, dir_fd=parent)

    def remove_folder(self, path: str) -> None:
        """Remove a folder that is empty."""
        with self._counted("rmdir"), self._parent(path, create=False) as (parent, name):
            os.rmdir(name, dir_fd=parent)

    def rename(self, source: str, target: str, way: RenameWay) -> None:
        """Give a plain file another path (its directories are made if missing). Of two names of one file that of the
        source goes."""
        with (
            self._counted("rename"),
            self._parent(source, create=False) as (here, old),
            self._parent(target, create=True) as (there, new),
        ):
            found = _plain_stat(here, old)
            same = False
            with suppress(FileNotFoundError):
                target_found = _plain_stat(there, new)
                same = os.path.samestat(found, target_found)
                if way is RenameWay.REFUSE and not same:
                    raise FileExistsError(errno.EEXIST, "there is a file of that name")
                if not same:
                    self._open_files.note_replaced(target_found)
            if way is RenameWay.LINK:
                _link(here, old, there, new)
                return
            os.rename(old, new, src_dir_fd=here, dst_dir_fd=there)
            if same and source != target:  # the system has left both
                os.unlink(old, dir_fd=here)
            self._open_files.note_found(found)
        for opened in self._opened.values():
            if opened.path == source:
                opened.path, opened.placed = target, False

    def stat(self, path: str) -> Stat:
        """What the path is: a file, or a directory ("" is the root)."""
        with self._counted("stat"):
            if not path:
                return _stat(os.fstat(self._root), NO_LAYOUT)
            with self._parent(path, create=False) as (parent, name):
                found = os.stat(name, dir_fd=parent, follow_symlinks=False)
                layout = NO_LAYOUT
                if stat.S_ISREG(found.st_mode):
                    with suppress(PermissionError):
                        layout = _layout_below(parent, name)
                return _stat(found, layout)

    def list_folder(self, path: str, after: str) -> Iterator[Entry]:
        """The names behind `after` of a directory ("" is the root) in their order, one by one. What an earlier call
        that was left half-way has read is used again: a folder is read once for all its pages."""
        with self._counted("readdir"), self._directory(path) as here:
            names = self._listings.pop(path, None) if after else None
            if names is None:
                with os.scandir(here) as found:
                    names = sorted(
                        [
                            os.fsencode(entry.name).decode("utf-8", "surrogateescape")
                            for entry in found
                        ]
                    )
            self._listings[path] = names
            if len(self._listings) > MAX_LISTINGS:
                self._listings.pop(next(iter(self._listings)))
            for place in range(bisect_right(names, after), len(names)):
                yield _entry(here, names[place])
            self._listings.pop(path, None)

    # --- open files ----------------------------------------------------------------------------------------------

    def close(self, file: int) -> None:
        opened = self._opened.pop(file, None)
        if opened is not None:
            self._open_files.leave(file, opened.cuts)
        with self._counted("close"):
            os.close(file)

    def describe(self, file: int) -> Stat:
        """What is known of an open file."""
        with self._counted("stat"):
            return _stat(os.fstat(file), _layout_of(file))

    def store_layout(self, file: int, layout: StoredLayout) -> None:
        """Store the layout with the file; nothing where the file system has no place for it."""
        with self._counted("open"):
            try:
                os.setxattr(file, LAYOUT_ATTRIBUTE, LAYOUTS[2].pack(2, *layout))
            except OSError as fault:
                if fault.errno not in NO_ATTRIBUTES:
                    raise

    def truncate(self, file: int, size: int) -> None:
        with self._counted("ftruncate"):
            os.ftruncate(file, size)

    def note_cut(self, file: int, cut: int) -> None:
        """The file is truncated for the reason of that number."""
        self._opened[file].cuts.value ^= cut

    def cuts(self, file: int) -> int:
        """The truncations that the file has been through since somebody opened it first."""
        return self._opened[file].cuts.value

    def size(self, file: int) -> int:
        with self._counted("lseek"):
            return os.lseek(file, 0, os.SEEK_END)

    def sync(self, file: int) -> Callable[[], None]:
        """What brings the file to the medium, and its name if this has not been done since it was opened or renamed, by
        a descriptor of its own; in one thread for all files."""
        with self._counted("fsync"):
            opened = self._opened[file]
            path, opened.placed = None if opened.placed else opened.path, True
            return partial(self._sync_once, os.dup(file), path, opened.cuts, time.monotonic())

    def _sync_once(self, file: int, path: str | None, shared: Cuts, requested_s: float) -> None:
        """Sync a file, unless this was done for somebody else since it was requested (group commit)."""
        try:
            began_s, synced_path, _ = shared.synced
            if began_s <= requested_s or path not in (None, synced_path):
                began_s, failure = time.monotonic(), None
                try:
                    self.fsync(file, path)
                except CallFailed as fault:
                    failure = fault
                shared.synced = began_s, path, failure
        finally:
            os.close(file)
        if shared.synced[2] is not None:
            raise shared.synced[2]

    def fsync(self, file: int, path: str | None) -> None:
        """Bring a file, and the names on the way to it by `path`, to the medium."""
        with self._counted("fsync"):
            os.fsync(file)
            pieces = path.split("/") if path is not None else []
            for depth in range(len(pieces) - 1, -1, -1):
                with self._directory("/".join(pieces[:depth])) as here:
                    os.fsync(here)

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

    # --- faults, ways ----------------------------------------------------------------------------------------------

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
    def _parent(
        self, path: str, *, create: bool, made: list[str] | None = None
    ) -> Iterator[tuple[int, bytes]]:
        """The directory of the subfile and the last part of the path, in UTF-8 whatever the locale. Directories made on
        the way go again after a fault, and are noted in `made`."""
        way, _, name = path.rpartition("/")
        if name in ("", ".", ".."):
            raise PermissionError(errno.EACCES, "a path that leaves the root")
        made = [] if made is None else made
        try:
            with self._directory(way, made if create else None) as here:
                yield here, encode_path(name)
        except OSError:
            for directory in reversed(made):
                self._remove_empty(directory)
            raise

    @contextmanager
    def _directory(self, path: str, made: list[str] | None = None) -> Iterator[int]:
        """A directory ("" is the root), opened step by step from the root. With `made` missing ones are made and
        noted."""
        pieces = path.split("/") if path else []
        if any(piece in ("", ".", "..") or "\0" in piece for piece in pieces):
            raise PermissionError(errno.EACCES, "a path that leaves the root")
        here = os.dup(self._root)
        try:
            for number, piece in enumerate(pieces, 1):
                if made is not None:
                    with suppress(
                        FileExistsError
                    ):  # the usual case: it is there, or somebody was faster
                        os.mkdir(encode_path(piece), 0o755, dir_fd=here)
                        made.append("/".join(pieces[:number]))
                below = os.open(encode_path(piece), DIRECTORY, dir_fd=here)
                os.close(here)
                here = below
            yield here
        finally:
            os.close(here)

    def _remove_empty(self, path: str) -> None:
        way, _, name = path.rpartition("/")
        with suppress(OSError), self._directory(way) as here:
            os.rmdir(encode_path(name), dir_fd=here)

    def _plain(self, file: int) -> os.stat_result:
        """What an open file is, which is closed where it is no plain one."""
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            os.close(file)
            raise OSError(errno.EINVAL, "not a plain file")
        return found


def _open_or_make(parent: int, name: bytes, way: int, flags: OpenFlag) -> tuple[int, bool]:
    while True:
        if not (flags & OpenFlag.EXCLUSIVE and flags & OpenFlag.CREATE):
            try:
                return os.open(name, way, dir_fd=parent), False
            except FileNotFoundError:
                if not flags & OpenFlag.CREATE:
                    raise
        try:
            return os.open(name, way | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=parent), True
        except FileExistsError:
            if flags & OpenFlag.EXCLUSIVE:
                raise


def _plain_stat(parent: int, name: bytes) -> os.stat_result:
    found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, "a directory")
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "not a plain file")
    return found


def _link(here: int, old: bytes, there: int, new: bytes) -> None:
    """Give a file a second name, also in the place of another's; only the new one where the file system has no
    links."""
    with suppress(FileNotFoundError):
        os.unlink(new, dir_fd=there)
    try:
        os.link(old, new, src_dir_fd=here, dst_dir_fd=there, follow_symlinks=False)
    except OSError as fault:
        if fault.errno not in (*NO_ATTRIBUTES, errno.EMLINK):
            raise
        os.rename(old, new, src_dir_fd=here, dst_dir_fd=there)


def _stat(found: os.stat_result, layout: StoredLayout) -> Stat:
    modified_ns = min(
        max(found.st_mtime_ns, -(2**63)), 2**63 - 1
    )  # a file may have the time of any clock
    return Stat(found.st_mode, found.st_size, modified_ns, found.st_dev, found.st_ino, layout)


def _layout_of(file: int) -> StoredLayout:
    try:
        stored = os.getxattr(file, LAYOUT_ATTRIBUTE)
        return StoredLayout(*LAYOUTS[stored[0]].unpack(stored)[1:])
    except (struct.error, LookupError):
        return NO_LAYOUT
    except OSError as fault:
        if fault.errno != errno.ENODATA and fault.errno not in NO_ATTRIBUTES:
            raise
        return NO_LAYOUT if fault.errno == errno.ENODATA else UNSTORABLE


def _layout_below(parent: int, name: bytes) -> StoredLayout:
    file = os.open(name, os.O_RDONLY | PLAIN, dir_fd=parent)
    try:
        return _layout_of(file)
    finally:
        os.close(file)


def _entry(here: int, name: str) -> Entry:
    try:
        found = os.stat(encode_path(name), dir_fd=here, follow_symlinks=False)
    except FileNotFoundError:  # gone meanwhile
        return Entry(name, "other", 0)
    if stat.S_ISDIR(found.st_mode):
        return Entry(name, "folder", 0)
    return (
        Entry(name, "file", found.st_size)
        if stat.S_ISREG(found.st_mode)
        else Entry(name, "other", 0)
    )
