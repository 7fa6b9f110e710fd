"""Routings of demand matrices by name, as the command and the studies give them; the door for those of other packages.

A routing of demands is ``f(matrix, *, seed)``; one named with a colon is made by a function of the text after it. Any
routing of one flow (``testbed.routing.methods``) is one as well, pair by pair.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol

from testbed.errors import InputError, TestbedError
from testbed.routing.demands.matrix import DemandMatrix, RoutedDemands
from testbed.routing.demands.optimum import fair_demands, optimal_demands, water_filling
from testbed.routing.demands.path_sets import best_rates, shortest_path_set, tree_path_set
from testbed.routing.demands.per_pair import capillary_demands, demands_by_method
from testbed.routing.demands.redundancy import least_ror_demands, unavoidable_links
from testbed.routing.methods import ROUTINGS, routing_method
from topologies import TopologyError, nearest
from topologies.registry import PluginError, Registry, function_check

MAX_PATHS = 1000
USUAL_PATHS = 4
"""Paths a pair, as Kumar et al. 2018."""
USUAL_METHODS = (
    "single",
    "ecmp",
    "capillary",
    "ksp:4",
    "semi-ksp:4",
    "raecke",
    "smore:4",
    "optimum",
)


class DemandRouting(Protocol):
    """``seed``: of whatever is drawn at random."""

    def __call__(self, matrix: DemandMatrix, *, seed: int = 1) -> RoutedDemands: ...


def route_demands(matrix: DemandMatrix, method: str, seed: int = 1) -> RoutedDemands:
    """The matrix routed by a method: those of ``testbed route`` pair by pair, or one of DEMAND_ROUTINGS.

    ``ksp:K``: equal parts over the K shortest paths; ``raecke``: over Raecke's trees; ``semi-ksp:K`` and ``smore:K``:
    the same paths (of the trees the K heaviest of each pair), rates by linear programme; ``optimum``: least greatest
    utilisation; ``fair``: least, then the next fullest link, to the last; ``max-min``: rates that are as even as routes
    allow (water filling); ``least-ror:B``: least total ROR (eq. 29) with no link fuller than B times the optimum's
    fullest. ``seed``: of the trees. Raises InputError, NoPathError, and PluginError where another package's routing
    gives what is none.
    """
    routed = demand_routing(method)(matrix, seed=seed)
    if not isinstance(routed, RoutedDemands) or routed.matrix is not matrix:
        raise PluginError(
            f"routing of demands {method!r} gave {type(routed).__name__}, no routing of this matrix"
        )
    return routed


def timed_routings(
    matrix: DemandMatrix, methods: Sequence[str], seed: int, now: Callable[[], float]
) -> Iterator[tuple[str, RoutedDemands, float]]:
    """Each method, its routing of the matrix and what that took by the clock ``now``, in seconds."""
    for method in methods:
        began = now()
        routed = route_demands(matrix, method, seed)
        yield method, routed, now() - began


def demand_routing(method: str) -> DemandRouting:
    """The routing of that name. InputError for a name or a number that is none, before any network is read."""
    name, colon, number = method.partition(":")
    if not colon and method in _WITH_PATHS:
        return demand_routing(f"{method}:{USUAL_PATHS}")
    found = DEMAND_ROUTINGS.find(method)
    if found is not None:
        made: DemandRouting = found(number) if colon else found
        return made
    if method == "least-ror":
        return demand_routing("least-ror:")
    if ROUTINGS.find(method) is None and name not in {
        known.partition(":")[0] for known in ROUTINGS.builtin_names()
    }:
        every = dict.fromkeys([*ROUTINGS.names(), *DEMAND_ROUTINGS.names()])
        raise InputError(
            f"routing method {method!r} is not known; {nearest(method, every, 'choose one of ', len(every))}"
        )
    routing_method(method)
    if method == "capillary":
        return lambda matrix, *, seed=1: capillary_demands(matrix)
    return lambda matrix, *, seed=1: demands_by_method(matrix, method)


def _with_paths(name: str) -> Callable[[str], DemandRouting]:
    """From the text after the colon, a number of paths, to the routing."""

    def made(number: str) -> DemandRouting:
        if not (
            number.isascii()
            and number.isdigit()
            and len(number) < 5
            and 1 <= int(number) <= MAX_PATHS
        ):
            raise InputError(
                f"method '{name}:{number}': {number!r} must be a whole number of paths, 1 to {MAX_PATHS}"
            )
        return lambda matrix, *, seed=1: _WITH_PATHS[name](
            matrix, int(number), seed, f"{name}:{number}"
        )

    return made


def _least_ror(number: str) -> DemandRouting:
    method = f"least-ror:{number}".rstrip(":")
    try:
        above = float(number)
    except ValueError:
        above = math.nan
    if not above >= 1:
        raise InputError(
            f"method {method!r}: give the limit in optima, 1 or more, such as least-ror:1.05"
        )

    def route(matrix: DemandMatrix, *, seed: int = 1) -> RoutedDemands:
        limit = (
            above * optimal_demands(matrix).greatest_utilisation if math.isfinite(above) else above
        )
        found = least_ror_demands(matrix, unavoidable_links(capillary_demands(matrix)), limit)
        if found is None:
            raise InputError(
                f"method {method!r}: no routing of {matrix.name!r} that leaves every pair two ways keeps that limit; "
                "raise it"
            )
        return replace(found.routed, method=method)

    return route


DEMAND_ROUTINGS: Registry[Callable[..., Any]] = Registry(
    "testbed.demand_routings",
    "routing of demands",
    function_check("a matrix"),
    (TestbedError, TopologyError),
)
_WITH_PATHS: dict[str, Callable[[DemandMatrix, int, int, str], RoutedDemands]] = {
    "ksp": lambda matrix, paths, seed, method: shortest_path_set(matrix, paths).routed(method),
    "semi-ksp": lambda matrix, paths, seed, method: best_rates(
        shortest_path_set(matrix, paths), method
    ),
    "smore": lambda matrix, paths, seed, method: best_rates(
        tree_path_set(matrix, seed).heaviest(paths), method
    ),
}
"""Methods that a number of paths makes: functions of matrix, paths, seed and the whole name."""
DEMAND_ROUTINGS.register("ksp:K", _with_paths("ksp"))
DEMAND_ROUTINGS.register("semi-ksp:K", _with_paths("semi-ksp"))
DEMAND_ROUTINGS.register(
    "raecke", lambda matrix, *, seed=1: tree_path_set(matrix, seed).routed("raecke")
)
DEMAND_ROUTINGS.register("smore:K", _with_paths("smore"))
DEMAND_ROUTINGS.register("optimum", lambda matrix, *, seed=1: optimal_demands(matrix))
DEMAND_ROUTINGS.register("fair", lambda matrix, *, seed=1: fair_demands(matrix))
DEMAND_ROUTINGS.register("max-min", lambda matrix, *, seed=1: water_filling(matrix).routed)
DEMAND_ROUTINGS.register("least-ror:B", _least_ror)
