"""What has to be done before all other imports; importing this module does it.

Standard streams that the caller closed (``>&-``) are opened on /dev/null, before any file or socket is given their
numbers: what is printed then goes nowhere, here and in children. And Ctrl-C before the command has begun is one line
and exit code 130, whatever is being imported, where the program is the command ``testbed`` and nobody else has a say in
Ctrl-C yet. Python's own start-up, some 20 ms before it on a quiet machine, is not ours to change. And matplotlib will
read no settings of the current directory.
"""

import contextlib
import os
import signal
import sys
from types import FrameType

from testbed.commands.matplotlib_import import import_matplotlib_elsewhere


def open_closed() -> None:
    """Descriptors 0, 1 and 2 are open afterwards, and Python's streams stand on them."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        with contextlib.suppress(OSError):
            try:
                os.fstat(number)
            except OSError:
                os.set_inheritable(
                    os.open(os.devnull, os.O_RDWR), True
                )  # the lowest number that is free: this one
            if getattr(sys, name) is None:
                stream = open(number, "w" if number else "r", closefd=False)  # noqa: SIM115 - as long as the process
                setattr(sys, name, stream)
                setattr(sys, f"__{name}__", stream)


def exit_interrupted_early(_number: int, _frame: FrameType | None) -> None:
    """What SIGINT does until ``testbed.cli.main`` takes over: there is nothing yet that could be put in order."""
    os.write(2, b"testbed: interrupted\n")
    os._exit(130)


open_closed()
import_matplotlib_elsewhere()
if (
    sys.argv[0].rpartition("/")[2] in ("testbed", "cli.py")
    and signal.getsignal(signal.SIGINT) is signal.default_int_handler
):
    signal.signal(signal.SIGINT, exit_interrupted_early)
