"""Classes of transfers between two switches, which only differ in their processors, scheduled as one.

Where the path between two switches is the same for all their processors, and every processor of one sends to every one
of the other, a class needs only so many places in the pool of senders, in the pool of receivers and on the links
between. What the classes are given in each frame (testbed.scheduling.fast.class_ejection) is dealt out to processors by
two edge colourings.

Compiled by testbed.scheduling.fast.kernel.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from testbed.scheduling.fast.class_ejection import ClassNeeds, UnitList, schedule_units
from testbed.scheduling.fast.steps import UNPLACED, Ints, LinkSets, Pools, colour_edges

MAX_CLASS_FRAMES = 1 << 26
"""Classes times frames that are searched: half a gigabyte."""
MAX_SINGLES = 256
"""Larger traffics whose classes are single transfers are left to the search of transfers."""


class SwitchPairs(NamedTuple):
    """Per transfer the node that its first link leads to and the one that its last link leaves from, numbers below
    ``nodes``."""

    first: npt.NDArray[np.int32]
    last: npt.NDArray[np.int32]
    nodes: int


class Classes(NamedTuple):
    """``sample``: a transfer of each class; ``senders``, ``receivers``: the pool of each class, and the processors of
    each pool.

    ``table[table_at[c] + s * receivers + r]``: the transfer of class c from sender s of its pool to receiver r of its
    pool.
    """

    sample: Ints
    senders: Pools
    receivers: Pools
    table: Ints
    table_at: Ints


def search_classes(
    sets: LinkSets, pairs: SwitchPairs, frames: int, steps: int, seed: int
) -> tuple[int, npt.NDArray[np.int32]]:
    """A schedule of ``frames`` frames by classes: (state, frame of each transfer); state 1 found, 0 not found, -1 no
    classes worth it."""
    n = len(sets.offsets) - 1
    frame_of = np.full(n, UNPLACED, dtype=np.int32)
    good, classes = amalgamate(sets, pairs)
    count = len(classes.sample)
    if not good or (count == n and n > MAX_SINGLES) or count * frames > MAX_CLASS_FRAMES:
        return -1, frame_of
    left, units = schedule_units(class_needs(sets, pairs, classes), frames, steps, seed)
    if left > 0:
        return 0, frame_of
    give_processors(units, classes, frames, frame_of)
    return 1, frame_of


def amalgamate(sets: LinkSets, pairs: SwitchPairs) -> tuple[bool, Classes]:
    """Whether the traffic falls into full classes, one for each pair of switches, and which (of no use where it does
    not)."""
    offsets, indices, links = sets
    number = np.full(links, UNPLACED, dtype=np.int64)  # of a processor's link within its pool
    senders, receivers = np.zeros(pairs.nodes, dtype=np.int64), np.zeros(pairs.nodes, dtype=np.int64)
    good = number_processors(sets, pairs, number, senders, receivers)
    n = len(offsets) - 1 if good else 0
    class_at = np.full(pairs.nodes * pairs.nodes, UNPLACED, dtype=np.int64)
    sample, size, class_of = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    classes = 0
    for t in range(n):
        if not good:
            break
        c = class_at[pairs.first[t] * pairs.nodes + pairs.last[t]]
        if c == UNPLACED:
            c = class_at[pairs.first[t] * pairs.nodes + pairs.last[t]] = classes
            sample[c] = t
            classes += 1
        low, first, length = offsets[t], offsets[sample[c]], offsets[t + 1] - offsets[t]
        good = good and offsets[sample[c] + 1] - first == length
        for k in range(1, length - 1):
            good = good and indices[first + k] == indices[low + k]
        class_of[t] = c
        size[c] += 1
    sample = sample[:classes].copy()
    from_pool, to_pool = np.zeros(classes, dtype=np.int64), np.zeros(classes, dtype=np.int64)
    table_at = np.zeros(classes + 1, dtype=np.int64)
    for c in range(classes):
        from_pool[c], to_pool[c] = pairs.first[sample[c]], pairs.last[sample[c]]
        table_at[c + 1] = table_at[c] + size[c]
        good = good and size[c] == senders[from_pool[c]] * receivers[to_pool[c]]
    table = np.full(n, UNPLACED, dtype=np.int64)
    for t in range(n if good else 0):
        place = number[indices[offsets[t]]] * receivers[pairs.last[t]] + number[indices[offsets[t + 1] - 1]]
        good = good and table[table_at[class_of[t]] + place] == UNPLACED
        table[table_at[class_of[t]] + place] = t
    return good, Classes(sample, Pools(from_pool, senders), Pools(to_pool, receivers), table, table_at)


def number_processors(sets: LinkSets, pairs: SwitchPairs, number: Ints, senders: Ints, receivers: Ints) -> bool:
    """Number each switch's links from senders and to receivers; False where a link is used as more than one of first,
    last and inner."""
    offsets, indices, links = sets
    role = np.zeros(links, dtype=np.int8)
    good = True
    for t in range(len(offsets) - 1):
        low, high = offsets[t], offsets[t + 1]
        if high - low < 2 or not good:
            return False
        s, r = indices[low], indices[high - 1]
        if role[s] == 0:
            role[s], number[s] = 1, senders[pairs.first[t]]
            senders[pairs.first[t]] += 1
        if role[r] == 0:
            role[r], number[r] = 2, receivers[pairs.last[t]]
            receivers[pairs.last[t]] += 1
        good = role[s] == 1 and role[r] == 2
        for k in range(low + 1, high - 1):
            good = good and role[indices[k]] in (0, 3)
            role[indices[k]] = 3
    return good


def class_needs(sets: LinkSets, pairs: SwitchPairs, classes: Classes) -> ClassNeeds:
    """Each class's resources: its sender pool, its receiver pool (numbers from ``nodes``), its links (from twice
    ``nodes``)."""
    offsets, indices, links = sets
    sample, nodes = classes.sample, pairs.nodes
    cap = np.ones(2 * nodes + links, dtype=np.int64)
    for node in range(nodes):  # not by slices: the message for shapes that differ takes seconds to compile
        cap[node], cap[nodes + node] = classes.senders.size[node], classes.receivers.size[node]
    own, demand = np.zeros(len(sample) + 1, dtype=np.int64), np.zeros(len(sample), dtype=np.int64)
    for c in range(len(sample)):
        own[c + 1] = own[c] + offsets[sample[c] + 1] - offsets[sample[c]]
        demand[c] = classes.table_at[c + 1] - classes.table_at[c]
    resources = np.zeros(own[len(sample)], dtype=np.int64)
    for c in range(len(sample)):
        t = sample[c]
        resources[own[c]], resources[own[c] + 1] = pairs.first[t], nodes + pairs.last[t]
        for k in range(offsets[t] + 1, offsets[t + 1] - 1):
            resources[own[c] + 1 + k - offsets[t]] = 2 * nodes + indices[k]
    return ClassNeeds(own, resources, demand, cap)


def give_processors(units: UnitList, classes: Classes, frames: int, frame_of: npt.NDArray[np.int32]) -> None:
    """Frames of classes to their transfers: colours of two edge colourings are the sender's and the receiver's number.

    First frames are joined with pieces of the classes of one sender pool, as many units a piece as there are senders:
    each sender has one unit of every piece, one a frame. Then with the (class, sender) of one receiver pool: so no pair
    comes twice.
    """
    kind, senders, receivers = units.kind, classes.senders, classes.receivers
    piece, met = np.zeros(len(kind), dtype=np.int64), np.zeros(len(classes.sample), dtype=np.int64)
    for unit in range(len(kind)):
        piece[unit] = met[kind[unit]] // senders.size[senders.of[kind[unit]]]
        met[kind[unit]] += 1
    sender = colour_pools(units, piece, senders, receivers, frames)
    receiver = colour_pools(units, sender, receivers, senders, frames)
    for unit in range(len(kind)):
        c = kind[unit]
        place = sender[unit] * receivers.size[receivers.of[c]] + receiver[unit]
        frame_of[classes.table[classes.table_at[c] + place]] = units.position[unit]


def colour_pools(units: UnitList, piece: Ints, pools: Pools, others: Pools, frames: int) -> Ints:
    """The number of each unit within its pool, by colouring, for each pool, the multigraph of frames and (class,
    piece).

    ``piece[unit]`` is below the size of the class's other pool.
    """
    kind, position = units
    begin, vertices = np.zeros(len(pools.size) + 1, dtype=np.int64), np.zeros(len(pools.size), dtype=np.int64)
    vertex_at = np.zeros(len(pools.of), dtype=np.int64)
    for c in range(len(pools.of)):
        vertex_at[c] = vertices[pools.of[c]]
        vertices[pools.of[c]] += others.size[others.of[c]]
    for unit in range(len(kind)):
        begin[pools.of[kind[unit]] + 1] += 1
    for pool in range(len(pools.size)):
        begin[pool + 1] += begin[pool]
    own, filled = np.zeros(len(kind), dtype=np.int64), begin.copy()
    for unit in range(len(kind)):
        pool = pools.of[kind[unit]]
        own[filled[pool]] = unit
        filled[pool] += 1
    number = np.zeros(len(kind), dtype=np.int64)
    for pool in range(len(pools.size)):
        mine = own[begin[pool] : begin[pool + 1]]
        left, right = np.zeros(len(mine), dtype=np.int64), np.zeros(len(mine), dtype=np.int64)
        colour = np.zeros(len(mine), dtype=np.int64)
        for k in range(len(mine)):
            left[k] = position[mine[k]]
            right[k] = vertex_at[kind[mine[k]]] + piece[mine[k]]
        colour_edges(left, right, (frames, vertices[pool]), pools.size[pool], colour)
        for k in range(len(mine)):
            number[mine[k]] = colour[k]
    return number
