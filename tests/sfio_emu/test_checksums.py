"""The checksum of data sees bytes that change places, as a sum of words, which was used before, does not."""

from __future__ import annotations

import random

import pytest

from sfio_emu import wire
from sfio_emu.listener.reader import BufferPool, Reader, Request
from sfio_emu.wire import Kind, Malformed

PAGE = 4096
TRIALS = 300


def checksum(data: bytes) -> bytes:
    total = wire.Checksum()
    total.add(memoryview(data))
    return total.trailer()


def sum_of_words(data: bytes) -> int:
    return sum(memoryview(data).cast("Q")) % 2**64


def swapped(data: bytes, first: int, second: int, size: int) -> bytes:
    changed = bytearray(data)
    changed[first : first + size], changed[second : second + size] = (
        data[second : second + size],
        data[first : first + size],
    )
    return bytes(changed)


def rotated(draw: random.Random, data: bytes) -> bytes:
    by = PAGE * draw.randrange(1, len(data) // PAGE)
    return data[by:] + data[:by]


def moved_pages(draw: random.Random, data: bytes) -> bytes:
    first, second = (PAGE * number for number in draw.sample(range(len(data) // PAGE), 2))
    return swapped(data, first, second, PAGE)


def moved_words(draw: random.Random, data: bytes) -> bytes:
    first = 8 * draw.randrange(PAGE // 8)
    return swapped(data, first, first + PAGE * draw.randrange(1, len(data) // PAGE), 8)


@pytest.mark.parametrize("move", [moved_pages, rotated, moved_words])
def test_bytes_that_change_places_are_seen(move) -> None:  # type: ignore[no-untyped-def]
    draw = random.Random(6)
    for _ in range(TRIALS):
        data = draw.randbytes(PAGE * 8)
        changed = move(draw, data)
        assert changed != data and sum_of_words(changed) == sum_of_words(data), (
            "the rival must not see it"
        )
        assert checksum(changed) != checksum(data)


def test_a_message_whose_pages_changed_places_is_refused() -> None:
    draw = random.Random(7)
    for _ in range(TRIALS):
        data = draw.randbytes(PAGE * 4)
        runs = wire.encode_runs([1], [0], [len(data)])
        message = wire.encode_header(Kind.WRITE, 5, runs, len(data), checked=True)
        assert isinstance(read(message + data + checksum(data)), Request)
        with pytest.raises(Malformed, match="the data of a message are corrupted"):
            read(message + moved_pages(draw, data) + checksum(data))


def read(stream: bytes) -> object:
    """What a listener makes of the bytes."""
    reader = Reader(BufferPool(1 << 20, 1 << 18))
    part: object = None
    while stream:
        place = reader.place()
        assert place is not None
        count = min(len(place), len(stream))
        place[:count], stream = stream[:count], stream[count:]
        part = reader.received(count)
    return part
