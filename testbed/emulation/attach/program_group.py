"""Programs in hosts that are started together and end together: the first that fails ends the others, and nothing is
left of them.

What a program is does not matter here: a child of this process, or one on another machine (``StartedProgram``).
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

_SIGNALS = range(1, 65)
_GRACE_S = 2.0
_LOOK_S = 0.2


class StartedProgram(Protocol):
    """A program that runs. ``fileno``: of a file that can be read once it has ended. Exit codes are subprocess's: -n
    for signal n."""

    stdout: IO[bytes]
    stderr: IO[bytes]

    def fileno(self) -> int: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout_s: float) -> int | None: ...

    def signal(self, number: int) -> None: ...


class ChildProgram:
    """A child of this process that leads a session of its own; in a group its output is piped."""

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        self.child = child
        self.stdout, self.stderr = cast("IO[bytes]", child.stdout), cast("IO[bytes]", child.stderr)
        self._ended = os.fdopen(os.pidfd_open(child.pid), "rb", buffering=0)

    def fileno(self) -> int:
        return self._ended.fileno()

    def poll(self) -> int | None:
        return self.child.poll()

    def wait(self, timeout_s: float) -> int | None:
        """Exit code, None where it still runs after so long."""
        try:
            return self.child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def signal(self, number: int) -> None:
        """To all of its session."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.child.pid, number)


class ProgramGroup(contextlib.AbstractContextManager["ProgramGroup"]):
    """Ranks 0, 1, ... of a program; leaving the block ends what is left of them. What they write is written here, line
    by line.

    ``prefixed``: each line begins with its rank. ``check``: called now and then while they run; what it raises ends
    them.
    """

    def __init__(
        self,
        programs: Sequence[StartedProgram],
        *,
        prefixed: bool = False,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self.programs = tuple(programs)
        self.ended: dict[int, int] = {}
        """Rank -> exit code, of those that have ended."""
        self._prefixed, self._check = prefixed, check
        self._lock = threading.Lock()
        self._echoes = [
            self._echo(rank, stream, target)
            for rank, program in enumerate(self.programs)
            for stream, target in ((program.stdout, sys.stdout), (program.stderr, sys.stderr))
        ]

    def __exit__(self, *_: object) -> None:
        self._end()
        for thread in self._echoes:
            thread.join(_GRACE_S)

    def wait(self, time_limit_s: float | None) -> tuple[int | None, int]:
        """(rank, exit code) of the first that failed, (None, 0) where none did; TimeLimitError when the time is
        over."""
        until = float("inf") if time_limit_s is None else time.monotonic() + time_limit_s
        watched = {program.fileno(): rank for rank, program in enumerate(self.programs)}
        while watched:
            left_s = until - time.monotonic()
            if left_s <= 0:
                raise TimeLimitError(
                    f"the program was ended after {time_limit_s:g} s; raise --time-limit"
                )
            self._check()
            for file in select.select(list(watched), (), (), min(left_s, _LOOK_S))[0]:
                rank = watched[file]
                code = self.programs[rank].wait(0)
                if code is None:
                    continue
                del watched[file]
                self.ended[rank] = code
                if code != 0:
                    return rank, shell_code(code)
        return None, 0

    def cause(self, rank: int) -> tuple[int, int] | None:
        """That rank with its exit code where it failed too: the others may have ended because of it, and before it."""
        code = self.programs[rank].wait(_GRACE_S)
        return (rank, shell_code(code)) if code else None

    def _echo(self, rank: int, source: IO[bytes], target: TextIO) -> threading.Thread:
        """Whole lines, so that those of different ranks do not mix."""

        def copy() -> None:
            with source, contextlib.suppress(OSError):
                for line in source:
                    with self._lock:
                        target.flush()
                        if self._prefixed:
                            line = f"[{rank}] ".encode() + line.rstrip(b"\n") + b"\n"
                        target.buffer.write(line)
                        target.buffer.flush()

        thread = threading.Thread(target=copy, daemon=True)
        thread.start()
        return thread

    def _end(self) -> None:
        for sent in (signal.SIGTERM, signal.SIGKILL):
            left = [program for program in self.programs if program.poll() is None]
            for program in left:
                program.signal(sent)
            until = time.monotonic() + _GRACE_S
            for program in left:
                program.wait(max(0.0, until - time.monotonic()))


def attend(program: StartedProgram, client: socket.socket) -> int:
    """Pass the client's signals on until the program ends; its exit code. SessionClosedError where the client goes."""
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
    """As a shell tells it: 128 + n for signal n.

    >>> shell_code(7), shell_code(-9)
    (7, 137)
    """
    return code if code > 0 else 128 - code
