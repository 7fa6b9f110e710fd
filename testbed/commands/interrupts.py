"""Ctrl-C while a command runs: heard once, at whatever moment, and nothing else is said about it.

Python drops an exception that comes up in a finalizer or in a library's callback (the collector's, LLVM's); such a
Ctrl-C comes again.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import signal
import sys
import threading
import time
from typing import NoReturn

from testbed.commands.early import exit_interrupted_early

CLEAN_UP_S = 8.0
"""For so long after a Ctrl-C another one is ignored."""
AGAIN_S = 0.02
"""So long after it was dropped a Ctrl-C comes again: the callback is over by then, or drops it once more."""
_INTERRUPTED_AT = [-CLEAN_UP_S]


def install_interrupt_handler() -> None:
    """Ctrl-C raises KeyboardInterrupt from now on, unless somebody else has a say in it already."""
    if signal.getsignal(signal.SIGINT) in (signal.default_int_handler, exit_interrupted_early):
        signal.signal(signal.SIGINT, _interrupt_once)
        sys.unraisablehook = _dropped


def exit_interrupted(code: int) -> NoReturn:
    """End with the code, after Ctrl-C or an error that nobody foresaw: its one line was the last word. Python itself
    would kill the process by SIGINT where that once came while code in a text ran (an import of named tuples), although
    it was handled, and libraries complain of what they cannot put in order at such an end."""
    sys.unraisablehook = lambda _: None
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    atexit._run_exitfuncs()
    os._exit(code)


def _interrupt_once(_number: int, _frame: object) -> None:
    """Ctrl-C ends the command; one soon after it must not cut short the clean-up that the first one began. A later one
    counts."""
    now = time.monotonic()
    if now - _INTERRUPTED_AT[-1] > CLEAN_UP_S:
        _INTERRUPTED_AT.append(now)
        logging.disable()  # what breaks off now has a reason, and it will have been said
        raise KeyboardInterrupt


def _dropped(what: sys.UnraisableHookArgs) -> None:
    """An exception that Python has dropped: after a Ctrl-C its consequence, and not worth a word; was it Ctrl-C itself,
    again."""
    if len(_INTERRUPTED_AT) == 1:
        sys.__unraisablehook__(what)
    elif what.exc_type is KeyboardInterrupt:
        again = threading.Timer(AGAIN_S, _again)
        again.daemon = True
        again.start()


def _again() -> None:
    _INTERRUPTED_AT.append(-CLEAN_UP_S)
    os.kill(os.getpid(), signal.SIGINT)
