"""Interrupts wait until what they must not meet is over."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
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
