"""Ctrl-C before the command has begun: one line and exit code 130, whatever is being imported.

Importing this module does it, where the program is the command ``testbed`` and nobody else has a say in Ctrl-C yet: it
has to come before all other imports. Python's own start-up, some 20 ms before it on a quiet machine, is not ours to
change.
"""

import os
import signal
import sys
from types import FrameType


def exit_interrupted_early(_number: int, _frame: FrameType | None) -> None:
    """What SIGINT does until ``testbed.cli.main`` takes over: there is nothing yet that could be put in order."""
    os.write(2, b"testbed: interrupted\n")
    os._exit(130)


if (
    sys.argv[0].rpartition("/")[2] in ("testbed", "cli.py")
    and signal.getsignal(signal.SIGINT) is signal.default_int_handler
):
    signal.signal(signal.SIGINT, exit_interrupted_early)
