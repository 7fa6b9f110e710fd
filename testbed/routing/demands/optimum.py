"""The multicommodity optimum: of all ways to split all pairs at once the one whose fullest link is emptiest, with a
proof.

Theory of operation. What one source sends is one commodity, whatever the sinks: a flow x[s, l] that leaves at each sink
what the sink is sent. So the programme has sources * links variables instead of pairs * links, and the same optimum,
for such a flow can be taken apart again: at each node, what goes on to a sink came in over the links in the proportions
in which everything came in.

The proof is a price on each link. With prices y >= 0 of which the sum of capacity times price is 1, no routing has a
smaller greatest utilisation than the sum over pairs of demand times the distance in prices (a link's load is at most
utilisation times capacity; sum that up with the prices, and every bit pays at least its distance). The dual solution of
the programme gives prices for which the two are equal; whoever doubts it needs shortest paths only (``checker``).

*Water filling*: all rates rise in proportion to their demands over whatever routes are best, until some pairs can rise
no more. One linear programme a level: the greatest common height t of the pairs that still rise, while the others keep
theirs. Prices of the full links say who is stopped: every pair that pays for its way. They are kept as the certificate
(Nace and Pioro 2008 for the method).
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import block_diag, csr_array, hstack, vstack
from scipy.sparse.csgraph import breadth_first_order

from testbed.arrays import FloatArray
from testbed.errors import InputError
from testbed.routing.demands.checker import FillingLevel, paid_distances
from testbed.routing.demands.matrix import DemandMatrix, RoutedDemands, sparse_shares
from testbed.routing.flows.end_points import drop_circulations
from testbed.routing.flows.linear_programs import (
    UnsolvedError,
    balance_matrix,
    emptiest,
    solve_lp,
    solving,
)
from testbed.routing.flows.link_graph import LinkGraph
from topologies import lists_by_key

NOTHING = 1e-6
"""Of a source's demand: a flow below it is the solver's rounding."""
MAX_WHOLE = 25_000
"""Variables of a programme over all links of all sources, some ten seconds of work; larger ones are solved by trees."""
FIRST_TREES, EAGERNESS, TIE = 20, 20.0, 1e-7
"""Trees of each source before the first programme; how much the fullest links are avoided in them; the share of every
price that is as the link's capacity, so that of equally dear ways the wider and shorter is taken."""
MAX_STALLED = 10
"""Programmes without a better mixture or a better proof, after which rounding is taken to forbid one."""
LEVEL_SLACK = 1e-6
"""By which a link may be above its final level while the next ones are sought, in units of the first level: above the
solver's tolerance."""


def optimal_demands(matrix: DemandMatrix) -> RoutedDemands:
    """The routing of least greatest utilisation; ``prices`` prove it. What the emptier links carry is left to the
    solver (HiGHS).

    Cost: up to MAX_WHOLE one linear programme of sources * links variables, 50 nodes and 176 links about a second;
    beyond, trees are added to one, 200 nodes some seconds. Raises NoPathError.
    """
    problem = DemandProgramme(matrix)
    if problem.columns > MAX_WHOLE:
        flow, prices = flow_by_trees(problem)
    else:
        links = len(problem.graph.tail)
        flow, _, prices = problem.solve(np.zeros(links), np.ones(links, dtype=bool))
    return RoutedDemands(
        matrix=matrix, method="optimum", shares=problem.shares(flow), prices=problem.scaled(prices)
    )


def fair_demands(matrix: DemandMatrix) -> RoutedDemands:
    """Max-min-fair utilisation: the fullest link as empty as can be, then the next fullest, and so on to the last.

    What capillary routing does for one pair, for all pairs together. A link is final once its price is above 0: it is
    full in every optimum. Cost: a programme for each level; use ``optimal_demands`` above some 30 nodes. Raises
    NoPathError.
    """
    problem = DemandProgramme(matrix)
    links = len(problem.graph.tail)
    free, level = np.ones(links, dtype=bool), np.zeros(links)
    flow, greatest, prices = problem.solve(level, free)
    first, proof = greatest, prices
    while greatest > 10 * LEVEL_SLACK * first:
        final = free & (prices * problem.capacity > 1e-7)
        level[final], free = greatest + LEVEL_SLACK * first, free & ~final
        if not (final.any() and free.any()):
            break
        flow, greatest, prices = problem.solve(level, free)
    return RoutedDemands(
        matrix=matrix, method="fair", shares=problem.shares(flow), prices=problem.scaled(proof)
    )


@dataclass(frozen=True)
class Commodity:
    """What one source sends: positions of its sinks, their demand, the pairs, and its columns of the programme."""

    source: int
    sinks: Sequence[int]
    amounts: Sequence[float]
    pairs: Sequence[int]
    links: NDArray[np.int64]
    first: int


class DemandProgramme:
    """Rates in units of their mean and capacities in units of the largest, so that the solver's tolerances mean the
    same everywhere."""

    def __init__(self, matrix: DemandMatrix) -> None:
        self.matrix = matrix
        self.graph = LinkGraph(matrix.network)
        self.rate_unit = matrix.total_bps / len(matrix.pairs)
        self.capacity_unit = float(self.graph.capacity.max())
        self.capacity = self.graph.capacity / self.capacity_unit
        self.commodities = self._commodities()
        last = self.commodities[-1]
        self.columns = last.first + len(last.links)
        self.balance, self.required = self._conservation()
        rows = np.concatenate([one.links for one in self.commodities])
        ones = np.ones(self.columns)
        self.loads = csr_array(
            (ones, (rows, np.arange(self.columns))), shape=(len(self.capacity), self.columns)
        )

    def solve(
        self, level: FloatArray, free: NDArray[np.bool_]
    ) -> tuple[FloatArray, float, FloatArray]:
        """(flow, utilisation, prices): the least utilisation of the ``free`` links while the others keep to their
        ``level``."""
        greatest, limit = (
            np.where(free, self.capacity, 0.0),
            np.where(free, 0.0, level * self.capacity),
        )
        with self.solving():
            return emptiest(self.loads, greatest, (self.balance, self.required), limit)

    def solving(self) -> AbstractContextManager[None]:
        """Around a programme: InputError where it has no solution."""
        return solving(
            f"network {self.matrix.network.name!r}, demands {self.matrix.name!r}: no optimum found"
        )

    def scaled(self, prices: FloatArray | None) -> FloatArray | None:
        """Prices whose sum times the capacities in bits a second is 1."""
        if prices is None or not prices.sum() > 0:
            return None
        return np.asarray(prices / float(prices @ self.graph.capacity))

    def shares(self, flow: FloatArray) -> object:
        """The shares of every pair that the flows of their sources come to. A pair of so small a demand that its flow
        cannot be distinguished from the solver's rounding takes a shortest path, which loads no link by more than that
        rounding."""
        found, direct = [], self.graph.shortest_paths(np.ones(len(self.capacity)))
        for one in self.commodities:
            amounts = flow[one.first : one.first + len(one.links)]
            amounts = np.where(amounts > NOTHING * sum(one.amounts), amounts, 0.0)
            rows = sink_shares(self.graph, one, amounts)
            for row, sink in zip(rows, one.sinks, strict=True):
                if not row.any():
                    row[direct.way(one.source, sink)] = 1.0
            found.append(sparse_shares(list(rows)))
        return vstack(found, format="csr")[
            np.argsort([pair for one in self.commodities for pair in one.pairs])
        ]

    def _commodities(self) -> list[Commodity]:
        self.graph.hops(self.matrix.pairs)
        index = self.matrix.network.node_index
        by_source = lists_by_key(
            (index[ends[0]], pair) for pair, ends in enumerate(self.matrix.pairs)
        )
        found: list[Commodity] = []
        first = 0
        for source, pairs in by_source.items():
            sinks = [index[self.matrix.pairs[pair][1]] for pair in pairs]
            amounts = [self.matrix.rates_bps[pair] / self.rate_unit for pair in pairs]
            links = np.flatnonzero(self.graph.usable_from(source))
            found.append(Commodity(source, sinks, amounts, pairs, links, first))
            first += len(links)
        return found

    def _conservation(self) -> tuple[csr_array, FloatArray]:
        """Row (commodity, node): what leaves less what enters; one row of each commodity follows from the others and
        stays."""
        tail, head = self.graph.tail, self.graph.head
        parts = [
            balance_matrix(self.graph.nodes, tail[one.links], head[one.links])
            for one in self.commodities
        ]
        required = np.zeros((len(parts), self.graph.nodes))
        for row, one in zip(required, self.commodities, strict=True):
            row[one.source] = sum(one.amounts)
            row[one.sinks] -= np.array(one.amounts)
        return block_diag(parts, format="csr"), required.ravel()


def flow_by_trees(problem: DemandProgramme) -> tuple[FloatArray, FloatArray]:
    """(flow, prices) of the optimum by column generation (Ford and Fulkerson 1958): each source's flow is a mixture of
    trees.

    A programme finds the best mixture of the trees known, over the links that were ever too full, and its prices the
    shortest trees; where these cost no less
    than the mixture, the prices prove it the optimum. Few links have a price in the end, so few trees are needed. The
    first ones come from multiplicative weights: each round avoids what the rounds before have filled.
    """
    capacity, sources = problem.capacity, len(problem.commodities)
    amounts, links = np.zeros((sources, problem.graph.nodes)), len(capacity)
    for row, one in zip(amounts, problem.commodities, strict=True):
        np.add.at(row, one.sinks, one.amounts)
    trees, total = list[csr_array](), np.zeros(links)
    prices: FloatArray = 1 / capacity
    for _ in range(FIRST_TREES):
        trees.append(_shortest_trees(problem, amounts, prices))
        total += trees[-1].sum(axis=0)
        full = total / capacity
        prices = np.exp(EAGERNESS * (full / full.max() - 1)) / capacity
    watched, proof, bound, stalled = full > full.max() / 2, prices, 0.0, 0
    while stalled < MAX_STALLED:
        loads = vstack(trees, format="csc").T
        equal = csr_array(np.tile(np.eye(sources), len(trees))), np.ones(sources)
        with problem.solving():
            parts, least, dual = emptiest(loads.tocsr()[watched], capacity[watched], equal)
        over = loads @ parts > least * (1 + TIE) * capacity
        prices = np.zeros(links)
        prices[watched] = dual
        trees.append(_shortest_trees(problem, amounts, prices))
        proved = float(trees[-1].sum(axis=0) @ prices) / float(capacity @ prices)
        stalled = 0 if proved > bound or over.any() else stalled + 1
        if proved > bound:
            proof, bound = prices, proved
        if bound >= least * (1 - TIE) and not over.any():
            break
        watched |= over
    mixed = np.zeros((sources, links))
    for part, tree in zip(
        parts.reshape(-1, sources), trees, strict=False
    ):  # the last trees are in no mixture
        mixed += part[:, None] * tree.toarray()
    return np.concatenate(
        [row[one.links] for row, one in zip(mixed, problem.commodities, strict=True)]
    ), proof


def _shortest_trees(problem: DemandProgramme, amounts: FloatArray, prices: FloatArray) -> csr_array:
    """What each source's demand loads the links with over shortest paths, shape (sources, links); ``amounts``
    (sources, nodes)."""
    graph = problem.graph
    weights = prices / float(prices @ problem.capacity) + TIE / (
        problem.capacity * problem.capacity.sum()
    )
    distance, before, link = graph.shortest_paths(weights)
    sources = np.array([one.source for one in problem.commodities])
    farthest = np.argsort(-distance[sources], axis=1)
    loads, passing, row = (
        np.zeros((len(sources), len(weights))),
        amounts.copy(),
        np.arange(len(sources)),
    )
    for node in farthest.T:
        own = row[(before[sources, node] >= 0) & (passing[row, node] > 0)]
        behind, amount = before[sources[own], node[own]], passing[own, node[own]]
        loads[own, link[behind, node[own]]] += amount
        passing[own, behind] += amount
    return csr_array(loads)


def sink_shares(graph: LinkGraph, sent: Commodity, flow: FloatArray) -> FloatArray:
    """The share on each link of what each sink is sent, shape (sinks, links of the network), by the flow of one source.

    ``flow`` (one number for each of the commodity's links) is acyclic once its circulations are taken out; what then
    comes from a node that nothing reaches is rounding, and goes. Seen from a sink, what passes a node came in over the
    node's links in the proportions of the whole flow; so all shares are found in one walk against the flow, and each
    sink's arrive whole whatever was rounded.
    """
    links, sinks, amounts = sent.links, sent.sinks, flow.tolist()
    tail, head = graph.tail[links].tolist(), graph.head[links].tolist()
    drop_circulations(graph.nodes, tail, head, amounts)
    onward = csr_array((amounts, (tail, head)), shape=(graph.nodes, graph.nodes))
    onward.eliminate_zeros()
    reached = breadth_first_order(onward, sent.source, return_predecessors=False)
    amounts = np.where(np.isin(tail, reached), amounts, 0.0).tolist()
    shares = np.zeros((len(sinks), len(graph.tail)))
    passing = np.zeros((len(sinks), graph.nodes))
    passing[np.arange(len(sinks)), sinks] = 1.0
    entering: dict[int, list[int]] = {}
    waiting = np.zeros(
        graph.nodes, dtype=np.int64
    )  # links out of each node that have not been walked yet
    for at in (at for at, amount in enumerate(amounts) if amount):
        entering.setdefault(head[at], []).append(at)
        waiting[tail[at]] += 1
    ready = np.flatnonzero(waiting == 0).tolist()
    while ready:
        node = ready.pop()
        own = entering.get(node, [])
        total = sum(amounts[at] for at in own)
        for at in own:
            shares[:, links[at]] = passing[:, node] * (amounts[at] / total)
            passing[:, tail[at]] += shares[:, links[at]]
            waiting[tail[at]] -= 1
            if not waiting[tail[at]]:
                ready.append(tail[at])
    return shares


SLACK = 1e-7
"""Of a stopped pair's rate: given up, so that what the solver's tolerance took is not missing at the next level."""
SLACKS = (SLACK, 10 * SLACK, 100 * SLACK)
PAYS = 1e-6
"""Of what all rising pairs pay together: a pair that pays more than this is stopped."""


@dataclass(frozen=True, kw_only=True)
class FairRates:
    """``rates_bps`` of the pairs, shape (pairs,), which no link is too small for under ``routed``; ``levels`` prove
    them max-min fair."""

    routed: RoutedDemands
    rates_bps: FloatArray
    levels: tuple[FillingLevel, ...]


def water_filling(matrix: DemandMatrix) -> FairRates:
    """Max-min-fair rates over demands, unbounded by them, and a routing that carries them.

    The first level is the inverse of the multicommodity optimum's greatest utilisation. Cost: a programme of sources *
    links variables a level, and up to as many levels as pairs: for some 20 nodes. Raises NoPathError.
    """
    programme = _Filling(matrix)
    height = np.full(len(matrix.pairs), np.nan)
    levels: list[FillingLevel] = []
    while np.isnan(height).any():
        flow, reached, prices = programme.rise(height)
        known = [max(0.0, float(price)) for price in prices]
        paid = matrix.rates * np.array(paid_distances(matrix.network, matrix.demands, known))
        rising = np.isnan(height)
        stopped = rising & (paid > PAYS * paid[rising].sum())
        if not stopped.any():
            raise InputError(
                f"network {matrix.network.name!r}: the solver's prices stop no pair at {reached:g}"
            )
        height[stopped] = reached
        levels.append(
            FillingLevel(
                height=reached, pairs=tuple(int(i) for i in np.flatnonzero(stopped)), prices=prices
            )
        )
    routed = RoutedDemands(
        matrix=matrix,
        method="max-min",
        shares=programme.shares(flow),
        prices=programme.scaled(levels[0].prices),
    )
    return FairRates(
        routed=routed, rates_bps=height * (1 - SLACK) * matrix.rates, levels=tuple(levels)
    )


class _Filling(DemandProgramme):
    """The conservation of the multicommodity programme, with heights in place of given demands."""

    def rise(self, height: FloatArray) -> tuple[FloatArray, float, FloatArray]:
        """(flow, height, prices): how far the pairs without a height (nan) rise together, the others kept to theirs."""
        rising = np.isnan(height)
        column, required = np.zeros(len(self.required)), np.zeros(len(self.required))
        nodes = self.graph.nodes
        for at, one in enumerate(self.commodities):
            for pair, sink, amount in zip(one.pairs, one.sinks, one.amounts, strict=True):
                target, size = (
                    (column, amount) if rising[pair] else (required, amount * height[pair])
                )
                target[at * nodes + one.source] += size
                target[at * nodes + sink] -= size
        equal = hstack([self.balance, csr_array(-column[:, None])], format="csr")
        loads = hstack([self.loads, csr_array((len(self.capacity), 1))], format="csr")
        cost = np.zeros(self.columns + 1)
        cost[-1] = -1.0
        unit = self.capacity_unit / self.rate_unit
        upper = np.full(self.columns + 1, np.inf)
        with solving(f"network {self.matrix.network.name!r}: no fair rates found"):
            for slack in (
                SLACKS
            ):  # small rates lie below what the solver takes for nought: the next step helps
                try:
                    x, least, prices = solve_lp(
                        cost, (equal, required * (1 - slack) / unit), upper, (loads, self.capacity)
                    )
                    break
                except UnsolvedError:
                    if slack == SLACKS[-1]:
                        raise
        return x[:-1] * unit, -least * unit, prices
