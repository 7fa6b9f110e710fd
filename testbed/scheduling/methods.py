"""Scheduling methods by name, as commands and plans give them; each is imported when it is first used.

A method takes a traffic and returns a schedule: ``f(traffic, *, seed=1, time_limit_s=60.0, now=None)``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

from testbed.errors import InputError
from testbed.model.schedule import Schedule
from testbed.model.traffic import Traffic
from testbed.scheduling.checker import check_schedule

Clock = Callable[[], float]


class SchedulingMethod(Protocol):
    """``now`` is a clock in seconds (None: the limit is kept by counting work at a nominal speed)."""

    def __call__(
        self, traffic: Traffic, *, seed: int = 1, time_limit_s: float = 60.0, now: Clock | None = None
    ) -> Schedule: ...


SCHEDULING_METHODS: Mapping[str, str] = {
    "liquid": "testbed.scheduling.fast.portfolio:liquid_schedule",
    "exact": "testbed.scheduling.exact.theory_methods:exact",
    "round-robin": "testbed.scheduling.exact.theory_methods:round_robin",
    "random": "testbed.scheduling.exact.theory_methods:random_order",
    "identical": "testbed.scheduling.exact.theory_methods:identical_order",
    "dsatur": "testbed.scheduling.exact.theory_methods:dsatur",
    "milp": "testbed.scheduling.exact.theory_methods:milp",
    "cp-sat": "testbed.scheduling.fast.portfolio:cp_sat_schedule",
}


def scheduling_method(name: str) -> SchedulingMethod:
    """The method of that name; raises InputError for an unknown one."""
    if name not in SCHEDULING_METHODS:
        raise InputError(f"scheduling method {name!r} is not known; choose one of {', '.join(SCHEDULING_METHODS)}")
    module, function = SCHEDULING_METHODS[name].split(":")
    found: SchedulingMethod = getattr(importlib.import_module(module), function)
    return found


def schedule_by_name(
    traffic: Traffic, name: str, *, seed: int = 1, time_limit_s: float = 60.0, now: Clock | None = None
) -> Schedule:
    """A schedule by that method, checked by the independent checker; ``seconds`` is filled in where a clock is given."""
    started = now() if now is not None else None
    schedule = scheduling_method(name)(traffic, seed=seed, time_limit_s=time_limit_s, now=now)
    seconds = now() - started if now is not None and started is not None else None
    check_schedule(traffic, schedule)
    return replace(schedule, seconds=seconds)
