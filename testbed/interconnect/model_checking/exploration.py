"""Breadth-first search of all reachable states, and of those that can never drain.

A state can drain if some order of certain steps empties the network. Steps of hosts that send, of
cables, and of outdated knowledge are not certain. A state that cannot drain although all hosts are
silent holds packets permanently: a deadlock of the whole network or of a part.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from testbed.arrays import BoolArray, IntArray
from testbed.errors import InputError
from testbed.interconnect.model_checking.compiled.model_tables import (
    MAX_SIGNALS,
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

# Number of states that are expanded in one call. The interpreter runs between two calls.
BATCH = 4096


class CompiledSearch:
    """A search of all states from the empty network on, numbered in the order of their discovery.

    Attributes:
        model: The transition system.
        seen: The states found so far.
        sure_targets: The states to which certain steps lead, for one expanded state after another.
    """

    def __init__(self, model: NacTransitionSystem, images: list[Image], most_states: int) -> None:
        """Search until all states are expanded, or more than ``most_states`` are known.

        Args:
            model: The transition system.
            images: Its symmetries. The first one changes nothing.
            most_states: Number of states after which the search stops.

        Raises:
            InputError: More recovery signals are in transit at once than a row has room for.
        """
        self.model = model
        tables = model_tables(model, images)
        self._tables = tables
        width = row_bytes(model)
        max_steps = most_steps(model)
        self.seen: Visited = visited_states(most_states + max_steps + 1, width)
        buffer = successor_buffer(max_steps, width)
        work = np.zeros((2, width), np.uint8)
        sure = np.zeros(BATCH, np.int16)
        targets = np.zeros(BATCH * max_steps, np.int32)
        sure_parts = []
        target_parts = []
        while not self.reached or (self.looked_at < self.reached <= most_states):
            before = self.looked_at
            target_count = LOOK(tables, self.seen, buffer, work, (sure, targets, most_states))
            if buffer.overflow[0]:
                raise InputError(
                    f"{model.network.name}: more than {MAX_SIGNALS} recovery signals at once; "
                    "explore fewer flows or slots"
                )
            sure_parts.append(sure[: self.looked_at - before].copy())
            target_parts.append(targets[:target_count].copy())
        self._sure_steps = np.concatenate(sure_parts)
        self.sure_targets = np.concatenate(target_parts)

    @property
    def reached(self) -> int:
        """Number of states found."""
        return int(self.seen.count[0])

    @property
    def looked_at(self) -> int:
        """Number of states that were expanded: all their successors were found."""
        return int(self.seen.count[1])

    @property
    def steps(self) -> int:
        """Number of steps found."""
        return int(self.seen.count[2])

    def path_to(self, number: int) -> list[bytes]:
        """Return the states by which a state was first reached, from the empty network on."""
        path = []
        while number >= 0:
            path.append(state_of(self.model, self.seen.rows[number]))
            number = int(self.seen.parents[number])
        return path[::-1]

    def trace(self, number: int) -> tuple[tuple[tuple[str, int], ...], bytes]:
        """Return the steps by which a state was first reached, and the state at their end.

        A step is its name and a link. The known states represent classes of symmetric states, so
        the order of the routers may change from one to the next. Here the steps are taken once
        more, in one order of the routers. They run in Python because they are few.
        """
        width = self.seen.rows.shape[1]
        buffer = successor_buffer(most_steps(self.model), width)
        row = np.zeros(width, np.uint8)
        steps = []
        for required in self.path_to(number)[1:]:
            count = successors(self._tables, row, buffer)
            representatives = (self._representative(buffer.rows[i]) for i in range(count))
            step = next(i for i, state in enumerate(representatives) if state == required)
            taken = buffer.steps[step].tolist()
            _, link, _ = taken
            steps.append((step_name(self.model, row.tobytes(), taken), link))
            row = buffer.rows[step].copy()
        return tuple(steps), state_of(self.model, row)

    def _representative(self, row: IntArray) -> bytes:
        """Return the state that represents all states symmetric to that of a row."""
        image = np.zeros_like(row)
        least = np.zeros_like(row)
        canonical(self._tables, row, image, least)
        return state_of(self.model, least)

    def stuck(self) -> IntArray:
        """Return the states from which certain steps lead to no drained or unexpanded state."""
        drains: BoolArray = ~np.any(
            self.seen.rows[: self.reached, : self.model.reserved_at], axis=1
        )
        drains[self.looked_at :] = True
        first = np.concatenate([[0], np.cumsum(self._sure_steps, dtype=np.int64)])
        while SWEEP(first, self.sure_targets, drains):
            pass
        return np.nonzero(~drains)[0]


def successor_buffer(max_steps: int, width: int) -> SuccessorBuffer:
    """Return a buffer for the steps of one state, which lead to rows of ``width`` bytes."""
    return SuccessorBuffer(
        rows=np.zeros((max_steps, width), np.uint8),
        sure=np.zeros(max_steps, np.bool_),
        steps=np.zeros((max_steps, 3), np.int16),
        overflow=np.zeros(1, np.bool_),
    )


def look_at(
    tables: ModelTables,
    visited: Visited,
    buffer: SuccessorBuffer,
    work: IntArray,
    edges: tuple[IntArray, IntArray, int],
) -> int:
    """Expand the next ``BATCH`` states. The first call begins with the empty network.

    Args:
        tables: The transition system.
        visited: The known states.
        buffer: Room for the steps of one state.
        work: Two rows of 0, to work in.
        edges: The number of certain steps of each expanded state, the states to which these steps
            lead, and the number of known states at which the search stops. The arrays are filled.

    Returns:
        The number of certain steps.
    """
    sure_counts, targets, max_states = edges
    t = by_reference(tables)
    work_words = work.view(np.int64)
    if visited.count[0] == 0:
        # The row of the empty network is 0, as the rows to work in still are.
        number_of(visited, work_words[1], -1)
    target_count = 0
    for k in range(len(sure_counts)):
        at = visited.count[1]
        if at >= visited.count[0] or visited.count[0] > max_states:
            break
        n = successors(t, visited.rows[at], buffer)
        before = target_count
        for i in range(n):
            canonical(t, buffer.rows[i], work[0], work[1])
            number = number_of(visited, work_words[1], at)
            if buffer.sure[i]:
                targets[target_count] = number
                target_count += 1
        sure_counts[k] = target_count - before
        visited.count[1] += 1
        visited.count[2] += n
    return target_count


def mark_drained(first: IntArray, targets: IntArray, drains: BoolArray) -> bool:
    """Mark states with a certain step to a marked state.

    The states are scanned once in ascending and once in descending order.

    Args:
        first: Index in ``targets`` at which the steps of each expanded state begin, and their end.
        targets: The states to which certain steps lead.
        drains: The marks.

    Returns:
        Whether any mark is new.
    """
    is_new = False
    expanded = len(first) - 1
    for k in range(2 * expanded):
        at = k if k < expanded else 2 * expanded - 1 - k
        if drains[at]:
            continue
        for i in range(first[at], first[at + 1]):
            if drains[targets[i]]:
                drains[at] = True
                is_new = True
                break
    return is_new


@dataclass(frozen=True, kw_only=True)
class Exploration:
    """The result of a search.

    Attributes:
        states: Number of states reached; one for each class of symmetric states.
        steps: Number of steps.
        symmetries: Number of symmetries of the network, including the identity.
        deepest: Number of steps to the most distant state.
        complete: Whether all states were found.
        stuck: Number of states that cannot drain.
        trace: The steps to the first state that cannot drain, each with its link; empty if there is
            none.
        stuck_state: That state; empty if there is none.
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
    """Search all states from the empty network on.

    Args:
        model: The transition system.
        most_states: The search stops when more states are known; the result is then incomplete. A
            state counts as stuck if no certain steps lead from it to a drained state, or to one
            that was not expanded.
    """
    images = state_images(model)
    search = CompiledSearch(model, images, most_states)
    stuck = search.stuck()
    trace: tuple[tuple[str, int], ...] = ()
    stuck_state = b""
    if len(stuck):
        trace, stuck_state = search.trace(int(stuck[0]))
    return Exploration(
        states=search.reached,
        steps=search.steps,
        symmetries=len(images),
        deepest=len(search.path_to(search.reached - 1)) - 1,
        complete=search.looked_at == search.reached,
        stuck=len(stuck),
        trace=trace,
        stuck_state=stuck_state,
    )


# The compiled functions allocate nothing, so arrays need no reference counts (``_nrt``).
LOOK = compiled_entry(look_at, _nrt=False, error_model="numpy", nogil=True)
SWEEP = compiled_entry(mark_drained, _nrt=False, error_model="numpy", nogil=True)
