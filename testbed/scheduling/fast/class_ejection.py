"""Schedules of classes of transfers, by weighted ejection.

A class is a set of transfers that differ only in which of several interchangeable links (or
processors) each one uses. All units of a class need the same resources, so frames, weights and
tabus belong to the class. Class c has ``demand[c]`` units, each of which needs one place of every
resource of the class. A resource is a pool of interchangeable links; in each frame it has as many
places as it has links.

Units are placed in order of load. Those that find no room are placed by weighted ejection, as in
``testbed.scheduling.fast.unit_ejection``, but for classes: on Swiss-T1 this needs a tenth of the
steps to learn what to avoid. Afterwards edge colouring (``twin_links``) decides which link of its
pool each unit gets; this is always possible.

The functions are compiled by ``testbed.scheduling.fast.searches``. Compiled code counts the
references of every array at each call, so the longest functions cannot be divided without becoming
slower. Tests run them uncompiled.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from testbed.scheduling.fast.steps import LARGE, Ints, RandomState, next_random, seeded_state

# No class.
NONE = -1

# A class that was just put into a frame is not ejected from it for this number of steps.
TABU_STEPS = 2

Small = npt.NDArray[np.int32]


class ClassNeeds(NamedTuple):
    """The classes and their resources.

    Attributes:
        resource_starts: Start of each class's resources in ``resources``, and the end of the last.
        resources: The resources of the classes.
        demand: Number of units of each class.
        cap: Number of places of each resource per frame.
    """

    resource_starts: Ints
    resources: Ints
    demand: Ints
    cap: Ints


class UnitList(NamedTuple):
    """The units of a schedule.

    Attributes:
        kind: Class of each unit.
        position: Frame of each unit.
    """

    kind: Ints
    position: Ints


class ClassTable(NamedTuple):
    """The frames, and the number of units of each class in them.

    The classes with a place of resource r in frame f are
    ``class_at[base[r] * frames + f * cap[r] + i]`` for i below ``filled[r, f]``.

    Attributes:
        needs: The classes and their resources.
        base: Number of places of all lower resources.
        class_at: Class at each place.
        filled: Number of used places of each resource (rows) in each frame (columns).
        units: Number of units of each class (rows) in each frame (columns).
        tabu: Step until which the units of a class stay in a frame.
        weight: Weight of each class: 1 plus the number of its ejections.
        waiting: Classes of the units without a frame.
        victims: Classes that would have to leave the frame in view.
        leaving: Classes that have to leave the best frame so far.
    """

    needs: ClassNeeds
    base: Ints
    class_at: Small
    filled: Small
    units: Small
    tabu: Small
    weight: Ints
    waiting: Small
    victims: Small
    leaving: Small


def class_table(needs: ClassNeeds, frames: int) -> ClassTable:
    """Return a table in which no unit has a frame."""
    resources = len(needs.cap)
    classes = len(needs.demand)
    base = np.zeros(resources, dtype=np.int64)
    places = 0
    for r in range(resources):
        base[r] = places
        places += needs.cap[r]
    units = 0
    most_resources = 0
    for c in range(classes):
        most_resources = max(
            most_resources, needs.resource_starts[c + 1] - needs.resource_starts[c]
        )
        units += needs.demand[c]
    # In the order of the fields.
    return ClassTable(
        needs,
        base,
        np.full(places * frames, NONE, dtype=np.int32),
        np.zeros((resources, frames), dtype=np.int32),
        np.zeros((classes, frames), dtype=np.int32),
        np.zeros((classes, frames), dtype=np.int32),
        np.ones(classes, dtype=np.int64),
        np.zeros(units, dtype=np.int32),
        np.zeros(most_resources, dtype=np.int32),
        np.zeros(most_resources, dtype=np.int32),
    )


def schedule_units(needs: ClassNeeds, frames: int, steps: int, seed: int) -> tuple[int, Ints, Ints]:
    """Schedule all units of the classes.

    Args:
        needs: The classes and their resources.
        frames: Number of frames.
        steps: Largest number of ejection steps.
        seed: Seed of the random choices.

    Returns:
        The number of units without a frame. If it is 0, also the class and the frame of each unit.
    """
    table = class_table(needs, frames)
    without_frame = place_classes(table, class_order(needs))
    without_frame = eject_classes(table, without_frame, steps, seeded_state(seed))
    units = list_units(table)
    return without_frame, units.kind, units.position


def place_units(needs: ClassNeeds, frames: int, steps: int, seed: int, position: Ints) -> int:
    """Write the frame of each unit into ``position``, and return the number of units without one.

    If there are any, ``position`` is not written.
    """
    without_frame, _, frame_of_unit = schedule_units(needs, frames, steps, seed)
    if without_frame == 0:
        position[:] = frame_of_unit
    return without_frame


def place_class(table: ClassTable, c: int, frame: int) -> None:
    """Put one unit of the class into the frame."""
    starts, resources, _, cap = table.needs
    frames = table.filled.shape[1]
    for k in range(starts[c], starts[c + 1]):
        r = resources[k]
        first = table.base[r] * frames + frame * cap[r]
        table.class_at[first + table.filled[r, frame]] = c
        table.filled[r, frame] += 1
    table.units[c, frame] += 1


def remove_class(table: ClassTable, c: int, frame: int) -> None:
    """Remove one unit of the class from the frame."""
    starts, resources, _, cap = table.needs
    frames = table.filled.shape[1]
    for k in range(starts[c], starts[c + 1]):
        r = resources[k]
        slot = table.base[r] * frames + frame * cap[r]
        last = slot + table.filled[r, frame] - 1
        while table.class_at[slot] != c:
            slot += 1
        table.class_at[slot] = table.class_at[last]
        table.filled[r, frame] -= 1
    table.units[c, frame] -= 1


def place_classes(table: ClassTable, order: Ints) -> int:
    """Put the units of each class into the first frames that have room.

    Args:
        table: The table.
        order: The classes in the order in which they are placed.

    Returns:
        The number of units that found no room and now wait.
    """
    starts, resources, demand, cap = table.needs
    frames = table.filled.shape[1]
    waiting = 0
    for c in order:
        remaining = demand[c]
        for frame in range(frames):
            room = remaining
            for k in range(starts[c], starts[c + 1]):
                r = resources[k]
                room = min(room, cap[r] - table.filled[r, frame])
            for _ in range(room):
                place_class(table, c, frame)
            remaining -= room
            if remaining == 0:
                break
        for _ in range(remaining):
            table.waiting[waiting] = c
            waiting += 1
    return waiting


def cheapest_frame(table: ClassTable, c: int, step: int, state: RandomState) -> tuple[int, int]:
    """Find the frame into which a unit of the class can be put at the smallest cost.

    From each full resource, a unit of the class with the smallest weight has to leave. The cost is
    the sum of these weights. Of equal frames, a random one is chosen.

    This is the innermost loop of the search. It is one function, because a call in compiled code
    would take longer than the work.

    Args:
        table: The table; ``leaving`` receives the classes that have to leave the frame.
        c: The class.
        step: Number of the step.
        state: State of the random generator.

    Returns:
        The frame, and the number of units that have to leave it.
    """
    starts, resources, _, cap = table.needs
    # Local names save the compiled loop a look-up for each access.
    base = table.base
    class_at = table.class_at
    filled = table.filled
    tabu = table.tabu
    weight = table.weight
    victims = table.victims
    frames = filled.shape[1]
    best_cost = LARGE * 64
    best_frame = 0
    best_victims = 0
    ties = 0
    start = next_random(state) % frames
    for offset in range(frames):
        frame = (start + offset) % frames
        cost = 0
        victim_count = 0
        for k in range(starts[c], starts[c + 1]):
            r = resources[k]
            if filled[r, frame] < cap[r]:
                continue
            cheapest = NONE
            smallest_weight = LARGE * 2
            first = base[r] * frames + frame * cap[r]
            for slot in range(first, first + cap[r]):
                other = class_at[slot]
                leaves_already = False
                for v in range(victim_count):
                    leaves_already = leaves_already or victims[v] == other
                if leaves_already:
                    # The place that it leaves is enough.
                    cheapest = NONE
                    smallest_weight = 0
                    break
                other_weight = weight[other] + (LARGE if tabu[other, frame] > step else 0)
                if other_weight < smallest_weight:
                    cheapest = other
                    smallest_weight = other_weight
            if cheapest != NONE:
                victims[victim_count] = cheapest
                victim_count += 1
                cost += smallest_weight
                if cost > best_cost:
                    break
        if cost > best_cost:
            continue
        ties = ties + 1 if cost == best_cost else 1
        if cost < best_cost or next_random(state) % ties == 0:
            best_cost = cost
            best_frame = frame
            best_victims = victim_count
            for v in range(victim_count):
                table.leaving[v] = victims[v]
        if best_cost == 0:
            break
    return best_frame, best_victims


def eject_classes(table: ClassTable, waiting: int, steps: int, state: RandomState) -> int:
    """Place waiting units by weighted ejection, until none waits.

    A step puts a random waiting unit into its cheapest frame. The units that have to leave wait in
    turn, and the weights of their classes rise by 1. A class that is often in the way thus becomes
    expensive to move, which keeps the search from going in circles.

    Args:
        table: The table.
        waiting: Number of units that wait.
        steps: Largest number of steps.
        state: State of the random generator.

    Returns:
        The number of units that wait at the end.
    """
    for step in range(steps):
        if waiting == 0:
            break
        pick = next_random(state) % waiting
        c = table.waiting[pick]
        waiting -= 1
        table.waiting[pick] = table.waiting[waiting]
        frame, victims = cheapest_frame(table, c, step, state)
        for v in range(victims):
            other = table.leaving[v]
            remove_class(table, other, frame)
            table.weight[other] += 1
            table.waiting[waiting] = other
            waiting += 1
        place_class(table, c, frame)
        table.tabu[c, frame] = step + TABU_STEPS
    return waiting


def class_order(needs: ClassNeeds) -> Ints:
    """Return the classes in the order in which they are placed.

    Classes over the most loaded resource come first, then those with the largest sum of loads. A
    load is relative to the number of places of the resource.
    """
    starts, resources, demand, cap = needs
    load = np.zeros(len(cap), dtype=np.int64)
    for c in range(len(demand)):
        for k in range(starts[c], starts[c + 1]):
            load[resources[k]] += demand[c]
    key = np.zeros(len(demand), dtype=np.float64)
    for c in range(len(demand)):
        greatest_load = 0.0
        total_load = 0.0
        for k in range(starts[c], starts[c + 1]):
            relative_load = load[resources[k]] / cap[resources[k]]
            greatest_load = max(greatest_load, relative_load)
            total_load += relative_load
        # The factor makes the greatest load decide, and the total only between equals.
        key[c] = -(greatest_load * 1e6 + total_load)
    return np.argsort(key, kind="mergesort")


def list_units(table: ClassTable) -> UnitList:
    """Return the class and the frame of each unit, sorted by class and then by frame."""
    kind = np.zeros(len(table.waiting), dtype=np.int64)
    position = np.zeros(len(table.waiting), dtype=np.int64)
    unit = 0
    for c in range(table.units.shape[0]):
        for frame in range(table.units.shape[1]):
            for _ in range(table.units[c, frame]):
                kind[unit] = c
                position[unit] = frame
                unit += 1
    return UnitList(kind, position)
