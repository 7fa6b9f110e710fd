"""The engine's steps compiled by numba, one specialization without FT-DRB and one with it; made at first use, then
cached.

Imported only when the compiled engine is requested.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from testbed.interconnect.compiled.kernel_loop import run_events
from testbed.jit import compiled_entry


@cache
def compiled_loop() -> Callable[..., None]:
    """``kernel_loop.run_events`` compiled: read from the cache, or made now (a quarter of a minute or more) and kept
    there.

    Nothing is allocated, so arrays need no counting of references (``_nrt``; it would cost most of the time); nothing
    divides by zero. It leaves the interpreter to others: a command's sign of life is drawn meanwhile.
    """
    return compiled_entry(run_events, _nrt=False, error_model="numpy", nogil=True)
