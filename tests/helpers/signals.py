"""Signals that a test sends to a program it started, whatever the test run itself ignores."""

from __future__ import annotations

import signal

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def heed_signals() -> None:
    """In a child, before its program: signals end it, though they are ignored here (nohup, a shell's background
    job)."""
    for number in ENDING:
        signal.signal(number, signal.SIG_DFL)
