"""The trade: of all routings whose fullest link keeps below a limit, the one that asks for the least redundancy in sum
over the pairs.

Theory of operation. A link that carries the share r of a pair's flow costs that pair (1 - t) / (1 - r) - 1 of
redundancy (Gabrielyan 2007, eq. 29, large blocks), which is convex. It is replaced by the greatest of some of its
tangents, which is below it and is a few straight segments; each share is cut into one variable a segment, dearer and
dearer, so that a linear programme fills them in order. Its value is a lower bound of the redundancy of every routing
that keeps the limit, and what its shares really cost is what was found.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, eye_array, kron

from testbed.arrays import FloatArray
from testbed.errors import InputError
from testbed.routing.demands.link_graph import LinkGraph
from testbed.routing.demands.matrix import DemandMatrix
from testbed.routing.demands.routed_demands import RoutedDemands, sparse_shares
from testbed.routing.flows.linear_programs import UnsolvedError, balance_matrix, solve_lp
from testbed.routing.redundancy.least_fec import SHARE_CAP, overhead

TANGENTS = (0.12, 0.19, 0.26, 0.33, 0.4, 0.48, 0.56, 0.64, 0.72, 0.8, 0.87, 0.92, 0.955, 0.975, 0.99, 0.997)
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
    matrix: DemandMatrix, forced: csr_array, most_utilisation: float = np.inf, tolerance: float = 0.05
) -> LeastRor | None:
    """The routing of least total ROR (eq. 29) of which no link is fuller than ``most_utilisation``; None where none
    keeps that.

    ``forced`` as ``redundancy.forced_links`` gives it. Pairs * links * 18 variables: 272 pairs over 52 links take some
    seconds. Raises InputError where the solver gives up.
    """
    graph = LinkGraph(matrix.network)
    widths, slopes = segments(tolerance)
    pairs, links, count = len(matrix.pairs), len(graph.tail), len(widths)
    must = forced.toarray() > 0
    usable = np.array([_usable(graph, *graph.positions(pair)) for pair in matrix.pairs])
    upper = np.where(usable[:, :, None], np.where(must[:, :, None], 1.0, widths), 0.0)
    cost = np.where(must[:, :, None], 0.0, slopes) + SHORTER
    balance = kron(
        eye_array(pairs), kron(balance_matrix(graph.nodes, graph.tail, graph.head), np.ones((1, count))), format="csr"
    )
    required = np.zeros((pairs, graph.nodes))
    for row, pair in zip(required, matrix.pairs, strict=True):
        row[graph.positions(pair)] = 1.0, -1.0
    unit = matrix.total_bps / pairs
    loads = kron(csr_array(matrix.rates[None, :] / unit), kron(eye_array(links), np.ones((1, count))), format="csr")
    at_most = (loads, most_utilisation * graph.capacity / unit) if np.isfinite(most_utilisation) else None
    try:
        x, least, _ = solve_lp(cost.ravel(), (balance, required.ravel()), upper.ravel(), at_most)
    except UnsolvedError as error:
        if "nfeasible" in str(error):
            return None
        raise InputError(f"network {matrix.network.name!r}: least redundancy not found ({error})") from None
    shares = np.clip(x.reshape(pairs, links, count).sum(axis=2), 0.0, 1.0)
    ror = float(np.where(must, 0.0, overhead(shares, tolerance)).sum())
    routed = RoutedDemands(matrix=matrix, method="least-ror", shares=sparse_shares(list(shares), 1e-9))
    return LeastRor(routed=routed, ror=ror, bound=min(ror, max(0.0, least - SHORTER * float(x.sum()))))


def segments(tolerance: float) -> tuple[FloatArray, FloatArray]:
    """(widths, slopes) of the greatest of the tangents to eq. 29, from share 0 to SHARE_CAP; no cost up to the
    tolerance."""
    at = np.array([tolerance, *(share for share in TANGENTS if share > tolerance)])
    slope = (1 - tolerance) / (1 - at) ** 2
    height = (1 - tolerance) / (1 - at) - 1 - slope * at
    meet = (height[:-1] - height[1:]) / (slope[1:] - slope[:-1])
    return np.diff([0.0, tolerance, *meet, SHARE_CAP]), np.concatenate([[0.0], slope])


def _usable(graph: LinkGraph, source: int, sink: int) -> NDArray[np.bool_]:
    dead_end = graph.silent[graph.head] & (graph.head != sink)
    return np.asarray(graph.usable_from(source) & (graph.tail != sink) & ~dead_end)
