"""The routes of least ROR, by linear and integer programmes: never above any other routing, and never below their
bound."""

from __future__ import annotations

import itertools

import pytest

from fec import ror
from testbed.errors import InputError
from testbed.model.routes import SplitRoute
from testbed.routing import route_by_name
from testbed.routing.redundancy.coding import Coding
from testbed.routing.redundancy.least_fec import least_fec_route, least_fec_route_small
from topologies import load_network
from topologies.errors import NoPathError
from topologies.network import Link, Network, Node

OTHERS = ("ecmp", "disjoint-2", "disjoint-all", "max-flow", "min-cost", "capillary:1", "capillary:3", "capillary")


def rated(route: SplitRoute, tolerance: float, large: bool) -> float:
    return ror(route.loads, tolerance=tolerance, source_packets=20, decoding_error_rate=1e-5, large_blocks=large)


def small_network() -> Network:
    ends = "ab ac ad be bf cf dg fg ez gz fz"
    return Network(
        name="small",
        nodes=tuple(Node(id=n, kind="switch") for n in "abcdefgz"),
        links=tuple(Link(source=a, target=b) for a, b in ends.split()),
    )


@pytest.mark.parametrize("tolerance", [0.0, 0.036, 0.1])
def test_no_routing_needs_less_for_large_blocks_than_the_convex_optimum(tolerance: float) -> None:
    network = load_network("manet:nodes=40,seed=2,frame=0")
    least = least_fec_route(network, "n1", "n30", tolerance)
    assert least.bound <= least.ror <= least.bound * 1.001 + 1e-9
    assert least.ror == pytest.approx(rated(least.route, tolerance, True), rel=1e-9)
    for method in OTHERS:
        assert least.ror <= rated(route_by_name(network, "n1", "n30", method), tolerance, True) * (1 + 1e-4) + 1e-9


def test_no_routing_needs_less_for_short_blocks_than_the_staircase_optimum() -> None:
    network = small_network()
    least = least_fec_route_small(network, "a", "z", Coding(tolerance=0.05, source_packets=20))
    assert least.ror == pytest.approx(least.bound, abs=1e-3)
    assert least.ror == pytest.approx(rated(least.route, 0.05, False))
    for method in OTHERS:
        assert least.ror <= rated(route_by_name(network, "a", "z", method), 0.05, False) + 1e-9


def test_the_staircase_optimum_of_parallel_links_is_found_by_trying_all_splits() -> None:
    network = Network(
        name="three",
        nodes=(Node(id="a", kind="switch"), Node(id="b", kind="switch")),
        links=tuple(Link(source="a", target="b", key=k) for k in range(3)),
    )
    tried = min(
        ror([x, y, round(1 - x - y, 9)], tolerance=0.2, source_packets=10, decoding_error_rate=1e-5)
        for x, y in itertools.product([k / 200 for k in range(1, 199)], repeat=2)
        if x <= y and round(1 - x - y, 9) >= y
    )
    assert least_fec_route_small(network, "a", "b", Coding(tolerance=0.2, source_packets=10)).ror <= tried + 1e-9


def test_links_that_must_carry_everything_are_named_and_left_out() -> None:
    ends = "ab bc bd cz dz"
    network = Network(
        name="bridge",
        nodes=tuple(Node(id=n, kind="switch") for n in "abcdz"),
        links=tuple(Link(source=a, target=b) for a, b in ends.split()),
    )
    least = least_fec_route(network, "a", "z", 0.05)
    assert least.forced == (0,)
    assert least.ror == pytest.approx(4 * (0.95 / 0.5 - 1), rel=1e-5)


def test_a_tolerance_of_one_and_a_sink_out_of_reach_are_refused() -> None:
    with pytest.raises(InputError, match="below 1"):
        least_fec_route(small_network(), "a", "z", 1.0)
    with pytest.raises(NoPathError):
        least_fec_route(small_network(), "z", "a", 0.1)
