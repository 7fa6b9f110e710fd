"""Datatypes against a type map kept byte by byte: the same bytes in the same order, the same bounds."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfio_emu.errors import UsageError
from sfio_emu.views.datatypes import (
    BYTE,
    DOUBLE,
    INT16,
    INT32,
    Datatype,
    contiguous,
    elementary,
    hindexed,
    hvector,
    indexed,
    indexed_block,
    resized,
    struct,
    subarray,
    vector,
)
from tests.helpers.drawn import drawn


@dataclass(frozen=True)
class Naive:
    """The oracle: the offset of every byte in type order, and the bounds by their definition."""

    map: list[int]
    lb: int
    ub: int
    alignment: int = 1
    markers: bool = False
    shape: tuple[int, ...] = field(default=())

    @property
    def extent(self) -> int:
        return self.ub - self.lb

    def placed(self, places: list[int]) -> Naive:
        if not places or not self.map:
            return Naive([], 0, 0)
        offsets = [place + offset for place in places for offset in self.map]
        lb, ub = min(place + self.lb for place in places), max(place + self.ub for place in places)
        return Naive(offsets, lb, ub, self.alignment, self.markers)


def naive_struct(parts: list[Naive]) -> Naive:
    parts = [part for part in parts if part.map]
    if not parts:
        return Naive([], 0, 0)
    markers = any(part.markers for part in parts)
    bounding = [part for part in parts if part.markers or not markers]
    lb, ub = min(part.lb for part in bounding), max(part.ub for part in bounding)
    alignment = max(part.alignment for part in parts)
    while not markers and (ub - lb) % alignment:
        ub += 1
    return Naive([offset for part in parts for offset in part.map], lb, ub, alignment, markers)


Pair = tuple[Datatype, Naive]
ELEMENTARY: list[Pair] = [
    (BYTE, Naive([0], 0, 1)),
    (INT16, Naive([0, 1], 0, 2, 2)),
    (elementary(3, alignment=1), Naive([0, 1, 2], 0, 3)),
    (DOUBLE, Naive(list(range(8)), 0, 8, 8)),
]


@st.composite
def derived(draw: st.DrawFn, base: st.SearchStrategy[Pair]) -> Pair:
    made, naive = draw(base)
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
    small, signed = st.integers(0, 3), st.integers(-9, 9)
    if kind == "contiguous":
        count = draw(small)
        return contiguous(count, made), naive.placed([i * naive.extent for i in range(count)])
    if kind in ("vector", "hvector"):
        count, length, stride = draw(small), draw(small), draw(signed)
        step = stride if kind == "hvector" else stride * naive.extent
        places = [i * step + j * naive.extent for i in range(count) for j in range(length)]
        return {"vector": vector, "hvector": hvector}[kind](
            count, length, stride, made
        ), naive.placed(places)
    if kind in ("indexed", "hindexed"):
        blocks = draw(st.lists(st.tuples(small, signed), max_size=3))
        lengths, at = [length for length, _ in blocks], [place for _, place in blocks]
        unit = 1 if kind == "hindexed" else naive.extent
        places = [
            place * unit + j * naive.extent for length, place in blocks for j in range(length)
        ]
        return {"indexed": indexed, "hindexed": hindexed}[kind](lengths, at, made), naive.placed(
            places
        )
    if kind == "struct":
        parts = [(made, naive), *draw(st.lists(base, max_size=2))]
        blocks = [(draw(small), draw(signed)) for _ in parts]
        oracle = naive_struct(
            [
                part.placed([place + j * part.extent for j in range(length)])
                for (length, place), (_, part) in zip(blocks, parts, strict=True)
            ]
        )
        built = struct(
            [length for length, _ in blocks],
            [place for _, place in blocks],
            [part for part, _ in parts],
        )
        return built, oracle
    if kind == "subarray":
        return draw(boxes((made, naive)))
    lb, extent = draw(signed), draw(st.integers(-4, 20))
    return resized(made, lb, extent), Naive(naive.map, lb, lb + extent, naive.alignment, True)


@st.composite
def boxes(draw: st.DrawFn, base: Pair) -> Pair:
    made, naive = base
    axes = []
    for _ in range(draw(st.integers(1, 3))):
        size = draw(st.integers(1, 4))
        part = draw(st.integers(1, size))
        axes.append((size, part, draw(st.integers(0, size - part))))
    order = draw(st.sampled_from(["C", "F"]))
    numbers = np.arange(np.prod([size for size, _, _ in axes])).reshape(
        [size for size, _, _ in axes], order=order
    )
    chosen = numbers[tuple(slice(start, start + part) for _, part, start in axes)].ravel(
        order=order
    )
    offsets = [int(number) * naive.extent + offset for number in chosen for offset in naive.map]
    built = subarray(
        [a[0] for a in axes], [a[1] for a in axes], [a[2] for a in axes], made, order=order
    )
    if not naive.map:
        return contiguous(0, BYTE), Naive([], 0, 0)
    return built, Naive(offsets, 0, numbers.size * naive.extent, naive.alignment, True)


datatypes = st.recursive(st.sampled_from(ELEMENTARY), derived, max_leaves=4)


@drawn(400)
@given(datatypes)
def test_flattening_agrees_with_the_type_map(pair: Pair) -> None:
    made, naive = pair
    covered = [offset + i for offset, length in made.runs.pairs() for i in range(length)]
    assert covered == naive.map
    assert made.size_bytes == len(naive.map)
    if naive.map:
        assert (made.lb, made.ub, made.alignment) == (naive.lb, naive.ub, naive.alignment)
        assert (made.true_lb, made.true_ub) == (min(naive.map), max(naive.map) + 1)


@drawn(200)
@given(datatypes)
def test_runs_are_maximal_and_never_empty(pair: Pair) -> None:
    runs = pair[0].runs.pairs()
    assert all(length > 0 for _, length in runs)
    assert all(
        end_at + length != begins for (end_at, length), (begins, _) in itertools.pairwise(runs)
    )


def test_a_struct_is_padded_to_its_strictest_member() -> None:
    record = struct([1, 1], [0, 8], [DOUBLE, BYTE])
    assert (record.size_bytes, record.extent_bytes) == (9, 16)
    assert contiguous(2, record).runs.pairs() == [(0, 9), (16, 9)]


def test_columns_of_a_matrix_are_one_run_a_row() -> None:
    columns = subarray([4, 6], [4, 2], [0, 3], INT32)
    assert columns.runs.pairs() == [(12, 8), (36, 8), (60, 8), (84, 8)]
    assert columns.extent_bytes == 4 * 6 * 4


def test_a_huge_dense_type_is_one_run() -> None:
    assert vector(1 << 40, 3, 3, INT32).runs.pairs() == [(0, 12 << 40)]
    assert len(subarray([1 << 20, 1 << 20], [1 << 20, 1 << 20], [0, 0], DOUBLE).runs) == 1


def test_blocks_at_places_of_equal_length_are_an_indexed_type() -> None:
    assert indexed_block(2, [5, 0], INT16).runs == indexed([2, 2], [5, 0], INT16).runs


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: contiguous(-1, BYTE), "the count of contiguous is -1"),
        (lambda: vector(2, -3, 1, BYTE), "the block length of vector is -3"),
        (lambda: indexed([1, 2], [0], BYTE), "indexed of 2 block lengths and 1 displacements"),
        (lambda: hindexed([1, -2], [0, 4], BYTE), "hindexed: block length -2 at place 1"),
        (
            lambda: hindexed([1], [2**80], BYTE),
            "the place 0 of hindexed is 1208925819614629174706176",
        ),
        (
            lambda: hindexed([1.5], [0], BYTE),
            "the block length 0 of hindexed is 1.5: give a whole number",
        ),
        (
            lambda: hindexed(np.array([1.0]), [0], BYTE),
            "the block length 0 of hindexed is np.float64(1.0)",
        ),
        (lambda: hindexed([1], ["3"], BYTE), "the place 0 of hindexed is '3'"),
        (lambda: hindexed([1], None, BYTE), "the places are None: give a list of whole numbers"),
        (lambda: vector(1, 1, None, BYTE), "the stride of vector is None"),
        (lambda: vector(True, 1, 1, BYTE), "the count of vector is True"),
        (lambda: elementary(2.0), "the size of an elementary type is 2.0"),
        (lambda: subarray([4.0], [3], [1], BYTE), "the size 0 of subarray is 4.0"),
        (lambda: resized(BYTE, 0, float("nan")), "the extent of resized is nan"),
        (lambda: struct([1], [0], [BYTE, INT32]), "struct of 1 block lengths and 2 types"),
        (
            lambda: subarray([4], [3], [2], BYTE),
            "subarray dimension 0: 3 elements from 2 in an array of 4",
        ),
        (lambda: subarray([4], [0], [0], BYTE), "subarray dimension 0: 0 elements"),
        (lambda: subarray([4, 4], [1], [0], BYTE), "subarray of 2 sizes, 1 subsizes"),
        (lambda: elementary(0), "size of an elementary type is 0"),
        (lambda: contiguous(2**61, vector(2, 1, 2, DOUBLE)), "contiguous: offsets must stay below"),
        (lambda: contiguous(2**40, vector(2, 1, 2, BYTE)), "contiguous of 1099511627776 elements"),
        (lambda: hvector(2**40, 1, 2**40, BYTE), "hvector of 1099511627776 blocks"),
    ],
)
def test_a_type_that_cannot_be_says_which_argument(build: object, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        build()  # type: ignore[operator]
    assert message in str(caught.value)
