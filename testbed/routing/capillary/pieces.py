"""Pieces of the capillary recursion, and the solver of one piece in exact integers.

A piece is a part of the network in which known amounts are still to be moved; solving it splits it into components.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from testbed.routing.flows import flow_steps as flow


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """Nodes among which ``demand / denominator`` is to be moved; ``bound`` is the level of the piece it was cut
    from."""

    nodes: list[int]
    demand: list[int]
    denominator: int
    bound: Fraction | None
    in_integers: bool


class Split(NamedTuple):
    """A piece's components (how many, the number of each node's) and the links between them, full (1) or empty (0)."""

    parts: int
    component: list[int]
    crossing: list[int]
    full: list[int]


class IntegerSolver:
    """Splits the pieces of one network into components, wave after wave, in plain integers: exact, and slow on large
    networks."""

    def __init__(
        self, nodes: int, tail: Sequence[int], head: Sequence[int], weight: Sequence[int]
    ) -> None:
        self._graph = flow.integer_residual(nodes, tail, head, weight)
        self._graph.weight[:] = weight

    def finish(self, links: Sequence[int]) -> None:
        """The load of these links is final: they leave the network."""
        for link in links:
            self._graph.weight[link] = 0

    def split(self, pieces: Sequence[Piece]) -> list[Split | None]:
        """Components and crossing links of each piece; None where no links lead to where flow is wanted."""
        found: list[Split | None] = []
        graph = self._graph
        for piece in pieces:
            size = len(piece.nodes)
            graph.order[:size] = piece.nodes
            for node, demand in zip(piece.nodes, piece.demand, strict=True):
                graph.demand[node] = demand
            count = _solve_piece(graph, size)
            if count < 0:
                found.append(None)
                continue
            arcs = sum(graph.last[node] - graph.first[node] for node in piece.nodes)
            crossing, full = [0] * arcs, [0] * arcs
            links = flow.list_crossing(graph, 0, size, crossing, full, 0)
            found.append(
                Split(
                    count, [graph.component[n] for n in piece.nodes], crossing[:links], full[:links]
                )
            )
        return found


def _solve_piece(graph: flow.Residual, size: int) -> int:
    """Dinkelbach's iteration with everything scaled to integers: load p/q means capacity p * weight, need q *
    demand."""
    flow.drop_final_arcs(graph, 0, size)
    p, q = flow.first_share(graph, 0, size)
    while True:
        if q == 0:
            return -1
        divisor = math.gcd(p, q)
        p, q = p // divisor, q // divisor
        for node in graph.order[:size]:
            graph.need[node] = q * graph.demand[node]
            for link in graph.arc_link[graph.first[node] : graph.last[node]]:
                graph.capacity[link], graph.flow[link] = p * graph.weight[link], 0
        found = flow.spread_levels(graph, 0, size, 0, 0)
        while found == flow.PUSHABLE:
            flow.push_flow(graph, 0, size, 0, 0)
            found = flow.spread_levels(graph, 0, size, 0, 0)
        if found == flow.MET:
            return int(flow.label_components(graph, 0, size, 0))
        p, q = flow.cut_share(graph, 0, size)
