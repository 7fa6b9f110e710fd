"""Breadth first through all states that can be reached, and which of them can never be drained.

A state can drain when some order of sure steps (hosts that send, cables and lagging knowledge are not) empties the
network. One that cannot, with the hosts silent, holds packets permanently: a deadlock, of all of the network or of a
part.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from testbed.arrays import BoolArray, IntArray
from testbed.errors import InputError
from testbed.interconnect.model_checking.compiled.model_tables import (
    MOST_SIGNALS,
    ModelTables,
    model_tables,
    most_steps,
    row_bytes,
    state_of,
)
from testbed.interconnect.model_checking.compiled.successors import (
    SuccessorBuffer,
    step_name,
    successors,
)
from testbed.interconnect.model_checking.compiled.visited import (
    Visited,
    canonical,
    number_of,
    visited_states,
)
from testbed.interconnect.model_checking.symmetry import Image, state_images
from testbed.interconnect.model_checking.transition_system import NacTransitionSystem
from testbed.jit import by_reference, compiled_entry

BATCH = 4096
"""States looked at in one call: between two the interpreter has its turn."""


class CompiledSearch:
    """All states from the empty network on, as ``exploration.explore`` numbers them; ``known``: how many,
    ``looked_at``: of those.

    ``sure_targets``: where sure steps lead, of one state after another.
    """

    def __init__(self, model: NacTransitionSystem, images: list[Image], most_states: int) -> None:
        self.model = model
        self._tables = tables = model_tables(model, images)
        width, most = row_bytes(model), most_steps(model)
        self.seen: Visited = visited_states(most_states + most + 1, width)
        found = found_steps(most, width)
        work = np.zeros((2, width), np.uint8)
        sure, targets = np.zeros(BATCH, np.int16), np.zeros(BATCH * most, np.int32)
        sure_parts, target_parts = [], []
        while not self.reached or (self.looked_at < self.reached <= most_states):
            before = self.looked_at
            ended = LOOK(tables, self.seen, found, work, (sure, targets, most_states))
            if found.overflow[0]:
                raise InputError(
                    f"{model.network.name}: more than {MOST_SIGNALS} recovery signals at once; "
                    "explore fewer flows or slots"
                )
            sure_parts.append(sure[: self.looked_at - before].copy())
            target_parts.append(targets[:ended].copy())
        self._sure, self.sure_targets = np.concatenate(sure_parts), np.concatenate(target_parts)

    @property
    def reached(self) -> int:
        """States reached."""
        return int(self.seen.count[0])

    @property
    def looked_at(self) -> int:
        """States of which all that may follow was found."""
        return int(self.seen.count[1])

    @property
    def steps(self) -> int:
        """Steps found."""
        return int(self.seen.count[2])

    def path_to(self, number: int) -> list[bytes]:
        """The states by which it was reached first, from the empty network on."""
        way = []
        while number >= 0:
            way.append(state_of(self.model, self.seen.rows[number]))
            number = int(self.seen.parents[number])
        return way[::-1]

    def trace(self, number: int) -> tuple[tuple[tuple[str, int], ...], bytes]:
        """The steps (name, link) by which a state was reached first, in the numbers of one and the same network, and
        the state at their end. The steps run in Python: they are few."""
        found = found_steps(most_steps(self.model), self.seen.rows.shape[1])
        row, steps = np.zeros(self.seen.rows.shape[1], np.uint8), []
        for required in self.path_to(number)[1:]:
            count = successors(self._tables, row, found)
            nth = next(i for i in range(count) if self._least(found.rows[i]) == required)
            what = found.what[nth].tolist()
            steps.append((step_name(self.model, row.tobytes(), what), what[1]))
            row = found.rows[nth].copy()
        return tuple(steps), state_of(self.model, row)

    def _least(self, row: IntArray) -> bytes:
        """Of the states symmetric to that of a row."""
        image, least = np.zeros_like(row), np.zeros_like(row)
        canonical(self._tables, row, image, least)
        return state_of(self.model, least)

    def stuck(self) -> IntArray:
        """States from which no sure steps lead to a drained state, or to one not looked at."""
        drains: BoolArray = ~np.any(
            self.seen.rows[: self.reached, : self.model.reserved_at], axis=1
        )
        drains[self.looked_at :] = True
        first = np.concatenate([[0], np.cumsum(self._sure, dtype=np.int64)])
        while SWEEP(first, self.sure_targets, drains):
            pass
        return np.nonzero(~drains)[0]


def found_steps(most: int, width: int) -> SuccessorBuffer:
    """Room for so many steps that lead to rows of ``width`` bytes."""
    return SuccessorBuffer(
        rows=np.zeros((most, width), np.uint8), sure=np.zeros(most, np.bool_), what=np.zeros((most, 3), np.int16),
        overflow=np.zeros(1, np.bool_),
    )  # fmt: skip


def look_at(
    tables: ModelTables,
    seen: Visited,
    found: SuccessorBuffer,
    work: IntArray,
    edges: tuple[IntArray, IntArray, int],
) -> int:
    """Look at the next ``BATCH`` states (at first at the empty network); the sure steps of each, counted and by their
    targets. How many of these there are."""
    sure, targets, most_states = edges
    t, ended = by_reference(tables), 0
    work_words = work.view(np.int64)
    if seen.count[0] == 0:
        number_of(
            seen, work_words[1], -1
        )  # the empty network: all 0, as the rows to work in still are
    for k in range(len(sure)):
        at = seen.count[1]
        if at >= seen.count[0] or seen.count[0] > most_states:
            break
        n, before = successors(t, seen.rows[at], found), ended
        for i in range(n):
            canonical(t, found.rows[i], work[0], work[1])
            number = number_of(seen, work_words[1], at)
            if found.sure[i]:
                targets[ended] = number
                ended += 1
        sure[k] = ended - before
        seen.count[1] += 1
        seen.count[2] += n
    return ended


def mark_drained(first: IntArray, targets: IntArray, drains: BoolArray) -> bool:
    """Mark states with a sure step to a marked one, once upwards and once downwards; whether any was new."""
    new = False
    looked = len(first) - 1
    for k in range(2 * looked):
        at = k if k < looked else 2 * looked - 1 - k
        if drains[at]:
            continue
        for i in range(first[at], first[at + 1]):
            if drains[targets[i]]:
                drains[at] = new = True
                break
    return new


LOOK = compiled_entry(look_at, _nrt=False, error_model="numpy", nogil=True)
SWEEP = compiled_entry(mark_drained, _nrt=False, error_model="numpy", nogil=True)
"""Nothing is allocated in them, so arrays need no counting of references."""


@dataclass(frozen=True, kw_only=True)
class Exploration:
    """``states``: reached, of each class of symmetric ones one; ``whole``: none is left out. ``symmetries``: how many a
    class may have.

    ``stuck``: how many cannot drain; ``trace``: the steps to the first of them, each with what it concerns (a link),
    empty where there is none. ``deepest``: steps to the state that is furthest away.
    """

    states: int
    steps: int
    symmetries: int
    deepest: int
    complete: bool
    stuck: int
    trace: tuple[tuple[str, int], ...]
    stuck_state: bytes


def explore(model: NacTransitionSystem, *, most_states: int = 2_000_000) -> Exploration:
    """All states from the empty network on. Where there are more than ``most_states`` it stops, and says so by
    ``whole``.

    Of what was reached until then those are stuck that no sure steps lead out of to a drained state or to one not yet
    looked at.
    """
    images = state_images(model)
    search = CompiledSearch(model, images, most_states)
    stuck = search.stuck()
    trace, last = search.trace(int(stuck[0])) if len(stuck) else ((), b"")
    return Exploration(
        states=search.reached, steps=search.steps, symmetries=len(images),
        deepest=len(search.path_to(search.reached - 1)) - 1, complete=search.looked_at == search.reached,
        stuck=len(stuck), trace=trace, stuck_state=last,
    )  # fmt: skip
