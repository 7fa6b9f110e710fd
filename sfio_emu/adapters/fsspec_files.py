"""Striped files as a file system of fsspec, `sfio://path`: pandas, zarr, h5py and all that takes fsspec's files read
and write them. A file has one subfile of the same path on each host; folders are there as soon as a file is in them."""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from fsspec.spec import AbstractFileSystem

from sfio_emu.adapters.environment import parse_listeners
from sfio_emu.adapters.sockets import TcpConnections
from sfio_emu.client.catalogue import mlist, mstat, remove_subfiles, rename_file, stat_subfile
from sfio_emu.client.current_session import current_session
from sfio_emu.client.session import Session
from sfio_emu.errors import RemoteFailure, UsageError
from sfio_emu.names import SubfileName, parse_file_name
from sfio_emu.striped_file import StripedFile

STRIPE_UNIT = 64 << 10
BUFFER_BYTES = 1 << 20
COPY_BYTES = 16 << 20
_S_IFMT, _S_IFDIR = 0o170000, 0o040000


class SfioFileSystem(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """Striped files on `hosts` (all that the session knows, in the order of their names) in units of `stripe_unit`
    bytes.

    Files that are there keep the stripe unit they were written with. The session is the given one, one to `listeners`
    (as SFIO_LISTENERS has them), or that of the process. Failures of an I/O node are raised as OSError, as fsspec
    wants.
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
        if session is None:
            session = Session(TcpConnections(parse_listeners(listeners))) if listeners else current_session()
        self.session, self.stripe_unit = session, stripe_unit
        self.hosts = tuple(hosts) if hosts is not None else _different_hosts(session)
        if not self.hosts:
            raise UsageError("no listener is known: set SFIO_LISTENERS, or give listeners=, session= or hosts=")

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: object = None,
        **options: object,
    ) -> io.BufferedIOBase:
        """A buffered file of Python over the striped file."""
        if not autocommit:
            raise NotImplementedError("striped files know no transactions: write to another name and move it")
        name, unit = self._name(path), self.stripe_unit
        with _as_os_errors(path):
            if mode[0] in "ra":
                unit = self._unit(name, missing_is_new=mode[0] == "a")
            raw = StripedFile.open(name, unit, mode=mode, session=self.session)
        size = block_size if isinstance(block_size, int) and block_size > 0 else BUFFER_BYTES  # or "default"
        if raw.readable() and raw.writable():
            return io.BufferedRandom(raw, size)
        return io.BufferedReader(raw, size) if raw.readable() else io.BufferedWriter(raw, size)

    def _unit(self, name: str, *, missing_is_new: bool) -> int:
        """The stripe unit that was stored with a file, else that of this file system."""
        try:
            layout = mstat(name, self.session).layout
        except RemoteFailure:
            if missing_is_new:
                return self.stripe_unit
            raise
        return self.stripe_unit if layout is None else layout.stripe_unit

    def info(self, path: str, **options: object) -> dict[str, Any]:
        """`name`, `size`, `type`, and of a file `mtime` and `stripe_unit`. Raises FileNotFoundError."""
        path = self._strip_protocol(path)
        with _as_os_errors(path):
            first = stat_subfile(self.session, self._place(self.hosts[0], path))
            if first.mode & _S_IFMT == _S_IFDIR:
                return {"name": path, "size": 0, "type": "directory"}
            found = mstat(self._name(path), self.session)
        return {
            "name": path,
            "size": found.size,
            "type": "file",
            "mtime": found.modified_ns / 1e9,
            "stripe_unit": None if found.layout is None else found.layout.stripe_unit,
        }

    def ls(self, path: str, detail: bool = True, **options: object) -> list[Any]:
        """The files and folders of a folder, or the file itself."""
        path = self._strip_protocol(path)
        found = self.info(path)
        entries = [found]
        if found["type"] == "directory":
            with _as_os_errors(path):
                listed = mlist(";".join(f"{host}/{path or '.'}" for host in self.hosts), self.session)
            entries = [
                {
                    "name": f"{path}/{entry.name}" if path else entry.name,
                    "size": entry.size,
                    "type": "directory" if entry.folder else "file",
                }
                for entry in listed
            ]
        return entries if detail else [entry["name"] for entry in entries]

    def exists(self, path: str, **options: object) -> bool:
        """Whether there is a file or folder; a listener that does not answer is an error, not an answer."""
        try:
            self.info(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def modified(self, path: str) -> datetime:
        """When the file was last changed."""
        return datetime.fromtimestamp(self.info(path)["mtime"], tz=UTC)

    def rm_file(self, path: str) -> None:
        """Delete a file. Folders stay: they are nothing but part of names."""
        path = self._strip_protocol(path)
        if self.info(path)["type"] == "file":
            with _as_os_errors(path):
                remove_subfiles(self.session, parse_file_name(self._name(path)))

    def mv(
        self, path1: str, path2: str, recursive: bool = False, maxdepth: int | None = None, **options: object
    ) -> None:
        """Move a file (by its name alone), or a folder with all that is in it."""
        old, new = self._strip_protocol(path1), self._strip_protocol(path2)
        pairs = [(old, new)]
        if self.info(old)["type"] == "directory":
            if not recursive:
                raise IsADirectoryError(f"{old} is a folder: give recursive=True")
            pairs = [(name, f"{new}/{name[len(old) :].lstrip('/')}") for name in self.find(old, maxdepth=maxdepth)]
        for source, target in pairs:
            with _as_os_errors(source):
                rename_file(self.session, self._name(source), self._name(target), replace=True)

    def cp_file(self, path1: str, path2: str, **options: object) -> None:
        """Copy a file."""
        if self.isdir(path1):
            return
        with self.open(path1, "rb", block_size=COPY_BYTES) as source, self.open(path2, "wb") as target:
            while part := source.read(COPY_BYTES):
                target.write(part)

    def _name(self, path: str) -> str:
        return ";".join(f"{host}/{self._strip_protocol(path)}" for host in self.hosts)

    def _place(self, host: str, path: str) -> SubfileName:
        return parse_file_name(f"{host}/{path}")[0] if path else SubfileName(host=host, path="")


def _different_hosts(session: Session) -> tuple[str, ...]:
    """The hosts of a session, one name for each root: a listener may be known by two."""
    found: dict[tuple[bytes, int, int], str] = {}
    for host in session.connections.hosts:
        root = stat_subfile(session, SubfileName(host=host, path=""))
        found.setdefault((session.link(host).machine, root.device, root.inode), host)
    return tuple(found.values())


@contextmanager
def _as_os_errors(path: str) -> Iterator[None]:
    """Raise what a call on an I/O node failed with as Python's own files raise it."""
    try:
        yield
    except RemoteFailure as failure:
        raise OSError(failure.errno, str(failure), path) from failure
