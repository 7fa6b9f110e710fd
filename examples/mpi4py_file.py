"""``MPI.File`` of mpi4py on striped files.

A program uses ``File`` of this module instead of ``MPI.File``. SFIO_LISTENERS names the I/O nodes,
and SFIO_UNIT the stripe unit. Every file is striped over all I/O nodes, under its own path:

    from mpi4py import MPI
    from mpi4py_file import File

    file = File.Open(MPI.COMM_WORLD, "results/a", MPI.MODE_RDWR | MPI.MODE_CREATE)
"""

# ruff: noqa: N802 - the names are those of MPI

import os

from mpi4py import MPI

from sfio_emu import Session
from sfio_emu.adapters.environment import parse_listeners
from sfio_emu.adapters.mpi_datatypes import datatype_by_decoding
from sfio_emu.adapters.mpi_group import MpiGroup
from sfio_emu.adapters.sockets import TcpConnections
from sfio_emu.views.access_modes import Amode
from sfio_emu.views.mpi_file import MpiFile

UNIT = int(os.environ.get("SFIO_UNIT", "65536"))
WHENCE = {MPI.SEEK_SET: "set", MPI.SEEK_CUR: "current", MPI.SEEK_END: "end"}
listeners = parse_listeners(os.environ.get("SFIO_LISTENERS", ""))
session = Session(TcpConnections(listeners))


def striped_name(path):
    """Return the name of a striped file: its path on each I/O node."""
    path = os.fsdecode(path).strip("/")
    return ";".join(f"{host}/{path}" for host in listeners)


def memory_of(spec, writing):
    """Return the memory of an mpi4py buffer specification.

    Args:
        spec: A buffer, [buffer, datatype], [buffer, count, datatype] or [buffer, (count,
            displacement), datatype].
        writing: Whether the buffer is written to a file, so that it may be read-only.

    Returns:
        The bytes of the buffer, the datatype or None, the number of items, and the first byte.
    """
    buffer, *details = spec if isinstance(spec, (list, tuple)) else (spec,)
    memory = memoryview(MPI.buffer.frombuffer(buffer, readonly=writing))
    if not details or details[-1] is None:
        return memory, None, 1, 0
    mpi_type = details[-1]
    if isinstance(mpi_type, str):
        mpi_type = MPI.Datatype.fromcode(mpi_type)
    _, extent = mpi_type.Get_extent()
    count = None
    displacement = 0
    if len(details) > 1:
        count = details[0]
        if isinstance(count, (list, tuple)):
            count, displacement = count
    if count is None:
        count = len(memory) // extent
    return memory, datatype_by_decoding(mpi_type), count, displacement * extent


def set_status(status, size):
    """Set the number of moved bytes in an MPI status, if there are both."""
    if status is not None and size is not None:
        status.Set_elements(MPI.BYTE, size)


class Request:
    """A nonblocking access, as ``MPI.Request``."""

    def __init__(self, request):
        self._request = request

    def Wait(self, status=None):
        """Wait until the access is complete."""
        set_status(status, self._request.wait())
        return True

    def Test(self, status=None):
        """Return whether the access is complete."""
        return self._request.test() and self.Wait(status)


class File:
    """A striped file with the methods of ``MPI.File``.

    Most methods only have another name in ``MpiFile``. They are added below.
    """

    def __init__(self, comm, filename, amode=MPI.MODE_RDONLY, info=MPI.INFO_NULL):
        self._comm = comm
        self._group = MpiGroup(comm)
        self._view = (0, MPI.BYTE, MPI.BYTE, "native")
        self.amode = amode
        mode = sum(bit for bit in Amode if amode & getattr(MPI, f"MODE_{bit.name}"))
        name = striped_name(filename)
        self.file = MpiFile.open(name, UNIT, mode=mode, session=session, group=self._group)

    @classmethod
    def Open(cls, *arguments):
        """Open a file."""
        return cls(*arguments)

    @staticmethod
    def Delete(filename, info=MPI.INFO_NULL):
        """Delete a file."""
        MpiFile.delete(striped_name(filename), session=session)

    def Close(self):
        """Close the file."""
        self.file.close()
        self._group.close()
        self.file = None

    def __bool__(self):
        return self.file is not None

    def __reduce__(self):
        raise ValueError("an open file is not pickled")

    def Set_view(self, disp=0, etype=MPI.BYTE, filetype=None, datarep="native", info=MPI.INFO_NULL):
        """Set the view of this process."""
        filetype = filetype or etype
        self._view = (disp, etype, filetype, datarep)
        self.file.set_view(
            None if disp == MPI.DISPLACEMENT_CURRENT else disp,
            datatype_by_decoding(etype),
            datatype_by_decoding(filetype),
            representation=datarep,
        )

    def Get_view(self):
        """Return the view of this process."""
        return self._view

    def Get_amode(self):
        """Return the access mode."""
        return self.amode

    @property
    def group_rank(self):
        """Rank of this process in the group that opened the file."""
        return self.file.group.rank

    @property
    def group_size(self):
        """Number of processes that opened the file."""
        return self.file.group.size

    def Get_group(self):
        """Return the group of processes that opened the file."""
        return self._comm.Get_group()

    def Get_errhandler(self):
        """Return the error handler."""
        return MPI.ERRORS_RETURN

    def Get_info(self):
        """Return the hints."""
        return MPI.Info.Create(self.file.hints)

    def Set_info(self, info):
        """Set the hints."""
        self.file.set_hints(dict(info) if info else {})

    def Get_type_extent(self, datatype):
        """Return the extent of a datatype in the file."""
        return self.file.type_extent(datatype_by_decoding(datatype))

    def Seek(self, offset, whence=MPI.SEEK_SET):
        """Move the pointer of this process."""
        self.file.seek(offset, WHENCE[whence])

    def Seek_shared(self, offset, whence=MPI.SEEK_SET):
        """Move the shared pointer."""
        self.file.seek_shared(offset, WHENCE[whence])


def renamed(name):
    """Return the method of ``File`` that only calls a method of ``MpiFile``."""

    def method(self, *arguments):
        return getattr(self.file, name)(*arguments)

    return method


def getter(name):
    """Return the method of ``File`` that returns a property of ``MpiFile``."""

    def method(self):
        return getattr(self.file, name)

    return method


def access(name):
    """Return the method of ``File`` for an access, from the name of the routine of ``MpiFile``.

    Its arguments are the offset, if the routine has one, the buffer, and the status.
    """
    is_end = name.endswith("_end")
    offset_count = 1 if "_at" in name and not is_end else 0
    writing = "write" in name

    def method(self, *arguments):
        offsets = arguments[:offset_count]
        memory = memory_of(arguments[offset_count], writing)
        if is_end:
            # The end of a split access takes only the buffer.
            memory = memory[:1]
        result = getattr(self.file, name)(*offsets, *memory)
        if name.startswith("i"):
            return Request(result)
        status = arguments[offset_count + 1] if len(arguments) > offset_count + 1 else None
        set_status(status, result)
        return None

    return method


for name in ("position", "position_shared", "atomicity"):
    setattr(File, f"Get_{name}", getter(name))
for name in ("set_size", "preallocate", "sync", "set_atomicity"):
    setattr(File, name.capitalize(), renamed(name))
File.Get_size = renamed("size")
File.Get_byte_offset = renamed("byte_offset")
for name in ("size", "group", "info", "atomicity"):
    setattr(File, name, property(getattr(File, f"Get_{name}"), getattr(File, f"Set_{name}", None)))
for name in dir(MpiFile):
    if name.lstrip("i").startswith(("read", "write")):
        setattr(File, name.capitalize(), access(name))
