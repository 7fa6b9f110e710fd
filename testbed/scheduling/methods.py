"""Scheduling methods by name, as commands and plans give them.

A method is a function from a traffic to a schedule:
``f(traffic, *, seed=1, time_limit_s=60.0, now=None)``.
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
    """A function that schedules a traffic."""

    def __call__(
        self,
        traffic: Traffic,
        *,
        seed: int = 1,
        time_limit_s: float = 60.0,
        now: Clock | None = None,
    ) -> Schedule:
        """Return a schedule of the traffic.

        Args:
            traffic: The traffic.
            seed: Seed of all random choices.
            time_limit_s: Time limit of the search in seconds.
            now: The clock that the limit is measured by, in seconds. None counts the work and
                assumes a nominal speed.
        """
        ...


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
# Imported on first use, because the solver takes a third of a second to import.
SCHEDULERS.register("flow-frames", lazily("testbed.scheduling.published.flow_frames:flow_frames"))
SCHEDULERS.register("two-level", two_level)

# Names of the methods of this package, without plug-ins.
SCHEDULING_METHODS = SCHEDULERS.builtin_names()


def schedule_by_name(
    traffic: Traffic,
    name: str,
    *,
    seed: int = 1,
    time_limit_s: float = 60.0,
    now: Clock | None = None,
) -> Schedule:
    """Schedule a traffic by the method with this name, and check the schedule.

    Args:
        traffic: The traffic.
        name: Name of the method.
        seed: Seed of all random choices.
        time_limit_s: Time limit of the search in seconds.
        now: A clock in seconds, or None. With a clock, the schedule's ``seconds`` are set.

    Raises:
        InputError: The method is unknown.
        PluginError: A method of another package returned an invalid schedule.
    """
    method = SCHEDULERS.find(name)
    if method is None:
        raise InputError(f"scheduling method {name!r} is not known; {SCHEDULERS.nearest(name)}")
    if now is None:
        schedule = method(traffic, seed=seed, time_limit_s=time_limit_s, now=None)
        _check(name, traffic, schedule)
        return replace(schedule, seconds=None)
    start_s = now()
    schedule = method(traffic, seed=seed, time_limit_s=time_limit_s, now=now)
    duration_s = now() - start_s
    _check(name, traffic, schedule)
    return replace(schedule, seconds=duration_s)


def _check(name: str, traffic: Traffic, schedule: Schedule) -> None:
    """Check a schedule; raise PluginError if a method of another package returned a wrong one."""
    try:
        check_schedule(traffic, schedule)
    except InputError as error:
        if name in SCHEDULING_METHODS:
            raise
        titles = {plugin.name: plugin.title for plugin in SCHEDULERS.plugins()}
        package = titles.get(name, name)
        raise PluginError(f"{package} gave no schedule: {error}") from error
