"""What all pairs together ask of their senders: ROR (Gabrielyan 2007, eq. 23 to 29) summed over the pairs of a demand
matrix.

Links that every route of a pair must load fully (bridges between its ends) count for none: no routing can do anything
about them. A pair whose flow is all on a link that it could have avoided is *exposed*: its ROR is infinite.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.special import betaincinv

from fec.redundancy.block_size import fec_block_size
from fec.redundancy.labels import LABELS
from testbed.arrays import FloatArray
from testbed.routing.demands.per_pair import capillary_demands
from testbed.routing.demands.routed_demands import RoutedDemands
from testbed.routing.flows.end_points import flow_problem
from testbed.routing.flows.exact_flow import exact_route
from testbed.routing.redundancy.coding import Coding
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
    per_pair = np.asarray(np.bincount(pair, weights=cost, minlength=shares.shape[0]), dtype=np.float64)
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
        if set(np.flatnonzero(row > WHOLE).tolist()) - must:  # exposed: no order of labels has to be sought for it
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
