"""What is said of requests, of pieces of subfiles and of where messages end, by hand: each rule on both sides of its
limit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sfio_emu.errors import UsageError
from sfio_emu.layout.piece import ListedPiece, RegularPiece, StripedPiece, pieces_of
from sfio_emu.layout.requests import Requests, make_requests, prepare
from sfio_emu.layout.striping import Layout
from sfio_emu.settings import Settings

WHOLE = Layout(stripe_unit=1 << 20, subfiles=1)


def blocks_of(requests: Requests) -> list[tuple[int, int, int]]:
    return list(
        zip(
            requests.offsets.tolist(),
            requests.memory.tolist(),
            requests.sizes.tolist(),
            strict=True,
        )
    )


def test_long_run_is_cut_at_a_large_border_or_page() -> None:
    def fits(low: int, room_bytes: int, high: int = 8 << 20) -> int:
        return StripedPiece(WHOLE, 0, low, high, 0).fitting(room_bytes)

    assert fits(100, (2 << 20) + 16) == (2 << 20) - 100, "at 512 KiB"
    assert fits(100, 600_016) == (512 << 10) - 100
    assert fits(100, 500_016) == 122 * 4096 - 100, "at a page"
    assert fits(100, 4096 + 16) == 4096 - 100
    assert fits(100, 2016) == 2000, "at none"
    assert (fits(2047, 4112), fits(2048, 4112)) == (2049, 4096), (
        "half of the room is not more than half"
    )
    assert (fits(0, 1016, high=1000), fits(0, 1015, high=1000)) == (1000, 999)
    assert (fits(0, 17), fits(0, 16), fits(0, 3)) == (1, 0, 0)


def test_a_listed_run_is_cut_only_where_a_page_of_it_fits() -> None:
    number = np.arange(3, dtype=np.int64)
    piece = ListedPiece(0, 20_000 * number[:2], 10_000 * number, 0 * number[:2], 10_000 * number)
    expected = {
        16: 0,
        17: 1,
        10_015: 9_999,
        10_016: 10_000,
        14_127: 10_000,
        14_128: 14_096,
        20_032: 20_000,
    }
    assert {room: piece.fitting(room) for room in expected} == expected


def test_regular_runs_up_to_a_page_are_cut_between_runs() -> None:
    for run_bytes, count, grain in (
        (75, 200, 150),
        (75, 74, 0),
        (4096, 5000, 4096),
        (4097, 5000, 5000),
    ):
        assert RegularPiece(0, run_bytes, 9, at=(0, 9000), source=(0, 9000)).grain(count) == grain
    assert StripedPiece(WHOLE, 0, 0, 9000, 0).grain(4097) == 4097


def test_piece_takes_its_bytes_and_rows_of_a_message() -> None:
    assert StripedPiece(WHOLE, 0, 5, 45, 0).cost_bytes == 40 + 16
    for run_bytes, cost in ((1, 32 + 16 * 40), (75, 32 + 75 * 40)):
        piece = RegularPiece(0, run_bytes, 40, at=(0, 300), source=(0, 225))
        assert (piece.cost_bytes, piece.listed().cost_bytes) == (cost, (run_bytes + 16) * 40)


def test_message_rows_name_subfile_runs_and_distances() -> None:
    striped = StripedPiece(Layout(stripe_unit=10, subfiles=4), 3, 5, 45, 0)
    assert striped.rows().tolist() == [(3, 40, 5)]
    regular = RegularPiece(2, 75, 5, at=(7, 300), source=(1000, 80))
    assert regular.rows().tolist() == [(2, 75, 7, 300, 5, 0)] and regular.alike
    assert (
        regular.listed().rows().tolist() == [(2, 75, 7 + 300 * k) for k in range(5)]
        and not striped.alike
    )
    assert regular.bounds == regular.listed().bounds == (7, 7 + 4 * 300 + 75)


def test_whole_runs_of_regular_ones_are_regular_and_others_are_listed() -> None:
    piece = RegularPiece(1, 10, 6, at=(100, 50), source=(0, 20))
    inner, cut = piece.slice(20, 50), piece.slice(25, 50)
    assert isinstance(inner, RegularPiece) and inner.rows().tolist() == [(1, 10, 200, 50, 3, 0)]
    assert isinstance(cut, ListedPiece) and cut.rows().tolist() == [
        (1, 5, 205),
        (1, 10, 250),
        (1, 10, 300),
    ]
    assert isinstance(piece.slice(20, 45), ListedPiece)
    memory = np.arange(200, dtype=np.uint8)
    assert [bytes(part)[0] for part in inner.vectors(memory)] == [40, 60, 80]
    assert [bytes(part)[0] for part in cut.vectors(memory)] == [45, 60, 80]


@pytest.mark.parametrize(
    ("offsets", "memory", "sizes", "found"),
    [
        ([0, 10, 20], [3, 8, 13], [5, 5, 5], (10, 5, 5)),
        ([0, 5, 10], [0, 9, 18], [5, 5, 5], (5, 9, 5)),
        ([0, 10], [0, 5], [5, 5], None),
        ([0, 10, 20], [0, 5, 10], [5, 5, 4], None),
        ([0, 10, 20], [0, 5, 10], [5, 4, 5], None),
        ([0, 4, 8], [0, 5, 10], [5, 5, 5], None),
        ([0, 10, 20], [0, 4, 8], [5, 5, 5], None),
        ([0, 10, 21, 30], [0, 5, 10, 15], [5] * 4, None),
        ([0, 10, 20, 30], [0, 5, 11, 15], [5] * 4, None),
        ([0, 10, 20, 31], [0, 5, 10, 15], [5] * 4, None),
        ([20, 10, 0], [0, 5, 10], [5] * 3, None),
    ],
)
def test_blocks_are_regular_where_three_or_more_are_alike_and_apart(
    offsets: list[int], memory: list[int], sizes: list[int], found: tuple[int, int, int] | None
) -> None:
    assert make_requests(offsets, memory, sizes).regular == found


def test_blocks_that_go_on_in_the_file_and_in_memory_become_one() -> None:
    def prepared(
        offsets: list[int], memory: list[int], **chosen: bool
    ) -> list[tuple[int, int, int]]:
        requests = make_requests(offsets, memory, [5] * len(offsets))
        return blocks_of(prepare(requests, Settings(**chosen), writing=True)[0])

    assert prepared([0, 5, 10], [2, 7, 12]) == [(0, 2, 15)]
    assert prepared([0, 5, 20, 25], [0, 5, 10, 15]) == [(0, 0, 10), (20, 10, 10)]
    apart = [([0, 5], [0, 6]), ([0, 6], [0, 5]), ([0, 5, 10], [0, 6, 12])]
    assert [prepared(*one) for one in apart] == [
        [(o, m, 5) for o, m in zip(*one, strict=True)] for one in apart
    ]
    assert prepared([0, 5, 10], [2, 7, 12], merge=False) == [(0, 2, 5), (5, 7, 5), (10, 12, 5)]
    assert prepared([10, 3, 0], [0, 5, 10], sort=False) == [(10, 0, 5), (3, 5, 5), (0, 10, 5)], (
        "as they were given"
    )
    assert prepared([10, 3], [0, 5]) == [(3, 5, 5), (10, 0, 5)]
    assert prepared([0, 3], [0, 5]) == [(0, 0, 3), (3, 5, 5)], "the later write wins"


def test_empty_blocks_are_left_out() -> None:
    assert blocks_of(make_requests([0, 9, 5], [1, 2, 3], [3, 0, 2])) == [(0, 1, 3), (5, 3, 2)]
    assert make_requests([0, 9, 5], [-7, 2, 3], [3, 0, 2]).memory_bounds == (-7, 5)


@pytest.mark.parametrize(
    ("offsets", "memory", "sizes", "words"),
    [
        ([0, 5], [0, 5], [5], "2 offsets for 1 sizes: give one of each per block"),
        ([0, 5], [0], [5, 5], "2 offsets for 2 sizes"),
        ([0, 5, -1], [0, 5, 9], [5, 5, 5], "the offset of block 2 is -1: it must be 0 to 2"),
        ([0, 5, 2**62 + 1], [0, 5, 9], [5, 5, 5], "the offset of block 2 is 4611686018427387905"),
        ([0, 5], [0, 5], [5, -2], "the size of block 1 is -2"),
        ([0, 1.5], [0, 5], [5, 5], "the offset of block 1 is 1.5: give a whole number from 0 to 2"),
        ([0, 5], [0.5, 5], [5, 5], "the place of block 0 is 0.5: give a whole number from -"),
        ([0, 5], [0, 5], [5, "x"], "the size of block 0|the size of block 1"),
        ([0, 5], [0, 5], [5, 2**64], "the size of block 1 is 18446744073709551616"),
        ([[0], [5, 6]], [0, 5], [5, 5], "the offsets are lists of different lengths"),
        ([2**62 - 4], [0], [5], "a block ends beyond 2"),
    ],
)
def test_blocks_that_no_file_has_are_refused_with_their_number(
    offsets: Any, memory: Any, sizes: Any, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        make_requests(offsets, memory, sizes)


def test_whole_numbers_of_any_type_are_taken() -> None:
    large = np.array([7, 2**40], dtype=np.uint64)
    assert blocks_of(
        make_requests(large, np.array([-5, 3], dtype=object), np.array([1, 2], dtype=np.int8))
    ) == [
        (7, -5, 1),
        (2**40, 3, 2),
    ]
    assert make_requests([0], [0], [2**62]).end == 2**62


def test_few_blocks_are_striped_and_many_are_listed() -> None:
    layout = Layout(stripe_unit=10, subfiles=2)
    for count, kind in ((32, StripedPiece), (33, ListedPiece)):
        offsets = [20 * k + k % 2 for k in range(count)]
        pieces = list(
            pieces_of(make_requests(offsets, offsets, [3] * count), layout, 0, merge=True)
        )
        assert {type(piece) for piece in pieces} == {kind}
        assert sum(piece.size for piece in pieces) == 3 * count
        assert not list(
            pieces_of(make_requests(offsets, offsets, [3] * count), layout, 1, merge=True)
        )


def test_offsets_that_recur_within_256_blocks_are_regular() -> None:
    def kinds(subfiles: int, count: int) -> set[type]:
        places = [(subfiles + 1) * k for k in range(count)]
        requests, layout = (
            make_requests(places, places, [1] * count),
            Layout(stripe_unit=1, subfiles=subfiles),
        )
        return {type(piece) for piece in pieces_of(requests, layout, 1, merge=True)}

    assert kinds(40, 40) == kinds(256, 300) == {RegularPiece}
    assert kinds(40, 39) == kinds(257, 300) == {ListedPiece}


def test_layouts_count_from_one_and_sizes_name_each_subfile() -> None:
    for unit, subfiles, words in (
        (0, 1, "stripe unit is 0"),
        (1, 0, "number of subfiles is 0"),
        (True, 1, "is True"),
    ):
        with pytest.raises(UsageError, match=words):
            Layout(stripe_unit=unit, subfiles=subfiles)
    layout = Layout(stripe_unit=5, subfiles=2)
    assert (layout.subfile_sizes(0), layout.subfile_sizes(13), layout.logical_size((8, 5))) == (
        (0, 0),
        (8, 5),
        13,
    )
    assert [layout.logical_offset(1, k) for k in (0, 4, 5)] == [5, 9, 15]
    with pytest.raises(UsageError, match="3 sizes for 2 subfiles: give one for each"):
        layout.logical_size([1, 2, 3])
    with pytest.raises(UsageError, match="size of the file"):
        layout.subfile_sizes(-1)
