"""Classes of transfers that only differ in their processors, scheduled as one; arrays in, arrays out, compiled by scheduling_kernel.

Where the path between two switches is the same for all their processors, and every processor of one sends to every one of the
other, a class needs only so many places in sender pool, receiver pool and links; edge colouring gives the places to processors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from testbed.scheduling.fast.class_ejection import class_table, eject_classes, place_classes
from testbed.scheduling.fast.steps import UNPLACED, colour_edges

MAX_CLASS_FRAMES = 1 << 26
"""Classes times frames that are searched: half a gigabyte."""
MAX_SINGLES = 256
"""Larger traffics whose classes are single transfers are left to the search of transfers."""


def amalgamate(offsets: Any, indices: Any, first_node: Any, last_node: Any, links: Any, nodes: Any) -> Any:
    """Whether the traffic falls into full classes, and which: a tuple of arrays (see its last line).

    ``table``: transfer of (class, sender number, receiver number); a class's part begins at ``table_at``.
    """
    n = len(offsets) - 1
    number = np.full(links, UNPLACED, dtype=np.int64)  # of a processor's link within its pool
    role = np.zeros(links, dtype=np.int8)
    senders, receivers = np.zeros(nodes, dtype=np.int64), np.zeros(nodes, dtype=np.int64)
    class_at = np.full(nodes * nodes, UNPLACED, dtype=np.int64)
    sample, size = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    class_of = np.zeros(n, dtype=np.int64)
    classes, good = 0, True
    for t in range(n):
        low, high = offsets[t], offsets[t + 1]
        if high - low < 2:
            good = False
            break
        a, b = first_node[t], last_node[t]
        s, r = indices[low], indices[high - 1]
        if role[s] == 0:
            role[s], number[s] = 1, senders[a]
            senders[a] += 1
        if role[r] == 0:
            role[r], number[r] = 2, receivers[b]
            receivers[b] += 1
        good = good and role[s] == 1 and role[r] == 2
        for k in range(low + 1, high - 1):
            good = good and role[indices[k]] in (0, 3)
            role[indices[k]] = 3
        c = class_at[a * nodes + b]
        if c == UNPLACED:
            c = class_at[a * nodes + b] = classes
            sample[c] = t
            classes += 1
        else:
            first = offsets[sample[c]]
            good = good and offsets[sample[c] + 1] - first == high - low
            if good:
                for k in range(1, high - low - 1):
                    good = good and indices[first + k] == indices[low + k]
        if not good:
            break
        class_of[t] = c
        size[c] += 1
    table_at = np.zeros(classes + 1, dtype=np.int64)
    if good:
        for c in range(classes):
            full = senders[first_node[sample[c]]] * receivers[last_node[sample[c]]]
            good = good and size[c] == full
            table_at[c + 1] = table_at[c] + full
    table = np.full(n, UNPLACED, dtype=np.int64)
    if good:
        for t in range(n):
            c = class_of[t]
            place = number[indices[offsets[t]]] * receivers[last_node[t]] + number[indices[offsets[t + 1] - 1]]
            good = good and table[table_at[c] + place] == UNPLACED
            table[table_at[c] + place] = t
    return good, classes, sample[:classes].copy(), senders, receivers, table, table_at


def class_resources(
    offsets: Any,
    indices: Any,
    first_node: Any,
    last_node: Any,
    links: Any,
    nodes: Any,
    sample: Any,
    senders: Any,
    receivers: Any,
) -> Any:
    """Each class's resources (sender pool, receiver pool, links between) as (offsets, indices), and every resource's places."""
    classes = len(sample)
    cap = np.ones(2 * nodes + links, dtype=np.int64)
    for node in range(nodes):  # not by slices: the message for shapes that differ takes seconds to compile
        cap[node], cap[nodes + node] = senders[node], receivers[node]
    own = np.zeros(classes + 1, dtype=np.int64)
    for c in range(classes):
        own[c + 1] = own[c] + offsets[sample[c] + 1] - offsets[sample[c]]
    resources = np.zeros(own[classes], dtype=np.int64)
    for c in range(classes):
        t = sample[c]
        resources[own[c]] = first_node[t]
        resources[own[c] + 1] = nodes + last_node[t]
        for k in range(offsets[t] + 1, offsets[t + 1] - 1):
            resources[own[c] + 1 + k - offsets[t]] = 2 * nodes + indices[k]
    return own, resources, cap


def class_order(own: Any, resources: Any, demand: Any, cap: Any) -> Any:
    """Classes, those over the most loaded resource first, then by summed load (each in shares of its places)."""
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
    return ascending(key)


def list_units(units: Any, total: Any) -> Any:
    """(class, frame) of each unit, from the units of each class in each frame."""
    kind, position = np.zeros(total, dtype=np.int64), np.zeros(total, dtype=np.int64)
    unit = 0
    for c in range(units.shape[0]):
        for frame in range(units.shape[1]):
            for _ in range(units[c, frame]):
                kind[unit], position[unit] = c, frame
                unit += 1
    return kind, position


def search_classes(
    offsets: Any,
    indices: Any,
    first_node: Any,
    last_node: Any,
    links: Any,
    nodes: Any,
    frames: Any,
    steps: Any,
    seed: Any,
) -> Any:
    """A schedule of ``frames`` frames by classes: (state, frame of each transfer); state 1 found, 0 not found, -1 no classes worth it."""
    n = len(offsets) - 1
    frame_of = np.full(n, UNPLACED, dtype=np.int32)
    good, _, sample, senders, receivers, table, table_at = amalgamate(
        offsets, indices, first_node, last_node, links, nodes
    )
    if not good or (len(sample) == n and n > MAX_SINGLES):
        return -1, frame_of
    own, resources, cap = class_resources(
        offsets, indices, first_node, last_node, links, nodes, sample, senders, receivers
    )
    demand = np.zeros(len(sample), dtype=np.int64)
    for c in range(len(demand)):
        demand[c] = table_at[c + 1] - table_at[c]
    if len(demand) * frames > MAX_CLASS_FRAMES:
        return -1, frame_of
    held = class_table(own, resources, cap, demand, frames)
    left = place_classes(held, class_order(own, resources, demand, cap), demand)
    left = eject_classes(held, left, steps, np.full(1, seed * 2 + 88172645463325252, dtype=np.uint64))
    if left > 0:
        return 0, frame_of
    kind, position = list_units(held.units, n)
    give_processors(
        kind, position, sample, first_node, last_node, senders, receivers, table, table_at, frames, frame_of
    )
    return 1, frame_of


def give_processors(
    kind: Any,
    position: Any,
    sample: Any,
    first_node: Any,
    last_node: Any,
    senders: Any,
    receivers: Any,
    table: Any,
    table_at: Any,
    frames: Any,
    frame_of: Any,
) -> None:
    """Places of classes to transfers: colours of two edge colourings are the sender's and the receiver's number.

    First frames are joined with pieces of the classes of one sender pool, as many units a piece as there are senders: each
    sender has one unit of every piece, one a frame. Then with the (class, sender) of one receiver pool: so no pair comes twice.
    """
    n, classes = len(kind), len(sample)
    rank, met = np.zeros(n, dtype=np.int64), np.zeros(classes, dtype=np.int64)
    for unit in range(n):
        rank[unit] = met[kind[unit]] // senders[first_node[sample[kind[unit]]]]
        met[kind[unit]] += 1
    sender, receiver = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    colour_pools(kind, rank, position, sample, first_node, last_node, senders, receivers, frames, sender)
    colour_pools(kind, sender, position, sample, last_node, first_node, receivers, senders, frames, receiver)
    for unit in range(n):
        c = kind[unit]
        place = sender[unit] * receivers[last_node[sample[c]]] + receiver[unit]
        frame_of[table[table_at[c] + place]] = position[unit]


def colour_pools(
    kind: Any,
    piece: Any,
    position: Any,
    sample: Any,
    pool_of: Any,
    other_of: Any,
    size: Any,
    other_size: Any,
    frames: Any,
    number: Any,
) -> None:
    """Colour, for each pool, the multigraph of frames and (class, piece): ``number`` of each unit, below the pool's size.

    ``piece[unit]`` is below the size of the class's other pool.
    """
    pools = len(size)
    begin, vertices = np.zeros(pools + 1, dtype=np.int64), np.zeros(pools, dtype=np.int64)
    vertex_at = np.zeros(len(sample), dtype=np.int64)
    for c in range(len(sample)):
        pool = pool_of[sample[c]]
        vertex_at[c] = vertices[pool]
        vertices[pool] += other_size[other_of[sample[c]]]
    for unit in range(len(kind)):
        begin[pool_of[sample[kind[unit]]] + 1] += 1
    for pool in range(pools):
        begin[pool + 1] += begin[pool]
    own, filled = np.zeros(len(kind), dtype=np.int64), begin.copy()
    for unit in range(len(kind)):
        pool = pool_of[sample[kind[unit]]]
        own[filled[pool]] = unit
        filled[pool] += 1
    for pool in range(pools):
        units = own[begin[pool] : begin[pool + 1]]
        left, right = np.zeros(len(units), dtype=np.int64), np.zeros(len(units), dtype=np.int64)
        colour = np.zeros(len(units), dtype=np.int64)
        for k in range(len(units)):
            left[k] = position[units[k]]
            right[k] = vertex_at[kind[units[k]]] + piece[units[k]]
        colour_edges(left, right, frames, vertices[pool], size[pool], colour)
        for k in range(len(units)):
            number[units[k]] = colour[k]


def ascending(key: Any) -> Any:
    """Indices in ascending order of (key, index): shell sort, which compiles in no time."""
    n = len(key)
    order = np.arange(n)
    gap = 1
    while gap < n // 3:
        gap = 3 * gap + 1
    while gap >= 1:
        for i in range(gap, n):
            item, j = order[i], i
            while j >= gap and (
                key[order[j - gap]] > key[item] or (key[order[j - gap]] == key[item] and order[j - gap] > item)
            ):
                order[j] = order[j - gap]
                j -= gap
            order[j] = item
        gap //= 3
    return order
