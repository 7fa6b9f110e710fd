"""What must hold between the routings of a demand matrix, whatever the network: each judged by the independent
checker."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import InputError
from testbed.routing.capillary.kernel import FloatRouter
from testbed.routing.demands import optimum
from testbed.routing.demands.checker import DemandCheck, check_demands
from testbed.routing.demands.matrix import (
    DemandMatrix,
    RoutedDemands,
    fair_rates,
    given_matrix,
    gravity_matrix,
    uniform_matrix,
)
from testbed.routing.demands.methods import demand_routing, route_demands
from testbed.routing.demands.per_pair import mirror_links
from tests.helpers.drawn import drawn
from tests.testbed.routing.demands.random_demands import random_matrix
from topologies import load_network

METHODS = (
    "single",
    "ecmp",
    "disjoint-2",
    "capillary",
    "ksp:3",
    "semi-ksp:3",
    "raecke",
    "smore:3",
    "optimum",
    "fair",
)


def shares_of(routed: RoutedDemands) -> list[Mapping[int, float]]:
    return [
        {int(at): float(share) for at, share in enumerate(routed.pair_shares(i)) if share}
        for i in range(len(routed.matrix.pairs))
    ]


def demands_of(matrix: DemandMatrix) -> list[tuple[str, str, float]]:
    return [(*pair, rate) for pair, rate in zip(matrix.pairs, matrix.rates_bps, strict=True)]


def checked(routed: RoutedDemands) -> DemandCheck:
    prices = None if routed.prices is None else routed.prices.tolist()
    loads = routed.loads_bps.tolist()
    return check_demands(
        routed.matrix.network, demands_of(routed.matrix), shares_of(routed), loads, prices
    )


@drawn(12)
@given(st.integers(0, 10**6))
def test_the_optimum_by_trees_is_that_of_the_whole_programme_with_a_proof(seed: int) -> None:
    matrix = random_matrix(seed)
    with pytest.MonkeyPatch.context() as large:
        large.setattr(optimum, "MAX_WHOLE", 0)
        routed = route_demands(matrix, "optimum")
    found = checked(routed)
    assert found.valid and found.unmet_bps < 1e-6 * matrix.total_bps
    assert found.bound == pytest.approx(found.utilisation, rel=1e-6)
    assert found.utilisation == pytest.approx(
        route_demands(matrix, "optimum").greatest_utilisation, rel=1e-6
    )


@drawn(12)
@given(st.integers(0, 10**6))
def test_each_routing_meets_the_demand_and_none_is_below_the_optimum(seed: int) -> None:
    matrix = random_matrix(seed)
    routed = {method: route_demands(matrix, method) for method in METHODS}
    best = checked(routed["optimum"])
    assert best.bound == pytest.approx(best.utilisation, rel=1e-5)
    for method, one in routed.items():
        found = checked(one)
        assert found.valid, (method, found.violations)
        assert found.unmet_bps < 1e-6 * matrix.total_bps
        assert found.utilisation == pytest.approx(one.greatest_utilisation)
        assert found.utilisation >= best.bound * (1 - 1e-6), method
    used = {method: one.greatest_utilisation for method, one in routed.items()}
    assert used["semi-ksp:3"] <= used["ksp:3"] * (1 + 1e-6)
    assert used["fair"] == pytest.approx(used["optimum"], rel=1e-4)


def test_rounding_leaves_no_share_at_an_unreached_node() -> None:
    """Seed 79: 1e-6 of a source's demand enters a switch over links that each carry less, and leaves it over one that
    carries more."""
    assert checked(route_demands(random_matrix(79), "fair")).violations == ()


@drawn(15)
@given(st.integers(0, 10**6))
def test_semi_oblivious_over_all_tree_paths_is_no_worse_than_the_trees(seed: int) -> None:
    matrix = random_matrix(seed)
    oblivious = route_demands(matrix, "raecke", seed).greatest_utilisation
    assert route_demands(matrix, "smore:1000", seed).greatest_utilisation <= oblivious * (1 + 1e-6)


@drawn(15)
@given(st.integers(0, 10**6))
def test_fair_utilisation_is_no_worse_than_the_optimum_link_by_link(
    seed: int,
) -> None:
    matrix = random_matrix(seed)
    fair = np.sort(route_demands(matrix, "fair").utilisations)[::-1]
    other = np.sort(route_demands(matrix, "optimum").utilisations)[::-1]
    differs = np.flatnonzero(np.abs(fair - other) > 1e-4 * fair[0])
    assert not len(differs) or fair[differs[0]] < other[differs[0]]


def test_one_pair_alone_in_the_fair_routing_has_the_capillary_loads() -> None:
    matrix = uniform_matrix(load_network("swiss-t1"), ["s1", "s6"])
    one = type(matrix)(
        network=matrix.network, name="one", pairs=matrix.pairs[:1], rates_bps=matrix.rates_bps[:1]
    )
    fair, capillary = (
        route_demands(one, method).pair_shares(0) for method in ("fair", "capillary")
    )
    assert fair == pytest.approx(capillary, abs=1e-5)


def test_mirrored_capillary_routes_are_those_that_are_computed() -> None:
    network = load_network("topohub:sndlib/abilene")
    matrix = uniform_matrix(network, [node.id for node in network.switches][:7])
    assert mirror_links(network) is not None
    router = FloatRouter(network)
    direct = np.array([router.loads(*pair) for pair in matrix.pairs])
    assert route_demands(matrix, "capillary").shares.toarray() == pytest.approx(direct, abs=1e-12)


def test_no_mirror_where_the_two_ways_of_a_cable_differ() -> None:
    one_way = random_matrix(3).network
    assert (
        mirror_links(type(one_way)(name="cut", nodes=one_way.nodes, links=one_way.links[1:]))
        is None
    )


@pytest.mark.parametrize("method", ["optimum", "fair"])
def test_a_demand_as_small_as_the_solvers_rounding_has_a_path_too(method: str) -> None:
    network = load_network("fat-tree:4,2")
    matrix = given_matrix(network, "two", {("h0", "h15"): 1e7, ("h0", "h3"): 1.0})
    routed = route_demands(matrix, method)
    assert all(float(routed.pair_shares(pair).sum()) >= 2 for pair in range(2))
    assert not checked(routed).violations
    alone = route_demands(given_matrix(network, "one", {("h0", "h15"): 1e7}), method)
    assert routed.greatest_utilisation == pytest.approx(alone.greatest_utilisation, rel=1e-6)


def test_fair_rates_fill_links_in_turn() -> None:
    ring = load_network("ring:4")
    matrix = gravity_matrix(ring, ["s0", "s1"])
    routed = route_demands(matrix, "single")
    assert fair_rates(routed).tolist() == pytest.approx([1e7, 1e7])


@drawn(15)
@given(st.integers(0, 10**6))
def test_fair_rates_respect_capacities_and_stop_pairs_at_full_links(
    seed: int,
) -> None:
    routed = route_demands(random_matrix(seed), "ecmp")
    rates = fair_rates(routed)
    capacity = np.array([link.capacity_bps for link in routed.matrix.network.links])
    loads = routed.shares.T @ rates
    assert (loads <= capacity * (1 + 1e-6)).all()
    full = loads >= capacity * (1 - 1e-6)
    assert all(full[routed.pair_shares(i) > 0].any() for i in range(len(rates)))
    assert float((rates / routed.matrix.rates).min()) == pytest.approx(
        1 / routed.greatest_utilisation
    )


@pytest.mark.parametrize(
    "name", ["smore:0", "ksp:x", "least-ror:0.5", "least-ror", "optimum:3", "swift", "disjoint:0"]
)
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(InputError):
        demand_routing(name)
