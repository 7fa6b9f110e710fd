"""What all pairs together ask of their senders: ROR (Gabrielyan 2007, eq. 23 to 29) summed over the pairs of a demand
matrix.

Links that every route of a pair must load fully (bridges between its ends) count for none: no routing can do anything
about them. A pair whose flow is all on a link that it could have avoided is *exposed*: its ROR is infinite.

*The trade* (``least_ror_demands``): of all routings whose fullest link keeps below a limit, the one that asks for the
least redundancy. A link that carries the share r of a pair's flow costs that pair (1 - t) / (1 - r) - 1 of redundancy
(eq. 29, large blocks), which is convex. It is replaced by the greatest of some of its tangents, which is below it and
is a few straight segments; each share is cut into one variable a segment, dearer and dearer, so that a linear programme
fills them in order. Its value is a lower bound of the redundancy of every routing that keeps the limit, and what its
shares really cost is what was found.
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

WHOLE = 1 - 1 / LABELS
"""A share above it is everything: not one label of a stream would go elsewhere."""
TABLE = 400
"""Block sizes that are looked up; larger ones are computed one by one."""


@dataclass(frozen=True, kw_only=True)
class TotalRor:
    """``per_pair``: shape (pairs,), infinite for exposed pairs. ``rates``: of the demands, bits a second."""

    per_pair: FloatArray
    rates: FloatArray

    @property
    def exposed(self) -> int:
        """Pairs that have all of their flow on a link that they could avoid."""
        return int(np.isinf(self.per_pair).sum())

    @property
    def total(self) -> float:
        """Sum over all pairs; infinite where one is exposed."""
        return float(self.per_pair.sum())

    @property
    def of_others(self) -> float:
        """Sum over the pairs that are not exposed."""
        return float(self.per_pair[np.isfinite(self.per_pair)].sum())

    @property
    def weighted(self) -> float:
        """Mean over all pairs by what they send: packets that failures add, over packets sent (eq. 21 and 22); infinite
        as above."""
        return float((self.per_pair * self.rates).sum() / self.rates.sum())


def unavoidable_links(capillary: RoutedDemands) -> csr_array:
    """1 where a pair's every route loads the link fully, else nothing: sparse, shape (pairs, links). Of capillary
    routes, which load no link fully that they need not."""
    forced = capillary.shares.copy()
    forced.data = (forced.data > WHOLE).astype(np.float64)
    forced.eliminate_zeros()
    return forced


def total_ror(routed: RoutedDemands, coding: Coding, forced: csr_array | None = None) -> TotalRor:
    """ROR of each pair by its split, links that are ``forced`` left out (computed where not given).

    Random labels: block sizes by eq. 25; large blocks: eq. 29; stratified: exact, over the label intervals that
    switches would get, which are laid out for every pair (up to 0.2 s each, at once where another has the same), but
    for exposed pairs.
    """
    known = unavoidable_links(capillary_demands(routed.matrix)) if forced is None else forced
    if coding.labels == "stratified":
        return TotalRor(per_pair=_stratified(routed, known, coding), rates=routed.matrix.rates)
    shares = csr_array(routed.shares - routed.shares.multiply(known))
    load = shares.data
    cost = np.zeros(len(load))
    counted = (load >= coding.tolerance) & (load <= WHOLE)
    cost[counted] = _overheads(load[counted], coding)
    cost[load > WHOLE] = np.inf
    pair = np.repeat(np.arange(shares.shape[0]), np.diff(shares.indptr))
    per_pair = np.asarray(
        np.bincount(pair, weights=cost, minlength=shares.shape[0]), dtype=np.float64
    )
    return TotalRor(per_pair=per_pair, rates=routed.matrix.rates)


def _overheads(load: FloatArray, coding: Coding) -> FloatArray:
    """FEC_r / FEC_t - 1 for loads of the tolerance and more, below 1; eq. 29 for large blocks."""
    if coding.large_blocks:
        return np.asarray((1 - coding.tolerance) / (1 - load) - 1)
    m, der = coding.source_packets, coding.decoding_error_rate
    sizes = np.arange(m, m + TABLE)
    borne = betaincinv(sizes - m + 1, m, der)  # the greatest loss that each block size bears
    at = np.searchsorted(borne, load)
    nearest_error = np.minimum(
        np.abs(borne[np.minimum(at, TABLE - 1)] - load), np.abs(borne[np.maximum(at - 1, 0)] - load)
    )
    found = (m + at).astype(np.float64)
    for i in np.flatnonzero(
        (at >= TABLE) | (nearest_error < 1e-9)
    ).tolist():  # off the table, or too near to a step for floats
        found[i] = fec_block_size(m, round(float(load[i]), 12), der)
    return np.asarray(np.maximum(found / fec_block_size(m, coding.tolerance, der) - 1, 0.0))


def _stratified(routed: RoutedDemands, forced: csr_array, coding: Coding) -> FloatArray:
    network, found = routed.matrix.network, []
    for pair, (source, sink) in enumerate(routed.matrix.pairs):
        row = routed.pair_shares(pair)
        must = set(forced[[pair], :].indices.tolist())
        if (
            set(np.flatnonzero(row > WHOLE).tolist()) - must
        ):  # exposed: no order of labels has to be sought for it
            found.append(float("inf"))
            continue
        problem = flow_problem(network, source, sink)
        route = exact_route(problem, routed.method, row[list(problem.links)].tolist(), least=1e-6)
        terms = route_breakdown(route, coding).per_load
        parts = [
            np.inf if term.overhead is None else float(term.overhead)
            for link, term in zip(route.loaded, terms, strict=True)
            if link not in must
        ]
        found.append(sum(parts))
    return np.array(found)


TANGENTS = (
    0.12,
    0.19,
    0.26,
    0.33,
    0.4,
    0.48,
    0.56,
    0.64,
    0.72,
    0.8,
    0.87,
    0.92,
    0.955,
    0.975,
    0.99,
    0.997,
)
"""Shares at which eq. 29 is touched, besides the tolerance."""
SHORTER = 1e-6
"""Cost of a link's share beyond its redundancy, so that no flow runs in circles."""


@dataclass(frozen=True, kw_only=True)
class LeastRor:
    """``ror``: of the routing found, eq. 29 in sum over the pairs, forced links left out; no routing within the limit,
    with shares of 0.999 at most on the other links, is below ``bound``."""

    routed: RoutedDemands
    ror: float
    bound: float


def least_ror_demands(
    matrix: DemandMatrix,
    forced: csr_array,
    most_utilisation: float = np.inf,
    tolerance: float = 0.05,
) -> LeastRor | None:
    """The routing of least total ROR (eq. 29) of which no link is fuller than ``most_utilisation``; None where none
    keeps that.

    ``forced`` as ``redundancy.forced_links`` gives it. Pairs * links * 18 variables: 272 pairs over 52 links take some
    seconds. Raises UndecidedError if the solver gives up, or calls a problem of numbers far apart infeasible.
    """
    graph = LinkGraph(matrix.network)
    widths, slopes = segments(tolerance)
    pairs, links, count = len(matrix.pairs), len(graph.tail), len(widths)
    must = forced.toarray() > 0
    usable = np.array([graph.usable(*graph.positions(pair)) for pair in matrix.pairs])
    upper = np.where(usable[:, :, None], np.where(must[:, :, None], 1.0, widths), 0.0)
    cost = np.where(must[:, :, None], 0.0, slopes) + SHORTER
    balance = kron(
        eye_array(pairs),
        kron(balance_matrix(graph.nodes, graph.tail, graph.head), np.ones((1, count))),
        format="csr",
    )
    required = np.zeros((pairs, graph.nodes))
    for row, pair in zip(required, matrix.pairs, strict=True):
        row[graph.positions(pair)] = 1.0, -1.0
    at_most = None
    solve: LpSolver = solve_lp
    if np.isfinite(most_utilisation):
        room = most_utilisation * graph.capacity
        unit: FloatArray = np.full(links, matrix.total_bps / pairs)
        if is_wide(graph.capacity, matrix.rates):
            unit = room
            solve = solve_scaled_lp
        loads = kron(
            csr_array(matrix.rates[None, :]),
            kron(diags_array(1 / unit), np.ones((1, count))),
            format="csr",
        )
        at_most = loads, room / unit
    try:
        x, least, _ = solve(cost.ravel(), (balance, required.ravel()), upper.ravel(), at_most)
    except UnsolvedError as error:
        if "nfeasible" in str(error) and not is_wide(graph.capacity, matrix.rates):
            return None
        raise UndecidedError(
            f"network {matrix.network.name!r}: least redundancy not found: cannot tell, the solver "
            f"failed ({error})"
        ) from None
    shares = np.clip(x.reshape(pairs, links, count).sum(axis=2), 0.0, 1.0)
    ror = float(np.where(must, 0.0, overhead(shares, tolerance)).sum())
    routed = RoutedDemands(
        matrix=matrix,
        method="least-ror",
        shares=sparse_shares(list(shares), 1e-9),
        limit=most_utilisation if np.isfinite(most_utilisation) else None,
    )
    return LeastRor(
        routed=routed, ror=ror, bound=min(ror, max(0.0, least - SHORTER * float(x.sum())))
    )


def segments(tolerance: float) -> tuple[FloatArray, FloatArray]:
    """(widths, slopes) of the greatest of the tangents to eq. 29, from share 0 to SHARE_CAP; no cost up to the
    tolerance."""
    at = np.array([tolerance, *(share for share in TANGENTS if share > tolerance)])
    slope = (1 - tolerance) / (1 - at) ** 2
    height = (1 - tolerance) / (1 - at) - 1 - slope * at
    meet = (height[:-1] - height[1:]) / (slope[1:] - slope[:-1])
    return np.diff([0.0, tolerance, *meet, SHARE_CAP]), np.concatenate([[0.0], slope])
