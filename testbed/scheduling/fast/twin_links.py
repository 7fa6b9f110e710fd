"""Classes found in the links alone: links that may change places without changing the traffic are twins, and make a
pool.

So a traffic is scheduled by classes (testbed.scheduling.fast.class_ejection) without a word about its switches,
whatever the order of its links and however many pools a transfer uses. Pool after pool, an edge colouring then gives
each unit of a class its link.

Compiled by testbed.scheduling.fast.portfolio; tests run it as it is.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from testbed.scheduling.fast.class_ejection import ClassNeeds, UnitList, schedule_units
from testbed.scheduling.fast.steps import UNPLACED, Ints, LinkSets, Pools, colour_edges

MAX_CLASS_FRAMES = 1 << 26
"""Classes times frames that are searched: half a gigabyte."""
MAX_SINGLES = 256
"""Larger traffics without twins are left to the search of single transfers."""
MAX_VERTICES = 1 << 26
"""Transfers times the largest pool's links: half a gigabyte for the colouring."""


class TwinClasses(NamedTuple):
    """``kind``: the class of each transfer; class c's are ``transfers[begin[c]:begin[c + 1]]``, sorted by their
    combination of links."""

    needs: ClassNeeds
    kind: Ints
    begin: Ints
    transfers: Ints


def mixed(number: Any) -> Any:
    """Numbers of 64 bits that look random (SplitMix64; Steele, Lea and Flood 2014)."""
    x = number + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def numbered(keys: npt.NDArray[np.uint64]) -> Pools:
    """Equal keys in one pool, the pools numbered as they first come; fast where the keys' lowest bits look random."""
    slots = 1
    while slots < 2 * len(keys):
        slots *= 2
    first = np.full(slots, UNPLACED, dtype=np.int64)
    number, count, values = (
        np.zeros(len(keys), dtype=np.int64),
        np.zeros(len(keys), dtype=np.int64),
        0,
    )
    for i in range(len(keys)):
        slot = np.int64(keys[i] & np.uint64(slots - 1))
        while first[slot] != UNPLACED and keys[first[slot]] != keys[i]:
            slot = (slot + 1) % slots
        if first[slot] == UNPLACED:
            first[slot], number[i] = i, values
            values += 1
        else:
            number[i] = number[first[slot]]
        count[number[i]] += 1
    shortened = np.zeros(values, dtype=np.int64)
    for value in range(values):
        shortened[value] = count[value]
    return Pools(number, shortened)


def twin_pools(sets: LinkSets) -> Pools:
    """Pools of links: two links are in one where their transfers are the same but for them.

    Compares sums of 64 bits: alike by chance once in 2^64; what follows from it would not pass the count of
    ``find_classes``.
    """
    offsets, indices, links = sets
    keys, own = np.zeros(links, dtype=np.uint64), mixed(np.arange(links).astype(np.uint64))
    for t in range(len(offsets) - 1):
        total = np.uint64(0)
        for k in range(offsets[t], offsets[t + 1]):
            total += own[indices[k]]
        for k in range(offsets[t], offsets[t + 1]):
            keys[indices[k]] += mixed(total - own[indices[k]])
    return numbered(keys)


def find_classes(sets: LinkSets, pools: Pools) -> tuple[bool, TwinClasses]:
    """Classes of transfers over the same pools; False where some combination of their links comes more often than
    another."""
    offsets, indices, pool, n = sets.offsets, sets.indices, pools.of, len(sets.offsets) - 1
    keys, key_of = np.zeros(n, dtype=np.uint64), mixed(pool.astype(np.uint64))
    for t in range(n):
        for k in range(offsets[t], offsets[t + 1]):
            keys[t] += key_of[indices[k]]
    kind, demand = numbered(keys)
    own, begin = (
        np.zeros(len(demand) + 1, dtype=np.int64),
        np.zeros(len(demand) + 1, dtype=np.int64),
    )
    for t in range(n):
        own[kind[t] + 1] = offsets[t + 1] - offsets[t]
    for c in range(len(demand)):
        own[c + 1] += own[c]
        begin[c + 1] = begin[c] + demand[c]
    resources, known = np.zeros(own[len(demand)], dtype=np.int64), 0
    for t in range(n):
        if kind[t] < known:
            continue
        first, known = own[kind[t]], kind[t] + 1
        for k in range(offsets[t + 1] - offsets[t]):
            at = first + k  # insertion: ascending
            while at > first and resources[at - 1] > pool[indices[offsets[t] + k]]:
                resources[at] = resources[at - 1]
                at -= 1
            resources[at] = pool[indices[offsets[t] + k]]
    unsorted = TwinClasses(
        ClassNeeds(own, resources, demand, pools.size), kind, begin, np.zeros(n, dtype=np.int64)
    )
    return sort_classes(sets, pools, unsorted), unsorted


def sort_classes(sets: LinkSets, pools: Pools, classes: TwinClasses) -> bool:
    """Fill in ``transfers``; whether every combination of links comes equally often in its class."""
    offsets, indices, pool, size = sets.offsets, sets.indices, pools.of, pools.size
    (own, resources, demand, _), kind, begin, n = (
        classes.needs,
        classes.kind,
        classes.begin,
        len(classes.kind),
    )
    within, count = np.zeros(len(pool), dtype=np.int64), np.zeros(len(size), dtype=np.int64)
    for link in range(len(pool)):
        within[link] = count[pool[link]]
        count[pool[link]] += 1
    copies, met = np.ones(len(demand), dtype=np.int64), np.zeros(n, dtype=np.int64)
    for t in range(n):
        c = kind[t]
        product, combination = 1, 0
        for j in range(own[c], own[c + 1]):
            if size[resources[j]] == 1:
                continue
            product *= size[resources[j]]
            for k in range(offsets[t], offsets[t + 1]):
                if pool[indices[k]] == resources[j]:
                    combination = combination * size[resources[j]] + within[indices[k]]
        copies[c] = max(1, demand[c] // product)
        place = begin[c] + combination * copies[c]
        if place >= begin[c + 1] or met[place] == copies[c]:
            return False
        classes.transfers[place + met[place]] = t
        met[place] += 1
    return True


def search_twins(
    sets: LinkSets, frames: int, steps: int, seed: int, frame_of: npt.NDArray[np.int32]
) -> int:
    """Search for a schedule of ``frames`` frames by pools of twin links.

    Args:
        sets: The links of each transfer.
        frames: Number of frames.
        steps: Largest number of ejections.
        seed: Seed of the random choices.
        frame_of: The frame of each transfer is written here; UNPLACED if none is found.

    Returns:
        1: found; 0: not found in these steps; -1: no twins in a large traffic, or too many
        transfers for what the colouring needs.
    """
    n = len(sets.offsets) - 1
    frame_of[:] = UNPLACED
    pools = twin_pools(sets)
    largest = 1
    for p in range(len(pools.size)):
        largest = max(largest, pools.size[p])
    if (largest == 1 and n > MAX_SINGLES) or n * largest > MAX_VERTICES:
        return -1
    good, classes = find_classes(sets, pools)
    if not good or len(classes.needs.demand) * frames > MAX_CLASS_FRAMES:
        return -1
    left, kind, position = schedule_units(classes.needs, frames, steps, seed)
    if left > 0:
        return 0
    units = UnitList(kind, position)
    done = give_links(units, classes.needs, classes.begin, frames)
    given = np.zeros(n, dtype=np.int64)
    for unit in range(n):
        place = classes.begin[units.kind[unit]] + done[unit]
        frame_of[classes.transfers[place + given[place]]] = units.position[unit]
        given[place] += 1
    return 1


def give_links(units: UnitList, needs: ClassNeeds, begin: Ints, frames: int) -> Ints:
    """Where each unit's transfers begin within its class's. Pool after pool, edge colouring gives each unit a link of
    it.

    The units of a class that have the same links so far are cut into pieces as large as the pool; frames and pieces are
    the multigraph's sides, links its colours: no link twice in a frame, and every link once in a piece.
    """
    position, (own, resources, demand, size), n = units.position, needs, len(units.kind)
    done, spread = np.zeros(n, dtype=np.int64), np.ones(len(demand), dtype=np.int64)
    mine, left, right, colour, met, piece = np.zeros((6, n), dtype=np.int64)
    for p in range(len(size)):
        if size[p] == 1:
            continue
        found, pieces = 0, 0
        met[:] = 0
        for c in range(len(demand)):
            uses = False
            for k in range(own[c], own[c + 1]):
                uses = uses or resources[k] == p
            if not uses:
                continue
            alike = demand[c] // spread[c]  # units of the class with the same links so far
            for unit in range(begin[c], begin[c + 1]):
                place = begin[c] + done[unit] * alike
                if met[place] % size[p] == 0:
                    piece[place] = pieces
                    pieces += 1
                mine[found], left[found], right[found] = unit, position[unit], piece[place]
                met[place] += 1
                found += 1
            spread[c] *= size[p]
        colour_edges(left[:found], right[:found], (frames, pieces), size[p], colour)
        for i in range(found):
            done[mine[i]] = done[mine[i]] * size[p] + colour[i]
    for c in range(len(demand)):
        for unit in range(begin[c], begin[c + 1]):
            done[unit] *= demand[c] // spread[c]
    return done
