"""MPI-I/O on striped files: each process sees the file through its view and its memory through a layout, both
datatypes; independent, collective, non-blocking and split calls, individual and shared pointers (`data_access`), and
what a file is: its modes, its size, its view."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Literal

from sfio_emu.client.catalogue import remove_subfiles
from sfio_emu.client.current_session import current_session
from sfio_emu.client.session import Session
from sfio_emu.errors import UsageError, whole_number
from sfio_emu.names import parse_file_name
from sfio_emu.ports import ProcessGroup
from sfio_emu.striped_file import StripedFile
from sfio_emu.views.access_modes import Amode, Short, file_mode, opening_of, parse_amode
from sfio_emu.views.data_access import AccessLock, DataAccess, SharedPointer, etypes, numbers_of_all
from sfio_emu.views.data_representation import check_representation
from sfio_emu.views.datatypes import BYTE, Datatype, require_datatype
from sfio_emu.views.file_views import View

Whence = Literal["set", "current", "end"]
PREALLOCATED_AT_ONCE = 1 << 20


class MpiFile(DataAccess, AbstractContextManager["MpiFile"]):
    """A file opened by every process of a group, each with a view of its own (MPI 4.0, chapter 14).

    Calls named `_all`, and set_view, set_size, sync and close, are collective: every process makes them, in the same
    order, and they end alike everywhere: with success, or with an error in each process. What `write_all` or
    `write_at_all` wrote is seen by every read of any process that begins after it returned. Where processes write the
    same bytes in one collective call (or in calls at the same time), each such byte is one of those written; which one
    is not said, unless in the atomic mode, where an access is whole.

    `file`: the striped file that it stands on; `amode`: how it was opened; `view`: what this process sees of it, bytes
    from the beginning until `set_view`; `representation`: how numbers stand in it, as given to `set_view`.
    """

    def __init__(self, file: StripedFile, *, mode: Short | int = "rw") -> None:
        """Use `open`."""
        self.file, self._session = file, file.session
        self.amode = parse_amode(mode)
        self._opening = opening_of(self.amode)
        self.view = View(writable=self._opening.writes)
        self._shared = SharedPointer(self.group)
        self._closed = self._own_session = False
        self._own_lock: AccessLock | None = None

    @classmethod
    def open(
        cls,
        name: str,
        stripe_unit: int,
        *,
        mode: Short | int = "rw",
        session: Session | None = None,
        group: ProcessGroup | None = None,
        hints: Mapping[str, str] | None = None,
    ) -> "MpiFile":
        """Open a striped file (`"host/path;host/path;"`) in every process of the session's group, or of `group`.
        Collective.

        `mode`: bits of `Amode`, or in short as `access_modes.SHORT_MODES` has them; with APPEND all pointers begin at
        the end, with DELETE_ON_CLOSE closing deletes the file, UNIQUE_OPEN is a promise that nothing is made of.
        `hints`: as of `set_hints`. Raises as StripedFile.open does.
        """
        session = own = session or current_session()
        if group is not None:
            own = Session(session.connections, group, session.turns, session.settings)
        with own.agreed("open (the mode)", []):
            amode = parse_amode(mode)
            _check_hints({} if hints is None else hints)
        opened = cls(
            StripedFile.open(name, stripe_unit, mode=file_mode(amode), session=own), mode=amode
        )
        opened._own_session = own is not session
        if amode & Amode.APPEND:
            opened._position = opened._sought(0, "end", 0)
            opened.seek_shared(0, "end")
        return opened

    @staticmethod
    def delete(name: str, *, session: Session | None = None) -> None:
        """Delete a striped file (MPI_File_delete, which one process calls)."""
        remove_subfiles(session or current_session(), parse_file_name(name))

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if error is None:
            self.close()
            return
        self._closed = True  # the others may never come to a collective close: leave without them
        self.file.__exit__(kind, error, trace)
        if self._own_session:
            self._session.close()

    @property
    def group(self) -> ProcessGroup:
        """The processes that opened it."""
        return self._session.group

    @property
    def hints(self) -> dict[str, str]:
        """The hints in use, by MPI's reserved names: how a striped file lies."""
        layout = self.file.layout
        return {"striping_unit": str(layout.stripe_unit), "striping_factor": str(layout.subfiles)}

    def set_hints(self, hints: Mapping[str, str]) -> None:
        """Take hints (MPI_File_set_info). Collective. They are advice, and none is taken: how a file is striped is said
        when it is opened (MPI 4.0, section 14.2.8)."""
        with self.handling(), self.together("set_hints"):
            _check_hints(hints)

    @property
    def position(self) -> int:
        """The individual pointer, in etypes of the view."""
        self.require_positions("position")
        return self._position

    @property
    def position_shared(self) -> int:
        """The pointer that all processes share, in etypes of the view."""
        return self._shared.position

    def set_view(
        self,
        displacement: int | None = 0,
        etype: Datatype = BYTE,
        filetype: Datatype | None = None,
        *,
        representation: str = "native",
    ) -> None:
        """See the file from `displacement` on through `filetype` (by default the etype itself); the pointers go to 0.

        A `displacement` of None is the place of the shared pointer, for sequential files (MPI_DISPLACEMENT_CURRENT).
        `representation`: native, internal or external32. Collective; views may differ, the extent of the etype may not.
        Raises UsageError as View does.
        """
        extent_bytes = etype.extent_bytes if isinstance(etype, Datatype) else 0
        with self.handling():
            with self.together("set_view", f"an etype of {extent_bytes} bytes"):
                check_representation(representation)
                if (displacement is None) != bool(self.amode & Amode.SEQUENTIAL):
                    text = f"a displacement of {displacement!r}: give None for a sequential file, and only there"
                    raise UsageError(text)
                view = View(
                    displacement=self._byte_of(self._shared.position)
                    if displacement is None
                    else displacement,
                    etype=etype,
                    filetype=etype if filetype is None else filetype,
                    writable=self._opening.writes,
                )
            self._shared.move(0)
        self.view, self.representation, self._position = view, representation, 0

    def type_extent(self, datatype: Datatype) -> int:
        """How far apart elements of `datatype` are in the file (bytes), which is as in memory."""
        require_datatype(datatype, "datatype")
        return datatype.extent_bytes

    @property
    def atomicity(self) -> bool:
        """Whether an access of a process of the group is seen whole or not at all by the others."""
        return self._lock is not None

    def set_atomicity(self, atomic: bool) -> None:
        """Turn the atomic mode on or off, in every process alike. Collective.

        In it an access that writes waits until nobody else of the group reads or writes the file, one that reads until
        nobody writes; what is begun is carried out at once.
        """
        with self.handling(), self.together("set_atomicity", bool(atomic)):
            pass
        if atomic:
            self._own_lock = self._own_lock or AccessLock(self.group)
        self._lock = self._own_lock if atomic else None

    def seek(self, offset: int, whence: Whence = "set") -> int:
        """Move the individual pointer by etypes from the beginning, from itself or from the end; returns it.

        The end is the first whole etype of the view at or behind the end of the file. Raises UsageError before the
        beginning.
        """
        with self.handling():
            self.require_positions("seek")
            self._position = self._sought(offset, whence, self._position)
        return self._position

    def seek_shared(self, offset: int, whence: Whence = "set") -> int:
        """Move the shared pointer as `seek` moves the individual one; the same in every process. Collective."""
        with self.handling():
            self.require_positions("seek_shared")
            found = 0
            with self.together("seek_shared", offset, whence):
                if self.group.rank == 0:
                    found = self._sought(offset, whence, self._shared.position)
            found = numbers_of_all(self.group, found)[0]
            self._shared.move(found)
        return found

    def _sought(self, offset: int, whence: Whence, current: int) -> int:
        if whence == "set":
            base = 0
        elif whence == "current":
            base = current
        elif whence == "end":
            base = -(-self.view.bytes_before(self.size()) // self.view.etype.size_bytes)
        else:
            raise UsageError(f"seek from {whence!r}: give 'set', 'current' or 'end'")
        position = base + whole_number(offset, "offset to seek (etypes)", -(2**62))
        if position < 0:
            raise UsageError(f"seek to etype {position}: the view begins at 0")
        return position

    def byte_offset(self, offset: int) -> int:
        """The byte of the file where etype `offset` of the view begins."""
        with self.handling():
            self.require_positions("byte_offset")
            return self._byte_of(etypes(offset))

    def _byte_of(self, offset: int) -> int:
        return self.view.file_offset(offset * self.view.etype.size_bytes)

    def size(self) -> int:
        """Bytes of the file, whatever the view."""
        with self.handling():
            self.require_open()
            return self.file.size()

    def set_size(self, size_bytes: int) -> None:
        """Cut or extend the file (by zeros) to `size_bytes`, the same in every process. Collective."""
        with self.handling():
            self._agreed_size("set_size", size_bytes)
            self.file.truncate(size_bytes)

    def preallocate(self, size_bytes: int) -> None:
        """Have the I/O nodes keep room for the first `size_bytes`, the same in every process. Collective.

        What is there stays, and is written again where it may be a hole; a shorter file grows, by zeros.
        """
        with self.handling():
            size = self._agreed_size("preallocate", size_bytes)
            with self.together("preallocate (the room)"):
                if self.group.rank == 0:
                    self._fill(size)

    def _fill(self, size: int) -> None:
        for start in range(0, size, PREALLOCATED_AT_ONCE):
            memory = bytearray(min(PREALLOCATED_AT_ONCE, size - start))
            self.file.pread(memory, start)
            self.file.pwrite(memory, start)

    def _agreed_size(self, what: str, size_bytes: int) -> int:
        with self.together(what, size_bytes):
            self._opening.require(writing=True)
            return whole_number(size_bytes, "size of the file (bytes)")

    def sync(self, *, durable: bool = True) -> None:
        """Return when every process has come: what they wrote before is on the medium of every I/O node (MPI 4.0,
        section 14.6.1), and seen by all afterwards. Collective.

        Not `durable`: it is only seen by all.
        """
        with self.handling():
            with self.together("sync"):
                pass
            if durable:
                self.file.sync(durable=True)

    def close(self) -> None:
        """Close in every process, and delete what was opened with DELETE_ON_CLOSE. Collective; once closed, nothing
        happens."""
        if self._closed:
            return
        with self.handling():
            self.require_no_split()
            self._closed = True
            self.file.close()
            if self.amode & Amode.DELETE_ON_CLOSE:
                with self._session.agreed("close (the deletion)", ()):
                    if self.group.rank == 0:
                        remove_subfiles(self._session, self.file.subfiles)
            if self._own_session:
                self._session.close()

    def require_open(self) -> None:
        """Raises `UsageError` once it is closed."""
        if self._closed:
            raise UsageError("the file is closed: open it again")


def _check_hints(hints: object) -> None:
    if not isinstance(hints, Mapping):
        raise UsageError(
            f"the hints are {hints!r}: give names and texts, as in {{'access_style': 'random'}}"
        )
