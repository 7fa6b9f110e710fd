"""A listener in a process of its own under mutated messages over real connections, many at once, while a client reads
and writes: it outlives them, takes no memory for them, and the client is served in time. SFIO_SOAK_S says for how long
(`make soak`: an hour).

In time: what a call takes beyond the time for which listener or client were ready and got no processor, because other
programs had it. Both are printed.
"""

from __future__ import annotations

import os
import random
import socket
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from sfio_emu import StripedFile, message_bodies, wire
from sfio_emu.wire import Kind
from tests.helpers.listeners import attacked, session_of
from tests.helpers.mutated_messages import corpus, mutated, valid_message

pytestmark = [pytest.mark.scaled, pytest.mark.soak]
SECONDS = float(os.environ.get("SFIO_SOAK_S", "2"))
SEED = int(os.environ.get("SFIO_SOAK_SEED", "30"))
CLIENTS = 20
MAX_GROWTH_BYTES = (
    80 << 20
)  # the buffers of --memory, and what one request takes while it is carried out
MAX_WAIT_S = 2.0


def test_a_listener_outlives_mutated_messages_and_serves_others(tmp_path: Path) -> None:
    draw, streams, sent = random.Random(SEED), list(corpus().values()), Counter[str]()
    small = message_bodies.encode_open("a")
    with attacked(tmp_path) as it:
        file = StripedFile.open("p1/mine", 75, session=session_of(it.addresses, timeout_s=30))
        before, worst_s, worst_own_s = it.memory(), 0.0, 0.0
        hostile: list[socket.socket] = []
        end_s = time.monotonic() + SECONDS
        while time.monotonic() < end_s:
            if len(hostile) < CLIENTS:
                hostile.append(it.knock())
                hostile[-1].setblocking(False)
                with suppress(OSError):
                    hostile[-1].send(wire.encode_header(Kind.OPEN, 0, small))
            for _ in range(50):
                number = draw.randrange(len(hostile))
                stream = (
                    draw.choice(streams)
                    if draw.random() < 0.2
                    else valid_message(draw, sent.total())
                )
                if not harmless(stream):
                    continue
                sent["messages"] += 1
                if not said(
                    hostile[number], mutated(draw, stream) if draw.random() < 0.85 else stream
                ):
                    hostile.pop(number).close()
                    sent["connections"] += 1
                    break
            data = draw.randbytes(5000)
            waited_s, start_s = -ready_s(it.process.pid, os.getpid()), time.monotonic()
            assert file.pwrite(data, 0) == len(data)
            assert file.pread(len(data), 0) == data
            took_s = time.monotonic() - start_s
            waited_s += ready_s(it.process.pid, os.getpid())
            worst_s, worst_own_s = max(worst_s, took_s), max(worst_own_s, took_s - waited_s)
            it.streams[:] = hostile
        growth = it.memory() - before
        print(
            f"{dict(sent)}, worst call of the client {worst_s:.3f} s, {worst_own_s:.3f} s without waiting for a"
            f" processor, memory grew by {growth / 1e6:.1f} MB"
        )
        assert sent["messages"] > 100 and sent["connections"] > 2
        assert worst_own_s < MAX_WAIT_S
        assert growth < MAX_GROWTH_BYTES


def ready_s(*processes: int) -> float:
    """How long the threads of processes have been ready and had no processor."""
    tasks = [task for process in processes for task in Path(f"/proc/{process}/task").iterdir()]
    return sum(int((task / "schedstat").read_text().split()[1]) for task in tasks) / 1e9


def harmless(stream: bytes) -> bool:
    """Not a message that would fill the disk of this machine."""
    return b"\0\0\0\0\0\0\0\x40" not in stream


def said(client: socket.socket, stream: bytes) -> bool:
    """Send what can be sent and take some answers away; whether the connection still stands."""
    act: Callable[[], object]
    for act in (lambda: client.send(stream), lambda: client.recv(1 << 16)):
        try:
            if act() == b"":
                return False
        except BlockingIOError:
            continue
        except OSError:
            return False
    return True
