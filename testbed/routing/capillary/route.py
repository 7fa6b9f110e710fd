"""Capillary routing: the split of one unit of flow with lexicographically minimal link loads.

Results are exact fractions for any network. In large networks a compiled kernel finds the cuts in
floats, and each of its answers is checked exactly.
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

# Number of links from which the compiled solver is used. Below it, a route in integers takes less
# than 4 ms. Above it, the compiled solver is two to five times faster, once it is loaded (0.15 s).
COMPILE_FROM_LINKS = 300


class DisconnectedError(Exception):
    """No links lead from the source to the sink."""


class MisjudgedError(Exception):
    """A piece's level is not below the level of the piece from which it was divided.

    The compiled solver has misjudged a cut because of rounding. The complete problem must be solved
    again in integers.
    """


@dataclass(frozen=True, kw_only=True)
class FinalLoads:
    """The loads of a capillary route, as levels.

    Attributes:
        levels: Distinct values of load over weight at which links are full, in descending order.
        rank: Index in ``levels`` of the level at which each link became final; ``len(levels)`` for
            a link that never carries anything.
        saturated: Whether each link is full at that level; otherwise it is empty.
    """

    levels: tuple[Fraction, ...]
    rank: tuple[int, ...]
    saturated: tuple[bool, ...]


def capillary_route(
    network: Network, source: str, sink: str, layers: int | None = None
) -> SplitRoute:
    """Return the capillary route from one node to another, with its layers and bottlenecks.

    The load of a link is the fraction of the flow that it carries. The route minimises load over
    capacity (relative to the network's largest capacity), the greatest value first. The full route
    is exact and unique. Hosts do not forward unless they are marked as ``forwarding``.

    A network of 3000 nodes and 30,000 links takes about one second. Small networks do not need
    numba.

    Source: Gabrielyan 2007, section 4.2, equations 16 to 19 and Figures 44 to 53. Here the layers
    are a recursion over the strongly connected components of the residual graph, and cuts are found
    by Dinkelbach's iteration.

    Args:
        network: The network.
        source: Id of the source.
        sink: Id of the sink.
        layers: Number of layers whose loads are final; None for all. The remaining flow takes as
            few links as possible within the load of the last layer. This part is not unique: paths
            of equal length are tried breadth first in the network's order of links.

    Raises:
        InputError: A node is unknown, source and sink are the same node, or ``layers`` is below 1.
        NoPathError: The sink cannot be reached.

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
            f"capillary route: layers {layers!r} must be a whole number of at least 1, or None for "
            "all"
        )
    problem = flow_problem(network, source, sink)
    try:
        final = final_loads(problem, problem.source, problem.sink)
    except DisconnectedError:
        raise problem.no_path() from None
    if layers is None or layers >= len(final.levels):
        shares = _full_shares(problem, final)
        return _with_layers(problem, final, shares, len(final.levels), "capillary")
    shares = _shares_after(problem, final, layers)
    return _with_layers(problem, final, shares, layers, f"capillary:{layers}")


def _full_shares(problem: FlowProblem, final: FinalLoads) -> list[Fraction]:
    """Return the share of each usable link in the full capillary route."""
    zero = Fraction(0)
    shares = []
    for rank, full, weight in zip(final.rank, final.saturated, problem.weight, strict=True):
        if not full:
            shares.append(zero)
        elif weight == 1:
            # Equal loads stay one object, which makes later comparisons fast.
            shares.append(final.levels[rank])
        else:
            shares.append(final.levels[rank] * weight)
    return shares


def _shares_after(problem: FlowProblem, final: FinalLoads, layers: int) -> list[Fraction]:
    """Return the share of each usable link if only the first layers are final.

    The remaining flow takes as few links as possible.
    """
    shares = _full_shares(problem, final)
    last_level = final.levels[layers - 1]
    scale = math.lcm(*(level.denominator for level in final.levels[:layers]))
    demand = problem.demand(scale)
    # The links that the first layers leave free, with the capacity that remains for them.
    free = []
    tails = []
    heads = []
    capacities = []
    for i, rank in enumerate(final.rank):
        tail = problem.tail[i]
        head = problem.head[i]
        if rank >= layers:
            free.append(i)
            tails.append(tail)
            heads.append(head)
            capacities.append(int(last_level * problem.weight[i] * scale))
        elif final.saturated[i]:
            amount = int(shares[i] * scale)
            demand[tail] -= amount
            demand[head] += amount
    flow, _ = fewest_links_flow(tails, heads, capacities, demand)
    for i, amount in zip(free, flow, strict=True):
        shares[i] = Fraction(amount, scale)
    return shares


def _with_layers(
    problem: FlowProblem, final: FinalLoads, shares: list[Fraction], layers: int, method: str
) -> SplitRoute:
    """Return the split route with these shares and the description of its first layers."""
    link_layers = [0] * len(problem.network.links)
    bottlenecks: list[list[LinkId]] = [[] for _ in range(layers)]
    for link, rank, full in zip(problem.links, final.rank, final.saturated, strict=True):
        if full and rank < layers:
            link_layers[link] = rank + 1
            bottlenecks[rank].append(problem.network.links[link].id)
    loads = [level * problem.largest_weight for level in final.levels[:layers]]
    factors = [1 / loads[0]]
    for previous, load in pairwise(loads):
        factors.append(previous / load)
    route_layers = tuple(
        Layer(load=load, factor=factor, bottlenecks=tuple(links))
        for load, factor, links in zip(loads, factors, bottlenecks, strict=True)
    )
    return problem.route(method, shares, route_layers, tuple(link_layers))


def final_loads(
    links: LinkArrays, source: int, sink: int, *, compiled: bool | None = None
) -> FinalLoads:
    """Return the lexicographically minimal levels of one unit of flow.

    Source: Gabrielyan 2007, section 4.2, as a recursion. A wave solves all pieces that exist at the
    time, with one series of maximum flows for each piece. There are as many waves as components are
    nested.

    Args:
        links: The links that the flow may use.
        source: Number of the source.
        sink: Number of the sink.
        compiled: Whether the compiled solver is used; None decides by the number of links. The
            result is the same in either case, because it is unique and exact.

    Raises:
        DisconnectedError: No links lead from the source to the sink.
    """
    if not links.tail:
        raise DisconnectedError
    if compiled is None:
        compiled = len(links.tail) >= COMPILE_FROM_LINKS
    if compiled:
        try:
            return _solve(links, source, sink, compiled=True)
        except MisjudgedError:
            pass  # Rounding has hidden a cut; integers will find it.
    return _solve(links, source, sink, compiled=False)


def _solve(links: LinkArrays, source: int, sink: int, *, compiled: bool) -> FinalLoads:
    """Run the recursion, with the compiled solver or with the integer solver."""
    demand = [0] * links.nodes
    demand[source] = 1
    demand[sink] = -1
    complete_network = Piece(
        nodes=list(range(links.nodes)),
        demand=demand,
        denominator=1,
        bound=None,
        in_integers=not compiled,
    )
    recursion = _Recursion(links)
    pieces = [complete_network]
    while pieces:
        in_floats = []
        in_integers = []
        for piece in pieces:
            if piece.in_integers:
                in_integers.append(piece)
            else:
                in_floats.append(piece)
        pieces = recursion.advance(in_floats, in_integers=False)
        pieces += recursion.advance(in_integers, in_integers=True)
    return recursion.final_loads()


class _Recursion:
    """State of the recursion: the links whose load is final, and the solvers.

    Each link whose load becomes final is removed from the networks of both solvers.
    """

    def __init__(self, links: LinkArrays) -> None:
        self._links = links
        # By whether the solver computes in integers. A solver is created when it is first needed.
        self._solvers: dict[bool, IntegerSolver | CompiledSolver] = {}
        # Levels are numbered in the order in which they are found.
        self._level_number: dict[Fraction, int] = {}
        # Number of the level at which each link became final; -1 while it is not final.
        self._final_level = [-1] * len(links.tail)
        self._saturated = [False] * len(links.tail)

    def advance(self, pieces: list[Piece], *, in_integers: bool) -> list[Piece]:
        """Divide pieces that share no node, and return the pieces of the next wave."""
        if not pieces:
            return []
        next_pieces: list[Piece] = []
        finished: list[int] = []
        for piece, split in zip(pieces, self._solver(in_integers).split(pieces), strict=True):
            settled = settle(piece, split, self._links)
            if settled is None or split is None:
                next_pieces.append(_retry_in_integers(piece))
                continue
            level, children = settled
            number = self._level_number.setdefault(level, len(self._level_number))
            for link, full in zip(split.crossing, split.full, strict=True):
                self._final_level[link] = number
                self._saturated[link] = full == 1
            finished += split.crossing
            next_pieces += children
        for solver in self._solvers.values():
            solver.finish(finished)
        return next_pieces

    def _solver(self, in_integers: bool) -> IntegerSolver | CompiledSolver:
        """Return the solver, and create it from the links that are not final if necessary."""
        if in_integers in self._solvers:
            return self._solvers[in_integers]
        links = self._links
        weight = [
            weight if number < 0 else 0
            for number, weight in zip(self._final_level, links.weight, strict=True)
        ]
        solver: IntegerSolver | CompiledSolver
        if in_integers:
            solver = IntegerSolver(links.nodes, links.tail, links.head, weight)
        else:
            # Imported here, because small networks should not wait for numpy and numba.
            from testbed.routing.capillary.kernel import CompiledSolver

            solver = CompiledSolver(links.nodes, links.tail, links.head, weight)
        self._solvers[in_integers] = solver
        return solver

    def final_loads(self) -> FinalLoads:
        """Return the loads, once no pieces are left."""
        levels = sorted(self._level_number, reverse=True)
        rank_of_number = {self._level_number[level]: rank for rank, level in enumerate(levels)}
        # A link that no piece made final carries nothing.
        rank_of_number[-1] = len(levels)
        return FinalLoads(
            levels=tuple(levels),
            rank=tuple(rank_of_number[number] for number in self._final_level),
            saturated=tuple(self._saturated),
        )


def _retry_in_integers(piece: Piece) -> Piece:
    """Return the piece for another attempt, in integers.

    Raises:
        DisconnectedError: The complete network has no solution in integers.
        MisjudgedError: The piece has none, so floats have misjudged a cut above it.
    """
    if piece.in_integers:
        raise DisconnectedError if piece.bound is None else MisjudgedError
    return replace(piece, in_integers=True)


def settle(
    piece: Piece, split: Split | None, links: LinkArrays
) -> tuple[Fraction, list[Piece]] | None:
    """Check the division of a piece exactly, and compute its level.

    A component A sends out level * (weight of the full links out of A minus weight of the full
    links into A), which must equal its demand. The smallest component that sends anything gives the
    level. If all other components then balance to zero as well, the full links are indeed full and
    the others empty.

    Args:
        piece: The piece.
        split: Its division, possibly found in floats; None if the solver found none.
        links: The links of the network.

    Returns:
        The level of the piece and the pieces inside its components; None if the division does not
        balance exactly or the level is not below the piece's bound.
    """
    if split is None:
        return None
    # Weight of full links out of each node minus weight of full links into it.
    output_weight = dict.fromkeys(piece.nodes, 0)
    for link, full in zip(split.crossing, split.full, strict=True):
        if full:
            output_weight[links.tail[link]] += links.weight[link]
            output_weight[links.head[link]] -= links.weight[link]
    net = list(output_weight.values())
    # Positions in piece.nodes of the nodes of each component, and its net weight and demand.
    components: list[list[int]] = [[] for _ in range(split.parts)]
    component_net = [0] * split.parts
    component_demand = [0] * split.parts
    for position, label in enumerate(split.component):
        components[label].append(position)
        component_net[label] += net[position]
        component_demand[label] += piece.demand[position]
    senders = [label for label in range(split.parts) if component_net[label]]
    if not senders:
        return None
    smallest = min(senders, key=lambda label: len(components[label]))
    ratio = Fraction(component_demand[smallest], component_net[smallest])
    level = ratio / piece.denominator
    if level <= 0 or (piece.bound is not None and level >= piece.bound):
        return None
    children = _children(piece, components, net, ratio)
    return None if children is None else (level, children)


def _children(
    piece: Piece, components: list[list[int]], net: list[int], ratio: Fraction
) -> list[Piece] | None:
    """Return the pieces inside the components of a piece.

    Args:
        piece: The piece.
        components: Positions in ``piece.nodes`` of the nodes of each component.
        net: For each node, weight of its full outgoing links minus weight of the incoming ones.
        ratio: Level of the piece times its denominator.

    Returns:
        One piece for each component in which something is left to be sent; None if the demands
        within a component do not sum to zero.
    """
    denominator = piece.denominator * ratio.denominator
    children = []
    for component in components:
        remaining = [
            piece.demand[i] * ratio.denominator - ratio.numerator * net[i] for i in component
        ]
        if sum(remaining):
            return None
        if any(remaining):
            divisor = math.gcd(denominator, *remaining)
            child = Piece(
                nodes=[piece.nodes[i] for i in component],
                demand=[amount // divisor for amount in remaining],
                denominator=denominator // divisor,
                bound=ratio / piece.denominator,
                in_integers=piece.in_integers,
            )
            children.append(child)
    return children
