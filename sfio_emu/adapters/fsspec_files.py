"""Striped files as a file system of fsspec, `sfio://path`: pandas, zarr, h5py and all that takes fsspec's files read
and write them. A file has one subfile of the same path on each host, a folder is a folder on each."""

import errno
import io
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, TypedDict

from fsspec.callbacks import DEFAULT_CALLBACK, Callback
from fsspec.implementations.local import LocalFileSystem
from fsspec.spec import AbstractBufferedFile, AbstractFileSystem
from fsspec.utils import stringify_path

from sfio_emu.adapters.environment import parse_listeners, session_alone
from sfio_emu.adapters.fsspec_paths import check_path, escape, targets, unescape
from sfio_emu.adapters.sockets import TcpConnections
from sfio_emu.client import catalogue
from sfio_emu.client.session import Session
from sfio_emu.errors import RemoteFailure, UsageError
from sfio_emu.names import SubfileName, parse_file_name
from sfio_emu.striped_file import StripedFile


class Info(TypedDict, total=False):
    """What fsspec is told of a file or folder."""

    name: str
    size: int
    type: str
    mtime: float
    stripe_unit: int | None


STRIPE_UNIT = 64 << 10
BUFFER_BYTES = 1 << 20
COPY_BYTES = 16 << 20
NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EACCES, errno.EINVAL)
"""What `exists` takes for an answer, as `os.path.exists` does."""


class _RawFile(StripedFile):
    """A striped file whose calls fail as those of Python's own files do. `path`: its name in the file system."""

    path = ""

    def pread(self, target: Any, offset: int) -> Any:
        """As of a striped file, and so the others."""
        with _as_os_errors(self.path):
            return super().pread(target, offset)

    def pwrite(self, data: Any, offset: int) -> int:
        with _as_os_errors(self.path):
            return super().pwrite(data, offset)

    def size(self) -> int:
        with _as_os_errors(self.path):
            return super().size()

    def change_size(self, size: int) -> int:
        with _as_os_errors(self.path):
            return super().change_size(size)

    def seek(self, offset: int, whence: int = 0) -> int:
        try:
            return super().seek(offset, whence)
        except UsageError as error:  # zipfile, for one, asks so whether a file is long enough
            raise OSError(errno.EINVAL, str(error), self.path) from error


class SfioReader(AbstractBufferedFile):  # type: ignore[misc]  # fsspec has no types
    """A file that is read: fsspec's own, whose cache fetches from the striped file."""

    def __init__(
        self, fs: "SfioFileSystem", path: str, striped: StripedFile, block_size: int, **more: object
    ) -> None:
        self._striped = striped
        size = more.pop("size", None)  # of the file that was pickled
        super().__init__(
            fs, path, "rb", block_size, size=striped.size() if size is None else size, **more
        )

    def _fetch_range(self, start: int, end: int) -> bytes:
        return self._striped.pread(
            max(end - start, 0), start
        )  # some caches ask for what lies behind the end

    def close(self) -> None:
        """Close it; closing again does nothing."""
        super().close()
        self._striped.close()

    def __del__(self) -> None:
        if not self.closed:
            self._striped.forget()


class _FsspecFile(AbstractBufferedFile):  # type: ignore[misc]
    """What a file of fsspec has in addition to what a buffered file of Python has."""

    readlines = io.IOBase.readlines  # fsspec's takes no hint and finds an empty line at the end

    @property
    def size(self) -> int:
        """The size of the file, with all that was written to it."""
        self.flush()
        return int(self.raw.size())

    def info(self) -> Info:
        """As of the file system, with all that was written."""
        self.flush()
        found: Info = self.fs.info(self.path)
        return found


class SfioWriter(io.BufferedWriter, _FsspecFile):
    """A file that is written: Python's, which may seek."""


class SfioUpdater(io.BufferedRandom, _FsspecFile):
    """A file that is read and written."""


class SfioFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """Striped files on `hosts` (all that the session knows, in the order of their names) in units of `stripe_unit`
    bytes.

    Files that are there keep the stripe unit they were written with. The session is the given one, one to `listeners`
    (as SFIO_LISTENERS has them), or that of the process; no call is collective, whatever its group. Failures of an I/O
    node are raised as OSError, as fsspec wants.
    """

    protocol = "sfio"
    root_marker = ""

    def __init__(
        self,
        hosts: Sequence[str] | None = None,
        stripe_unit: int = STRIPE_UNIT,
        listeners: str | None = None,
        session: Session | None = None,
        **options: object,
    ) -> None:
        super().__init__(**options)
        if session is None and listeners:
            session = Session(TcpConnections(parse_listeners(listeners)))
        self.session, self.stripe_unit = session_alone(session), stripe_unit
        self.hosts = tuple(hosts) if hosts is not None else catalogue.different_hosts(self.session)
        if not self.hosts:
            raise UsageError(
                "no listener is known: set SFIO_LISTENERS, or give listeners=, session= or hosts="
            )

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        """The path (or paths) without the protocol, spelt in one way: two that are one file are the same text."""
        path = super()._strip_protocol(path)
        return (
            path
            if isinstance(path, list)
            else "/".join(part for part in path.split("/") if part not in ("", "."))
        )

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: object = None,
        **options: object,
    ) -> io.IOBase:
        if not path:
            raise IsADirectoryError(errno.EISDIR, "it is a folder", path)
        if not autocommit and mode != "rb":
            raise NotImplementedError(
                "striped files know no transactions: write to another name and move it"
            )
        unit = (
            self._unit(path, missing_is_new=mode[0] == "a") if mode[0] in "ra" else self.stripe_unit
        )
        with _as_os_errors(path):
            raw = _RawFile.open(self._name(path), unit, mode=mode, session=self.session)
        raw.path = path
        size = (
            block_size if isinstance(block_size, int) and block_size > 0 else BUFFER_BYTES
        )  # or "default"
        if not raw.writable():
            reader: io.IOBase = SfioReader(
                self, path, raw, size, cache_options=cache_options, **options
            )
            return reader
        file = SfioUpdater(raw, size) if raw.readable() else SfioWriter(raw, size)
        file.fs, file.path, file.blocksize = self, path, size
        return file

    def _unit(self, path: str, *, missing_is_new: bool) -> int:
        """The stripe unit that was stored with a file, else that of this file system. Raises IsADirectoryError."""
        try:
            found = self.info(path)
        except FileNotFoundError:
            if missing_is_new:
                return self.stripe_unit
            raise
        if found["type"] == "directory":
            raise IsADirectoryError(errno.EISDIR, "it is a folder", path)
        return found["stripe_unit"] or self.stripe_unit

    def info(self, path: str, **options: object) -> Info:
        """`name`, `size`, `type`, `mtime`, and of a file `stripe_unit`. Raises FileNotFoundError."""
        with self._at(path) as (path, subfiles):
            stats = catalogue.stat_paths(self.session, subfiles)
            if stat.S_ISDIR(stats[0].mode):
                return {
                    "name": path,
                    "size": 0,
                    "type": "directory",
                    "mtime": stats[0].modified_ns / 1e9,
                }
            found = catalogue.file_stat(self.session, subfiles, stats)
        unit = None if found.layout is None else found.layout.stripe_unit
        kind = "file" if all(stat.S_ISREG(one.mode) for one in stats) else "other"
        modified_s = found.modified_ns / 1e9
        return {
            "name": path,
            "size": found.size,
            "type": kind,
            "mtime": modified_s,
            "stripe_unit": unit,
        }

    def ls(self, path: str, detail: bool = True, **options: object) -> list[Info] | list[str]:
        """The files and folders of a folder, or the file itself."""
        path = self._strip_protocol(path)
        found = self.info(path)
        entries: list[Info] = [found]
        if found["type"] == "directory":
            with _as_os_errors(path):
                listed = catalogue.mlist(
                    ";".join(f"{host}/{escape(path) or '.'}" for host in self.hosts), self.session
                )
            entries = [
                {
                    "name": f"{path}/{unescape(entry.name)}" if path else unescape(entry.name),
                    "size": entry.size,
                    "type": "directory" if entry.folder else "file",
                }
                for entry in listed
            ]
        return entries if detail else [entry["name"] for entry in entries]

    def exists(self, path: str, **options: object) -> bool:
        """Whether there is a file or folder; a listener that does not answer is an error, not an answer."""
        return self._kind(path) is not None

    def isfile(self, path: str) -> bool:
        """Whether there is a file, as `exists`."""
        return self._kind(path) == "file"

    def isdir(self, path: str) -> bool:
        """Whether there is a folder, as `exists`."""
        return self._kind(path) == "directory"

    def _kind(self, path: str) -> str | None:
        try:
            return self.info(path)["type"]
        except OSError as error:
            if error.errno in NOT_THERE:
                return None
            raise

    def modified(self, path: str) -> datetime:
        """When the file was last changed."""
        return datetime.fromtimestamp(self.info(path)["mtime"], tz=UTC)

    def touch(self, path: str, truncate: bool = True, **options: object) -> None:
        """Make an empty file; one that is there is emptied, or without `truncate` left as it is."""
        self.open(path, "wb" if truncate else "ab").close()

    def mkdir(self, path: str, create_parents: bool = True, **options: object) -> None:
        """Make a folder; raises FileExistsError where there is something of that name."""
        if create_parents:
            self.makedirs(path)
            return
        with self._at(path) as (_, places):
            catalogue.make_folder(self.session, places)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Make a folder and those it is in. Raises FileExistsError where a file is in the way, or it is there already,
        unless `exist_ok`."""
        path = self._strip_protocol(path)
        with self._at(path):  # a name that no folder can have is refused before the first is made
            pass
        if exist_ok and self.isdir(path):
            return
        parent = self._parent(path)
        if parent:
            self.makedirs(parent, exist_ok=True)
        try:
            self.mkdir(path, create_parents=False)
        except FileExistsError:  # perhaps it was made meanwhile
            if not exist_ok or not self.isdir(path):
                raise

    def rmdir(self, path: str) -> None:
        """Remove an empty folder."""
        with self._at(path) as (_, places):
            catalogue.remove_folder(self.session, places)

    def rm_file(self, path: str) -> None:
        """Delete a file."""
        with self._at(path) as (path, places):
            try:
                catalogue.remove_subfiles(self.session, places)
            except UsageError as error:
                raise IsADirectoryError(errno.EISDIR, str(error), path) from error

    def rm(
        self, path: str | list[str], recursive: bool = False, maxdepth: int | None = None
    ) -> None:
        """Delete files; with `recursive` folders and all that is in them. A name that is there is no pattern."""
        for name in reversed(self._named(path, recursive, maxdepth)):
            if not recursive or not self.isdir(name):
                self.rm_file(name)
            elif name and maxdepth is None:
                self.rmdir(name)

    def mv(
        self,
        path1: str,
        path2: str,
        recursive: bool = False,
        maxdepth: int | None = None,
        **options: object,
    ) -> None:
        """Move a file (by its name alone), or with `recursive` a folder and all that is in it. A name that is there is
        no pattern."""
        sources = self._named(path1, recursive, maxdepth)
        folders = [name for name in sources if self.isdir(name)]
        if folders and not recursive:
            raise IsADirectoryError(errno.EISDIR, "it is a folder: give recursive=True", folders[0])
        if maxdepth is not None and isinstance(path1, str):
            sources = [name for name in sources if name not in folders]
        literal = isinstance(path1, str) and self.exists(path1)
        self.copy(
            sources,
            targets(path1, sources, path2, self.isdir, literal=literal),
            on_error="raise",
            by_name=True,
        )
        for folder in reversed(folders):
            with suppress(OSError):  # what came into it meanwhile, or lies too deep, stays
                self.rmdir(folder)

    def copy(
        self,
        path1: str | list[str],
        path2: str | list[str],
        recursive: bool = False,
        maxdepth: int | None = None,
        on_error: str | None = None,
        **options: object,
    ) -> None:
        """As of every file system of fsspec."""
        lists = self._pairs(path1, path2, self.isdir, recursive, maxdepth)
        super().copy(*lists, recursive=recursive, on_error=on_error, **options)

    def get(
        self,
        rpath: str | list[str],
        lpath: str | list[str],
        recursive: bool = False,
        callback: Callback = DEFAULT_CALLBACK,
        maxdepth: int | None = None,
        **options: object,
    ) -> None:
        """As of every file system of fsspec."""
        isdir = LocalFileSystem().isdir
        lists = self._pairs(rpath, stringify_path(lpath), isdir, recursive, maxdepth)
        super().get(*lists, recursive=recursive, callback=callback, **options)

    def _named(self, path: Any, recursive: bool, maxdepth: int | None) -> list[str]:
        """What names or patterns mean, sorted; a name that is there is no pattern."""
        found: set[str] = set()
        for name in [
            self._strip_protocol(one) for one in (path if isinstance(path, list) else [path])
        ]:
            there = self.exists(name)
            if not there:
                found |= set(self.expand_path(name, recursive, maxdepth))
            elif recursive:
                found |= set(self.find(name, maxdepth=maxdepth, withdirs=True))
            found |= {name} if there else set()
        return sorted(found)

    def _pairs(
        self,
        source: Any,
        target: Any,
        isdir: Callable[[str], bool],
        recursive: bool,
        maxdepth: int | None,
    ) -> tuple[list[str], list[str]]:
        """The files and folders to be copied, and where each goes."""
        if isinstance(source, list) and isinstance(target, list):
            return source, target
        sources = self.expand_path(source, recursive=recursive, maxdepth=maxdepth)
        if not isinstance(source, list) and (not recursive or maxdepth is not None):
            sources = [name for name in sources if not self.isdir(name)]
        return sources, targets(stringify_path(source), sources, target, isdir, literal=False)

    def cp_file(self, path1: str, path2: str, by_name: bool = False, **options: object) -> None:
        """Copy a file, or make a folder as that one is; `by_name`: move it. A file that is copied to itself stays."""
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.isdir(source):
            if by_name and (not source or f"{target}/".startswith(f"{source}/")):
                raise OSError(errno.EINVAL, "a folder cannot be moved into itself", source)
            self.makedirs(target, exist_ok=True)
        elif source != target and by_name:
            with _as_os_errors(source):
                catalogue.rename_file(
                    self.session, self._name(source), self._name(target), replace=True
                )
        elif source != target:
            with self.open(source, "rb", cache_type="none") as old, self.open(target, "wb") as new:
                while part := old.read(COPY_BYTES):
                    new.write(part)

    def _name(self, path: str) -> str:
        path = escape(self._strip_protocol(path))
        check_path(path)
        return ";".join(f"{host}/{path}" for host in self.hosts)

    @contextmanager
    def _at(self, path: str) -> Iterator[tuple[str, tuple[SubfileName, ...]]]:
        """The path without the protocol, and where it is on each host; around what is done there."""
        path = self._strip_protocol(path)
        with _as_os_errors(path):
            roots = tuple(SubfileName(host=host, path="") for host in self.hosts)
            yield path, parse_file_name(self._name(path)) if path else roots


@contextmanager
def _as_os_errors(path: str) -> Iterator[None]:
    """Raise what a call on an I/O node failed with as Python's own files raise it."""
    try:
        yield
    except RemoteFailure as failure:
        raise OSError(failure.errno, str(failure), path) from failure
