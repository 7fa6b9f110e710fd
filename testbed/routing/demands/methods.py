"""Routings of demand matrices by name, and the registry for routings of other packages.

A routing of demands is a function ``f(matrix, *, seed)``. A name with a colon stands for a function
of the text after the colon that returns such a routing. Any routing of one flow
(``testbed.routing.methods``) also routes demands, pair by pair.
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

# The largest number of paths of a pair that can be requested.
MAX_PATHS = 1000

# Default number of paths per pair, as in Kumar et al. 2018.
USUAL_PATHS = 4

# The methods that ``testbed demands`` compares by default.
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

DEMAND_ROUTINGS: Registry[Callable[..., Any]] = Registry(
    "testbed.demand_routings",
    "routing of demands",
    function_check("a matrix"),
    (TestbedError, TopologyError),
)


class DemandRouting(Protocol):
    """A function that routes a demand matrix."""

    def __call__(self, matrix: DemandMatrix, *, seed: int = 1) -> RoutedDemands:
        """Return the routing of the matrix; ``seed`` is the seed of all random choices."""
        ...


def route_demands(matrix: DemandMatrix, method: str, seed: int = 1) -> RoutedDemands:
    """Route a demand matrix by the method with this name.

    The method is one of ``testbed route``, applied to each pair, or one of DEMAND_ROUTINGS:

    - ``ksp:K``: equal parts over the K shortest paths;
    - ``raecke``: over Raecke's trees;
    - ``semi-ksp:K`` and ``smore:K``: the same paths (of the trees' paths the K with the largest
      weight for each pair), with rates by a linear programme;
    - ``optimum``: the smallest maximum link utilisation;
    - ``fair``: the same, then for the next fullest link, and so on to the last;
    - ``max-min``: the fairest rates that any routes allow (water filling);
    - ``least-ror:B``: the smallest total ROR (equation 29) with no link fuller than B times the
      fullest link of the optimum.

    Args:
        matrix: The demands.
        method: Name of the method.
        seed: Seed of the trees.

    Raises:
        InputError: The method is unknown, or cannot route these demands.
        NoPathError: A sink cannot be reached.
        PluginError: A routing of another package returns something else than a routing.
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
    """Route a matrix by several methods, and measure how long each takes.

    Args:
        matrix: The demands.
        methods: Names of the methods.
        seed: Seed of the trees.
        now: The clock, in seconds.

    Yields:
        The method, its routing, and the time in seconds.
    """
    for method in methods:
        start_s = now()
        routed = route_demands(matrix, method, seed)
        yield method, routed, now() - start_s


def demand_routing(method: str) -> DemandRouting:
    """Return the routing of demands with this name.

    Raises:
        InputError: The name is unknown, or a number in it is invalid.
    """
    name, colon, text = method.partition(":")
    if not colon and method in _PATH_METHODS:
        return demand_routing(f"{method}:{USUAL_PATHS}")
    registered = DEMAND_ROUTINGS.find(method)
    if registered is not None:
        routing: DemandRouting = registered(text) if colon else registered
        return routing
    if method == "least-ror":
        return demand_routing("least-ror:")
    builtin_names = {builtin.partition(":")[0] for builtin in ROUTINGS.builtin_names()}
    if ROUTINGS.find(method) is None and name not in builtin_names:
        all_names = dict.fromkeys([*ROUTINGS.names(), *DEMAND_ROUTINGS.names()])
        choice = nearest(method, all_names, "choose one of ", len(all_names))
        raise InputError(f"routing method {method!r} is not known; {choice}")
    # Raises InputError for an invalid number before any network is read.
    routing_method(method)
    if method == "capillary":
        return _capillary

    def route_each_pair(matrix: DemandMatrix, *, seed: int = 1) -> RoutedDemands:
        return demands_by_method(matrix, method)

    return route_each_pair


def _capillary(matrix: DemandMatrix, *, seed: int = 1) -> RoutedDemands:
    return capillary_demands(matrix)


def _optimum(matrix: DemandMatrix, *, seed: int = 1) -> RoutedDemands:
    return optimal_demands(matrix)


def _fair(matrix: DemandMatrix, *, seed: int = 1) -> RoutedDemands:
    return fair_demands(matrix)


def _max_min(matrix: DemandMatrix, *, seed: int = 1) -> RoutedDemands:
    return water_filling(matrix).routed


def _raecke(matrix: DemandMatrix, *, seed: int = 1) -> RoutedDemands:
    return tree_path_set(matrix, seed).routed("raecke")


def _ksp(matrix: DemandMatrix, paths: int, seed: int, method: str) -> RoutedDemands:
    return shortest_path_set(matrix, paths).routed(method)


def _semi_ksp(matrix: DemandMatrix, paths: int, seed: int, method: str) -> RoutedDemands:
    return best_rates(shortest_path_set(matrix, paths), method)


def _smore(matrix: DemandMatrix, paths: int, seed: int, method: str) -> RoutedDemands:
    return best_rates(tree_path_set(matrix, seed).heaviest(paths), method)


# Methods with a number of paths: functions of matrix, number of paths, seed and the full name.
_PATH_METHODS: dict[str, Callable[[DemandMatrix, int, int, str], RoutedDemands]] = {
    "ksp": _ksp,
    "semi-ksp": _semi_ksp,
    "smore": _smore,
}


def _path_method(name: str) -> Callable[[str], DemandRouting]:
    """Return a function that turns the text after the colon, a number of paths, into a routing."""

    def parse(text: str) -> DemandRouting:
        # Longer numbers are refused before int() reads them.
        is_number = text.isascii() and text.isdigit() and len(text) < 5
        if not is_number or not 1 <= int(text) <= MAX_PATHS:
            raise InputError(
                f"method '{name}:{text}': {text!r} must be a whole number of paths, 1 to "
                f"{MAX_PATHS}"
            )

        def route(matrix: DemandMatrix, *, seed: int = 1) -> RoutedDemands:
            return _PATH_METHODS[name](matrix, int(text), seed, f"{name}:{text}")

        return route

    return parse


def _least_ror(text: str) -> DemandRouting:
    """Return the routing of minimum total ROR within a limit.

    Args:
        text: The limit as a multiple of the optimum's maximum link utilisation, at least 1.
    """
    method = f"least-ror:{text}".rstrip(":")
    try:
        factor = float(text)
    except ValueError:
        factor = math.nan
    if not factor >= 1:
        raise InputError(
            f"method {method!r}: give the limit as a multiple of the optimum's greatest "
            "utilisation, 1 or more, such as least-ror:1.05"
        )

    def route(matrix: DemandMatrix, *, seed: int = 1) -> RoutedDemands:
        limit = math.inf
        if math.isfinite(factor):
            limit = factor * optimal_demands(matrix).greatest_utilisation
        forced = unavoidable_links(capillary_demands(matrix))
        result = least_ror_demands(matrix, forced, limit)
        if result is None:
            raise InputError(
                f"method {method!r}: no routing of {matrix.name!r} that gives every pair a second "
                "path stays within this limit; give a higher one"
            )
        return replace(result.routed, method=method)

    return route


DEMAND_ROUTINGS.register("ksp:K", _path_method("ksp"))
DEMAND_ROUTINGS.register("semi-ksp:K", _path_method("semi-ksp"))
DEMAND_ROUTINGS.register("raecke", _raecke)
DEMAND_ROUTINGS.register("smore:K", _path_method("smore"))
DEMAND_ROUTINGS.register("optimum", _optimum)
DEMAND_ROUTINGS.register("fair", _fair)
DEMAND_ROUTINGS.register("max-min", _max_min)
DEMAND_ROUTINGS.register("least-ror:B", _least_ror)
