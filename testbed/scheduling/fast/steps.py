"""Steps that the searches of the fast method share.

They are sets of links as arrays, random numbers, first fit and edge colouring. The functions are
compiled by ``testbed.scheduling.fast.searches`` and ``placement``; tests run them uncompiled.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from testbed.jit import first_bit

Ints = npt.NDArray[np.int64]
RandomState = npt.NDArray[np.uint64]

# A unit or transfer without a position.
UNPLACED = -1

# Weight added to a unit that must stay (tabu). No sum of weights from ejections can reach it.
LARGE = 1 << 40


class Pools(NamedTuple):
    """A partition of members into pools of interchangeable ones.

    Attributes:
        of: Pool of each member.
        size: Number of members of each pool.
    """

    of: Ints
    size: Ints


class LinkSets(NamedTuple):
    """The links of each transfer.

    Attributes:
        offsets: Start of each transfer's links in ``indices``, and the end of the last.
        indices: The links of the transfers.
        links: Number of links.
    """

    offsets: Ints
    indices: npt.NDArray[np.int32] | Ints
    links: int


def seeded_state(seed: int) -> RandomState:
    """Return a state for ``next_random``: an array with one entry that is not zero."""
    return np.full(1, seed * 2 + 88172645463325252, dtype=np.uint64)


def next_random(state: RandomState) -> Any:
    """Return the next random number of 31 bits (xorshift64*; Vigna 2016), and change the state."""
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    return np.int64((x * np.uint64(2685821657736338717)) >> np.uint64(33))


def first_fit(sets: LinkSets, order: Ints, frames: int, frame_of: npt.NDArray[np.int32]) -> int:
    """Put each transfer into the first frame in which all its links are free.

    The frames in which a link is used are the bits of 64-bit words, so 64 frames are tested at
    once.

    Args:
        sets: The links of the transfers.
        order: The transfers in the order in which they are placed.
        frames: Number of frames.
        frame_of: Receives the frame of each transfer, or UNPLACED.

    Returns:
        The number of transfers without a frame.
    """
    offsets, indices, links = sets
    words_per_link = (frames + 63) // 64
    used = np.zeros(links * words_per_link, dtype=np.uint64)
    full = ~np.uint64(0)
    failed = 0
    for transfer in order:
        frame = UNPLACED
        for w in range(words_per_link):
            taken = np.uint64(0)
            for k in range(offsets[transfer], offsets[transfer + 1]):
                taken |= used[indices[k] * words_per_link + w]
            if taken == full:
                continue
            bit = first_bit(np.int64(~taken))
            if w * 64 + bit < frames:
                frame = w * 64 + bit
                for k in range(offsets[transfer], offsets[transfer + 1]):
                    used[indices[k] * words_per_link + w] |= np.uint64(1) << np.uint64(bit)
            break
        frame_of[transfer] = frame
        if frame == UNPLACED:
            failed += 1
    return failed


def colour_edges(
    left: Ints, right: Ints, sides: tuple[int, int], colours: int, colour: Ints
) -> None:
    """Colour the edges of a bipartite multigraph, so that the edges of a node differ in colour.

    The method is König's (König 1916): alternating paths. The time is the number of edges times the
    length of the longest alternating path.

    Args:
        left: Left node of each edge.
        right: Right node of each edge.
        sides: Number of left nodes and of right nodes.
        colours: Number of colours, at least the largest degree of a node.
        colour: Receives the colour of each edge.
    """
    # The left (row 0) and right node (row 1) of each edge.
    ends = np.zeros((2, len(left)), dtype=np.int64)
    # Edge of each colour at each left (row 0) and right node (row 1), or UNPLACED. The entries of
    # node n begin at n * colours.
    taken = np.full((2, max(sides) * colours), UNPLACED, dtype=np.int64)
    for edge in range(len(left)):
        ends[0, edge] = left[edge]
        ends[1, edge] = right[edge]
        u = left[edge] * colours
        v = right[edge] * colours
        # The lowest colours that are free at the left and at the right node.
        a = 0
        while taken[0, u + a] != UNPLACED:
            a += 1
        b = 0
        while taken[1, v + b] != UNPLACED:
            b += 1
        if taken[1, v + a] != UNPLACED:
            # Swap a and b along the path that leaves v by colour a. It cannot reach u, because u
            # has no edge of colour a, and the path could only arrive there by this colour.
            node = v
            side = 1
            find = a
            give = b
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
        taken[0, u + a] = edge
        taken[1, v + a] = edge
