"""Interrupts wait until what they must not meet is over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from socket import socket, socketpair

import pytest

from testbed.emulation.sandbox.process_lifetime import interrupts_after


@pytest.fixture
def another() -> Iterator[threading.Thread]:
    """A thread that does nothing."""
    over = threading.Event()
    thread = threading.Thread(target=over.wait, daemon=True)
    thread.start()
    yield thread
    over.set()
    thread.join()


@pytest.fixture
def handled() -> Iterator[socket]:
    """Ctrl-C raises KeyboardInterrupt, whatever runs the tests; where a byte can be read the signal has reached its
    thread."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    here, there = socketpair()
    there.setblocking(False)
    here.settimeout(30)
    woken = signal.set_wakeup_fd(there.fileno())
    with here, there:
        yield here
        signal.set_wakeup_fd(woken)
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("to_another", [False, True])
def test_an_interrupt_in_the_block_is_heeded_after_it(
    handled: socket, another: threading.Thread, to_another: bool
) -> None:
    """Whichever thread the kernel gives it to; Python raises it in this one."""
    done = []
    receiver = another if to_another else threading.current_thread()
    with pytest.raises(KeyboardInterrupt), interrupts_after():
        assert receiver.ident is not None
        signal.pthread_kill(receiver.ident, signal.SIGINT)
        assert handled.recv(1)
        for step in range(1000):
            done.append(step)
    assert len(done) == 1000
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("handled")
def test_without_an_interrupt_nothing_is_raised() -> None:
    with interrupts_after():
        pass
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_threads_have_no_say_in_it() -> None:
    """Python raises Ctrl-C in its main thread alone: elsewhere there is nothing to wait for."""
    went: list[bool] = []

    def enter() -> None:
        with interrupts_after():
            went.append(True)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert went == [True]


_SEMAPHORES = """
import multiprocessing, sys
from testbed.emulation.sandbox.process_lifetime import spawned_children

with spawned_children() as directory:
    queue = multiprocessing.get_context("spawn").Queue()
    print(directory, flush=True)
    sys.stdin.read()
"""


def test_semaphores_go_with_a_killed_process_group() -> None:
    """As a batch system kills a job, multiprocessing's own tracker included."""
    program = subprocess.Popen(
        [sys.executable, "-P", "-c", _SEMAPHORES],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with program:
        assert program.stdout is not None
        directory = Path(program.stdout.readline().strip())
        pattern = f"sem.{directory.name}-*"
        made = list(Path("/dev/shm").glob(pattern))
        os.killpg(program.pid, signal.SIGKILL)
    assert made != []
    until = time.monotonic() + 20
    while time.monotonic() < until and (directory.exists() or any(Path("/dev/shm").glob(pattern))):
        time.sleep(0.05)
    assert list(Path("/dev/shm").glob(pattern)) == []
    assert not directory.exists()


_SPAWNING = """
import json, multiprocessing, os, sys
from unittest import mock
from testbed.emulation.sandbox import process_lifetime

def path_flag():
    return sys.flags.safe_path, os.environ.get("PYTHONSAFEPATH")

if __name__ == "__main__":
    noexec = mock.Mock(f_flag=os.ST_NOEXEC) if sys.argv[1] == "noexec" else os.statvfs("/")
    with mock.patch.object(os, "statvfs", return_value=noexec):
        with process_lifetime.spawned_children():
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                print(json.dumps(pool.apply(path_flag)))
    print(json.dumps(path_flag()))
"""


@pytest.mark.parametrize(("mount", "variable"), [("exec", "null"), ("noexec", '"1"')])
def test_spawned_children_ignore_the_directory(tmp_path: Path, mount: str, variable: str) -> None:
    """Also if no program may run in the temporary directory."""
    script = tmp_path / "spawning.py"
    script.write_text(_SPAWNING)
    done = subprocess.run(
        [sys.executable, str(script), mount], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [f"[true, {variable}]", "[false, null]"]
