"""What Mininet prints at the prompt, and what is typed there."""

import contextlib
import logging
import sys
import termios
from collections.abc import Callable, Iterator


class Said(logging.Handler):
    """What Mininet says goes to the output; what it calls an error is a complaint."""

    def __init__(self, complain: Callable[[str], object]) -> None:
        super().__init__()
        self._complain = complain

    def emit(self, record: logging.LogRecord) -> None:
        """Without a line's end of its own, as Mininet's handler."""
        if record.levelno >= logging.ERROR:
            self._complain(record.getMessage())
        else:
            sys.stdout.write(record.getMessage())
            sys.stdout.flush()


@contextlib.contextmanager
def single_keys() -> Iterator[None]:
    """Meanwhile the terminal passes on each key as it is typed."""
    before = termios.tcgetattr(sys.stdin)
    keys = termios.tcgetattr(sys.stdin)
    keys[3] &= ~termios.ICANON
    termios.tcsetattr(sys.stdin, termios.TCSANOW, keys)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSANOW, before)
