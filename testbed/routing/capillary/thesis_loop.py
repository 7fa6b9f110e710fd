"""The thesis' own way to a capillary route: a maximum flow a layer by linear programming, and the bottleneck hunting
loop.

Kept next to the recursion as its peer: slow, in floats, and true to the letter (Gabrielyan 2007, eq. 16 to 19).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from testbed.arrays import FloatArray
from testbed.errors import InputError
from testbed.model.routes import SplitRoute
from testbed.routing.flows.end_points import FlowProblem, flow_problem
from testbed.routing.flows.exact_flow import exact_route
from testbed.routing.flows.linear_programs import UnsolvedError, balance_matrix, solve_lp
from topologies.network import Network

FULL = 1e-7
"""A link within this of its capacity is taken for full, a flow-out coefficient below it for nothing."""
INTERIOR_FULL = 1e-5
"""The same for an interior-point method, which comes near to what is full and does not reach it."""


@dataclass(frozen=True, kw_only=True)
class HuntedLayer:
    """One layer: its flow increase factor F (Gabrielyan 2007, eq. 19), the number of suspected links at the start of
    the hunting loop and after each of its iterations (the last two are equal: nothing more was removed), and its
    bottlenecks (indices into the network's links)."""

    factor: float
    suspects: tuple[int, ...]
    bottlenecks: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class HuntedRoute:
    """Layers in order; ``loads`` one float a link of the network: 1 over the product of factors, times its capacity
    over the largest; 0 where no layer holds it. ``linear_programs`` is how many were solved."""

    layers: tuple[HuntedLayer, ...]
    loads: tuple[float, ...]
    linear_programs: int


def hunt_layers(
    network: Network, source: str, sink: str, layers: int | None = None, *, interior: bool = False
) -> HuntedRoute:
    """Build layer after layer, all of them or the first ``layers``, as Gabrielyan 2007 does in subsections 4.2.2 and
    4.2.3.

    Each layer maximises the factor F by which all flow-out coefficients can grow within capacities of one (the problem
    of eq. 18), then minimises, again and again, the sum of the loads of the links suspected as bottlenecks, and drops
    those that are full no longer. ``interior``: by an interior-point method, whose optimum already fills only what
    every optimum fills, so that hardly anything is left to hunt; by default by vertices, as the simplex method gives
    them. Time: some ten linear programmes a layer. Raises InputError, NoPathError.

    >>> from topologies.network import Link, Node
    >>> ends = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]
    >>> square = Network(name="square", nodes=tuple(Node(id=i, kind="switch") for i in "abcd"),
    ...                  links=tuple(Link(source=s, target=t) for s, t in ends))
    >>> [round(load, 6) for load in hunt_layers(square, "a", "d").loads]
    [0.5, 0.5, 0.5, 0.5]
    """
    problem = flow_problem(network, source, sink)
    hunt = _Hunt(problem, INTERIOR_FULL if interior else FULL, interior=interior)
    found: list[HuntedLayer] = []
    while hunt.unfinished and (layers is None or len(found) < layers):
        found.append(hunt.next_layer())
    loads = [0.0] * len(network.links)
    for at, load in enumerate(hunt.loads):
        loads[problem.links[at]] = float(load)
    return HuntedRoute(layers=tuple(found), loads=tuple(loads), linear_programs=hunt.solved)


def thesis_route(network: Network, source: str, sink: str) -> SplitRoute:
    """The full capillary route by the thesis' loop; floats are made to conserve the flow exactly (method
    "thesis-loop")."""
    problem = flow_problem(network, source, sink)
    loads = hunt_layers(network, source, sink).loads
    return exact_route(problem, "thesis-loop", [loads[i] for i in problem.links])


class LinksLeft:
    """The links not yet in a bottleneck, and what each node must still send out over them."""

    def __init__(self, problem: FlowProblem, full: float, *, interior: bool = False) -> None:
        self._problem, self._full, self._interior = problem, full, interior
        self._capacity = np.array(problem.weight, dtype=np.float64) / problem.largest_weight
        self._tail, self._head = np.array(problem.tail, dtype=np.int64), np.array(problem.head, dtype=np.int64)
        self._left = np.arange(len(problem.links))
        self._out = np.zeros(problem.nodes)
        self._out[problem.source], self._out[problem.sink] = 1.0, -1.0
        self.solved = 0

    def _solve(
        self, cost: FloatArray, equal: tuple[csr_array, FloatArray], upper: FloatArray, at_most: Any = None
    ) -> tuple[FloatArray, float, FloatArray]:
        self.solved += 1
        return solve_lp(cost, equal, upper, at_most, interior=self._interior)

    def _hunted(
        self, out: FloatArray, most: FloatArray, candidates: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], tuple[int, ...]]:
        """The candidates that stay full whenever the sum of their flows is made least, and how many there were before
        and after each turn."""
        balance = balance_matrix(self._problem.nodes, self._tail[self._left], self._head[self._left])
        counts = [len(candidates)]
        while True:
            cost = np.zeros(len(most))
            cost[candidates] = 1.0
            x = self._solve(cost, (balance, out), most)[0]
            candidates = candidates[x[candidates] > most[candidates] * (1 - self._full)]
            counts.append(len(candidates))
            if counts[-1] == counts[-2]:
                return candidates, tuple(counts)


class _Hunt(LinksLeft):
    def __init__(self, problem: FlowProblem, full: float, *, interior: bool) -> None:
        super().__init__(problem, full, interior=interior)
        self._product = 1.0
        self.loads = np.zeros(len(problem.links))

    @property
    def unfinished(self) -> bool:
        return bool(np.any(self._out))

    def next_layer(self) -> HuntedLayer:
        links = len(self._left)
        capacity = self._capacity[self._left]
        nodes = self._problem.nodes
        with_factor = balance_matrix(nodes, self._tail[self._left], self._head[self._left], links + 1).tolil()
        with_factor[:, [links]] = -self._out.reshape(-1, 1)
        cost = np.zeros(links + 1)
        cost[links] = -1.0
        x = self._solve(cost, (with_factor.tocsr(), np.zeros(nodes)), np.append(capacity, np.inf))[0]
        factor = float(x[links])
        if factor < self._full:
            raise self._problem.no_path()
        suspects = np.flatnonzero(x[:links] > capacity * (1 - self._full))
        candidates, counts = self._hunted(self._out * factor, capacity, suspects)
        if not len(candidates):
            raise InputError(
                f"network {self._problem.network.name!r}: the thesis' loop lost its digits (no bottleneck)"
            )
        bottlenecks = self._left[candidates]
        self._remove(bottlenecks, candidates, factor)
        named = tuple(self._problem.links[i] for i in bottlenecks)
        return HuntedLayer(factor=factor, suspects=counts, bottlenecks=named)

    def _remove(self, bottlenecks: NDArray[np.int64], at: NDArray[np.int64], factor: float) -> None:
        """Gabrielyan 2007, eq. 17 and 18; rounding is repaired by letting small coefficients vanish and the rest sum to
        zero."""
        self._product *= factor
        self.loads[bottlenecks] = self._capacity[bottlenecks] / self._product
        flow_out = self._out * factor
        np.subtract.at(flow_out, self._tail[bottlenecks], self._capacity[bottlenecks])
        np.add.at(flow_out, self._head[bottlenecks], self._capacity[bottlenecks])
        flow_out[np.abs(flow_out) < 100 * FULL] = 0.0
        self._left = np.delete(self._left, at)
        if np.any(flow_out):
            largest = int(np.argmax(np.abs(flow_out)))
            flow_out[largest] -= flow_out.sum()
        self._out = flow_out

    def _solve(
        self, cost: FloatArray, equal: tuple[csr_array, FloatArray], upper: FloatArray, at_most: Any = None
    ) -> tuple[FloatArray, float, FloatArray]:
        try:
            return super()._solve(cost, equal, upper, at_most)
        except UnsolvedError as error:
            name = self._problem.network.name
            raise InputError(
                f"network {name!r}: the thesis' loop lost its digits at layer programme {self.solved} ({error}); "
                "the method 'capillary' is exact"
            ) from None
