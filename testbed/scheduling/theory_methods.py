"""The thesis' exact search and its baselines as scheduling methods: a traffic in, a schedule out, all of one signature.

``random_order``, ``identical_order``, ``round_robin`` and ``dsatur`` need no time limit and prove no more than their
length shows.
"""

from collections.abc import Callable, Sequence

from testbed.model.schedule import Schedule
from testbed.model.traffic import Traffic
from testbed.scheduling.baselines import compact_rounds, dsatur_frames, sending_rounds, split_rounds
from testbed.scheduling.exact.exact_search import search_exactly
from testbed.scheduling.exact.milp import solve_milp

Clock = Callable[[], float]
CATEGORIES_A_SECOND = 40_000
"""What the exact search goes through at least; its allowance where no clock is given, so that the time limit roughly
holds."""


def exact(traffic: Traffic, *, seed: int = 1, time_limit_s: float = 60.0, now: Clock | None = None) -> Schedule:
    """A shortest schedule by the thesis' search (Gabrielyan 2007, section 3.7), or DSATUR's where time runs out: then
    ``proved`` says how far the search came. "no-liquid-schedule" only after the whole tree was searched. Without
    ``now`` the limit is one on categories.
    """
    paths = traffic.paths()
    result = search_exactly(
        paths,
        seed=seed,
        expired=_expiry(time_limit_s, now),
        most_categories=int(time_limit_s * CATEGORIES_A_SECOND) if now is None else None,
    )
    detail = f"{result.categories} categories"
    return _bounded(traffic, paths, result.frames, result.lower_bound, "exact", detail)


def milp(traffic: Traffic, *, seed: int = 1, time_limit_s: float = 60.0, now: Clock | None = None) -> Schedule:
    """A shortest schedule by HiGHS (Gabrielyan 2007, eq. 30 to 33), or DSATUR's where time runs out. HiGHS takes no
    ``seed``."""
    paths = traffic.paths()
    result = solve_milp(paths, time_limit_s=time_limit_s, now=now)
    return _bounded(traffic, paths, result.frames, result.lower_bound, "milp", "")


def round_robin(traffic: Traffic, *, seed: int = 1, time_limit_s: float = 60.0, now: Clock | None = None) -> Schedule:
    """Every sender goes round the receivers from its own place on; rounds that congest are split (Gabrielyan 2007,
    section 3.3)."""
    paths = traffic.paths()
    return _plain(traffic, split_rounds(paths, sending_rounds(paths, "round-robin")), "round-robin")


def random_order(traffic: Traffic, *, seed: int = 1, time_limit_s: float = 60.0, now: Clock | None = None) -> Schedule:
    """Every sender has a random order of its own; each transfer takes the first frame that its links allow."""
    paths = traffic.paths()
    return _plain(traffic, compact_rounds(paths, sending_rounds(paths, "random", seed=seed)), "random")


def identical_order(
    traffic: Traffic, *, seed: int = 1, time_limit_s: float = 60.0, now: Clock | None = None
) -> Schedule:
    """Every sender keeps the traffic's order; each transfer takes the first frame that its links allow."""
    paths = traffic.paths()
    return _plain(traffic, compact_rounds(paths, sending_rounds(paths, "identical")), "identical")


def dsatur(traffic: Traffic, *, seed: int = 1, time_limit_s: float = 60.0, now: Clock | None = None) -> Schedule:
    """The congestion graph coloured greedily (Gabrielyan 2007, Table 3)."""
    return _plain(traffic, dsatur_frames(traffic.paths()), "dsatur")


def _expiry(time_limit_s: float, now: Clock | None) -> Callable[[], bool] | None:
    if now is None:
        return None
    clock, end = now, now() + time_limit_s
    return lambda: clock() >= end


def _plain(traffic: Traffic, frames: Sequence[Sequence[int]], method: str) -> Schedule:
    return Schedule.of_frames(frames, traffic.bottleneck_load, method=method)


def _bounded(
    traffic: Traffic,
    paths: list[list[int]],
    frames: Sequence[Sequence[int]] | None,
    lower_bound: int,
    method: str,
    detail: str,
) -> Schedule:
    if frames is None:
        detail = f"time ran out, frames by DSATUR; {detail}".rstrip("; ")
        frames = dsatur_frames(paths)
    duration = traffic.bottleneck_load
    return Schedule.of_frames(
        frames,
        duration,
        method=method,
        no_liquid=lower_bound > duration,
        optimal=True if len(frames) == lower_bound else None,
        detail=detail,
    )
