"""The engine's steps compiled by numba, one specialization without FT-DRB and one with it; made at first use, then cached.

Imported only when the compiled engine is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from testbed.routing.capillary_kernel import use_cache_directory
from testbed.simulator import drb_hooks, engine_steps, ft_drb_steps, kernel_events, kernel_loop, nac_steps

_compiled: list[Callable[..., None]] = []


def compiled_loop() -> Callable[..., None]:
    """``kernel_loop.run_events`` compiled: read from the cache, or made now (half a minute) and kept there."""
    if not _compiled:
        use_cache_directory()
        import numba
        from numba.extending import register_jitable

        for room in (kernel_events, ft_drb_steps, drb_hooks, engine_steps, nac_steps, kernel_loop):
            for step in room.STEPS:
                register_jitable(step)
        try:
            _compiled.append(numba.njit(cache=True)(kernel_loop.run_events))
        except RuntimeError:  # numba's "no locator available": no directory can be written, compile for this process
            _compiled.append(numba.njit(kernel_loop.run_events))
    return _compiled[0]


def run_compiled(ports: Any, o: Any, s: Any, hook: Any, plan: Any) -> None:
    """As kernel_loop.run_events."""
    compiled_loop()(ports, o, s, hook, plan)
