"""Says on stderr that code is being compiled for this machine, what and how long: the first use of an algorithm takes
seconds.

``testbed doctor --compile`` does all of it ahead.
"""

from __future__ import annotations

import logging
import sys
import threading
import time

PATIENCE_S = 1.0
"""What is compiled sooner is not told."""


class CompileNotice(logging.Handler):
    """Tells of a function once it has taken PATIENCE_S, and again when it is done."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._began_s = 0.0
        self._format = False
        self._timer: threading.Timer | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """``compiling NAME`` or ``compiled NAME``, see ``fec.jit.LOGGER``."""
        doing, _, name = record.getMessage().partition(" ")
        if doing == "compiling":
            self._began_s, self._format = time.monotonic(), False
            self._timer = threading.Timer(PATIENCE_S, self._tell, (name,))
            self._timer.daemon = True
            self._timer.start()
        elif doing == "compiled":
            if self._timer is not None:
                self._timer.cancel()
                self._timer.join()
            seconds = time.monotonic() - self._began_s
            if seconds >= PATIENCE_S and not self._format:  # the compiler let no other thread run
                self._tell(name)
            if self._format:
                _say(f"compiled {name} in {seconds:.1f} s")

    def _tell(self, name: str) -> None:
        self._format = True
        _say(f"compiling {name} for this machine, this once; 5 to 60 s ...")


def announce_compilation() -> None:
    """From now on, in this process; a second call changes nothing. The logger is named and not imported: fec is
    large."""
    logger = logging.getLogger("fec.jit")
    if not any(isinstance(handler, CompileNotice) for handler in logger.handlers):
        logger.addHandler(CompileNotice())
        logger.setLevel(logging.INFO)
        logger.propagate = False


def announce_to_people() -> None:
    """The same where somebody looks: at a terminal, or in a notebook. Other programs that use the library are left in
    peace."""
    if sys.stderr is not None and (sys.stderr.isatty() or "ipykernel" in sys.modules):
        announce_compilation()


def _say(text: str) -> None:
    print(f"testbed: {text}", file=sys.stderr, flush=True)
