"""Floats that nearly conserve a flow become an exact one: what a solver found is made a split route.

Each node hands on exactly what it takes in, in the proportions of the floats. Circulations are taken out first.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import TypeVar

from testbed.errors import InputError
from testbed.model.routes import SplitRoute
from testbed.routing.flows.end_points import FlowProblem

N = TypeVar("N", int, float, Fraction)


def drop_circulations(nodes: int, tail: Sequence[int], head: Sequence[int], flow: list[N]) -> None:
    """Take circulations out of the flow (numbers of any kind, one a link; changed in place), link by link.

    Walk along loaded links; where the walk meets itself, take the least load off that circle and start again."""
    leaving: list[list[int]] = [[] for _ in range(nodes)]
    for link, node in enumerate(tail):
        leaving[node].append(link)
    clear: set[int] = set()  # nodes from which no circle can be reached
    for start in range(nodes):
        walk: list[int] = []
        place = {start: 0}
        node = start
        while node not in clear:
            onward = [i for i in leaving[node] if flow[i] and head[i] not in clear]
            if not onward:
                clear.add(node)
                del place[node]
                node = tail[walk.pop()] if walk else node
                continue
            walk.append(onward[0])
            node = head[onward[0]]
            if node in place:
                circle = walk[place[node] :]
                least = min(flow[i] for i in circle)
                for i in circle:
                    flow[i] -= least
                walk, place, node = [], {start: 0}, start
            else:
                place[node] = len(walk)


SCALE = 1 << 120
"""Loads are whole multiples of 1/SCALE: smaller shares than any solver tells apart."""


def exact_route(problem: FlowProblem, method: str, flow: Sequence[float], least: float = 1e-12) -> SplitRoute:
    """The split route near ``flow`` (one number a usable link, of one unit); loads below ``least`` count as none.

    Circulations are taken out. Cost: linear in the links. Raises NoPathError where the flow leads nowhere, and
    InputError where it ends at a node from which nothing goes on (it was no flow).
    """
    amounts = [float(x) if x > least else 0.0 for x in flow]
    drop_circulations(problem.nodes, problem.tail, problem.head, amounts)
    leaving: list[list[int]] = [[] for _ in range(problem.nodes)]
    waiting = [0] * problem.nodes
    for link, amount in enumerate(amounts):
        if amount > 0:
            leaving[problem.tail[link]].append(link)
            waiting[problem.head[link]] += 1
    if not leaving[problem.source]:
        raise problem.no_path()
    excess = [0] * problem.nodes
    excess[problem.source] = SCALE
    whole = [0] * len(amounts)
    ready = [node for node in range(problem.nodes) if not waiting[node]]
    while ready:
        node = ready.pop()
        if excess[node] and node != problem.sink:
            _hand_on(problem, node, excess, whole, [(i, amounts[i]) for i in leaving[node]])
        for link in leaving[node]:
            head = problem.head[link]
            waiting[head] -= 1
            if not waiting[head]:
                ready.append(head)
    return problem.route(method, [Fraction(amount, SCALE) for amount in whole])


def _hand_on(
    problem: FlowProblem, node: int, excess: list[int], whole: list[int], shares: Sequence[tuple[int, float]]
) -> None:
    if not shares:
        name = problem.network.nodes[node].id
        raise InputError(f"network {problem.network.name!r}: the flow found ends at {name!r}; this is a solver's error")
    weights = [amount.as_integer_ratio() for _, amount in shares]
    common = max(denominator for _, denominator in weights)  # powers of two
    numerators = [n * (common // d) for n, d in weights]
    total, rest = sum(numerators), excess[node]
    for (link, _), numerator in zip(shares[1:], numerators[1:], strict=True):
        whole[link] = excess[node] * numerator // total
        rest -= whole[link]
    whole[shares[0][0]] = rest
    for link, _ in shares:
        excess[problem.head[link]] += whole[link]
