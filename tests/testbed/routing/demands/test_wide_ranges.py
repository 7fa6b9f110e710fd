"""Routings of demands whose rates or capacities are many powers of ten apart."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from testbed.errors import UndecidedError
from testbed.routing.demands import optimum
from testbed.routing.demands.matrix import DemandMatrix, RoutedDemands, checked, given_matrix
from testbed.routing.demands.methods import route_demands
from testbed.routing.demands.optimum import FairRates, water_filling
from testbed.routing.flows.linear_programs import UnsolvedError, solving
from tests.helpers.drawn import drawn
from topologies.network import Link, Network, Node

DECADES = ((3, 15), (5, 7), (6, 11))
METHODS = ("optimum", "fair", "max-min", "semi-ksp:3", "smore:3", "least-ror:1.05")


def network_of(*links: tuple[str, str, float]) -> Network:
    """Build a network of switches; parallel links get keys in turn."""
    names = sorted({end for link in links for end in link[:2]})
    built: list[Link] = []
    for source, sink, capacity in links:
        key = sum((link.source, link.target) == (source, sink) for link in built)
        built.append(Link(source=source, target=sink, key=key, capacity_bps=capacity))
    return Network(
        name="wide", nodes=tuple(Node(id=n, kind="switch") for n in names), links=tuple(built)
    )


def diamonds(narrow: float, wide: float) -> Network:
    """Build a to b over m and n with narrow links, and c to d over p and q with wide ones."""
    paths = [("amb", narrow), ("anb", narrow), ("cpd", wide), ("cqd", wide)]
    return network_of(*((x, y, capacity) for path, capacity in paths for x, y in pairwise(path)))


def wide_matrix(seed: int, capacities: tuple[int, int], rates: tuple[int, int]) -> DemandMatrix:
    """Build a ring with chords, a parallel cable now and then, and random demands."""
    rng = random.Random(seed)
    names = [f"s{i}" for i in range(rng.randint(4, 7))]
    cables = list(zip(names, [*names[1:], names[0]], strict=True))
    for _ in range(rng.randint(1, len(names))):
        first, second = rng.sample(names, 2)
        cables.append((first, second))
    links: list[tuple[str, str, float]] = []
    for first, second in cables:
        capacity = 10 ** rng.uniform(*capacities)
        back = capacity if seed % 2 else 10 ** rng.uniform(*capacities)
        links += [(first, second, capacity), (second, first, back)]
    pairs = [(a, b) for a in names for b in names if a != b]
    chosen = rng.sample(pairs, rng.randint(1, 12))
    demands = {pair: 10 ** rng.uniform(*rates) for pair in chosen}
    return given_matrix(network_of(*links), "random", demands)


@pytest.mark.parametrize("narrow", [1e3, 1e5, 1e9])
@pytest.mark.parametrize("wide", [1e9, 1e12, 1e15])
def test_optimum_of_two_diamonds_is_exact(narrow: float, wide: float) -> None:
    network = diamonds(narrow, wide)
    demands = {("a", "b"): 1.9 * narrow, ("c", "d"): 0.1 * wide}
    matrix = given_matrix(network, "two", demands)
    for method in ("optimum", "fair", "semi-ksp:2"):
        assert route_demands(matrix, method).greatest_utilisation == pytest.approx(0.95, rel=1e-5)
    assert checked(route_demands(matrix, "optimum")).bound == pytest.approx(0.95, rel=1e-6)


@pytest.mark.parametrize("narrow", [1e3, 6.4e4, 1e9])
@pytest.mark.parametrize("wide", [1e9, 1e12, 1e15])
def test_fair_rates_of_two_diamonds_are_exact(narrow: float, wide: float) -> None:
    matrix = given_matrix(diamonds(narrow, wide), "two", {("a", "b"): 1e4, ("c", "d"): 1e11})
    rates = water_filling(matrix).rates_bps
    assert rates.tolist() == pytest.approx([2 * narrow, 2 * wide], rel=1e-5)


@pytest.mark.parametrize("rates", [(1e3, 1e14), (1e12, 1e2)])
def test_demands_of_one_source_far_apart(rates: tuple[float, float]) -> None:
    """One source sends to b over narrow links and to c over a wide one."""
    network = network_of(("a", "b", 1e4), ("a", "x", 1e4), ("x", "b", 1e4), ("a", "c", 1e15))
    matrix = given_matrix(network, "two", {("a", "b"): rates[0], ("a", "c"): rates[1]})
    used = route_demands(matrix, "fair").greatest_utilisation
    assert used == pytest.approx(max(rates[0] / 2e4, rates[1] / 1e15), rel=1e-5)
    heights = water_filling(matrix).rates_bps
    assert heights.tolist() == pytest.approx([2e4, 1e15], rel=1e-5)


def test_parallel_links_far_apart_share_by_capacity() -> None:
    network = network_of(("a", "b", 1e15), ("a", "b", 1e5), ("b", "c", 1e4))
    matrix = given_matrix(network, "two", {("a", "b"): 5e14, ("b", "c"): 1.0})
    routed = route_demands(matrix, "optimum")
    assert routed.greatest_utilisation == pytest.approx(0.5, rel=1e-6)


@drawn(25)
@given(st.integers(0, 10**6), st.sampled_from(DECADES), st.sampled_from(DECADES))
def test_every_method_is_right_or_undecided(
    seed: int, capacities: tuple[int, int], rates: tuple[int, int]
) -> None:
    matrix = wide_matrix(seed, capacities, rates)
    best = checked(route_demands(matrix, "optimum"))
    assert best.bound >= best.utilisation * (1 - 1e-5)
    assert best.valid
    for method in METHODS:
        try:
            check = checked(route_demands(matrix, method, 1))
        except UndecidedError:
            continue
        except ValueError as error:
            assert "raise it" in str(error)
            continue
        assert check.violations == (), method
        assert check.utilisation >= best.bound * (1 - 1e-6), method


@drawn(10)
@given(st.integers(0, 10**6), st.sampled_from(DECADES))
def test_demands_alike_are_always_decided(seed: int, capacities: tuple[int, int]) -> None:
    matrix = wide_matrix(seed, capacities, (6, 7))
    assert_fair(matrix, water_filling(matrix))


def test_trees_do_not_claim_more_than_they_prove() -> None:
    matrix = wide_matrix(1099, (3, 15), (6, 7))
    exact = checked(route_demands(matrix, "optimum"))
    with pytest.MonkeyPatch.context() as large:
        large.setattr(optimum, "MAX_WHOLE", 0)
        check = checked(route_demands(matrix, "optimum"))
    assert check.bound <= exact.utilisation * (1 + 1e-6)
    assert check.utilisation >= exact.utilisation * (1 - 1e-6)


def assert_fair(matrix: DemandMatrix, fair: FairRates) -> None:
    """Compare each level with a programme over whole paths, one for each pair and level."""
    paths, owners = all_paths(matrix)
    capacity = np.array([link.capacity_bps for link in matrix.network.links])
    rates = np.full(len(matrix.pairs), np.nan)
    for level in fair.levels:
        for factor, possible in ((1 - 1e-4, True), (1 + 1e-4, False)):
            wanted = np.where(np.isnan(rates), level.height * factor * matrix.rates, rates)
            assert carried(wanted * (1 - 1e-7), (paths, owners), capacity) == possible
        for pair in level.pairs:
            rates[pair] = level.height * matrix.rates_bps[pair]


def all_paths(matrix: DemandMatrix) -> tuple[list[list[int]], list[int]]:
    """Return every simple path of each pair, and the pair of each path."""
    paths: list[list[int]] = []
    owners: list[int] = []

    def extend(pair: int, node: str, visited: Sequence[str], links: list[int]) -> None:
        if node == matrix.pairs[pair][1]:
            paths.append(links)
            owners.append(pair)
            return
        for link in matrix.network.out_links(node):
            target = matrix.network.links[link].target
            if target not in visited:
                extend(pair, target, [*visited, target], [*links, link])

    for pair, (source, _) in enumerate(matrix.pairs):
        extend(pair, source, [source], [])
    return paths, owners


def carried(
    rates: np.ndarray, routes: tuple[list[list[int]], list[int]], capacity: np.ndarray
) -> bool:
    """Return whether the paths carry the rates.

    Each path's variable is in units of its narrowest link, and each pair is measured by its rate.
    """
    paths, owners = routes
    narrowest = np.array([capacity[path].min() for path in paths])
    loads = np.zeros((len(capacity), len(paths)))
    for column, path in enumerate(paths):
        loads[path, column] = narrowest[column] / capacity[path]
    share = np.zeros((len(rates), len(paths)))
    share[owners, np.arange(len(paths))] = np.minimum(narrowest / rates[owners], 1e6)
    # All pairs may be short by the same fraction, which is made as small as possible.
    result = linprog(
        np.append(np.zeros(len(paths)), 1.0),
        A_ub=np.block([[loads, np.zeros((len(capacity), 1))], [-share, -np.ones((len(rates), 1))]]),
        b_ub=np.append(np.ones(len(capacity)), -np.ones(len(rates))),
        bounds=(0, None),
    )
    return bool(result.status == 0 and result.fun < 1e-6)


def test_checker_reports_a_least_ror_above_its_limit() -> None:
    network = diamonds(1e5, 1e12)
    matrix = given_matrix(network, "two", {("a", "b"): 1.9e5, ("c", "d"): 1e11})
    routed = route_demands(matrix, "least-ror:1.05")
    assert routed.limit == pytest.approx(0.9975)
    assert checked(routed).valid
    spoilt: RoutedDemands = replace(routed, limit=0.9)
    assert "promises at most 0.9" in checked(spoilt).violations[0]


def test_failure_of_the_solver_is_not_bad_input() -> None:
    with pytest.raises(UndecidedError, match="cannot tell"), solving("demands"):
        raise UnsolvedError("infeasible")
    assert UndecidedError.exit_code == 5
