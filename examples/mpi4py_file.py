"""MPI.File of mpi4py on striped files: what a program does with `MPI.File`, it does with `File` of this module.

SFIO_LISTENERS names the I/O nodes, SFIO_UNIT the stripe unit; every file is striped over all nodes, below its own path:

    from mpi4py import MPI
    from mpi4py_file import File

    file = File.Open(MPI.COMM_WORLD, "results/a", MPI.MODE_RDWR | MPI.MODE_CREATE)
"""

# ruff: noqa: N802 - the names are MPI's

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


def name_of(path):
    return ";".join(f"{host}/{os.fsdecode(path).strip('/')}" for host in listeners)


def memory_of(spec, writing):
    """The buffer of an mpi4py specification and what of it is meant: datatype, count, first byte."""
    buffer, *rest = spec if isinstance(spec, (list, tuple)) else (spec,)
    octets = memoryview(MPI.buffer.frombuffer(buffer, readonly=writing))
    if not rest or rest[-1] is None:
        return octets, None, 1, 0
    mpi_type = MPI.Datatype.fromcode(rest[-1]) if isinstance(rest[-1], str) else rest[-1]
    extent = mpi_type.Get_extent()[1]
    count, place = (
        (rest[0] if isinstance(rest[0], (list, tuple)) else (rest[0], 0))
        if len(rest) > 1
        else (None, 0)
    )
    return (
        octets,
        datatype_by_decoding(mpi_type),
        len(octets) // extent if count is None else count,
        place * extent,
    )


class Request:
    def __init__(self, request):
        self._request = request

    def Wait(self, status=None):
        told(self._request.wait(), status)
        return True

    def Test(self, status=None):
        return self._request.test() and self.Wait(status)


def told(moved, status=None):
    if status is not None and moved is not None:
        status.Set_elements(MPI.BYTE, moved)


class File:
    def __init__(self, comm, filename, amode=MPI.MODE_RDONLY, info=MPI.INFO_NULL):
        self._comm, self._group = comm, MpiGroup(comm)
        bits = sum(bit for bit in Amode if amode & getattr(MPI, f"MODE_{bit.name}"))
        self.amode, self._view = amode, (0, MPI.BYTE, MPI.BYTE, "native")
        self.file = MpiFile.open(
            name_of(filename), UNIT, mode=bits, session=session, group=self._group
        )

    Open = classmethod(lambda cls, *arguments: cls(*arguments))

    @staticmethod
    def Delete(filename, info=MPI.INFO_NULL):
        MpiFile.delete(name_of(filename), session=session)

    def Close(self):
        self.file.close()
        self._group.close()
        self.file = None

    def __bool__(self):
        return self.file is not None

    def __reduce__(self):
        raise ValueError("an open file is not pickled")

    def Set_view(self, disp=0, etype=MPI.BYTE, filetype=None, datarep="native", info=MPI.INFO_NULL):
        self._view = (disp, etype, filetype or etype, datarep)
        types = [datatype_by_decoding(each) for each in self._view[1:3]]
        self.file.set_view(
            None if disp == MPI.DISPLACEMENT_CURRENT else disp, *types, representation=datarep
        )

    def Get_view(self):
        return self._view

    def Get_group(self):
        return self._comm.Get_group()

    def Get_errhandler(self):
        return MPI.ERRORS_RETURN

    def Get_info(self):
        return MPI.Info.Create(self.file.hints)

    def Set_info(self, info):
        self.file.set_hints(dict(info) if info else {})

    def Get_type_extent(self, datatype):
        return self.file.type_extent(datatype_by_decoding(datatype))

    def Seek(self, offset, whence=MPI.SEEK_SET):
        self.file.seek(offset, WHENCE[whence])

    def Seek_shared(self, offset, whence=MPI.SEEK_SET):
        self.file.seek_shared(offset, WHENCE[whence])


def same(name):
    """A method that only has another name."""

    def method(self, *arguments):
        return getattr(self.file, name)(*arguments)

    return method


def access(name):
    """The method of MPI.File for a routine of MpiFile: its offset, where it takes one, its buffer, its status."""

    def method(self, *arguments):
        split = name.endswith("_end")
        place = 1 if "_at" in name and not split else 0
        memory = memory_of(arguments[place], "write" in name)
        moved = getattr(self.file, name)(*arguments[:place], *(memory[:1] if split else memory))
        if name.startswith("i"):
            return Request(moved)
        return told(moved, *arguments[place + 1 :])

    return method


for name in ("position", "position_shared", "atomicity"):
    setattr(File, f"Get_{name}", lambda self, name=name: getattr(self.file, name))
for name in ("set_size", "preallocate", "sync", "set_atomicity"):
    setattr(File, name.capitalize(), same(name))
File.Get_size, File.Get_byte_offset, File.Get_amode = (
    same("size"),
    same("byte_offset"),
    lambda self: self.amode,
)
for name in ("size", "group", "info", "atomicity"):
    setattr(File, name, property(getattr(File, f"Get_{name}"), getattr(File, f"Set_{name}", None)))
for name in ("rank", "size"):
    setattr(File, f"group_{name}", property(lambda self, name=name: getattr(self.file.group, name)))
for name in dir(MpiFile):
    if name.lstrip("i").startswith(("read", "write")):
        setattr(File, name.capitalize(), access(name))
