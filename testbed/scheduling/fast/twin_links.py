"""Classes found in the links alone: links that may change places without changing the traffic are a pool. Compiled by scheduling_kernel.

So a traffic given as sets of links is scheduled by classes too, whatever the order of its links, and however many pools a transfer uses.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from testbed.scheduling.fast.class_ejection import class_table, eject_classes, place_classes
from testbed.scheduling.fast.class_steps import MAX_CLASS_FRAMES, ascending, class_order, list_units
from testbed.scheduling.fast.steps import UNPLACED, colour_edges

MAX_VERTICES = 1 << 26
"""Transfers times the largest pool's links: half a gigabyte for the colouring."""


def mixed(number: Any) -> Any:
    """splitmix64's finish: a number of 64 bits that looks random."""
    x = np.uint64(number) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def numbered(keys: Any) -> Any:
    """(number of each key's value, how often each value comes): values are numbered as they first come."""
    order = ascending(keys)  # of equals the first comes first
    first = np.zeros(len(keys), dtype=np.int64)
    for i in range(len(order)):
        same = i > 0 and keys[order[i]] == keys[order[i - 1]]
        first[order[i]] = first[order[i - 1]] if same else order[i]
    number, count, values = np.zeros(len(keys), dtype=np.int64), np.zeros(len(keys), dtype=np.int64), 0
    for i in range(len(keys)):
        if first[i] == i:
            number[i] = values
            values += 1
        else:
            number[i] = number[first[i]]
        count[number[i]] += 1
    shortened = np.zeros(values, dtype=np.int64)
    for value in range(values):
        shortened[value] = count[value]
    return number, shortened


def twin_pools(offsets: Any, indices: Any, links: Any) -> Any:
    """(pool of each link, size of each pool): two links are in one pool where their transfers are the same but for them.

    Compares sums of 64 bits: alike by chance once in 2^64; what follows from it would not pass the count of ``find_classes``.
    """
    keys = np.zeros(links, dtype=np.uint64)
    for t in range(len(offsets) - 1):
        total = np.uint64(0)
        for k in range(offsets[t], offsets[t + 1]):
            total += mixed(indices[k])
        for k in range(offsets[t], offsets[t + 1]):
            keys[indices[k]] += mixed(total - mixed(indices[k]))
    return numbered(keys)


def find_classes(offsets: Any, indices: Any, pool: Any, size: Any) -> Any:
    """Classes of transfers over the same pools: (good, own, resources, demand, sorted transfers, where each class's begin).

    ``own`` and ``resources``: each class's pools, ascending. A class's transfers are sorted by their combination of links.
    """
    n = len(offsets) - 1
    keys = np.zeros(n, dtype=np.uint64)
    for t in range(n):
        for k in range(offsets[t], offsets[t + 1]):
            keys[t] += mixed(pool[indices[k]])
    kind, demand = numbered(keys)
    own, begin = np.zeros(len(demand) + 1, dtype=np.int64), np.zeros(len(demand) + 1, dtype=np.int64)
    for t in range(n):
        own[kind[t] + 1] = offsets[t + 1] - offsets[t]
    for c in range(len(demand)):
        own[c + 1] += own[c]
        begin[c + 1] = begin[c] + demand[c]
    resources = np.zeros(own[len(demand)], dtype=np.int64)
    for t in range(n):
        first = own[kind[t]]
        for k in range(offsets[t + 1] - offsets[t]):
            at = first + k  # insertion: ascending
            while at > first and resources[at - 1] > pool[indices[offsets[t] + k]]:
                resources[at] = resources[at - 1]
                at -= 1
            resources[at] = pool[indices[offsets[t] + k]]
    good, transfers = sort_classes(offsets, indices, pool, size, kind, own, resources, demand, begin)
    return good, own, resources, demand, transfers, begin


def sort_classes(
    offsets: Any,
    indices: Any,
    pool: Any,
    size: Any,
    kind: Any,
    own: Any,
    resources: Any,
    demand: Any,
    begin: Any,
) -> Any:
    """(whether every combination of links comes equally often in its class, the transfers by class and combination)."""
    n = len(offsets) - 1
    within, met = np.zeros(len(pool), dtype=np.int64), np.zeros(len(size), dtype=np.int64)
    for link in range(len(pool)):
        within[link] = met[pool[link]]
        met[pool[link]] += 1
    place, copies, good = np.zeros(n, dtype=np.int64), np.ones(len(demand), dtype=np.int64), True
    for t in range(n):
        c = kind[t]
        product, combination = 1, 0
        for j in range(own[c], own[c + 1]):
            for k in range(offsets[t], offsets[t + 1]):
                if pool[indices[k]] == resources[j]:
                    combination = combination * size[resources[j]] + within[indices[k]]
            product *= size[resources[j]]
        copies[c] = max(1, demand[c] // product)
        place[t] = begin[c] + combination * copies[c]
    transfers = ascending(place)
    for i in range(n):
        c = kind[transfers[i]]
        good = good and place[transfers[i]] == i - (i - begin[c]) % copies[c]
    return good, transfers


def search_twins(offsets: Any, indices: Any, links: Any, frames: Any, steps: Any, seed: Any) -> Any:
    """As ``search_classes``, by pools of twin links: (state, frame of each transfer); -1 where no two links are twins."""
    n = len(offsets) - 1
    frame_of = np.full(n, UNPLACED, dtype=np.int32)
    pool, size = twin_pools(offsets, indices, links)
    largest = 1
    for p in range(len(size)):
        largest = max(largest, size[p])
    if largest == 1 or n * largest > MAX_VERTICES:
        return -1, frame_of
    good, own, resources, demand, transfers, begin = find_classes(offsets, indices, pool, size)
    if not good or len(demand) * frames > MAX_CLASS_FRAMES:
        return -1, frame_of
    table = class_table(own, resources, size, demand, frames)
    left = place_classes(table, class_order(own, resources, demand, size), demand)
    left = eject_classes(table, left, steps, np.full(1, seed * 2 + 88172645463325252, dtype=np.uint64))
    if left > 0:
        return 0, frame_of
    kind, position = list_units(table.units, n)
    done = give_links(kind, position, own, resources, demand, begin, size, frames)
    given = np.zeros(n, dtype=np.int64)
    for unit in range(n):
        place = begin[kind[unit]] + done[unit]
        frame_of[transfers[place + given[place]]] = position[unit]
        given[place] += 1
    return 1, frame_of


def give_links(
    kind: Any, position: Any, own: Any, resources: Any, demand: Any, begin: Any, size: Any, frames: Any
) -> Any:
    """Where each unit's transfers begin within its class's. Pool after pool, edge colouring gives each unit a link of it.

    The units of a class that have the same links so far are cut into pieces as large as the pool; frames and pieces are the
    multigraph's sides, links its colours: no link twice in a frame, and every link once in a piece.
    """
    n = len(kind)
    done, spread = np.zeros(n, dtype=np.int64), np.ones(len(demand), dtype=np.int64)
    for p in range(len(size)):
        if size[p] == 1:
            continue
        uses, many = np.zeros(len(demand), dtype=np.bool_), 0
        for c in range(len(demand)):
            for k in range(own[c], own[c + 1]):
                uses[c] = uses[c] or resources[k] == p
            many += demand[c] if uses[c] else 0
        units, found = np.zeros(many, dtype=np.int64), 0
        for unit in range(n):
            if uses[kind[unit]]:
                units[found] = unit
                found += 1
        met = np.zeros(n, dtype=np.int64)
        left, right = np.zeros(len(units), dtype=np.int64), np.zeros(len(units), dtype=np.int64)
        colour = np.zeros(len(units), dtype=np.int64)
        for i in range(len(units)):
            unit = units[i]
            alike = demand[kind[unit]] // spread[kind[unit]]  # units of the class with the same links so far
            place = begin[kind[unit]] + done[unit] * alike
            left[i], right[i] = position[unit], place + met[place] // size[p]
            met[place] += 1
        colour_edges(left, right, frames, n, size[p], colour)
        for i in range(len(units)):
            done[units[i]] = done[units[i]] * size[p] + colour[i]
        for c in range(len(demand)):
            spread[c] *= size[p] if uses[c] else 1
    for unit in range(n):
        done[unit] *= demand[kind[unit]] // spread[kind[unit]]
    return done
