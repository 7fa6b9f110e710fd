"""The thesis' own construction of a capillary route, by linear programmes.

Layer by layer, a linear programme finds the load, and the bottleneck hunting loop finds the
bottlenecks (Gabrielyan 2007, equations 16 to 19). The module follows the text literally. It is slow
and computes in floats; tests compare it with the exact recursion in ``route``.

There are two forms. In the stable form of section 4.2.2, every layer has capacities of one. The
basic form of section 4.2.1 is here to show why the thesis abandons it: loads become smaller from
layer to layer while the solver's tolerances remain, and an error in one layer falsifies all later
layers.
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

# The links that the basic form treats as bottlenecks:
# "full": every link that the solution fills (without slack);
# "priced": those of them whose load has a price (a dual variable that is not zero);
# "hunted": those of them that the hunting loop of section 4.2.3 leaves.
Rule = Literal["full", "priced", "hunted"]

# A link within this fraction of its capacity counts as full, and a flow-out coefficient below it as
# zero.
FULL = 1e-7

# The same for an interior-point method, which approaches a full link without reaching it.
INTERIOR_FULL = 1e-5

# A price above this counts as not zero.
PRICED = 1e-9

# A flow below this is rounding.
NOTHING = 1e-14

# Largest accepted ratio of two capacities. It leaves nine digits of the loads; a ratio a hundred
# times larger leaves none.
FARTHEST = 10_000


@dataclass(frozen=True, kw_only=True)
class HuntedLayer:
    """One layer of the route.

    Attributes:
        load: Load over capacity of the layer's bottlenecks.
        factor: The factor F of equation 19, by which the load is below that of the previous layer.
        suspects: Number of suspected links at the start of the hunting loop and after each of its
            iterations. The last two are equal, because the last iteration removes nothing. Empty if
            there was no hunt.
        bottlenecks: The bottlenecks, as indices into the network's links.
    """

    load: float
    factor: float
    suspects: tuple[int, ...]
    bottlenecks: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class HuntedRoute:
    """A capillary route as the thesis' loop finds it.

    Attributes:
        layers: The layers in order.
        loads: Share of the flow on each link of the network; 0 for a link of no layer.
        linear_programs: Number of linear programmes that were solved.
        failure: Reason why the route ended before all of its flow was final, or None.
    """

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
    """Build a capillary route layer by layer, with linear programmes and the hunting loop.

    Each layer maximises the factor F by which all flow-out coefficients can grow within capacities
    of one (the problem of equation 18); the basic form minimises the greatest load instead. The
    hunting loop then minimises, again and again, the sum of the loads of the suspected links, and
    removes those that are no longer full (Gabrielyan 2007, section 4.2.3). The construction ends
    when all of the flow is final, or when a linear programme has no solution. A layer takes about
    ten linear programmes.

    Args:
        network: The network.
        source: Id of the source.
        sink: Id of the sink.
        layers: Number of layers to build; None for all.
        basic: Use the basic form of section 4.2.1 with this rule for bottlenecks; None uses the
            stable form of section 4.2.2.
        interior: Use an interior-point method. Its optimum fills only links that every optimum
            fills, so there is hardly anything left to hunt. By default the solution is a vertex, as
            the simplex method returns it.

    Raises:
        InputError: A node is unknown, source and sink are the same node, or two capacities differ
            by a factor of more than FARTHEST.
        NoPathError: The sink cannot be reached.

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
            f"network {network.name!r}: capacities differ by a factor of more than {FARTHEST:,}, "
            "for which the thesis' loop is not precise enough; use the exact method 'capillary'"
        )
    hunt = _Hunt(problem, basic, interior)
    route_layers: list[HuntedLayer] = []
    failure = None
    while hunt.unfinished and (layers is None or len(route_layers) < layers):
        try:
            route_layers.append(hunt.next_layer())
        except UnsolvedError as error:
            if hunt.solved == 1:
                raise problem.no_path() from None
            failure = str(error)
            break
    loads = [0.0] * len(network.links)
    capacity = dict(zip(problem.links, hunt.capacity.tolist(), strict=True))
    for layer in route_layers:
        for link in layer.bottlenecks:
            loads[link] = layer.load * capacity[link]
    return HuntedRoute(
        layers=tuple(route_layers),
        loads=tuple(loads),
        linear_programs=hunt.solved,
        failure=failure,
    )


def thesis_route(network: Network, source: str, sink: str) -> SplitRoute:
    """Return the full capillary route by the thesis' loop (method "thesis-loop").

    The floats are corrected so that the flow is conserved exactly.

    Raises:
        InputError: As ``hunt_layers``, or the loop has lost its precision.
        NoPathError: The sink cannot be reached.
    """
    hunted = hunt_layers(network, source, sink)
    if hunted.failure is not None:
        raise InputError(
            f"network {network.name!r}: the thesis' loop lost its precision at linear programme "
            f"{hunted.linear_programs} ({hunted.failure}); use the exact method 'capillary'"
        )
    problem = flow_problem(network, source, sink)
    return exact_route(problem, "thesis-loop", [hunted.loads[i] for i in problem.links])


class _Hunt:
    """The state between two layers.

    Attributes:
        capacity: Capacity of each usable link, relative to the network's largest.
        solved: Number of linear programmes that were solved.
    """

    def __init__(self, problem: FlowProblem, basic: Rule | None, interior: bool) -> None:
        self._problem = problem
        self._basic = basic
        self._interior = interior
        self._full = INTERIOR_FULL if interior else FULL
        self.capacity = np.array(problem.weight, dtype=np.float64) / problem.largest_weight
        self._tail = np.array(problem.tail, dtype=np.int64)
        self._head = np.array(problem.head, dtype=np.int64)
        # Usable links that are not bottlenecks of an earlier layer.
        self._remaining = np.arange(len(problem.links))
        # Flow-out coefficient of each node: what it must still send over the remaining links. In
        # the stable form its unit is ``_load``.
        self._flow_out = np.array(problem.demand(), dtype=np.float64)
        self._load = 1.0
        self.solved = 0

    @property
    def unfinished(self) -> bool:
        """True while some of the flow is not final."""
        return len(self._remaining) > 0 and float(np.max(np.abs(self._flow_out))) > NOTHING

    def next_layer(self) -> HuntedLayer:
        """Find the next layer, and remove its bottlenecks.

        Raises:
            UnsolvedError: A linear programme has no solution, or there is no bottleneck.
        """
        capacity = self.capacity[self._remaining]
        previous_load = self._load
        if self._basic is None:
            positions, suspects = self._maximise_factor(capacity)
            unit = 1.0
        else:
            positions, suspects = self._minimise_load(capacity, self._basic)
            unit = self._load
        if not len(positions):
            raise UnsolvedError("no bottleneck")
        bottlenecks = self._remaining[positions]
        amounts = unit * capacity[positions]
        np.subtract.at(self._flow_out, self._tail[bottlenecks], amounts)
        np.add.at(self._flow_out, self._head[bottlenecks], amounts)
        self._remaining = np.delete(self._remaining, positions)
        if self._basic is None:
            self._round_flow_out()
        return HuntedLayer(
            load=self._load,
            factor=previous_load / self._load,
            suspects=suspects,
            bottlenecks=tuple(self._problem.links[i] for i in bottlenecks),
        )

    def _maximise_factor(self, capacity: FloatArray) -> tuple[NDArray[np.int64], tuple[int, ...]]:
        """Solve a layer in the stable form: let the flow grow until it fills capacities of one.

        Returns:
            The positions of the bottlenecks among the remaining links, and the numbers of suspects.
        """
        links = len(capacity)
        # Variables: the link flows, and the factor.
        balance = self._balance(links + 1).tolil()
        balance[:, [links]] = -self._flow_out[:, np.newaxis]
        cost = np.append(np.zeros(links), -1.0)
        equal = (balance.tocsr(), np.zeros(len(self._flow_out)))
        x, _ = self._solve(cost, equal, np.append(capacity, np.inf))
        factor = float(x[links])
        if factor < self._full:
            raise self._problem.no_path()
        self._load /= factor
        self._flow_out = self._flow_out * factor
        suspects = np.flatnonzero(x[:links] > capacity * (1 - self._full))
        return self._hunt_bottlenecks(capacity, suspects)

    def _minimise_load(
        self, capacity: FloatArray, rule: Rule
    ) -> tuple[NDArray[np.int64], tuple[int, ...]]:
        """Solve a layer in the basic form: minimise the greatest load over capacity.

        Returns:
            The positions among the remaining links of the bottlenecks that the rule selects, and
            the numbers of suspects.
        """
        links = len(capacity)
        # Variables: the link flows, and the greatest load.
        cost = np.append(np.zeros(links), 1.0)
        columns = [diags_array(np.ones(links)), csr_array(-capacity.reshape(-1, 1))]
        at_most = (csr_array(hstack(columns, format="csr")), np.zeros(links))
        equal = (self._balance(links + 1), self._flow_out)
        x, prices = self._solve(cost, equal, np.full(links + 1, np.inf), at_most)
        self._load = float(x[links])
        full = np.flatnonzero(x[:links] >= self._load * capacity * (1 - self._full))
        if rule == "hunted":
            return self._hunt_bottlenecks(self._load * capacity, full)
        if rule == "priced":
            return np.flatnonzero(prices > PRICED), ()
        return full, ()

    def _hunt_bottlenecks(
        self, upper: FloatArray, suspects: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], tuple[int, ...]]:
        """Run the bottleneck hunting loop of section 4.2.3.

        Args:
            upper: Largest flow of each remaining link.
            suspects: Positions of the links that are full.

        Returns:
            The suspects that remain full while the sum of their flows is minimised, and the number
            of suspects at the start and after each iteration.
        """
        balance = self._balance(len(upper))
        counts = [len(suspects)]
        while True:
            cost = np.zeros(len(upper))
            cost[suspects] = 1.0
            x, _ = self._solve(cost, (balance, self._flow_out), upper)
            suspects = suspects[x[suspects] > upper[suspects] * (1 - self._full)]
            counts.append(len(suspects))
            if counts[-1] == counts[-2]:
                return suspects, tuple(counts)

    def _balance(self, columns: int) -> csr_array:
        """Return the incidence matrix of the remaining links, with this number of columns."""
        tail = self._tail[self._remaining]
        head = self._head[self._remaining]
        return balance_matrix(self._problem.nodes, tail, head, columns)

    def _solve(
        self,
        cost: FloatArray,
        equal: tuple[csr_array, FloatArray],
        upper: FloatArray,
        at_most: tuple[csr_array, FloatArray] | None = None,
    ) -> tuple[FloatArray, FloatArray]:
        """Solve a linear programme, count it, and return the variables and the prices."""
        self.solved += 1
        x, _, prices = solve_lp(cost, equal, upper, at_most, interior=self._interior)
        return x, prices

    def _round_flow_out(self) -> None:
        """Correct rounding in the flow-out coefficients of equations 17 and 18.

        Small coefficients become zero, and the largest one changes so that all sum to zero.
        """
        self._flow_out[np.abs(self._flow_out) < 100 * FULL] = 0.0
        if np.any(self._flow_out):
            largest = int(np.argmax(np.abs(self._flow_out)))
            self._flow_out[largest] -= self._flow_out.sum()
