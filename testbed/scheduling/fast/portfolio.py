"""The fast method, which tries several searches one after another; and CP-SAT alone.

The searches are: classes with edge colouring, cyclic shifts, first fit, orbits of symmetries,
weighted ejection and finally CP-SAT. The failure of a heuristic is never treated as a proof:
"no-liquid-schedule" comes from an exhausted search or an infeasible model.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from testbed.errors import require_type
from testbed.jit import compiled_entry
from testbed.model.schedule import Clock, Schedule
from testbed.model.traffic import Traffic
from testbed.scheduling.checker import check_schedule, is_schedule
from testbed.scheduling.fast.phases import torus_phases
from testbed.scheduling.fast.steps import LinkSets, first_fit, seeded_state
from testbed.scheduling.fast.twin_links import search_twins
from testbed.scheduling.fast.unit_ejection import (
    UnitTable,
    eject,
    enter_positions,
    place_greedily,
    unit_table,
)

FIRST_FIT, SEARCH_TWINS = compiled_entry(first_fit), compiled_entry(search_twins)
EJECT, ENTER, PLACE = (
    compiled_entry(eject),
    compiled_entry(enter_positions),
    compiled_entry(place_greedily),
)
Frames = npt.NDArray[np.int32]

# Approximate number of positions that are examined per second. Without a clock, a time limit is
# measured by it.
PRICES_A_SECOND = 20_000_000

# Number of ejection steps of the first and of the last attempt by classes.
FIRST_STEPS, MAX_STEPS = 3_000, 400_000

# Up to this number of transfers, finding classes is faster than sorting the transfers by their
# ends, so it is tried first.
MAX_FOR_TWINS_FIRST = 4_096

# Largest number of transfers times frames for a proof by CP-SAT, and largest number of transfers
# for the exact search.
MAX_FOR_PROOF, MAX_FOR_EXACT = 60_000, 40

# Largest number of links times frames for which weighted ejection is tried; it then needs a
# gigabyte of memory.
MAX_STORED = 1 << 28


@dataclass
class _Budget:
    """The time limit, measured by a clock, or by work that is counted at a nominal speed.

    Attributes:
        limit_s: Time limit in seconds.
        now: The clock in seconds, or None.
        started: Time of the clock at the start.
        spent_s: Time of the counted work in seconds.
    """

    limit_s: float
    now: Clock | None
    started: float = 0.0
    spent_s: float = 0.0

    def __post_init__(self) -> None:
        self.started = self.now() if self.now is not None else 0.0

    def used_s(self) -> float:
        return self.now() - self.started if self.now is not None else self.spent_s

    def left_s(self) -> float:
        return self.limit_s - self.used_s()

    def spend(self, prices: float) -> None:
        self.spent_s += prices / PRICES_A_SECOND


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
    budget = _Budget(time_limit_s, now)
    best: Schedule | None = None
    for found in _attempts(traffic, seed, budget):
        if found is None:
            continue
        if (
            best is None
            or found.length < best.length
            or (found.proved != "unknown" and best.proved == "unknown")
        ):
            best = found
        if best.proved != "unknown" and best.optimal:
            break
        if budget.left_s() <= 0:
            break
    assert best is not None  # First fit always returns a schedule.
    check_schedule(traffic, best)
    return best


def _attempts(traffic: Traffic, seed: int, budget: _Budget) -> Iterator[Schedule | None]:
    """Yield the schedules of all searches, the fastest searches first.

    None is yielded between attempts of one search, so that the caller can check the time.
    """
    bound = traffic.bottleneck_load
    if (
        (phases := torus_phases(traffic)) is not None
        and phases.liquid
        and is_schedule(traffic, phases)
    ):
        yield phases
    twins = _by_twins(traffic, seed, budget)
    if len(traffic) <= MAX_FOR_TWINS_FIRST:
        yield next(twins, None)
    orders, fits = [], []
    for order in _orders(traffic):
        orders.append(order)
        fits.append(_fitted(traffic, order, bound))
        if fits[-1].min() >= 0:
            yield Schedule.of(fits[-1], bound, method="liquid", detail="first fit")
    yield from twins
    if traffic.symmetries:
        yield from _by_orbits(traffic, seed, budget)
    yield from _by_ejection(traffic, seed, budget, fits[-1])
    if len(traffic) * bound <= MAX_FOR_PROOF:
        yield _proof(traffic, seed, budget)
    yield _open_first_fit(traffic, orders)
    yield from _lengthened(traffic, seed, budget)


def _sets(traffic: Traffic) -> LinkSets:
    return LinkSets(traffic.offsets, traffic.indices, len(traffic.links))


def _by_twins(traffic: Traffic, seed: int, budget: _Budget) -> Iterator[Schedule | None]:
    """Search by classes of transfers over interchangeable links until the budget is used.

    Each attempt has more steps than the previous one. A quarter of the remaining time is used.
    """
    if len(traffic.links) * traffic.bottleneck_load > MAX_STORED:
        return
    bound, steps, attempt = traffic.bottleneck_load, FIRST_STEPS, 0
    until = budget.used_s() + max(0.0, budget.left_s()) / 4
    while steps <= MAX_STEPS and (attempt == 0 or budget.used_s() < until):
        frame_of = np.zeros(len(traffic.offsets) - 1, dtype=np.int32)
        state = SEARCH_TWINS(_sets(traffic), bound, steps, seed * 1000 + attempt, frame_of)
        if state < 0:
            return
        if state == 1:
            yield Schedule.of(frame_of, bound, method="liquid", detail="classes")
            return
        budget.spend(steps * bound)
        attempt += 1
        steps = steps * 3 // 2
        yield None


def _orders(traffic: Traffic) -> Iterator[npt.NDArray[np.int64]]:
    """Yield orders in which transfers are placed.

    If the ends are known, the first order is by cyclic shifts. The last order begins with the
    transfers over the most loaded links.
    """
    if len(traffic.ends):
        shift = _shifts(traffic)
        yield np.argsort(shift, kind="stable").astype(np.int64)
    loads = traffic.loads[traffic.indices].astype(np.float64)
    at = traffic.offsets[:-1]
    most, total = np.maximum.reduceat(loads, at), np.add.reduceat(loads, at)
    yield np.lexsort((-total, -most)).astype(np.int64)


def _shifts(traffic: Traffic) -> npt.NDArray[np.int64]:
    """Return the cyclic distance from source to sink; nodes are numbered as they first appear."""
    starts, stops = zip(*traffic.ends, strict=True)
    sources, sinks = dict.fromkeys(starts), dict.fromkeys(stops)
    if sources.keys() & sinks.keys():  # The same nodes send and receive.
        sources = sinks = sources | sinks
    first, last = _numbered(sources, starts), _numbered(sinks, stops)
    shift: npt.NDArray[np.int64] = (last - first) % max(len(sources), len(sinks))
    return shift


def _numbered(names: Iterable[str], of: Sequence[str]) -> npt.NDArray[np.int64]:
    """Return the position in ``names`` of each of the names ``of``."""
    place = {name: number for number, name in enumerate(names)}
    return np.fromiter(map(place.__getitem__, of), dtype=np.int64, count=len(of))


def _fitted(traffic: Traffic, order: npt.NDArray[np.int64], frames: int) -> Frames:
    """Return the frame of each transfer by first fit, or -1 if none of the frames is free."""
    frame_of = np.full(len(traffic), -1, dtype=np.int32)
    FIRST_FIT(_sets(traffic), order, frames, frame_of)
    return frame_of


def _open_first_fit(traffic: Traffic, orders: list[npt.NDArray[np.int64]]) -> Schedule:
    """Return the shortest first fit of the orders, with as many frames as it needs.

    This schedule always exists.
    """
    lengths = np.diff(traffic.offsets)
    most = int(min(len(traffic), (traffic.bottleneck_load - 1) * int(lengths.max()) + 1))
    found = [_fitted(traffic, order, most) for order in orders]
    return min(
        (
            Schedule.of(frame_of, traffic.bottleneck_load, method="liquid", detail="first fit")
            for frame_of in found
        ),
        key=lambda schedule: schedule.length,
    )


def _ejected(table: UnitTable, left: int, budget: _Budget, until_s: float) -> bool:
    """Run weighted ejection until no unit waits or the time is over.

    Args:
        table: The table.
        left: Number of units that wait.
        budget: The time limit.
        until_s: Used time in seconds at which the search ends.

    Returns:
        Whether all units have a position.
    """
    prices = table.holder.shape[1] * len(table.moved)
    steps = max(20, min(20_000, PRICES_A_SECOND // (20 * prices)))
    while left and budget.used_s() < until_s:
        left = EJECT(table, left, steps)
        budget.spend(steps * prices)
    return left == 0


def _mended(traffic: Traffic, fitted: Frames, frames: int, seed: int) -> tuple[UnitTable, int]:
    """Return a table that begins with a first fit, and the number of transfers that wait."""
    unmoved = np.arange(len(traffic.links), dtype=np.int64).reshape(1, -1)
    table = unit_table(_sets(traffic), unmoved, frames, seeded_state(seed))
    return table, ENTER(table, fitted)


def _by_ejection(
    traffic: Traffic, seed: int, budget: _Budget, fitted: Frames
) -> Iterator[Schedule | None]:
    """Search a liquid schedule by weighted ejection of single transfers.

    The search begins with a first fit. Half of the remaining time is used.
    """
    bound = traffic.bottleneck_load
    if len(traffic.links) * bound > MAX_STORED:
        return
    until = budget.used_s() + max(0.0, budget.left_s()) / 2
    if len(traffic) <= MAX_FOR_EXACT:
        until = min(
            until, budget.used_s() + 0.2
        )  # For small traffics the exact search, which follows, decides in less time.
    table, left = _mended(traffic, fitted, bound, seed)
    if _ejected(table, left, budget, until):
        yield Schedule.of(
            table.position.astype(np.int32), bound, method="liquid", detail="weighted ejection"
        )


def _lengthened(traffic: Traffic, seed: int, budget: _Budget) -> Iterator[Schedule | None]:
    """Search by weighted ejection with a few additional frames, and then with ever fewer."""
    bound = traffic.bottleneck_load
    if len(traffic.links) * bound > MAX_STORED:
        return
    order = list(_orders(traffic))[-1]
    more = max(1, bound // 10)
    while more >= 1 and budget.left_s() > 0:
        fitted = _fitted(traffic, order, bound + more)
        table, left = _mended(traffic, fitted, bound + more, seed)
        if _ejected(table, left, budget, budget.used_s() + budget.left_s() / 2):
            yield Schedule.of(
                table.position.astype(np.int32), bound, method="liquid", detail="weighted ejection"
            )
        elif more == 1:
            return
        more //= 2


def _by_orbits(traffic: Traffic, seed: int, budget: _Budget) -> Iterator[Schedule | None]:
    """Search by orbits of symmetry groups.

    One representative of each orbit is placed, and its images follow in the images of its frame.
    The two best groups are tried first. Then the same is tried with one additional base frame, for
    groups where this costs little, and finally the other groups are tried.
    """
    from testbed.scheduling.fast.symmetry import MAX_WASTE, Orbits, subgroups

    bound, groups = traffic.bottleneck_load, list(subgroups(traffic))
    small = [group for group in groups if len(group) <= MAX_WASTE * bound]
    for group, more in (
        [(g, 0) for g in groups[:2]] + [(g, 1) for g in small[:2]] + [(g, 0) for g in groups[2:]]
    ):
        if budget.left_s() <= 0:
            return
        orbits = Orbits.of(traffic, group)
        if orbits is None:
            continue
        frames = -(-bound // len(group)) + more
        sets = LinkSets(orbits.offsets, orbits.indices, len(traffic.links))
        table = unit_table(sets, np.stack(group).astype(np.int64), frames, seeded_state(seed))
        left = PLACE(table, orbits.order)
        if _ejected(table, left, budget, budget.used_s() + budget.left_s() / 4):
            yield Schedule.of(
                orbits.spread(table.position),
                bound,
                method="liquid",
                detail=f"orbits of {len(group)}",
            )


def _proof(traffic: Traffic, seed: int, budget: _Budget) -> Schedule | None:
    """Return a shortest schedule of a small traffic, by the exact search or by CP-SAT.

    If time runs out, the schedule may be longer, and its ``proved`` says how far the proof came.
    """
    if len(traffic) <= MAX_FOR_EXACT:
        from testbed.scheduling.theory_methods import exact

        found = exact(
            traffic, seed=seed, time_limit_s=max(1.0, budget.left_s() / 2), now=budget.now
        )
        if found.proved != "unknown":
            return replace(found, method="liquid", detail="exhausted search")
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
    from testbed.scheduling.fast.packing import solve_packing

    bound, paths = traffic.bottleneck_load, traffic.paths()
    budget = _Budget(time_limit_s, now)
    length, proved = bound, True
    while proved and budget.left_s() > 0:
        answer = solve_packing(paths, length, 1, time_limit_s=budget.left_s(), seed=seed)
        if answer.state == "found":
            frame_of = np.array(answer.bins, dtype=np.int32)
            return Schedule.of(
                frame_of,
                bound,
                method="cp-sat",
                no_liquid=length > bound,
                optimal=True,
                detail="CP-SAT",
            )
        proved = answer.state == "impossible"
        length += proved
    fallback = _open_first_fit(traffic, list(_orders(traffic)))
    return Schedule.of(
        fallback.frame_of,
        bound,
        method="cp-sat",
        no_liquid=length > bound,
        detail="time ran out, frames by first fit",
    )
