"""Opaque MPI datatypes found by unpacking and packing, against what mpi4py decodes and what the same constructors give
here."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfio_emu.adapters import mpi_datatypes
from sfio_emu.adapters.mpi_datatypes import (
    MpiMissing,
    datatype_by_decoding,
    datatype_by_pack,
    datatype_by_unpack,
)
from sfio_emu.errors import UsageError
from sfio_emu.views.datatypes import (
    BYTE,
    DOUBLE,
    INT32,
    Datatype,
    contiguous,
    hvector,
    indexed,
    resized,
    struct,
    subarray,
    vector,
)
from sfio_emu.views.file_views import View
from tests.helpers.drawn import drawn

have_mpi = importlib.util.find_spec("mpi4py") is not None
needs_mpi = pytest.mark.skipif(not have_mpi, reason="mpi4py is not installed (the extra `mpi`)")


@st.composite
def opaque_types(draw: st.DrawFn, depth: int = 2) -> Any:
    """A committed MPI datatype nobody here knows the layout of."""
    from mpi4py import MPI

    base = MPI.Datatype(draw(st.sampled_from([MPI.BYTE, MPI.SHORT, MPI.INT, MPI.DOUBLE])))
    for _ in range(draw(st.integers(1, depth))):
        base = _derive(draw, MPI, base)
    return base.Commit()


def _derive(draw: st.DrawFn, mpi: Any, base: Any) -> Any:
    small, signed = st.integers(1, 3), st.integers(-30, 30)
    kind = draw(
        st.sampled_from(
            [
                "contiguous",
                "vector",
                "hvector",
                "indexed",
                "hindexed",
                "struct",
                "subarray",
                "resized",
            ]
        )
    )
    if kind == "contiguous":
        return base.Create_contiguous(draw(small))
    if kind == "vector":
        return base.Create_vector(draw(small), draw(small), draw(st.integers(-4, 4)))
    if kind == "hvector":
        return base.Create_hvector(draw(small), draw(small), draw(signed))
    if kind in ("indexed", "hindexed"):
        blocks = draw(st.lists(st.tuples(small, st.integers(-5, 5)), min_size=1, max_size=4))
        make = base.Create_indexed if kind == "indexed" else base.Create_hindexed
        return make([length for length, _ in blocks], [place for _, place in blocks])
    if kind == "struct":
        parts = [
            base,
            *draw(st.lists(st.sampled_from([mpi.BYTE, mpi.SHORT, mpi.DOUBLE]), max_size=2)),
        ]
        return mpi.Datatype.Create_struct(
            [draw(small) for _ in parts], [draw(signed) for _ in parts], parts
        )
    if kind == "subarray":
        sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
        parts = [draw(st.integers(1, size)) for size in sizes]
        starts = [
            draw(st.integers(0, size - part)) for size, part in zip(sizes, parts, strict=True)
        ]
        return base.Create_subarray(
            sizes, parts, starts, draw(st.sampled_from([mpi.ORDER_C, mpi.ORDER_F]))
        )
    return base.Create_resized(draw(signed), draw(st.integers(-3, 60)))


def covered(made: Datatype) -> list[int]:
    return [offset + i for offset, length in made.runs.pairs() for i in range(length)]


if have_mpi:

    @drawn(200)
    @given(opaque_types())
    def test_packing_finds_what_decoding_tells(opaque: Any) -> None:
        packed, decoded = datatype_by_pack(opaque), datatype_by_decoding(opaque)
        assert packed.runs == decoded.runs
        assert (packed.lb, packed.extent_bytes) == (decoded.lb, decoded.extent_bytes)
        assert (packed.lb, packed.extent_bytes) == tuple(opaque.Get_extent())
        assert (packed.true_lb, packed.true_ub - packed.true_lb) == tuple(opaque.Get_true_extent())

    @drawn(100)
    @given(st.data())
    def test_an_array_that_is_dealt_out_is_that_of_mpi(data: st.DataObject) -> None:
        from mpi4py import MPI

        draw = data.draw
        sizes, grid = (
            [draw(st.integers(1, 6)) for _ in range(2)],
            [draw(st.integers(1, 2)) for _ in range(2)],
        )
        ways = [
            draw(st.sampled_from([MPI.DISTRIBUTE_BLOCK, MPI.DISTRIBUTE_CYCLIC])) for _ in range(2)
        ]
        least = [-(-size // processes) for size, processes in zip(sizes, grid, strict=True)]
        blocks = [draw(st.sampled_from([MPI.DISTRIBUTE_DFLT_DARG, block])) for block in least]
        rank, order = (
            draw(st.integers(0, grid[0] * grid[1] - 1)),
            draw(st.sampled_from([MPI.ORDER_C, MPI.ORDER_F])),
        )
        base = draw(st.sampled_from([MPI.BYTE, MPI.INT]))
        opaque = base.Create_darray(
            grid[0] * grid[1], rank, sizes, ways, blocks, grid, order
        ).Commit()
        packed, decoded = datatype_by_pack(opaque), datatype_by_decoding(opaque)
        assert packed.runs == decoded.runs
        assert (decoded.lb, decoded.extent_bytes) == tuple(opaque.Get_extent())

    @drawn(200)
    @given(opaque_types())
    def test_unpacking_finds_the_sorted_layout_and_refuses_overlaps(opaque: Any) -> None:
        expected = sorted(covered(datatype_by_decoding(opaque)))
        if len(set(expected)) < len(expected):
            with pytest.raises(UsageError, match="its parts overlap"):
                datatype_by_unpack(opaque)
        else:
            assert covered(datatype_by_unpack(opaque)) == expected


@needs_mpi
def test_bounds_are_those_mpi_computes() -> None:
    from mpi4py import MPI

    record = MPI.Datatype.Create_struct([1, 3], [0, 8], [MPI.DOUBLE, MPI.BYTE])
    for opaque, made in (
        (record, struct([1, 3], [0, 8], [DOUBLE, BYTE])),
        (MPI.INT.Create_vector(3, 2, -4), vector(3, 2, -4, INT32)),
        (MPI.INT.Create_hvector(3, 2, 9), hvector(3, 2, 9, INT32)),
        (
            record.Create_indexed([2, 1], [1, -1]),
            indexed([2, 1], [1, -1], struct([1, 3], [0, 8], [DOUBLE, BYTE])),
        ),
        (MPI.INT.Create_subarray([5, 6], [2, 3], [1, 2]), subarray([5, 6], [2, 3], [1, 2], INT32)),
        (
            MPI.INT.Create_resized(-4, 24).Create_contiguous(3),
            contiguous(3, resized(INT32, -4, 24)),
        ),
    ):
        found = datatype_by_pack(opaque.Commit())
        assert (found.lb, found.ub, found.runs) == (made.lb, made.ub, made.runs)


@needs_mpi
def test_cross_ordered_type_is_found_by_packing_and_refused_as_a_view() -> None:
    from mpi4py import MPI

    opaque = MPI.BYTE.Create_indexed([1] * 5, [2, 6, 5, 7, 4]).Commit()
    assert covered(datatype_by_pack(opaque)) == [2, 6, 5, 7, 4]
    assert covered(datatype_by_unpack(opaque)) == [2, 4, 5, 6, 7]
    with pytest.raises(UsageError, match="cross-ordered, byte 5 comes after byte 6"):
        View(filetype=datatype_by_pack(opaque))


@needs_mpi
def test_a_datatype_as_in_the_figure_of_the_thesis_is_found() -> None:
    from mpi4py import MPI

    vector = MPI.BYTE.Create_vector(
        2, 2, 3
    )  # like Figure 23: a fragmented type repeated, 20 bytes over 30
    opaque = vector.Create_resized(0, 6).Create_contiguous(5).Commit()
    found = datatype_by_unpack(opaque)
    assert (found.size_bytes, found.extent_bytes) == (20, 30)
    assert found.runs.pairs()[:3] == [(0, 2), (3, 2), (6, 2)]


@needs_mpi
def test_large_layouts_need_few_packs() -> None:
    from mpi4py import MPI

    opaque = MPI.INT.Create_vector(200_000, 1, 3).Commit()
    assert datatype_by_pack(opaque).runs == datatype_by_unpack(opaque).runs
    assert len(datatype_by_unpack(opaque).runs) == 200_000


def test_a_machine_without_mpi_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "mpi4py", None)
    with pytest.raises(MpiMissing, match="install the extra `mpi`"):
        mpi_datatypes._mpi()
