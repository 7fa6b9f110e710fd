"""The multicommodity optimum: the routing with the smallest maximum link utilisation, with proof.

All flows of one source are one commodity, whatever their sinks: a flow x[s, l] of which each sink
takes its demand. The linear programme therefore has sources * links variables instead of
pairs * links, and the same optimum. Such a flow can be divided among the sinks: at each node, the
flow to a sink came in over the node's links in the proportions of the complete flow.

The proof is a price for each link. If prices y >= 0 are scaled so that the sum of capacity times
price is 1, no routing has a maximum link utilisation below the sum over the pairs of demand times
distance in prices. (The load of a link is at most utilisation times capacity. Multiply by the
prices and add up; every bit pays at least its distance.) The dual solution of the programme gives
prices for which both are equal. Verifying the proof needs shortest paths only (``checker``).

*Water filling* raises all rates in proportion to their demands, over whatever routes are best,
until some pairs can rise no further. Each level is a linear programme: it maximises the common
height t of the pairs that still rise, while the others keep their rates. The prices of the full
links show which pairs are stopped: those whose path has a price. The prices are kept as the proof
(Nace and Pioro 2008 describe the method).
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import block_diag, csr_array, hstack, vstack
from scipy.sparse.csgraph import breadth_first_order

from testbed.arrays import BoolArray, FloatArray
from testbed.errors import UndecidedError
from testbed.routing.demands.checker import FillingLevel, check_fair_rates, paid_distances
from testbed.routing.demands.matrix import DemandMatrix, RoutedDemands, checked, sparse_shares
from testbed.routing.flows.end_points import drop_circulations
from testbed.routing.flows.linear_programs import (
    FAR_FROM_ESTIMATE,
    MAX_ESTIMATES,
    SMALLEST_STEP,
    TOO_SMALL,
    WIDE_RATIO,
    LpSolver,
    UnsolvedError,
    balance_matrix,
    emptiest,
    is_wide,
    scaled_prices,
    solve_lp,
    solve_scaled_lp,
    solving,
)
from testbed.routing.flows.link_graph import LinkGraph
from topologies import lists_by_key

# Relative gap between a routing and its bound below which it counts as proved.
PROVED = 1e-5

# Part of a commodity's flow below which a flow is rounding, in a programme and in a scaled one.
NOTHING = 1e-6
SCALED_NOTHING = 1e-11

# Largest ratio of two rates in one commodity, if rates are far apart.
MAGNITUDE = 1e3

# Largest number of variables of a programme over all links of all sources, which then takes about
# ten seconds. Larger problems are solved by trees.
MAX_WHOLE = 25_000

# Number of trees of each source before the first programme.
FIRST_TREES = 20

# How strongly these trees avoid the fullest links.
EAGERNESS = 20.0

# Part of every price that is inverse to the link's capacity. Of paths that cost the same, the
# wider and shorter one is then chosen.
TIE = 1e-7

# Number of programmes in a row without a better mixture or a better proof, after which rounding is
# assumed to prevent further progress.
MAX_STALLED = 10

# Amount by which a link may exceed its final level while the next levels are computed, relative to
# the first level. It is above the solver's tolerance.
LEVEL_SLACK = 1e-6

# Price of a complete link above which the link counts as full.
_FULL_LINK_PRICE = 1e-7

# Part of a stopped pair's rate that is given up, so that errors within the solver's tolerance do
# not make the next level infeasible.
SLACK = 1e-7

# The solver treats small rates as zero. If it fails, the next slack is tried.
SLACKS = (SLACK, 10 * SLACK, 100 * SLACK)

# The same if demands are far apart, when the solver's tolerances are smaller.
TIGHT_SLACKS = (0.01 * SLACK, 0.1 * SLACK, SLACK)

# Ratio of two capacities beyond which rates can be too far apart for one commodity.
FILLING_RATIO = 100.0

# Price of a complete link, relative to the sum of all prices, above which it is not rounding. The
# solver gives no price to a link that is not full.
PRICED = 1e-13

# Part of the payment of all rising pairs above which a pair counts as stopped.
PAYS = 1e-6


def optimal_demands(matrix: DemandMatrix) -> RoutedDemands:
    """Return the routing with the smallest maximum link utilisation; its ``prices`` prove it.

    The loads of links that are not full are left to the solver (HiGHS).

    Up to MAX_WHOLE variables, the cost is one linear programme of sources * links variables: about
    one second with 50 nodes and 176 links. Beyond, a programme is extended by trees: some seconds
    with 200 nodes.

    Raises:
        NoPathError: A sink cannot be reached.
    """
    problem = DemandProgramme(matrix)
    if problem.columns > MAX_WHOLE:
        flow, prices = flow_by_trees(problem)
    else:
        flow, _, prices = problem.solve(np.full(len(problem.graph.tail), np.nan))
    return RoutedDemands(
        matrix=matrix, method="optimum", shares=problem.shares(flow), prices=problem.scaled(prices)
    )


def fair_demands(matrix: DemandMatrix) -> RoutedDemands:
    """Return the routing with max-min-fair link utilisations.

    The fullest link is as empty as possible, then the next fullest, and so on to the last, as
    capillary routing does it for one pair. A link is final once its price is above 0, because it is
    then full in every optimum. The cost is one programme per level; above some 30 nodes, use
    ``optimal_demands``.

    Raises:
        NoPathError: A sink cannot be reached.
        UndecidedError: The solver's routing cannot be proved to be optimal.
    """
    problem = DemandProgramme(matrix)
    # Utilisation of each final link, nan for the others.
    levels = np.full(len(problem.graph.tail), np.nan)
    flow, utilisation, prices = problem.solve(levels)
    first_utilisation = utilisation
    first_prices = prices
    while utilisation > 10 * LEVEL_SLACK * first_utilisation:
        final = np.isnan(levels) & (prices * problem.capacity > _FULL_LINK_PRICE)
        levels[final] = utilisation + LEVEL_SLACK * first_utilisation
        if not (final.any() and np.isnan(levels).any()):
            break
        flow, utilisation, prices = problem.solve(levels)
    routed = RoutedDemands(
        matrix=matrix,
        method="fair",
        shares=problem.shares(flow),
        prices=problem.scaled(first_prices),
    )
    check = checked(routed)
    if check.utilisation > check.bound * (1 + PROVED):
        raise UndecidedError(
            f"{problem.name}: cannot tell, the solver found no routing of fair utilisation that it "
            f"can prove; the fullest link has {check.utilisation:g}, the bound is {check.bound:g}"
        )
    return routed


@dataclass(frozen=True)
class Commodity:
    """The flow of one source to some of its sinks.

    Attributes:
        source: Position of the source.
        sinks: Positions of the sinks.
        amounts: Demand of each sink.
        pairs: Position of each pair in the demand matrix.
        links: Links that the flow may use.
        first: First of its columns in the programme, one for each of ``links``.
        size: Amount of flow that one unit of its columns stands for.
    """

    source: int
    sinks: Sequence[int]
    amounts: Sequence[float]
    pairs: Sequence[int]
    links: NDArray[np.int64]
    first: int
    size: float


class DemandProgramme:
    """The multicommodity programme of a demand matrix.

    Rates are in units of their mean and capacities in units of the largest, so that the solver's
    tolerances mean the same everywhere. If rates or capacities are far apart (``wide``), each flow
    is in units of its own demand, demands of one source that are far apart are separate
    commodities, and each link is measured by its own capacity.

    Args:
        matrix: The demands.
        rates_bps: Rates of the pairs instead of their demands.
        wide_ratio: Ratio of numbers that are far apart.
    """

    def __init__(
        self,
        matrix: DemandMatrix,
        rates_bps: FloatArray | None = None,
        wide_ratio: float = WIDE_RATIO,
    ) -> None:
        self.matrix = matrix
        self.name = f"network {matrix.network.name!r}, demands {matrix.name!r}"
        self.graph = LinkGraph(matrix.network)
        self.rate_unit = matrix.total_bps / len(matrix.pairs)
        self.rates = (matrix.rates if rates_bps is None else rates_bps) / self.rate_unit
        self.wide = is_wide(self.graph.capacity, matrix.rates, ratio=wide_ratio)
        self.capacity_unit = self.rate_unit if self.wide else float(self.graph.capacity.max())
        self.capacity = self.graph.capacity / self.capacity_unit
        self.commodities = self._commodities()
        last = self.commodities[-1]
        self.columns = last.first + len(last.links)
        self.sizes = np.zeros(self.columns)
        rows = np.zeros(self.columns, dtype=np.int64)
        for commodity in self.commodities:
            end = commodity.first + len(commodity.links)
            self.sizes[commodity.first : end] = commodity.size
            rows[commodity.first : end] = commodity.links
        self.balance, self.required = self._conservation()
        self.loads = csr_array(
            (self.sizes, (rows, np.arange(self.columns))), shape=(len(self.capacity), self.columns)
        )

    def solve(self, levels: FloatArray) -> tuple[FloatArray, float, FloatArray]:
        """Minimise the greatest utilisation of the links whose level is nan.

        Args:
            levels: Utilisation that each other link must not exceed.

        Returns:
            The flow, the utilisation, and the prices of the links.
        """
        with self.solving():
            flow, utilisation, prices = emptiest(
                self.loads,
                self.capacity,
                (self.balance, self.required),
                levels,
                self.estimate() if self.wide else None,
            )
        return flow * self.sizes, utilisation, prices

    def estimate(self) -> float:
        """Return the greatest utilisation if every pair uses its shortest path over wide links."""
        loads = _shortest_trees(self, _amounts(self), 1 / self.capacity).sum(axis=0)
        return float((loads / self.capacity).max())

    def solving(self) -> AbstractContextManager[None]:
        """Return a context in which UnsolvedError becomes UndecidedError."""
        return solving(f"{self.name}: no optimum found")

    def scaled(self, prices: FloatArray | None) -> FloatArray | None:
        """Scale prices so that the sum of price times capacity in bits per second is 1."""
        if prices is None or not prices.sum() > 0:
            return None
        return np.asarray(prices / float(prices @ self.graph.capacity))

    def shares(self, flow: FloatArray) -> object:
        """Return the shares of every pair from the flows of the commodities.

        A pair may have so small a demand that its flow cannot be distinguished from the solver's
        rounding. It uses a shortest path, which loads no link by more than that rounding.

        Args:
            flow: The flows of all commodities, shape (columns,).

        Returns:
            Sparse array of shape (pairs, links).
        """
        negligible = SCALED_NOTHING if self.wide else NOTHING
        weights = 1 / self.capacity if self.wide else np.ones(len(self.capacity))
        direct = self.graph.shortest_paths(weights)
        blocks = []
        pairs: list[int] = []
        for commodity in self.commodities:
            amounts = flow[commodity.first : commodity.first + len(commodity.links)]
            amounts = np.where(amounts > negligible * sum(commodity.amounts), amounts, 0.0)
            rows = sink_shares(self.graph, commodity, amounts)
            for row, sink in zip(rows, commodity.sinks, strict=True):
                if not row.any():
                    row[direct.way(commodity.source, sink)] = 1.0
            blocks.append(sparse_shares(list(rows)))
            pairs += commodity.pairs
        return vstack(blocks, format="csr")[np.argsort(pairs)]

    def _commodities(self) -> list[Commodity]:
        """Return the commodities: one for each source, or several if its rates are far apart."""
        # Raises NoPathError if a sink cannot be reached.
        self.graph.hops(self.matrix.pairs)
        index = self.matrix.network.node_index
        by_source = lists_by_key(
            (index[ends[0]], pair) for pair, ends in enumerate(self.matrix.pairs)
        )
        commodities: list[Commodity] = []
        first = 0
        for source, pairs_of_source in by_source.items():
            links = np.flatnonzero(self.graph.usable_from(source))
            for pairs in self._of_one_magnitude(pairs_of_source):
                sinks = []
                amounts = []
                for pair in pairs:
                    sinks.append(index[self.matrix.pairs[pair][1]])
                    amounts.append(float(self.rates[pair]))
                size = sum(amounts) if self.wide else 1.0
                commodities.append(Commodity(source, sinks, amounts, pairs, links, first, size))
                first += len(links)
        return commodities

    def _of_one_magnitude(self, pairs: Sequence[int]) -> list[list[int]]:
        """Divide the pairs of a source by the size of their rates, if these are far apart."""
        if not self.wide:
            return [list(pairs)]
        groups: list[list[int]] = []
        for pair in sorted(pairs, key=lambda i: float(self.rates[i])):
            if groups and self.rates[pair] <= MAGNITUDE * self.rates[groups[-1][0]]:
                groups[-1].append(pair)
            else:
                groups.append([pair])
        return groups

    def _conservation(self) -> tuple[csr_array, FloatArray]:
        """Return matrix and right side of flow conservation, one row per commodity and node.

        One row of each commodity follows from its other rows, and is not removed.
        """
        tail = self.graph.tail
        head = self.graph.head
        blocks = [
            balance_matrix(self.graph.nodes, tail[commodity.links], head[commodity.links])
            for commodity in self.commodities
        ]
        required = np.zeros((len(blocks), self.graph.nodes))
        for row, commodity in zip(required, self.commodities, strict=True):
            row[commodity.source] = sum(commodity.amounts) / commodity.size
            row[commodity.sinks] -= np.array(commodity.amounts) / commodity.size
        return block_diag(blocks, format="csr"), required.ravel()


class _TreeMixture:
    """Shortest-path trees of all sources, and the programme that finds their best mixture.

    Attributes:
        watched: Mask of the links that limit the mixture. Links are added when a mixture overloads
            them, because few links have a price in the end.
        parts: Part of each tree in its source's flow; trees in the order of their addition.
        utilisation: Maximum utilisation of the watched links.
        prices: Prices of the links from the last programme that had any.
        has_prices: Whether the last programme had any.
    """

    def __init__(self, problem: DemandProgramme) -> None:
        self._problem = problem
        self._amounts = _amounts(problem)
        self._trees = list[csr_array]()
        self._estimate: float | None = None
        self.watched: BoolArray = np.zeros(len(problem.capacity), dtype=bool)
        self.parts: FloatArray = np.zeros(0)
        self.utilisation = 0.0
        self.prices: FloatArray = 1 / problem.capacity
        self.has_prices = False

    def add_first_trees(self) -> None:
        """Add the first trees by multiplicative weights: each avoids the links that are full."""
        capacity = self._problem.capacity
        total = np.zeros(len(capacity))
        for _ in range(FIRST_TREES):
            self.add_trees()
            total += self._trees[-1].sum(axis=0)
            full = total / capacity
            self.prices = np.exp(EAGERNESS * (full / full.max() - 1)) / capacity
        # If capacities are far apart, the first trees do not show which links will be the fullest.
        self.watched = (full > full.max() / 2) | self._problem.wide
        if self._problem.wide:
            self._estimate = float(full.max()) / FIRST_TREES

    def add_trees(self) -> None:
        """Add the tree of each source that is shortest by the prices."""
        self._trees.append(_shortest_trees(self._problem, self._amounts, self.prices))

    def proved_bound(self) -> float:
        """Return the bound that the prices prove, after the trees for them were added."""
        paid = float(self._trees[-1].sum(axis=0) @ self.prices)
        return paid / float(self._problem.capacity @ self.prices)

    def solve(self) -> BoolArray:
        """Find the best mixture of all trees over the watched links, and set the prices.

        The prices remain unchanged if no watched link has one.

        Returns:
            Mask of the links that the mixture loads above the utilisation of the watched links.
        """
        capacity = self._problem.capacity
        sources = len(self._problem.commodities)
        loads = vstack(self._trees, format="csc").T
        complete_mixtures = (
            csr_array(np.tile(np.eye(sources), len(self._trees))),
            np.ones(sources),
        )
        with self._problem.solving():
            self.parts, self.utilisation, dual = emptiest(
                loads.tocsr()[self.watched],
                capacity[self.watched],
                complete_mixtures,
                estimate=self._estimate,
            )
        self.has_prices = bool(dual.any())
        if self.has_prices:
            self.prices = np.zeros(len(capacity))
            self.prices[self.watched] = dual
        return np.asarray(loads @ self.parts > self.utilisation * (1 + TIE) * capacity)

    def flow(self) -> FloatArray:
        """Return the flows of the last mixture, shape (columns,)."""
        commodities = self._problem.commodities
        mixed = np.zeros((len(commodities), len(self._problem.capacity)))
        parts_of_trees = self.parts.reshape(-1, len(commodities))
        # Trees that were added after the last programme are in no mixture.
        for parts, tree in zip(parts_of_trees, self._trees, strict=False):
            mixed += parts[:, None] * tree.toarray()
        return np.concatenate(
            [row[commodity.links] for row, commodity in zip(mixed, commodities, strict=True)]
        )


def flow_by_trees(problem: DemandProgramme) -> tuple[FloatArray, FloatArray]:
    """Find the optimum by column generation (Ford and Fulkerson 1958).

    The flow of each source is a mixture of trees. A programme finds the best mixture of the trees
    so far, over the links that were ever too full, and its prices give the shortest trees. If these
    cost no less than the mixture, the prices prove that the mixture is the optimum.

    Returns:
        The flows of all commodities, shape (columns,), and the prices of the links.
    """
    mixture = _TreeMixture(problem)
    mixture.add_first_trees()
    bound = 0.0
    proof = mixture.prices
    stalled = 0
    while stalled < MAX_STALLED:
        overloaded = mixture.solve()
        if not mixture.has_prices:
            # The trees avoid every watched link, so other links are the fullest.
            mixture.watched |= overloaded
            stalled += 1
            continue
        mixture.add_trees()
        proved = mixture.proved_bound()
        if proved > bound or overloaded.any():
            stalled = 0
        else:
            stalled += 1
        if proved > bound:
            proof = mixture.prices
            bound = proved
        if bound >= mixture.utilisation * (1 - TIE) and not overloaded.any():
            break
        mixture.watched |= overloaded
    return mixture.flow(), proof


def _amounts(problem: DemandProgramme) -> FloatArray:
    """Return the amount that each commodity (rows) sends to each node (columns)."""
    amounts = np.zeros((len(problem.commodities), problem.graph.nodes))
    for row, commodity in zip(amounts, problem.commodities, strict=True):
        np.add.at(row, commodity.sinks, commodity.amounts)
    return amounts


def _shortest_trees(problem: DemandProgramme, amounts: FloatArray, prices: FloatArray) -> csr_array:
    """Return the load of each source's demand on the links over shortest paths.

    Args:
        problem: The programme.
        amounts: Amount that each commodity sends to each node, shape (commodities, nodes).
        prices: Price of each link.

    Returns:
        Sparse array of shape (commodities, links).
    """
    capacity = problem.capacity
    weights = prices / float(prices @ capacity) + TIE / (capacity * capacity.sum())
    distance, before, link = problem.graph.shortest_paths(weights)
    sources = np.array([commodity.source for commodity in problem.commodities])
    rows = np.arange(len(sources))
    loads = np.zeros((len(sources), len(weights)))
    # Amount that passes each node: begin with the farthest node of each tree, and move each node's
    # amount to the node before it.
    passing = amounts.copy()
    farthest_first = np.argsort(-distance[sources], axis=1)
    for node in farthest_first.T:
        loaded = rows[(before[sources, node] >= 0) & (passing[rows, node] > 0)]
        loaded_node = node[loaded]
        previous = before[sources[loaded], loaded_node]
        amount = passing[loaded, loaded_node]
        loads[loaded, link[previous, loaded_node]] += amount
        passing[loaded, previous] += amount
    return csr_array(loads)


def sink_shares(graph: LinkGraph, sent: Commodity, flow: FloatArray) -> FloatArray:
    """Divide the flow of one commodity among its sinks.

    Circulations are removed first. Flow from a node that the source does not reach is then
    rounding, and is removed too. For every sink, the flow through a node came in over the node's
    links in the proportions of the complete flow. Therefore one walk against the flow finds all
    shares, and each sink's shares are complete in spite of any rounding.

    Args:
        graph: The network.
        sent: The commodity.
        flow: Flow on each of the commodity's links.

    Returns:
        The share of each sink's flow on each link, shape (sinks, links of the network).
    """
    links = sent.links
    sinks = sent.sinks
    tail = graph.tail[links].tolist()
    head = graph.head[links].tolist()
    amounts = _reachable_flow(graph, sent.source, tail, head, flow.tolist())
    shares = np.zeros((len(sinks), len(graph.tail)))
    # Share of each sink's flow that passes each node.
    passing = np.zeros((len(sinks), graph.nodes))
    passing[np.arange(len(sinks)), sinks] = 1.0
    entering: dict[int, list[int]] = {}
    # Number of loaded links out of each node that have not been walked yet.
    unwalked = np.zeros(graph.nodes, dtype=np.int64)
    for i, amount in enumerate(amounts):
        if amount:
            entering.setdefault(head[i], []).append(i)
            unwalked[tail[i]] += 1
    ready = np.flatnonzero(unwalked == 0).tolist()
    while ready:
        node = ready.pop()
        entering_node = entering.get(node, [])
        total = sum(amounts[i] for i in entering_node)
        for i in entering_node:
            shares[:, links[i]] = passing[:, node] * (amounts[i] / total)
            passing[:, tail[i]] += shares[:, links[i]]
            unwalked[tail[i]] -= 1
            if not unwalked[tail[i]]:
                ready.append(tail[i])
    return shares


def _reachable_flow(
    graph: LinkGraph, source: int, tail: list[int], head: list[int], amounts: list[float]
) -> list[float]:
    """Remove circulations, and all flow from nodes that the source does not reach.

    Args:
        graph: The network.
        source: Position of the source.
        tail: Node from which each link leads.
        head: Node to which each link leads.
        amounts: Flow on each link; changed in place.
    """
    drop_circulations(graph.nodes, tail, head, amounts)
    loaded = csr_array((amounts, (tail, head)), shape=(graph.nodes, graph.nodes))
    loaded.eliminate_zeros()
    reached = breadth_first_order(loaded, source, return_predecessors=False)
    reachable: list[float] = np.where(np.isin(tail, reached), amounts, 0.0).tolist()
    return reachable


@dataclass(frozen=True, kw_only=True)
class FairRates:
    """Max-min-fair rates.

    Attributes:
        routed: A routing of the rates.
        rates_bps: Rate of each pair in bits per second, shape (pairs,). The routing overloads no
            link with them.
        levels: The levels, which prove that the rates are max-min fair.
    """

    routed: RoutedDemands
    rates_bps: FloatArray
    levels: tuple[FillingLevel, ...]


def water_filling(matrix: DemandMatrix) -> FairRates:
    """Return the max-min-fair ratios of rate to demand over all routings, and such a routing.

    Rates may exceed the demands. The first level is the inverse of the optimum's maximum link
    utilisation. The cost is a programme of sources * links variables per level, with at most as
    many levels as pairs, so this is for some 20 nodes.

    Raises:
        NoPathError: A sink cannot be reached.
        UndecidedError: The rates cannot be proved.
    """
    programme = DemandProgramme(matrix, wide_ratio=FILLING_RATIO)
    # Ratio of rate to demand of each stopped pair, nan for the others.
    height = np.full(len(matrix.pairs), np.nan)
    levels: list[FillingLevel] = []
    while np.isnan(height).any():
        programme, flow, reached, worth = _rise(programme, height)
        rising = np.isnan(height)
        stopped = rising & _stopped(programme, rising, worth)
        if not stopped.any():
            raise UndecidedError(
                f"{programme.name}: cannot tell, the solver's prices stop no pair at {reached:g}"
            )
        height[stopped] = reached
        if programme.wide:
            prices = scaled_prices(worth, programme.capacity)
        else:
            prices = worth / programme.capacity
        stopped_pairs = tuple(np.flatnonzero(stopped).tolist())
        levels.append(FillingLevel(height=reached, pairs=stopped_pairs, prices=prices))
    routed = RoutedDemands(
        matrix=matrix,
        method="max-min",
        shares=programme.shares(flow),
        prices=programme.scaled(levels[0].prices),
    )
    rates_bps = height * (1 - SLACK) * matrix.rates
    fair = FairRates(routed=routed, rates_bps=rates_bps, levels=tuple(levels))
    if programme.wide:
        _require_proof(fair, programme)
    return fair


def _stopped(programme: DemandProgramme, rising: BoolArray, worth: FloatArray) -> BoolArray:
    """Return a mask of the pairs that the prices stop.

    Args:
        programme: The programme of the level.
        rising: Mask of the pairs that rose at this level.
        worth: Price of each complete link.
    """
    matrix = programme.matrix
    if programme.wide:
        return _cut_off(programme, worth > PRICED * worth.sum())
    prices = np.maximum(worth / programme.capacity, 0.0).tolist()
    paid = matrix.rates * np.array(paid_distances(matrix.network, matrix.demands, prices))
    return np.asarray(paid > PAYS * paid[rising].sum())


def _cut_off(programme: DemandProgramme, full: BoolArray) -> BoolArray:
    """Return a mask of the pairs whose every path has a link that is full or far too small.

    If demands are far apart, the payment of a pair does not show this: a small pair pays almost
    nothing compared with a large one on the same link.

    Args:
        programme: The programme of the level.
        full: Mask of the full links.
    """
    stopped = np.zeros(len(programme.matrix.pairs), dtype=bool)
    for commodity in programme.commodities:
        closed = full | (commodity.size > TOO_SMALL * programme.capacity)
        # A path without a closed link is shorter than 1.
        weights = np.where(closed, 1.0, 1 / (len(closed) + 1.0))
        distance = programme.graph.shortest_paths(weights).distance
        stopped[list(commodity.pairs)] = distance[commodity.source, list(commodity.sinks)] >= 1
    return stopped


def _require_proof(fair: FairRates, programme: DemandProgramme) -> None:
    """Raise UndecidedError unless prices prove the rates and the routing carries them."""
    matrix = fair.routed.matrix
    faults = check_fair_rates(matrix.network, matrix.demands, fair.levels, both_directions=True)
    # The shares are fractions of each pair's flow, so they apply to any rates.
    utilisation = (fair.routed.shares.T @ fair.rates_bps) / programme.graph.capacity
    if utilisation.max() > 1 + PROVED:
        faults.append(f"the routing fills a link to {utilisation.max():g} of its capacity")
    if faults:
        raise UndecidedError(
            f"{programme.name}: cannot tell, the solver cannot prove fair rates ({faults[0]})"
        )


def _rise(
    programme: DemandProgramme, height: FloatArray
) -> tuple[DemandProgramme, FloatArray, float, FloatArray]:
    """Raise the pairs whose height is nan together, while the others keep theirs.

    If numbers are far apart, the programme is scaled by an estimate of the new height, and solved
    again with a better estimate if the result is far from it.

    Args:
        programme: The programme of the previous level.
        height: Ratio of rate to demand of each stopped pair.

    Returns:
        The programme in the units that were used, the flow, the height, and the price of each
        complete link.
    """
    matrix = programme.matrix
    rising = np.isnan(height)
    with solving(f"{programme.name}: no fair rates found"):
        if not programme.wide:
            return (programme, *_raised(programme, height, SLACKS))
        reached = height[~rising]
        estimate = float(reached.max()) if len(reached) else 1 / programme.estimate()
        for attempt in range(MAX_ESTIMATES):
            rates = np.where(rising, estimate, height) * matrix.rates
            programme = DemandProgramme(matrix, rates, FILLING_RATIO)
            try:
                flow, relative, worth = _raised(programme, height, TIGHT_SLACKS)
            except UnsolvedError:
                if attempt == MAX_ESTIMATES - 1:
                    raise
                # The estimate was probably too small for the solver's tolerances.
                relative = FAR_FROM_ESTIMATE
            if 1 / FAR_FROM_ESTIMATE < relative < FAR_FROM_ESTIMATE:
                break
            estimate *= max(relative, SMALLEST_STEP)
    return programme, flow, relative * estimate, worth


def _raised(
    programme: DemandProgramme, height: FloatArray, slacks: Sequence[float]
) -> tuple[FloatArray, float, FloatArray]:
    """Solve the programme of one level.

    Args:
        programme: The programme.
        height: Ratio of rate to demand of each stopped pair, nan for the others.
        slacks: Parts of the stopped pairs' rates that are given up; each is tried if the solver
            fails with the previous one.

    Returns:
        The flow, the height (in units of the rates of a wide programme), and the price of each
        complete link.
    """
    unit = programme.capacity_unit / programme.rate_unit
    column, required = _conservation_of_level(programme, height, unit)
    # The last variable is the height.
    equal = hstack([programme.balance, csr_array(-column[:, None])], format="csr")
    loads = hstack([programme.loads, csr_array((len(programme.capacity), 1))], format="csr")
    limit = programme.capacity
    solve: LpSolver = solve_lp
    if programme.wide:
        loads = csr_array(loads / limit[:, None])
        limit = np.ones(len(limit))
        solve = solve_scaled_lp
    cost = np.zeros(programme.columns + 1)
    cost[-1] = -1.0
    upper = np.full(programme.columns + 1, np.inf)
    for slack in slacks:
        try:
            x, minimum, prices = solve(cost, (equal, required * (1 - slack)), upper, (loads, limit))
            break
        except UnsolvedError:
            if slack == slacks[-1]:
                raise
    if programme.wide:
        return x[:-1] * programme.sizes, -minimum, prices
    return x[:-1] * unit, -minimum * unit, prices * programme.capacity


def _conservation_of_level(
    programme: DemandProgramme, height: FloatArray, unit: float
) -> tuple[FloatArray, FloatArray]:
    """Return what each node sends per unit of the height, and what it sends in any case.

    Args:
        programme: The programme.
        height: Ratio of rate to demand of each stopped pair, nan for the others.
        unit: Capacity unit over rate unit.

    Returns:
        Two vectors with one entry per commodity and node.
    """
    rising = np.isnan(height)
    per_height = np.zeros(len(programme.required))
    fixed = np.zeros(len(programme.required))
    for number, commodity in enumerate(programme.commodities):
        start = number * programme.graph.nodes
        pairs = zip(commodity.pairs, commodity.sinks, commodity.amounts, strict=True)
        for pair, sink, amount in pairs:
            target = per_height if rising[pair] else fixed
            size = amount / commodity.size
            if not (programme.wide or rising[pair]):
                size *= height[pair] / unit
            target[start + commodity.source] += size
            target[start + sink] -= size
    return per_height, fixed
