"""The thesis' first way to a capillary route: the greatest load is made least, bottlenecks are fixed at it, and so on
(section 4.2.1).

Kept to show why the thesis leaves it: loads become as small as they are, while a solver's tolerances stay, and what is
fixed with an error is an error of all that follows. ``testbed.routing.capillary.thesis_loop`` is the stable form of
section 4.2.2.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.sparse import csr_array, diags_array, hstack

from testbed.routing.capillary.thesis_loop import FULL, LinksLeft
from testbed.routing.flows.end_points import FlowProblem, flow_problem
from testbed.routing.flows.linear_programs import UnsolvedError, balance_matrix
from topologies.network import Network

Rule = Literal["full", "priced", "hunted"]
"""What is taken for a bottleneck: every link that the solution fills (no slack is left); of these the ones whose load
has a price (a dual variable that is not zero); or the ones that the hunting loop of section 4.2.3 leaves."""
PRICED = 1e-9
NOTHING = 1e-14
"""A flow below this is rounding."""


@dataclass(frozen=True, kw_only=True)
class BasicRoute:
    """``layers``: (load over capacity, indices of the links fixed at it) in order; ``loads``: a float a link of the
    network, 0 where no layer fixed one; ``linear_programs``: how many were solved; ``failure``: why it ended before the
    whole flow was fixed, or None."""

    layers: tuple[tuple[float, tuple[int, ...]], ...]
    loads: tuple[float, ...]
    linear_programs: int
    failure: str | None


def basic_layers(network: Network, source: str, sink: str, rule: Rule) -> BasicRoute:
    """Layer after layer until the whole flow is fixed, or until a linear programme has no solution (``failure``).

    Source: Gabrielyan 2007, section 4.2.1. Raises InputError, NoPathError (in the first layer).

    >>> from topologies import load_network
    >>> route = basic_layers(load_network("capillary-layers"), "s", "t", "hunted")
    >>> [(round(load, 4), len(links)) for load, links in route.layers]
    [(0.5, 2), (0.3333, 3), (0.25, 2), (0.0833, 2)]
    """
    problem = flow_problem(network, source, sink)
    state = _Fixing(problem, rule)
    layers: list[tuple[float, tuple[int, ...]]] = []
    failure = None
    while state.unfinished and failure is None:
        try:
            layers.append(state.next_layer())
        except UnsolvedError as error:
            if not layers:
                raise problem.no_path() from None
            failure = str(error)
    loads = [0.0] * len(network.links)
    for level, links in layers:
        for link in links:
            loads[link] = level * network.links[link].capacity_bps / max(each.capacity_bps for each in network.links)
    return BasicRoute(layers=tuple(layers), loads=tuple(loads), linear_programs=state.solved, failure=failure)


class _Fixing(LinksLeft):
    def __init__(self, problem: FlowProblem, rule: Rule) -> None:
        super().__init__(problem, FULL)
        self._rule = rule

    @property
    def unfinished(self) -> bool:
        return len(self._left) > 0 and float(np.max(np.abs(self._out))) > NOTHING

    def next_layer(self) -> tuple[float, tuple[int, ...]]:
        """(the least greatest load over capacity, links fixed at it). Raises UnsolvedError."""
        links, capacity = len(self._left), self._capacity[self._left]
        tail, head = self._tail[self._left], self._head[self._left]
        cost = np.append(np.zeros(links), 1.0)
        below: Any = hstack([diags_array(np.ones(links)), csr_array(-capacity.reshape(-1, 1))], format="csr")
        balance = balance_matrix(self._problem.nodes, tail, head, links + 1)
        x, _, prices = self._solve(cost, (balance, self._out), np.full(links + 1, np.inf), (below, np.zeros(links)))
        level = float(x[links])
        full = np.flatnonzero(x[:links] >= level * capacity * (1 - FULL))
        if self._rule == "priced":
            full = np.flatnonzero(prices > PRICED)
        elif self._rule == "hunted":
            full, _ = self._hunted(self._out, level * capacity, full)
        if not len(full):
            raise UnsolvedError("no link is left at the greatest load")
        fixed = self._left[full]
        np.subtract.at(self._out, tail[full], level * capacity[full])
        np.add.at(self._out, head[full], level * capacity[full])
        self._left = np.delete(self._left, full)
        return level, tuple(self._problem.links[i] for i in fixed)
