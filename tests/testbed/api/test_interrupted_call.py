"""Ctrl-C in a call of a session. It goes to the process that runs the tests, so this one runs beside no others."""

from __future__ import annotations

import os
import signal
import threading

import pytest

import testbed

pytestmark = pytest.mark.emulation


def test_interrupted_call_leaves_the_network_up() -> None:
    with testbed.session("ring:4") as session:
        threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            session.exec("h0", ["sleep", "1000"])
        assert session.ping("h0", "h1").received == 3
