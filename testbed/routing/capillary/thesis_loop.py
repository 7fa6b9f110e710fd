"""The thesis' own ways to a capillary route, layer after layer by linear programming, with the bottleneck hunting loop.

Kept next to the recursion as its peer: slow, in floats, and true to the letter (Gabrielyan 2007, eq. 16 to 19). Next to
the stable form of section 4.2.2, whose programmes have capacities of one in every layer, stands the basic one of
section 4.2.1, kept to show why the thesis leaves it: loads become as small as they are, while a solver's tolerances
stay, and what is fixed with an error is an error of all that follows.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array, hstack

from testbed.arrays import FloatArray
from testbed.errors import InputError
from testbed.model.routes import SplitRoute
from testbed.routing.flows.end_points import FlowProblem, exact_route, flow_problem
from testbed.routing.flows.linear_programs import UnsolvedError, balance_matrix, solve_lp
from topologies import Network

Rule = Literal["full", "priced", "hunted"]
"""What the basic form takes for a bottleneck: every link that the solution fills (no slack is left); of these the ones
whose load has a price (a dual variable that is not zero); or the ones that the hunting loop of section 4.2.3 leaves."""
FULL = 1e-7
"""A link within this of its capacity is taken for full, a flow-out coefficient below it for nothing."""
INTERIOR_FULL = 1e-5
"""The same for an interior-point method, which comes near to what is full and does not reach it."""
PRICED = 1e-9
NOTHING = 1e-14
"""A flow below this is rounding."""
FARTHEST = 10_000
"""Capacities this many times apart leave nine digits of the loads; a hundred times more, none."""


@dataclass(frozen=True, kw_only=True)
class HuntedLayer:
    """One layer: its load over capacity, the number of suspected links at the start of the hunting loop and after each
    of its iterations (the last two are equal: nothing more was removed; empty without a hunt), and its bottlenecks
    (indices into the network's links). ``factor``: F of eq. 19, by which the load fell."""

    load: float
    factor: float
    suspects: tuple[int, ...]
    bottlenecks: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class HuntedRoute:
    """Layers in order; ``loads`` one float a link of the network: its layer's, times its capacity over the largest; 0
    where no layer holds it. ``linear_programs`` is how many were solved; ``failure``: why the route ended before its
    whole flow was fixed, or None."""

    layers: tuple[HuntedLayer, ...]
    loads: tuple[float, ...]
    linear_programs: int
    failure: str | None


def hunt_layers(
    network: Network,
    source: str,
    sink: str,
    layers: int | None = None,
    *,
    basic: Rule | None = None,
    interior: bool = False,
) -> HuntedRoute:
    """Build layer after layer, all of them or the first ``layers``, as Gabrielyan 2007 does in subsections 4.2.1
    (``basic``) or 4.2.2, and 4.2.3, until the whole flow is fixed or a linear programme has no solution.

    Each layer maximises the factor F by which all flow-out coefficients can grow within capacities of one (the problem
    of eq. 18; basic: minimises the greatest load), then minimises, again and again, the sum of the loads of the links
    suspected as bottlenecks, and drops those that are full no longer. ``interior``: by an interior-point method, whose
    optimum already fills only what every optimum fills, so that hardly anything is left to hunt; by default by
    vertices, as the simplex method gives them. Time: some ten linear programmes a layer. Raises InputError, also for
    capacities more than FARTHEST apart, and NoPathError.

    >>> from topologies import load_network
    >>> for form in (None, "hunted"):
    ...     route = hunt_layers(load_network("capillary-layers"), "s", "t", basic=form)
    ...     print([(round(layer.load, 4), len(layer.bottlenecks)) for layer in route.layers])
    [(0.5, 2), (0.3333, 3), (0.25, 2), (0.0833, 2)]
    [(0.5, 2), (0.3333, 3), (0.25, 2), (0.0833, 2)]
    """
    problem = flow_problem(network, source, sink)
    if min(problem.weight, default=problem.largest_weight) * FARTHEST < problem.largest_weight:
        raise InputError(
            f"network {network.name!r}: capacities are more than {FARTHEST:,} times apart, of which the thesis' loop "
            "loses the digits; the method 'capillary' is exact"
        )
    hunt = _Hunt(problem, basic, interior)
    found: list[HuntedLayer] = []
    failure = None
    while hunt.unfinished and failure is None and (layers is None or len(found) < layers):
        try:
            found.append(hunt.next_layer())
        except UnsolvedError as error:
            if hunt.solved == 1:
                raise problem.no_path() from None
            failure = str(error)
    loads = [0.0] * len(network.links)
    capacity = dict(zip(problem.links, hunt.capacity.tolist(), strict=True))
    for layer in found:
        for link in layer.bottlenecks:
            loads[link] = layer.load * capacity[link]
    return HuntedRoute(
        layers=tuple(found), loads=tuple(loads), linear_programs=hunt.solved, failure=failure
    )


def thesis_route(network: Network, source: str, sink: str) -> SplitRoute:
    """The full capillary route by the thesis' loop; floats are made to conserve the flow exactly (method
    "thesis-loop")."""
    hunted = hunt_layers(network, source, sink)
    if hunted.failure is not None:
        raise InputError(
            f"network {network.name!r}: the thesis' loop lost its digits at layer programme {hunted.linear_programs} "
            f"({hunted.failure}); the method 'capillary' is exact"
        )
    problem = flow_problem(network, source, sink)
    return exact_route(problem, "thesis-loop", [hunted.loads[i] for i in problem.links])


class _Hunt:
    """The links not yet in a bottleneck, and what each node must still send out over them, in units of ``_load``."""

    def __init__(self, problem: FlowProblem, basic: Rule | None, interior: bool) -> None:
        self._problem, self._basic, self._interior = problem, basic, interior
        self._full = INTERIOR_FULL if interior else FULL
        self.capacity = np.array(problem.weight, dtype=np.float64) / problem.largest_weight
        self._tail, self._head = (
            np.array(problem.tail, dtype=np.int64),
            np.array(problem.head, dtype=np.int64),
        )
        self._left = np.arange(len(problem.links))
        self._out = np.array(problem.demand(), dtype=np.float64)
        self._load = 1.0
        self.solved = 0

    @property
    def unfinished(self) -> bool:
        return len(self._left) > 0 and float(np.max(np.abs(self._out))) > NOTHING

    def next_layer(self) -> HuntedLayer:
        """Raises UnsolvedError."""
        capacity, before = self.capacity[self._left], self._load
        if self._basic is None:
            at, suspects = self._grown(capacity)
        else:
            at, suspects = self._lowered(capacity, self._basic)
        if not len(at):
            raise UnsolvedError("no bottleneck")
        most = capacity[at] if self._basic is None else self._load * capacity[at]
        bottlenecks = self._left[at]
        np.subtract.at(self._out, self._tail[bottlenecks], most)
        np.add.at(self._out, self._head[bottlenecks], most)
        self._left = np.delete(self._left, at)
        if self._basic is None:
            self._repair()
        named = tuple(self._problem.links[i] for i in bottlenecks)
        return HuntedLayer(
            load=self._load, factor=before / self._load, suspects=suspects, bottlenecks=named
        )

    def _grown(self, capacity: FloatArray) -> tuple[NDArray[np.int64], tuple[int, ...]]:
        """The stable form: what nodes send out grows until it fills capacities of one; the links that are left full."""
        links = len(capacity)
        with_factor = self._balance(links + 1).tolil()
        with_factor[:, [links]] = -self._out[:, np.newaxis]
        cost = np.append(np.zeros(links), -1.0)
        equal = (with_factor.tocsr(), np.zeros(len(self._out)))
        x, _ = self._solve(cost, equal, np.append(capacity, np.inf))
        factor = float(x[links])
        if factor < self._full:
            raise self._problem.no_path()
        self._load /= factor
        self._out = self._out * factor
        return self._hunted(capacity, np.flatnonzero(x[:links] > capacity * (1 - self._full)))

    def _lowered(
        self, capacity: FloatArray, rule: Rule
    ) -> tuple[NDArray[np.int64], tuple[int, ...]]:
        """The basic form: the least greatest load over capacity; the links that the rule fixes at it."""
        links = len(capacity)
        cost = np.append(np.zeros(links), 1.0)
        below = hstack(
            [diags_array(np.ones(links)), csr_array(-capacity.reshape(-1, 1))], format="csr"
        )
        at_most = (csr_array(below), np.zeros(links))
        x, prices = self._solve(
            cost, (self._balance(links + 1), self._out), np.full(links + 1, np.inf), at_most
        )
        self._load = float(x[links])
        full = np.flatnonzero(x[:links] >= self._load * capacity * (1 - self._full))
        if rule == "hunted":
            return self._hunted(self._load * capacity, full)
        return (np.flatnonzero(prices > PRICED) if rule == "priced" else full), ()

    def _hunted(
        self, most: FloatArray, candidates: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], tuple[int, ...]]:
        """The candidates that stay full whenever the sum of their flows is made least, and how many there were before
        and after each turn."""
        balance, counts = self._balance(len(most)), [len(candidates)]
        while True:
            cost = np.zeros(len(most))
            cost[candidates] = 1.0
            x, _ = self._solve(cost, (balance, self._out), most)
            candidates = candidates[x[candidates] > most[candidates] * (1 - self._full)]
            counts.append(len(candidates))
            if counts[-1] == counts[-2]:
                return candidates, tuple(counts)

    def _balance(self, columns: int) -> csr_array:
        return balance_matrix(
            self._problem.nodes, self._tail[self._left], self._head[self._left], columns
        )

    def _solve(
        self,
        cost: FloatArray,
        equal: tuple[csr_array, FloatArray],
        upper: FloatArray,
        at_most: tuple[csr_array, FloatArray] | None = None,
    ) -> tuple[FloatArray, FloatArray]:
        self.solved += 1
        x, _, prices = solve_lp(cost, equal, upper, at_most, interior=self._interior)
        return x, prices

    def _repair(self) -> None:
        """Rounding, of eq. 17 and 18: small coefficients vanish and the rest sum to zero."""
        self._out[np.abs(self._out) < 100 * FULL] = 0.0
        if np.any(self._out):
            largest = int(np.argmax(np.abs(self._out)))
            self._out[largest] -= self._out.sum()
