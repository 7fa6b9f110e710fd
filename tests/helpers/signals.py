"""Signals that a test sends to a program it started, whatever the test run itself ignores."""

from __future__ import annotations

import signal

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def heed_signals() -> None:
    """Let signals end the child process; call this before its program starts.

    This process may ignore them, under nohup or as a background job of a shell.
    """
    for number in ENDING:
        signal.signal(number, signal.SIG_DFL)
