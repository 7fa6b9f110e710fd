"""Weighted ejection of units: repairs a first fit that found no frame for some transfers.

A unit is a transfer, or the representative of an orbit of a symmetric traffic. Its position is a
time frame, or a frame together with an element of the symmetry group that moves its links
(``frame * shifts + shift``). In each frame a link belongs to at most one unit.

A step takes a random unit that waits, and looks for the position where the units that have its
links have the smallest total weight. It puts the unit there. The other units leave, wait in turn,
and their weights rise by 1. A unit that is often in the way thus becomes expensive to move, which
keeps the search from going in circles. A unit that was just placed is tabu: it stays for the next
step (Glover 1989).

The functions are compiled by ``testbed.scheduling.fast.searches``; tests run them uncompiled.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from testbed.scheduling.fast.steps import LARGE, UNPLACED, Ints, LinkSets, RandomState, next_random

# A unit that was just placed is not ejected for this number of steps.
TABU_STEPS = 1

# If there are more than five times as many positions as this, a step examines only this number of
# them: those where the fewest links are in use.
MAX_WEIGHED = 96


class UnitTable(NamedTuple):
    """The positions of the units of a traffic.

    There are U units, L links, F frames and S shifts.

    Attributes:
        offsets: Start of each unit's links in ``indices``, and the end of the last.
        indices: The links of the units.
        moved: Image of each link under each shift, shape (S, L).
        holder: Unit that has the link in the frame, or UNPLACED, shape (L, F).
        position: Position of each unit, or UNPLACED for units that wait, shape (U,).
        waiting: The units that wait.
        weight: Weight of each unit: 1 plus the number of its ejections, shape (U,).
        tabu: Step until which each unit stays, shape (U,).
        steps: Number of steps so far, one entry.
        victims: Units that would have to leave the position in view.
        leaving: Units that have to leave the best position so far.
        random: State of the random generator.
    """

    offsets: Ints
    indices: Ints
    moved: Ints
    holder: npt.NDArray[np.int32]
    position: Ints
    waiting: Ints
    weight: Ints
    tabu: Ints
    steps: Ints
    victims: Ints
    leaving: Ints
    random: RandomState


def unit_table(sets: LinkSets, moved: Ints, frames: int, random: RandomState) -> UnitTable:
    """Return a table in which no unit has a position.

    Args:
        sets: The links of the units.
        moved: Image of each link under each shift, shape (shifts, links).
        frames: Number of frames.
        random: State of the random generator.
    """
    units = len(sets.offsets) - 1
    most_links = int(np.diff(sets.offsets).max())
    return UnitTable(
        offsets=sets.offsets.astype(np.int64),
        indices=sets.indices.astype(np.int64),
        moved=moved,
        holder=np.full((sets.links, frames), UNPLACED, dtype=np.int32),
        position=np.full(units, UNPLACED, dtype=np.int64),
        waiting=np.zeros(units, dtype=np.int64),
        weight=np.ones(units, dtype=np.int64),
        tabu=np.zeros(units, dtype=np.int64),
        steps=np.zeros(1, dtype=np.int64),
        victims=np.zeros(most_links, dtype=np.int64),
        leaving=np.zeros(most_links, dtype=np.int64),
        random=random,
    )


def place(table: UnitTable, unit: int, position: int) -> None:
    """Put the unit at a position: it gets its links, moved by the shift, in the frame."""
    shifts = len(table.moved)
    frame = position // shifts
    shift = position % shifts
    for k in range(table.offsets[unit], table.offsets[unit + 1]):
        table.holder[table.moved[shift, table.indices[k]], frame] = unit
    table.position[unit] = position


def remove(table: UnitTable, unit: int) -> None:
    """Remove the unit from its position, and release its links."""
    shifts = len(table.moved)
    frame = table.position[unit] // shifts
    shift = table.position[unit] % shifts
    for k in range(table.offsets[unit], table.offsets[unit + 1]):
        table.holder[table.moved[shift, table.indices[k]], frame] = UNPLACED
    table.position[unit] = UNPLACED


def enter_positions(table: UnitTable, frame_of: npt.NDArray[np.int32]) -> int:
    """Put every unit into its frame, in a table with one shift.

    Args:
        table: The table.
        frame_of: Frame of each unit, or UNPLACED.

    Returns:
        The number of units without a frame, which wait.
    """
    waiting = 0
    for unit in range(len(frame_of)):
        if frame_of[unit] == UNPLACED:
            table.waiting[waiting] = unit
            waiting += 1
        else:
            place(table, unit, frame_of[unit])
    return waiting


def place_greedily(table: UnitTable, order: Ints) -> int:
    """Put each unit at the first position that no other unit has to leave.

    Args:
        table: The table.
        order: The units in the order in which they are placed.

    Returns:
        The number of units that found no position and now wait.
    """
    positions = table.holder.shape[1] * len(table.moved)
    waiting = 0
    previous_links = table.indices[:0]
    position = 0
    for unit in order:
        # No unit leaves meanwhile. Positions that were not free for a unit are not free for the
        # next one either, if it has the same links.
        links = table.indices[table.offsets[unit] : table.offsets[unit + 1]]
        if not np.array_equal(links, previous_links):
            position = 0
        previous_links = links
        while position < positions and not is_free(table, unit, position):
            position += 1
        if position < positions:
            place(table, unit, position)
        else:
            table.waiting[waiting] = unit
            waiting += 1
    return waiting


def is_free(table: UnitTable, unit: int, position: int) -> bool:
    """Return whether no unit has a link that this unit would get at the position."""
    shifts = len(table.moved)
    frame = position // shifts
    shift = position % shifts
    for k in range(table.offsets[unit], table.offsets[unit + 1]):
        if table.holder[table.moved[shift, table.indices[k]], frame] != UNPLACED:
            return False
    return True


def count_removed(table: UnitTable, unit: int, taken: npt.NDArray[np.int32]) -> int:
    """Count how many of the unit's links are in use in each frame.

    Args:
        table: The table.
        unit: The unit.
        taken: Receives the number for each frame.

    Returns:
        The smallest of these numbers.
    """
    taken[:] = 0
    for k in range(table.offsets[unit], table.offsets[unit + 1]):
        row = table.holder[table.indices[k]]
        for frame in range(len(taken)):
            # Adding the comparison avoids a branch in the innermost loop.
            taken[frame] += row[frame] != UNPLACED
    return taken.min()  # type: ignore[no-any-return]


def cheapest_position(table: UnitTable, unit: int, taken: npt.NDArray[np.int32]) -> tuple[int, int]:
    """Find the position where the units that have to leave have the smallest total weight.

    Of equal positions, a random one is chosen.

    This is the innermost loop of the search. It is one function, because a call in compiled code
    counts the references of every array, which would take longer than the work.

    Args:
        table: The table; ``leaving`` receives the units that have to leave the position.
        unit: The unit.
        taken: Room for one entry per frame, if there are so many frames that only the best ones are
            examined; otherwise one entry in all.

    Returns:
        The position, and the number of units that have to leave it.
    """
    # Local names save the compiled loop a look-up for each access.
    offsets = table.offsets
    indices = table.indices
    moved = table.moved
    holder = table.holder
    weight = table.weight
    tabu = table.tabu
    victims = table.victims
    leaving = table.leaving
    shifts = len(moved)
    step = table.steps[0]
    positions = holder.shape[1] * shifts
    best_cost = LARGE * 64
    best_position = 0
    best_victims = 0
    ties = 0
    start = next_random(table.random) % positions
    only_best_frames = len(taken) == positions and positions > 1
    fewest_taken = 0
    examined = 0
    if only_best_frames:
        fewest_taken = count_removed(table, unit, taken)
    for offset in range(positions):
        position = start + offset
        if position >= positions:
            position -= positions
        if only_best_frames:
            if taken[position] > fewest_taken:
                continue
            examined += 1
            if examined > MAX_WEIGHED:
                break
        frame = position // shifts
        shift = position % shifts
        cost = 0
        victim_count = 0
        for k in range(offsets[unit], offsets[unit + 1]):
            other = holder[moved[shift, indices[k]], frame]
            counted = other == UNPLACED
            for v in range(victim_count):
                counted = counted or victims[v] == other
            if counted:
                continue
            victims[victim_count] = other
            victim_count += 1
            cost += weight[other] + (LARGE if tabu[other] > step else 0)
            if cost > best_cost:
                break
        if cost > best_cost:
            continue
        ties = ties + 1 if cost == best_cost else 1
        if cost < best_cost or next_random(table.random) % ties == 0:
            best_cost = cost
            best_position = position
            best_victims = victim_count
            for v in range(victim_count):
                leaving[v] = victims[v]
        if best_cost == 0:
            break
    return best_position, best_victims


def eject(table: UnitTable, waiting: int, steps: int) -> int:
    """Place waiting units by weighted ejection, until none waits.

    The time of a step is the number of positions times the number of links of a unit.

    Args:
        table: The table.
        waiting: Number of units that wait.
        steps: Largest number of steps.

    Returns:
        The number of units that wait at the end.
    """
    positions = table.holder.shape[1] * len(table.moved)
    only_best_frames = len(table.moved) == 1 and positions > 5 * MAX_WEIGHED
    taken = np.zeros(positions if only_best_frames else 1, dtype=np.int32)
    for _ in range(steps):
        if waiting == 0:
            break
        table.steps[0] += 1
        pick = next_random(table.random) % waiting
        unit = table.waiting[pick]
        waiting -= 1
        table.waiting[pick] = table.waiting[waiting]
        position, victims = cheapest_position(table, unit, taken)
        for v in range(victims):
            other = table.leaving[v]
            remove(table, other)
            table.weight[other] += 1
            table.waiting[waiting] = other
            waiting += 1
        place(table, unit, position)
        table.tabu[unit] = table.steps[0] + TABU_STEPS
    return waiting
