"""How long a process of ours may live."""

from __future__ import annotations

import ctypes
import os
import shlex
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import spawn
from pathlib import Path
from tempfile import TemporaryDirectory

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def children_without_interrupts() -> Iterator[None]:
    """New Pythons that multiprocessing spawns inside ignore Ctrl-C, which a terminal sends to every process: who started them ends
    them. Where programs may not be run from temporary directories they are as usual.

    They are started by a shell that ignores SIGINT and becomes Python: what is ignored before a program begins stays ignored.
    """
    usual = spawn.get_executable()
    python = usual.decode() if isinstance(usual, bytes) else usual
    with TemporaryDirectory(prefix="testbed-") as directory:
        quiet = Path(directory) / "python"
        if not os.statvfs(directory).f_flag & os.ST_NOEXEC:
            quiet.write_text(f"#!/bin/sh\ntrap '' INT\nexec {shlex.quote(python)} \"$@\"\n")
            quiet.chmod(0o755)
            spawn.set_executable(str(quiet))
        try:
            yield
        finally:
            spawn.set_executable(python)


def die_with_parent() -> None:
    """Let the kernel kill the calling process when its parent ends, however that ends; to be called first thing in a child."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
