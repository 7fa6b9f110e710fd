"""Programs in hosts that are started together and end together.

The first program that fails ends the others, and no process of them remains. A program may be a
child of this process, or run on another machine (``StartedProgram``).
"""

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import IO, Protocol, TextIO, cast

from testbed.emulation.attach.protocol import receive
from testbed.errors import SessionClosedError, TimeLimitError

# Numbers of signals in Linux.
_SIGNALS = range(1, 65)

# Time for programs to end after SIGTERM.
_GRACE_S = 2.0

# Interval at which a check is called while programs run.
_CHECK_S = 0.2


class StartedProgram(Protocol):
    """A running program.

    Exit codes are those of subprocess: -n if signal n ended the program.

    Attributes:
        stdout: The program's output.
        stderr: The program's error output.
    """

    stdout: IO[bytes]
    stderr: IO[bytes]

    def fileno(self) -> int:
        """Return a descriptor that is readable once the program has ended."""
        ...

    def poll(self) -> int | None:
        """Return the exit code, or None if the program runs."""
        ...

    def wait(self, timeout_s: float) -> int | None:
        """Wait for the end, and return the exit code, or None if the program still runs."""
        ...

    def signal(self, number: int) -> None:
        """Send a signal to the program and its children."""
        ...


class ChildProgram:
    """A child of this process that leads a session of its own.

    In a group, its output is piped.

    Args:
        child: The process.
    """

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        self.child = child
        self.stdout = cast("IO[bytes]", child.stdout)
        self.stderr = cast("IO[bytes]", child.stderr)
        self._ended = os.fdopen(os.pidfd_open(child.pid), "rb", buffering=0)

    def fileno(self) -> int:
        """Return a descriptor that is readable once the program has ended."""
        return self._ended.fileno()

    def poll(self) -> int | None:
        """Return the exit code, or None if the program runs."""
        return self.child.poll()

    def wait(self, timeout_s: float) -> int | None:
        """Wait for the end, and return the exit code, or None if the program still runs."""
        try:
            return self.child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def signal(self, number: int) -> None:
        """Send a signal to all processes of the program's session."""
        # All of them may have ended.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.child.pid, number)


class ProgramGroup(contextlib.AbstractContextManager["ProgramGroup"]):
    """The ranks 0, 1, ... of a program; a context manager, whose end ends those that still run.

    Their output is written to this process's, line by line.

    Args:
        programs: The ranks, which have been started.
        prefixed: Begin each line with the number of its rank.
        check: Called periodically while they run; an exception ends them.

    Attributes:
        programs: The ranks.
        ended: Rank -> exit code, for those that have ended.
    """

    def __init__(
        self,
        programs: Sequence[StartedProgram],
        *,
        prefixed: bool = False,
        check: Callable[[], None] | None = None,
    ) -> None:
        self.programs = tuple(programs)
        self.ended: dict[int, int] = {}
        self._prefixed = prefixed
        self._check = check
        self._lock = threading.Lock()
        self._threads = []
        for rank, program in enumerate(self.programs):
            self._threads.append(self._copy_output(rank, program.stdout, sys.stdout))
            self._threads.append(self._copy_output(rank, program.stderr, sys.stderr))

    def __exit__(self, *_: object) -> None:
        self._end()
        for thread in self._threads:
            thread.join(_GRACE_S)

    def wait(self, time_limit_s: float | None) -> tuple[int | None, int]:
        """Wait until all ranks have ended, or the first one has failed.

        Args:
            time_limit_s: Time limit in seconds, or None.

        Returns:
            Rank and exit code of the first that failed; (None, 0) if none did.

        Raises:
            TimeLimitError: They still run after the time limit.
        """
        deadline_s = float("inf")
        if time_limit_s is not None:
            deadline_s = time.monotonic() + time_limit_s
        rank_of_file = {program.fileno(): rank for rank, program in enumerate(self.programs)}
        while rank_of_file:
            remaining_s = deadline_s - time.monotonic()
            if remaining_s <= 0:
                raise TimeLimitError(
                    f"the program was ended after {time_limit_s:g} s; raise --time-limit"
                )
            if self._check is not None:
                self._check()
            wait_s = min(remaining_s, _CHECK_S)
            readable, _, _ = select.select(list(rank_of_file), (), (), wait_s)
            for file in readable:
                rank = rank_of_file[file]
                code = self.programs[rank].wait(0)
                if code is None:
                    continue
                del rank_of_file[file]
                self.ended[rank] = code
                if code != 0:
                    return rank, shell_code(code)
        return None, 0

    def cause(self, rank: int) -> tuple[int, int] | None:
        """Return the rank and its exit code if it has failed, or None.

        Its failure may be the cause for which other ranks failed, even if they ended earlier. The
        method waits a short time for its end.
        """
        code = self.programs[rank].wait(_GRACE_S)
        return (rank, shell_code(code)) if code else None

    def _copy_output(self, rank: int, source: IO[bytes], target: TextIO) -> threading.Thread:
        """Copy a rank's output in a thread, in complete lines, so that lines do not mix.

        Args:
            rank: The rank.
            source: Its output.
            target: Output of this process.
        """

        def copy() -> None:
            # The output may be closed while the thread reads.
            with source, contextlib.suppress(OSError):
                for line in source:
                    output = line
                    if self._prefixed:
                        output = f"[{rank}] ".encode() + line.rstrip(b"\n") + b"\n"
                    with self._lock:
                        target.flush()
                        target.buffer.write(output)
                        target.buffer.flush()

        thread = threading.Thread(target=copy, daemon=True)
        thread.start()
        return thread

    def _end(self) -> None:
        """End all ranks that run: first by SIGTERM, and later by SIGKILL."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            running = [program for program in self.programs if program.poll() is None]
            for program in running:
                program.signal(number)
            deadline_s = time.monotonic() + _GRACE_S
            for program in running:
                program.wait(max(0.0, deadline_s - time.monotonic()))


def attend(program: StartedProgram, client: socket.socket) -> int:
    """Pass a client's signals on to a program until it ends, and return the exit code.

    Args:
        program: The program.
        client: The connection to the client.

    Raises:
        SessionClosedError: The client disconnects.
    """
    while (code := program.poll()) is None:
        ready: list[object] = select.select((program, client), (), ())[0]  # type: ignore[type-var]
        if client in ready:
            frame = receive(client)
            if frame is None:
                raise SessionClosedError("the client has disconnected")
            number = frame.header.get("signal")
            if isinstance(number, int) and number in _SIGNALS:
                program.signal(number)
    return code


def shell_code(code: int) -> int:
    """Return the exit code of a program as a shell does: 128 + n if signal n ended it.

    >>> shell_code(7), shell_code(-9)
    (7, 137)
    """
    return code if code > 0 else 128 - code
