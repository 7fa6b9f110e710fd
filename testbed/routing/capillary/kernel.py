"""The steps of the capillary recursion in floats, compiled by numba.

``CompiledSolver`` solves all pieces of a wave in one call; its caller checks the results exactly.
``FloatRouter`` runs the complete recursion without the exact check. That is many times faster, if
nine digits are enough.

The module is imported only when a network is large enough to need it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from testbed.arrays import BoolArray, FloatArray
from testbed.jit import compiled_entry
from testbed.routing.capillary.pieces import Piece, Split
from testbed.routing.flows import flow_steps as flow
from testbed.routing.flows.end_points import flow_problem
from testbed.routing.flows.link_graph import LinkGraph
from topologies.network import Network

# Number of components of a piece whose receivers cannot be reached.
DISCONNECTED = -1

# Free capacity below this part of a link's capacity is a rounding error, not room for flow.
PUSH_TOLERANCE = 1e-13

# A need below this part of the piece's load is a rounding error: the node counts as served.
MIN_NEED = 1e-12

# A link counts as full or as empty if it is so within this part of its capacity. Callers of
# ``CompiledSolver`` check this exactly.
FINAL_TOLERANCE = 1e-9

# A demand below this part of the level of the piece above is a rounding error.
VANISHING = 1e-12


def keep_flow(graph: flow.Residual, low: int, high: int, load: float) -> None:
    """Start from the flow of the previous wave, limited to the capacities of this load.

    The part of the demands that this flow does not meet becomes the need of the nodes.

    Args:
        graph: The residual graph.
        low: Index in ``order`` of the first node of the piece.
        high: Index after its last node.
        load: The load, relative to the weights of the links.
    """
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
    """Find the smallest possible load of the busiest link of a piece, and its components.

    The load rises from cut to cut (Dinkelbach's method). For each load the flow is augmented until
    it meets all demands, or until a cut shows that a higher load is needed.

    Returns:
        The number of components, or DISCONNECTED; and the load.
    """
    flow.drop_final_arcs(graph, low, high)
    demand, weight = flow.first_share(graph, low, high)
    load = 0.0
    if weight == 0:
        return DISCONNECTED, load
    while demand / weight > load:
        load = demand / weight
        min_need = MIN_NEED * load
        keep_flow(graph, low, high, load)
        state = flow.spread_levels(graph, low, high, PUSH_TOLERANCE, min_need)
        while state == flow.PUSHABLE:
            flow.push_flow(graph, low, high, PUSH_TOLERANCE, min_need)
            state = flow.spread_levels(graph, low, high, PUSH_TOLERANCE, min_need)
        if state == flow.MET:
            break
        demand, weight = flow.cut_share(graph, low, high)
        if weight == 0:
            return DISCONNECTED, load
    return flow.label_components(graph, low, high, FINAL_TOLERANCE), load


def freeze_crossing(
    graph: flow.Residual, low: int, high: int, level: float, loads: flow.Numbers
) -> None:
    """Make the loads of the links between components final.

    The demands of their ends are reduced by their flow.

    Args:
        graph: The residual graph.
        low: Index in ``order`` of the first node of the piece.
        high: Index after its last node.
        level: The load of the piece.
        loads: Receives the loads of the links.
    """
    for node in graph.order[low:high]:
        for arc in range(graph.first[node], graph.last[node]):
            other = graph.arc_node[arc]
            if graph.arc_out[arc] and graph.component[node] != graph.component[other]:
                link = graph.arc_link[arc]
                # Such a link is either full or empty; half its capacity is far from both.
                if 2 * graph.flow[link] > graph.capacity[link]:
                    amount = level * graph.weight[link]
                    loads[link] = amount
                    graph.demand[node] -= amount
                    graph.demand[other] += amount
                graph.weight[link] = 0.0


def gather_components(
    graph: flow.Residual, low: int, high: int, count: int, bounds: flow.Numbers
) -> None:
    """Sort the nodes of a piece by their components.

    Args:
        graph: The residual graph.
        low: Index in ``order`` of the first node of the piece.
        high: Index after its last node.
        count: Number of components.
        bounds: Receives the limits: component c is ``order[bounds[c]:bounds[c + 1]]``.
    """
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
    # Each limit has been counted up to the next one.
    for part in range(count, 0, -1):
        bounds[part] = bounds[part - 1]
    bounds[0] = low


def balance_demand(graph: flow.Residual, low: int, high: int, level: float) -> bool:
    """Repair rounding errors of the demands of a component.

    Vanishing demands become 0. The largest demand is changed so that the sum of all is 0.

    Args:
        graph: The residual graph.
        low: Index in ``order`` of the first node of the component.
        high: Index after its last node.
        level: The load of the piece above.

    Returns:
        Whether a demand remains.
    """
    total = 0.0
    largest = low
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
    """Run the complete recursion in floats.

    Args:
        graph: The residual graph.
        loads: Receives the loads of the links, relative to the largest weight.
        stack: Room for the pieces that wait, shape (2 * nodes + 2,).
        bounds: Room for the limits of the components of a piece, shape (nodes + 1,).

    Returns:
        Whether the sink can be reached.
    """
    stack[0] = 0
    stack[1] = len(graph.order)
    height = 2
    while height > 0:
        height -= 2
        low = stack[height]
        high = stack[height + 1]
        count, level = solve_piece(graph, low, high)
        if count == DISCONNECTED:
            if low == 0 and high == len(graph.order):
                return False
            continue
        if count == 1:
            # Rounding has hidden the bottleneck. The remaining differences are below the precision
            # of floats.
            continue
        freeze_crossing(graph, low, high, level, loads)
        gather_components(graph, low, high, count, bounds)
        for part in range(count):
            first = bounds[part]
            last = bounds[part + 1]
            if last - first > 1 and balance_demand(graph, first, last, level):
                stack[height] = first
                stack[height + 1] = last
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
    """Solve all pieces of a wave.

    Args:
        graph: The residual graph.
        bounds: The limits of the pieces: piece i is ``order[bounds[i]:bounds[i + 1]]``.
        counts: Receives the number of components of each piece, or DISCONNECTED.
        crossing: Receives the links between components, piece by piece.
        full: Receives 1 for each of these links that is full, 0 for each that is empty.
        crossing_bounds: Receives the limits of the pieces in ``crossing``.
    """
    crossing_count = 0
    for piece in range(len(counts)):
        counts[piece], _ = solve_piece(graph, bounds[piece], bounds[piece + 1])
        if counts[piece] > 0:
            crossing_count = flow.list_crossing(
                graph, bounds[piece], bounds[piece + 1], crossing, full, crossing_count
            )
        crossing_bounds[piece + 1] = crossing_count


# The entries that Python calls. All other steps are compiled into them.
SOLVE_WAVE = compiled_entry(solve_wave)
SOLVE_ALL = compiled_entry(solve_all)
INDEX_ARCS = compiled_entry(flow.index_arcs)


def _int_zeros(count: int) -> npt.NDArray[np.int32]:
    return np.zeros(count, dtype=np.int32)


def _index_zeros(count: int) -> npt.NDArray[np.uint32]:
    return np.zeros(count, dtype=np.uint32)


def _empty_residual(nodes: int, links: int) -> flow.Residual:
    """Return a residual graph of arrays.

    Indices are unsigned. Before each use of a signed one, compiled code tests whether it is
    negative, which takes a quarter of the time.
    """
    return flow.build_residual(nodes, links, _int_zeros, np.zeros, _index_zeros)


class CompiledSolver:
    """Divides the pieces of one network into components, in floats.

    The flow is kept between waves, so that a piece begins with the flow of the piece from which it
    was divided.

    Args:
        nodes: Number of nodes.
        tail: Node from which each link leads.
        head: Node to which each link leads.
        weight: Capacity of each link.
    """

    def __init__(
        self, nodes: int, tail: Sequence[int], head: Sequence[int], weight: Sequence[int]
    ) -> None:
        links = len(tail)
        largest = max(weight)
        self._graph = _empty_residual(nodes, links)
        self._graph.weight[:] = [w / largest for w in weight]
        self._crossing = _int_zeros(links)
        self._full = _int_zeros(links)
        INDEX_ARCS(self._graph, np.array(tail, dtype=np.int32), np.array(head, dtype=np.int32))

    def finish(self, links: Sequence[int]) -> None:
        """Remove links whose loads are final."""
        self._graph.weight[np.array(links, dtype=np.int64)] = 0

    def split(self, pieces: Sequence[Piece]) -> list[Split | None]:
        """Divide each piece into components; the caller must check the result.

        Returns:
            The division of each piece, or None if no links lead to some of its receivers.
        """
        bounds = _int_zeros(len(pieces) + 1)
        np.cumsum([len(piece.nodes) for piece in pieces], out=bounds[1:])
        node_list: list[int] = []
        demand: list[float] = []
        for piece in pieces:
            node_list += piece.nodes
            demand += [amount / piece.denominator for amount in piece.demand]
        nodes = np.array(node_list, dtype=np.int32)
        self._graph.order[: len(nodes)] = nodes
        self._graph.demand[nodes] = demand
        counts = _int_zeros(len(pieces))
        crossing_bounds = _int_zeros(len(pieces) + 1)
        SOLVE_WAVE(self._graph, bounds, counts, self._crossing, self._full, crossing_bounds)
        component = self._graph.component[nodes].tolist()
        crossing = self._crossing[: crossing_bounds[-1]].tolist()
        full = self._full[: crossing_bounds[-1]].tolist()
        splits: list[Split | None] = []
        for i, count in enumerate(counts.tolist()):
            if count <= 0:
                splits.append(None)
                continue
            part = slice(crossing_bounds[i], crossing_bounds[i + 1])
            of_nodes = component[bounds[i] : bounds[i + 1]]
            splits.append(Split(count, of_nodes, crossing[part], full[part]))
        return splits


class FloatRouter:
    """Capillary routes in floats between many pairs of nodes of one network.

    Args:
        network: The network.

    >>> from topologies.network import Link, Node
    >>> ends = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]
    >>> square = Network(name="square", nodes=tuple(Node(id=i, kind="switch") for i in "abcd"),
    ...                  links=tuple(Link(source=s, target=t) for s, t in ends))
    >>> FloatRouter(square).loads("a", "d").tolist()
    [0.5, 0.5, 0.5, 0.5]
    """

    def __init__(self, network: Network) -> None:
        self._network = network
        self._graph = LinkGraph(network)

    def loads(self, source: str, sink: str) -> FloatArray:
        """Return the full capillary route to some nine digits.

        Loads below some 1e-12 of the layer above may be lost. Hosts that do not forward are only
        used as ends.

        Args:
            source: Node that sends.
            sink: Node that receives.

        Returns:
            The fraction of the flow on each link, shape (links,).

        Raises:
            InputError: A node is unknown, or source and sink are the same.
            NoPathError: The sink cannot be reached.
        """
        index = self._network.node_index
        if source not in index or sink not in index or source == sink:
            # Raises the InputError.
            flow_problem(self._network, source, sink)
        start = index[source]
        end = index[sink]
        usable = self._graph.usable(start, end)
        loads = np.zeros(len(usable))
        if not usable.any() or not self._fill(loads, usable, start, end):
            raise flow_problem(self._network, source, sink).no_path()
        return loads

    def _fill(self, loads: FloatArray, usable: BoolArray, source: int, sink: int) -> bool:
        """Fill in the capillary loads of one unit of flow.

        Args:
            loads: Receives the load of each link.
            usable: Whether each link may be used.
            source: Index of the node that sends.
            sink: Index of the node that receives.

        Returns:
            Whether the sink can be reached.
        """
        links = self._graph
        nodes = self._graph.nodes
        weight = links.capacity[usable]
        graph = _empty_residual(nodes, len(weight))
        graph.weight[:] = weight / weight.max()
        graph.order[:] = np.arange(nodes)
        graph.demand[source] = 1.0
        graph.demand[sink] = -1.0
        INDEX_ARCS(graph, links.tail[usable].astype(np.int32), links.head[usable].astype(np.int32))
        usable_loads = np.zeros(len(weight))
        stack = _int_zeros(2 * nodes + 2)
        bounds = _int_zeros(nodes + 1)
        reached = SOLVE_ALL(graph, usable_loads, stack, bounds)
        loads[usable] = usable_loads
        return bool(reached)
