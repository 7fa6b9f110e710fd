"""Ctrl-C in a call of a session; it goes to the process that runs the tests."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

import testbed

pytestmark = pytest.mark.emulation


@pytest.fixture(autouse=True)
def interrupts_are_heard() -> Iterator[None]:
    """Also where the tests were begun in the background of a shell, which ignores SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_interrupted_call_leaves_the_network_up() -> None:
    with testbed.session("ring:4") as session:
        threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            session.exec("h0", ["sleep", "1000"])
        assert session.ping("h0", "h1").received == 3
