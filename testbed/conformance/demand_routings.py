"""Judges a routing of demand matrices: the independent checker, the multicommodity optimum's proof, repeatability,
errors."""

from collections.abc import Callable
from functools import partial

from testbed.conformance.problem_checks import apart, finding, must_raise
from testbed.model.verdict import Check
from testbed.routing.demands.matrix import given_matrix, gravity_matrix
from testbed.routing.demands.methods import DemandRouting
from testbed.routing.demands.optimum import optimal_demands
from testbed.routing.demands.routed_demands import RoutedDemands, checked
from topologies import load_network
from topologies.errors import NoPathError

CASES = ("ring:5", "swiss-t1", "torus:3x3", "fat-tree:2,2")
"""Cycles, parallel links, links that go one way only; hosts are ends on the fat tree, switches elsewhere."""


def demand_routing_checks(routing: DemandRouting) -> list[Check]:
    """One check a property and network."""
    found = []
    for name in CASES:
        network = load_network(name)
        ends = network.hosts if name.startswith("fat-tree") else network.switches
        matrix = gravity_matrix(network, [node.id for node in ends])
        make = partial(routing, matrix, seed=1)
        found += [
            finding(f"{name}: every pair's flow arrives whole, over links and switches only", partial(_unsound, make)),
            finding(f"{name}: no better than the proved optimum", partial(_too_good, make)),
            finding(f"{name}: the same twice", partial(_differs, make)),
        ]
    nowhere = given_matrix(apart(), "to nowhere", {("a", "c"): 1e6})
    found.append(
        finding(
            "a sink out of reach is a NoPathError", lambda: must_raise((NoPathError,), lambda: routing(nowhere, seed=1))
        )
    )
    return found


def _unsound(make: Callable[[], RoutedDemands]) -> str | None:
    found = checked(make())
    return found.violations[0] if found.violations else None


def _too_good(make: Callable[[], RoutedDemands]) -> str | None:
    routed = make()
    least = checked(optimal_demands(routed.matrix)).bound
    greatest = checked(routed).utilisation
    return None if greatest >= least * (1 - 1e-6) else f"its fullest link carries {greatest:.6g}, less than {least:.6g}"


def _differs(make: Callable[[], RoutedDemands]) -> str | None:
    first, second = make(), make()
    return None if (first.shares != second.shares).nnz == 0 else "two calls with one seed gave two routings"
