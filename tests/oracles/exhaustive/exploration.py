"""Breadth first through the states of ``ReadableSteps``, with the standard library and scipy."""

from __future__ import annotations

from array import array
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from testbed.interconnect.model_checking.exploration import Exploration
from testbed.interconnect.model_checking.symmetry import Image, state_images
from tests.oracles.exhaustive.nac_steps import ReadableSteps

Canonical = Callable[[bytes], bytes]


def explore_readably(model: ReadableSteps, *, most_states: int = 2_000_000) -> Exploration:
    """What ``explore`` finds by compiled steps."""
    images = state_images(model)
    canonical = canonical_by(model, images)
    search = Search(model, canonical, most_states)
    stuck = search.stuck()
    trace, last = (
        _trace(model, canonical, search.way_to(int(stuck[0]))) if len(stuck) else ((), b"")
    )
    return Exploration(
        states=search.known, steps=search.steps, symmetries=len(images),
        deepest=len(search.way_to(search.known - 1)) - 1,
        complete=search.looked_at == search.known, stuck=len(stuck), trace=trace, stuck_state=last,
    )  # fmt: skip


def canonical_by(model: ReadableSteps, images: list[Image]) -> Canonical:
    """A state to the least of those symmetric to it; the first image is the state itself."""
    return lambda state: min(
        state, *(image_of(image, state, model.reserved_at) for image in images)
    )


def image_of(image: Image, state: bytes, middle: int) -> bytes:
    """The state with the routers in that order; ``middle`` is where buffers end and what is requested begins."""
    down_at, signals_at = len(image.places) - 1, len(image.places)
    moved = bytes(map(state.__getitem__, image.places))
    found = (
        moved[:middle].translate(image.packets)
        + moved[middle:down_at].translate(image.outs)
        + bytes([image.masks[moved[down_at]]])
    )
    if len(state) > signals_at:
        pairs = sorted(
            (image.cycles[state[i]], state[i + 1]) for i in range(signals_at, len(state), 2)
        )
        found += bytes(v for pair in pairs for v in pair)
    return found


class Search:
    """All states from the empty network on, in order of discovery; ``looked_at``: of so many all that may follow is
    known."""

    def __init__(self, model: ReadableSteps, canonical: Canonical, most_states: int) -> None:
        self.model = model
        first = canonical(model.empty)
        numbers: dict[bytes, int] = {first: 0}
        self.order, self.parents = [first], array("i", [-1])
        self.edges_from, self.edges_to = array("i"), array("i")
        self.looked_at = self.steps = 0
        while self.looked_at < self.known and self.known <= most_states:
            for step in model.following(self.order[self.looked_at]):
                self.steps += 1
                state = canonical(step.state)
                number = numbers.setdefault(state, self.known)
                if number == self.known:
                    self.order.append(state)
                    self.parents.append(self.looked_at)
                if step.sure:
                    self.edges_from.append(self.looked_at)
                    self.edges_to.append(number)
            self.looked_at += 1

    @property
    def known(self) -> int:
        """States reached."""
        return len(self.order)

    def way_to(self, number: int) -> list[bytes]:
        """The states by which it was reached first, from the empty network on."""
        way = []
        while number >= 0:
            way.append(self.order[number])
            number = self.parents[number]
        return way[::-1]

    def stuck(self) -> NDArray[np.intp]:
        """States from which no sure steps lead to a drained state, or to one not looked at."""
        ends = np.array(
            [
                i >= self.looked_at or self.model.is_drained(state)
                for i, state in enumerate(self.order)
            ]
        )
        edges = np.frombuffer(self.edges_from, np.int32), np.frombuffer(self.edges_to, np.int32)
        return np.nonzero(~_leads_to(ends, *edges))[0]


def _leads_to(
    goals: NDArray[np.bool_], source: NDArray[np.int32], target: NDArray[np.int32]
) -> NDArray[np.bool_]:
    """Which states some steps lead from to one of the goals."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import breadth_first_order

    count = len(goals)
    roots = np.nonzero(goals)[0].astype(np.int32)
    rows = np.concatenate([target, np.full(len(roots), count, np.int32)])
    columns = np.concatenate([source, roots])
    graph = csr_matrix((np.ones(len(rows), np.int8), (rows, columns)), shape=(count + 1, count + 1))
    found = np.zeros(count + 1, dtype=bool)
    found[breadth_first_order(graph, count, return_predecessors=False)] = True
    return found[:count]


def _trace(
    model: ReadableSteps, canonical: Canonical, way: list[bytes]
) -> tuple[tuple[tuple[str, int], ...], bytes]:
    """The steps along that way from the empty network on, in the numbers of one and the same network, and the state at
    its end."""
    state, steps = model.empty, []
    for wanted in way[1:]:
        step = next(step for step in model.following(state) if canonical(step.state) == wanted)
        steps.append((step.name, step.link))
        state = step.state
    return tuple(steps), state
