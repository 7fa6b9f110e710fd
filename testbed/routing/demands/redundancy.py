"""The redundancy that all pairs of a demand matrix need together.

The total ROR is the sum of Gabrielyan 2007, equations 23 to 29, over the pairs. Links that every
route of a pair must load fully (bridges between its ends) are omitted, because no routing can avoid
them. A pair is *exposed* if all of its flow is on a link that it could avoid; its ROR is infinite.

``least_ror_demands`` finds, of all routings whose fullest link stays below a limit, the one with
the least redundancy. A link that carries the share r of a pair's flow costs that pair
(1 - t) / (1 - r) - 1 of redundancy (equation 29, large blocks), which is convex in r. This cost is
replaced by the maximum of some of its tangents, which is below it and consists of straight
segments. Each share is divided into one variable per segment. The variables have rising costs, so a
linear programme fills them in order. The optimum of the programme is a lower bound of the
redundancy of every routing within the limit. The true cost of its shares is the result.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array, diags_array, eye_array, kron
from scipy.special import betaincinv

from fec import fec_block_size
from fec.redundancy.labels import LABELS
from testbed.arrays import FloatArray
from testbed.errors import UndecidedError
from testbed.routing.demands.matrix import DemandMatrix, RoutedDemands, sparse_shares
from testbed.routing.demands.per_pair import capillary_demands
from testbed.routing.flows.end_points import exact_route, flow_problem
from testbed.routing.flows.linear_programs import (
    LpSolver,
    UnsolvedError,
    balance_matrix,
    is_wide,
    solve_lp,
    solve_scaled_lp,
)
from testbed.routing.flows.link_graph import LinkGraph
from testbed.routing.redundancy.coding import Coding
from testbed.routing.redundancy.least_fec import SHARE_CAP, overhead
from testbed.routing.redundancy.route_ror import route_breakdown

# A larger share counts as 1, because the other paths would not get even one of the labels.
WHOLE = 1 - 1 / LABELS

# Number of block sizes in the table; larger ones are computed one by one.
TABLE = 400

# Loads this close to the limit of a block size are decided by exact arithmetic.
_NEAR_LIMIT = 1e-9

# Shares at which equation 29 has a tangent, besides the tolerance. They are denser near 1, where
# the curve is steep.
TANGENTS = (
    *(0.12, 0.19, 0.26, 0.33, 0.4, 0.48, 0.56, 0.64),
    *(0.72, 0.8, 0.87, 0.92, 0.955, 0.975, 0.99, 0.997),
)

# Additional cost per unit of share. It makes longer paths and circulations more expensive.
SHORTER = 1e-6


@dataclass(frozen=True, kw_only=True)
class TotalRor:
    """The ROR of all pairs.

    Attributes:
        per_pair: ROR of each pair, shape (pairs,); infinite for exposed pairs.
        rates: Demand of each pair in bits per second, shape (pairs,).
    """

    per_pair: FloatArray
    rates: FloatArray

    @property
    def exposed(self) -> int:
        """Number of pairs with all of their flow on a link that they could avoid."""
        return int(np.isinf(self.per_pair).sum())

    @property
    def total(self) -> float:
        """Sum over all pairs; infinite if a pair is exposed."""
        return float(self.per_pair.sum())

    @property
    def of_others(self) -> float:
        """Sum over the pairs that are not exposed."""
        return float(self.per_pair[np.isfinite(self.per_pair)].sum())

    @property
    def weighted(self) -> float:
        """Mean over all pairs, weighted by their demands; infinite if a pair is exposed.

        It is the number of packets that failures add, per packet sent (equations 21 and 22).
        """
        return float((self.per_pair * self.rates).sum() / self.rates.sum())


def unavoidable_links(capillary: RoutedDemands) -> csr_array:
    """Return the links that each pair must load fully, whatever its route.

    Args:
        capillary: The capillary routes of all pairs. They load a link fully only if every route
            must.

    Returns:
        Sparse array of shape (pairs, links) with 1 for each such link.
    """
    forced = capillary.shares.copy()
    forced.data = (forced.data > WHOLE).astype(np.float64)
    forced.eliminate_zeros()
    return forced


def total_ror(routed: RoutedDemands, coding: Coding, forced: csr_array | None = None) -> TotalRor:
    """Return the ROR of each pair for its routing, without forced links.

    Block sizes are those of equation 25 for random labels, and of equation 29 for large blocks. For
    stratified labels they are exact, over the label intervals that switches would get. The
    intervals are computed for every pair that is not exposed. This takes up to 0.2 s per pair,
    unless another pair has the same intervals.

    Args:
        routed: The routing.
        coding: How each pair's stream is coded.
        forced: The result of ``unavoidable_links``; computed if it is None.
    """
    if forced is None:
        forced = unavoidable_links(capillary_demands(routed.matrix))
    if coding.labels == "stratified":
        per_pair = _stratified_rors(routed, forced, coding)
        return TotalRor(per_pair=per_pair, rates=routed.matrix.rates)
    shares = csr_array(routed.shares - routed.shares.multiply(forced))
    load = shares.data
    cost = np.zeros(len(load))
    counted = (load >= coding.tolerance) & (load <= WHOLE)
    cost[counted] = _overheads(load[counted], coding)
    cost[load > WHOLE] = np.inf
    pairs = shares.shape[0]
    pair_of_share = np.repeat(np.arange(pairs), np.diff(shares.indptr))
    sums = np.bincount(pair_of_share, weights=cost, minlength=pairs)
    return TotalRor(per_pair=np.asarray(sums, dtype=np.float64), rates=routed.matrix.rates)


def _overheads(load: FloatArray, coding: Coding) -> FloatArray:
    """Return FEC_r / FEC_t - 1 of each load; by equation 29 for large blocks.

    Args:
        load: Loads from the tolerance to below 1.
        coding: How the stream is coded.
    """
    if coding.large_blocks:
        return np.asarray((1 - coding.tolerance) / (1 - load) - 1)
    source_packets = coding.source_packets
    error_rate = coding.decoding_error_rate
    sizes = np.arange(source_packets, source_packets + TABLE)
    # Largest loss that each block size tolerates.
    limits = betaincinv(sizes - source_packets + 1, source_packets, error_rate)
    row = np.searchsorted(limits, load)
    distance_above = np.abs(limits[np.minimum(row, TABLE - 1)] - load)
    distance_below = np.abs(limits[np.maximum(row - 1, 0)] - load)
    near_limit = np.minimum(distance_above, distance_below) < _NEAR_LIMIT
    block_size = (source_packets + row).astype(np.float64)
    # Loads beyond the table, and loads too close to a limit for floats, are computed exactly.
    for i in np.flatnonzero((row >= TABLE) | near_limit).tolist():
        block_size[i] = fec_block_size(source_packets, round(float(load[i]), 12), error_rate)
    base = fec_block_size(source_packets, coding.tolerance, error_rate)
    return np.asarray(np.maximum(block_size / base - 1, 0.0))


def _stratified_rors(routed: RoutedDemands, forced: csr_array, coding: Coding) -> FloatArray:
    """Return the ROR of each pair for stratified labels, shape (pairs,)."""
    network = routed.matrix.network
    rors = []
    for pair, (source, sink) in enumerate(routed.matrix.pairs):
        shares = routed.pair_shares(pair)
        forced_links = set(forced[[pair], :].indices.tolist())
        full_links = set(np.flatnonzero(shares > WHOLE).tolist())
        if full_links - forced_links:
            # The pair is exposed, so the order of its labels does not matter.
            rors.append(float("inf"))
            continue
        problem = flow_problem(network, source, sink)
        flow = shares[list(problem.links)].tolist()
        route = exact_route(problem, routed.method, flow, negligible=1e-6)
        terms = route_breakdown(route, coding).per_load
        ror = 0.0
        for link, term in zip(route.loaded, terms, strict=True):
            if link in forced_links:
                continue
            ror += np.inf if term.overhead is None else float(term.overhead)
        rors.append(ror)
    return np.array(rors)


@dataclass(frozen=True, kw_only=True)
class LeastRor:
    """A routing of minimum total ROR.

    Attributes:
        routed: The routing.
        ror: Its total ROR by equation 29, without forced links.
        bound: No routing within the limit has a smaller ROR, as long as it has shares of at most
            SHARE_CAP on links that are not forced.
    """

    routed: RoutedDemands
    ror: float
    bound: float


def least_ror_demands(
    matrix: DemandMatrix,
    forced: csr_array,
    most_utilisation: float = np.inf,
    tolerance: float = 0.05,
) -> LeastRor | None:
    """Return the routing of minimum total ROR (equation 29) within a maximum link utilisation.

    The programme has pairs * links * 18 variables: 272 pairs over 52 links take some seconds.

    Args:
        matrix: The demands.
        forced: The result of ``unavoidable_links``.
        most_utilisation: Maximum link utilisation.
        tolerance: Static tolerance.

    Returns:
        The routing, or None if no routing stays within the maximum.

    Raises:
        UndecidedError: The solver fails, or reports that no routing exists although rates and
            capacities are so different that this may be a rounding error.
    """
    programme = _LeastRorProgramme(matrix, forced, tolerance)
    return programme.solve(most_utilisation)


class _LeastRorProgramme:
    """The linear programme of minimum total ROR.

    Its variables are the parts of the shares, one for each pair, link and segment.
    """

    def __init__(self, matrix: DemandMatrix, forced: csr_array, tolerance: float) -> None:
        self._matrix = matrix
        self._tolerance = tolerance
        self._graph = LinkGraph(matrix.network)
        self._wide = is_wide(self._graph.capacity, matrix.rates)
        widths, slopes = segments(tolerance)
        self._segments = len(widths)
        # Shape (pairs, links).
        self._forced = forced.toarray() > 0
        usable = np.array(
            [self._graph.usable(*self._graph.positions(pair)) for pair in matrix.pairs]
        )
        # Shape (pairs, links, segments).
        forced_parts = self._forced[:, :, None]
        largest_part = np.where(forced_parts, 1.0, widths)
        self._upper = np.where(usable[:, :, None], largest_part, 0.0)
        self._cost = np.where(forced_parts, 0.0, slopes) + SHORTER

    def solve(self, most_utilisation: float) -> LeastRor | None:
        """Solve the programme for a maximum link utilisation, as ``least_ror_demands`` does."""
        at_most = self._capacity_limits(most_utilisation)
        solve: LpSolver = solve_scaled_lp if at_most is not None and self._wide else solve_lp
        try:
            x, cost, _ = solve(
                self._cost.ravel(), self._conservation(), self._upper.ravel(), at_most
            )
        except UnsolvedError as error:
            # With numbers far apart, rounding can make a feasible problem infeasible.
            if "nfeasible" in str(error) and not self._wide:
                return None
            raise UndecidedError(
                f"network {self._matrix.network.name!r}: least redundancy not found: cannot tell, "
                f"the solver failed ({error})"
            ) from None
        parts = x.reshape(*self._forced.shape, self._segments)
        shares = np.clip(parts.sum(axis=2), 0.0, 1.0)
        ror = float(np.where(self._forced, 0.0, overhead(shares, self._tolerance)).sum())
        bound = max(0.0, cost - SHORTER * float(x.sum()))
        routed = RoutedDemands(
            matrix=self._matrix,
            method="least-ror",
            shares=sparse_shares(list(shares), 1e-9),
            limit=most_utilisation if np.isfinite(most_utilisation) else None,
        )
        return LeastRor(routed=routed, ror=ror, bound=min(ror, bound))

    def _conservation(self) -> tuple[csr_array, FloatArray]:
        """Return matrix and right side of flow conservation for all pairs."""
        graph = self._graph
        pairs = self._matrix.pairs
        balance = balance_matrix(graph.nodes, graph.tail, graph.head)
        of_one_pair = kron(balance, np.ones((1, self._segments)))
        matrix = kron(eye_array(len(pairs)), of_one_pair, format="csr")
        required = np.zeros((len(pairs), graph.nodes))
        for row, pair in zip(required, pairs, strict=True):
            source, sink = graph.positions(pair)
            row[source] = 1.0
            row[sink] = -1.0
        return matrix, required.ravel()

    def _capacity_limits(self, most_utilisation: float) -> tuple[csr_array, FloatArray] | None:
        """Return matrix and right side of the links' limits, or None if they are unlimited."""
        if not np.isfinite(most_utilisation):
            return None
        capacity = self._graph.capacity
        limit = most_utilisation * capacity
        if self._wide:
            unit = limit
        else:
            unit = np.full(len(capacity), self._matrix.total_bps / len(self._matrix.pairs))
        of_one_pair = kron(diags_array(1 / unit), np.ones((1, self._segments)))
        loads = kron(csr_array(self._matrix.rates[None, :]), of_one_pair, format="csr")
        return loads, limit / unit


def segments(tolerance: float) -> tuple[FloatArray, FloatArray]:
    """Return the segments of the maximum of the tangents to equation 29.

    Up to the tolerance the cost is zero.

    Args:
        tolerance: Static tolerance.

    Returns:
        The widths of the segments, from share 0 to SHARE_CAP, and their slopes.
    """
    # Shares at which the tangents touch the curve.
    tangent_share = np.array([tolerance, *(share for share in TANGENTS if share > tolerance)])
    slope = (1 - tolerance) / (1 - tangent_share) ** 2
    height_at_zero = (1 - tolerance) / (1 - tangent_share) - 1 - slope * tangent_share
    # Shares at which neighbouring tangents intersect.
    intersection = (height_at_zero[:-1] - height_at_zero[1:]) / (slope[1:] - slope[:-1])
    widths = np.diff([0.0, tolerance, *intersection, SHARE_CAP])
    return widths, np.concatenate([[0.0], slope])
