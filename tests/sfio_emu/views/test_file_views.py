"""File views against a stream built byte by byte: which bytes an access means, and how memory and file are paired."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfio_emu.errors import UsageError
from sfio_emu.views.datatypes import (
    BYTE,
    INT16,
    INT32,
    Datatype,
    contiguous,
    hindexed,
    indexed,
    resized,
    vector,
)
from sfio_emu.views.file_views import View, memory_runs, pair_runs
from tests.helpers.drawn import drawn


@st.composite
def ordered_types(draw: st.DrawFn, overlapping: bool = False) -> Datatype:
    """Types whose blocks lie in order, with gaps (or overlaps of blocks for reading)."""
    at, places, lengths = draw(st.integers(0, 5)), [], []
    first = at
    for _ in range(draw(st.integers(1, 5))):
        length = draw(st.integers(1, 4))
        places.append(at)
        lengths.append(length)
        at += draw(st.integers(1, 4)) if overlapping else length + draw(st.integers(0, 3))
    end = max(place + length for place, length in zip(places, lengths, strict=True))
    extent = draw(st.integers(end - first, end + 6))
    return resized(hindexed(lengths, places, BYTE), draw(st.integers(-3, 3)), extent)


def stream(filetype: Datatype, displacement: int, count: int) -> list[int]:
    offsets = [offset + i for offset, length in filetype.runs.pairs() for i in range(length)]
    tiles = range(count // len(offsets) + 1)
    return [
        displacement + tile * filetype.extent_bytes + offset for tile in tiles for offset in offsets
    ][:count]


@drawn(300)
@given(ordered_types(), st.integers(0, 20), st.integers(0, 60), st.integers(0, 60))
def test_an_access_means_the_bytes_of_the_stream(
    filetype: Datatype, displacement: int, first: int, count: int
) -> None:
    runs = View(displacement=displacement, filetype=filetype).runs(first, count)
    covered = [offset + i for offset, length in runs.pairs() for i in range(length)]
    assert covered == stream(filetype, displacement, first + count)[first:]


@drawn(300)
@given(
    st.booleans().flatmap(lambda overlapping: ordered_types(overlapping)),
    st.integers(0, 20),
    st.integers(0, 90),
)
def test_bytes_before_an_end_of_file_are_counted(
    filetype: Datatype, displacement: int, file_size: int
) -> None:
    view = View(displacement=displacement, filetype=filetype, writable=False)
    offsets = stream(filetype, displacement, 1000)
    expected = next(place for place, offset in enumerate(offsets) if offset >= file_size)
    assert view.bytes_before(file_size) == expected


@drawn(200)
@given(st.data())
def test_paired_runs_carry_every_byte_to_its_place(data: st.DataObject) -> None:
    total = data.draw(st.integers(0, 40))

    def cut() -> list[tuple[int, int]]:
        lengths = []
        while sum(lengths) < total:
            lengths.append(data.draw(st.integers(1, total - sum(lengths))))
        places, at = [], 0
        for length in lengths:
            at += data.draw(st.integers(1, 3))
            places.append(at)
            at += length
        return data.draw(st.permutations(list(zip(places, lengths, strict=True))))

    memory, file = cut(), cut()
    types = [
        hindexed([length for _, length in side], [place for place, _ in side], BYTE)
        for side in (memory, file)
    ]
    paired = pair_runs(types[0].runs, types[1].runs)
    expanded = [
        [place + i for place, length in side for i in range(length)] for side in (memory, file)
    ]
    lengths = paired.lengths.tolist()
    for offsets, expected in (
        (paired.memory_offsets, expanded[0]),
        (paired.file_offsets, expanded[1]),
    ):
        assert [
            at + i
            for at, length in zip(offsets.tolist(), lengths, strict=True)
            for i in range(length)
        ] == expected
    assert len(lengths) <= max(0, len(types[0].runs) + len(types[1].runs) - 1)


def test_a_small_access_in_a_large_tile_costs_its_own_runs() -> None:
    view = View(etype=INT32, filetype=resized(vector(1_000_000, 1, 3, INT32), 0, 12_000_000))
    assert view.runs(4 * 999_999, 8).pairs() == [(12 * 999_999, 4), (12_000_000, 4)]
    assert view.file_offset(4 * 1_000_003 + 1) == 12_000_000 + 37


def test_a_view_of_etypes_spans_tiles() -> None:
    view = View(displacement=7, etype=INT16, filetype=resized(contiguous(2, INT16), 0, 10))
    assert view.runs(2, 8).pairs() == [(9, 2), (17, 4), (27, 2)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"filetype": indexed([1] * 5, [2, 6, 5, 7, 4], BYTE)},
            "cross-ordered, byte 5 comes after byte 6",
        ),
        (
            {"filetype": hindexed([1, 1], [-4, 0], BYTE)},
            "begins at byte -4: its displacements must not be negative",
        ),
        ({"filetype": hindexed([4, 4], [0, 2], BYTE)}, "covers a byte twice"),
        ({"filetype": resized(contiguous(8, BYTE), 0, 4)}, "covers a byte twice"),
        ({"filetype": resized(vector(3, 1, 4, BYTE), 0, 5)}, "repetitions would interleave"),
        (
            {"filetype": resized(vector(3, 1, 4, BYTE), 0, 5), "writable": False},
            "repetitions would interleave",
        ),
        ({"filetype": resized(BYTE, 0, 0), "writable": False}, "repetitions would interleave"),
        (
            {"etype": INT32, "filetype": contiguous(6, BYTE)},
            "filetype of 6 bytes, etype of 4: build the filetype",
        ),
        ({"filetype": contiguous(0, BYTE)}, "must cover at least one byte"),
        ({"displacement": -1}, "the displacement of the view (bytes) is -1"),
    ],
)
def test_a_view_that_cannot_be_is_refused_with_its_reason(
    arguments: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        View(**arguments)  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_a_view_for_reading_may_repeat_bytes() -> None:
    view = View(filetype=hindexed([4, 4], [0, 2], BYTE), writable=False)
    assert view.overlapping
    assert view.runs(0, 8).pairs() == [(0, 4), (2, 4)]


def test_memory_outside_the_buffer_is_refused() -> None:
    assert memory_runs(12, 2, vector(2, 1, 2, INT16)).pairs() == [(0, 2), (4, 4), (10, 2)]
    with pytest.raises(UsageError, match="cover bytes 0 to 12 of a buffer of 11"):
        memory_runs(11, 2, vector(2, 1, 2, INT16))
    with pytest.raises(UsageError, match="cover bytes -4 to"):
        memory_runs(100, 1, hindexed([1], [-4], INT16))


def test_many_runs_are_paired_without_a_loop() -> None:
    count = 1_000_000
    memory, file = vector(count, 1, 2, INT16).runs, vector(count // 2, 1, 3, INT32).runs
    paired = pair_runs(memory, file)
    assert len(paired.lengths) == count
    assert np.array_equal(paired.file_offsets[::2], np.arange(count // 2) * 12)
