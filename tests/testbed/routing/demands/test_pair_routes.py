"""A pair of a routed demand matrix as labels: they carry what the routing says, and nothing that circles."""

from __future__ import annotations

import numpy as np
import pytest

from testbed.routing.demands.matrix import given_matrix
from testbed.routing.demands.methods import route_demands
from testbed.routing.demands.pair_routes import flow_paths
from tests.helpers.pair_routes import pair_route
from topologies import load_network

PAIRS = {("s1", "s6"): 300.0, ("s2", "s5"): 200.0, ("s4", "s7"): 250.0}


@pytest.mark.parametrize("method", ["capillary", "smore:4", "optimum", "least-ror:1.2"])
def test_labels_carry_what_the_routing_says(method: str) -> None:
    routed = route_demands(given_matrix(load_network("swiss-t1"), "three pairs", PAIRS), method)
    for k, (source, sink) in enumerate(PAIRS):
        split, route = pair_route(routed, k)
        assert (split.source, split.sink, route.method) == (source, sink, method)
        assert [float(load) for load in route.loads] == pytest.approx(routed.pair_shares(k).tolist(), abs=1e-4)


def test_a_flow_falls_apart_into_its_widest_paths_and_what_circles_is_left_aside() -> None:
    network = load_network("swiss-t1")
    index = {link.id[:2]: i for i, link in enumerate(network.links)}
    shares = np.zeros(len(network.links))
    for ends, share in ((("s1", "s6"), 0.25), (("s1", "s2"), 0.75), (("s2", "s5"), 0.75), (("s5", "s6"), 0.75)):
        shares[index[ends]] += share
    for ends in (("s3", "s4"), ("s4", "s3")):
        shares[index[ends]] += 0.1
    found = flow_paths(network, ("s1", "s6"), shares)
    assert [(links, float(share)) for links, share in found] == [
        ((index["s1", "s2"], index["s2", "s5"], index["s5", "s6"]), 0.75),
        ((index["s1", "s6"],), 0.25),
    ]
