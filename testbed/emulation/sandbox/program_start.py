"""Starts programs in hosts, under a filter by which the kernel refuses some system calls."""

import os
import subprocess
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any

from testbed.emulation.sandbox import system_call_filter
from testbed.emulation.sandbox.sandbox import in_sandbox
from testbed.errors import CapabilityError


def start_program(argv: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
    """Start a program that cannot type into a terminal, and use no kernel keyring and no io_uring.

    A filter applies to one thread and everything that it starts. So a thread with the filter starts
    the program, and no further program is needed to install it.

    Outside a sandbox, the program is started as usual. There it represents a program inside, which
    the process with the network starts.

    Args:
        argv: The program and its arguments.
        options: Options of ``subprocess.Popen``.

    Raises:
        OSError: The program cannot be started.
        CapabilityError: The kernel refuses the filter.
    """
    if not in_sandbox():
        return subprocess.Popen(argv, **options)
    starting = _thread_of(os.getpid()).submit(_start, argv, options)
    try:
        return starting.result()
    except BaseException:
        # After an interrupt, no caller would wait for the program or end it.
        starting.add_done_callback(_end_program)
        raise


@cache
def _thread_of(_process: int) -> ThreadPoolExecutor:
    """Return the thread of this process that starts programs.

    It lives as long as the process, because a program may be set to die with the thread that
    started it. A forked process, which inherits the cache but no thread, gets its own.
    """
    executor = ThreadPoolExecutor(1, "programs in hosts")
    try:
        executor.submit(_refuse_calls).result()
    except system_call_filter.FilterError as error:
        raise CapabilityError(str(error)) from None
    return executor


def _refuse_calls() -> None:
    """Install the filter for this thread.

    On processors without a table of system calls there is no filter.
    """
    # The filter refuses keyctl(2), so the keyring must be joined before.
    system_call_filter.join_new_session_keyring()
    if system_call_filter.is_supported():
        system_call_filter.install(system_call_filter.FOR_HOSTS)


def _start(argv: Sequence[str], options: dict[str, Any]) -> subprocess.Popen[Any]:
    return subprocess.Popen(argv, **options)


def _end_program(starting: Future[subprocess.Popen[Any]]) -> None:
    """Kill a program as soon as it has started."""
    if starting.exception() is None:
        starting.result().kill()
