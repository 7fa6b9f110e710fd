"""The layout of an opaque MPI datatype, found from outside (Gabrielyan 2007, section 2.9, figure 25): bytes of known
contents go through MPI_Unpack (or MPI_Pack), and where they land is the layout. Needs mpi4py (the extra `mpi`); nothing
here decodes MPI's own structures."""

from collections.abc import Iterator
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
GRAY, BLACK = 0, 1
_NOTHING = np.zeros(0, dtype=np.int64)


class MpiMissing(SfioError):
    """No MPI for Python on this machine: install the extra `mpi` (mpi4py and mpich)."""


def _mpi() -> Any:
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # RuntimeError: mpi4py without an MPI library
        raise MpiMissing(f"MPI for Python is missing ({error}): install the extra `mpi`") from error
    return MPI


def datatype_by_unpack(mpi_type: "MPI.Datatype") -> Datatype:
    """Unpack black bytes over gray memory: the black ones are the layout (Gabrielyan 2007, section 2.9, figure 25).

    Order cannot be seen this way: a layout comes out sorted by offset, so a cross-ordered or overlapping type is wrong
    or refused here (`datatype_by_pack` finds both). One MPI_Unpack of the type's size. Raises UsageError for an
    overlapping type, MpiMissing without mpi4py.
    """
    size, true_lb, true_extent = _measures(mpi_type)
    if not size:
        return _with_bounds(mpi_type, _NOTHING, _NOTHING)
    seen = np.full(true_extent, GRAY, dtype=np.uint8)
    _unpack(mpi_type, np.full(size, BLACK, dtype=np.uint8), seen, true_lb)
    black = np.flatnonzero(np.diff(seen, prepend=GRAY, append=GRAY))
    starts, ends = black[::2].astype(np.int64), black[1::2].astype(np.int64)
    if int((ends - starts).sum()) != size:
        raise UsageError(
            f"a datatype of {size} bytes covers only {int((ends - starts).sum())}: its parts overlap; pack it instead"
        )
    return _with_bounds(mpi_type, starts + true_lb, ends - starts)


def datatype_by_pack(mpi_type: "MPI.Datatype") -> Datatype:
    """Pack memory whose every byte holds its own place: the packed stream is the list of places, in order.

    Exact for any type, cross-ordered and overlapping ones included: a place of k digits to the base 256 takes k
    MPI_Packs.
    """
    size, true_lb, true_extent = _measures(mpi_type)
    if not size:
        return _with_bounds(mpi_type, _NOTHING, _NOTHING)
    places = np.zeros(size, dtype=np.int64)
    memory_places = np.arange(true_extent, dtype=np.int64)
    digit = 0
    while digit == 0 or (true_extent - 1) >> (8 * digit):
        digits = (memory_places >> (8 * digit)).astype(np.uint8)
        places |= _pack(mpi_type, digits, true_lb, size).astype(np.int64) << (8 * digit)
        digit += 1
    return _with_bounds(mpi_type, places + true_lb, np.ones(size, dtype=np.int64))


def datatype_by_decoding(mpi_type: "MPI.Datatype") -> Datatype:
    """The type as MPI says it was built (MPI_Type_get_contents through mpi4py): an oracle for the two functions above.

    Bounds are queried from MPI at every level: implementations differ in when they pad a struct and in what `resized`
    inside a struct means. Raises UsageError for constructors unknown here.
    """
    base, combiner, arguments = mpi_type.decode()
    lb, extent = mpi_type.Get_extent()
    return resized(_rebuilt(base, combiner, arguments), int(lb), int(extent))


# of each constructor the function and, in its order, what MPI calls its arguments; the base comes behind them
_BUILT_BY = {
    "CONTIGUOUS": (datatypes.contiguous, "count"),
    "VECTOR": (datatypes.vector, "count", "blocklength", "stride"),
    "HVECTOR": (datatypes.hvector, "count", "blocklength", "stride"),
    "INDEXED": (datatypes.indexed, "blocklengths", "displacements"),
    "HINDEXED": (hindexed, "blocklengths", "displacements"),
    "INDEXED_BLOCK": (datatypes.indexed_block, "blocklength", "displacements"),
    "SUBARRAY": (datatypes.subarray, "sizes", "subsizes", "starts"),
}


def _rebuilt(base: "MPI.Datatype", combiner: str, arguments: dict[str, Any]) -> Datatype:
    if combiner in ("NAMED", "F90_INTEGER", "F90_REAL", "F90_COMPLEX"):
        size, name = base.Get_size(), base.Get_name()
        number = size // 2 if "COMPLEX" in name else size
        return replace(datatypes.elementary(size, name, _alignment(base)), items=((number, 1),))
    if combiner == "STRUCT":
        parts = [datatype_by_decoding(part) for part in arguments["datatypes"]]
        return datatypes.struct(arguments["blocklengths"], arguments["displacements"], parts)
    inner, mpi = datatype_by_decoding(base), _mpi()
    order = (
        {"order": "F" if arguments["order"] == mpi.ORDER_F else "C"} if "order" in arguments else {}
    )
    if combiner in _BUILT_BY:
        make, *names = cast(Any, _BUILT_BY[combiner])
        return cast(Datatype, make(*(arguments[name] for name in names), inner, **order))
    if combiner == "DUP":
        return inner
    if combiner == "HINDEXED_BLOCK":
        places = arguments["displacements"]
        return hindexed([arguments["blocklength"]] * len(places), places, inner)
    if combiner == "RESIZED":
        return resized(inner, arguments["lb"], arguments["extent"])
    if combiner == "DARRAY":
        distributions = {
            mpi.DISTRIBUTE_NONE: "none",
            mpi.DISTRIBUTE_BLOCK: "block",
            mpi.DISTRIBUTE_CYCLIC: "cyclic",
        }
        dealt = [
            None if block == mpi.DISTRIBUTE_DFLT_DARG else block for block in arguments["dargs"]
        ]
        distributed = map(distributions.get, arguments["distribs"])
        axes = list(zip(arguments["gsizes"], distributed, dealt, arguments["psizes"], strict=True))
        return darray(
            arguments["size"], arguments["rank"], cast(Any, axes), inner, **cast(Any, order)
        )
    raise UsageError(
        f"datatype built by {combiner}, which is not decoded: pack it instead (datatype_by_pack)"
    )


def _alignment(named: "MPI.Datatype") -> int:
    """The alignment MPI itself uses for an elementary type: what it pads a struct of a byte and that type to."""
    probe = _mpi().Datatype.Create_struct([1, 1], [0, named.Get_size()], [named, _mpi().BYTE])
    try:
        _, extent = probe.Get_extent()
        return max(1, int(extent) - int(named.Get_size()))
    finally:
        probe.Free()


def _measures(mpi_type: "MPI.Datatype") -> tuple[int, int, int]:
    """Size, true lower bound and true extent of a committed type."""
    size = int(mpi_type.Get_size())
    true_lb, true_extent = mpi_type.Get_true_extent()
    return size, int(true_lb), int(true_extent) if size else 0


def _with_bounds(
    mpi_type: "MPI.Datatype", offsets: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> Datatype:
    lb, extent = mpi_type.Get_extent()
    runs = joined_runs(offsets, lengths)
    bare = hindexed(cast(Any, runs.lengths), cast(Any, runs.offsets), datatypes.elementary(1))
    return resized(bare, int(lb), int(extent))


def _unpack(mpi_type: "MPI.Datatype", packed: Octets, memory: Octets, true_lb: int) -> None:
    with _element(mpi_type, memory, true_lb) as (one, place):
        one.Unpack(packed, 0, place, _mpi().COMM_SELF)


def _pack(mpi_type: "MPI.Datatype", memory: Octets, true_lb: int, size: int) -> Octets:
    comm = _mpi().COMM_SELF
    packed = np.zeros(max(1, mpi_type.Pack_size(1, comm)), dtype=np.uint8)
    with _element(mpi_type, memory, true_lb) as (one, place):
        end = one.Pack(place, packed, 0, comm)
    if end != size:
        raise SfioError(
            f"this MPI packs {size} bytes as {end}: its packed format is not the plain one that is needed here"
        )
    return packed[:size]


@contextmanager
def _element(
    mpi_type: "MPI.Datatype", memory: Octets, true_lb: int
) -> Iterator[tuple["MPI.Datatype", "MPI.buffer"]]:
    """One element of a type over `memory`, whose byte 0 is the type's byte `true_lb`: (type, buffer).

    mpi4py divides a buffer's length by the extent to count elements, and the type's own extent may be zero or negative:
    the element has extent 1 and its buffer length 1, at the address of the type's byte 0.
    """

    one = mpi_type.Create_resized(0, 1).Commit()
    try:
        yield one, _mpi().buffer.fromaddress(memory.ctypes.data - true_lb, 1)
    finally:
        one.Free()
