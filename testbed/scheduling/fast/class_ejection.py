"""Schedules of classes: units of one class need the same resources, so that frames, weights and tabus are the class's.

A class is a set of transfers that only differ in which of several alike links (or processors) each one uses. Class c
has ``demand[c]`` units, each of which needs one place of every resource of the class; a resource, a pool of alike
links, has as many places in each frame as there are links. Units are placed in order of load; for those that find no
room, the method is weighted ejection as in testbed.scheduling.fast.unit_ejection, but of classes: on Swiss-T1 what to
avoid is so learnt in a tenth of the steps. Which link of its pool a unit gets is decided afterwards, by edge colouring
(twin_links): it always can be.

Compiled by testbed.scheduling.fast.portfolio; tests run it as it is.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from testbed.scheduling.fast.steps import LARGE, Ints, RandomState, next_random, seeded_state

NONE = -1
TABU_STEPS = 2
"""A class that was just put into a frame is not ejected from it for so many steps."""
Small = npt.NDArray[np.int32]


class ClassNeeds(NamedTuple):
    """Class c is ``demand[c]`` units, each with one place of every ``resources[own[c]:own[c + 1]]``; resource r has
    ``cap[r]`` places."""

    own: Ints
    resources: Ints
    demand: Ints
    cap: Ints


class UnitList(NamedTuple):
    """The class (``kind``) and the frame (``position``) of each unit."""

    kind: Ints
    position: Ints


class ClassTable(NamedTuple):
    """Which classes have how many units in which frame.

    ``held[base[r] * frames + f * cap[r] + i]``, i below ``filled[r, f]``, are the classes with a place of r in frame f.
    ``units[c, f]``: units of the class in the frame; ``tabu[c, f]``: the step until which they stay; ``waiting``:
    classes of units without a frame; ``victims``, ``leaving``: who would have to leave the frame in view, and the best
    one.
    """

    needs: ClassNeeds
    base: Ints
    held: Small
    filled: Small
    units: Small
    tabu: Small
    weight: Ints
    waiting: Small
    victims: Small
    leaving: Small


def class_table(needs: ClassNeeds, frames: int) -> ClassTable:
    """An empty table."""
    classes = len(needs.demand)
    base, places, units, widest = np.zeros(len(needs.cap), dtype=np.int64), 0, 0, 0
    for r in range(len(needs.cap)):
        base[r] = places
        places += needs.cap[r]
    for c in range(classes):
        widest = max(widest, needs.own[c + 1] - needs.own[c])
        units += needs.demand[c]
    return ClassTable(
        needs,
        base,
        np.full(places * frames, NONE, dtype=np.int32),
        np.zeros((len(needs.cap), frames), dtype=np.int32),
        np.zeros((classes, frames), dtype=np.int32),
        np.zeros((classes, frames), dtype=np.int32),
        np.ones(classes, dtype=np.int64),
        np.zeros(units, dtype=np.int32),
        np.zeros(widest, dtype=np.int32),
        np.zeros(widest, dtype=np.int32),
    )


def schedule_units(needs: ClassNeeds, frames: int, steps: int, seed: int) -> tuple[int, Ints, Ints]:
    """(how many units found no frame in so many steps, class and frame of all units where none is left)."""
    table = class_table(needs, frames)
    left = place_classes(table, class_order(needs))
    left = eject_classes(table, left, steps, seeded_state(seed))
    units = list_units(table)
    return left, units.kind, units.position


def place_units(needs: ClassNeeds, frames: int, steps: int, seed: int, position: Ints) -> int:
    """Write the frame of each unit into ``position``, and return the number of units without a frame.

    If there are any, ``position`` is not written.
    """
    left, _, found = schedule_units(needs, frames, steps, seed)
    if left == 0:
        position[:] = found
    return left


def place_class(table: ClassTable, c: int, frame: int) -> None:
    """One unit of the class enters the frame."""
    (own, resources, _, cap), base = table.needs, table.base
    frames = table.filled.shape[1]
    for k in range(own[c], own[c + 1]):
        r = resources[k]
        table.held[base[r] * frames + frame * cap[r] + table.filled[r, frame]] = c
        table.filled[r, frame] += 1
    table.units[c, frame] += 1


def remove_class(table: ClassTable, c: int, frame: int) -> None:
    """One unit of the class leaves the frame."""
    (own, resources, _, cap), base = table.needs, table.base
    frames = table.filled.shape[1]
    for k in range(own[c], own[c + 1]):
        r = resources[k]
        slot = base[r] * frames + frame * cap[r]
        last = slot + table.filled[r, frame] - 1
        while table.held[slot] != c:
            slot += 1
        table.held[slot] = table.held[last]
        table.filled[r, frame] -= 1
    table.units[c, frame] -= 1


def place_classes(table: ClassTable, order: Ints) -> int:
    """Units of each class, in order, into the first frames that have room; how many wait instead."""
    own, resources, demand, cap = table.needs
    frames, left = table.filled.shape[1], 0
    for c in order:
        more = demand[c]
        for frame in range(frames):
            room = more
            for k in range(own[c], own[c + 1]):
                r = resources[k]
                room = min(room, cap[r] - table.filled[r, frame])
            for _ in range(room):
                place_class(table, c, frame)
            more -= room
            if more == 0:
                break
        for _ in range(more):
            table.waiting[left] = c
            left += 1
    return left


def cheapest_frame(table: ClassTable, c: int, step: int, state: RandomState) -> tuple[int, int]:
    """(frame, how many leave it for one unit of the class, listed in ``leaving``): where these weigh least; ties at
    random.

    Of each full resource the cheapest class leaves.

    One function: compiled code counts the references of every array at each call, which here would take longer than the
    work.
    """
    (own, resources, _, cap), base, occupied, filled = (
        table.needs,
        table.base,
        table.held,
        table.filled,
    )
    tabu, weight, victims, leaving = table.tabu, table.weight, table.victims, table.leaving
    frames = filled.shape[1]
    best, best_frame, ties, leave = LARGE * 64, 0, 0, 0
    start = next_random(state) % frames
    for offset in range(frames):
        frame = (start + offset) % frames
        cost, found = 0, 0
        for k in range(own[c], own[c + 1]):
            r = resources[k]
            if filled[r, frame] < cap[r]:
                continue
            cheapest, least = NONE, LARGE * 2
            for slot in range(
                base[r] * frames + frame * cap[r], base[r] * frames + (frame + 1) * cap[r]
            ):
                other = occupied[slot]
                known = False
                for v in range(found):
                    known = known or victims[v] == other
                if known:  # the place that it leaves is enough
                    cheapest, least = NONE, 0
                    break
                worth = weight[other] + (LARGE if tabu[other, frame] > step else 0)
                if worth < least:
                    cheapest, least = other, worth
            if cheapest != NONE:
                victims[found] = cheapest
                found += 1
                cost += least
                if cost > best:
                    break
        if cost > best:
            continue
        ties = ties + 1 if cost == best else 1
        if cost < best or next_random(state) % ties == 0:
            best, best_frame, leave = cost, frame, found
            for v in range(found):
                leaving[v] = victims[v]
        if best == 0:
            break
    return best_frame, leave


def eject_classes(table: ClassTable, left: int, steps: int, state: RandomState) -> int:
    """At most ``steps`` steps of weighted ejection, fewer where none waits any more; how many of ``waiting`` wait then.

    ``left``: how many wait at the beginning.
    """
    for step in range(steps):
        if left == 0:
            break
        pick = next_random(state) % left
        c = table.waiting[pick]
        left -= 1
        table.waiting[pick] = table.waiting[left]
        frame, leave = cheapest_frame(table, c, step, state)
        for v in range(leave):
            other = table.leaving[v]
            remove_class(table, other, frame)
            table.weight[other] += 1
            table.waiting[left] = other
            left += 1
        place_class(table, c, frame)
        table.tabu[c, frame] = step + TABU_STEPS
    return left


def class_order(needs: ClassNeeds) -> Ints:
    """Classes, those over the most loaded resource first, then by summed load (each in shares of its places)."""
    own, resources, demand, cap = needs
    load = np.zeros(len(cap), dtype=np.int64)
    for c in range(len(demand)):
        for k in range(own[c], own[c + 1]):
            load[resources[k]] += demand[c]
    key = np.zeros(len(demand), dtype=np.float64)
    for c in range(len(demand)):
        most, everything = 0.0, 0.0
        for k in range(own[c], own[c + 1]):
            share = load[resources[k]] / cap[resources[k]]
            most = max(most, share)
            everything += share
        key[c] = -(most * 1e6 + everything)
    return np.argsort(key, kind="mergesort")


def list_units(table: ClassTable) -> UnitList:
    """Class and frame of each unit, by class and then by frame."""
    kind, position = (
        np.zeros(len(table.waiting), dtype=np.int64),
        np.zeros(len(table.waiting), dtype=np.int64),
    )
    unit = 0
    for c in range(table.units.shape[0]):
        for frame in range(table.units.shape[1]):
            for _ in range(table.units[c, frame]):
                kind[unit], position[unit] = c, frame
                unit += 1
    return UnitList(kind, position)
