"""The steps of the fast method, compiled. Imported when the first schedule is asked for."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from testbed.compile import compiled_entry
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
    return SimpleNamespace(**{entry.__name__: compiled_function(entry) for entry in _ENTRIES})


def compiled_function(entry: Callable[..., Any], own_steps: tuple[Callable[..., Any], ...] = ()) -> Any:
    """One function compiled together with the steps of this package and its own, which it may call."""
    return compiled_entry(entry, (*_STEPS, *own_steps))
