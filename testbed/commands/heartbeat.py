"""On a terminal no command is silent for long: where nothing was written for a while, a line says that it works, and
since when.

The line is on stderr, and is gone before anything else is written. In a pipe, and while a command hands the terminal to
another program, there is none.
"""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, TextIO

from testbed.model.naming.printable import Styled

PATIENCE_S = 0.5
"""After so long without output the line appears; then it is drawn again this often."""
TERMINAL_IS_ANOTHERS = frozenset({"up", "exec", "attach", "run"})
"""Commands that give the terminal to a prompt or to programs of the user's."""
_ERASE = "\r\x1b[2K"


class _Watched:
    """A stream that tells the heartbeat of every write; all else is the stream's own."""

    def __init__(self, stream: TextIO, heartbeat: "Heartbeat") -> None:
        self._stream, self._heartbeat = stream, heartbeat

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with self._heartbeat.other_output():
            return self._stream.write(text)


class Heartbeat:
    """The line's state: when something was written last, and whether the line stands on the terminal."""

    def __init__(self, command: str, terminal: TextIO) -> None:
        self._command, self._terminal = command, terminal
        self._lock, self._over = threading.RLock(), threading.Event()
        self._began_s = self._written_s = time.monotonic()
        self._stands = True  # that of the process before, which this one replaced, may stand there

    @contextlib.contextmanager
    def other_output(self) -> Iterator[None]:
        """Around a write of the command's own: the line goes first."""
        with self._lock:
            self._erase()
            try:
                yield
            finally:
                self._written_s = time.monotonic()

    def beat(self) -> None:
        """Draw the line where it is time; until ``end``."""
        while not self._over.wait(PATIENCE_S / 2):
            with self._lock:
                now = time.monotonic()
                if now - self._written_s < PATIENCE_S or self._over.is_set():
                    continue
                self._say(
                    f"{_ERASE}testbed {self._command}: at work for {now - self._began_s:.0f} s ..."
                )
                self._stands, self._written_s = True, now

    def end(self) -> None:
        """The line is gone, and does not come again."""
        self._over.set()
        with self._lock:
            self._erase()

    def forked(self) -> None:
        """In a child of fork, which has no other thread: nothing to erase, and no lock that a thread of the parent
        holds."""
        self._lock, self._stands = threading.RLock(), False
        self._over.set()

    def _erase(self) -> None:
        if self._stands:
            self._stands = False
            self._say(_ERASE)

    def _say(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._terminal.write(Styled(text))
            self._terminal.flush()


@contextlib.contextmanager
def heartbeat(command: str | None) -> Iterator[None]:
    """While the command runs: stdout and stderr are watched, where stderr is a terminal that can draw."""
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
    streams: tuple[Any, Any] = (sys.stdout, sys.stderr)
    sys.stdout, sys.stderr = (_Watched(stream, beats) for stream in streams)  # type: ignore[assignment]
    os.register_at_fork(after_in_child=beats.forked)
    threading.Thread(target=beats.beat, daemon=True, name="heartbeat").start()
    try:
        yield
    finally:
        beats.end()
        sys.stdout, sys.stderr = streams
