"""Classes of transfers that are found from the links alone.

Links that can be exchanged without changing the traffic are twins, and form a pool. The traffic is
then scheduled by classes (``testbed.scheduling.fast.class_ejection``) without any knowledge of its
switches, whatever the order of its links and however many pools a transfer uses. Pool after pool,
an edge colouring then gives each unit of a class its link.

The functions are compiled by ``testbed.scheduling.fast.searches``; tests run them uncompiled.
Compiled code counts the references of every array at each call, so the longest functions cannot be
divided without becoming slower.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from testbed.scheduling.fast.class_ejection import ClassNeeds, UnitList, schedule_units
from testbed.scheduling.fast.steps import UNPLACED, Ints, LinkSets, Pools, colour_edges

# Largest number of classes times frames that is searched; it needs half a gigabyte of memory.
MAX_CLASS_FRAMES = 1 << 26

# Larger traffics without twins are left to the search of single transfers.
MAX_SINGLES = 256

# Largest number of transfers times links of the largest pool; the colouring then needs half a
# gigabyte of memory.
MAX_VERTICES = 1 << 26


class TwinClasses(NamedTuple):
    """The classes of a traffic.

    Attributes:
        needs: The resources of the classes; they are the pools.
        kind: Class of each transfer.
        begin: Start of each class's transfers in ``transfers``, and the end of the last.
        transfers: The transfers by class, sorted by their combination of links.
    """

    needs: ClassNeeds
    kind: Ints
    begin: Ints
    transfers: Ints


def mixed(number: Any) -> Any:
    """Return 64-bit numbers that look random (SplitMix64; Steele, Lea and Flood 2014)."""
    x = number + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def numbered(keys: npt.NDArray[np.uint64]) -> Pools:
    """Return pools of equal keys, numbered in the order in which they first appear.

    A hash table with open addressing finds equal keys. It is fast if the lowest bits of the keys
    look random.
    """
    slots = 1
    while slots < 2 * len(keys):
        slots *= 2
    # Index of the first member of the pool in each slot.
    first_member = np.full(slots, UNPLACED, dtype=np.int64)
    pool = np.zeros(len(keys), dtype=np.int64)
    size = np.zeros(len(keys), dtype=np.int64)
    pools = 0
    for i in range(len(keys)):
        slot = np.int64(keys[i] & np.uint64(slots - 1))
        while first_member[slot] != UNPLACED and keys[first_member[slot]] != keys[i]:
            slot = (slot + 1) % slots
        if first_member[slot] == UNPLACED:
            first_member[slot] = i
            pool[i] = pools
            pools += 1
        else:
            pool[i] = pool[first_member[slot]]
        size[pool[i]] += 1
    size_of_pool = np.zeros(pools, dtype=np.int64)
    for p in range(pools):
        size_of_pool[p] = size[p]
    return Pools(pool, size_of_pool)


def twin_pools(sets: LinkSets) -> Pools:
    """Return pools of links: two links are twins if their transfers differ in nothing but them.

    The transfers of each link are compared by 64-bit sums. Different links have the same sum with a
    probability of 2^-64; ``find_classes`` would reject the result.
    """
    offsets, indices, links = sets
    keys = np.zeros(links, dtype=np.uint64)
    link_key = mixed(np.arange(links).astype(np.uint64))
    for t in range(len(offsets) - 1):
        total = np.uint64(0)
        for k in range(offsets[t], offsets[t + 1]):
            total += link_key[indices[k]]
        for k in range(offsets[t], offsets[t + 1]):
            other_links = total - link_key[indices[k]]
            keys[indices[k]] += mixed(other_links)
    return numbered(keys)


def find_classes(sets: LinkSets, pools: Pools) -> tuple[bool, TwinClasses]:
    """Find the classes of transfers over the same pools.

    Returns:
        Whether, in every class, each combination of links is used by the same number of transfers;
        and the classes, which are usable only then.
    """
    offsets = sets.offsets
    kind, demand = number_classes(sets, pools)
    resource_starts = np.zeros(len(demand) + 1, dtype=np.int64)
    transfer_starts = np.zeros(len(demand) + 1, dtype=np.int64)
    for t in range(len(kind)):
        resource_starts[kind[t] + 1] = offsets[t + 1] - offsets[t]
    for c in range(len(demand)):
        resource_starts[c + 1] += resource_starts[c]
        transfer_starts[c + 1] = transfer_starts[c] + demand[c]
    resources = class_resources(sets, pools, kind, resource_starts)
    needs = ClassNeeds(resource_starts, resources, demand, pools.size)
    unsorted = np.zeros(len(kind), dtype=np.int64)
    classes = TwinClasses(needs, kind, transfer_starts, unsorted)
    return sort_classes(sets, pools, classes), classes


def number_classes(sets: LinkSets, pools: Pools) -> Pools:
    """Return the class of each transfer; transfers over the same pools are one class."""
    offsets = sets.offsets
    keys = np.zeros(len(offsets) - 1, dtype=np.uint64)
    pool_key = mixed(pools.of.astype(np.uint64))
    for t in range(len(offsets) - 1):
        for k in range(offsets[t], offsets[t + 1]):
            keys[t] += pool_key[sets.indices[k]]
    return numbered(keys)


def class_resources(sets: LinkSets, pools: Pools, kind: Ints, resource_starts: Ints) -> Ints:
    """Return the pools of each class, in ascending order.

    Args:
        sets: The links of the transfers.
        pools: The pools of links.
        kind: Class of each transfer.
        resource_starts: Start of each class's pools in the result, and the end of the last.
    """
    resources = np.zeros(resource_starts[-1], dtype=np.int64)
    # Classes are numbered in the order of their first transfers, which give their pools.
    listed_classes = 0
    for t in range(len(kind)):
        if kind[t] < listed_classes:
            continue
        listed_classes = kind[t] + 1
        first = resource_starts[kind[t]]
        start = sets.offsets[t]
        for k in range(sets.offsets[t + 1] - start):
            # Sort by insertion.
            resource = pools.of[sets.indices[start + k]]
            position = first + k
            while position > first and resources[position - 1] > resource:
                resources[position] = resources[position - 1]
                position -= 1
            resources[position] = resource
    return resources


def sort_classes(sets: LinkSets, pools: Pools, classes: TwinClasses) -> bool:
    """Fill in ``transfers``: sort the transfers of each class by their combination of links.

    Returns:
        Whether, in every class, each combination is used by the same number of transfers.
    """
    starts, resources, demand, size = classes.needs
    number_in_pool = numbers_in_pools(pools)
    # Number of transfers so far, by the start of their combination in ``transfers``.
    entered = np.zeros(len(classes.kind), dtype=np.int64)
    for t in range(len(classes.kind)):
        c = classes.kind[t]
        combinations = 1
        combination = 0
        for j in range(starts[c], starts[c + 1]):
            pool = resources[j]
            if size[pool] == 1:
                continue
            combinations *= size[pool]
            for k in range(sets.offsets[t], sets.offsets[t + 1]):
                link = sets.indices[k]
                if pools.of[link] == pool:
                    combination = combination * size[pool] + number_in_pool[link]
        # Number of transfers with the same combination.
        copies = max(1, demand[c] // combinations)
        start = classes.begin[c] + combination * copies
        if start >= classes.begin[c + 1] or entered[start] == copies:
            return False
        classes.transfers[start + entered[start]] = t
        entered[start] += 1
    return True


def numbers_in_pools(pools: Pools) -> Ints:
    """Return the number of each member within its pool."""
    number_in_pool = np.zeros(len(pools.of), dtype=np.int64)
    counted = np.zeros(len(pools.size), dtype=np.int64)
    for member in range(len(pools.of)):
        pool = pools.of[member]
        number_in_pool[member] = counted[pool]
        counted[pool] += 1
    return number_in_pool


def search_twins(
    sets: LinkSets, frames: int, steps: int, seed: int, frame_of: npt.NDArray[np.int32]
) -> int:
    """Search for a schedule by pools of twin links.

    Args:
        sets: The links of the transfers.
        frames: Number of frames.
        steps: Largest number of ejection steps.
        seed: Seed of the random choices.
        frame_of: The frame of each transfer is written here, or UNPLACED if none is found.

    Returns:
        1 if a schedule was found, 0 if none was found in this number of steps, and -1 if a large
        traffic has no twins or the search would need too much memory.
    """
    transfers = len(sets.offsets) - 1
    frame_of[:] = UNPLACED
    pools = twin_pools(sets)
    largest_pool = 1
    for p in range(len(pools.size)):
        largest_pool = max(largest_pool, pools.size[p])
    if (largest_pool == 1 and transfers > MAX_SINGLES) or transfers * largest_pool > MAX_VERTICES:
        return -1
    usable, classes = find_classes(sets, pools)
    if not usable or len(classes.needs.demand) * frames > MAX_CLASS_FRAMES:
        return -1
    without_frame, kind, position = schedule_units(classes.needs, frames, steps, seed)
    if without_frame > 0:
        return 0
    units = UnitList(kind, position)
    combination_start = give_links(units, classes.needs, classes.begin, frames)
    # Number of units so far, by the start of their combination in ``transfers``.
    entered = np.zeros(transfers, dtype=np.int64)
    for unit in range(transfers):
        start = classes.begin[units.kind[unit]] + combination_start[unit]
        frame_of[classes.transfers[start + entered[start]]] = units.position[unit]
        entered[start] += 1
    return 1


def give_links(units: UnitList, needs: ClassNeeds, begin: Ints, frames: int) -> Ints:
    """Give each unit a combination of links, pool after pool, by edge colouring.

    The units of a class that have the same links so far are divided into groups as large as the
    pool. Frames and groups are the two sides of a multigraph, units are its edges, and links are
    its colours. Then no link is used twice in a frame, and every link is used once in a group.

    Args:
        units: The units, sorted by class.
        needs: The resources of the classes.
        begin: Start of each class's units, and the end of the last.
        frames: Number of frames.

    Returns:
        For each unit, the start of its combination among the transfers of its class.
    """
    demand = needs.demand
    size = needs.cap
    count = len(units.kind)
    # Number of each unit's combination of the links so far, and number of combinations of each
    # class.
    combination = np.zeros(count, dtype=np.int64)
    combinations = np.ones(len(demand), dtype=np.int64)
    # The edges: the unit, its frame, its group, and its link.
    edge_unit, left, right, colour = np.zeros((4, count), dtype=np.int64)
    # Number of units so far, and current group, by the start of their combination.
    entered, group = np.zeros((2, count), dtype=np.int64)
    for p in range(len(size)):
        if size[p] == 1:
            continue
        edges = 0
        groups = 0
        entered[:] = 0
        for c in range(len(demand)):
            if not needs_resource(needs, c, p):
                continue
            # Number of units of the class with the same links so far.
            alike = demand[c] // combinations[c]
            for unit in range(begin[c], begin[c + 1]):
                start = begin[c] + combination[unit] * alike
                if entered[start] % size[p] == 0:
                    group[start] = groups
                    groups += 1
                edge_unit[edges] = unit
                left[edges] = units.position[unit]
                right[edges] = group[start]
                entered[start] += 1
                edges += 1
            combinations[c] *= size[p]
        colour_edges(left[:edges], right[:edges], (frames, groups), size[p], colour)
        for i in range(edges):
            unit = edge_unit[i]
            combination[unit] = combination[unit] * size[p] + colour[i]
    for c in range(len(demand)):
        for unit in range(begin[c], begin[c + 1]):
            combination[unit] *= demand[c] // combinations[c]
    return combination


def needs_resource(needs: ClassNeeds, c: int, resource: int) -> bool:
    """Return whether the units of the class need the resource."""
    for k in range(needs.resource_starts[c], needs.resource_starts[c + 1]):
        if needs.resources[k] == resource:
            return True
    return False
