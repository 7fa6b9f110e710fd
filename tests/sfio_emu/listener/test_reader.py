"""The bytes of a client cut into requests, without subfiles: whole messages, corrupted ones, no buffer free."""

from __future__ import annotations

import pytest

from sfio_emu import message_bodies, wire
from sfio_emu.listener.reader import BufferPool, Reader, Request
from sfio_emu.wire import Kind, Malformed

LIMIT_BYTES = 8192


def parts_of(reader: Reader, stream: bytes, step: int = 1 << 20) -> list[Request]:
    """What the reader makes of a stream that arrives `step` bytes at a time; nothing is released."""
    parts = []
    while stream:
        place = reader.place()
        assert place is not None
        count = min(len(place), len(stream), step)
        place[:count] = stream[:count]
        stream = stream[count:]
        part = reader.received(count)
        if part is not None:
            parts.append(part)
    return parts


def message(
    kind: Kind, body: bytes, data: bytes = b"", *, sequence: int = 3, checked: bool = False
) -> bytes:
    stream = wire.encode_header(kind, sequence, body, len(data), checked=checked) + data
    if checked and data:
        total = wire.Checksum()
        total.add(memoryview(data))
        stream += total.trailer()
    return stream


@pytest.mark.parametrize("step", [1, 30, 1 << 20])
@pytest.mark.parametrize("checked", [False, True])
def test_a_message_comes_out_when_it_is_whole(step: int, checked: bool) -> None:
    reader = Reader(BufferPool(LIMIT_BYTES, LIMIT_BYTES))
    stream = message(Kind.WRITE, b"runs", b"d" * 5000, checked=checked)
    assert parts_of(reader, stream[:-1], step) == []
    [request] = parts_of(reader, stream[-1:])
    assert (request.header.kind, reader.sequence) == (Kind.WRITE, 3)
    assert (bytes(request.body), bytes(request.data)) == (b"runs", b"d" * 5000)


@pytest.mark.parametrize(
    "place", [wire.HEADER_BYTES + 1, wire.HEADER_BYTES + 4000, -1], ids=["body", "data", "checksum"]
)
def test_a_corrupted_message_is_refused_and_the_next_one_read(place: int) -> None:
    reader = Reader(BufferPool(LIMIT_BYTES, LIMIT_BYTES))
    stream = bytearray(message(Kind.WRITE, b"runs", b"d" * 5000, checked=True))
    stream[place] ^= 1
    with pytest.raises(Malformed, match="corrupted") as caught:
        parts_of(reader, bytes(stream))
    assert (caught.value.fatal, reader.sequence) == (False, 3)
    reader.release()
    [request] = parts_of(
        reader, message(Kind.WRITE, b"runs", b"e" * 5000, sequence=4, checked=True)
    )
    assert bytes(request.data) == b"e" * 5000


def test_a_wrong_head_is_fatal_and_has_no_number() -> None:
    reader = Reader(BufferPool(LIMIT_BYTES, LIMIT_BYTES))
    parts_of(reader, message(Kind.HELLO, b""))
    with pytest.raises(Malformed, match="not a message of this protocol") as caught:
        parts_of(reader, b"GET / HTTP/1.1\r\nHost: nobody\r\n"[: wire.HEADER_BYTES])
    assert (caught.value.fatal, reader.sequence) == (True, 0)


def test_without_a_free_buffer_the_head_is_read_and_the_rest_waits() -> None:
    pool = BufferPool(LIMIT_BYTES, LIMIT_BYTES)
    held = pool.acquire()
    assert held is not None
    reader = Reader(pool)
    stream = message(Kind.OPEN, message_bodies.encode_open("a"))
    assert parts_of(reader, stream[: wire.HEADER_BYTES]) == []
    assert reader.place() is None and reader.starved
    pool.release(held)
    assert len(parts_of(reader, stream[wire.HEADER_BYTES :])) == 1
    assert not reader.starved and reader.holds_buffer
