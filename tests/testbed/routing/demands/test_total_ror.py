"""Total ROR of a demand matrix: each pair's as ``fec`` has it, forced links left out; and the least there is."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fec.redundancy.ror import ror
from testbed.routing import route_by_name
from testbed.routing.demands.matrix import DemandMatrix, gravity_matrix, uniform_matrix
from testbed.routing.demands.methods import route_demands
from testbed.routing.demands.per_pair import capillary_demands
from testbed.routing.demands.redundancy import (
    least_ror_demands,
    segments,
    total_ror,
    unavoidable_links,
)
from testbed.routing.redundancy.coding import Coding
from testbed.routing.redundancy.least_fec import overhead
from testbed.routing.redundancy.route_ror import route_breakdown
from topologies import load_network

ABILENE = load_network("topohub:sndlib/abilene")


def abilene() -> DemandMatrix:
    return gravity_matrix(ABILENE, [node.id for node in ABILENE.switches])


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("tolerance", [0.036, 0.05, 0.078])
def test_each_pair_has_the_ror_of_its_route(large: bool, tolerance: float) -> None:
    matrix = uniform_matrix(load_network("swiss-t1"), ["s1", "s4", "s6"])
    found = total_ror(capillary_demands(matrix), Coding(tolerance=tolerance, large_blocks=large))
    for pair, value in zip(matrix.pairs, found.per_pair, strict=True):
        loads = route_by_name(matrix.network, *pair).loads
        exact = ror(
            loads,
            tolerance=tolerance,
            source_packets=20,
            decoding_error_rate=1e-5,
            large_blocks=large,
        )
        assert value == pytest.approx(exact, rel=1e-6)
    assert found.exposed == 0
    assert (
        found.total
        == pytest.approx(found.per_pair.sum())
        == pytest.approx(found.weighted * len(matrix.pairs))
    )


def test_stratified_ror_is_that_of_the_label_intervals() -> None:
    matrix = uniform_matrix(load_network("swiss-t1"), ["s1", "s6"])
    coding = Coding(tolerance=0.05, labels="stratified")
    found = total_ror(capillary_demands(matrix), coding)
    exact = [
        route_breakdown(route_by_name(matrix.network, *pair), coding).ror for pair in matrix.pairs
    ]
    assert found.per_pair == pytest.approx(exact, rel=1e-6)


def test_a_bridge_counts_for_none_and_an_avoidable_link_exposes_the_pair() -> None:
    matrix = abilene()
    forced = unavoidable_links(capillary_demands(matrix))
    bridged = {i for i, pair in enumerate(matrix.pairs) if "0" in pair}  # node 0 hangs on one cable
    assert set(np.flatnonzero(np.diff(forced.indptr)).tolist()) == bridged
    single = total_ror(route_demands(matrix, "single"), Coding(tolerance=0.05), forced)
    assert math.isinf(single.total)
    assert single.exposed == 130  # all but the one cable that two of the pairs must take
    assert (
        total_ror(route_demands(matrix, "capillary"), Coding(tolerance=0.05), forced).exposed == 0
    )


def test_tangents_lie_below_the_curve_and_touch_it() -> None:
    widths, slopes = segments(0.05)
    ends = np.concatenate([[0.0], np.cumsum(widths)])
    heights = np.concatenate([[0.0], np.cumsum(widths * slopes)])
    at = np.linspace(0, 0.999, 500)
    below = np.interp(at, ends, heights)
    assert (below <= overhead(at, 0.05) + 1e-9).all()
    assert np.interp(0.4, ends, heights) == pytest.approx(float(overhead(np.array([0.4]), 0.05)[0]))


def test_least_redundancy_lies_between_its_bound_and_other_routings() -> None:
    matrix = abilene()
    forced = unavoidable_links(capillary_demands(matrix))
    large = Coding(tolerance=0.05, large_blocks=True)
    best = route_demands(matrix, "optimum").greatest_utilisation
    free, tight = least_ror_demands(matrix, forced), least_ror_demands(matrix, forced, 1.05 * best)
    assert free is not None and tight is not None
    assert tight.routed.greatest_utilisation <= 1.05 * best * (1 + 1e-6)
    assert free.bound <= free.ror <= 1.02 * free.bound
    assert free.bound <= tight.ror + 1e-6
    for method in ("capillary", "raecke"):
        assert total_ror(route_demands(matrix, method), large, forced).total >= free.bound
    assert total_ror(tight.routed, large, forced).total == pytest.approx(tight.ror, rel=1e-3)
    assert least_ror_demands(matrix, forced, 0.9 * best) is None
