"""The heuristic searches of the fast method, each within a time limit.

They are the search by classes, the search by orbits of symmetries, and weighted ejection of single
transfers, with as many frames as the bottleneck has transfers or with a few more. Each search
yields the schedules that it finds. Between attempts some of them yield None, so that the caller can
check the time.
"""

from collections.abc import Iterator

import numpy as np

from testbed.jit import compiled_entry
from testbed.model.schedule import Schedule
from testbed.model.traffic import Traffic
from testbed.scheduling.fast.budget import POSITIONS_PER_SECOND, Budget
from testbed.scheduling.fast.placement import Frames, fit_first, link_sets, placement_orders
from testbed.scheduling.fast.steps import LinkSets, seeded_state
from testbed.scheduling.fast.symmetry import MAX_WASTE, Orbits, subgroups
from testbed.scheduling.fast.twin_links import search_twins
from testbed.scheduling.fast.unit_ejection import (
    UnitTable,
    eject,
    enter_positions,
    place_greedily,
    unit_table,
)

SEARCH_TWINS = compiled_entry(search_twins)
EJECT = compiled_entry(eject)
ENTER = compiled_entry(enter_positions)
PLACE = compiled_entry(place_greedily)

# Number of ejection steps of the first and of the last attempt by classes.
FIRST_STEPS = 3_000
MAX_STEPS = 400_000

# Limits of the number of ejection steps between two looks at the clock. Within them, the steps take
# about a twentieth of a second.
MIN_STEPS_PER_CALL = 20
MAX_STEPS_PER_CALL = 20_000

# Largest number of links times frames for which a search is tried; it then needs a gigabyte of
# memory.
MAX_STORED = 1 << 28

# Up to this number of transfers the exact search, which follows weighted ejection, soon finds a
# schedule or proves that there is none. Ejection is then limited to this time in seconds.
MAX_FOR_EXACT = 40
EJECTION_BEFORE_EXACT_S = 0.2


def search_by_classes(traffic: Traffic, seed: int, budget: Budget) -> Iterator[Schedule | None]:
    """Search by classes of transfers over interchangeable links.

    Each attempt has more steps than the previous one. A quarter of the remaining time is used.
    """
    bound = traffic.bottleneck_load
    if len(traffic.links) * bound > MAX_STORED:
        return
    steps = FIRST_STEPS
    attempt = 0
    until_s = budget.used_s() + max(0.0, budget.left_s()) / 4
    while steps <= MAX_STEPS and (attempt == 0 or budget.used_s() < until_s):
        frame_of = np.zeros(len(traffic.offsets) - 1, dtype=np.int32)
        state = SEARCH_TWINS(link_sets(traffic), bound, steps, seed * 1000 + attempt, frame_of)
        if state < 0:
            return
        if state == 1:
            yield Schedule.of(frame_of, bound, method="liquid", detail="classes")
            return
        budget.spend(steps * bound)
        attempt += 1
        steps = steps * 3 // 2
        yield None


def search_by_orbits(traffic: Traffic, seed: int, budget: Budget) -> Iterator[Schedule]:
    """Search by orbits of symmetry groups.

    One representative of each orbit is placed, and its images follow in the images of its frame.
    The two best groups are tried first. Then the same is tried with one additional base frame, for
    groups where this costs little, and finally the other groups are tried.
    """
    bound = traffic.bottleneck_load
    groups = list(subgroups(traffic))
    small_groups = [group for group in groups if len(group) <= MAX_WASTE * bound]
    # Each attempt has a group and a number of additional base frames.
    attempts = [(group, 0) for group in groups[:2]]
    attempts += [(group, 1) for group in small_groups[:2]]
    attempts += [(group, 0) for group in groups[2:]]
    for group, additional in attempts:
        if budget.left_s() <= 0:
            return
        orbits = Orbits.of(traffic, group)
        if orbits is None:
            continue
        frames = -(-bound // len(group)) + additional
        sets = LinkSets(orbits.offsets, orbits.indices, len(traffic.links))
        shifts = np.stack(group).astype(np.int64)
        table = unit_table(sets, shifts, frames, seeded_state(seed))
        waiting = PLACE(table, orbits.order)
        until_s = budget.used_s() + budget.left_s() / 4
        if _eject_until(table, waiting, budget, until_s):
            frame_of = orbits.spread(table.position)
            detail = f"orbits of {len(group)}"
            yield Schedule.of(frame_of, bound, method="liquid", detail=detail)


def search_by_ejection(
    traffic: Traffic, seed: int, budget: Budget, fitted: Frames
) -> Iterator[Schedule]:
    """Search for a liquid schedule by weighted ejection of single transfers.

    Half of the remaining time is used.

    Args:
        traffic: The traffic.
        seed: Seed of the random choices.
        budget: The time limit.
        fitted: The first fit with which the search begins.
    """
    bound = traffic.bottleneck_load
    if len(traffic.links) * bound > MAX_STORED:
        return
    until_s = budget.used_s() + max(0.0, budget.left_s()) / 2
    if len(traffic) <= MAX_FOR_EXACT:
        until_s = min(until_s, budget.used_s() + EJECTION_BEFORE_EXACT_S)
    table, waiting = _table_of_first_fit(traffic, fitted, bound, seed)
    if _eject_until(table, waiting, budget, until_s):
        yield _schedule_by_ejection(traffic, table)


def search_longer(traffic: Traffic, seed: int, budget: Budget) -> Iterator[Schedule]:
    """Search by weighted ejection with a few additional frames, and then with ever fewer."""
    bound = traffic.bottleneck_load
    if len(traffic.links) * bound > MAX_STORED:
        return
    order = list(placement_orders(traffic))[-1]
    additional = max(1, bound // 10)
    while additional >= 1 and budget.left_s() > 0:
        fitted = fit_first(traffic, order, bound + additional)
        table, waiting = _table_of_first_fit(traffic, fitted, bound + additional, seed)
        until_s = budget.used_s() + budget.left_s() / 2
        if _eject_until(table, waiting, budget, until_s):
            yield _schedule_by_ejection(traffic, table)
        elif additional == 1:
            return
        additional //= 2


def _table_of_first_fit(
    traffic: Traffic, fitted: Frames, frames: int, seed: int
) -> tuple[UnitTable, int]:
    """Return a table in which transfers have the frames of a first fit.

    Args:
        traffic: The traffic.
        fitted: The frame of each transfer, or -1.
        frames: Number of frames.
        seed: Seed of the random choices.

    Returns:
        The table, and the number of transfers without a frame, which wait.
    """
    unmoved = np.arange(len(traffic.links), dtype=np.int64).reshape(1, -1)
    table = unit_table(link_sets(traffic), unmoved, frames, seeded_state(seed))
    return table, ENTER(table, fitted)


def _eject_until(table: UnitTable, waiting: int, budget: Budget, until_s: float) -> bool:
    """Run weighted ejection until no unit waits or the time is over.

    Args:
        table: The table.
        waiting: Number of units that wait.
        budget: The time limit.
        until_s: Used time in seconds at which the search ends.

    Returns:
        Whether all units have a position.
    """
    positions = table.holder.shape[1] * len(table.moved)
    steps = POSITIONS_PER_SECOND // (20 * positions)
    steps = max(MIN_STEPS_PER_CALL, min(MAX_STEPS_PER_CALL, steps))
    while waiting and budget.used_s() < until_s:
        waiting = EJECT(table, waiting, steps)
        budget.spend(steps * positions)
    return waiting == 0


def _schedule_by_ejection(traffic: Traffic, table: UnitTable) -> Schedule:
    """Return the schedule of a table in which every transfer has a frame."""
    return Schedule.of(
        table.position.astype(np.int32),
        traffic.bottleneck_load,
        method="liquid",
        detail="weighted ejection",
    )
