"""Classes of transfers that only differ in their processors, scheduled as one; arrays in, arrays out, compiled by scheduling_kernel.

Where the path between two switches is the same for all their processors, and every processor of one sends to every one of the
other, a class needs only so many places in sender pool, receiver pool and links; edge colouring gives the places to processors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from testbed.scheduling.scheduling_steps import UNPLACED, colour_edges, eject, place_greedily


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
    cap[:nodes] = senders
    cap[nodes : 2 * nodes] = receivers
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


def units_of(own: Any, resources: Any, demand: Any, cap: Any) -> Any:
    """One unit for each demanded place of a class: its class, (offsets, indices), and the order for the greedy start."""
    total = demand.sum()
    load = np.zeros(len(cap), dtype=np.int64)
    width = 0
    for c in range(len(demand)):
        width += demand[c] * (own[c + 1] - own[c])
        for k in range(own[c], own[c + 1]):
            load[resources[k]] += demand[c]
    kind, offsets, indices = (
        np.zeros(total, dtype=np.int64),
        np.zeros(total + 1, dtype=np.int64),
        np.zeros(width, dtype=np.int64),
    )
    key = np.zeros(total, dtype=np.float64)
    unit = 0
    for c in range(len(demand)):
        most, everything = 0.0, 0.0
        for k in range(own[c], own[c + 1]):
            share = load[resources[k]] / cap[resources[k]]
            most = max(most, share)
            everything += share
        for _ in range(demand[c]):
            kind[unit] = c
            key[unit] = -(most * 1e6 + everything)
            offsets[unit + 1] = offsets[unit]
            for k in range(own[c], own[c + 1]):
                indices[offsets[unit + 1]] = resources[k]
                offsets[unit + 1] += 1
            unit += 1
    return kind, offsets, indices, np.argsort(key, kind="mergesort")


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
    """A schedule of ``frames`` frames by classes: (state, frame of each transfer); state 1 found, 0 not found, -1 no full classes."""
    n = len(offsets) - 1
    frame_of = np.full(n, UNPLACED, dtype=np.int32)
    good, _, sample, senders, receivers, table, table_at = amalgamate(
        offsets, indices, first_node, last_node, links, nodes
    )
    if not good:
        return -1, frame_of
    own, resources, cap = class_resources(
        offsets, indices, first_node, last_node, links, nodes, sample, senders, receivers
    )
    demand = np.diff(table_at)
    kind, unit_offsets, unit_indices, order = units_of(own, resources, demand, cap)
    base = np.zeros(len(cap), dtype=np.int64)
    base[1:] = np.cumsum(cap)[:-1]
    held = np.full(cap.sum() * frames, UNPLACED, dtype=np.int64)
    count = np.zeros(len(cap) * frames, dtype=np.int64)
    moved = np.arange(len(cap)).reshape(1, len(cap))
    position, waiting = np.full(n, UNPLACED, dtype=np.int64), np.zeros(n, dtype=np.int64)
    weight, tabu = np.ones(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    clock, state = np.zeros(1, dtype=np.int64), np.array([seed * 2 + 88172645463325252], dtype=np.uint64)
    left = place_greedily(
        order, position, waiting, frames, 1, unit_offsets, unit_indices, moved, cap, base, held, count
    )
    left = eject(
        position,
        waiting,
        left,
        steps,
        frames,
        1,
        unit_offsets,
        unit_indices,
        moved,
        cap,
        base,
        held,
        count,
        weight,
        tabu,
        clock,
        state,
    )
    if left > 0:
        return 0, frame_of
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
    """Places of classes to transfers: colours of two edge colourings are the sender's and the receiver's number."""
    n = len(kind)
    a_of, b_of = first_node[sample[kind]], last_node[sample[kind]]
    sender, receiver = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    rank = np.zeros(n, dtype=np.int64)
    met = np.zeros(len(sample), dtype=np.int64)
    for unit in range(n):
        rank[unit] = met[kind[unit]]
        met[kind[unit]] += 1
    by_sender = np.argsort(a_of, kind="mergesort")
    low = 0
    while low < n:
        pool = a_of[by_sender[low]]
        high = low
        while high < n and a_of[by_sender[high]] == pool:
            high += 1
        own = by_sender[low:high]
        pieces = kind[own] * n + rank[own] // senders[pool]
        names = np.unique(pieces)
        colour = np.zeros(high - low, dtype=np.int64)
        colour_edges(position[own], np.searchsorted(names, pieces), frames, len(names), senders[pool], colour)
        sender[own] = colour
        low = high
    by_receiver = np.argsort(b_of, kind="mergesort")
    low = 0
    while low < n:
        pool = b_of[by_receiver[low]]
        high = low
        while high < n and b_of[by_receiver[high]] == pool:
            high += 1
        own = by_receiver[low:high]
        pieces = kind[own] * n + sender[own]
        names = np.unique(pieces)
        colour = np.zeros(high - low, dtype=np.int64)
        colour_edges(position[own], np.searchsorted(names, pieces), frames, len(names), receivers[pool], colour)
        receiver[own] = colour
        low = high
    for unit in range(n):
        c = kind[unit]
        transfer = table[table_at[c] + sender[unit] * receivers[b_of[unit]] + receiver[unit]]
        frame_of[transfer] = position[unit]
