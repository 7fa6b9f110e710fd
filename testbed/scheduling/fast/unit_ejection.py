"""Weighted ejection: how the fast method repairs a first fit that found no frame for some transfers.

A unit is a transfer, or an orbit's representative of a symmetric traffic; its position is a time frame, or a frame and
an element of the symmetry group that moves its links (``frame * shifts + shift``). A link is held by at most one unit
in each frame. A step takes a random unit that waits, looks for the position where the units that hold its links weigh
least, and puts it there: those units leave, wait in their turn, and weigh one more each. So a unit that is often in the
way becomes dear to move, and the search leaves the places where it would go in circles. What was just put somewhere is
tabu: it stays for the next step (Glover 1989).

Compiled by testbed.scheduling.fast.portfolio; tests run it as it is.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from testbed.scheduling.fast.steps import LARGE, UNPLACED, Ints, LinkSets, RandomState, next_random

TABU_STEPS = 1
"""A unit that was just put somewhere is not ejected for so many steps."""
MAX_WEIGHED = 96
"""Positions that a step weighs where there are more than five times as many: only those where fewest links are held."""


class UnitTable(NamedTuple):
    """Where the units of a traffic are. Shapes: U units, L links, F frames, S shifts.

    ``moved``: shape (S, L), the image of each link under each shift. ``holder``: shape (L, F), the unit that has the
    link in the frame, or UNPLACED. ``position``: shape (U,), UNPLACED for units that wait; those are listed in
    ``waiting``. ``weight``: shape (U,); ``tabu``: shape (U,), the step until which a unit stays; ``steps``: one entry,
    the steps so far. ``victims`` and ``leaving``: room for the units that would leave the position in view, and the
    best one.
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
    """A table in which no unit has a position."""
    units, widest = len(sets.offsets) - 1, int(np.diff(sets.offsets).max())
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
        victims=np.zeros(widest, dtype=np.int64),
        leaving=np.zeros(widest, dtype=np.int64),
        random=random,
    )


def place(table: UnitTable, unit: int, at: int) -> None:
    """Enter the unit at position ``at``: it holds its links, moved by the shift, in the frame."""
    shifts = len(table.moved)
    for k in range(table.offsets[unit], table.offsets[unit + 1]):
        table.holder[table.moved[at % shifts, table.indices[k]], at // shifts] = unit
    table.position[unit] = at


def remove(table: UnitTable, unit: int) -> None:
    """Free the unit's links at its position."""
    shifts, at = len(table.moved), table.position[unit]
    for k in range(table.offsets[unit], table.offsets[unit + 1]):
        table.holder[table.moved[at % shifts, table.indices[k]], at // shifts] = UNPLACED
    table.position[unit] = UNPLACED


def enter_positions(table: UnitTable, frame_of: npt.NDArray[np.int32]) -> int:
    """Enter every unit that has a frame (of a table with one shift); those without one wait: how many."""
    left = 0
    for unit in range(len(frame_of)):
        if frame_of[unit] == UNPLACED:
            table.waiting[left] = unit
            left += 1
        else:
            place(table, unit, frame_of[unit])
    return left


def place_greedily(table: UnitTable, order: Ints) -> int:
    """Each unit, in order, at the first position where nothing has to leave; how many wait instead."""
    offsets, indices = table.offsets, table.indices
    positions = table.holder.shape[1] * len(table.moved)
    left, before, begin = 0, indices[:0], 0
    for unit in order:
        # what the unit before it could not have, one with the same links cannot have either: nothing leaves meanwhile
        links = indices[offsets[unit] : offsets[unit + 1]]
        begin = begin if np.array_equal(links, before) else 0
        before = links
        while begin < positions and not is_free(table, unit, begin):
            begin += 1
        if begin < positions:
            place(table, unit, begin)
        else:
            table.waiting[left] = unit
            left += 1
    return left


def is_free(table: UnitTable, unit: int, at: int) -> bool:
    """Whether no other unit holds a link that the unit would have at the position."""
    shifts = len(table.moved)
    for k in range(table.offsets[unit], table.offsets[unit + 1]):
        if table.holder[table.moved[at % shifts, table.indices[k]], at // shifts] != UNPLACED:
            return False
    return True


def count_removed(table: UnitTable, unit: int, taken: npt.NDArray[np.int32]) -> int:
    """How many of the unit's links are held in each frame, into ``taken``; the least of these numbers."""
    taken[:] = 0
    for k in range(table.offsets[unit], table.offsets[unit + 1]):
        row = table.holder[table.indices[k]]
        for frame in range(len(taken)):
            taken[frame] += row[frame] != UNPLACED
    return taken.min()  # type: ignore[no-any-return]


def cheapest_position(table: UnitTable, unit: int, taken: npt.NDArray[np.int32]) -> tuple[int, int]:
    """(position, how many have to leave it, listed in ``leaving``): where these weigh least; ties at random.

    ``taken``: one entry a frame where positions are so many that only the best frames are weighed, else one entry in
    all. One function: compiled code counts the references of every array at each call, which here would take longer
    than the work.
    """
    offsets, indices, moved, holder = table.offsets, table.indices, table.moved, table.holder
    weight, tabu, victims, leaving = table.weight, table.tabu, table.victims, table.leaving
    shifts, step, positions = len(moved), table.steps[0], holder.shape[1] * len(moved)
    best, best_at, leave, ties = LARGE * 64, 0, 0, 0
    start = next_random(table.random) % positions
    many, fewest, weighed = len(taken) == positions and positions > 1, 0, 0
    if many:
        fewest = count_removed(table, unit, taken)
    for offset in range(positions):
        at = start + offset
        if at >= positions:
            at -= positions
        if many:
            if taken[at] > fewest:
                continue
            weighed += 1
            if weighed > MAX_WEIGHED:
                break
        frame, shift = at // shifts, at % shifts
        cost, found = 0, 0
        for k in range(offsets[unit], offsets[unit + 1]):
            other = holder[moved[shift, indices[k]], frame]
            known = other == UNPLACED
            for v in range(found):
                known = known or victims[v] == other
            if known:
                continue
            victims[found] = other
            found += 1
            cost += weight[other] + (LARGE if tabu[other] > step else 0)
            if cost > best:
                break
        if cost > best:
            continue
        ties = ties + 1 if cost == best else 1
        if cost < best or next_random(table.random) % ties == 0:
            best, best_at, leave = cost, at, found
            for v in range(found):
                leaving[v] = victims[v]
        if best == 0:
            break
    return best_at, leave


def eject(table: UnitTable, left: int, steps: int) -> int:
    """At most ``steps`` steps of weighted ejection, fewer where none waits any more; how many of ``waiting`` wait then.

    ``left``: how many wait at the beginning. Time of a step: positions times links of a unit.
    """
    positions = table.holder.shape[1] * len(table.moved)
    many = len(table.moved) == 1 and positions > 5 * MAX_WEIGHED
    taken = np.zeros(positions if many else 1, dtype=np.int32)
    for _ in range(steps):
        if left == 0:
            break
        table.steps[0] += 1
        pick = next_random(table.random) % left
        unit = table.waiting[pick]
        left -= 1
        table.waiting[pick] = table.waiting[left]
        at, leave = cheapest_position(table, unit, taken)
        for v in range(leave):
            other = table.leaving[v]
            remove(table, other)
            table.weight[other] += 1
            table.waiting[left] = other
            left += 1
        place(table, unit, at)
        table.tabu[unit] = table.steps[0] + TABU_STEPS
    return left
