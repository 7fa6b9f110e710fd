"""Shows a line on the terminal while a command works without output, with the time since its start.

The line is on stderr, and is erased before anything else is written. There is no line in a pipe,
and none for commands that give the terminal to another program.
"""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, TextIO

from testbed.model.naming.printable import Styled

# The line appears after this time without output, and is drawn again at this interval.
PATIENCE_S = 0.5
# Commands that give the terminal to a prompt or to programs of the user.
TERMINAL_IS_ANOTHERS = frozenset({"up", "exec", "attach", "run"})
# Return to the start of the line, and erase it.
_ERASE = "\r\x1b[2K"


class _Watched:
    """A stream that reports every write to the heartbeat, and otherwise is the given stream."""

    def __init__(self, stream: TextIO, heartbeat: "Heartbeat") -> None:
        self._stream = stream
        self._heartbeat = heartbeat

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with self._heartbeat.other_output():
            return self._stream.write(text)


class Heartbeat:
    """Draws and erases the line, depending on the time of the last output."""

    def __init__(self, command: str, terminal: TextIO) -> None:
        """Start without a line.

        Args:
            command: The name of the command.
            terminal: The stream on which the line is drawn.
        """
        self._command = command
        self._terminal = terminal
        self._lock = threading.RLock()
        self._over = threading.Event()
        self._began_s = time.monotonic()
        self._last_output_s = self._began_s
        # Whether the line is on the terminal. True at first, because the process that this one
        # replaced may have drawn it.
        self._is_drawn = True

    @contextlib.contextmanager
    def other_output(self) -> Iterator[None]:
        """Erase the line before the command writes in the with block."""
        with self._lock:
            self._erase()
            try:
                yield
            finally:
                self._last_output_s = time.monotonic()

    def beat(self) -> None:
        """Draw the line whenever it is due, until ``end``."""
        while not self._over.wait(PATIENCE_S / 2):
            with self._lock:
                now_s = time.monotonic()
                if now_s - self._last_output_s < PATIENCE_S or self._over.is_set():
                    continue
                duration_s = now_s - self._began_s
                self._write(f"{_ERASE}testbed {self._command}: at work for {duration_s:.0f} s ...")
                self._is_drawn = True
                self._last_output_s = now_s

    def end(self) -> None:
        """Erase the line permanently."""
        self._over.set()
        with self._lock:
            self._erase()

    def forked(self) -> None:
        """Stop drawing in the child of a fork.

        The child needs a new lock, because a thread of the parent may have locked the present one.
        """
        self._lock = threading.RLock()
        self._is_drawn = False
        self._over.set()

    def _erase(self) -> None:
        if self._is_drawn:
            self._is_drawn = False
            self._write(_ERASE)

    def _write(self, text: str) -> None:
        # The terminal may be closed; the command continues.
        with contextlib.suppress(OSError, ValueError):
            self._terminal.write(Styled(text))
            self._terminal.flush()


@contextlib.contextmanager
def heartbeat(command: str | None) -> Iterator[None]:
    """Show the line while the command runs, if stderr is a terminal that can erase it.

    Args:
        command: The name of the command, or None for no line.
    """
    terminal = sys.stderr
    if (
        command is None
        or command in TERMINAL_IS_ANOTHERS
        or terminal is None
        or not terminal.isatty()
        or os.environ.get("TERM", "dumb") == "dumb"
    ):
        yield
        return
    beats = Heartbeat(command, terminal)
    stdout = sys.stdout
    stderr = sys.stderr
    watched_stdout: Any = _Watched(stdout, beats)
    watched_stderr: Any = _Watched(stderr, beats)
    sys.stdout = watched_stdout
    sys.stderr = watched_stderr
    os.register_at_fork(after_in_child=beats.forked)
    threading.Thread(target=beats.beat, daemon=True, name="heartbeat").start()
    try:
        yield
    finally:
        beats.end()
        sys.stdout = stdout
        sys.stderr = stderr
