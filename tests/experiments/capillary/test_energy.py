"""Energy of mobile nodes (Gabrielyan 2007, page 84): transmissions a source packet takes, at rest and while a link is
down, by the number of layers. What spreading saves in redundancy it pays in longer paths."""

from __future__ import annotations

import statistics
from functools import cache

import pytest

from experiments.capillary.mobile_pairs import joined
from fec.redundancy.block_size import fec_block_size
from testbed.campaigns.rows import drawn_pair
from testbed.model.routes import SplitRoute
from testbed.routing import capillary_route
from topologies import load_network

M, DER, FRAMES = 20, 1e-5, 12


@cache
def routes(layers: int) -> list[SplitRoute]:
    found = []
    for frame in range(FRAMES):
        network = load_network(f"manet:nodes=60,seed=5,frame={frame}")
        pair = joined(network, drawn_pair(network, 5, 0, minimum_paths=2))
        found.append(capillary_route(network, *pair, layers=layers))
    return found


def transmissions(route: SplitRoute, size: int) -> float:
    """Of a source packet: each link sends its load's share of N packets a block of M."""
    return sum(map(float, route.loads)) * size / M


def at_rest(route: SplitRoute) -> float:
    return transmissions(route, fec_block_size(M, 0.05, DER))


def under_failures(route: SplitRoute) -> float:
    """Mean over the links that carry part of the stream, each down in its turn."""
    hit = [float(load) for load in route.loads if 0.05 <= load < 1]
    return statistics.fmean(transmissions(route, fec_block_size(M, load, DER)) for load in hit)


def test_spreading_costs_energy_without_failures_and_saves_some_with_them() -> None:
    one, five = ([f(r) for r in routes(layers)] for layers in (1, 5) for f in (at_rest,))
    longer = statistics.fmean(b / a for a, b in zip(one, five, strict=True))
    assert 1.0 <= longer < 1.5, "paths of later layers are no shorter, and not much longer"
    rises = [
        statistics.fmean(under_failures(r) / at_rest(r) for r in routes(layers))
        for layers in (1, 5)
    ]
    assert rises[1] < rises[0], "a failed link calls for less, the more the stream is spread"


def test_transmissions_are_hops_times_redundancy() -> None:
    for route in routes(1):
        hops = sum(map(float, route.loads))
        assert transmissions(route, M) == pytest.approx(hops) and transmissions(
            route, 2 * M
        ) == pytest.approx(2 * hops)
