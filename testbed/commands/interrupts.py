"""Ends a command once on Ctrl-C, at any moment, with one line of output.

Python drops an exception that is raised in a finalizer or in the callback of a library (such as the
garbage collector or LLVM). If that happens to a Ctrl-C, the signal is sent again.
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

# A second Ctrl-C within this time is ignored, so that the clean-up can end.
CLEAN_UP_S = 8.0
# Delay after which a dropped Ctrl-C is sent again. By then the callback has usually ended; if not,
# it drops the signal again.
AGAIN_S = 0.02
# Times of the interrupts (monotonic, seconds). The first entry is not an interrupt: it lies so far
# back that the first Ctrl-C is accepted.
_INTERRUPTED_AT = [-CLEAN_UP_S]


def install_interrupt_handler() -> None:
    """Let Ctrl-C raise KeyboardInterrupt, unless the program has another handler of SIGINT."""
    if signal.getsignal(signal.SIGINT) in (signal.default_int_handler, exit_interrupted_early):
        signal.signal(signal.SIGINT, _interrupt_once)
        sys.unraisablehook = _handle_dropped


def exit_interrupted(code: int) -> NoReturn:
    """End the process with this code, and print nothing more.

    Call this after Ctrl-C or an unforeseen error. A normal exit would have two faults. First, if
    SIGINT arrived while Python executed code in a string (such as the definition of a named tuple),
    Python kills the process by SIGINT at its end, even if the signal was handled. Second, libraries
    print errors about objects that they cannot clean up.
    """
    sys.unraisablehook = lambda _: None
    # The reader of stdout may have ended.
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    atexit._run_exitfuncs()
    os._exit(code)


def _interrupt_once(_number: int, _frame: object) -> None:
    """Raise KeyboardInterrupt, unless the clean-up after an earlier Ctrl-C may still be running."""
    now = time.monotonic()
    if now - _INTERRUPTED_AT[-1] > CLEAN_UP_S:
        _INTERRUPTED_AT.append(now)
        # The messages of libraries about the interrupt would only repeat it.
        logging.disable()
        raise KeyboardInterrupt


def _handle_dropped(unraisable: sys.UnraisableHookArgs) -> None:
    """Handle an exception that Python has dropped.

    Before the first Ctrl-C, it is reported as usual. Afterwards it is a consequence of the Ctrl-C,
    and is not reported. If it is the KeyboardInterrupt of the Ctrl-C, the signal is sent again.
    """
    if len(_INTERRUPTED_AT) == 1:
        sys.__unraisablehook__(unraisable)
    elif unraisable.exc_type is KeyboardInterrupt:
        timer = threading.Timer(AGAIN_S, _interrupt_again)
        timer.daemon = True
        timer.start()


def _interrupt_again() -> None:
    _INTERRUPTED_AT.append(-CLEAN_UP_S)
    os.kill(os.getpid(), signal.SIGINT)
