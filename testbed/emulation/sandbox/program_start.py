"""Starts programs in hosts, to which the kernel refuses some system calls."""

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
    """Start a program that types into no terminal and reaches no kernel keyring and no io_uring.

    It is started by a thread that has the filter, because a filter holds for one thread and what
    it starts. No further program has to run for it. Outside a sandbox a program is started as
    usual: it stands for one inside, which the network starts.

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
        # An interrupt leaves no program behind that nobody waits for.
        starting.add_done_callback(_end_program)
        raise


@cache
def _thread_of(_process: int) -> ThreadPoolExecutor:
    """Return the thread of this process; it lives as long, because programs end with theirs."""
    executor = ThreadPoolExecutor(1, "programs in hosts")
    try:
        executor.submit(_refuse_calls).result()
    except system_call_filter.FilterError as error:
        raise CapabilityError(str(error)) from None
    return executor


def _refuse_calls() -> None:
    """Set this thread up. Processors without a table of system calls have no filter."""
    system_call_filter.join_new_session_keyring()
    if system_call_filter.is_supported():
        system_call_filter.install(system_call_filter.FOR_HOSTS)


def _start(argv: Sequence[str], options: dict[str, Any]) -> subprocess.Popen[Any]:
    return subprocess.Popen(argv, **options)


def _end_program(starting: Future[subprocess.Popen[Any]]) -> None:
    if starting.exception() is None:
        starting.result().kill()
