"""The deadlock of two link failures (Zarza 2011, section 4.1, Figures 4.1 and 4.2), built: places, paths, and what
depends on what.

Part of a torus or mesh, 5 routers wide and 3 high; two pairs, each with its link dead in the middle row, and the
detours:

    o     o-----o-----D1    o        S1: right, its link is dead: down, right, right, up, and up again to D1
          |           |              S2: left, its link is dead: up, left, left, down, and down again to D2
    S1----o--x--o--x--o-----S2
          |           |              The detours are a cycle of eight channels round the router in the middle:
    o     D2----o-----o     o        S1's packets hold four of them and wait for S2's, and the other way round.
"""

import itertools
from collections.abc import Iterable, Sequence

import networkx

from testbed.routers.plan import Avoidance, RouterPlan, paths_plan

Place = tuple[int, int]
SHAPE = (5, 3)
PATHS: dict[tuple[int, ...], tuple[tuple[Place, ...], tuple[Place, ...]]] = {
    (): (((0, 1), (1, 1), (2, 1), (3, 1), (3, 2)), ((4, 1), (3, 1), (2, 1), (1, 1), (1, 0))),
    (1,): (
        ((0, 1), (1, 1), (1, 0), (2, 0), (3, 0), (3, 1), (3, 2)),
        ((4, 1), (3, 1), (2, 1), (2, 2), (1, 2), (1, 1), (1, 0)),
    ),
    (2,): (
        ((0, 1), (1, 1), (2, 1), (2, 0), (3, 0), (3, 1), (3, 2)),
        ((4, 1), (3, 1), (3, 2), (2, 2), (1, 2), (1, 1), (1, 0)),
    ),
    (1, 2): (
        ((0, 1), (1, 1), (1, 0), (2, 0), (3, 0), (3, 1), (3, 2)),
        ((4, 1), (3, 1), (3, 2), (2, 2), (1, 2), (1, 1), (1, 0)),
    ),
}
"""Dead links -> the paths of both pairs: dimension order, x first, and a detour at the first dead link that is met."""
DEAD_1: frozenset[Place] = frozenset(((1, 1), (2, 1)))
DEAD_2: frozenset[Place] = frozenset(((2, 1), (3, 1)))


def two_failures_plan(
    *, messages: int, dead: Sequence[int] = (1, 2), avoidance: Avoidance = "nac", load: float = 1.0, seed: int = 1, slots: int = 2
) -> RouterPlan:  # fmt: skip
    """Both pairs, with the first, the second, both (default) or neither of the links dead.

    Each pair has a second source, the router before its dead link: with one source alone the routers' fair arbitration
    keeps the cycle's channels just below full. ``messages``: of each of the four sources.
    """
    first, second = PATHS[tuple(dead)]
    cables = [cable for number, cable in ((1, DEAD_1), (2, DEAD_2)) if number in dead]
    return paths_plan(
        SHAPE, [first, second, first[1:], second[1:]], cables, messages=messages, load=load, seed=seed, avoidance=avoidance, slots=slots
    )  # fmt: skip


def dependency_cycles(paths: Iterable[Sequence[int]]) -> list[list[tuple[int, int]]]:
    """Cycles of channels (from router, to router) in which packets on these paths may wait for each other.

    A packet in a channel waits for the next channel of its path; without a cycle no deadlock can come (Dally and Seitz
    1987).

    >>> dependency_cycles([(0, 1, 2), (1, 2, 0), (2, 0, 1)])
    [[(0, 1), (1, 2), (2, 0)]]
    """
    waits = networkx.DiGraph()
    for path in paths:
        waits.add_edges_from(itertools.pairwise(itertools.pairwise(path)))
    found = [list(cycle) for cycle in networkx.simple_cycles(waits)]
    return sorted(cycle[cycle.index(min(cycle)) :] + cycle[: cycle.index(min(cycle))] for cycle in found)
