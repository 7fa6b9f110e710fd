"""The scheduling steps compiled by numba, kept in the user's cache directory. Imported when the first schedule is asked for."""

from __future__ import annotations

import functools
import hashlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import Any

from testbed.scheduling.fast import class_ejection, class_steps, steps, twin_links, unit_ejection

_STEPS: tuple[Callable[..., Any], ...] = (
    steps.seeded_state,
    steps.next_random,
    steps.ascending,
    steps.colour_edges,
    unit_ejection.put,
    unit_ejection.take_out,
    unit_ejection.is_free,
    unit_ejection.count_taken,
    unit_ejection.cheapest_position,
    class_ejection.class_table,
    class_ejection.put_class,
    class_ejection.take_class,
    class_ejection.place_classes,
    class_ejection.cheapest_frame,
    class_ejection.eject_classes,
    class_ejection.class_order,
    class_ejection.list_units,
    class_ejection.schedule_units,
    class_steps.number_processors,
    class_steps.amalgamate,
    class_steps.class_needs,
    class_steps.colour_pools,
    class_steps.give_processors,
    twin_links.mixed,
    twin_links.numbered,
    twin_links.twin_pools,
    twin_links.sort_classes,
    twin_links.find_classes,
    twin_links.give_links,
)
_ENTRIES: tuple[Callable[..., Any], ...] = (
    steps.first_fit,
    steps.colour_edges,
    unit_ejection.eject,
    unit_ejection.place_greedily,
    unit_ejection.enter_positions,
    class_steps.search_classes,
    twin_links.search_twins,
)


@functools.cache
def compiled() -> Any:
    """The entries by name, compiled: read from the cache, or made now (some seconds) and kept there."""
    return SimpleNamespace(**{step.__name__: compiled_function(step, ()) for step in _ENTRIES})


@functools.cache
def compiled_function(function: Callable[..., Any], inner: tuple[Callable[..., Any], ...]) -> Any:
    """One function compiled together with the steps of this package and ``inner``, which it may call."""
    if "numba" not in sys.modules:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(home) / "parallel-communications-testbed" / "numba"))
    import numba
    from numba.extending import register_jitable

    called = (function, *_STEPS, *inner)
    for step in called:
        register_jitable(no_cfunc_wrapper=True)(step)

    call = FunctionType(function.__code__, function.__globals__, function.__name__)
    call.__qualname__ = f"{function.__name__}_{fingerprint(called)}"
    try:
        return numba.njit(cache=True)(call)
    except RuntimeError:  # no directory that can be written: compile for this process
        return numba.njit(call)


def fingerprint(steps: Sequence[Callable[..., Any]]) -> str:
    """Changes with the code of any step, or a number that one refers to: numba's cache looks at the outermost function's file alone."""
    seen = hashlib.sha256()
    for step in steps:
        code = step.__code__
        numbers = [(name, step.__globals__[name]) for name in code.co_names if name in step.__globals__]
        plain = [(name, value) for name, value in numbers if isinstance(value, int | float)]
        seen.update(repr((code.co_code, code.co_consts, code.co_names, plain)).encode())
    return seen.hexdigest()[:16]
