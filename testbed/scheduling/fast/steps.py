"""What the steps of the fast method share: sets of links as arrays, random numbers, first fit, edge colouring.

Written so that numba compiles it (see testbed.scheduling.fast.portfolio) and that tests can run it as it is.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from testbed.jit import first_bit

Ints = npt.NDArray[np.int64]
RandomState = npt.NDArray[np.uint64]

UNPLACED = -1
LARGE = 1 << 40
"""The weight of what must stay (tabu): more than all weights that ejections can sum up to."""


class Pools(NamedTuple):
    """Members that may stand for one another: ``of`` is the number of each one's pool, ``size`` how much there is in
    each pool."""

    of: Ints
    size: Ints


class LinkSets(NamedTuple):
    """The links of each transfer: ``indices[offsets[t]:offsets[t + 1]]`` of transfer t, numbers below ``links``."""

    offsets: Ints
    indices: npt.NDArray[np.int32] | Ints
    links: int


def seeded_state(seed: int) -> RandomState:
    """The state of ``next_random``: an array of one entry, never zero."""
    return np.full(1, seed * 2 + 88172645463325252, dtype=np.uint64)


def next_random(state: RandomState) -> Any:
    """The next number of 31 bits (xorshift64*; Vigna 2016); ``state`` is changed."""
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    return np.int64((x * np.uint64(2685821657736338717)) >> np.uint64(33))


def first_fit(sets: LinkSets, order: Ints, frames: int, frame_of: npt.NDArray[np.int32]) -> int:
    """Each transfer of ``order`` into the first frame, below ``frames``, where all its links are free; how many found
    none.

    ``frame_of`` is filled in, UNPLACED for those without a frame. A link's taken frames are the bits of its words.
    """
    offsets, indices, links = sets
    words = (frames + 63) // 64
    used = np.zeros(links * words, dtype=np.uint64)
    full = ~np.uint64(0)
    failed = 0
    for transfer in order:
        found = UNPLACED
        for w in range(words):
            taken = np.uint64(0)
            for k in range(offsets[transfer], offsets[transfer + 1]):
                taken |= used[indices[k] * words + w]
            if taken == full:
                continue
            bit = first_bit(np.int64(~taken))
            if w * 64 + bit < frames:
                found = w * 64 + bit
                for k in range(offsets[transfer], offsets[transfer + 1]):
                    used[indices[k] * words + w] |= np.uint64(1) << np.uint64(bit)
            break
        frame_of[transfer] = found
        failed += found == UNPLACED
    return failed


def colour_edges(
    left: Ints, right: Ints, sides: tuple[int, int], colours: int, colour: Ints
) -> None:
    """Proper edge colouring of a bipartite multigraph of degree at most ``colours`` (König: alternating paths).

    Edge e joins ``left[e]``, below ``sides[0]``, and ``right[e]``, below ``sides[1]``; its colour is written to
    ``colour[e]``. Time: edges times the longest alternating path. Source: König 1916.
    """
    ends, taken = (
        np.zeros((2, len(left)), dtype=np.int64),
        np.full((2, max(sides) * colours), UNPLACED, dtype=np.int64),
    )
    for edge in range(len(left)):
        ends[0, edge], ends[1, edge] = left[edge], right[edge]
        u, v = left[edge] * colours, right[edge] * colours
        a = 0
        while taken[0, u + a] != UNPLACED:
            a += 1
        b = 0
        while taken[1, v + b] != UNPLACED:
            b += 1
        if taken[1, v + a] != UNPLACED:
            # swap a and b along the path that leaves v by colour a; it cannot reach u
            node, side, find, give = v, 1, a, b
            carried = taken[1, v + a]
            taken[1, v + a] = UNPLACED
            while carried != UNPLACED:
                taken[side, node + give] = carried
                side = 1 - side
                node = ends[side, carried] * colours
                following = taken[side, node + give]
                taken[side, node + give] = carried
                if taken[side, node + find] == carried:
                    taken[side, node + find] = UNPLACED
                colour[carried] = give
                carried = following
                find, give = give, find
        colour[edge] = a
        taken[0, u + a] = taken[1, v + a] = edge
