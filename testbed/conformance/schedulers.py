"""Checks of schedulers.

A schedule must pass the independent checker, its claims about its length must be true, it must be
found within the time limit, and the same seed must give the same schedule.
"""

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

# The time limit, and by how much a scheduler may exceed it on a busy machine.
_LIMIT_S = 5.0
_GRACE_S = 2.0

# Any two of these transfers share a link, so they need three frames, although the load of each link
# is two. There is therefore no liquid schedule.
NO_LIQUID = [["a", "b"], ["b", "c"], ["c", "a"]]


def traffics() -> dict[str, Traffic]:
    """Return the traffics of the suite by name."""
    rng = random.Random(1)
    links = [f"link{n}" for n in range(30)]
    random_transfers = [rng.sample(links, rng.randint(1, 4)) for _ in range(200)]
    return {
        "one transfer": Traffic.from_transfers([["a", "b"]]),
        "crossbar:4, all to all": all_to_all(load_network("crossbar:4")),
        "swiss-t1, two nodes a switch": all_to_all(
            load_network("swiss-t1:allocation=2-2-2-2-0-0-0-0")
        ),
        "200 random transfers": Traffic.from_transfers(random_transfers),
        "three that exclude each other": Traffic.from_transfers(NO_LIQUID),
    }


def scheduler_checks(scheduler: SchedulingMethod) -> list[Check]:
    """Return the checks of a scheduler: one for each property and traffic."""
    checks = []
    for name, traffic in traffics().items():
        make = partial(scheduler, traffic, seed=1, time_limit_s=_LIMIT_S, now=time.monotonic)
        checks += [
            finding(
                f"{name}: every transfer once, no link twice in a frame",
                partial(_wrong, traffic, make),
            ),
            finding(f"{name}: it claims no more than is true", partial(_overstated, traffic, make)),
            finding(f"{name}: done in time", partial(_slow, make)),
        ]
    exchange = traffics()["crossbar:4, all to all"]
    repeated = partial(_differs, scheduler, exchange)
    checks.append(finding("the same seed gives the same schedule", repeated))
    return checks


def _wrong(traffic: Traffic, make: Callable[[], Schedule]) -> str | None:
    # It raises an error for an invalid schedule.
    check_schedule(traffic, make())
    return None


def _overstated(traffic: Traffic, make: Callable[[], Schedule]) -> str | None:
    schedule = make()
    if schedule.bottleneck_load != traffic.bottleneck_load:
        return (
            f"it says that the bottleneck's load is {schedule.bottleneck_load}; "
            f"it is {traffic.bottleneck_load}"
        )
    if schedule.proved == "liquid" and schedule.length != traffic.bottleneck_load:
        return (
            f"it calls {schedule.length} frames liquid "
            f"where the bottleneck's load is {traffic.bottleneck_load}"
        )
    if schedule.proved == "no-liquid-schedule" and len(traffic) != len(NO_LIQUID):
        return "it claims that there is no liquid schedule; there is one"
    return None


def _slow(make: Callable[[], Schedule]) -> str | None:
    began_s = time.monotonic()
    make()
    duration_s = time.monotonic() - began_s
    if duration_s < _LIMIT_S + _GRACE_S:
        return None
    return f"{duration_s:.1f} s, where {_LIMIT_S:g} s were given"


def _differs(scheduler: SchedulingMethod, traffic: Traffic) -> str | None:
    make = partial(scheduler, traffic, seed=3, time_limit_s=_LIMIT_S, now=None)
    first = make()
    second = make()
    if (first.frame_of == second.frame_of).all():
        return None
    return "two calls with one seed gave two schedules"
