"""The layout of an opaque MPI datatype, found without knowing how it was built.

Bytes of known contents go through MPI_Unpack or MPI_Pack, and their positions afterwards are the
layout (Gabrielyan 2007, section 2.9, figure 25). These functions need mpi4py (the extra `mpi`).
They do not read internal structures of MPI.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from sfio_emu.errors import SfioError, UsageError
from sfio_emu.views import datatypes
from sfio_emu.views.datatypes import Datatype, hindexed, joined_runs, resized
from sfio_emu.views.dealt_arrays import darray

if TYPE_CHECKING:
    from mpi4py import MPI

Octets = npt.NDArray[np.uint8]

# The contents of memory before MPI_Unpack, and of the packed bytes.
GRAY = 0
BLACK = 1

_NOTHING = np.zeros(0, dtype=np.int64)


class MpiMissing(SfioError):
    """MPI for Python is missing: install the extra `mpi` (mpi4py and mpich)."""


def _mpi() -> Any:
    """Return the module of mpi4py, or raise MpiMissing."""
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        # mpi4py raises RuntimeError if there is no MPI library.
        raise MpiMissing(f"MPI for Python is missing ({error}): install the extra `mpi`") from error
    return MPI


def datatype_by_unpack(mpi_type: "MPI.Datatype") -> Datatype:
    """Find a layout by one MPI_Unpack of black bytes into gray memory.

    The black bytes are the layout. Their order cannot be seen, so that runs come out sorted by
    offset. The result is wrong for a cross-ordered type; `datatype_by_pack` finds its layout, too.

    Raises:
        UsageError: The type covers a byte twice.
        MpiMissing: mpi4py is missing.
    """
    size, true_lb, true_extent = _measures(mpi_type)
    if not size:
        return _with_bounds(mpi_type, _NOTHING, _NOTHING)
    memory = np.full(true_extent, GRAY, dtype=np.uint8)
    _unpack(mpi_type, np.full(size, BLACK, dtype=np.uint8), memory, true_lb)
    changes = np.flatnonzero(np.diff(memory, prepend=GRAY, append=GRAY))
    starts = changes[::2].astype(np.int64)
    ends = changes[1::2].astype(np.int64)
    covered_bytes = int((ends - starts).sum())
    if covered_bytes != size:
        raise UsageError(
            f"a datatype of {size} bytes covers only {covered_bytes}: "
            "its parts overlap; pack it instead"
        )
    return _with_bounds(mpi_type, starts + true_lb, ends - starts)


def datatype_by_pack(mpi_type: "MPI.Datatype") -> Datatype:
    """Find a layout by packing memory in which every byte contains its own offset.

    The packed bytes are the offsets in type order. The result is exact for every type, also for
    cross-ordered and overlapping ones. An offset of k digits to the base 256 takes k calls of
    MPI_Pack, one per digit.
    """
    size, true_lb, true_extent = _measures(mpi_type)
    if not size:
        return _with_bounds(mpi_type, _NOTHING, _NOTHING)
    packed_offsets = np.zeros(size, dtype=np.int64)
    offsets = np.arange(true_extent, dtype=np.int64)
    digit = 0
    while digit == 0 or (true_extent - 1) >> (8 * digit):
        memory = (offsets >> (8 * digit)).astype(np.uint8)
        packed = _pack(mpi_type, memory, true_lb, size)
        packed_offsets |= packed.astype(np.int64) << (8 * digit)
        digit += 1
    return _with_bounds(mpi_type, packed_offsets + true_lb, np.ones(size, dtype=np.int64))


def datatype_by_decoding(mpi_type: "MPI.Datatype") -> Datatype:
    """Rebuild a type from its constructors (MPI_Type_get_contents).

    This is an oracle for the two functions above. The bounds are queried from MPI at every level,
    because implementations differ in when they pad a struct, and in the effect of `resized` inside
    a struct.

    Raises:
        UsageError: A constructor is not known here.
    """
    base, combiner, arguments = mpi_type.decode()
    lb, extent = mpi_type.Get_extent()
    return resized(_rebuilt(base, combiner, arguments), int(lb), int(extent))


# The function for each constructor, and MPI's names of its arguments. The base type comes last.
_BUILT_BY: dict[str, tuple[Callable[..., Datatype], tuple[str, ...]]] = {
    "CONTIGUOUS": (datatypes.contiguous, ("count",)),
    "VECTOR": (datatypes.vector, ("count", "blocklength", "stride")),
    "HVECTOR": (datatypes.hvector, ("count", "blocklength", "stride")),
    "INDEXED": (datatypes.indexed, ("blocklengths", "displacements")),
    "HINDEXED": (hindexed, ("blocklengths", "displacements")),
    "INDEXED_BLOCK": (datatypes.indexed_block, ("blocklength", "displacements")),
    "SUBARRAY": (datatypes.subarray, ("sizes", "subsizes", "starts")),
}


def _rebuilt(base: "MPI.Datatype", combiner: str, arguments: dict[str, Any]) -> Datatype:
    """Rebuild a type from its last constructor.

    Args:
        base: The base type of the constructor.
        combiner: The name of the constructor.
        arguments: Its arguments by name.
    """
    if combiner in ("NAMED", "F90_INTEGER", "F90_REAL", "F90_COMPLEX"):
        return _elementary(base)
    if combiner == "STRUCT":
        parts = [datatype_by_decoding(part) for part in arguments["datatypes"]]
        return datatypes.struct(arguments["blocklengths"], arguments["displacements"], parts)
    inner = datatype_by_decoding(base)
    options: dict[str, Any] = {}
    if "order" in arguments:
        options["order"] = "F" if arguments["order"] == _mpi().ORDER_F else "C"
    if combiner in _BUILT_BY:
        build, names = _BUILT_BY[combiner]
        values = [arguments[name] for name in names]
        return build(*values, inner, **options)
    if combiner == "DUP":
        return inner
    if combiner == "HINDEXED_BLOCK":
        displacements = arguments["displacements"]
        block_lengths = [arguments["blocklength"]] * len(displacements)
        return hindexed(block_lengths, displacements, inner)
    if combiner == "RESIZED":
        return resized(inner, arguments["lb"], arguments["extent"])
    if combiner == "DARRAY":
        axes = cast(Any, _axes(arguments))
        return darray(arguments["size"], arguments["rank"], axes, inner, **options)
    raise UsageError(
        f"datatype built by {combiner}, which is not decoded: pack it instead (datatype_by_pack)"
    )


def _elementary(mpi_type: "MPI.Datatype") -> Datatype:
    """Return an elementary type of MPI. A complex number consists of two numbers."""
    size = mpi_type.Get_size()
    name = mpi_type.Get_name()
    number_bytes = size // 2 if "COMPLEX" in name else size
    elementary = datatypes.elementary(size, name, _alignment(mpi_type))
    return replace(elementary, items=((number_bytes, 1),))


def _axes(arguments: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Return the arguments of MPI_Type_create_darray as the axes of `darray`."""
    mpi = _mpi()
    name_of_distribution = {
        mpi.DISTRIBUTE_NONE: "none",
        mpi.DISTRIBUTE_BLOCK: "block",
        mpi.DISTRIBUTE_CYCLIC: "cyclic",
    }
    distributions = [name_of_distribution.get(value) for value in arguments["distribs"]]
    blocks = [None if block == mpi.DISTRIBUTE_DFLT_DARG else block for block in arguments["dargs"]]
    return list(zip(arguments["gsizes"], distributions, blocks, arguments["psizes"], strict=True))


def _alignment(mpi_type: "MPI.Datatype") -> int:
    """Return the alignment of an elementary type in bytes.

    It follows from the bytes that MPI adds to a struct of one byte and that type.
    """
    mpi = _mpi()
    size = int(mpi_type.Get_size())
    probe = mpi.Datatype.Create_struct([1, 1], [0, size], [mpi_type, mpi.BYTE])
    try:
        _, extent = probe.Get_extent()
        return max(1, int(extent) - size)
    finally:
        probe.Free()


def _measures(mpi_type: "MPI.Datatype") -> tuple[int, int, int]:
    """Return the size, true lower bound and true extent of a committed type, in bytes."""
    size = int(mpi_type.Get_size())
    true_lb, true_extent = mpi_type.Get_true_extent()
    return size, int(true_lb), int(true_extent) if size else 0


def _with_bounds(
    mpi_type: "MPI.Datatype", offsets: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> Datatype:
    """Return a datatype with these runs and the bounds of an MPI type.

    Args:
        mpi_type: The type.
        offsets: The offset of each run in bytes, shape (n,).
        lengths: The length of each run in bytes, shape (n,).
    """
    lb, extent = mpi_type.Get_extent()
    runs = joined_runs(offsets, lengths)
    unbounded = hindexed(cast(Any, runs.lengths), cast(Any, runs.offsets), datatypes.elementary(1))
    return resized(unbounded, int(lb), int(extent))


def _unpack(mpi_type: "MPI.Datatype", packed: Octets, memory: Octets, true_lb: int) -> None:
    """Unpack one element into memory, whose first byte has the offset `true_lb`."""
    with _element(mpi_type, memory, true_lb) as (element, buffer):
        element.Unpack(packed, 0, buffer, _mpi().COMM_SELF)


def _pack(mpi_type: "MPI.Datatype", memory: Octets, true_lb: int, size: int) -> Octets:
    """Pack one element of `size` bytes from memory, whose first byte has the offset `true_lb`."""
    comm = _mpi().COMM_SELF
    packed = np.zeros(max(1, mpi_type.Pack_size(1, comm)), dtype=np.uint8)
    with _element(mpi_type, memory, true_lb) as (element, buffer):
        end = element.Pack(buffer, packed, 0, comm)
    if end != size:
        raise SfioError(
            f"this MPI packs {size} bytes as {end}: "
            "its packed format is not the plain one that is needed here"
        )
    return packed[:size]


@contextmanager
def _element(
    mpi_type: "MPI.Datatype", memory: Octets, true_lb: int
) -> Iterator[tuple["MPI.Datatype", "MPI.buffer"]]:
    """Provide memory as a buffer of one element.

    mpi4py divides the length of a buffer by the extent to count elements, and the extent of a type
    may be zero or negative. For this reason the element has extent 1, and the buffer has length 1
    and begins at the address of the type's offset 0.

    Args:
        mpi_type: The type of the element.
        memory: The memory of the element.
        true_lb: The offset in the type of the first byte of memory.

    Yields:
        The type with extent 1, and the buffer.
    """
    element_type = mpi_type.Create_resized(0, 1).Commit()
    try:
        yield element_type, _mpi().buffer.fromaddress(memory.ctypes.data - true_lb, 1)
    finally:
        element_type.Free()
