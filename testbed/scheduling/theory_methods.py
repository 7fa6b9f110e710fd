"""The exact search of the thesis and its baselines as scheduling methods.

All have the signature of ``SchedulingMethod``. ``random_order``, ``identical_order``,
``round_robin`` and ``dsatur`` need no time limit, and prove only what follows from the length of
their schedules.
"""

from testbed.model.schedule import Clock, Schedule
from testbed.model.traffic import Traffic
from testbed.scheduling.baselines import (
    Frames,
    compact_rounds,
    dsatur_frames,
    sending_rounds,
    split_rounds,
)
from testbed.scheduling.exact.exact_search import ExactResult, search_exactly
from testbed.scheduling.exact.milp import solve_milp

# Number of categories per second that the exact search examines at least. Without a clock, the time
# limit is converted into a number of categories.
CATEGORIES_A_SECOND = 40_000


def exact(
    traffic: Traffic, *, seed: int = 1, time_limit_s: float = 60.0, now: Clock | None = None
) -> Schedule:
    """Return a shortest schedule by the search of the thesis (Gabrielyan 2007, section 3.7).

    If time runs out, the schedule is DSATUR's, and ``proved`` says how far the search came. It is
    "no-liquid-schedule" only after the complete tree was searched.

    Args:
        traffic: The traffic.
        seed: Seed of the search.
        time_limit_s: Time limit in seconds.
        now: A clock in seconds; None limits the number of categories instead.
    """
    if now is None:
        max_categories = int(time_limit_s * CATEGORIES_A_SECOND)
        result = search_exactly(traffic.paths(), seed=seed, most_categories=max_categories)
    else:
        end_s = now() + time_limit_s
        clock = now

        def expired() -> bool:
            return clock() >= end_s

        result = search_exactly(traffic.paths(), seed=seed, expired=expired)
    return _schedule(traffic, result, "exact", f"{result.categories} categories")


def milp(
    traffic: Traffic, *, seed: int = 1, time_limit_s: float = 60.0, now: Clock | None = None
) -> Schedule:
    """Return a shortest schedule by integer programming (Gabrielyan 2007, equations 30 to 33).

    If time runs out, the schedule is DSATUR's. The solver is HiGHS, which takes no ``seed``.

    Args:
        traffic: The traffic.
        seed: Ignored.
        time_limit_s: Time limit in seconds.
        now: A clock in seconds, or None; see ``solve_milp``.
    """
    result = solve_milp(traffic.paths(), time_limit_s=time_limit_s, now=now)
    return _schedule(traffic, result, "milp", "")


def _schedule(traffic: Traffic, result: ExactResult, method: str, detail: str) -> Schedule:
    """Return the schedule of an exact search, or DSATUR's if the search found none.

    Args:
        traffic: The traffic.
        result: The result of the search.
        method: Name of the method.
        detail: Text about the search.
    """
    frames = result.frames
    if frames is None:
        detail = f"time ran out, frames by DSATUR; {detail}".rstrip("; ")
        frames = dsatur_frames(traffic.paths())
    return Schedule.of_frames(
        frames,
        traffic.bottleneck_load,
        method=method,
        no_liquid=result.lower_bound > traffic.bottleneck_load,
        optimal=True if len(frames) == result.lower_bound else None,
        detail=detail,
    )


def round_robin(
    traffic: Traffic, *, seed: int = 1, time_limit_s: float = 60.0, now: Clock | None = None
) -> Schedule:
    """Let every sender send to the receivers in turn, beginning with its own number.

    Rounds that congest are divided (Gabrielyan 2007, section 3.3). Only ``traffic`` is used.
    """
    paths = traffic.paths()
    return _of_frames(
        traffic, split_rounds(paths, sending_rounds(paths, "round-robin")), "round-robin"
    )


def random_order(
    traffic: Traffic, *, seed: int = 1, time_limit_s: float = 60.0, now: Clock | None = None
) -> Schedule:
    """Give every sender a random order of its own.

    Each transfer takes the first frame in which its links are free. Only ``traffic`` and ``seed``
    are used.
    """
    paths = traffic.paths()
    rounds = sending_rounds(paths, "random", seed=seed)
    return _of_frames(traffic, compact_rounds(paths, rounds), "random")


def identical_order(
    traffic: Traffic, *, seed: int = 1, time_limit_s: float = 60.0, now: Clock | None = None
) -> Schedule:
    """Let every sender use the order of the traffic.

    Each transfer takes the first frame in which its links are free. Only ``traffic`` is used.
    """
    paths = traffic.paths()
    return _of_frames(
        traffic, compact_rounds(paths, sending_rounds(paths, "identical")), "identical"
    )


def dsatur(
    traffic: Traffic, *, seed: int = 1, time_limit_s: float = 60.0, now: Clock | None = None
) -> Schedule:
    """Colour the congestion graph greedily (Gabrielyan 2007, Table 3); only ``traffic`` is used."""
    return _of_frames(traffic, dsatur_frames(traffic.paths()), "dsatur")


def _of_frames(traffic: Traffic, frames: Frames, method: str) -> Schedule:
    return Schedule.of_frames(frames, traffic.bottleneck_load, method=method)
