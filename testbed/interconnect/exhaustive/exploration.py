"""Breadth first through all states that can be reached, and which of them can never be drained.

A state can drain when some order of sure steps (``nac_steps.Step.sure``) empties the network. One that cannot, with the hosts
silent, holds packets for ever: a deadlock, of all of the network or of a part.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from testbed.interconnect.exhaustive.nac_steps import NacSteps
from testbed.interconnect.exhaustive.symmetry import representatives

Canonical = Callable[[bytes], bytes]


@dataclass(frozen=True, kw_only=True)
class Exploration:
    """``states``: reached, of each class of symmetric ones one; ``whole``: none is left out. ``symmetries``: how many a class may have.

    ``stuck``: how many cannot drain; ``trace``: the steps to the first of them, each with what it concerns (a link), empty where
    there is none. ``deepest``: steps to the state that is furthest away.
    """

    states: int
    steps: int
    symmetries: int
    deepest: int
    whole: bool
    stuck: int
    trace: tuple[tuple[str, int], ...]
    stuck_state: bytes


def explore(model: NacSteps, *, most_states: int = 2_000_000) -> Exploration:
    """All states from the empty network on. Where there are more than ``most_states`` it stops, and says so by ``whole``.

    Of what was reached until then those are stuck that no sure steps lead out of to a drained state or to one not yet looked at.
    """
    symmetries = representatives(model)
    canonical = symmetries.canonical
    first = canonical(model.empty)
    numbers: dict[bytes, int] = {first: 0}
    order, parents, depth = [first], array("i", [-1]), array("i", [0])
    edges_from, edges_to = array("i"), array("i")
    at = steps = 0
    while at < len(order) and len(order) <= most_states:
        for step in model.following(order[at]):
            steps += 1
            state = canonical(step.state)
            number = numbers.setdefault(state, len(order))
            if number == len(order):
                order.append(state)
                parents.append(at)
                depth.append(depth[at] + 1)
            if step.sure:
                edges_from.append(at)
                edges_to.append(number)
        at += 1
    ends = np.array([i >= at or model.is_drained(state) for i, state in enumerate(order)])
    stuck = np.nonzero(~_leads_to(ends, np.frombuffer(edges_from, np.int32), np.frombuffer(edges_to, np.int32)))[0]
    trace, last = _trace(model, canonical, order, parents, int(stuck[0])) if len(stuck) else ((), b"")
    return Exploration(
        states=len(order), steps=steps, symmetries=symmetries.count, deepest=depth[-1], whole=at == len(order),
        stuck=len(stuck), trace=trace, stuck_state=last,
    )  # fmt: skip


def _leads_to(goals: NDArray[np.bool_], source: NDArray[np.int32], target: NDArray[np.int32]) -> NDArray[np.bool_]:
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
    model: NacSteps, canonical: Canonical, order: list[bytes], parents: array[int], last: int
) -> tuple[tuple[tuple[str, int], ...], bytes]:
    """The steps from the empty network to that state, in the numbers of one and the same network, and the state."""
    way = []
    while last >= 0:
        way.append(order[last])
        last = parents[last]
    state, steps = model.empty, []
    for wanted in way[-2::-1]:
        step = next(step for step in model.following(state) if canonical(step.state) == wanted)
        steps.append((step.name, step.link))
        state = step.state
    return tuple(steps), state
