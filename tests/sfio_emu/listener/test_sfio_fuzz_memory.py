"""The memory of a process that takes mutated messages to the very end: its peak is read from the kernel, in a process
of its own. SFIO_FUZZ_MESSAGES=100000 runs the full size."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.paths import ROOT

MESSAGES = int(os.environ.get("SFIO_FUZZ_MESSAGES", "4000"))
MAX_GROWTH_BYTES = 1_000_000
PROGRAM = """
import gc, random, sys, tempfile
from pathlib import Path
from tests.helpers.mutated_messages import LIMIT_BYTES, SmallSubfiles, feed, mutated, valid_message
from sfio_emu import wire
from sfio_emu.listener.connection import ServerConnection
from sfio_emu.listener.reader import BufferPool

def resident_bytes(key):
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024

def connected():
    connection = ServerConnection(subfiles, pool)
    opens = (wire.encode_header(wire.Kind.OPEN, n, b"\\x01" + path) for n, path in enumerate((b"a", b"b/c")))
    feed(connection, b"".join(opens))
    return connection

messages, leaked = int(sys.argv[1]), []
draw = random.Random(21)
with tempfile.TemporaryDirectory() as root:
    subfiles, limit = SmallSubfiles(Path(root)), LIMIT_BYTES
    pool = BufferPool(4 * limit, limit)
    connection = connected()
    for number in range(messages + 1000):
        if number == 1000:  # everything that is made once has been made
            gc.collect()
            before = resident_bytes("VmRSS")
            Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        if connection.closed or draw.random() < 0.02:
            connection.abandon()
            connection = connected()
        message = valid_message(draw, number)
        message = mutated(draw, message) if draw.random() < 0.85 else message
        feed(connection, message)
        if len(sys.argv) > 2:
            leaked.append(bytearray(message))
    print(resident_bytes("VmHWM") - before)
"""


def growth_bytes(messages: int, *words: str) -> int:
    """Bytes between the peak and what was resident after the first thousand messages."""
    command = [sys.executable, "-c", PROGRAM, str(messages), *words]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=280, cwd=ROOT
    )
    return int(done.stdout)


@pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="this kernel does not tell peaks"
)
def test_memory_stays_bounded_through_all_mutated_messages() -> None:
    assert growth_bytes(MESSAGES) < MAX_GROWTH_BYTES


@pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="this kernel does not tell peaks"
)
def test_a_listener_that_kept_its_messages_would_be_found_out() -> None:
    assert growth_bytes(4000, "leak") > MAX_GROWTH_BYTES
