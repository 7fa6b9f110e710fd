"""The route of least ROR: never above any other routing, and never below its bound."""

from __future__ import annotations

import pytest

from fec import ror
from testbed.errors import InputError
from testbed.model.routes import SplitRoute
from testbed.routing import route_by_name
from testbed.routing.redundancy.least_fec import least_fec_route
from topologies import load_network
from topologies.errors import NoPathError
from topologies.network import Link, Network, Node

OTHERS = (
    "ecmp",
    "disjoint-2",
    "disjoint-all",
    "max-flow",
    "min-cost",
    "capillary:1",
    "capillary:3",
    "capillary",
)


def rated(route: SplitRoute, tolerance: float) -> float:
    return ror(
        route.loads,
        tolerance=tolerance,
        source_packets=20,
        decoding_error_rate=1e-5,
        large_blocks=True,
    )


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
    assert least.ror == pytest.approx(rated(least.route, tolerance), rel=1e-9)
    for method in OTHERS:
        assert (
            least.ror
            <= rated(route_by_name(network, "n1", "n30", method), tolerance) * (1 + 1e-4) + 1e-9
        )


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
