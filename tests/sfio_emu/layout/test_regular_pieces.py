"""Blocks that are all alike are the same runs and the same bytes as if each was listed."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sfio_emu.layout.piece import ListedPiece, Piece, RegularPiece, pieces_of, regular_pieces
from sfio_emu.layout.requests import Requests, make_requests
from sfio_emu.layout.striping import Layout


@st.composite
def regular_requests(draw: st.DrawFn) -> tuple[Requests, Layout]:
    """Blocks of up to a stripe unit, some distance apart in the file and in memory, on some subfiles."""
    unit, subfiles = draw(st.integers(1, 12)), draw(st.integers(1, 5))
    size = draw(st.integers(1, unit))
    distance = draw(
        st.one_of(st.integers(size, 5 * unit), st.integers(1, 7).map(lambda n: n * unit))
    )
    memory_step, count = size + draw(st.integers(0, 3)), draw(st.integers(33, 60))
    first = draw(st.integers(0, 100))
    offsets = [first + max(distance, size) * number for number in range(count)]
    places = [5 + memory_step * number for number in range(count)]
    return make_requests(offsets, places, [size] * count), Layout(
        stripe_unit=unit, subfiles=subfiles
    )


def listed(requests: Requests) -> Requests:
    """The same, of which nobody says that they are regular."""
    same = Requests(offsets=requests.offsets, memory=requests.memory, sizes=requests.sizes)
    same.__dict__["regular"] = None
    return same


def runs_of(pieces: list[Piece]) -> list[tuple[int, int]]:
    return [(row["offset"], row["size"]) for piece in pieces for row in piece.listed().rows()]


@settings(deadline=None)
@given(regular_requests(), st.data())
def test_regular_blocks_are_the_runs_and_bytes_that_a_list_of_them_is(
    drawn: tuple[Requests, Layout], data: st.DataObject
) -> None:
    requests, layout = drawn
    assert requests.regular is not None
    memory = np.random.default_rng(1).integers(
        0, 256, int(requests.memory[-1]) + 20, dtype=np.uint8
    )
    for subfile in range(layout.subfiles):
        quick = list(pieces_of(requests, layout, subfile, merge=True))
        slow = list(pieces_of(listed(requests), layout, subfile, merge=True))
        assert runs_of(quick) == runs_of(slow)
        for piece, other in zip(quick, slow, strict=True):
            assert (piece.size, piece.bounds, piece.run_count) == (
                other.size,
                other.bounds,
                other.run_count,
            )
            start = data.draw(st.integers(0, piece.size - 1))
            end = data.draw(st.integers(start + 1, piece.size))
            part, other_part = piece.slice(start, end), other.slice(start, end)
            assert runs_of([part]) == runs_of([other_part])
            moved = gathered(part, memory)
            assert (
                moved == gathered(other_part, memory) == b"".join(map(bytes, part.vectors(memory)))
            )
            back = np.zeros_like(memory)
            part.scatter(back, np.frombuffer(moved, dtype=np.uint8).copy())
            assert gathered(part, back) == moved and int(np.count_nonzero(back)) <= len(moved)


def gathered(piece: Piece, memory: np.ndarray) -> bytes:  # type: ignore[type-arg]
    stream = np.empty(piece.size, dtype=np.uint8)
    piece.gather(memory, stream)
    return stream.tobytes()


def test_interleaved_stripe_units_are_regular_and_others_are_listed() -> None:
    def kinds(distance: int, size: int = 75, subfiles: int = 3) -> list[type]:
        layout = Layout(stripe_unit=75, subfiles=subfiles)
        requests = make_requests(
            [75 + distance * n for n in range(40)], [size * n for n in range(40)], [size] * 40
        )
        assert (regular_pieces(requests, layout, 0) is not None) == (
            requests.regular is not None and size <= 75
        )
        return [
            type(piece)
            for n in range(subfiles)
            for piece in pieces_of(requests, layout, n, merge=True)
        ]

    assert kinds(300) == [RegularPiece] * 3
    assert kinds(600) == [RegularPiece] * 3
    assert kinds(300, size=100) == [ListedPiece] * 3, "blocks on two subfiles each"


def test_as_many_whole_runs_as_fit_a_message() -> None:
    for run_bytes in (1, 75):
        piece = RegularPiece(0, run_bytes, 40, at=(0, 300), source=(0, 225))
        for room in range(120, 5000, 37):
            size = piece.fitting(room)
            assert size % run_bytes == 0 and piece.slice(0, size).cost_bytes <= room
            assert 16 * (size // run_bytes) <= room, "no more runs than a listener takes"
        assert piece.fitting(10_000) == piece.size
    assert piece.fitting(50) == 0 and piece.listed().fitting(50) == 34
    assert runs_of([piece.slice(0, 34)]) == [(0, 34)]
