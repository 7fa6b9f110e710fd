"""MPI-I/O on striped files (MPI 4.0, chapter 14).

Each process sees the file through its view, and its memory through a layout; both are datatypes.
`data_access` has the routines that read and write. This module has what concerns the file itself:
opening and closing, its modes, its size, its view.
"""

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
from sfio_emu.views.data_access import DataAccess, etypes
from sfio_emu.views.data_representation import check_representation
from sfio_emu.views.datatypes import BYTE, Datatype, require_datatype
from sfio_emu.views.file_views import View
from sfio_emu.views.shared_counters import AccessLock, SharedPointer, numbers_of_all

Whence = Literal["set", "current", "end"]

# `preallocate` reads and writes this many bytes at once.
PREALLOCATED_AT_ONCE = 1 << 20


class MpiFile(DataAccess, AbstractContextManager["MpiFile"]):
    """A file opened by all processes of a group, each with a view of its own.

    Calls named `..._all`, and set_view, set_size, sync and close, are collective. All processes
    make them in the same order. They succeed in all processes, or raise an error in each of them.

    What `write_all` or `write_at_all` wrote is visible to every read of any process that begins
    after the call returned. If processes write the same byte in one collective call, or in calls at
    the same time, the result is the byte of one of them; which one is not defined. In the atomic
    mode, an access is either completely before or completely after another one.

    Attributes:
        file: The striped file.
        amode: The bits of the mode in which it was opened.
        view: What this process sees of the file; bytes from the beginning until `set_view`.
        representation: The representation of numbers, as given to `set_view`.
    """

    def __init__(self, file: StripedFile, *, mode: Short | int = "rw") -> None:
        """Create the object for an open striped file; call `open` instead."""
        self.file = file
        self._session = file.session
        self.amode = parse_amode(mode)
        self._opening = opening_of(self.amode)
        self.view = View(writable=self._opening.writes)
        self._shared = SharedPointer(self.group)
        self._closed = False
        self._own_session = False
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
        """Open a striped file in all processes of a group. Collective.

        Args:
            name: The name of the file, "host/path;host/path;".
            stripe_unit: The stripe unit in bytes.
            mode: Bits of `Amode`, or a name of `access_modes.SHORT_MODES`. With APPEND, all
                pointers begin at the end of the file. With DELETE_ON_CLOSE, closing deletes the
                file. UNIQUE_OPEN has no effect.
            session: The session; by default that of the process.
            group: The processes; by default those of the session.
            hints: As in `set_hints`.

        Raises:
            SfioError: As in `StripedFile.open`.
        """
        session = session or current_session()
        file_session = session
        if group is not None:
            file_session = Session(session.connections, group, session.turns, session.settings)
        with file_session.agreed("open (the mode)", []):
            amode = parse_amode(mode)
            _check_hints({} if hints is None else hints)
        file = StripedFile.open(name, stripe_unit, mode=file_mode(amode), session=file_session)
        opened = cls(file, mode=amode)
        opened._own_session = file_session is not session
        if amode & Amode.APPEND:
            opened._position = opened._target_of_seek(0, "end", 0)
            opened.seek_shared(0, "end")
        return opened

    @staticmethod
    def delete(name: str, *, session: Session | None = None) -> None:
        """Delete a striped file (MPI_File_delete). One process calls this."""
        remove_subfiles(session or current_session(), parse_file_name(name))

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if error is None:
            self.close()
            return
        # After an error, the other processes may never call `close`. Close without them.
        self._closed = True
        self.file.__exit__(kind, error, trace)
        if self._own_session:
            self._session.close()

    @property
    def group(self) -> ProcessGroup:
        """The processes that opened the file."""
        return self._session.group

    @property
    def hints(self) -> dict[str, str]:
        """The layout of the file, by MPI's reserved names of hints."""
        layout = self.file.layout
        return {"striping_unit": str(layout.stripe_unit), "striping_factor": str(layout.subfiles)}

    def set_hints(self, hints: Mapping[str, str]) -> None:
        """Check hints (MPI_File_set_info). Collective.

        MPI allows an implementation to ignore hints (MPI 4.0, section 14.2.8), and none has an
        effect here. The layout of a file is determined when it is opened.
        """
        with self.handling(), self.together("set_hints"):
            _check_hints(hints)

    @property
    def position(self) -> int:
        """The individual pointer in etypes of the view."""
        self.require_positions("position")
        return self._position

    @property
    def position_shared(self) -> int:
        """The shared pointer in etypes of the view."""
        return self._shared.position

    def set_view(
        self,
        displacement: int | None = 0,
        etype: Datatype = BYTE,
        filetype: Datatype | None = None,
        *,
        representation: str = "native",
    ) -> None:
        """Set the view, and set the pointers to 0. Collective.

        The views of the processes may differ, but not the extents of their etypes.

        Args:
            displacement: The offset in the file at which the view begins, in bytes. For a
                sequential file it must be None, which means the position of the shared pointer
                (MPI_DISPLACEMENT_CURRENT).
            etype: The unit of positions and sizes.
            filetype: The datatype that is repeated over the file; by default the etype.
            representation: "native", "internal" or "external32".

        Raises:
            UsageError: As in `View`.
        """
        extent_bytes = etype.extent_bytes if isinstance(etype, Datatype) else 0
        with self.handling():
            with self.together("set_view", f"an etype of {extent_bytes} bytes"):
                check_representation(representation)
                if (displacement is None) != bool(self.amode & Amode.SEQUENTIAL):
                    raise UsageError(
                        f"a displacement of {displacement!r}: "
                        "give None for a sequential file, and only there"
                    )
                if displacement is None:
                    displacement = self._byte_of(self._shared.position)
                view = View(
                    displacement=displacement,
                    etype=etype,
                    filetype=etype if filetype is None else filetype,
                    writable=self._opening.writes,
                )
            self._shared.move(0)
        self.view = view
        self.representation = representation
        self._position = 0

    def type_extent(self, datatype: Datatype) -> int:
        """Return the extent of a datatype in the file in bytes.

        It is the same as in memory, in every representation.
        """
        require_datatype(datatype, "datatype")
        return datatype.extent_bytes

    @property
    def atomicity(self) -> bool:
        """True in the atomic mode, in which no process sees a part of another's access."""
        return self._lock is not None

    def set_atomicity(self, atomic: bool) -> None:
        """Turn the atomic mode on or off. Collective.

        In this mode, an access that writes waits until no other process of the group reads or
        writes the file, and one that reads waits until none writes. Non-blocking accesses are
        carried out at once.
        """
        with self.handling(), self.together("set_atomicity", bool(atomic)):
            pass
        if atomic:
            self._own_lock = self._own_lock or AccessLock(self.group)
        self._lock = self._own_lock if atomic else None

    def seek(self, offset: int, whence: Whence = "set") -> int:
        """Move the individual pointer.

        Args:
            offset: The offset in etypes of the view.
            whence: What the offset is relative to: the beginning ("set"), the pointer ("current"),
                or the end of the file ("end"), which is the first complete etype of the view at or
                behind the last byte.

        Returns:
            The new position in etypes.

        Raises:
            UsageError: The position is negative.
        """
        with self.handling():
            self.require_positions("seek")
            self._position = self._target_of_seek(offset, whence, self._position)
        return self._position

    def seek_shared(self, offset: int, whence: Whence = "set") -> int:
        """Move the shared pointer, with the same arguments as `seek` in all processes. Collective.

        Args:
            offset: As in `seek`.
            whence: As in `seek`.

        Returns:
            The new position in etypes.
        """
        with self.handling():
            self.require_positions("seek_shared")
            position = 0
            with self.together("seek_shared", offset, whence):
                if self.group.rank == 0:
                    position = self._target_of_seek(offset, whence, self._shared.position)
            position = numbers_of_all(self.group, position)[0]
            self._shared.move(position)
        return position

    def _target_of_seek(self, offset: int, whence: Whence, current: int) -> int:
        """Return the position in etypes to which a pointer at `current` is moved."""
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
        """Return the offset in the file, in bytes, of an etype of the view."""
        with self.handling():
            self.require_positions("byte_offset")
            return self._byte_of(etypes(offset))

    def _byte_of(self, offset: int) -> int:
        return self.view.file_offset(offset * self.view.etype.size_bytes)

    def size(self) -> int:
        """Return the size of the file in bytes, whatever the view."""
        with self.handling():
            self.require_open()
            return self.file.size()

    def set_size(self, size_bytes: int) -> None:
        """Change the size of the file. Collective.

        Args:
            size_bytes: The new size, the same in all processes. A longer file is filled with zeros.
        """
        with self.handling():
            self._agreed_size("set_size", size_bytes)
            self.file.truncate(size_bytes)

    def preallocate(self, size_bytes: int) -> None:
        """Allocate disk space for the first bytes of the file. Collective.

        Existing bytes are read and written again, so that they have disk space even if they were
        in a hole. A shorter file is extended with zeros.

        Args:
            size_bytes: The number of bytes, the same in all processes.
        """
        with self.handling():
            size = self._agreed_size("preallocate", size_bytes)
            with self.together("preallocate (the room)"):
                if self.group.rank == 0:
                    self._rewrite(size)

    def _rewrite(self, size: int) -> None:
        """Read and write again the first `size` bytes of the file."""
        for start in range(0, size, PREALLOCATED_AT_ONCE):
            memory = bytearray(min(PREALLOCATED_AT_ONCE, size - start))
            self.file.pread(memory, start)
            self.file.pwrite(memory, start)

    def _agreed_size(self, name: str, size_bytes: int) -> int:
        """Return a size in bytes, after checking that all processes gave the same.

        Args:
            name: The name of the collective call, for errors.
            size_bytes: The size that this process gave.
        """
        with self.together(name, size_bytes):
            self._opening.require(writing=True)
            return whole_number(size_bytes, "size of the file (bytes)")

    def sync(self, *, durable: bool = True) -> None:
        """Wait for all processes; they then see what each of them wrote before. Collective.

        Args:
            durable: Also write the data to the disks of all I/O nodes (MPI 4.0, section 14.6.1).
        """
        with self.handling():
            with self.together("sync"):
                pass
            if durable:
                self.file.sync(durable=True)

    def close(self) -> None:
        """Close the file, and delete it if it was opened with DELETE_ON_CLOSE. Collective.

        Closing it again does nothing.
        """
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
        """Raise UsageError if the file is closed."""
        if self._closed:
            raise UsageError("the file is closed: open it again")


def _check_hints(hints: object) -> None:
    if not isinstance(hints, Mapping):
        raise UsageError(
            f"the hints are {hints!r}: give names and texts, as in {{'access_style': 'random'}}"
        )
