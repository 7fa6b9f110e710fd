"""Prepares the process before all other imports, when this module is imported.

1. Standard streams that the caller closed (``>&-``) are opened on /dev/null, before a file or a
   socket can get their numbers. Output then goes nowhere, here and in child processes.
2. Ctrl-C during the imports prints one line and ends with exit code 130. This applies only if the
   program is the command ``testbed`` and SIGINT has no other handler. Python's own start, some
   20 ms before, cannot be changed.
3. matplotlib will read no settings from the current directory.
"""

import contextlib
import os
import signal
import sys
from types import FrameType

from testbed.commands.matplotlib_import import import_matplotlib_elsewhere


def open_closed() -> None:
    """Open the descriptors 0, 1 and 2 that are closed, and the streams of Python on them."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        # Without /dev/null the stream stays closed.
        with contextlib.suppress(OSError):
            try:
                os.fstat(number)
            except OSError:
                # The new descriptor is the lowest free number, which is this one.
                os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
            if getattr(sys, name) is None:
                mode = "r" if name == "stdin" else "w"
                stream = open(number, mode, closefd=False)  # noqa: SIM115 - open until the end
                setattr(sys, name, stream)
                setattr(sys, f"__{name}__", stream)


def exit_interrupted_early(_number: int, _frame: FrameType | None) -> None:
    """Print one line, and end the process with exit code 130, on SIGINT during the imports.

    ``testbed.cli.main`` installs another handler. Before it, nothing needs a clean-up.
    """
    os.write(2, b"testbed: interrupted\n")
    os._exit(130)


open_closed()
import_matplotlib_elsewhere()
if (
    sys.argv[0].rpartition("/")[2] in ("testbed", "cli.py")
    and signal.getsignal(signal.SIGINT) is signal.default_int_handler
):
    signal.signal(signal.SIGINT, exit_interrupted_early)
