"""The steps of the fast method, compiled. Imported when the first schedule is requested."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from testbed.jit import compiled_entry
from testbed.scheduling.fast import class_ejection, steps, twin_links, unit_ejection

_ENTRIES: tuple[Callable[..., Any], ...] = (
    steps.first_fit,
    unit_ejection.eject,
    unit_ejection.place_greedily,
    unit_ejection.enter_positions,
    twin_links.search_twins,
    class_ejection.schedule_units,
)


@functools.cache
def compiled() -> Any:
    """The entries by name: compiled ahead, or read from the cache, or made now (some seconds) and kept there."""
    return SimpleNamespace(**{entry.__name__: compiled_entry(entry) for entry in _ENTRIES})
