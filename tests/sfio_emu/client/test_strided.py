"""Blocks that are all alike, against real listeners: the same bytes as a byte array has, however small messages are."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from sfio_emu import Settings, StripedFile
from tests.helpers.listeners import listening, session_of

NAME = "p1/a;p1/b;p1/c"


class StridedBlocks(NamedTuple):
    """`number` blocks of `size` bytes, `distance` apart in the file from `offset` and `place_distance` in memory."""

    offset: int
    distance: int
    place: int
    place_distance: int
    size: int
    number: int

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # type: ignore[type-arg]
        numbers = np.arange(self.number)
        offsets, places = (
            self.offset + numbers * self.distance,
            self.place + numbers * self.place_distance,
        )
        return offsets, places, np.full(self.number, self.size)


SHAPES = {
    "interleaved as four processes do": (75, StridedBlocks(75, 300, 0, 75, 75, 2000)),
    "single bytes, more than a message may mean": (8, StridedBlocks(3, 96, 1, 3, 1, 9000)),
    "pieces of blocks in memory": (75, StridedBlocks(10, 450, 5, 90, 40, 900)),
    "on two subfiles each": (75, StridedBlocks(60, 300, 0, 75, 75, 500)),
    "longer than a message": (20_000, StridedBlocks(0, 240_000, 0, 20_000, 20_000, 12)),
    "far apart": (75, StridedBlocks(0, 45_000, 0, 75, 75, 80)),
    "without gaps": (75, StridedBlocks(0, 75, 0, 75, 75, 500)),
    "neighbours in the file": (75, StridedBlocks(0, 75, 0, 100, 75, 500)),
}


@pytest.mark.parametrize("message_bytes", [None, 8192])
@pytest.mark.parametrize("unit, blocks", SHAPES.values(), ids=SHAPES)
def test_strided_blocks_are_written_and_read_as_a_byte_array_has_them(
    tmp_path: Path, unit: int, blocks: StridedBlocks, message_bytes: int | None
) -> None:
    draw = np.random.default_rng(4)
    offsets, places, sizes = blocks.arrays()
    end = int(offsets[-1] + sizes[-1])
    expected = bytearray(draw.integers(1, 256, end + 500, dtype=np.uint8).tobytes())
    data = draw.integers(1, 256, int(places[-1] + sizes[-1]) + 9, dtype=np.uint8).tobytes()
    settings = Settings() if message_bytes is None else Settings(message_bytes=message_bytes)
    with listening(tmp_path) as addresses:
        session = session_of(addresses, settings=settings)
        file = StripedFile.open(NAME, unit, session=session)
        file.pwrite(expected, 0)
        assert file.pwrite_blocks(data, *blocks.arrays()) == blocks.size * blocks.number
        for offset, place in zip(offsets.tolist(), places.tolist(), strict=True):
            expected[offset : offset + blocks.size] = data[place : place + blocks.size]
        assert file.pread(len(expected), 0) == expected
        for size in (end, end - blocks.size // 2 - 1, int(offsets[len(offsets) // 2]) + 1, 0):
            file.truncate(size)
            target, wanted, moved = bytearray(len(data)), bytearray(len(data)), 0
            for offset, place in zip(offsets.tolist(), places.tolist(), strict=True):
                there = expected[offset : min(offset + blocks.size, size)]
                wanted[place : place + len(there)] = there
                moved += len(there)
            assert (file.pread_blocks(target, *blocks.arrays()), target) == (moved, wanted)
        assert file.pwrite_blocks(data, *blocks.arrays()) == blocks.size * blocks.number, (
            "beyond the end"
        )
        assert file.size() == end
        again = file.pread(end, 0)
        assert isinstance(again, bytes)
        assert all(
            again[offset : offset + blocks.size] == data[place : place + blocks.size]
            for offset, place in zip(offsets.tolist(), places.tolist(), strict=True)
        )
        assert session.take_errors()["rejected"] == 0


def test_strided_request_size_does_not_grow_with_blocks(tmp_path: Path) -> None:
    with listening(tmp_path) as addresses:
        file = StripedFile.open(NAME, 75, session=session_of(addresses))
        data = bytes(75 * 4000)
        file.pwrite_blocks(data, *StridedBlocks(75, 300, 0, 75, 75, 4000).arrays())
        counters = file.counters
        assert (counters.messages, counters.requests) == (1, 4000)
        assert counters.disk_calls < 20
