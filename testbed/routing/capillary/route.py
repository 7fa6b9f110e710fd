"""Capillary routing: the split of one unit of flow whose link loads are lexicographically least, layer by layer.

Exact fractions for any network; large ones are cut up by a compiled kernel whose every answer is checked exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

from testbed.errors import InputError
from testbed.model.routes import Layer, SplitRoute
from testbed.routing.capillary.pieces import IntegerSolver, Piece, Split
from testbed.routing.flows.end_points import FlowProblem, LinkArrays, flow_problem
from testbed.routing.flows.min_cost import fewest_links_flow
from topologies.errors import python_number
from topologies.network import LinkId, Network

if TYPE_CHECKING:
    from testbed.routing.capillary.kernel import CompiledSolver


def capillary_route(
    network: Network, source: str, sink: str, layers: int | None = None
) -> SplitRoute:
    """The capillary route from ``source`` to ``sink``: exact, unique, with its layers and their bottleneck links.

    A link's load is the fraction of the flow that it carries; what is minimised, greatest first, is load over capacity
    relative to the network's largest capacity. Hosts pass nothing on unless they are ``forwarding``. ``layers=K`` keeps
    the loads that the first K layers fix and sends the rest, within the K-th layer's load, over as few links as
    possible in sum (ties: equally short ways are tried breadth first in the network's order of links); that part is not
    unique, the full route is.

    Time: 3000 nodes and 30000 links about a second; small networks need no numba. Raises InputError (unknown node,
    source equal to sink, layers below 1) and NoPathError (the sink cannot be reached).

    Source: Gabrielyan 2007, section 4.2, eq. 16 to 19 and Figures 44-53, as a recursion over the strongly connected
    components of the residual graph, with cuts found by Dinkelbach's iteration.

    >>> from topologies.network import Link, Node
    >>> ends = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]
    >>> square = Network(name="square", nodes=tuple(Node(id=i, kind="switch") for i in "abcd"),
    ...                  links=tuple(Link(source=s, target=t) for s, t in ends))
    >>> [str(load) for load in capillary_route(square, "a", "d").loads]
    ['1/2', '1/2', '1/2', '1/2']
    """
    layers = python_number(layers)
    if layers is not None and (
        isinstance(layers, bool) or not isinstance(layers, int) or layers < 1
    ):
        raise InputError(
            f"capillary route: layers {layers!r} must be a whole number of at least 1, or None for all"
        )
    problem = flow_problem(network, source, sink)
    try:
        final = final_loads(problem, problem.source, problem.sink)
    except DisconnectedError:
        raise problem.no_path() from None
    if layers is None or layers >= len(final.levels):
        return _with_layers(
            problem, final, _full_shares(problem, final), len(final.levels), "capillary"
        )
    return _with_layers(
        problem, final, _shares_after(problem, final, layers), layers, f"capillary:{layers}"
    )


def _full_shares(problem: FlowProblem, final: FinalLoads) -> list[Fraction]:
    nothing = Fraction(0)
    rows = zip(final.rank, final.saturated, problem.weight, strict=True)
    levels = final.levels
    return [
        (levels[at] if weight == 1 else levels[at] * weight) if full else nothing
        for at, full, weight in rows
    ]


def _shares_after(problem: FlowProblem, final: FinalLoads, layers: int) -> list[Fraction]:
    """What links carry when only the first ``layers`` levels are fixed and the rest goes over the fewest links."""
    shares = _full_shares(problem, final)
    lowest = final.levels[layers - 1]
    free = [i for i, rank in enumerate(final.rank) if rank >= layers]
    scale = math.lcm(*(level.denominator for level in final.levels[:layers]))
    demand = problem.demand(scale)
    for i, rank in enumerate(final.rank):
        if rank < layers and final.saturated[i]:
            demand[problem.tail[i]] -= int(shares[i] * scale)
            demand[problem.head[i]] += int(shares[i] * scale)
    flow, _ = fewest_links_flow(
        [problem.tail[i] for i in free],
        [problem.head[i] for i in free],
        [int(lowest * problem.weight[i] * scale) for i in free],
        demand,
    )
    for i, amount in zip(free, flow, strict=True):
        shares[i] = Fraction(amount, scale)
    return shares


def _with_layers(
    problem: FlowProblem, final: FinalLoads, shares: list[Fraction], layers: int, method: str
) -> SplitRoute:
    link_layers = [0] * len(problem.network.links)
    bottlenecks: list[list[LinkId]] = [[] for _ in range(layers)]
    for link, rank, full in zip(problem.links, final.rank, final.saturated, strict=True):
        if full and rank < layers:
            link_layers[link] = rank + 1
            bottlenecks[rank].append(problem.network.links[link].id)
    loads = [level * problem.largest_weight for level in final.levels[:layers]]
    factors = [1 / loads[0], *(before / after for before, after in pairwise(loads))]
    found = tuple(
        Layer(load=load, factor=factor, bottlenecks=tuple(part))
        for load, factor, part in zip(loads, factors, bottlenecks, strict=True)
    )
    return problem.route(method, shares, found, tuple(link_layers))


COMPILE_FROM_LINKS = 3000
"""Links solved in integers by this process before it turns to numba, which takes about as long to import."""

_solved_in_integers = 0


class DisconnectedError(Exception):
    """No links lead from the source to the sink."""


class MisjudgedError(Exception):
    """A piece's level is not below its parent's: floats have misjudged a cut above; all is to be solved in integers."""


@dataclass(frozen=True, kw_only=True)
class FinalLoads:
    """The levels (load over weight) at which links are saturated, highest first, and each link's share in them.

    Link i became final at ``levels[rank[i]]`` (``len(levels)``: it never carries anything), saturated or empty.
    """

    levels: tuple[Fraction, ...]
    rank: tuple[int, ...]
    saturated: tuple[bool, ...]


def final_loads(
    links: LinkArrays, source: int, sink: int, *, compiled: bool | None = None
) -> FinalLoads:
    """Lexicographically least levels of one unit from ``source`` to ``sink``.

    ``compiled`` False keeps to plain integers, True to the kernel, None chooses by the work done so far: the answer is
    unique, so the choice shows in the time only. Source: Gabrielyan 2007, section 4.2, in recursive form. A wave costs
    one maximum flow a piece; there are as many waves as the deepest chain of nested components. Raises
    DisconnectedError.
    """
    global _solved_in_integers
    if not links.tail:
        raise DisconnectedError
    if compiled is None:
        compiled = _solved_in_integers + len(links.tail) > COMPILE_FROM_LINKS
    if compiled:
        try:
            return _run(links, source, sink, compiled=True)
        except MisjudgedError:
            pass
    _solved_in_integers += len(links.tail)
    return _run(links, source, sink, compiled=False)


def _run(links: LinkArrays, source: int, sink: int, *, compiled: bool) -> FinalLoads:
    demand = [0] * links.nodes
    demand[source], demand[sink] = 1, -1
    whole = Piece(
        nodes=list(range(links.nodes)),
        demand=demand,
        denominator=1,
        bound=None,
        in_integers=not compiled,
    )
    recursion = _Recursion(links)
    pieces = [whole]
    while pieces:
        in_floats = recursion.advance(
            [piece for piece in pieces if not piece.in_integers], in_integers=False
        )
        pieces = in_floats + recursion.advance(
            [piece for piece in pieces if piece.in_integers], in_integers=True
        )
    return recursion.final_loads()


class _Recursion:
    """What is final so far, and the solvers that know it."""

    def __init__(self, links: LinkArrays) -> None:
        self._links = links
        self._solvers: dict[bool, IntegerSolver | CompiledSolver] = {}
        self._level_number: dict[Fraction, int] = {}
        self._final = [-1] * len(links.tail)  # the number of its level, a link
        self._saturated = [False] * len(links.tail)

    def advance(self, pieces: list[Piece], *, in_integers: bool) -> list[Piece]:
        """Split the pieces, which share no node; what is left of them for the next wave."""
        following: list[Piece] = []
        if not pieces:
            return following
        finished: list[int] = []
        for piece, split in zip(pieces, self._solver(in_integers).split(pieces), strict=True):
            settled = settle(piece, split, self._links)
            if settled is None or split is None:
                following.append(_again(piece))
                continue
            level, children = settled
            number = self._level_number.setdefault(level, len(self._level_number))
            for link, full in zip(split.crossing, split.full, strict=True):
                self._final[link], self._saturated[link] = number, full == 1
            finished += split.crossing
            following += children
        for solver in self._solvers.values():
            solver.finish(finished)
        return following

    def _solver(self, in_integers: bool) -> IntegerSolver | CompiledSolver:
        if in_integers not in self._solvers:
            links = self._links
            weight = [
                w if number < 0 else 0 for number, w in zip(self._final, links.weight, strict=True)
            ]
            if in_integers:
                self._solvers[True] = IntegerSolver(links.nodes, links.tail, links.head, weight)
            else:
                from testbed.routing.capillary.kernel import CompiledSolver

                self._solvers[False] = CompiledSolver(links.nodes, links.tail, links.head, weight)
        return self._solvers[in_integers]

    def final_loads(self) -> FinalLoads:
        """Once no pieces are left."""
        levels = sorted(self._level_number, reverse=True)
        rank = [0] * len(levels) + [
            len(levels)
        ]  # by number; the last, -1, for links that no piece made final
        for at, level in enumerate(levels):
            rank[self._level_number[level]] = at
        ranks = tuple(rank[number] for number in self._final)
        return FinalLoads(levels=tuple(levels), rank=ranks, saturated=tuple(self._saturated))


def _again(piece: Piece) -> Piece:
    """The piece for another wave, in integers; where those do not balance either, the floats erred above it."""
    if piece.in_integers:
        raise DisconnectedError if piece.bound is None else MisjudgedError
    return replace(piece, in_integers=True)


def settle(
    piece: Piece, split: Split | None, links: LinkArrays
) -> tuple[Fraction, list[Piece]] | None:
    """A piece's exact level and what is left inside its components; None where the split does not balance exactly or
    its level is not below the bound.

    A component A sends out level * (weight of full links out of A less into A) = its demand: the smallest such A gives
    the level, and that every other component then balances to zero proves that the full links are full, the rest empty.
    """
    if split is None:
        return None
    change = dict.fromkeys(piece.nodes, 0)
    for link, full in zip(split.crossing, split.full, strict=True):
        if full:
            change[links.tail[link]] += links.weight[link]
            change[links.head[link]] -= links.weight[link]
    net = list(change.values())
    inside: list[list[int]] = [[] for _ in range(split.parts)]
    for at, label in enumerate(split.component):
        inside[label].append(at)
    senders = [part for part in inside if sum(net[at] for at in part)]
    if not senders:
        return None
    smallest = min(senders, key=len)
    ratio = Fraction(sum(piece.demand[at] for at in smallest), sum(net[at] for at in smallest))
    level = ratio / piece.denominator
    if level <= 0 or (piece.bound is not None and level >= piece.bound):
        return None
    children = _children(piece, inside, net, ratio, level)
    return None if children is None else (level, children)


def _children(
    piece: Piece, inside: list[list[int]], net: list[int], ratio: Fraction, level: Fraction
) -> list[Piece] | None:
    """What is left to move within each component, exactly; None where it does not sum to zero."""
    scale, times = ratio.denominator, ratio.numerator
    denominator = piece.denominator * scale
    children = []
    for part in inside:
        rest = [piece.demand[at] * scale - times * net[at] for at in part]
        if sum(rest):
            return None
        if any(rest):
            divisor = math.gcd(denominator, *rest)
            children.append(
                Piece(
                    nodes=[piece.nodes[at] for at in part],
                    demand=[b // divisor for b in rest],
                    denominator=denominator // divisor,
                    bound=level,
                    in_integers=piece.in_integers,
                )
            )
    return children
