"""Striped files as a file system of fsspec, `sfio://path`.

pandas, zarr, h5py and every other program that accepts files of fsspec can read and write them. A
file has one subfile of the same path on each host, and a folder is a folder on each host.
"""

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

# The stripe unit of new files, unless the file system has another one.
STRIPE_UNIT = 64 << 10
# The buffer of a file that is opened without a size of its buffer.
BUFFER_BYTES = 1 << 20
# A copy reads and writes this number of bytes at once.
COPY_BYTES = 16 << 20

# Errors by which `exists` knows that there is no such file, as `os.path.exists` does.
NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EACCES, errno.EINVAL)


class Info(TypedDict, total=False):
    """The properties of a file or folder in fsspec.

    Attributes:
        name: The path.
        size: The size in bytes; 0 for a folder.
        type: "file", "directory" or "other".
        mtime: The time of the last change, in seconds since 1970.
        stripe_unit: The stripe unit of a file in bytes; None if it is not stored.
    """

    name: str
    size: int
    type: str
    mtime: float
    stripe_unit: int | None


class _RawFile(StripedFile):
    """A striped file that raises the errors of Python's own files.

    Attributes:
        path: The path in the file system.
    """

    path = ""

    def pread(self, target: Any, offset: int) -> Any:
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
        except UsageError as error:
            # Programs such as zipfile expect this error when they seek before the beginning.
            raise OSError(errno.EINVAL, str(error), self.path) from error


class SfioReader(AbstractBufferedFile):  # type: ignore[misc]  # fsspec has no types
    """A file for reading: that of fsspec, whose cache reads from the striped file."""

    def __init__(
        self, fs: "SfioFileSystem", path: str, striped: StripedFile, block_size: int, **more: object
    ) -> None:
        """Create the file.

        Args:
            fs: The file system.
            path: The path in the file system.
            striped: The open striped file.
            block_size: The number of bytes that the cache reads at once.
            more: Further arguments of fsspec. The size is given when the file is unpickled.
        """
        self._striped = striped
        size = more.pop("size", None)
        if size is None:
            size = striped.size()
        super().__init__(fs, path, "rb", block_size, size=size, **more)

    def _fetch_range(self, start: int, end: int) -> bytes:
        # Some caches request bytes behind the end of the file, where `end` is less than `start`.
        return self._striped.pread(max(end - start, 0), start)

    def close(self) -> None:
        """Close the file. Closing it again does nothing."""
        super().close()
        self._striped.close()

    def __del__(self) -> None:
        if not self.closed:
            self._striped.forget()


class _FsspecFile(AbstractBufferedFile):  # type: ignore[misc]  # fsspec has no types
    """The methods of a file of fsspec that buffered files of Python do not have."""

    # The method of fsspec has no `hint`, and returns an empty line at the end.
    readlines = io.IOBase.readlines

    @property
    def size(self) -> int:
        """The size of the file in bytes, including all that was written."""
        self.flush()
        return int(self.raw.size())

    def info(self) -> Info:
        """Return what the file system knows of the file, including all that was written."""
        self.flush()
        info: Info = self.fs.info(self.path)
        return info


class SfioWriter(io.BufferedWriter, _FsspecFile):
    """A file for writing: that of Python, which can seek."""


class SfioUpdater(io.BufferedRandom, _FsspecFile):
    """A file for reading and writing."""


class SfioFileSystem(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """A file system of striped files. No call is collective, even if the session has a group.

    Errors of I/O nodes are raised as OSError, as fsspec expects.

    Args:
        hosts: The hosts of new files; by default all that the session knows, sorted by name.
        stripe_unit: The stripe unit of new files in bytes. Existing files keep theirs.
        listeners: The addresses of the listeners, in the form of SFIO_LISTENERS.
        session: The session; by default one to `listeners`, or that of the process.
        options: Options of fsspec.
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
        self.session = session_alone(session)
        self.stripe_unit = stripe_unit
        self.hosts = tuple(hosts) if hosts is not None else catalogue.different_hosts(self.session)
        if not self.hosts:
            raise UsageError(
                "no listener is known: set SFIO_LISTENERS, or give listeners=, session= or hosts="
            )

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        """Return a path, or a list of paths, without the protocol.

        Empty parts and "." are removed, so that a file has one spelling.
        """
        path = super()._strip_protocol(path)
        if isinstance(path, list):
            return path
        return "/".join(part for part in path.split("/") if part not in ("", "."))

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: object = None,
        **options: object,
    ) -> io.IOBase:
        """Open a file, as fsspec defines it."""
        if not path:
            raise IsADirectoryError(errno.EISDIR, "it is a folder", path)
        if not autocommit and mode != "rb":
            raise NotImplementedError(
                "striped files do not support transactions: write to another name and move it"
            )
        unit = self.stripe_unit
        if mode[0] in "ra":
            unit = self._unit(path, missing_is_new=mode[0] == "a")
        with _as_os_errors(path):
            raw = _RawFile.open(self._name(path), unit, mode=mode, session=self.session)
        raw.path = path
        # fsspec also gives "default".
        size = BUFFER_BYTES
        if isinstance(block_size, int) and block_size > 0:
            size = block_size
        if not raw.writable():
            reader: io.IOBase = SfioReader(
                self, path, raw, size, cache_options=cache_options, **options
            )
            return reader
        file = SfioUpdater(raw, size) if raw.readable() else SfioWriter(raw, size)
        file.fs = self
        file.path = path
        file.blocksize = size
        return file

    def _unit(self, path: str, *, missing_is_new: bool) -> int:
        """Return the stripe unit that is stored with a file, or else that of this file system.

        Args:
            path: The path of the file.
            missing_is_new: Whether the file will be created if it does not exist.

        Raises:
            IsADirectoryError: It is a folder.
            FileNotFoundError: It does not exist, and will not be created.
        """
        try:
            info = self.info(path)
        except FileNotFoundError:
            if missing_is_new:
                return self.stripe_unit
            raise
        if info["type"] == "directory":
            raise IsADirectoryError(errno.EISDIR, "it is a folder", path)
        return info["stripe_unit"] or self.stripe_unit

    def info(self, path: str, **options: object) -> Info:
        """Return the properties of a file or folder, such as its type and size.

        Raises:
            FileNotFoundError: It does not exist.
        """
        with self._at(path) as (path, subfiles):
            stats = catalogue.stat_paths(self.session, subfiles)
            if stat.S_ISDIR(stats[0].mode):
                return {
                    "name": path,
                    "size": 0,
                    "type": "directory",
                    "mtime": stats[0].modified_ns / 1e9,
                }
            status = catalogue.file_stat(self.session, subfiles, stats)
        is_regular = all(stat.S_ISREG(subfile.mode) for subfile in stats)
        return {
            "name": path,
            "size": status.size,
            "type": "file" if is_regular else "other",
            "mtime": status.modified_ns / 1e9,
            "stripe_unit": None if status.layout is None else status.layout.stripe_unit,
        }

    def ls(self, path: str, detail: bool = True, **options: object) -> list[Info] | list[str]:
        """List the files and folders in a folder, or the file itself.

        Args:
            path: The path of the folder or file.
            detail: Return the properties of each (see `info`), and not only its path.
            options: Options of fsspec, which have no effect.
        """
        path = self._strip_protocol(path)
        info = self.info(path)
        entries: list[Info] = [info]
        if info["type"] == "directory":
            entries = self._entries(path)
        return entries if detail else [entry["name"] for entry in entries]

    def _entries(self, path: str) -> list[Info]:
        """Return the files and folders in a folder."""
        folders = ";".join(f"{host}/{escape(path) or '.'}" for host in self.hosts)
        with _as_os_errors(path):
            listed = catalogue.mlist(folders, self.session)
        prefix = f"{path}/" if path else ""
        entries: list[Info] = []
        for entry in listed:
            kind = "directory" if entry.folder else "file"
            name = prefix + unescape(entry.name)
            entries.append({"name": name, "size": entry.size, "type": kind})
        return entries

    def exists(self, path: str, **options: object) -> bool:
        """Return whether there is a file or folder.

        If a listener does not answer, an error is raised.
        """
        return self._kind(path) is not None

    def isfile(self, path: str) -> bool:
        """Return whether there is a file, with errors as `exists`."""
        return self._kind(path) == "file"

    def isdir(self, path: str) -> bool:
        """Return whether there is a folder, with errors as `exists`."""
        return self._kind(path) == "directory"

    def _kind(self, path: str) -> str | None:
        """Return the type of a path, or None if it does not exist."""
        try:
            return self.info(path)["type"]
        except OSError as error:
            if error.errno in NOT_THERE:
                return None
            raise

    def modified(self, path: str) -> datetime:
        """Return the time of the last change."""
        return datetime.fromtimestamp(self.info(path)["mtime"], tz=UTC)

    def touch(self, path: str, truncate: bool = True, **options: object) -> None:
        """Create an empty file.

        Args:
            path: The path of the file.
            truncate: Truncate the file if it exists.
            options: Options of fsspec, which have no effect.
        """
        self.open(path, "wb" if truncate else "ab").close()

    def mkdir(self, path: str, create_parents: bool = True, **options: object) -> None:
        """Create a folder.

        Args:
            path: The path of the folder.
            create_parents: Create missing folders around it.
            options: Options of fsspec, which have no effect.

        Raises:
            FileExistsError: A file or folder has the path.
        """
        if create_parents:
            self.makedirs(path)
            return
        with self._at(path) as (_, folders):
            catalogue.make_folder(self.session, folders)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Create a folder, and missing folders around it.

        Args:
            path: The path of the folder.
            exist_ok: Do nothing if the folder exists.

        Raises:
            FileExistsError: The folder exists, or a file has the path of one of the folders.
        """
        path = self._strip_protocol(path)
        # An invalid path is refused here, before the first folder is created.
        with self._at(path):
            pass
        if exist_ok and self.isdir(path):
            return
        parent = self._parent(path)
        if parent:
            self.makedirs(parent, exist_ok=True)
        try:
            self.mkdir(path, create_parents=False)
        except FileExistsError:
            # Another client may have created the folder meanwhile.
            if not exist_ok or not self.isdir(path):
                raise

    def rmdir(self, path: str) -> None:
        """Remove an empty folder."""
        with self._at(path) as (_, folders):
            catalogue.remove_folder(self.session, folders)

    def rm_file(self, path: str) -> None:
        """Delete a file."""
        with self._at(path) as (path, subfiles):
            try:
                catalogue.remove_subfiles(self.session, subfiles)
            except UsageError as error:
                raise IsADirectoryError(errno.EISDIR, str(error), path) from error

    def rm(
        self, path: str | list[str], recursive: bool = False, maxdepth: int | None = None
    ) -> None:
        """Delete files.

        Args:
            path: A path or pattern, or a list of these. The path of an existing file is not used as
                a pattern.
            recursive: Also delete folders, and everything in them.
            maxdepth: The maximum depth of what is deleted. Folders then remain.
        """
        for name in reversed(self._expanded(path, recursive, maxdepth)):
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
        """Move files. A file is renamed, not copied.

        Args:
            path1: A path or pattern. The path of an existing file is not used as a pattern.
            path2: The new path.
            recursive: Also move folders, and everything in them.
            maxdepth: The maximum depth of what is moved.
            options: Options of fsspec, which have no effect.
        """
        sources = self._expanded(path1, recursive, maxdepth)
        folders = [name for name in sources if self.isdir(name)]
        if folders and not recursive:
            raise IsADirectoryError(errno.EISDIR, "it is a folder: give recursive=True", folders[0])
        if maxdepth is not None and isinstance(path1, str):
            sources = [name for name in sources if name not in folders]
        literal = isinstance(path1, str) and self.exists(path1)
        target_paths = targets(path1, sources, path2, self.isdir, literal=literal)
        self.copy(sources, target_paths, on_error="raise", by_name=True)
        for folder in reversed(folders):
            # A folder remains if it has something that was created meanwhile, or that is too deep.
            with suppress(OSError):
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
        """Copy files within the file system, with arguments as in fsspec."""
        sources, target_paths = self._pairs(path1, path2, self.isdir, recursive, maxdepth)
        super().copy(sources, target_paths, recursive=recursive, on_error=on_error, **options)

    def get(
        self,
        rpath: str | list[str],
        lpath: str | list[str],
        recursive: bool = False,
        callback: Callback = DEFAULT_CALLBACK,
        maxdepth: int | None = None,
        **options: object,
    ) -> None:
        """Copy files to the local file system, with arguments as in fsspec."""
        isdir = LocalFileSystem().isdir
        sources, target_paths = self._pairs(
            rpath, stringify_path(lpath), isdir, recursive, maxdepth
        )
        super().get(sources, target_paths, recursive=recursive, callback=callback, **options)

    def _expanded(self, path: Any, recursive: bool, maxdepth: int | None) -> list[str]:
        """Return the files and folders that paths and patterns mean, sorted.

        Args:
            path: A path or pattern, or a list of these. The path of an existing file is not used as
                a pattern.
            recursive: Also return everything in folders.
            maxdepth: The maximum depth in folders.
        """
        paths = path if isinstance(path, list) else [path]
        expanded: set[str] = set()
        for pattern in paths:
            name = self._strip_protocol(pattern)
            if not self.exists(name):
                expanded.update(self.expand_path(name, recursive, maxdepth))
                continue
            expanded.add(name)
            if recursive:
                expanded.update(self.find(name, maxdepth=maxdepth, withdirs=True))
        return sorted(expanded)

    def _pairs(
        self,
        source: Any,
        target: Any,
        isdir: Callable[[str], bool],
        recursive: bool,
        maxdepth: int | None,
    ) -> tuple[list[str], list[str]]:
        """Return the files and folders to copy, and the path to which each is copied.

        Args:
            source: A path or pattern, or a list of paths.
            target: The path to copy to, or a list of paths.
            isdir: Returns whether a target is a folder.
            recursive: Also copy folders, and everything in them.
            maxdepth: The maximum depth of what is copied.
        """
        if isinstance(source, list) and isinstance(target, list):
            return source, target
        sources = self.expand_path(source, recursive=recursive, maxdepth=maxdepth)
        if not isinstance(source, list) and (not recursive or maxdepth is not None):
            sources = [name for name in sources if not self.isdir(name)]
        return sources, targets(stringify_path(source), sources, target, isdir, literal=False)

    def cp_file(self, path1: str, path2: str, by_name: bool = False, **options: object) -> None:
        """Copy a file, or create a folder like another one.

        A file that is copied to itself stays as it is.

        Args:
            path1: The path of the file or folder.
            path2: The path to copy to.
            by_name: Rename the file instead.
            options: Options of fsspec, which have no effect.
        """
        source = self._strip_protocol(path1)
        target = self._strip_protocol(path2)
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
        """Return the name of the striped file at a path."""
        path = escape(self._strip_protocol(path))
        check_path(path)
        return ";".join(f"{host}/{path}" for host in self.hosts)

    @contextmanager
    def _at(self, path: str) -> Iterator[tuple[str, tuple[SubfileName, ...]]]:
        """Convert the errors of calls on a path to OSError.

        Yields:
            The path without the protocol, and its name on each host.
        """
        path = self._strip_protocol(path)
        with _as_os_errors(path):
            if path:
                names = parse_file_name(self._name(path))
            else:
                names = tuple(SubfileName(host=host, path="") for host in self.hosts)
            yield path, names


@contextmanager
def _as_os_errors(path: str) -> Iterator[None]:
    """Convert the failures of system calls on I/O nodes to OSError, as Python's files raise it."""
    try:
        yield
    except RemoteFailure as failure:
        raise OSError(failure.errno, str(failure), path) from failure
