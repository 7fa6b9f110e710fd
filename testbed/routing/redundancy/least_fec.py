"""The route of least ROR for large blocks (Gabrielyan 2007, eq. 29), by tangent cuts.

What every other routing is measured against; a proved lower bound comes with it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array, hstack

from fec import ror
from testbed.arrays import FloatArray
from testbed.errors import InputError
from testbed.model.routes import SplitRoute
from testbed.routing.capillary.route import capillary_route
from testbed.routing.flows.end_points import exact_route, flow_problem
from testbed.routing.flows.linear_programs import balance_matrix, solve_lp, solving
from topologies import Network

SHARE_CAP = 0.999
"""Of a link that a pair could avoid: eq. 29 has a pole at 1."""
SHORTER = 1e-7
"""Cost of a unit of load on any link: of routes of one ROR the one with fewer loaded links, and no circulations."""


@dataclass(frozen=True, kw_only=True)
class LeastFec:
    """``route`` and its exact ROR by equation 29, over links that need not carry everything; ``forced`` are
    those that must (indices); ``bound``: no route has a smaller one; ``rounds``: linear programmes solved."""

    route: SplitRoute
    ror: float
    bound: float
    forced: tuple[int, ...]
    rounds: int


def least_fec_route(
    network: Network, source: str, sink: str, tolerance: float, *, gap: float = 1e-6
) -> LeastFec:
    """Least ROR of eq. 29: convex in each load, so linear programmes with tangents added where they were missed.

    Stops where the bound is within ``gap`` (relative). Time: some ten linear programmes of the network's size.
    Raises InputError (end points, tolerance) and NoPathError.

    >>> from topologies.network import Link, Node
    >>> pair = Network(name="pair", nodes=(Node(id="a", kind="switch"), Node(id="b", kind="switch")),
    ...                links=(Link(source="a", target="b"), Link(source="a", target="b", key=1)))
    >>> round(least_fec_route(pair, "a", "b", 0.05).ror, 4)
    1.8
    """
    if not 0 <= tolerance < 1:
        raise InputError(f"least FEC: tolerance {tolerance!r} must be 0 or more and below 1")
    problem = flow_problem(network, source, sink)
    spread = capillary_route(
        network, source, sink
    ).loads  # it loads no link fully that need not carry everything
    forced = frozenset(at for at, link in enumerate(problem.links) if spread[link] == 1)
    links = len(problem.links)
    free = np.array([i for i in range(links) if i not in forced], dtype=np.int64)
    balance = balance_matrix(problem.nodes, problem.tail, problem.head, 2 * links)
    equal = balance, np.array(problem.demand(), dtype=np.float64)
    upper = np.concatenate(
        [np.where(np.isin(np.arange(links), free), SHARE_CAP, 1.0), np.full(links, math.inf)]
    )
    cost = np.concatenate([np.full(links, SHORTER), np.ones(links)])
    points = [(int(i), tolerance) for i in free] + [
        (int(i), r) for i in free for r in (0.2, 0.35, 0.5, 0.7)
    ]
    best: FloatArray = np.zeros(links)
    best_ror, bound, rounds = math.inf, 0.0, 0
    while best_ror - bound > gap * best_ror or rounds == 0:
        with solving(f"network {network.name!r}: no least-FEC route found"):
            x, value, _ = solve_lp(cost, equal, upper, _tangents(points, tolerance, links))
        rounds += 1
        bound = max(bound, value - SHORTER * float(x[:links].sum()))
        reached = float(overhead(x[:links][free], tolerance).sum())
        if reached < best_ror:
            best, best_ror = x[:links], reached
        missed = overhead(x[:links][free], tolerance) - x[links:][free]
        added = [
            (int(i), float(x[i]))
            for i, gap_here in zip(free, missed, strict=True)
            if gap_here > 1e-7
        ]
        if not added or rounds >= 60:
            break
        points += added
    route = exact_route(problem, f"least-fec:{tolerance:g}", best.tolist(), least=1e-9)
    loads = [float(route.loads[problem.links[at]]) for at in free]
    least = ror(
        loads, tolerance=tolerance, source_packets=1, decoding_error_rate=1e-5, large_blocks=True
    )
    named = tuple(problem.links[i] for i in sorted(forced))
    return LeastFec(route=route, ror=least, bound=min(bound, least), forced=named, rounds=rounds)


def overhead(share: FloatArray, tolerance: float) -> FloatArray:
    """A link's term of eq. 29; below the tolerance 0, where it continues convexly."""
    return np.asarray(np.maximum((1 - tolerance) / (1 - np.minimum(share, SHARE_CAP)) - 1, 0.0))


def _tangents(
    points: Sequence[tuple[int, float]], tolerance: float, links: int
) -> tuple[csr_array, FloatArray]:
    """Each point (link, r): slope * x - w <= slope * r - overhead(r)."""
    at = np.array([i for i, _ in points], dtype=np.int64)
    r = np.array([max(r, tolerance) for _, r in points])
    slope = (1 - tolerance) / (1 - r) ** 2
    rows = np.arange(len(points))
    left = csr_array((slope, (rows, at)), shape=(len(points), links))
    right = csr_array((-np.ones(len(points)), (rows, at)), shape=(len(points), links))
    return csr_array(hstack([left, right])), slope * r - overhead(r, tolerance)
