"""Bounds of subarray and darray over bases whose lower bound is not 0, as MPI gives them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sfio_emu.views import datatypes
from sfio_emu.views.datatypes import Datatype
from sfio_emu.views.dealt_arrays import darray


def base_of(lb: int, extent: int) -> Datatype:
    return datatypes.resized(datatypes.INT32, lb, extent)


def box(order: Any = "C") -> Datatype:
    return datatypes.subarray([4, 3], [2, 1], [1, 2], base_of(-4, 8), order)


def part() -> Datatype:
    return darray(2, 1, [(6, "cyclic", 1, 2)], base_of(3, 5))


def mpi_base(mpi: Any, lb: int, extent: int) -> Any:
    return mpi.INT32_T.Create_resized(lb, extent)


def mpi_box(mpi: Any) -> Any:
    return mpi_base(mpi, -4, 8).Create_subarray([4, 3], [2, 1], [1, 2])


def mpi_part(mpi: Any) -> Any:
    cyclic = [mpi.DISTRIBUTE_CYCLIC]
    return mpi_base(mpi, 3, 5).Create_darray(2, 1, [6], cyclic, [1], [2])


# Name, lower bound and extent as MPICH 5.0.2 gives them, our datatype, and MPI's.
CASES: list[tuple[str, int, int, Callable[[], Datatype], Callable[[Any], Any]]] = [
    ("subarray", 0, 96, box, mpi_box),
    ("darray", 0, 30, part, mpi_part),
    (
        "vector of subarray",
        0,
        288,
        lambda: datatypes.vector(2, 1, 2, box()),
        lambda mpi: mpi_box(mpi).Create_vector(2, 1, 2),
    ),
    (
        "vector of subarray backwards",
        -192,
        288,
        lambda: datatypes.vector(2, 1, -2, box()),
        lambda mpi: mpi_box(mpi).Create_vector(2, 1, -2),
    ),
    (
        "subarray of subarray",
        0,
        288,
        lambda: datatypes.subarray([3], [1], [1], box()),
        lambda mpi: mpi_box(mpi).Create_subarray([3], [1], [1]),
    ),
    (
        "resized subarray",
        -7,
        11,
        lambda: datatypes.resized(box(), -7, 11),
        lambda mpi: mpi_box(mpi).Create_resized(-7, 11),
    ),
    (
        "struct",
        16,
        128,
        lambda: datatypes.struct([1, 1], [16, 114], [box(), part()]),
        lambda mpi: mpi.Datatype.Create_struct([1, 1], [16, 114], [mpi_box(mpi), mpi_part(mpi)]),
    ),
    (
        "darray of darray",
        0,
        180,
        lambda: darray(2, 0, [(6, "block", None, 2)], part()),
        lambda mpi: mpi_part(mpi).Create_darray(
            2, 0, [6], [mpi.DISTRIBUTE_BLOCK], [mpi.DISTRIBUTE_DFLT_DARG], [2]
        ),
    ),
]
IDS = [name for name, *_ in CASES]


@pytest.mark.parametrize(("name", "lb", "extent", "ours", "_mpi"), CASES, ids=IDS)
def test_lower_bound_is_the_recorded_one(
    name: str, lb: int, extent: int, ours: Callable[[], Datatype], _mpi: object
) -> None:
    datatype = ours()
    assert (datatype.lb, datatype.extent_bytes) == (lb, extent), name


@pytest.mark.parametrize(("name", "lb", "extent", "_ours", "mpi_type"), CASES, ids=IDS)
def test_recorded_bounds_are_those_of_mpi(
    name: str, lb: int, extent: int, _ours: object, mpi_type: Callable[[Any], Any]
) -> None:
    mpi = pytest.importorskip("mpi4py.MPI", exc_type=ImportError)
    assert mpi_type(mpi).Get_extent() == (lb, extent), name


def test_order_does_not_change_the_lower_bound() -> None:
    assert box("F").lb == 0
    assert box("F").extent_bytes == box("C").extent_bytes
