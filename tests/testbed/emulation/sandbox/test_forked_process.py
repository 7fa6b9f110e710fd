"""Processes are started by a helper with one thread, while threads of this process start programs."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from testbed.emulation.sandbox.forked_process import ForkedProcess, OpenFile
from testbed.errors import InvalidRunError
from tests.helpers.paths import ROOT

STARTS = 100
PARENT = """
import sys, time
from testbed.emulation.sandbox.forked_process import ForkedProcess
from tests.testbed.emulation.sandbox.test_forked_process import wait_for_ever
print(ForkedProcess(wait_for_ever).pid, flush=True)
time.sleep(60)
"""


def echo(pipe: Connection, *arguments: object) -> None:
    pipe.send(arguments)


def wait_for_ever(pipe: Connection) -> None:
    pipe.send(os.getpid())
    time.sleep(60)


def send_through(pipe: Connection, socks: list[socket.socket], number: int) -> None:
    for sock in socks:
        sock.send(os.read(number, 1))
    pipe.send(threading.active_count())


def fail(pipe: Connection) -> None:
    raise SystemExit(7)


def test_both_start_at_once() -> None:
    """A child that has a program's error pipe keeps the thread that starts the program waiting."""
    running: list[subprocess.Popen[bytes]] = []

    def start_programs() -> None:
        for _ in range(STARTS):
            running.append(subprocess.Popen(["sleep", "60"]))

    thread = threading.Thread(target=start_programs, daemon=True)
    thread.start()
    processes = []
    for _ in range(STARTS):
        process = ForkedProcess(wait_for_ever)
        processes.append(process)
        assert process.pipe.recv() == process.pid
    thread.join(60)
    stuck = thread.is_alive()
    for process in processes:
        process.close()
    for program in running:
        program.kill()
        program.wait()
    assert not stuck
    assert len(running) == STARTS


def test_sockets_and_files_are_passed(tmp_path: Path) -> None:
    """More of them than the kernel takes in one message."""
    (tmp_path / "text").write_bytes(b"x" * 300)
    pairs = [socket.socketpair() for _ in range(300)]
    with open(tmp_path / "text", "rb") as file:
        theirs = [pair[1] for pair in pairs]
        with closing(ForkedProcess(send_through, theirs, OpenFile(file.fileno()))) as process:
            assert process.pipe.recv() == 1
    for ours, theirs_end in pairs:
        assert ours.recv(1) == b"x"
        ours.close()
        theirs_end.close()


def test_pipe_ends_with_the_process() -> None:
    with closing(ForkedProcess(wait_for_ever)) as process:
        process.pipe.recv()
        assert process.is_alive()
        process.kill()
        with pytest.raises(EOFError):
            process.pipe.recv()
        assert process.join(10)
        assert process.exit_code == -signal.SIGKILL


def test_exit_code_is_reported() -> None:
    with closing(ForkedProcess(fail)) as process:
        assert process.join(10)
        assert process.exit_code == 1


def test_call_that_cannot_be_pickled_starts_nothing() -> None:
    with pytest.raises((AttributeError, TypeError)):
        ForkedProcess(echo, threading.Lock())


def test_children_die_with_the_killed_parent() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    parent = subprocess.Popen(
        [sys.executable, "-P", "-c", PARENT], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert parent.stdout is not None
    child = os.pidfd_open(int(parent.stdout.readline()))
    parent.kill()
    parent.communicate()
    ended = os.fdopen(child, "rb", buffering=0)

    assert select.select([ended], [], [], 10)[0]
    ended.close()


def test_helper_that_was_killed_is_started_again() -> None:
    with closing(ForkedProcess(wait_for_ever)) as process:
        process.pipe.recv()
        helper = int(Path(f"/proc/{process.pid}/stat").read_text().split()[3])
        os.kill(helper, signal.SIGKILL)
        assert process.join(10)
    deadline = time.monotonic() + 10
    while True:
        try:
            with closing(ForkedProcess(echo, 5)) as another:
                assert another.pipe.recv() == (5,)
            return
        except InvalidRunError:
            assert time.monotonic() < deadline
