"""Random ways up a fat tree (``--routing nca``): every way to the nearest common ancestor, each as often, and no
other."""

from __future__ import annotations

from collections import Counter

import pytest

from testbed.errors import InputError
from testbed.interconnect.network_model import NetworkModel, build_model
from testbed.interconnect.parameters import SimulationParameters
from testbed.interconnect.results import SimulationResult
from testbed.interconnect.simulation import simulate
from testbed.interconnect.traffic.injection import InjectionProcess, build_injections, build_pattern
from topologies import load_network


def model_of(network: str) -> NetworkModel:
    return build_model(load_network(network), SimulationParameters(routing="nca"))


def way(model: NetworkModel, variant: int, router: int, host: int) -> tuple[int, ...]:
    walked = []
    while router != model.paths.host_router[host]:
        link = model.routes.next_link[variant, router, model.paths.routers + host]
        router = int(model.links.end[link])
        walked.append(router)
    return tuple(walked)


def test_random_paths_up_are_uniform_and_shortest() -> None:
    model = model_of("fat-tree:3,3")
    for leaf in range(9):
        for host in range(27):
            level = 0 if leaf == host // 3 else 1 if leaf // 3 == host // 9 else 2
            ways = Counter(way(model, variant, leaf, host) for variant in range(9))
            assert len(ways) == 3**level and len(set(ways.values())) == 1
            assert {len(found) for found in ways} == {2 * level}


def shifted(routing: str) -> SimulationResult:
    """Transpose at half a link: d-mod-k sends the four hosts of a leaf up by one port, for their destinations have one
    last digit."""
    network = load_network("fat-tree:4,2")
    pattern = build_pattern("transpose", 16, to_itself=True)
    messages = build_injections(
        pattern, InjectionProcess(rate_per_s=61_035.0), duration_s=0.004, seed=1
    )
    return simulate(
        network, messages, SimulationParameters(routing=routing, deadlock="virtual-channels")
    )


def test_random_upward_paths_carry_permutations_that_one_path_cannot() -> None:
    one, random = (shifted(routing).latencies_s().mean() for routing in ("d-mod-k", "nca"))
    assert one > 3 * random


@pytest.mark.parametrize(
    "network, says",
    [("torus:4x4", "not a fat tree"), ("clos:4", "no fat-tree"), ("fat-tree:17,3", "289")],
)
def test_a_network_without_such_ways_or_with_too_many_is_refused(network: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        model_of(network)
