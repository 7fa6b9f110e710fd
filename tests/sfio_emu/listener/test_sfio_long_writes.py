"""Writes and reads longer than a message a listener can hold: done as they arrive, in chunks, with the buffers of
one."""

from __future__ import annotations

import errno
from itertools import pairwise

import numpy as np
import pytest

from sfio_emu import message_bodies, wire
from sfio_emu.client.transfer import pack
from sfio_emu.layout.piece import StripedPiece
from sfio_emu.layout.striping import Layout
from sfio_emu.listener.connection import ServerConnection
from sfio_emu.listener.operations import Rejections
from sfio_emu.listener.pool import BufferPool
from sfio_emu.settings import CALLS
from sfio_emu.wire import Kind
from tests.helpers.memory_files import MemoryFiles

LIMIT_BYTES = 8192 + 100
CHUNK_BYTES = 4096


class Listener:
    """A connection with one open file (handle 1), fed in parts of `step` bytes."""

    def __init__(self, files: MemoryFiles, step: int = 1 << 20) -> None:
        self.files, self.step, self.pool = files, step, BufferPool(LIMIT_BYTES, LIMIT_BYTES)
        self.connection = ServerConnection(files, self.pool, Rejections())
        self.say(wire.encode_header(Kind.OPEN, 0, message_bodies.encode_open("a")))

    def say(self, stream: bytes) -> list[tuple[int, bytes]]:
        """The answers (kind, body) to some messages."""
        place = 0
        answers = bytearray()
        while True:
            for piece in list(self.connection.outgoing()):
                answers += piece
                self.connection.sent(len(piece))
            room = self.connection.incoming()
            if not room or place == len(stream):
                break
            count = min(len(room[0]), len(stream) - place, self.step)
            room[0][:count] = stream[place : place + count]
            place += count
            self.connection.received(count)
        found = []
        while answers:
            head = wire.decode_header(answers[: wire.HEADER_BYTES], wire.MAX_LIMIT)
            end = wire.HEADER_BYTES + head.body_bytes
            found.append((head.kind, bytes(answers[wire.HEADER_BYTES : end])))
            del answers[: end + head.data_bytes]
        return found


def write(runs: list[tuple[int, int, int]], data: bytes, *, body: bytes | None = None) -> bytes:
    handles, sizes, offsets = (list(column) for column in zip(*runs, strict=True))
    body = wire.encode_runs(handles, offsets, sizes) if body is None else body
    return wire.encode_header(Kind.WRITE, 7, body, len(data), streamed=len(data) > LIMIT_BYTES) + data


DATA = np.random.default_rng(5).integers(0, 256, 50_000, dtype=np.uint8).tobytes()


@pytest.mark.parametrize("step", [1, 700, 1 << 20])
def test_a_long_run_is_written_in_chunks_that_end_at_pages(step: int) -> None:
    files = MemoryFiles()
    listener = Listener(files, step)
    [(kind, body)] = listener.say(write([(1, 50_000, 100), (1, 0, 60_000)], DATA))
    assert (kind, message_bodies.WRITE_ANSWER.unpack_from(body)[0]) == (Kind.DONE, 50_000)
    assert bytes(files.files[10]) == bytes(100) + DATA + bytes(60_000 - 50_100)
    assert all(size <= CHUNK_BYTES for _, size in files.calls)
    assert all((offset + size) % 4096 == 0 for offset, size in files.calls[:-1])
    assert listener.pool.acquire() is not None, "the only buffer is free again"


def test_messages_behind_a_long_write_are_understood() -> None:
    listener = Listener(MemoryFiles())
    kinds = [kind for kind, _ in listener.say(write([(1, 50_000, 0)], DATA) + write([(1, 3, 0)], b"abc"))]
    assert kinds == [Kind.DONE, Kind.DONE]
    assert bytes(listener.files.files[10]) == b"abc" + DATA[3:]


def test_a_full_disk_in_the_middle_is_reported_with_what_was_done_and_the_rest_is_skipped() -> None:
    listener = Listener(MemoryFiles(full_at=20_000))
    (kind, body), (after, _) = listener.say(write([(1, 50_000, 0)], DATA) + write([(1, 3, 0)], b"abc"))
    number, call, handle, done_bytes = message_bodies.FAILURE.unpack(body)
    assert (kind, number, CALLS[call], handle, done_bytes) == (Kind.FAILED, errno.ENOSPC, "write", 1, 16384)
    assert after == Kind.DONE
    assert len(listener.files.calls) == 6, "four chunks, the one that failed, the message behind"
    assert bytes(listener.files.files[10]) == b"abc" + DATA[3:16384]


@pytest.mark.parametrize(
    ("runs", "body"),
    [
        ([(1, 40_000, 0), (1, 10_000, 90_000)], None),
        ([(1, 49_999, 0)], None),
        ([(9, 50_000, 0)], None),
        ([(1, 50_000, 2**62 + 1)], None),
        ([(1, 50_000, 0)], b""),
    ],
    ids=["two runs", "another size", "no such handle", "too far", "no runs"],
)
def test_a_long_write_that_is_not_one_run_is_refused_and_nothing_written(
    runs: list[tuple[int, int, int]], body: bytes | None
) -> None:
    listener = Listener(MemoryFiles())
    [(kind, _)] = listener.say(write(runs, DATA, body=body))
    assert kind == Kind.REFUSED
    assert listener.connection.closed
    assert listener.files.calls == []


def test_a_client_that_dies_in_a_long_write_gives_its_buffer_back() -> None:
    listener = Listener(MemoryFiles())
    assert listener.say(write([(1, 50_000, 0)], DATA)[:30_000]) == []
    assert listener.connection.holds_buffer
    listener.connection.abandon()
    assert listener.pool.acquire() is not None
    assert bytes(listener.files.files[10]) == DATA[:28672], "chunks that were there whole"


def checked_write(data: bytes, offset: int) -> bytearray:
    """A streamed WRITE with a checksum behind each block."""
    body = wire.encode_runs([1], [offset], [len(data)])
    stream = bytearray(wire.encode_header(Kind.WRITE, 1, body, len(data), checked=True, streamed=True))
    total, place = wire.Checksum(), 0
    for count in wire.block_sizes(offset, len(data), CHUNK_BYTES):
        total.add(data[place : place + count])
        stream += data[place : place + count] + total.trailer()
        place += count
    return stream


def test_each_block_of_a_long_write_is_checked_before_it_is_written() -> None:
    listener = Listener(MemoryFiles())
    [(kind, _)] = listener.say(bytes(checked_write(DATA, 100)))
    assert kind == Kind.DONE
    assert bytes(listener.files.files[10]) == bytes(100) + DATA
    stream = checked_write(DATA, 0)
    stream[-20_000] ^= 1
    listener = Listener(MemoryFiles())
    [(kind, said)] = listener.say(bytes(stream))
    assert (kind, said) == (Kind.REFUSED, b"the data of a message are corrupted")
    assert bytes(listener.files.files[10]) == DATA[:28672]


def test_blocks_of_a_long_write_cannot_change_places() -> None:
    listener = Listener(MemoryFiles())
    stream = checked_write(DATA, 0)
    first, block = wire.HEADER_BYTES + wire.RUN_BYTES, CHUNK_BYTES + wire.TRAILER.size
    second = bytes(stream[first + block : first + 2 * block])
    stream[first + block : first + 2 * block] = stream[first + 2 * block : first + 3 * block]
    stream[first + 2 * block : first + 3 * block] = second
    [(kind, _)] = listener.say(bytes(stream))
    assert kind == Kind.REFUSED
    assert bytes(listener.files.files[10]) == DATA[:CHUNK_BYTES]


def test_a_long_run_goes_alone_holds_buffers_of_the_longest_size() -> None:
    layout = Layout(stripe_unit=50, subfiles=2)
    long, short = StripedPiece(layout, 0, 300, 100_000, 0), StripedPiece(layout, 1, 0, 200, 0)
    messages = list(pack([short, long, short], 8192, combine=True, longest_run=40_000))
    assert [[piece.bounds for piece in message] for message in messages[:2]] == [
        [(0, 200), (300, 8192)],
        [(8192, 45_056)],
    ]
    assert all(len(message) == 1 and message[0].size <= 40_000 for message in messages[1:-1])
    assert messages[-1][-1].bounds == (0, 200)
    joined = [piece.bounds for message in messages for piece in message if piece.subfile == 0]
    assert joined[0][0] == 300
    assert joined[-1][1] == 100_000
    assert all(before[1] == after[0] for before, after in pairwise(joined))
