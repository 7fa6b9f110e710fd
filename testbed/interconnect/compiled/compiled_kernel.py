"""The engine's steps compiled by numba, one specialization without FT-DRB and one with it; made at first use, then cached.

Imported only when the compiled engine is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import chain

from testbed.compile import compiled_entry
from testbed.interconnect import static_paths
from testbed.interconnect.compiled import (
    channel_requests,
    engine_steps,
    ft_drb_hooks,
    kernel_events,
    kernel_loop,
    relation_steps,
)
from testbed.interconnect.compiled.nac import asking_anew, detection, identification, recovery, throttle
from testbed.interconnect.ft_drb import escape_steps, source_steps

IN_CALLERS = (
    static_paths,
    kernel_events,
    relation_steps,
    channel_requests,
    throttle,
    detection,
    identification,
    engine_steps,
    kernel_loop,
)
CALLED = (
    static_paths,
    kernel_events,
    relation_steps,
    channel_requests,
    engine_steps,
    escape_steps,
    source_steps,
    ft_drb_hooks,
    throttle,
    detection,
    recovery,
    identification,
    asking_anew,
    kernel_loop,
)


@cache
def compiled_loop() -> Callable[..., None]:
    """``kernel_loop.run_events`` compiled: read from the cache, or made now (a quarter of a minute or more) and kept there.

    Nothing is allocated, so arrays need no counting of references (``_nrt``; it would cost most of the time); nothing
    divides by zero. It leaves the interpreter to others: a command's sign of life is drawn meanwhile.
    """
    inline = chain.from_iterable(room.INLINE for room in IN_CALLERS)
    called = chain.from_iterable(room.STEPS for room in CALLED)
    loop: Callable[..., None] = compiled_entry(
        kernel_loop.run_events, called, inline=inline, _nrt=False, error_model="numpy", nogil=True
    )
    return loop
