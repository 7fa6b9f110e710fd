"""Routings of demand matrices by name, as the command and the studies give them."""

from __future__ import annotations

import math
from dataclasses import replace

from testbed.errors import InputError
from testbed.routing.demands.matrix import DemandMatrix
from testbed.routing.demands.optimum import fair_demands, optimal_demands
from testbed.routing.demands.path_sets import shortest_path_set
from testbed.routing.demands.per_pair import capillary_demands, demands_by_method
from testbed.routing.demands.redundancy import forced_links
from testbed.routing.demands.routing_trees import tree_path_set
from testbed.routing.demands.semi_oblivious import best_rates
from testbed.routing.demands.splits import RoutedDemands
from testbed.routing.demands.trade import least_redundancy
from testbed.routing.methods import METHOD_NAMES, routing_method

MAX_PATHS = 1000
USUAL_PATHS = 4
"""Paths a pair, as Kumar et al. 2018."""
JOINT_NAMES = ("ksp:K", "semi-ksp:K", "raecke", "smore:K", "optimum", "fair", "least-ror:B")
USUAL_METHODS = ("single", "ecmp", "capillary", "ksp:4", "semi-ksp:4", "raecke", "smore:4", "optimum")


def route_demands(matrix: DemandMatrix, method: str, seed: int = 1) -> RoutedDemands:
    """The matrix routed by a method: those of ``testbed route`` pair by pair, or one of JOINT_NAMES.

    ``ksp:K``: equal parts over the K shortest paths; ``raecke``: over Raecke's trees; ``semi-ksp:K`` and ``smore:K``: the same paths (of
    the trees the K heaviest of each pair), rates by linear programme; ``optimum``: least greatest utilisation; ``fair``: least, then
    the next fullest link, to the last; ``least-ror:B``: least total ROR (eq. 29) with no link fuller than B times the optimum's fullest.
    ``seed``: of the trees. Raises InputError and NoPathError.
    """
    check_method(method)
    name, _, number = method.partition(":")
    paths = int(number) if number and name in ("ksp", "semi-ksp", "smore") else USUAL_PATHS
    if name == "capillary" and not number:
        return capillary_demands(matrix)
    if name == "ksp":
        return shortest_path_set(matrix, paths).routed(method)
    if name == "semi-ksp":
        return best_rates(shortest_path_set(matrix, paths), method)
    if name == "raecke":
        return tree_path_set(matrix, seed).routed(method)
    if name == "smore":
        return best_rates(tree_path_set(matrix, seed).heaviest(paths), method)
    if name == "least-ror":
        return _least_ror(matrix, method, float(number))
    if name in ("optimum", "fair"):
        return (optimal_demands if name == "optimum" else fair_demands)(matrix)
    return demands_by_method(matrix, method)


def _least_ror(matrix: DemandMatrix, method: str, above: float) -> RoutedDemands:
    limit = above * optimal_demands(matrix).greatest_utilisation if math.isfinite(above) else above
    found = least_redundancy(matrix, forced_links(capillary_demands(matrix)), limit)
    if found is None:
        raise InputError(
            f"method {method!r}: no routing of {matrix.name!r} that leaves every pair two ways keeps that limit; raise it"
        )
    return replace(found.routed, method=method)


def check_method(method: str) -> None:
    """Raise InputError for a name that is none, before any network is read."""
    name, colon, number = method.partition(":")
    if name in ("ksp", "semi-ksp", "smore"):
        if colon and not (number.isascii() and number.isdigit() and len(number) < 5 and 1 <= int(number) <= MAX_PATHS):
            raise InputError(f"method {method!r}: {number!r} must be a whole number of paths, 1 to {MAX_PATHS}")
        return
    if method in ("raecke", "optimum", "fair"):
        return
    if name == "least-ror":
        if not _is_factor(number):
            raise InputError(f"method {method!r}: give the limit in optima, 1 or more, such as least-ror:1.05")
        return
    try:
        routing_method(method)
    except InputError as error:
        if name in {known.partition(":")[0] for known in METHOD_NAMES}:
            raise
        raise InputError(f"{error}, {', '.join(JOINT_NAMES)}") from None


def _is_factor(text: str) -> bool:
    try:
        return float(text) >= 1
    except ValueError:
        return False
