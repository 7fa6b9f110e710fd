"""Well-formed messages to a listener, some hostile, and mutations of them; subfiles that stay small whatever is
asked."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from sfio_emu import message_bodies, wire
from sfio_emu.adapters.listener_disk import RootedSubfiles
from sfio_emu.listener.connection import ServerConnection
from sfio_emu.wire import Kind

LIMIT_BYTES = 1 << 14
MAX_FILE_BYTES = 1 << 20


class SmallSubfiles(RootedSubfiles):
    """Real files whose size stays testable: what ends far away is written (cut) near the start."""

    def truncate(self, file: int, size: int) -> None:
        super().truncate(file, size % MAX_FILE_BYTES)

    def write(self, file: int, piece: memoryview, offset: int) -> int:
        return super().write(file, piece, offset % MAX_FILE_BYTES)


def valid_message(draw: random.Random, sequence: int) -> bytes:
    """A well-formed message of any kind, sometimes with a hostile content."""
    kind = draw.choice(list(Kind))
    paths = (
        "a",
        "b/c",
        "../outside",
        "/etc/passwd",
        "b/../../outside",
        "link/x",
        ".",
        "",
        "x" * 300,
        "a\0b",
        "b",
    )
    path = draw.choice(paths).encode()
    handle = draw.choice((1, 1, 2, 3, 2**32 - 1))
    runs: list[tuple[int, ...]] = [
        (draw.choice((1, 1, 2)), draw.randrange(0, 3000), draw.choice((0, 7, 5000, 2**63 - 1)))
        for _ in range(draw.randrange(4))
    ]
    if draw.random() < 0.1:  # longer than any message the listener holds
        runs = [
            (1, draw.randrange(LIMIT_BYTES, 3 * LIMIT_BYTES), draw.randrange(9000)),
            *runs[: draw.randrange(2)],
        ]
    handles, sizes, offsets = ([run[i] for run in runs] for i in range(3))
    data = b""
    if kind in (Kind.WRITE_STRIDED, Kind.READ_STRIDED):
        runs = [strided_run(draw) for _ in range(draw.randrange(3))]
        body = strided_body(runs)
        wanted = min(sum(size * count for _, size, _, _, count in runs), LIMIT_BYTES)
        data = draw.randbytes(wanted) if kind == Kind.WRITE_STRIDED else b""
    elif kind in (Kind.WRITE, Kind.READ):
        body = wire.encode_runs(handles, offsets, sizes) if runs else b""
        data = draw.randbytes(sum(sizes)) if kind == Kind.WRITE else b""
    else:
        body = small_body(draw, kind, handle, path)
    checked = draw.random() < 0.5
    message = wire.encode_header(kind, sequence, body, len(data), checked=checked)
    return message + (with_checksum(data) if checked else data)


def strided_body(runs: Iterable[tuple[int, int, int, int, int]]) -> bytes:
    """The body of WRITE_STRIDED and READ_STRIDED: handle, size, offset, distance and number of each."""
    return np.array([(*run, 0) for run in runs], dtype=wire.STRIDED_TYPE).tobytes()


def strided_run(draw: random.Random) -> tuple[int, int, int, int, int]:
    """Handle, size, offset, distance and count of strided runs, mostly as a client sends them."""
    size = draw.choice((0, 1, 4, 75, 75, 3000, 2**32 - 1))
    distance = draw.choice((0, 8, 300, 300, 5000, 2**62, 2**64 - 1))
    count = draw.choice((0, 1, 2, 40, 100, 1024, 1025, 2**32 - 1))
    return draw.choice((1, 1, 2)), size, draw.choice((0, 7, 5000, 2**63 - 1)), distance, count


def small_body(draw: random.Random, kind: Kind, handle: int, path: bytes) -> bytes:
    """The body of a message that is neither WRITE nor READ."""
    numbers = [draw.choice((0, 1, 10, 2**31, 2**32 - 1)) for _ in range(2)]
    if kind == Kind.OPEN:
        return message_bodies.OPEN.pack(draw.randrange(17)) + path
    if kind in (Kind.UNLINK, Kind.STAT, Kind.CREATE, Kind.MKDIR, Kind.RMDIR):
        return path
    if kind == Kind.LOCK:
        return bytes([draw.randrange(3)]) + path
    if kind == Kind.LIST:
        return message_bodies.encode_pair(
            b"", draw.choice(("", "a", "z" * 300)), draw.choice(("", ".", "b", "../outside"))
        )
    if kind == Kind.RENAME:
        names = [
            draw.choice(("a", "b/c", "d/e/f", "../outside", "link", "x" * 300)) for _ in range(2)
        ]
        return message_bodies.encode_pair(bytes([draw.randrange(3)]), *names)
    if kind == Kind.LAYOUT:
        return message_bodies.LAYOUT.pack(
            handle, draw.choice((0, 75, 2**64 - 1)), *numbers, draw.randrange(2**64)
        )
    if kind == Kind.RESIZE:
        return message_bodies.RESIZE.pack(
            handle, draw.choice((0, 10, 2**63, 2**40)), draw.randrange(2**64)
        )
    if kind in (Kind.HELLO, Kind.KEY):
        return draw.randbytes(draw.choice((0, 16, 32)))
    return message_bodies.HANDLE.pack(handle)


def with_checksum(data: bytes) -> bytes:
    """The data followed by their checksum."""
    total = wire.Checksum()
    total.add(data)
    return data + total.trailer() if data else b""


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
        changed[20:24] = wire.body_check(body).to_bytes(4, "little")
        changed[24:28] = wire.zlib.crc32(changed[:24]).to_bytes(4, "little")
    return bytes(changed)


def feed(connection: ServerConnection, stream: bytes) -> None:
    """Let the bytes arrive as a socket would bring them, and take the answers away."""
    place = 0
    while place < len(stream) or connection.outgoing():
        pending, connection.pending = connection.pending, None
        if pending is not None and pending.work is not None:
            connection.answer(pending.work())
        while pieces := connection.outgoing():
            first = pieces[0]
            assert len(first) <= LIMIT_BYTES + 4096
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


def corpus() -> dict[str, bytes]:
    """Streams kept because they once found, or might find, a fault: by name, as their hexadecimal digits say."""
    files = sorted((Path(__file__).parent / "listener_corpus").glob("*.hex"))
    return {file.stem: bytes.fromhex(file.read_text()) for file in files}
