"""The capillary recursion's steps compiled by numba, for all pieces of a wave in one call.

Imported only when a network is large enough to need it; what it returns is checked exactly by its caller.
``FloatRouter`` does without the exact check: many times faster, where nine digits suffice.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from testbed.arrays import BoolArray, FloatArray
from testbed.jit import compiled_entry
from testbed.routing.capillary.pieces import Piece, Split
from testbed.routing.flows import flow_steps as flow
from testbed.routing.flows.end_points import flow_problem
from testbed.routing.flows.link_graph import LinkGraph
from topologies.network import Network

DISCONNECTED = -1
PUSH_TOLERANCE = 1e-13  # of a link's capacity: less than this is rounding, not room for flow
MIN_NEED = 1e-12  # of the piece's load: less than this is met
FINAL_TOLERANCE = (
    1e-9  # of a link's capacity: full or empty within this is taken for full or empty, then checked
)
VANISHING = 1e-12
"""Of the level of the piece above: a demand below this is rounding (where the recursion keeps to floats)."""


def keep_flow(graph: flow.Residual, low: int, high: int, load: float) -> None:
    """Start from the flow that the wave before left, cut to the capacities of this load; what that leaves unmet is
    need."""
    for node in graph.order[low:high]:
        graph.need[node] = graph.demand[node]
    for node in graph.order[low:high]:
        for arc in range(graph.first[node], graph.last[node]):
            if graph.arc_out[arc]:
                link = graph.arc_link[arc]
                graph.capacity[link] = load * graph.weight[link]
                graph.flow[link] = min(graph.flow[link], graph.capacity[link])
                graph.need[node] -= graph.flow[link]
                graph.need[graph.arc_node[arc]] += graph.flow[link]


def solve_piece(graph: flow.Residual, low: int, high: int) -> tuple[int, float]:
    """Least greatest load of the piece by cuts (Dinkelbach) and augmentation: (components or DISCONNECTED, load)."""
    flow.drop_final_arcs(graph, low, high)
    demand, weight = flow.first_share(graph, low, high)
    load = 0.0
    if weight == 0:
        return DISCONNECTED, load
    while demand / weight > load:
        load = demand / weight
        least = MIN_NEED * load
        keep_flow(graph, low, high, load)
        found = flow.spread_levels(graph, low, high, PUSH_TOLERANCE, least)
        while found == flow.PUSHABLE:
            flow.push_flow(graph, low, high, PUSH_TOLERANCE, least)
            found = flow.spread_levels(graph, low, high, PUSH_TOLERANCE, least)
        if found == flow.MET:
            break
        demand, weight = flow.cut_share(graph, low, high)
        if weight == 0:
            return DISCONNECTED, load
    return flow.label_components(graph, low, high, FINAL_TOLERANCE), load


def freeze_crossing(
    graph: flow.Residual, low: int, high: int, level: float, loads: flow.Numbers
) -> None:
    """Links between components are final: their loads are noted, their flow leaves the demands of their ends."""
    for node in graph.order[low:high]:
        for arc in range(graph.first[node], graph.last[node]):
            other = graph.arc_node[arc]
            if graph.arc_out[arc] and graph.component[node] != graph.component[other]:
                link = graph.arc_link[arc]
                if 2 * graph.flow[link] > graph.capacity[link]:
                    amount = level * graph.weight[link]
                    loads[link] = amount
                    graph.demand[node] -= amount
                    graph.demand[other] += amount
                graph.weight[link] = 0.0


def gather_components(
    graph: flow.Residual, low: int, high: int, count: int, bounds: flow.Numbers
) -> None:
    """Sort the piece's nodes by component; component c is then ``order[bounds[c]:bounds[c + 1]]``."""
    bounds[: count + 1] = 0
    for at in range(low, high):
        bounds[graph.component[graph.order[at]] + 1] += 1
        graph.queue[at] = graph.order[at]
    bounds[0] = low
    for part in range(count):
        bounds[part + 1] += bounds[part]
    for node in graph.queue[low:high]:
        graph.order[bounds[graph.component[node]]] = node
        bounds[graph.component[node]] += 1
    for part in range(count, 0, -1):
        bounds[part] = bounds[part - 1]
    bounds[0] = low


def balance_demand(graph: flow.Residual, low: int, high: int, level: float) -> bool:
    """Is anything left to move among these nodes? Rounding is repaired: what is next to nothing is nothing, and the
    largest demand takes up what the others do not sum to."""
    total, largest = 0.0, low
    for at in range(low, high):
        node = graph.order[at]
        if abs(graph.demand[node]) < VANISHING * level:
            graph.demand[node] = 0.0
        total += graph.demand[node]
        if abs(graph.demand[node]) > abs(graph.demand[graph.order[largest]]):
            largest = at
    if graph.demand[graph.order[largest]] == 0.0:
        return False
    graph.demand[graph.order[largest]] -= total
    return bool(abs(graph.demand[graph.order[largest]]) >= VANISHING * level)


def solve_all(
    graph: flow.Residual, loads: flow.Numbers, stack: flow.Numbers, bounds: flow.Numbers
) -> bool:
    """The whole recursion in floats: fills ``loads`` (relative to the largest weight); False where the sink is cut off.

    ``stack`` of shape (2 * nodes + 2,) holds the pieces that wait, ``bounds`` (nodes + 1,) the components of one.
    """
    stack[0], stack[1] = 0, len(graph.order)
    height = 2
    while height > 0:
        height -= 2
        low, high = stack[height], stack[height + 1]
        count, level = solve_piece(graph, low, high)
        if count == DISCONNECTED:
            if low == 0 and high == len(graph.order):
                return False
            continue
        if (
            count == 1
        ):  # rounding has hidden the bottleneck; what is left is below what floats tell apart
            continue
        freeze_crossing(graph, low, high, level, loads)
        gather_components(graph, low, high, count, bounds)
        for part in range(count):
            first, last = bounds[part], bounds[part + 1]
            if last - first > 1 and balance_demand(graph, first, last, level):
                stack[height], stack[height + 1] = first, last
                height += 2
    return True


def solve_wave(
    graph: flow.Residual,
    bounds: flow.Numbers,
    counts: flow.Numbers,
    crossing: flow.Numbers,
    full: flow.Numbers,
    crossing_bounds: flow.Numbers,
) -> None:
    """Solve every piece: piece i is ``order[bounds[i]:bounds[i + 1]]``, its crossing links likewise in ``crossing``."""
    found = 0
    for piece in range(len(counts)):
        counts[piece], _ = solve_piece(graph, bounds[piece], bounds[piece + 1])
        if counts[piece] > 0:
            found = flow.list_crossing(
                graph, bounds[piece], bounds[piece + 1], crossing, full, found
            )
        crossing_bounds[piece + 1] = found


SOLVE_WAVE, SOLVE_ALL = compiled_entry(solve_wave), compiled_entry(solve_all)
INDEX_ARCS = compiled_entry(flow.index_arcs)
"""What is called from Python; the rest is compiled into it."""


def _empty_residual(nodes: int, links: int) -> flow.Residual:
    """Of arrays. Indices without a sign: compiled code looks at every other one's sign before it is used, which takes a
    quarter of the time."""
    return flow.build_residual(
        nodes,
        links,
        lambda n: np.zeros(n, dtype=np.int32),
        np.zeros,
        lambda n: np.zeros(n, dtype=np.uint32),
    )


class CompiledSolver:
    """Splits pieces in floats; holds the flow between waves, so that a piece starts from what its parent found."""

    def __init__(
        self, nodes: int, tail: Sequence[int], head: Sequence[int], weight: Sequence[int]
    ) -> None:
        links, largest = len(tail), max(weight)
        self._graph = _empty_residual(nodes, links)
        self._graph.weight[:] = [w / largest for w in weight]
        self._crossing, self._full = (
            np.zeros(links, dtype=np.int32),
            np.zeros(links, dtype=np.int32),
        )
        INDEX_ARCS(self._graph, np.array(tail, dtype=np.int32), np.array(head, dtype=np.int32))

    def finish(self, links: Sequence[int]) -> None:
        """The load of these links is final: they leave the network."""
        self._graph.weight[np.array(links, dtype=np.int64)] = 0

    def split(self, pieces: Sequence[Piece]) -> list[Split | None]:
        """Components and crossing links of each piece (to be checked); None where no links lead to where flow is
        wanted."""
        bounds = np.zeros(len(pieces) + 1, dtype=np.int32)
        np.cumsum([len(piece.nodes) for piece in pieces], out=bounds[1:])
        nodes = np.array([node for piece in pieces for node in piece.nodes], dtype=np.int32)
        self._graph.order[: len(nodes)] = nodes
        self._graph.demand[nodes] = [
            b / piece.denominator for piece in pieces for b in piece.demand
        ]
        counts, crossing_bounds = (
            np.zeros(len(pieces), dtype=np.int32),
            np.zeros(len(pieces) + 1, dtype=np.int32),
        )
        SOLVE_WAVE(self._graph, bounds, counts, self._crossing, self._full, crossing_bounds)
        component = self._graph.component[nodes].tolist()
        crossing, full = (
            self._crossing[: crossing_bounds[-1]].tolist(),
            self._full[: crossing_bounds[-1]].tolist(),
        )
        found: list[Split | None] = []
        for piece, count in enumerate(counts.tolist()):
            part = slice(crossing_bounds[piece], crossing_bounds[piece + 1])
            split = Split(
                count, component[bounds[piece] : bounds[piece + 1]], crossing[part], full[part]
            )
            found.append(split if count > 0 else None)
        return found


class FloatRouter:
    """A network made ready once for many pairs of end points.

    >>> from topologies.network import Link, Node
    >>> ends = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]
    >>> square = Network(name="square", nodes=tuple(Node(id=i, kind="switch") for i in "abcd"),
    ...                  links=tuple(Link(source=s, target=t) for s, t in ends))
    >>> FloatRouter(square).loads("a", "d").tolist()
    [0.5, 0.5, 0.5, 0.5]
    """

    def __init__(self, network: Network) -> None:
        self._network, self._graph = network, LinkGraph(network)

    def loads(self, source: str, sink: str) -> FloatArray:
        """Fraction of the flow on each link, shape (links,): the full capillary route to some nine digits.

        Loads below some 1e-12 of the layer above may be lost. Hosts that do not forward are ends only. Raises
        InputError (unknown node, source equal to sink) and NoPathError.
        """
        index = self._network.node_index
        if source not in index or sink not in index or source == sink:
            flow_problem(self._network, source, sink)  # raises
        start, end = index[source], index[sink]
        usable = self._graph.usable(start, end)
        loads = np.zeros(len(usable))
        if not usable.any() or not self._fill(loads, usable, start, end):
            raise flow_problem(self._network, source, sink).no_path()
        return loads

    def _fill(self, loads: FloatArray, usable: BoolArray, source: int, sink: int) -> bool:
        """The capillary loads of one unit over the ``usable`` links; False where the sink cannot be reached."""
        links, nodes = self._graph, self._graph.nodes
        weight = links.capacity[usable]
        graph, found = _empty_residual(nodes, len(weight)), np.zeros(len(weight))
        graph.weight[:] = weight / weight.max()
        graph.order[:] = np.arange(nodes)
        graph.demand[source], graph.demand[sink] = 1.0, -1.0
        INDEX_ARCS(graph, links.tail[usable].astype(np.int32), links.head[usable].astype(np.int32))
        reached = SOLVE_ALL(
            graph, found, np.zeros(2 * nodes + 2, np.int32), np.zeros(nodes + 1, np.int32)
        )
        loads[usable] = found
        return bool(reached)
