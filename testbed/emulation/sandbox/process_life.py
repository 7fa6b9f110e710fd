"""How long a process of ours may live."""

from __future__ import annotations

import ctypes
import signal

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """Let the kernel kill the calling process when its parent ends, however that ends; to be called first thing in a child."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
