"""The thesis' exact search and its baselines as scheduling methods: a traffic in, a schedule out, all of one signature.

``random_order``, ``identical_order``, ``round_robin`` and ``dsatur`` need no time limit and prove no more than their
length shows.
"""

from collections.abc import Callable, Sequence

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

Paths = Sequence[Sequence[int]]
CATEGORIES_A_SECOND = 40_000
"""What the exact search goes through at least; its allowance where no clock is given, so that the time limit roughly
holds."""


def exact(
    traffic: Traffic, *, seed: int = 1, time_limit_s: float = 60.0, now: Clock | None = None
) -> Schedule:
    """A shortest schedule by the thesis' search (Gabrielyan 2007, section 3.7), or DSATUR's where time runs out: then
    ``proved`` says how far the search came. "no-liquid-schedule" only after the whole tree was searched. Without
    ``now`` the limit is one on categories.
    """
    end = 0.0 if now is None else now() + time_limit_s
    result = search_exactly(
        traffic.paths(),
        seed=seed,
        expired=None if now is None else lambda: now() >= end,
        most_categories=int(time_limit_s * CATEGORIES_A_SECOND) if now is None else None,
    )
    return _bounded(traffic, result, "exact", f"{result.categories} categories")


def milp(
    traffic: Traffic, *, seed: int = 1, time_limit_s: float = 60.0, now: Clock | None = None
) -> Schedule:
    """A shortest schedule by HiGHS (Gabrielyan 2007, eq. 30 to 33), or DSATUR's where time runs out. HiGHS takes no
    ``seed``."""
    return _bounded(
        traffic, solve_milp(traffic.paths(), time_limit_s=time_limit_s, now=now), "milp"
    )


def _heuristic(method: str, frames: Callable[[Paths, int], Frames]) -> Callable[..., Schedule]:
    """The schedule of frames of paths and a seed."""

    def schedule(
        traffic: Traffic, *, seed: int = 1, time_limit_s: float = 60.0, now: Clock | None = None
    ) -> Schedule:
        return Schedule.of_frames(
            frames(traffic.paths(), seed), traffic.bottleneck_load, method=method
        )

    return schedule


round_robin = _heuristic(
    "round-robin", lambda paths, _: split_rounds(paths, sending_rounds(paths, "round-robin"))
)
"""Every sender goes round the receivers from its own place on; rounds that congest are split (Gabrielyan 2007, section
3.3)."""
random_order = _heuristic(
    "random", lambda paths, seed: compact_rounds(paths, sending_rounds(paths, "random", seed=seed))
)
"""Every sender has a random order of its own; each transfer takes the first frame that its links allow."""
identical_order = _heuristic(
    "identical", lambda paths, _: compact_rounds(paths, sending_rounds(paths, "identical"))
)
"""Every sender keeps the traffic's order; each transfer takes the first frame that its links allow."""
dsatur = _heuristic("dsatur", lambda paths, _: dsatur_frames(paths))
"""The congestion graph coloured greedily (Gabrielyan 2007, Table 3)."""


def _bounded(traffic: Traffic, result: ExactResult, method: str, detail: str = "") -> Schedule:
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
