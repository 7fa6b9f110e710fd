"""Mutated messages against the listener's protocol over real files: no crash, no write outside, memory bounded.
SFIO_FUZZ_MESSAGES=100000 runs the full size (by default some seconds)."""

from __future__ import annotations

import gc
import os
import random
import tracemalloc
from pathlib import Path

import pytest

from sfio_emu import message_bodies, wire
from sfio_emu.listener.connection import ServerConnection
from sfio_emu.listener.reader import BufferPool
from sfio_emu.wire import Kind
from tests.helpers.mutated_messages import (
    LIMIT_BYTES,
    MAX_FILE_BYTES,
    SmallSubfiles,
    corpus,
    feed,
    mutated,
    valid_message,
)

pytestmark = [pytest.mark.scaled, pytest.mark.soak]
MESSAGES = int(os.environ.get("SFIO_FUZZ_MESSAGES", "4000"))
TRACED_MESSAGES = 1000


def opened_in(folder: Path) -> list[str]:
    """What this process has open of it: threads of other tests may open and close others."""
    opened = [os.path.realpath(descriptor) for descriptor in Path("/proc/self/fd").iterdir()]
    return sorted(path for path in opened if path.startswith(str(folder)))


def test_streams_that_are_kept_are_answered_and_leave_nothing_behind(tmp_path: Path) -> None:
    draw = random.Random(22)
    subfiles = SmallSubfiles(tmp_path)
    pool = BufferPool(4 * LIMIT_BYTES, LIMIT_BYTES)
    gc.collect()
    before = opened_in(tmp_path)
    streams = corpus()
    assert len(streams) > 10
    for stream in streams.values():
        for number in range(20):
            connection = ServerConnection(subfiles, pool)
            feed(connection, mutated(draw, stream) if number else stream)
            connection.abandon()
    assert opened_in(tmp_path) == before
    assert all(pool.acquire() is not None for _ in range(4))
    subfiles.dispose()


def test_mutated_messages_neither_crash_nor_escape_nor_take_memory(tmp_path: Path) -> None:
    draw = random.Random(20)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_bytes(b"kept")
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to(outside)
    subfiles = SmallSubfiles(root)
    pool = BufferPool(4 * LIMIT_BYTES, LIMIT_BYTES)
    gc.collect()
    before = opened_in(tmp_path)
    rejected = answered = connections = most_bytes = 0
    connection = ServerConnection(subfiles, pool)
    # The tests raise the threshold, and garbage would count as memory in use.
    thresholds = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    tracemalloc.start()
    try:
        for number in range(MESSAGES):
            if connection.closed or draw.random() < 0.02:
                connection.abandon()
                connections += 1
                connection = ServerConnection(subfiles, pool)
                feed(
                    connection,
                    wire.encode_header(Kind.OPEN, 0, message_bodies.encode_open("a"))
                    + wire.encode_header(Kind.OPEN, 1, message_bodies.encode_open("b/c")),
                )
            message = valid_message(draw, number)
            feed(connection, mutated(draw, message) if draw.random() < 0.85 else message)
            answered += 1
            rejected += subfiles.take_errors()[-1]
            if number == TRACED_MESSAGES:
                most_bytes = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
    finally:
        tracemalloc.stop()
        gc.set_threshold(*thresholds)
    connection.abandon()
    gc.collect()
    assert rejected > MESSAGES // 10
    assert connections > 10
    assert 0 < most_bytes < 4 * LIMIT_BYTES + 1_500_000
    assert opened_in(tmp_path) == before
    assert {path.name: path.read_bytes() for path in outside.iterdir()} == {"kept": b"kept"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["outside", "root"]
    for path in root.rglob("*"):
        assert (
            path.is_symlink()
            or path.is_dir()
            or path.stat().st_size <= MAX_FILE_BYTES + LIMIT_BYTES
        )
    free = [pool.acquire() for _ in range(4)]
    assert all(buffer is not None for buffer in free), "every buffer is given back"
