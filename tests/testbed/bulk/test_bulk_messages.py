"""Bulk messages: whole ones arrive once however the bytes are cut, damaged ones are never delivered."""

from __future__ import annotations

import random
import zlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.bulk.messages import (
    OVERHEAD_BYTES,
    Inbox,
    MessageArrived,
    MessageError,
    MessageHeader,
    MessageReader,
    PayloadPart,
    Payloads,
    trailer,
)
from testbed.errors import InputError


def encoded(number: int, attempt: int, payload: bytes) -> bytes:
    header = MessageHeader(transfer=number, attempt=attempt, length=len(payload))
    return header.encode() + payload + trailer(zlib.crc32(payload))


def read(data: bytes, cuts: list[int]) -> tuple[list[MessageArrived], bytes, MessageReader]:
    reader, arrived, payload = MessageReader(), list[MessageArrived](), b""
    edges = sorted({0, len(data), *(c % (len(data) + 1) for c in cuts)})
    for a, b in pairwise(edges):
        for event in reader.receive(memoryview(data)[a:b]):
            if isinstance(event, MessageArrived):
                arrived.append(event)
            elif isinstance(event, PayloadPart):
                payload += bytes(event.payload)
    return arrived, payload, reader


@given(
    st.lists(st.binary(max_size=200), min_size=1, max_size=5),
    st.lists(st.integers(0, 2000), max_size=20),
)
def test_messages_arrive_whole_however_the_bytes_are_cut(
    payloads: list[bytes], cuts: list[int]
) -> None:
    stream = b"".join(encoded(i, 1, p) for i, p in enumerate(payloads))
    arrived, payload, reader = read(stream, cuts)
    assert [a.header.transfer for a in arrived] == list(range(len(payloads)))
    assert all(a.intact for a in arrived)
    assert payload == b"".join(payloads)
    assert reader.unfinished is None


@given(st.binary(min_size=1, max_size=300), st.integers(0, 10_000), st.integers(1, 255))
def test_a_flipped_byte_is_never_delivered(payload: bytes, place: int, flip: int) -> None:
    data = bytearray(encoded(7, 1, payload))
    data[place % len(data)] ^= flip
    inbox = Inbox({7: zlib.crc32(payload)})
    try:
        arrived, _, _ = read(bytes(data), [])
    except MessageError:
        return
    assert not any(inbox.take(a) for a in arrived)


@given(st.binary(max_size=100), st.integers(0, 10_000))
def test_a_message_that_breaks_off_is_not_called_whole(payload: bytes, cut: int) -> None:
    data = encoded(3, 2, payload)
    arrived, _, _ = read(data[: cut % len(data)], [])
    assert not arrived


def test_a_message_is_delivered_once_however_often_it_comes() -> None:
    inbox = Inbox({1: zlib.crc32(b"x")})
    (first,), _, _ = read(encoded(1, 1, b"x"), [])
    (second,), _, _ = read(encoded(1, 2, b"x"), [])
    assert [inbox.take(first), inbox.take(second)] == [True, False]
    assert inbox.has(1)


def test_a_whole_message_of_another_transfer_is_not_delivered() -> None:
    inbox = Inbox({1: zlib.crc32(b"x")})
    (wrong,), _, _ = read(encoded(1, 1, b"y"), [])
    (unknown,), _, _ = read(encoded(2, 1, b"x"), [])
    assert not inbox.take(wrong) and not inbox.take(unknown)


def test_every_transfer_has_a_payload_of_its_own() -> None:
    payloads = Payloads(random.Random(1).randbytes(30_000), 1000)
    assert len({payloads.checksum(i) for i in range(500)}) == 500
    assert {len(payloads.payload(i)) for i in range(500)} == {1000}
    with pytest.raises(InputError, match="too short for a message"):
        Payloads(b"short", 1000)


def test_the_overhead_is_what_header_and_checksum_take() -> None:
    assert len(encoded(0, 1, b"")) == OVERHEAD_BYTES
