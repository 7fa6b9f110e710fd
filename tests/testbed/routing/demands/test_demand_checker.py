"""The checker of routed demands finds what is wrong, and its bound is true of any prices."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.routing.demands.checker import check_demands, price_bound
from testbed.routing.demands.methods import route_demands
from tests.helpers.drawn import drawn
from tests.testbed.routing.demands.random_demands import random_matrix
from tests.testbed.routing.demands.test_routings_of_demands import demands_of
from topologies.network import Link, Network, Node

SQUARE = Network(
    name="square",
    nodes=(*(Node(id=i, kind="switch") for i in "abc"), Node(id="h", kind="host")),
    links=tuple(Link(source=s, target=t) for s, t in ("ab", "bc", "ac", "ah", "hc")),
)
DEMANDS = [("a", "c", 4e6)]
HALVES = {0: 0.5, 1: 0.5, 2: 0.5}
LOADS = [2e6, 2e6, 2e6, 0.0, 0.0]


def violations(
    shares: dict[int, float], loads: list[float], prices: list[float] | None = None
) -> tuple[str, ...]:
    return check_demands(SQUARE, DEMANDS, [shares], loads, prices).violations


def test_a_sound_routing_passes_with_its_loads() -> None:
    found = check_demands(SQUARE, DEMANDS, [HALVES], LOADS, [0, 1, 1, 0, 0])
    assert found.valid
    assert found.utilisation == found.bound == pytest.approx(0.2)


def test_a_flow_that_is_lost_on_the_way_is_named() -> None:
    assert any(
        "node b" in one for one in violations({0: 0.5, 1: 0.25, 2: 0.5}, [2e6, 1e6, 2e6, 0, 0])
    )


def test_demand_that_does_not_arrive_is_counted() -> None:
    assert check_demands(SQUARE, DEMANDS, [{2: 0.5}], [0, 0, 2e6, 0, 0]).unmet_bps == pytest.approx(
        2e6
    )


def test_loads_that_are_claimed_too_small_are_named() -> None:
    assert violations(HALVES, [2e6, 2e6, 1e6, 0, 0]) == (
        "link a->c: 1e+06 bit/s are claimed, the shares come to 2e+06",
    )


def test_a_way_through_a_host_is_refused() -> None:
    assert any("through a host" in one for one in violations({3: 1.0, 4: 1.0}, [0, 0, 0, 4e6, 4e6]))


def test_a_negative_share_is_refused() -> None:
    assert any(
        "outside 0 to 1" in one
        for one in violations({0: -0.5, 1: -0.5, 2: 1.5}, [-2e6, -2e6, 6e6, 0, 0])
    )


def test_no_distance_leads_through_a_host() -> None:
    assert price_bound(SQUARE, DEMANDS, [1, 1, 1, 0, 0]) == pytest.approx(4e6 * 1 / 3e7)


@drawn(30)
@given(st.integers(0, 10**6), st.lists(st.floats(0, 10), min_size=60, max_size=60))
def test_any_prices_bound_every_routing(seed: int, prices: list[float]) -> None:
    matrix = random_matrix(seed)
    bound = price_bound(matrix.network, demands_of(matrix), prices[: len(matrix.network.links)])
    assert route_demands(matrix, "optimum").greatest_utilisation >= bound * (1 - 1e-6)
