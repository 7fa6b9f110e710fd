"""Schedules that do without the liquid method: round robin, random and identical order, and DSATUR's greedy colouring.

Source: Gabrielyan 2007, section 3.3 and subsection 3.8.2 (orders), Appendix B, Table 3 (DSATUR).
"""

import heapq
import random
from collections import defaultdict
from collections.abc import Sequence
from typing import Literal

from testbed.errors import InputError
from testbed.scheduling.exact.full_simultaneities import Conflicts, transfers_of

Order = Literal["round-robin", "random", "identical"]
Frames = tuple[tuple[int, ...], ...]


def sending_rounds(paths: Sequence[Sequence[int]], order: Order, *, seed: int = 1) -> Frames:
    """Round k: what every sender sends k-th. ``paths[i]``: the links of transfer i, the sender's first, the receiver's
    last.

    round-robin: senders and receivers are numbered as the transfers first name them; with n of them, sender s begins
    with receiver s and goes on to s + 1, ..., modulo n (n rounds for an all-to-all exchange). identical: every sender
    keeps the traffic's order. random: every sender has an order of its own, from ``seed``. Rounds may congest.
    """
    senders: dict[int, int] = {}
    receivers: dict[int, int] = {}
    for path in paths:
        senders.setdefault(path[0], len(senders))
        receivers.setdefault(path[-1], len(receivers))
    number = max(len(senders), len(receivers), 1)
    lists: dict[int, list[int]] = defaultdict(list)
    repeats: dict[tuple[int, int], int] = defaultdict(int)
    if order == "round-robin":
        rounds: dict[int, list[int]] = defaultdict(list)
        for i, path in enumerate(paths):
            pair = path[0], path[-1]
            shift = (receivers[path[-1]] - senders[path[0]]) % number
            rounds[repeats[pair] * number + shift].append(i)
            repeats[pair] += 1
        return tuple(
            tuple(sorted(rounds[k], key=lambda i: senders[paths[i][0]])) for k in sorted(rounds)
        )
    for i, path in enumerate(paths):
        lists[path[0]].append(i)
    if order == "random":
        chance = random.Random(f"random order {seed}")
        for own in lists.values():
            chance.shuffle(own)
    elif order != "identical":
        raise InputError(f"order {order!r} is unknown; give round-robin, random or identical")
    longest = max((len(own) for own in lists.values()), default=0)
    return tuple(tuple(own[k] for own in lists.values() if k < len(own)) for k in range(longest))


def split_rounds(paths: Sequence[Sequence[int]], rounds: Sequence[Sequence[int]]) -> Frames:
    """Each round by itself in as few time frames as first fit makes of it: the thesis' 7 frames for 5 rounds (3.3)."""
    frames: list[tuple[int, ...]] = []
    for round_ in rounds:
        frames += _first_fit(paths, round_, keep_order=False)
    return tuple(frames)


def compact_rounds(paths: Sequence[Sequence[int]], rounds: Sequence[Sequence[int]]) -> Frames:
    """Each transfer in the first frame with its links free, after whatever its sender sends before it."""
    return _first_fit(paths, [i for round_ in rounds for i in round_], keep_order=True)


def _first_fit(paths: Sequence[Sequence[int]], order: Sequence[int], *, keep_order: bool) -> Frames:
    frames: list[list[int]] = []
    busy: list[set[int]] = []
    ready: dict[int, int] = {}
    for i in order:
        links = set(paths[i])
        at = ready.get(paths[i][0], 0) if keep_order else 0
        while at < len(frames) and not links.isdisjoint(busy[at]):
            at += 1
        if at == len(frames):
            frames.append([])
            busy.append(set())
        frames[at].append(i)
        busy[at] |= links
        ready[paths[i][0]] = at + 1
    return tuple(tuple(frame) for frame in frames)


def dsatur_frames(paths: Sequence[Sequence[int]]) -> Frames:
    """The congestion graph coloured by DSATUR (Gabrielyan 2007, Table 3): each colour is a time frame.

    The next transfer is one next to the most colours; of equals, the one with most uncoloured neighbours; then the
    first. It gets the lowest colour that no neighbour has. O((transfers + edges) log transfers).
    """
    neighbours = [
        transfers_of(met & ~(1 << i)) for i, met in enumerate(Conflicts.of(paths).conflicting)
    ]
    degrees = [len(near) for near in neighbours]
    colours = [-1] * len(paths)
    seen = [0] * len(paths)  # colours next to each transfer, as bits
    queue = [(0, -degrees[i], i) for i in range(len(paths))]
    heapq.heapify(queue)
    frames: list[list[int]] = []
    while queue:
        saturation, degree, i = heapq.heappop(queue)
        if colours[i] >= 0 or -saturation != seen[i].bit_count() or -degree != degrees[i]:
            continue
        colour = (~seen[i] & (seen[i] + 1)).bit_length() - 1
        if colour == len(frames):
            frames.append([])
        frames[colour].append(i)
        colours[i] = colour
        for near in neighbours[i]:
            if colours[near] < 0:
                seen[near] |= 1 << colour
                degrees[near] -= 1
                heapq.heappush(queue, (-seen[near].bit_count(), -degrees[near], near))
    return tuple(tuple(sorted(frame)) for frame in frames)
