"""Mutated messages against the listener's protocol over real files: no crash, no write outside, memory bounded.
SFIO_FUZZ_MESSAGES=100000 runs the full size (by default some seconds)."""

from __future__ import annotations

import gc
import os
import random
import tracemalloc
from pathlib import Path

from sfio_emu import wire
from sfio_emu.adapters.subfiles import RootedSubfiles
from sfio_emu.server import BufferPool, FileRange, ServerConnection, Tally
from sfio_emu.wire import Kind

MESSAGES = int(os.environ.get("SFIO_FUZZ_MESSAGES", "4000"))
LIMIT_BYTES = 1 << 14
TRACED_MESSAGES = 1000
LARGEST_FILE_BYTES = 1 << 20


class SmallSubfiles(RootedSubfiles):
    """Real files whose size stays testable: what ends far away is written (cut) near the start."""

    def truncate(self, file: int, size: int) -> None:
        super().truncate(file, size % LARGEST_FILE_BYTES)

    def write(self, file: int, piece: memoryview, offset: int) -> int:
        return super().write(file, piece, offset % LARGEST_FILE_BYTES)


def valid_message(draw: random.Random, sequence: int) -> bytes:
    """A well-formed message of any kind, sometimes with a hostile content."""
    kind = draw.choice(list(Kind))
    paths = ("a", "b/c", "../outside", "/etc/passwd", "b/../../outside", "link/x", ".", "", "x" * 300, "a\0b", "b")
    path = draw.choice(paths).encode()
    handle = draw.choice((1, 1, 2, 3, 2**32 - 1))
    runs = [
        (draw.choice((1, 1, 2)), draw.randrange(0, 3000), draw.choice((0, 7, 5000, 2**63 - 1)))
        for _ in range(draw.randrange(4))
    ]
    if draw.random() < 0.1:  # longer than any message the listener holds
        runs = [(1, draw.randrange(LIMIT_BYTES, 3 * LIMIT_BYTES), draw.randrange(9000)), *runs[: draw.randrange(2)]]
    handles, sizes, offsets = ([run[i] for run in runs] for i in range(3))
    data = b""
    if kind == Kind.OPEN:
        body = bytes([draw.randrange(2)]) + path
    elif kind in (Kind.CREATE, Kind.UNLINK):
        body = path
    elif kind == Kind.RESIZE:
        body = wire.SIZED.pack(handle, draw.choice((0, 10, 2**63, 2**40)))
    elif kind in (Kind.WRITE, Kind.READ):
        body = wire.encode_runs(handles, offsets, sizes) if runs else b""
        data = draw.randbytes(sum(sizes)) if kind == Kind.WRITE else b""
    else:
        body = wire.HANDLE.pack(handle)
    checked = draw.random() < 0.5
    message = wire.encode_header(kind, sequence, body, len(data), checked=checked) + data
    if checked and data:
        total = wire.Checksum()
        total.add(memoryview(data))
        message += total.trailer()
    return message


def mutated(draw: random.Random, message: bytes) -> bytes:
    """The message with bits flipped, bytes cut, doubled or inserted; or with its head made right again over them."""
    changed = bytearray(message)
    for _ in range(draw.randrange(4)):
        if not changed:
            break
        place = draw.randrange(min(len(changed), draw.choice((32, 64, len(changed)))))
        way = draw.randrange(4)
        if way == 0:
            changed[place] ^= 1 << draw.randrange(8)
        elif way == 1:
            changed[place] = draw.choice((0, 1, 127, 255))
        elif way == 2:
            del changed[place : place + draw.randrange(1, 9)]
        else:
            changed[place:place] = draw.randbytes(draw.randrange(1, 9))
    if len(changed) >= wire.HEADER_BYTES and draw.random() < 0.6:
        body_bytes = int.from_bytes(changed[12:16], "little")
        body = bytes(changed[wire.HEADER_BYTES : wire.HEADER_BYTES + min(body_bytes, 1 << 20)])
        changed[20:24] = wire.zlib.crc32(body).to_bytes(4, "little")
        changed[24:28] = wire.zlib.crc32(changed[:24]).to_bytes(4, "little")
    return bytes(changed)


def feed(connection: ServerConnection, stream: bytes) -> None:
    """Let the bytes arrive as a socket would bring them, and take the answers away."""
    place = 0
    while place < len(stream) or connection.outgoing():
        while pieces := connection.outgoing():
            first = pieces[0]
            assert isinstance(first, FileRange) or len(first) <= LIMIT_BYTES + 4096
            connection.sent(len(first))
        room = connection.incoming()
        if not room:
            return
        count = min(len(room[0]), len(stream) - place)
        if not count:
            return
        room[0][:count] = stream[place : place + count]
        place += count
        connection.received(count)


def test_mutated_messages_neither_crash_nor_escape_nor_take_memory(tmp_path: Path) -> None:
    draw = random.Random(20)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_bytes(b"kept")
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to(outside)
    subfiles, tally = SmallSubfiles(root), Tally()
    pool = BufferPool(4 * LIMIT_BYTES, LIMIT_BYTES)
    gc.collect()
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    rejected = answered = connections = most_bytes = 0
    connection = ServerConnection(subfiles, pool, tally)
    tracemalloc.start()
    try:
        for number in range(MESSAGES):
            if connection.closed or draw.random() < 0.02:
                connection.abandon()
                connections += 1
                connection = ServerConnection(subfiles, pool, tally)
                feed(
                    connection,
                    wire.encode_header(Kind.OPEN, 0, b"\x01a") + wire.encode_header(Kind.OPEN, 1, b"\x01b/c"),
                )
            message = valid_message(draw, number)
            feed(connection, mutated(draw, message) if draw.random() < 0.85 else message)
            answered += 1
            rejected += tally.take()
            if number == TRACED_MESSAGES:
                most_bytes = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
    finally:
        tracemalloc.stop()
    connection.abandon()
    gc.collect()
    assert rejected > MESSAGES // 10
    assert connections > 10
    assert 0 < most_bytes < 4 * LIMIT_BYTES + 1_500_000
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors
    assert {path.name: path.read_bytes() for path in outside.iterdir()} == {"kept": b"kept"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["outside", "root"]
    for path in root.rglob("*"):
        assert path.is_symlink() or path.is_dir() or path.stat().st_size <= LARGEST_FILE_BYTES + LIMIT_BYTES
    free = [pool.take() for _ in range(4)]
    assert all(buffer is not None for buffer in free), "every buffer is given back"
