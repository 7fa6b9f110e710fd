"""The float recursion agrees with the exact one to nine digits, for any capacities and many pairs in one call."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import InputError
from testbed.routing import capillary_route
from testbed.routing.capillary.kernel import FloatRouter
from tests.helpers.drawn import drawn
from topologies import load_network
from topologies.errors import NoPathError
from topologies.network import Link, Network, Node


def random_network(seed: int, nodes: int, equal: bool) -> Network:
    generator = random.Random(seed)
    ends = [
        (a, b) for a in range(nodes) for b in range(nodes) if a != b and generator.random() < 0.35
    ]
    return Network(
        name=f"random-{seed}",
        nodes=tuple(Node(id=str(i), kind="switch") for i in range(nodes)),
        links=tuple(
            Link(
                source=str(a),
                target=str(b),
                capacity_bps=1e7 if equal else generator.choice([1e6, 1e7, 3e7]),
            )
            for a, b in ends
        ),
    )


@drawn(60)
@given(seed=st.integers(0, 10_000), nodes=st.integers(3, 14), equal=st.booleans())
def test_floats_agree_with_exact_fractions(seed: int, nodes: int, equal: bool) -> None:
    network = random_network(seed, nodes, equal)
    try:
        exact = capillary_route(network, "0", str(nodes - 1))
    except NoPathError:
        with pytest.raises(NoPathError):
            FloatRouter(network).loads("0", str(nodes - 1))
        return
    found = FloatRouter(network).loads("0", str(nodes - 1))
    assert found == pytest.approx([float(load) for load in exact.loads], rel=1e-9, abs=1e-12)


def test_a_large_network_and_many_pairs_agree_row_by_row() -> None:
    network = load_network("manet:nodes=115,seed=3,frame=0")
    pairs = [("n0", "n100"), ("n5", "n60"), ("h1", "h2")]
    router = FloatRouter(network)
    for pair in pairs:
        exact = np.array([float(load) for load in capillary_route(network, *pair).loads])
        assert np.abs(router.loads(*pair) - exact).max() < 1e-12


def test_hosts_do_not_forward_and_wrong_ends_are_refused() -> None:
    network = Network(
        name="through-a-host",
        nodes=(Node(id="a", kind="switch"), Node(id="h", kind="host"), Node(id="b", kind="switch")),
        links=(Link(source="a", target="h"), Link(source="h", target="b")),
    )
    router = FloatRouter(network)
    with pytest.raises(NoPathError):
        router.loads("a", "b")
    assert router.loads("h", "b").tolist() == [0.0, 1.0]
    with pytest.raises(InputError, match="both"):
        router.loads("a", "a")
    for pair in (("a", "x"), ("x", "a")):
        with pytest.raises(InputError, match="no node"):
            router.loads(*pair)
