"""Pieces of the capillary recursion, and the solver of one piece in exact integers.

A piece is a part of the network in which known amounts are still to be sent. Solving a piece
divides it into components.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from testbed.routing.flows import flow_steps as flow


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """A set of nodes between which flow is still to be sent.

    Attributes:
        nodes: The nodes.
        demand: Amount that each node sends (positive) or receives (negative), times
            ``denominator``.
        denominator: Common denominator of the demands.
        bound: Level of the piece from which this one was divided; None for the complete network.
        in_integers: Whether the piece must be solved in integers.
    """

    nodes: list[int]
    demand: list[int]
    denominator: int
    bound: Fraction | None
    in_integers: bool


class Split(NamedTuple):
    """A division of a piece into components.

    Attributes:
        parts: Number of components.
        component: Number of the component of each node.
        crossing: The links between components.
        full: 1 for each crossing link that is full, 0 for each that is empty.
    """

    parts: int
    component: list[int]
    crossing: list[int]
    full: list[int]


class IntegerSolver:
    """Divides the pieces of one network into components, in Python integers.

    The result is exact, but the solver is slow on large networks.

    Args:
        nodes: Number of nodes.
        tail: Node from which each link leads.
        head: Node to which each link leads.
        weight: Capacity of each link.
    """

    def __init__(
        self, nodes: int, tail: Sequence[int], head: Sequence[int], weight: Sequence[int]
    ) -> None:
        self._graph = flow.integer_residual(nodes, tail, head, weight)
        self._graph.weight[:] = weight

    def finish(self, links: Sequence[int]) -> None:
        """Remove links whose load is final from the network."""
        for link in links:
            self._graph.weight[link] = 0

    def split(self, pieces: Sequence[Piece]) -> list[Split | None]:
        """Divide pieces into components.

        Returns:
            One division for each piece; None if no links lead to a node that must receive.
        """
        return [self._split_piece(piece) for piece in pieces]

    def _split_piece(self, piece: Piece) -> Split | None:
        graph = self._graph
        size = len(piece.nodes)
        graph.order[:size] = piece.nodes
        for node, demand in zip(piece.nodes, piece.demand, strict=True):
            graph.demand[node] = demand
        parts = _solve_piece(graph, size)
        if parts < 0:
            return None
        arcs = sum(graph.last[node] - graph.first[node] for node in piece.nodes)
        crossing = [0] * arcs
        full = [0] * arcs
        links = flow.list_crossing(graph, 0, size, crossing, full, 0)
        return Split(
            parts=parts,
            component=[graph.component[node] for node in piece.nodes],
            crossing=crossing[:links],
            full=full[:links],
        )


def _solve_piece(graph: flow.Residual, size: int) -> int:
    """Find the smallest load at which a piece's demands can be sent (Dinkelbach 1967).

    The load is a fraction p / q. To remain in integers, capacities are p * weight and needs are
    q * demand.

    Args:
        graph: The residual graph; the piece is the first ``size`` nodes of its ``order``.
        size: Number of nodes of the piece.

    Returns:
        Number of components at that load, or -1 if no load suffices.
    """
    flow.drop_final_arcs(graph, 0, size)
    p, q = flow.first_share(graph, 0, size)
    while True:
        if q == 0:
            return -1
        divisor = math.gcd(p, q)
        p //= divisor
        q //= divisor
        for node in graph.order[:size]:
            graph.need[node] = q * graph.demand[node]
            for link in graph.arc_link[graph.first[node] : graph.last[node]]:
                graph.capacity[link] = p * graph.weight[link]
                graph.flow[link] = 0
        result = flow.spread_levels(graph, 0, size, 0, 0)
        while result == flow.PUSHABLE:
            flow.push_flow(graph, 0, size, 0, 0)
            result = flow.spread_levels(graph, 0, size, 0, 0)
        if result == flow.MET:
            return int(flow.label_components(graph, 0, size, 0))
        # The cut that prevents the rest from being sent requires a higher load.
        p, q = flow.cut_share(graph, 0, size)
