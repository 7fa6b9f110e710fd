"""The route of minimum ROR for large blocks (Gabrielyan 2007, equation 29).

It is found by tangent cuts, together with a proved lower bound. Other routings are compared with
it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

from fec import ror
from testbed.arrays import FloatArray
from testbed.errors import InputError
from testbed.model.routes import SplitRoute
from testbed.routing.capillary.route import capillary_route
from testbed.routing.flows.end_points import exact_route, flow_problem
from testbed.routing.flows.linear_programs import balance_matrix, solve_lp, solving
from topologies import Network

# Largest share of a link that a flow could avoid; equation 29 has a pole at 1.
SHARE_CAP = 0.999

# Cost of a unit of load on any link. Of routes with equal ROR it selects the one with fewer loaded
# links, and it prevents circulations.
SHORTER = 1e-7

# Shares, besides the tolerance, at which every link has a tangent from the start.
_FIRST_TANGENTS = (0.2, 0.35, 0.5, 0.7)

# A tangent is added if the model is below the overhead by more than this.
_TANGENT_ERROR = 1e-7

# The maximum number of linear programmes. Each one has more tangents than the previous one.
_MAX_ROUNDS = 60


@dataclass(frozen=True, kw_only=True)
class LeastFec:
    """A route of minimum ROR.

    Attributes:
        route: The route.
        ror: Its exact ROR by equation 29, without the forced links.
        bound: No route has a smaller ROR.
        forced: Indices of the links that must carry all of the flow.
        rounds: Number of linear programmes that were solved.
    """

    route: SplitRoute
    ror: float
    bound: float
    forced: tuple[int, ...]
    rounds: int


def least_fec_route(
    network: Network, source: str, sink: str, tolerance: float, *, gap: float = 1e-6
) -> LeastFec:
    """Return the route of minimum ROR by equation 29.

    The ROR is convex in each load, so it is minimised by linear programmes over tangents. After
    each programme, tangents are added where the model was below the true overhead. About ten linear
    programmes of the network's size are needed.

    Args:
        network: The network.
        source: Id of the source.
        sink: Id of the sink.
        tolerance: Static tolerance, at least 0 and below 1.
        gap: Relative difference to the bound at which the search ends.

    Raises:
        InputError: An end point or the tolerance is invalid.
        NoPathError: The sink cannot be reached.

    >>> from topologies.network import Link, Node
    >>> nodes = (Node(id="a", kind="switch"), Node(id="b", kind="switch"))
    >>> links = (Link(source="a", target="b"), Link(source="a", target="b", key=1))
    >>> pair = Network(name="pair", nodes=nodes, links=links)
    >>> round(least_fec_route(pair, "a", "b", 0.05).ror, 4)
    1.8
    """
    if not 0 <= tolerance < 1:
        raise InputError(f"least FEC: tolerance {tolerance!r} must be 0 or more and below 1")
    problem = flow_problem(network, source, sink)
    # The capillary route loads a link fully only if every route must.
    capillary_loads = capillary_route(network, source, sink).loads
    forced = frozenset(i for i, link in enumerate(problem.links) if capillary_loads[link] == 1)
    links = len(problem.links)
    free = np.array(sorted(set(range(links)) - forced), dtype=np.int64)
    programme = _TangentProgramme(
        equal=(
            balance_matrix(problem.nodes, problem.tail, problem.head, 2 * links),
            np.array(problem.demand(), dtype=np.float64),
        ),
        links=links,
        free=free,
        tolerance=tolerance,
    )
    with solving(f"network {network.name!r}: no least-FEC route found"):
        programme.minimise(gap)

    route = exact_route(
        problem, f"least-fec:{tolerance:g}", programme.best_flow.tolist(), negligible=1e-9
    )
    exact_ror = ror(
        [float(route.loads[problem.links[i]]) for i in free],
        tolerance=tolerance,
        source_packets=1,
        decoding_error_rate=1e-5,
        large_blocks=True,
    )
    return LeastFec(
        route=route,
        ror=exact_ror,
        bound=min(programme.bound, exact_ror),
        forced=tuple(problem.links[i] for i in sorted(forced)),
        rounds=programme.rounds,
    )


class _TangentProgramme:
    """A linear programme that bounds the ROR from below by tangents.

    Its variables are the load of each link and the overhead of each link.

    Args:
        equal: Matrix and right side of the equations of flow conservation.
        links: Number of usable links.
        free: Positions of the links that are not forced.
        tolerance: Static tolerance.

    Attributes:
        best_flow: Load of each usable link in the best route so far.
        best_ror: The ROR of this route.
        bound: No route has a smaller ROR.
        rounds: Number of linear programmes that were solved.
    """

    def __init__(
        self,
        *,
        equal: tuple[csr_array, FloatArray],
        links: int,
        free: NDArray[np.int64],
        tolerance: float,
    ) -> None:
        self._equal = equal
        self._links = links
        self._free = free
        self._tolerance = tolerance
        largest_share = np.where(np.isin(np.arange(links), free), SHARE_CAP, 1.0)
        self._upper = np.concatenate([largest_share, np.full(links, math.inf)])
        self._cost = np.concatenate([np.full(links, SHORTER), np.ones(links)])
        # Each tangent as a link and the share at which it touches the overhead.
        self._tangents = [(int(i), tolerance) for i in free]
        for i in free:
            self._tangents += [(int(i), share) for share in _FIRST_TANGENTS]
        self.best_flow: FloatArray = np.zeros(links)
        self.best_ror = math.inf
        self.bound = 0.0
        self.rounds = 0

    def minimise(self, gap: float) -> None:
        """Solve and add tangents until the best route is within the gap of the bound.

        Args:
            gap: Relative difference at which the search ends.
        """
        while self.best_ror - self.bound > gap * self.best_ror or self.rounds == 0:
            new_tangents = self._solve_once()
            if not new_tangents or self.rounds >= _MAX_ROUNDS:
                break
            self._tangents += new_tangents

    def _solve_once(self) -> list[tuple[int, float]]:
        """Solve the programme, and return the tangents that it lacks."""
        at_most = _tangent_rows(self._tangents, self._tolerance, self._links)
        x, cost, _ = solve_lp(self._cost, self._equal, self._upper, at_most)
        self.rounds += 1
        flow = x[: self._links]
        self.bound = max(self.bound, cost - SHORTER * float(flow.sum()))
        true_overhead = overhead(flow[self._free], self._tolerance)
        reached_ror = float(true_overhead.sum())
        if reached_ror < self.best_ror:
            self.best_flow = flow
            self.best_ror = reached_ror
        errors = true_overhead - x[self._links :][self._free]
        new_tangents = []
        for i, error in zip(self._free, errors, strict=True):
            if error > _TANGENT_ERROR:
                new_tangents.append((int(i), float(flow[i])))
        return new_tangents


def overhead(share: FloatArray, tolerance: float) -> FloatArray:
    """Return each link's term of equation 29; 0 for shares below the tolerance.

    Args:
        share: Share of the flow on each link; above SHARE_CAP it counts as SHARE_CAP.
        tolerance: Static tolerance.
    """
    return np.asarray(np.maximum((1 - tolerance) / (1 - np.minimum(share, SHARE_CAP)) - 1, 0.0))


def _tangent_rows(
    tangents: Sequence[tuple[int, float]], tolerance: float, links: int
) -> tuple[csr_array, FloatArray]:
    """Return the inequality of each tangent: slope * x - w <= slope * r - overhead(r).

    Args:
        tangents: Each as a link and the share r where it touches the overhead.
        tolerance: Static tolerance.
        links: Number of usable links.
    """
    pairs = np.array(tangents)
    link = pairs[:, 0].astype(np.int64)
    share = np.maximum(pairs[:, 1], tolerance)
    slope = (1 - tolerance) / (1 - share) ** 2
    rows = np.arange(len(tangents))
    shape = (len(tangents), links)
    load_columns = csr_array((slope, (rows, link)), shape=shape)
    overhead_columns = csr_array((-np.ones(len(tangents)), (rows, link)), shape=shape)
    right_side = slope * share - overhead(share, tolerance)
    return csr_array(hstack([load_columns, overhead_columns])), right_side
