"""The known states: the least row of each class of symmetric states, with a hash table."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from testbed.arrays import IntArray
from testbed.interconnect.model_checking.compiled.model_tables import MAX_SIGNALS, ModelTables
from testbed.interconnect.model_checking.compiled.state_access import add_signal, copy
from testbed.interconnect.model_checking.transition_system import HERE


class Visited(NamedTuple):
    """The states known so far, numbered in the order of their discovery.

    Attributes:
        rows: The row of each state.
        words: The same memory as words of eight bytes.
        parents: The state from which each state was first reached.
        slots: A hash table with open addressing: the number of a state plus 1, or 0.
        count: [number of known states, of expanded states, of steps].
    """

    rows: IntArray
    words: IntArray
    parents: IntArray
    slots: IntArray
    count: IntArray  # type: ignore[assignment]


def visited_states(max_states: int, width: int) -> Visited:
    """Return room for this number of states, whose rows have ``width`` bytes.

    The kernel provides memory only as states are added, except for the hash table, which takes 8 to
    16 bytes per state.
    """
    rows = np.empty((max_states, width), np.uint8)
    # The number of slots is a power of two, at least twice the number of states.
    slots = 1 << max(10, (2 * max_states - 1).bit_length())
    return Visited(
        rows=rows,
        words=rows.view(np.int64),
        parents=np.empty(max_states, np.int32),
        slots=np.zeros(slots, np.int32),
        count=np.zeros(3, np.int64),
    )


def canonical(t: ModelTables, row: IntArray, image: IntArray, best: IntArray) -> None:
    """Find the least of a row and its images under all symmetries.

    Args:
        t: The tables.
        row: The row.
        image: A row to work in.
        best: Becomes the least row.
    """
    copy(row, best)
    for k in range(t.images):
        image_of(t, row, k, image)
        for i in range(len(best)):
            if image[i] != best[i]:
                if image[i] < best[i]:
                    copy(image, best)
                break


def image_of(t: ModelTables, row: IntArray, k: int, image: IntArray) -> None:
    """Compute the image of a row under the k-th symmetry (``symmetry.Image``)."""
    for i in range(len(image)):
        image[i] = 0
    for i in range(t.reserved_at):
        image[i] = t.image_packets[k, row[t.image_places[k, i]]]
    for i in range(t.reserved_at, t.down_at):
        requested = row[t.image_places[k, i]]
        image[i] = HERE if requested == HERE else t.image_outs[k, requested]
    image[t.down_at] = t.image_masks[k, row[t.down_at]]
    for i in range(MAX_SIGNALS):
        at = t.signals_at + 2 * i
        if row[at + 1] == 0:
            break
        add_signal(t, image, int(t.image_cycles[k, row[at]]), int(row[at + 1]))


def number_of(visited: Visited, row_words: IntArray, parent: int) -> int:
    """Return the number of a state. A new state is added behind the others.

    Args:
        visited: The known states.
        row_words: The state's row as words of eight bytes.
        parent: The state from which it was reached.
    """
    mask = len(visited.slots) - 1
    mixed = np.int64(len(row_words))
    for word in row_words:
        # An odd factor with mixed bits, as in Vigna's finalizers of murmur hashes.
        mixed = (mixed ^ word) * np.int64(-0x2917014799A6026D)
        mixed ^= mixed >> np.int64(32)
    at = int(mixed & mask)
    while visited.slots[at] != 0:
        number = int(visited.slots[at]) - 1
        same = True
        for i in range(len(row_words)):
            if visited.words[number, i] != row_words[i]:
                same = False
                break
        if same:
            return number
        at = (at + 1) & mask
    number = int(visited.count[0])
    for i in range(len(row_words)):
        visited.words[number, i] = row_words[i]
    visited.parents[number] = parent
    visited.slots[at] = number + 1
    visited.count[0] = number + 1
    return number
