"""The steps of the fast method, compiled. Imported when the first schedule is requested."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from testbed.jit import compiled_entry
from testbed.scheduling.fast import class_ejection, steps, twin_links, unit_ejection

_ENTRIES: tuple[Callable[..., Any], ...] = (
    steps.first_fit,
    steps.colour_edges,
    unit_ejection.eject,
    unit_ejection.place_greedily,
    unit_ejection.enter_positions,
    twin_links.search_twins,
    class_ejection.schedule_units,
)


MAX_INTERPRETED = 4_096
"""Transfers that a process schedules in plain Python, a thousand in a tenth of a second: reading what is compiled takes
longer, compiling seconds."""
_interpreted = 0


def entries_for(transfers: int) -> Any:
    """The entries for a traffic of so many transfers: as Python while the process has had few, then ``compiled()``."""
    global _interpreted
    _interpreted += transfers
    if _interpreted > MAX_INTERPRETED or compiled.cache_info().currsize:
        return compiled()
    return SimpleNamespace(**{entry.__name__: np.errstate(over="ignore")(entry) for entry in _ENTRIES})


@functools.cache
def compiled() -> Any:
    """The entries by name, compiled: read from the cache, or made now (some seconds) and kept there."""
    return SimpleNamespace(**{entry.__name__: compiled_entry(entry) for entry in _ENTRIES})
