"""The engine's steps compiled by numba, one specialization without FT-DRB and one with it; made at first use, then cached.

Imported only when the compiled engine is asked for.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from typing import Any

from fec.compile import use_cache_directory
from testbed.interconnect.compiled import drb_hooks, engine_steps, kernel_events, kernel_loop, kernel_state, nac_steps
from testbed.interconnect.ft_drb import escape_steps, ft_drb_arrays, ft_drb_steps

ROOMS = (
    kernel_state, kernel_events, ft_drb_arrays, escape_steps, ft_drb_steps, drb_hooks, engine_steps, nac_steps, kernel_loop,
)  # fmt: skip
OPTIONS: dict[str, Any] = {"_nrt": False, "error_model": "numpy"}
"""Nothing is allocated, so arrays need no counting of references (it would cost most of the time); nothing divides by zero."""

INNER = OPTIONS | {"no_cfunc_wrapper": True}
"""Of the steps, which only compiled code calls: an entry for C that unpacks all tables would be a third of what there is to compile."""

_compiled: list[Callable[..., None]] = []


def compiled_loop() -> Callable[..., None]:
    """``kernel_loop.run_events`` compiled: read from the cache, or made now (half a minute or more) and kept there."""
    if not _compiled:
        use_cache_directory()
        import numba
        from numba.extending import register_jitable

        for step in (*kernel_events.INLINE, *engine_steps.INLINE, *kernel_loop.INLINE):
            register_jitable(forceinline=True, **INNER)(step)
        for room in (escape_steps, ft_drb_steps, drb_hooks, engine_steps, nac_steps, kernel_loop):
            for step in room.STEPS:
                register_jitable(**INNER)(step)
        kept, numba.config.CACHE_DIR = numba.config.CACHE_DIR, _cache_directory(numba.config.CACHE_DIR)
        try:
            _compiled.append(numba.njit(cache=True, **OPTIONS)(kernel_loop.run_events))
        except RuntimeError:  # numba's "no locator available": no directory can be written, compile for this process
            _compiled.append(numba.njit(**OPTIONS)(kernel_loop.run_events))
        finally:
            numba.config.CACHE_DIR = kept
    return _compiled[0]


def _cache_directory(base: str) -> str:
    """One for this text of all steps: numba itself looks only at the file of the outermost function."""
    text = "".join(inspect.getsource(room) for room in ROOMS)
    return f"{base}/simulator-{hashlib.sha256(text.encode()).hexdigest()[:16]}" if base else base


def run_compiled(ports: Any, o: Any, s: Any, hook: Any, plan: Any) -> None:
    """As kernel_loop.run_events."""
    compiled_loop()(ports, o, s, hook, plan)
