"""The fast method's steps on arrays: first fit, weighted ejection, edge colouring. Compiled by scheduling_kernel; run as they are in tests.

Units are transfers, classes' members or orbits; a unit holds resources; resource r has ``cap[r]`` places in each frame.
"""

from __future__ import annotations

from typing import Any

import numpy as np

UNPLACED = -1
LARGE = 1 << 40
TABU_STEPS = 1
MAX_WEIGHED = 96
"""Positions that a step weighs where there are more than five times as many: only those where fewest resources are taken."""


def next_random(state: Any) -> Any:
    """xorshift64*: a number of 31 bits; ``state`` is a uint64 array of one entry, never zero."""
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    return np.int64((x * np.uint64(2685821657736338717)) >> np.uint64(33))


def first_fit(offsets: Any, indices: Any, order: Any, frames: Any, links: Any, frame_of: Any) -> Any:
    """Each unit of ``order`` into the first frame where all its resources (one place each) are free; how many found none."""
    words = (frames + 63) // 64
    used = np.zeros(links * words, dtype=np.uint64)
    full = ~np.uint64(0)
    failed = 0
    for unit in order:
        found = UNPLACED
        for w in range(words):
            taken = np.uint64(0)
            for k in range(offsets[unit], offsets[unit + 1]):
                taken |= used[indices[k] * words + w]
            if taken == full:
                continue
            free = ~taken
            bit = 0
            for half in (32, 16, 8, 4, 2, 1):
                if not free & ((np.uint64(1) << np.uint64(half)) - np.uint64(1)):
                    free >>= np.uint64(half)
                    bit += half
            if w * 64 + bit < frames:
                found = w * 64 + bit
                for k in range(offsets[unit], offsets[unit + 1]):
                    used[indices[k] * words + w] |= np.uint64(1) << np.uint64(bit)
            break
        frame_of[unit] = found
        failed += found == UNPLACED
    return failed


def put(
    unit: Any,
    at: Any,
    frames: Any,
    shifts: Any,
    offsets: Any,
    indices: Any,
    moved: Any,
    cap: Any,
    base: Any,
    held: Any,
    count: Any,
) -> None:
    """Enter the unit at position ``at`` (frame at // shifts, shift at % shifts): it holds its resources, moved by the shift."""
    frame, shift = at // shifts, at % shifts
    for k in range(offsets[unit], offsets[unit + 1]):
        r = moved[shift, indices[k]]
        held[(base[r] * frames) + frame * cap[r] + count[r * frames + frame]] = unit
        count[r * frames + frame] += 1


def take_out(
    unit: Any,
    at: Any,
    frames: Any,
    shifts: Any,
    offsets: Any,
    indices: Any,
    moved: Any,
    cap: Any,
    base: Any,
    held: Any,
    count: Any,
) -> None:
    """Free the unit's resources at its position."""
    frame, shift = at // shifts, at % shifts
    for k in range(offsets[unit], offsets[unit + 1]):
        r = moved[shift, indices[k]]
        first = base[r] * frames + frame * cap[r]
        last = first + count[r * frames + frame] - 1
        slot = first
        while held[slot] != unit:
            slot += 1
        held[slot] = held[last]
        held[last] = UNPLACED
        count[r * frames + frame] -= 1


def price(
    unit: Any,
    at: Any,
    limit: Any,
    step: Any,
    frames: Any,
    shifts: Any,
    offsets: Any,
    indices: Any,
    moved: Any,
    cap: Any,
    base: Any,
    held: Any,
    count: Any,
    weight: Any,
    tabu: Any,
    victims: Any,
) -> Any:
    """Weights of the units that would have to leave the position, their numbers into ``victims`` (ended by UNPLACED).

    Stops early above ``limit``.
    """
    frame, shift = at // shifts, at % shifts
    cost, found = 0, 0
    for k in range(offsets[unit], offsets[unit + 1]):
        r = moved[shift, indices[k]]
        if count[r * frames + frame] < cap[r]:
            continue
        first = base[r] * frames + frame * cap[r]
        cheapest, least = held[first], LARGE * 2
        for slot in range(first, first + cap[r]):
            other = held[slot]
            known = False
            for v in range(found):
                known = known or victims[v] == other
            if known:
                cheapest, least = UNPLACED, 0
                break
            worth = weight[other] + (LARGE if tabu[other] > step else 0)
            if worth < least:
                cheapest, least = other, worth
        if cheapest != UNPLACED:
            victims[found] = cheapest
            found += 1
            cost += least
            if cost > limit:
                break
    victims[found] = UNPLACED
    return cost


def count_taken(unit: Any, frames: Any, offsets: Any, indices: Any, cap: Any, count: Any, taken: Any) -> Any:
    """How many of the unit's resources are taken in each frame, into ``taken``; the least of them."""
    taken[:] = 0
    for k in range(offsets[unit], offsets[unit + 1]):
        r = indices[k]
        row = count[r * frames : (r + 1) * frames]
        for frame in range(frames):
            taken[frame] += row[frame] >= cap[r]
    return taken.min()


def eject(
    position: Any,
    waiting: Any,
    waiting_count: Any,
    steps: Any,
    frames: Any,
    shifts: Any,
    offsets: Any,
    indices: Any,
    moved: Any,
    cap: Any,
    base: Any,
    held: Any,
    count: Any,
    weight: Any,
    tabu: Any,
    clock: Any,
    state: Any,
) -> Any:
    """Weighted ejection: a random unplaced unit goes where the least weight has to leave, what leaves gains weight and waits.

    Runs at most ``steps`` steps, or until none waits; returns how many wait. ``clock``: steps so far, kept between calls.
    """
    widest = 1
    for unit in range(len(offsets) - 1):
        widest = max(widest, 1 + offsets[unit + 1] - offsets[unit])
    victims, best_victims = np.zeros(widest, dtype=np.int64), np.zeros(widest, dtype=np.int64)
    positions = frames * shifts
    many = shifts == 1 and positions > 5 * MAX_WEIGHED
    taken = np.zeros(positions if many else 1, dtype=np.int32)
    for _ in range(steps):
        if waiting_count == 0:
            break
        clock[0] += 1
        pick = next_random(state) % waiting_count
        unit = waiting[pick]
        waiting_count -= 1
        waiting[pick] = waiting[waiting_count]
        best, best_at, ties = LARGE * 64, 0, 0
        start = next_random(state) % positions
        fewest, weighed = 0, 0
        if many:
            fewest = count_taken(unit, frames, offsets, indices, cap, count, taken)
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
            cost = price(
                unit,
                at,
                best,
                clock[0],
                frames,
                shifts,
                offsets,
                indices,
                moved,
                cap,
                base,
                held,
                count,
                weight,
                tabu,
                victims,
            )
            if cost > best:
                continue
            ties = ties + 1 if cost == best else 1
            if cost < best or next_random(state) % ties == 0:
                best, best_at = cost, at
                v = 0
                while victims[v] != UNPLACED:
                    best_victims[v] = victims[v]
                    v += 1
                best_victims[v] = UNPLACED
            if best == 0:
                break
        v = 0
        while best_victims[v] != UNPLACED:
            other = best_victims[v]
            take_out(other, position[other], frames, shifts, offsets, indices, moved, cap, base, held, count)
            position[other] = UNPLACED
            weight[other] += 1
            waiting[waiting_count] = other
            waiting_count += 1
            v += 1
        put(unit, best_at, frames, shifts, offsets, indices, moved, cap, base, held, count)
        position[unit] = best_at
        tabu[unit] = clock[0] + TABU_STEPS
    return waiting_count


def place_greedily(
    order: Any,
    position: Any,
    waiting: Any,
    frames: Any,
    shifts: Any,
    offsets: Any,
    indices: Any,
    moved: Any,
    cap: Any,
    base: Any,
    held: Any,
    count: Any,
) -> Any:
    """Each unit, in order, at the first position where nothing has to leave; how many wait instead."""
    left, before, begin = 0, UNPLACED, 0
    for unit in order:
        position[unit] = UNPLACED
        # what the unit before it could not have, one with the same resources cannot have either: nothing leaves meanwhile
        length = offsets[unit + 1] - offsets[unit]
        alike = before != UNPLACED and offsets[before + 1] - offsets[before] == length
        if alike:
            for k in range(length):
                alike = alike and indices[offsets[before] + k] == indices[offsets[unit] + k]
        begin = begin if alike else 0
        before = unit
        for at in range(begin, frames * shifts):
            frame, shift = at // shifts, at % shifts
            free = True
            for k in range(offsets[unit], offsets[unit + 1]):
                r = moved[shift, indices[k]]
                if count[r * frames + frame] >= cap[r]:
                    free = False
                    break
            if free:
                put(unit, at, frames, shifts, offsets, indices, moved, cap, base, held, count)
                position[unit] = begin = at
                break
        if position[unit] == UNPLACED:
            waiting[left] = unit
            left += 1
            begin = frames * shifts
    return left


def enter_positions(
    position: Any,
    waiting: Any,
    frames: Any,
    shifts: Any,
    offsets: Any,
    indices: Any,
    moved: Any,
    cap: Any,
    base: Any,
    held: Any,
    count: Any,
) -> Any:
    """Enter every unit that has a position; those without one wait: how many."""
    left = 0
    for unit in range(len(position)):
        if position[unit] == UNPLACED:
            waiting[left] = unit
            left += 1
        else:
            put(unit, position[unit], frames, shifts, offsets, indices, moved, cap, base, held, count)
    return left


def colour_edges(left: Any, right: Any, lefts: Any, rights: Any, colours: Any, colour: Any) -> None:
    """Proper edge colouring of a bipartite multigraph of degree at most ``colours`` (Koenig: alternating paths).

    Edge e joins ``left[e]`` and ``right[e]``; its colour is written to ``colour[e]``.
    """
    at_left = np.full(lefts * colours, UNPLACED, dtype=np.int64)
    at_right = np.full(rights * colours, UNPLACED, dtype=np.int64)
    for edge in range(len(left)):
        u, v = left[edge], right[edge]
        a = 0
        while at_left[u * colours + a] != UNPLACED:
            a += 1
        b = 0
        while at_right[v * colours + b] != UNPLACED:
            b += 1
        if at_right[v * colours + a] != UNPLACED:
            # swap a and b along the path that leaves v by colour a; it cannot reach u
            node, on_right, find, give = v, True, a, b
            carried = at_right[v * colours + a]
            at_right[v * colours + a] = UNPLACED
            while carried != UNPLACED:
                if on_right:
                    at_right[node * colours + give] = carried
                    node = left[carried]
                    following = at_left[node * colours + give]
                    at_left[node * colours + give] = carried
                    if at_left[node * colours + find] == carried:
                        at_left[node * colours + find] = UNPLACED
                else:
                    at_left[node * colours + give] = carried
                    node = right[carried]
                    following = at_right[node * colours + give]
                    at_right[node * colours + give] = carried
                    if at_right[node * colours + find] == carried:
                        at_right[node * colours + find] = UNPLACED
                colour[carried] = give
                carried = following
                on_right = not on_right
                find, give = give, find
        colour[edge] = a
        at_left[u * colours + a] = edge
        at_right[v * colours + a] = edge
