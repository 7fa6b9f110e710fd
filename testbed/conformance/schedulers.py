"""Judges a scheduler: the independent checker, the bottleneck's bound, what it claims to have proved, repeatability,
its time limit."""

import random
import time
from collections.abc import Callable
from functools import partial

from testbed.conformance.problem_checks import finding
from testbed.model.schedule import Schedule
from testbed.model.traffic import Traffic
from testbed.model.verdict import Check
from testbed.scheduling.checker import check_schedule
from testbed.scheduling.methods import SchedulingMethod
from testbed.scheduling.traffic.patterns import all_to_all
from topologies import load_network

_LIMIT_S, _GRACE_S = 5.0, 2.0
NO_LIQUID = [["a", "b"], ["b", "c"], ["c", "a"]]
"""Every two of three transfers share a link: three frames, where every link has a load of two. Proved by hand."""


def traffics() -> dict[str, Traffic]:
    """Name -> traffic."""
    draw = random.Random(1)
    links = [f"link{n}" for n in range(30)]
    return {
        "one transfer": Traffic.from_transfers([["a", "b"]]),
        "crossbar:4, all to all": all_to_all(load_network("crossbar:4")),
        "swiss-t1, two nodes a switch": all_to_all(
            load_network("swiss-t1:allocation=2-2-2-2-0-0-0-0")
        ),
        "200 random transfers": Traffic.from_transfers(
            [draw.sample(links, draw.randint(1, 4)) for _ in range(200)]
        ),
        "three that exclude each other": Traffic.from_transfers(NO_LIQUID),
    }


def scheduler_checks(scheduler: SchedulingMethod) -> list[Check]:
    """One check a property and traffic."""
    found = []
    for name, traffic in traffics().items():
        schedule = partial(scheduler, traffic, seed=1, time_limit_s=_LIMIT_S, now=time.monotonic)
        found += [
            finding(
                f"{name}: every transfer once, no link twice in a frame",
                partial(_wrong, traffic, schedule),
            ),
            finding(
                f"{name}: it claims no more than is true", partial(_overstated, traffic, schedule)
            ),
            finding(f"{name}: done in time", partial(_slow, schedule)),
        ]
    one = traffics()["crossbar:4, all to all"]
    found.append(finding("the same seed gives the same schedule", lambda: _differs(scheduler, one)))
    return found


def _wrong(traffic: Traffic, make: Callable[[], Schedule]) -> str | None:
    check_schedule(traffic, make())
    return None


def _overstated(traffic: Traffic, make: Callable[[], Schedule]) -> str | None:
    schedule = make()
    if schedule.bottleneck_load != traffic.bottleneck_load:
        return f"it says that the bottleneck's load is {schedule.bottleneck_load}; it is {traffic.bottleneck_load}"
    if schedule.proved == "liquid" and schedule.length != traffic.bottleneck_load:
        return f"it calls {schedule.length} frames liquid where the bottleneck's load is {traffic.bottleneck_load}"
    if schedule.proved == "no-liquid-schedule" and len(traffic) != len(NO_LIQUID):
        return "it claims that there is no liquid schedule; there is one"
    return None


def _slow(schedule: Callable[[], Schedule]) -> str | None:
    began = time.monotonic()
    schedule()
    seconds = time.monotonic() - began
    return (
        None
        if seconds < _LIMIT_S + _GRACE_S
        else f"{seconds:.1f} s, where {_LIMIT_S:g} s were given"
    )


def _differs(scheduler: SchedulingMethod, traffic: Traffic) -> str | None:
    first, second = (scheduler(traffic, seed=3, time_limit_s=_LIMIT_S, now=None) for _ in range(2))
    return (
        None
        if (first.frame_of == second.frame_of).all()
        else "two calls with one seed gave two schedules"
    )
