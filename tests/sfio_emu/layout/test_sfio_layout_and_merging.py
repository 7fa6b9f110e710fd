"""What must always hold of layouts, of the order of requests and of the way they are cut into messages."""

from __future__ import annotations

from unittest import mock

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfio_emu.client.transfer import pack, slices
from sfio_emu.errors import UsageError
from sfio_emu.layout import piece as layout_piece
from sfio_emu.layout.piece import ListedPiece, Piece, pieces_of
from sfio_emu.layout.requests import Requests, make_requests, prepare
from sfio_emu.layout.striping import Layout
from sfio_emu.settings import Settings

layouts = st.builds(
    lambda unit, count: Layout(stripe_unit=unit, subfiles=count),
    st.integers(1, 40),
    st.integers(1, 6),
)
blocks = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 60)), min_size=1, max_size=12)
many_blocks = st.lists(st.tuples(st.integers(0, 900), st.integers(1, 30)), min_size=33, max_size=60)


def requests_of(pairs: list[tuple[int, int]]) -> tuple[Requests, int]:
    """Blocks that lie one after the other in memory, and how much memory that is."""
    offsets, sizes = [offset for offset, _ in pairs], [size for _, size in pairs]
    places = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    return make_requests(offsets, places, sizes), sum(sizes)


def written(pairs: list[tuple[int, int]], memory: bytes) -> dict[int, int]:
    """Byte by byte what the blocks leave in the file when written one after the other."""
    result: dict[int, int] = {}
    place = 0
    for offset, size in pairs:
        result.update({offset + i: memory[place + i] for i in range(size)})
        place += size
    return result


@given(layouts, st.integers(0, 5000), st.integers(0, 700))
def test_fragments_cover_the_block_once_each_inside_one_unit(
    layout: Layout, offset: int, size: int
) -> None:
    place = offset
    for fragment in layout.fragments(offset, size):
        assert fragment.offset == place
        assert 0 < fragment.size <= layout.stripe_unit
        assert (
            fragment.offset // layout.stripe_unit
            == (fragment.offset + fragment.size - 1) // layout.stripe_unit
        )
        assert layout.logical_offset(fragment.subfile, fragment.local_offset) == fragment.offset
        place += fragment.size
    assert place == offset + size


def test_no_blocks_touch_nothing() -> None:
    none = make_requests([], [], [])
    assert (none.end, none.memory_bounds, none.total_bytes) == (0, (0, 0), 0)


@given(layouts, st.integers(0, 10**6))
def test_subfile_sizes_add_up_to_the_size_of_the_file(layout: Layout, size: int) -> None:
    sizes = layout.subfile_sizes(size)
    assert layout.logical_size(sizes) == size
    by_hand = [0] * layout.subfiles
    for fragment in layout.fragments(max(size - 2000, 0), min(size, 2000)):
        by_hand[fragment.subfile] = fragment.local_offset + fragment.size
    assert all(hand in (0, exact) for hand, exact in zip(by_hand, sizes, strict=True))


@given(blocks, st.booleans())
def test_prepared_writes_leave_what_writes_in_their_order_leave(
    pairs: list[tuple[int, int]], merge: bool
) -> None:
    requests, total = requests_of(pairs)
    memory = bytes(i % 251 for i in range(total))
    chosen, _ = prepare(requests, Settings(merge=merge), writing=True)
    result: dict[int, int] = {}
    for offset, place, size in zip(chosen.offsets, chosen.memory, chosen.sizes, strict=True):
        for i in range(int(size)):
            assert int(offset) + i not in result, "a byte is written twice"
            result[int(offset) + i] = memory[int(place) + i]
    assert result == written(pairs, memory)
    assert list(chosen.offsets) == sorted(chosen.offsets)


@given(blocks)
def test_prepared_reads_fill_every_block(pairs: list[tuple[int, int]]) -> None:
    requests, total = requests_of(pairs)
    needed, copies = prepare(requests, Settings(), writing=False)
    memory = np.zeros(total, dtype=np.int64) - 1
    for offset, place, size in zip(needed.offsets, needed.memory, needed.sizes, strict=True):
        memory[place : place + size] = np.arange(offset, offset + size)
    for source, target, size in copies:
        memory[target : target + size] = memory[source : source + size]
    wanted = [offset + i for offset, size in pairs for i in range(size)]
    assert memory.tolist() == wanted


def all_pieces(requests: Requests, layout: Layout) -> list[Piece]:
    return [
        piece
        for n in range(layout.subfiles)
        for piece in pieces_of(requests, layout, n, merge=True)
    ]


def runs_of(piece: Piece) -> tuple[list[int], list[int]]:
    """Where the runs of a piece begin and how long they are."""
    rows = piece.listed().rows()
    return rows["offset"].tolist(), rows["size"].tolist()


@settings(deadline=None)
@given(layouts, st.one_of(blocks, many_blocks), st.sampled_from([200, 400, 5000]))
def test_messages_carry_each_byte_to_its_place_and_none_is_too_long(
    layout: Layout, pairs: list[tuple[int, int]], limit: int
) -> None:
    requests, total = requests_of(pairs)
    memory = np.random.default_rng(total).integers(0, 256, max(total, 1), dtype=np.uint8)
    chosen, _ = prepare(requests, Settings(), writing=True)
    subfiles: list[dict[int, int]] = [{} for _ in range(layout.subfiles)]
    for message in pack(all_pieces(chosen, layout), limit, combine=True):
        assert sum(piece.size + 16 * len(runs_of(piece)[0]) for piece in message) <= limit
        for piece in message:
            stream = np.empty(piece.size, dtype=np.uint8)
            piece.gather(memory, stream)
            assert b"".join(piece.vectors(memory)) == stream.tobytes()
            place = 0
            for offset, size in zip(*runs_of(piece), strict=True):
                subfiles[piece.subfile].update(
                    {offset + i: int(stream[place + i]) for i in range(size)}
                )
                place += size
    expected: list[dict[int, int]] = [{} for _ in range(layout.subfiles)]
    for offset, value in written(pairs, memory.tobytes()).items():
        (fragment,) = layout.fragments(offset, 1)
        expected[fragment.subfile][fragment.local_offset] = value
    assert subfiles == expected


@settings(deadline=None)
@given(layouts, many_blocks, st.data())
def test_a_part_of_a_piece_is_that_part_of_its_stream(
    layout: Layout, pairs: list[tuple[int, int]], data: st.DataObject
) -> None:
    requests, total = requests_of(pairs)
    memory = np.arange(total, dtype=np.uint8)
    chosen, _ = prepare(requests, Settings(), writing=True)
    for piece in all_pieces(chosen, layout):
        stream = np.empty(piece.size, dtype=np.uint8)
        piece.gather(memory, stream)
        start = data.draw(st.integers(0, piece.size - 1))
        end = data.draw(st.integers(start + 1, piece.size))
        part = piece.slice(start, end)
        cut = np.empty(part.size, dtype=np.uint8)
        part.gather(memory, cut)
        assert cut.tolist() == stream[start:end].tolist()
        back = memory.copy()
        part.scatter(back, cut)
        assert back.tolist() == memory.tolist()


def test_neighbours_in_the_subfile_become_one_run_of_the_disk() -> None:
    layout = Layout(stripe_unit=5, subfiles=2)
    rounds = 40
    requests = make_requests(
        [10 * i for i in range(rounds)], [7 * i for i in range(rounds)], [5] * rounds
    )
    (piece,) = pieces_of(requests, layout, 0, merge=True)
    assert isinstance(piece, ListedPiece)
    assert runs_of(piece) == ([0], [5 * rounds])
    assert piece.fragments == rounds


def test_slices_hold_all_bytes_in_order() -> None:
    layout = Layout(stripe_unit=75, subfiles=3)
    requests = make_requests([11], [0], [9_000_000])
    (piece,) = pieces_of(requests, layout, 1, merge=True)
    total = 0
    for parts, size in slices([piece], piece.size):
        assert sum(part.size for part in parts) == size <= 1 << 20
        total += size
    assert total == piece.size


@settings(deadline=None)
@given(layouts, blocks, st.integers(1, 3), st.booleans())
def test_lists_in_small_batches_are_the_same_bytes(
    layout: Layout, pairs: list[tuple[int, int]], batch: int, merge: bool
) -> None:
    """Batches of one, two or three blocks: what a list of millions meets at its borders."""
    requests, total = requests_of(pairs)
    memory = np.random.default_rng(total).integers(0, 256, max(total, 1), dtype=np.uint8)
    chosen, _ = prepare(requests, Settings(), writing=True)
    expected: list[dict[int, int]] = [{} for _ in range(layout.subfiles)]
    for offset, value in written(pairs, memory.tobytes()).items():
        (fragment,) = layout.fragments(offset, 1)
        expected[fragment.subfile][fragment.local_offset] = value
    with mock.patch.multiple(layout_piece, LISTED_FROM=0, MAX_BATCH=batch):
        for subfile in range(layout.subfiles):
            found: dict[int, int] = {}
            for piece in pieces_of(chosen, layout, subfile, merge=merge):
                stream = np.empty(piece.size, dtype=np.uint8)
                piece.gather(memory, stream)
                assert piece.fragment_bytes == piece.size / piece.fragments
                assert piece.run_count == len(runs_of(piece)[0])
                assert piece.bounds == (
                    runs_of(piece)[0][0],
                    runs_of(piece)[0][-1] + runs_of(piece)[1][-1],
                )
                places = [
                    offset + i
                    for offset, size in zip(*runs_of(piece), strict=True)
                    for i in range(size)
                ]
                assert not found.keys() & set(places)
                found.update(zip(places, stream.tolist(), strict=True))
            assert found == expected[subfile]


def test_offsets_end_at_two_to_the_sixty_second() -> None:
    largest = 2**62
    assert make_requests([largest - 5], [0], [5]).end == largest
    for offsets, sizes, words in (
        ([largest - 5], [6], "ends beyond"),
        ([largest + 1], [1], "the offset of block 0"),
        ([0], [largest + 1], "the size of block 0"),
        ([-1], [1], "offset of block 0"),
    ):
        with pytest.raises(UsageError, match=words):
            make_requests(offsets, [0], sizes)
    assert Layout(stripe_unit=largest // 2, subfiles=2).round_bytes == largest
    with pytest.raises(UsageError, match="a round over all subfiles"):
        Layout(stripe_unit=largest // 2 + 1, subfiles=2)


def test_as_much_of_a_list_as_fits_a_message_and_no_more() -> None:
    """Sixteen bytes a run are part of the message; a run is cut only where a page or more of it still fits."""
    run, layout = 10_000, Layout(stripe_unit=10_000, subfiles=2)
    requests = make_requests(
        [4 * run * i for i in range(40)], [run * (i ^ 1) for i in range(40)], [run] * 40
    )
    (piece,) = pieces_of(requests, layout, 0, merge=True)
    assert isinstance(piece, ListedPiece) and len(runs_of(piece)[0]) == 40
    expected = {
        10: 0,
        5_000: 4_984,
        12_000: run,
        16_000: 15_968,
        20_032: 2 * run,
        41 * run: 40 * run,
    }
    assert {room: piece.fitting(room) for room in expected} == expected
    for room, fits in expected.items():
        if fits:
            part = piece.slice(0, fits)
            assert part.size + 16 * len(runs_of(part)[0]) <= room


def test_a_striped_piece_counts_the_stripe_units_that_it_touches() -> None:
    for subfiles, fragments in ((1, 1), (2, 5)):
        piece = layout_piece.StripedPiece(Layout(stripe_unit=10, subfiles=subfiles), 0, 5, 45, 0)
        assert (piece.fragments, piece.fragment_bytes, piece.bounds) == (
            fragments,
            40 / fragments,
            (5, 45),
        )


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("writeable", [True, False])
def test_lists_are_compiled_once_whatever_arrays_a_call_is_given(
    writeable: bool, aligned: bool
) -> None:
    """Read-only ones, as bytes and the blocks of a view are, and such as lie between two words of memory."""
    from sfio_emu.layout import kernels

    def column(numbers: list[int]) -> npt.NDArray[np.int64]:
        given = np.empty(8 * len(numbers) + 8, dtype=np.uint8)[0 if aligned else 1 :][
            : 8 * len(numbers)
        ].view(np.int64)
        given[:] = numbers
        given.flags.writeable = writeable
        return given

    every_other, data = column(list(range(0, 4000, 40))), np.arange(4000, dtype=np.uint8)
    data.flags.writeable = writeable
    requests, back = (
        make_requests(every_other, every_other, column([20] * 100)),
        np.zeros(4000, dtype=np.uint8),
    )
    for piece in layout_piece.pieces_of(
        requests, Layout(stripe_unit=8, subfiles=1), 0, merge=False
    ):
        stream = np.zeros(piece.size, dtype=np.uint8)
        piece.gather(data, stream)
        stream.flags.writeable = writeable
        piece.scatter(back, stream)
    assert np.array_equal(back, np.where(np.arange(4000) % 40 < 20, data, 0))
    for entry in (kernels.list_fragments, kernels.gather_list, kernels.scatter_list):
        assert len(getattr(entry, "signatures", [entry])) == 1, (
            "plain Python, where numba is off, has none"
        )


def test_fragments_of_every_size_are_copied_to_the_byte() -> None:
    """No byte is left out, and none beside a fragment is touched."""
    from sfio_emu.layout.kernels import gather_list, scatter_list

    sizes = np.array([*range(1, 300), *range(954, 1094)], dtype=np.int64)
    place = np.concatenate([[0], np.cumsum(sizes)])
    source = place[:-1] + 3 * np.arange(1, len(sizes) + 1)  # gaps of three bytes
    memory = np.random.default_rng(5).integers(
        1, 256, int(place[-1]) + 3 * len(sizes) + 3, dtype=np.uint8
    )
    chosen = np.concatenate(
        [np.arange(low, low + size) for low, size in zip(source, sizes, strict=True)]
    )
    stream = np.zeros(int(place[-1]), dtype=np.uint8)
    gather_list(memory, source, place, stream)
    assert np.array_equal(stream, memory[chosen])
    back = np.zeros_like(memory)
    scatter_list(back, source, place, stream)
    expected = np.zeros_like(memory)
    expected[chosen] = stream
    assert np.array_equal(back, expected)
