"""Standard streams that the caller closed (``>&-``) are opened on /dev/null, before any file or socket is given their
numbers.

Importing this module does it: it has to come before all other imports. What is printed then goes nowhere, here and in
children.
"""

import contextlib
import os
import sys


def open_closed() -> None:
    """Descriptors 0, 1 and 2 are open afterwards, and Python's streams stand on them."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        with contextlib.suppress(OSError):
            try:
                os.fstat(number)
            except OSError:
                os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest number that is free: this one
            if getattr(sys, name) is None:
                stream = open(number, "w" if number else "r", closefd=False)  # noqa: SIM115 - as long as the process
                setattr(sys, name, stream)
                setattr(sys, f"__{name}__", stream)


open_closed()
