"""Schedules without the liquid method.

They are sending orders (round robin, random and identical order) and the greedy colouring DSATUR.

Source: Gabrielyan 2007, section 3.3 and subsection 3.8.2 (orders), appendix B, Table 3 (DSATUR).
"""

import heapq
import itertools
import random
from collections import defaultdict
from collections.abc import Sequence
from typing import Literal

from testbed.errors import InputError
from testbed.scheduling.exact.full_simultaneities import Conflicts, transfers_of

Order = Literal["round-robin", "random", "identical"]

# The numbers of the transfers of each frame, or of each round.
Frames = tuple[tuple[int, ...], ...]


def sending_rounds(paths: Sequence[Sequence[int]], order: Order, *, seed: int = 1) -> Frames:
    """Return the transfers of each round; round k has the k-th transfer of every sender.

    Transfers of a round may congest. The orders are:

    - round-robin: senders and receivers are numbered in the order in which the transfers name them.
      With n of them, sender s begins with receiver s and continues with s + 1, ..., modulo n. An
      all-to-all exchange has n rounds.
    - identical: every sender uses the order of the traffic.
    - random: every sender has a random order of its own.

    Args:
        paths: The links of each transfer; the first one identifies the sender, the last one the
            receiver.
        order: The sending order.
        seed: Seed of the random order.

    Raises:
        InputError: The order is unknown.
    """
    if order == "round-robin":
        return _round_robin(paths)
    if order not in ("random", "identical"):
        raise InputError(f"order {order!r} is unknown; give round-robin, random or identical")
    by_sender: dict[int, list[int]] = defaultdict(list)
    for i, path in enumerate(paths):
        by_sender[path[0]].append(i)
    if order == "random":
        rng = random.Random(f"random order {seed}")
        for transfers in by_sender.values():
            rng.shuffle(transfers)
    rounds: list[tuple[int, ...]] = []
    for row in itertools.zip_longest(*by_sender.values()):
        rounds.append(tuple(i for i in row if i is not None))
    return tuple(rounds)


def _round_robin(paths: Sequence[Sequence[int]]) -> Frames:
    """Return the rounds in which every sender sends to all receivers in turn.

    The first transfers of all pairs come before the second ones, and so on.
    """
    senders: dict[int, int] = {}
    receivers: dict[int, int] = {}
    for path in paths:
        senders.setdefault(path[0], len(senders))
        receivers.setdefault(path[-1], len(receivers))
    size = max(len(senders), len(receivers), 1)
    # Number of earlier transfers of each pair.
    repeats: dict[tuple[int, int], int] = defaultdict(int)
    rounds: dict[int, list[int]] = defaultdict(list)
    for i, path in enumerate(paths):
        pair = (path[0], path[-1])
        shift = (receivers[path[-1]] - senders[path[0]]) % size
        rounds[repeats[pair] * size + shift].append(i)
        repeats[pair] += 1
    sorted_rounds = []
    for number in sorted(rounds):
        sorted_rounds.append(tuple(sorted(rounds[number], key=lambda i: senders[paths[i][0]])))
    return tuple(sorted_rounds)


def split_rounds(paths: Sequence[Sequence[int]], rounds: Sequence[Sequence[int]]) -> Frames:
    """Divide each round into frames without congestion, by first fit.

    The thesis' example has 7 frames for 5 rounds (section 3.3).

    Args:
        paths: The links of each transfer.
        rounds: The transfers of each round.
    """
    frames: list[tuple[int, ...]] = []
    for transfers in rounds:
        frames += _first_fit(paths, transfers, keep_order=False)
    return tuple(frames)


def compact_rounds(paths: Sequence[Sequence[int]], rounds: Sequence[Sequence[int]]) -> Frames:
    """Put each transfer into the first frame in which its links are free.

    Every sender keeps the order of its transfers.

    Args:
        paths: The links of each transfer.
        rounds: The transfers of each round.
    """
    return _first_fit(paths, list(itertools.chain(*rounds)), keep_order=True)


def _first_fit(paths: Sequence[Sequence[int]], order: Sequence[int], *, keep_order: bool) -> Frames:
    """Put each transfer into the first frame in which its links are free.

    Args:
        paths: The links of each transfer.
        order: The transfers in the order in which they are placed.
        keep_order: Place a transfer after all earlier ones of the same sender.
    """
    frames: list[list[int]] = []
    used_links: list[set[int]] = []
    # First frame after the last transfer of each sender.
    first_frame: dict[int, int] = {}
    for i in order:
        links = set(paths[i])
        sender = paths[i][0]
        number = first_frame.get(sender, 0) if keep_order else 0
        while number < len(frames) and not links.isdisjoint(used_links[number]):
            number += 1
        if number == len(frames):
            frames.append([])
            used_links.append(set())
        frames[number].append(i)
        used_links[number] |= links
        first_frame[sender] = number + 1
    return tuple(tuple(frame) for frame in frames)


def dsatur_frames(paths: Sequence[Sequence[int]]) -> Frames:
    """Colour the congestion graph by DSATUR; each colour is a time frame.

    Source: Gabrielyan 2007, Table 3 (Brélaz 1979). The next transfer is the one with the most
    colours among its neighbours; of equals, the one with the most uncoloured neighbours; then the
    first. It gets the lowest colour that no neighbour has. The cost is
    O((transfers + edges) log transfers).

    Args:
        paths: The links of each transfer.
    """
    neighbours = []
    for i, conflicting in enumerate(Conflicts.of(paths).conflicting):
        neighbours.append(transfers_of(conflicting & ~(1 << i)))
    # Number of uncoloured neighbours.
    degrees = [len(transfers) for transfers in neighbours]
    colours = [-1] * len(paths)
    # Colours of the neighbours of each transfer, as bits.
    near_colours = [0] * len(paths)
    # Entries of the heap: negative number of near colours, negative degree, transfer. An entry that
    # no longer agrees with these values is outdated, and a newer one follows.
    queue = [(0, -degrees[i], i) for i in range(len(paths))]
    heapq.heapify(queue)
    frames: list[list[int]] = []
    while queue:
        saturation, degree, i = heapq.heappop(queue)
        outdated = -saturation != near_colours[i].bit_count() or -degree != degrees[i]
        if colours[i] >= 0 or outdated:
            continue
        # The lowest bit that is not set.
        colour = (~near_colours[i] & (near_colours[i] + 1)).bit_length() - 1
        if colour == len(frames):
            frames.append([])
        frames[colour].append(i)
        colours[i] = colour
        for neighbour in neighbours[i]:
            if colours[neighbour] < 0:
                near_colours[neighbour] |= 1 << colour
                degrees[neighbour] -= 1
                entry = (-near_colours[neighbour].bit_count(), -degrees[neighbour], neighbour)
                heapq.heappush(queue, entry)
    return tuple(tuple(sorted(frame)) for frame in frames)
