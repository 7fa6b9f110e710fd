"""The fast method, which tries several searches one after another; and CP-SAT alone.

The searches are: classes with edge colouring, cyclic shifts, first fit, orbits of symmetries,
weighted ejection and finally CP-SAT. The failure of a heuristic is never treated as a proof:
"no-liquid-schedule" comes from an exhausted search or an infeasible model.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from testbed.errors import require_type
from testbed.model.schedule import Clock, Schedule
from testbed.model.traffic import Traffic
from testbed.scheduling.checker import check_schedule, is_schedule
from testbed.scheduling.fast.budget import Budget
from testbed.scheduling.fast.packing import solve_packing
from testbed.scheduling.fast.phases import torus_phases
from testbed.scheduling.fast.placement import fit_first, placement_orders, shortest_first_fit
from testbed.scheduling.fast.searches import (
    MAX_FOR_EXACT,
    search_by_classes,
    search_by_ejection,
    search_by_orbits,
    search_longer,
)
from testbed.scheduling.theory_methods import exact

# Up to this number of transfers, finding classes is faster than sorting the transfers by their
# ends, so it is tried first.
MAX_FOR_CLASSES_FIRST = 4_096

# Largest number of transfers times frames for a proof by CP-SAT.
MAX_FOR_PROOF = 60_000


def liquid_schedule(
    traffic: Traffic, *, seed: int = 1, time_limit_s: float = 60.0, now: Clock | None = None
) -> Schedule:
    """Return a liquid schedule if one is found within the time limit, else the shortest one found.

    Every schedule has passed the independent checker. The same seed gives the same schedule unless
    time runs out.

    Args:
        traffic: The traffic.
        seed: Seed of the searches.
        time_limit_s: Time limit in seconds.
        now: A clock in seconds. None counts the work and assumes a nominal speed.

    Raises:
        UsageError: The argument is not a Traffic.

    >>> traffic = Traffic.from_transfers([["a", "x"], ["b", "x"], ["b", "y"]])
    >>> schedule = liquid_schedule(traffic)
    >>> schedule.length, schedule.proved
    (2, 'liquid')
    """
    require_type(
        traffic, Traffic, "traffic", "a Traffic; Traffic.from_transfers makes one of lists"
    )
    budget = Budget(time_limit_s, now)
    best: Schedule | None = None
    for schedule in _schedules(traffic, seed, budget):
        if schedule is None:
            continue
        if best is None or _is_better(schedule, best):
            best = schedule
        if best.proved != "unknown" and best.optimal:
            break
        if budget.left_s() <= 0:
            break
    assert best is not None  # First fit always returns a schedule.
    check_schedule(traffic, best)
    return best


def _is_better(schedule: Schedule, best: Schedule) -> bool:
    """Return whether a schedule is shorter than the best one, or more is proved about it."""
    if schedule.length < best.length:
        return True
    return schedule.proved != "unknown" and best.proved == "unknown"


def _schedules(traffic: Traffic, seed: int, budget: Budget) -> Iterator[Schedule | None]:
    """Yield the schedules of all searches, the fastest searches first.

    None is yielded between attempts of one search, so that the caller can check the time.
    """
    bound = traffic.bottleneck_load
    phases = torus_phases(traffic)
    if phases is not None and phases.liquid and is_schedule(traffic, phases):
        yield phases
    by_classes = search_by_classes(traffic, seed, budget)
    if len(traffic) <= MAX_FOR_CLASSES_FIRST:
        yield next(by_classes, None)
    orders = []
    for order in placement_orders(traffic):
        orders.append(order)
        fitted = fit_first(traffic, order, bound)
        if fitted.min() >= 0:
            yield Schedule.of(fitted, bound, method="liquid", detail="first fit")
    yield from by_classes
    if traffic.symmetries:
        yield from search_by_orbits(traffic, seed, budget)
    # Ejection begins with the first fit of the last order.
    yield from search_by_ejection(traffic, seed, budget, fitted)
    if len(traffic) * bound <= MAX_FOR_PROOF:
        yield _proved_schedule(traffic, seed, budget)
    yield shortest_first_fit(traffic, orders)
    yield from search_longer(traffic, seed, budget)


def _proved_schedule(traffic: Traffic, seed: int, budget: Budget) -> Schedule:
    """Return a shortest schedule of a small traffic, by the exact search or by CP-SAT.

    If time runs out, the schedule may be longer, and its ``proved`` says how far the proof came.
    """
    if len(traffic) <= MAX_FOR_EXACT:
        time_limit_s = max(1.0, budget.left_s() / 2)
        schedule = exact(traffic, seed=seed, time_limit_s=time_limit_s, now=budget.now)
        if schedule.proved != "unknown":
            return replace(schedule, method="liquid", detail="exhausted search")
    return cp_sat_schedule(traffic, seed=seed, time_limit_s=budget.left_s() / 2, now=budget.now)


def cp_sat_schedule(
    traffic: Traffic, *, seed: int = 1, time_limit_s: float = 60.0, now: Clock | None = None
) -> Schedule:
    """Return a shortest schedule by CP-SAT.

    Numbers of frames are tried from the bottleneck load upwards. If time runs out, the schedule is
    by first fit.

    Args:
        traffic: The traffic.
        seed: Seed of the solver.
        time_limit_s: Time limit in seconds.
        now: A clock in seconds, or None.
    """
    bound = traffic.bottleneck_load
    paths = traffic.paths()
    budget = Budget(time_limit_s, now)
    # Every smaller number of frames is proved impossible.
    length = bound
    while budget.left_s() > 0:
        answer = solve_packing(paths, length, 1, time_limit_s=budget.left_s(), seed=seed)
        if answer.state == "found":
            return Schedule.of(
                np.array(answer.bins, dtype=np.int32),
                bound,
                method="cp-sat",
                no_liquid=length > bound,
                optimal=True,
                detail="CP-SAT",
            )
        if answer.state == "unknown":
            break
        length += 1
    fallback = shortest_first_fit(traffic, placement_orders(traffic))
    return Schedule.of(
        fallback.frame_of,
        bound,
        method="cp-sat",
        no_liquid=length > bound,
        detail="time ran out, frames by first fit",
    )
