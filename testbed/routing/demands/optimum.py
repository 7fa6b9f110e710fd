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
# Of a commodity's flow: what is below is the rounding of a scaled programme.
SCALED_NOTHING = 1e-11
# Ratio of the rates that one commodity has at most, if rates are far apart.
MAGNITUDE = 1e3
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
        flow, _, prices = problem.solve(np.full(len(problem.graph.tail), np.nan))
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
    levels = np.full(len(problem.graph.tail), np.nan)
    flow, greatest, prices = problem.solve(levels)
    first = greatest
    proof = prices
    while greatest > 10 * LEVEL_SLACK * first:
        final = np.isnan(levels) & (prices * problem.capacity > 1e-7)
        levels[final] = greatest + LEVEL_SLACK * first
        if not (final.any() and np.isnan(levels).any()):
            break
        flow, greatest, prices = problem.solve(levels)
    routed = RoutedDemands(
        matrix=matrix, method="fair", shares=problem.shares(flow), prices=problem.scaled(proof)
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
        links: Links that the flow may take.
        first: First of its columns in the programme, one for each of ``links``.
        size: The flow that one unit of its columns stands for.
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
        self.sizes = np.repeat(
            [commodity.size for commodity in self.commodities],
            [len(commodity.links) for commodity in self.commodities],
        )
        self.balance, self.required = self._conservation()
        rows = np.concatenate([commodity.links for commodity in self.commodities])
        self.loads = csr_array(
            (self.sizes, (rows, np.arange(self.columns))), shape=(len(self.capacity), self.columns)
        )

    def solve(self, levels: FloatArray) -> tuple[FloatArray, float, FloatArray]:
        """Minimise the greatest utilisation of the links whose level is nan.

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
        """Return the greatest utilisation if every pair takes its shortest path over wide links."""
        loads = _shortest_trees(self, _amounts(self), 1 / self.capacity).sum(axis=0)
        return float((loads / self.capacity).max())

    def solving(self) -> AbstractContextManager[None]:
        """Return a context in which UnsolvedError becomes UndecidedError."""
        return solving(f"{self.name}: no optimum found")

    def scaled(self, prices: FloatArray | None) -> FloatArray | None:
        """Prices whose sum times the capacities in bits a second is 1."""
        if prices is None or not prices.sum() > 0:
            return None
        return np.asarray(prices / float(prices @ self.graph.capacity))

    def shares(self, flow: FloatArray) -> object:
        """The shares of every pair that the flows of their sources come to. A pair of so small a demand that its flow
        cannot be distinguished from the solver's rounding takes a shortest path, which loads no link by more than that
        rounding."""
        found = []
        weights = 1 / self.capacity if self.wide else np.ones(len(self.capacity))
        direct = self.graph.shortest_paths(weights)
        for commodity in self.commodities:
            amounts = flow[commodity.first : commodity.first + len(commodity.links)]
            least = SCALED_NOTHING if self.wide else NOTHING
            amounts = np.where(amounts > least * sum(commodity.amounts), amounts, 0.0)
            rows = sink_shares(self.graph, commodity, amounts)
            for row, sink in zip(rows, commodity.sinks, strict=True):
                if not row.any():
                    row[direct.way(commodity.source, sink)] = 1.0
            found.append(sparse_shares(list(rows)))
        return vstack(found, format="csr")[
            np.argsort([pair for commodity in self.commodities for pair in commodity.pairs])
        ]

    def _commodities(self) -> list[Commodity]:
        self.graph.hops(self.matrix.pairs)
        index = self.matrix.network.node_index
        by_source = lists_by_key(
            (index[ends[0]], pair) for pair, ends in enumerate(self.matrix.pairs)
        )
        found: list[Commodity] = []
        first = 0
        for source, of_source in by_source.items():
            links = np.flatnonzero(self.graph.usable_from(source))
            for pairs in self._of_one_magnitude(of_source):
                sinks = [index[self.matrix.pairs[pair][1]] for pair in pairs]
                amounts = [float(self.rates[pair]) for pair in pairs]
                size = sum(amounts) if self.wide else 1.0
                found.append(Commodity(source, sinks, amounts, pairs, links, first, size))
                first += len(links)
        return found

    def _of_one_magnitude(self, pairs: Sequence[int]) -> list[list[int]]:
        """Part the pairs of a source by the size of their rates, if these are far apart."""
        if not self.wide:
            return [list(pairs)]
        groups: list[list[int]] = []
        for pair in sorted(pairs, key=lambda at: float(self.rates[at])):
            if groups and self.rates[pair] <= MAGNITUDE * self.rates[groups[-1][0]]:
                groups[-1].append(pair)
            else:
                groups.append([pair])
        return groups

    def _conservation(self) -> tuple[csr_array, FloatArray]:
        """Row (commodity, node): what leaves less what enters; one row of each commodity follows from the others and
        stays."""
        tail, head = self.graph.tail, self.graph.head
        parts = [
            balance_matrix(self.graph.nodes, tail[commodity.links], head[commodity.links])
            for commodity in self.commodities
        ]
        required = np.zeros((len(parts), self.graph.nodes))
        for row, commodity in zip(required, self.commodities, strict=True):
            row[commodity.source] = sum(commodity.amounts) / commodity.size
            row[commodity.sinks] -= np.array(commodity.amounts) / commodity.size
        return block_diag(parts, format="csr"), required.ravel()


def flow_by_trees(problem: DemandProgramme) -> tuple[FloatArray, FloatArray]:
    """(flow, prices) of the optimum by column generation (Ford and Fulkerson 1958): each source's flow is a mixture of
    trees.

    A programme finds the best mixture of the trees known, over the links that were ever too full, and its prices the
    shortest trees; where these cost no less
    than the mixture, the prices prove it the optimum. Few links have a price in the end, so few trees are needed. The
    first ones come from multiplicative weights: each round avoids what the rounds before have filled.
    """
    capacity = problem.capacity
    sources = len(problem.commodities)
    links = len(capacity)
    amounts = _amounts(problem)
    trees, total = list[csr_array](), np.zeros(links)
    prices: FloatArray = 1 / capacity
    for _ in range(FIRST_TREES):
        trees.append(_shortest_trees(problem, amounts, prices))
        total += trees[-1].sum(axis=0)
        full = total / capacity
        prices = np.exp(EAGERNESS * (full / full.max() - 1)) / capacity
    # If capacities are far apart, the first trees do not tell which links will be the fullest.
    watched = (full > full.max() / 2) | problem.wide
    proof = prices
    bound = 0.0
    stalled = 0
    estimate = float(full.max()) / FIRST_TREES if problem.wide else None
    while stalled < MAX_STALLED:
        loads = vstack(trees, format="csc").T
        equal = csr_array(np.tile(np.eye(sources), len(trees))), np.ones(sources)
        with problem.solving():
            parts, least, dual = emptiest(
                loads.tocsr()[watched], capacity[watched], equal, estimate=estimate
            )
        over = loads @ parts > least * (1 + TIE) * capacity
        if not dual.any():
            # The trees avoid every watched link, so others are the fullest.
            watched |= over
            stalled += 1
            continue
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
        [row[commodity.links] for row, commodity in zip(mixed, problem.commodities, strict=True)]
    ), proof


def _amounts(problem: DemandProgramme) -> FloatArray:
    """Return what each commodity (rows) sends to each node (columns)."""
    amounts = np.zeros((len(problem.commodities), problem.graph.nodes))
    for row, commodity in zip(amounts, problem.commodities, strict=True):
        np.add.at(row, commodity.sinks, commodity.amounts)
    return amounts


def _shortest_trees(problem: DemandProgramme, amounts: FloatArray, prices: FloatArray) -> csr_array:
    """What each source's demand loads the links with over shortest paths, shape (sources, links); ``amounts``
    (sources, nodes)."""
    graph = problem.graph
    weights = prices / float(prices @ problem.capacity) + TIE / (
        problem.capacity * problem.capacity.sum()
    )
    distance, before, link = graph.shortest_paths(weights)
    sources = np.array([commodity.source for commodity in problem.commodities])
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
# Capacities this far apart make rates so far apart that one commodity cannot have them.
FILLING_RATIO = 100.0
# The solver's tolerances are smaller if demands are far apart.
TIGHT_SLACKS = (0.01 * SLACK, 0.1 * SLACK, SLACK)
# Worth of a link, of 1 for all links together, above which it is no rounding: the solver prices
# no link that is not full.
PRICED = 1e-13
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
    links variables a level, and up to as many levels as pairs: for some 20 nodes. Raises NoPathError, and
    UndecidedError if the rates cannot be proved.
    """
    programme = DemandProgramme(matrix, wide_ratio=FILLING_RATIO)
    height = np.full(len(matrix.pairs), np.nan)
    levels: list[FillingLevel] = []
    while np.isnan(height).any():
        programme, flow, reached, worth = _rise(programme, height)
        prices = worth / programme.capacity
        if programme.wide:
            prices = scaled_prices(worth, programme.capacity)
        stopped = np.isnan(height) & _stopped(programme, np.isnan(height), worth)
        if not stopped.any():
            raise UndecidedError(
                f"{programme.name}: cannot tell, the solver's prices stop no pair at {reached:g}"
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
    fair = FairRates(
        routed=routed, rates_bps=height * (1 - SLACK) * matrix.rates, levels=tuple(levels)
    )
    if programme.wide:
        _require_proof(fair, programme)
    return fair


def _stopped(programme: DemandProgramme, rising: BoolArray, worth: FloatArray) -> BoolArray:
    """Return a mask of the pairs that the prices of the whole links stop."""
    matrix = programme.matrix
    if programme.wide:
        return _cut_off(programme, worth > PRICED * worth.sum())
    positive = [max(0.0, float(price)) for price in worth / programme.capacity]
    paid = matrix.rates * np.array(paid_distances(matrix.network, matrix.demands, positive))
    return np.asarray(paid > PAYS * paid[rising].sum())


def _cut_off(programme: DemandProgramme, full: BoolArray) -> BoolArray:
    """Return a mask of the pairs whose every path has a link that is full or far too small.

    What a pair pays does not tell if demands are far apart: a small one pays next to nothing beside
    a large one on the same link.
    """
    stopped = np.zeros(len(programme.matrix.pairs), dtype=bool)
    for commodity in programme.commodities:
        closed = full | (commodity.size > TOO_SMALL * programme.capacity)
        weights = np.where(closed, 1.0, 1 / (len(closed) + 1.0))
        distance = programme.graph.shortest_paths(weights).distance
        stopped[list(commodity.pairs)] = distance[commodity.source, list(commodity.sinks)] >= 1
    return stopped


def _require_proof(fair: FairRates, programme: DemandProgramme) -> None:
    """Raise UndecidedError unless prices prove the rates and the routing carries them."""
    matrix = fair.routed.matrix
    faults = check_fair_rates(matrix.network, matrix.demands, fair.levels, both_directions=True)
    # The routing's shares are of each pair's flow, whatever its rate.
    used = (fair.routed.shares.T @ fair.rates_bps) / programme.graph.capacity
    if used.max() > 1 + PROVED:
        faults.append(f"the routing fills a link to {used.max():g} of its capacity")
    if faults:
        raise UndecidedError(
            f"{programme.name}: cannot tell, the solver cannot prove fair rates ({faults[0]})"
        )


def _rise(
    programme: DemandProgramme, height: FloatArray
) -> tuple[DemandProgramme, FloatArray, float, FloatArray]:
    """Raise the pairs whose height is nan together, while the others keep theirs.

    Returns:
        The programme in the units that were used, the flow, the height, and what each link is
        worth as a whole.
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
                flow, relative, prices = _raised(programme, height, TIGHT_SLACKS)
            except UnsolvedError:
                if attempt == MAX_ESTIMATES - 1:
                    raise
                relative = FAR_FROM_ESTIMATE
            if 1 / FAR_FROM_ESTIMATE < relative < FAR_FROM_ESTIMATE:
                break
            estimate *= max(relative, SMALLEST_STEP)
    return programme, flow, relative * estimate, prices


def _raised(
    programme: DemandProgramme, height: FloatArray, slacks: Sequence[float]
) -> tuple[FloatArray, float, FloatArray]:
    """Solve the programme of one level.

    Returns:
        The flow, the height (in units of the rates of a wide programme), and the links' worths.
    """
    unit = programme.capacity_unit / programme.rate_unit
    rising = np.isnan(height)
    column = np.zeros(len(programme.required))
    required = np.zeros(len(programme.required))
    for at, commodity in enumerate(programme.commodities):
        start = at * programme.graph.nodes
        for pair, sink, amount in zip(
            commodity.pairs, commodity.sinks, commodity.amounts, strict=True
        ):
            target = column if rising[pair] else required
            size = amount / commodity.size
            if not (programme.wide or rising[pair]):
                size *= height[pair] / unit
            target[start + commodity.source] += size
            target[start + sink] -= size
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
        # The solver takes small rates for nothing; the next slack helps then.
        try:
            x, least, prices = solve(cost, (equal, required * (1 - slack)), upper, (loads, limit))
            break
        except UnsolvedError:
            if slack == slacks[-1]:
                raise
    if programme.wide:
        return x[:-1] * programme.sizes, -least, prices
    return x[:-1] * unit, -least * unit, prices * programme.capacity
