"""Scheduling methods by name, as commands and plans give them.

A method takes a traffic and returns a schedule: ``f(traffic, *, seed=1, time_limit_s=60.0, now=None)``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

from testbed.errors import InputError
from testbed.model.schedule import Schedule
from testbed.model.traffic import Traffic
from testbed.scheduling.checker import check_schedule
from testbed.scheduling.exact.theory_methods import dsatur, exact, identical_order, milp, random_order, round_robin
from testbed.scheduling.fast.portfolio import cp_sat_schedule, liquid_schedule

Clock = Callable[[], float]


class SchedulingMethod(Protocol):
    """``now`` is a clock in seconds (None: the limit is kept by counting work at a nominal speed)."""

    def __call__(
        self, traffic: Traffic, *, seed: int = 1, time_limit_s: float = 60.0, now: Clock | None = None
    ) -> Schedule: ...


SCHEDULING_METHODS: Mapping[str, SchedulingMethod] = {
    "liquid": liquid_schedule,
    "exact": exact,
    "round-robin": round_robin,
    "random": random_order,
    "identical": identical_order,
    "dsatur": dsatur,
    "milp": milp,
    "cp-sat": cp_sat_schedule,
}


def schedule_by_name(
    traffic: Traffic, name: str, *, seed: int = 1, time_limit_s: float = 60.0, now: Clock | None = None
) -> Schedule:
    """A schedule by that method, checked by the independent checker; ``seconds`` is filled in where a clock is given.

    Raises InputError for a method that is not known.
    """
    if name not in SCHEDULING_METHODS:
        raise InputError(f"scheduling method {name!r} is not known; choose one of {', '.join(SCHEDULING_METHODS)}")
    started = now() if now is not None else None
    schedule = SCHEDULING_METHODS[name](traffic, seed=seed, time_limit_s=time_limit_s, now=now)
    seconds = now() - started if now is not None and started is not None else None
    check_schedule(traffic, schedule)
    return replace(schedule, seconds=seconds)
