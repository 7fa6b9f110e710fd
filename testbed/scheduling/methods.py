"""Scheduling methods by name, as commands and plans give them.

A method takes a traffic and returns a schedule: ``f(traffic, *, seed=1, time_limit_s=60.0, now=None)``.
"""

from dataclasses import replace
from typing import Protocol

from testbed.errors import InputError, TestbedError
from testbed.model.schedule import Clock, Schedule
from testbed.model.traffic import Traffic
from testbed.model.workload import lazily
from testbed.scheduling.checker import check_schedule
from testbed.scheduling.fast.portfolio import cp_sat_schedule, liquid_schedule
from testbed.scheduling.published.two_level import two_level
from testbed.scheduling.theory_methods import (
    dsatur,
    exact,
    identical_order,
    milp,
    random_order,
    round_robin,
)
from topologies import TopologyError
from topologies.registry import PluginError, Registry, function_check


class SchedulingMethod(Protocol):
    """``now`` is a clock in seconds (None: the limit is kept by counting work at a nominal speed)."""

    def __call__(
        self,
        traffic: Traffic,
        *,
        seed: int = 1,
        time_limit_s: float = 60.0,
        now: Clock | None = None,
    ) -> Schedule: ...


SCHEDULERS: Registry[SchedulingMethod] = Registry(
    "testbed.schedulers", "scheduler", function_check("a traffic"), (TestbedError, TopologyError)
)
SCHEDULERS.register("liquid", liquid_schedule)
SCHEDULERS.register("exact", exact)
SCHEDULERS.register("round-robin", round_robin)
SCHEDULERS.register("random", random_order)
SCHEDULERS.register("identical", identical_order)
SCHEDULERS.register("dsatur", dsatur)
SCHEDULERS.register("milp", milp)
SCHEDULERS.register("cp-sat", cp_sat_schedule)
# the solver takes a third of a second to import
SCHEDULERS.register("flow-frames", lazily("testbed.scheduling.published.flow_frames:flow_frames"))
SCHEDULERS.register("two-level", two_level)
SCHEDULING_METHODS = SCHEDULERS.builtin_names()
"""Names of our own methods."""


def schedule_by_name(
    traffic: Traffic,
    name: str,
    *,
    seed: int = 1,
    time_limit_s: float = 60.0,
    now: Clock | None = None,
) -> Schedule:
    """A schedule by that method, checked by the independent checker; ``seconds`` is filled in where a clock is given.

    Raises InputError for a method that is not known.
    """
    method = SCHEDULERS.find(name)
    if method is None:
        raise InputError(f"scheduling method {name!r} is not known; {SCHEDULERS.nearest(name)}")
    started = now() if now is not None else None
    schedule = method(traffic, seed=seed, time_limit_s=time_limit_s, now=now)
    seconds = now() - started if now is not None and started is not None else None
    _check(name, traffic, schedule)
    ends = traffic.ends if len(traffic.ends) == len(traffic) else ()
    return replace(schedule, seconds=seconds, ends=ends)


def _check(name: str, traffic: Traffic, schedule: Schedule) -> None:
    """PluginError where another package's method gave what is no schedule of the traffic."""
    try:
        check_schedule(traffic, schedule)
    except InputError as error:
        if name in SCHEDULING_METHODS:
            raise
        package = next((p.title for p in SCHEDULERS.plugins() if p.name == name), name)
        raise PluginError(f"{package} gave no schedule: {error}") from error
