"""Max-min-fair rates over free routes: worked by hand, proved by prices, and no proof of rates that are too low or
wrongly stopped."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from testbed.routing.demands.checker import check_fair_rates
from testbed.routing.demands.matrix import checked, given_matrix
from testbed.routing.demands.optimum import FairRates, optimal_demands, water_filling
from tests.helpers.drawn import drawn
from tests.testbed.routing.demands.random_demands import random_matrix
from topologies.network import Link, Network, Node


def demands_of(found: FairRates) -> list[tuple[str, str, float]]:
    matrix = found.routed.matrix
    return [(*pair, rate) for pair, rate in zip(matrix.pairs, matrix.rates_bps, strict=True)]


def test_three_flows_on_two_links_by_hand() -> None:
    """a -> b of 10 Mbit/s, b -> c of 30: a to c and a to b share the first, 5 each; b to c takes the 25 that are
    left."""
    network = Network(
        name="line",
        nodes=tuple(Node(id=n, kind="switch") for n in "abc"),
        links=(
            Link(source="a", target="b", capacity_bps=1e7),
            Link(source="b", target="c", capacity_bps=3e7),
        ),
    )
    found = water_filling(
        given_matrix(network, "three", {("a", "c"): 1e6, ("a", "b"): 1e6, ("b", "c"): 1e6})
    )
    assert found.rates_bps.tolist() == pytest.approx([5e6, 5e6, 2.5e7], rel=1e-5)
    assert [level.pairs for level in found.levels] == [(0, 1), (2,)]
    assert check_fair_rates(network, demands_of(found), found.levels) == []


@drawn(15)
@given(st.integers(0, 10**6))
@example(36654)  # a rate so small that the solver called the next level infeasible
def test_rates_are_proved_and_fit(seed: int) -> None:
    matrix = random_matrix(seed)
    found = water_filling(matrix)
    assert check_fair_rates(matrix.network, demands_of(found), found.levels) == []
    assert checked(found.routed).violations == ()
    capacity = np.array([link.capacity_bps for link in matrix.network.links])
    assert (found.routed.shares.T @ found.rates_bps <= capacity * (1 + 1e-5)).all()
    assert found.levels[0].height == pytest.approx(
        1 / optimal_demands(matrix).greatest_utilisation, rel=1e-6
    )


def test_a_spoilt_certificate_proves_nothing() -> None:
    matrix = random_matrix(5)
    found = water_filling(matrix)
    demands, first = demands_of(found), found.levels[0]

    def objections(*levels: object) -> str:
        return "; ".join(check_fair_rates(matrix.network, demands, levels))  # type: ignore[arg-type]

    assert "let the pairs rise" in objections(
        replace(first, height=0.9 * first.height), *found.levels[1:]
    )
    assert "stop no pair" in objections(replace(first, prices=0 * first.prices))
    assert "has no level" in objections(*found.levels[:-1])
    loose = tuple(range(len(demands)))
    assert "is not stopped" in objections(replace(first, pairs=loose))
