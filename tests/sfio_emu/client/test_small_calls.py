"""One small message and its answer, as a conversation: whatever may come in its place, and however it is cut."""

from __future__ import annotations

import errno

import pytest

from sfio_emu import RemoteFailure, message_bodies, wire
from sfio_emu.client.connection import Link, SmallCall, SmallRequest
from sfio_emu.client.small_access import block_pieces, write_message
from sfio_emu.errors import ProtocolError
from sfio_emu.layout.striping import Layout
from sfio_emu.settings import ALL_CALLS, TransferCounters
from sfio_emu.wire import Kind


def answered(stream: bytes, step: int = 1 << 20) -> tuple[SmallCall, list[tuple[bytes, bytes]]]:
    """A call of number 7 to which these bytes came, so many at a time, and what it made of them."""
    got: list[tuple[bytes, bytes]] = []
    link = Link(connection=None, next_sequence=7, handles={("file 3", False, 9): 3})  # type: ignore[arg-type]
    call = SmallCall(
        "p1",
        link,
        SmallRequest(7, b"message", 0),
        lambda body, data: got.append((bytes(body), bytes(data))),
        TransferCounters(),
    )
    while stream:
        room = call.incoming()[0]
        count = min(len(room), len(stream), step)
        room[:count] = stream[:count]
        stream = stream[count:]
        call.received(count)
    return call, got


DATA = bytes(range(100))
SUM = wire.Checksum()
SUM.add(memoryview(DATA))
ANSWER = wire.encode_header(Kind.DONE, 7, b"body", len(DATA), checked=True) + DATA + SUM.trailer()


@pytest.mark.parametrize("step", [1, 27, 1000])
def test_an_answer_is_taken_however_it_is_cut(step: int) -> None:
    call, got = answered(ANSWER, step)
    assert (call.finished, got) == (True, [(b"body", DATA)])


def test_a_failure_names_the_call_and_the_path() -> None:
    body = message_bodies.FAILURE.pack(errno.ENOSPC, ALL_CALLS.index("write"), 3, 50)
    call, got = answered(wire.encode_header(Kind.FAILED, 7, body))
    assert call.finished and not got and isinstance(call.failure, RemoteFailure)
    assert (call.failure.path, call.failure.done_bytes) == ("file 3", 50)


@pytest.mark.parametrize(
    ("stream", "why"),
    [
        (ANSWER[:-1] + bytes([ANSWER[-1] ^ 1]), "the data of a message are corrupted"),
        (wire.encode_header(Kind.DONE, 8, b""), "unexpected answer to message 8"),
        (wire.encode_header(Kind.OPEN, 7, b""), "an answer of kind 2"),
        (ANSWER + ANSWER, "more bytes than the expected answer"),
        (wire.encode_header(Kind.REFUSED, 0, b"too long"), "it refused a message: too long"),
        (
            wire.encode_header(Kind.DONE, 7, b"", 1 << 20),
            "an answer of 1048604 bytes to a small call",
        ),
        (b"x" * 28, "not a message of this protocol"),
    ],
)
def test_invalid_answer_ends_the_connection(stream: bytes, why: str) -> None:
    with pytest.raises(ProtocolError, match=why):
        answered(stream)


@pytest.mark.parametrize("subfiles", [1, 2, 5])
def test_the_parts_of_a_block_are_its_fragments_subfile_by_subfile(subfiles: int) -> None:
    layout = Layout(stripe_unit=7, subfiles=subfiles)
    for offset in (0, 3, 6, 7, 20, 69, 70):
        for size in (1, 4, 7, 8, 30, 200):
            found = {piece.subfile: piece.bounds for piece in block_pieces(layout, offset, size)}
            expected: dict[int, tuple[int, int]] = {}
            for piece in layout.fragments(offset, size):
                low, _ = expected.get(piece.subfile, (piece.local_offset, 0))
                expected[piece.subfile] = low, piece.local_offset + piece.size
            assert found == expected


def test_a_message_in_one_piece_is_that_of_the_protocol() -> None:
    runs = wire.encode_runs([1], [5], [100])
    message = write_message(9, runs, [DATA[:40], DATA[40:]], checked=True)
    assert (
        message == wire.encode_header(Kind.WRITE, 9, runs, 100, checked=True) + DATA + SUM.trailer()
    )
