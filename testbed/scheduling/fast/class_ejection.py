"""Weighted ejection of classes: units of one class are alike, so weights and tabus are the class's. Compiled by scheduling_kernel.

A few thousand small steps at most on Swiss-T1: weights that all units of a class share are learnt in a tenth of the steps.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from testbed.scheduling.fast.steps import LARGE, next_random

NONE = -1
TABU_STEPS = 2
"""A class that was just put into a frame is not ejected from it for so many steps."""


class ClassTable(NamedTuple):
    """Class c needs one place of each ``resources[own[c]:own[c + 1]]``; resource r has ``cap[r]`` places in each frame.

    ``held[base[r] * frames + f * cap[r] + i]``, i below ``count[r, f]``, are the classes with a place of r in frame f.
    ``units[c, f]``: units of the class in the frame; ``tabu[c, f]``: the step until which they stay; ``waiting``: classes of
    units without a frame; ``victims``, ``leaving``: who would have to leave the frame in view, and the best one.
    """

    own: Any
    resources: Any
    cap: Any
    base: Any
    held: Any
    count: Any
    units: Any
    tabu: Any
    weight: Any
    waiting: Any
    victims: Any
    leaving: Any


def class_table(own: Any, resources: Any, cap: Any, demand: Any, frames: Any) -> Any:
    """An empty table."""
    classes = len(demand)
    base, places, units, widest = np.zeros(len(cap), dtype=np.int64), 0, 0, 0
    for r in range(len(cap)):
        base[r] = places
        places += cap[r]
    for c in range(classes):
        widest = max(widest, own[c + 1] - own[c])
        units += demand[c]
    return ClassTable(
        own,
        resources,
        cap,
        base,
        np.full(places * frames, NONE, dtype=np.int32),
        np.zeros((len(cap), frames), dtype=np.int32),
        np.zeros((classes, frames), dtype=np.int32),
        np.zeros((classes, frames), dtype=np.int32),
        np.ones(classes, dtype=np.int64),
        np.zeros(units, dtype=np.int32),
        np.zeros(widest, dtype=np.int32),
        np.zeros(widest, dtype=np.int32),
    )


def put_class(table: Any, c: Any, frame: Any) -> None:
    """One unit of the class enters the frame."""
    frames = table.count.shape[1]
    for k in range(table.own[c], table.own[c + 1]):
        r = table.resources[k]
        table.held[table.base[r] * frames + frame * table.cap[r] + table.count[r, frame]] = c
        table.count[r, frame] += 1
    table.units[c, frame] += 1


def take_class(table: Any, c: Any, frame: Any) -> None:
    """One unit of the class leaves the frame."""
    frames = table.count.shape[1]
    for k in range(table.own[c], table.own[c + 1]):
        r = table.resources[k]
        slot = table.base[r] * frames + frame * table.cap[r]
        last = slot + table.count[r, frame] - 1
        while table.held[slot] != c:
            slot += 1
        table.held[slot] = table.held[last]
        table.count[r, frame] -= 1
    table.units[c, frame] -= 1


def place_classes(table: Any, order: Any, demand: Any) -> Any:
    """Units of each class, in order, into the first frames that have room; how many wait instead."""
    frames, left = table.count.shape[1], 0
    for c in order:
        more = demand[c]
        for frame in range(frames):
            room = more
            for k in range(table.own[c], table.own[c + 1]):
                r = table.resources[k]
                room = min(room, table.cap[r] - table.count[r, frame])
            for _ in range(room):
                put_class(table, c, frame)
            more -= room
            if more == 0:
                break
        for _ in range(more):
            table.waiting[left] = c
            left += 1
    return left


def cheapest_frame(table: Any, c: Any, step: Any, state: Any) -> Any:
    """(frame, victims) where the units that leave for one of the class weigh least, the cheapest of each full resource; ties at random.

    One function: compiled code counts the references of every array at each call, which here would take longer than the work.
    """
    own, resources, cap, base, held, count = table.own, table.resources, table.cap, table.base, table.held, table.count
    tabu, weight, victims, leaving = table.tabu, table.weight, table.victims, table.leaving
    frames = count.shape[1]
    best, best_frame, ties, leave = LARGE * 64, 0, 0, 0
    start = next_random(state) % frames
    for offset in range(frames):
        frame = (start + offset) % frames
        cost, found = 0, 0
        for k in range(own[c], own[c + 1]):
            r = resources[k]
            if count[r, frame] < cap[r]:
                continue
            cheapest, least = NONE, LARGE * 2
            for slot in range(base[r] * frames + frame * cap[r], base[r] * frames + (frame + 1) * cap[r]):
                other = held[slot]
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


def eject_classes(table: Any, left: Any, steps: Any, state: Any) -> Any:
    """A random waiting unit goes where least has to leave; what leaves gains weight and waits. How many wait at the end."""
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
            take_class(table, other, frame)
            table.weight[other] += 1
            table.waiting[left] = other
            left += 1
        put_class(table, c, frame)
        table.tabu[c, frame] = step + TABU_STEPS
    return left
