"""The basic linear programme is the capillary route where loads are large, and not one link more may be fixed than its
bottlenecks."""

from __future__ import annotations

from typing import get_args

import pytest

from experiments.capillary.basic_programme import nested_example
from testbed.routing import capillary_route
from testbed.routing.capillary.thesis_loop import Rule, hunt_layers
from topologies import load_network
from topologies.errors import NoPathError
from topologies.network import Link, Network, Node

NETWORKS = (("swiss-t1", "s1", "s6"), ("manet:nodes=40,seed=2,frame=0", "n1", "n30"))


@pytest.mark.parametrize(("name", "source", "sink"), NETWORKS)
@pytest.mark.parametrize("rule", ["priced", "hunted"])
def test_priced_and_hunted_links_give_the_capillary_route(
    name: str, source: str, sink: str, rule: Rule
) -> None:
    network = load_network(name)
    found, exact = (
        hunt_layers(network, source, sink, basic=rule),
        capillary_route(network, source, sink),
    )
    assert found.failure is None
    assert found.loads == pytest.approx([float(load) for load in exact.loads], abs=1e-9)
    if rule == "hunted":
        fixed = [{network.links[i].id for i in layer.bottlenecks} for layer in found.layers]
        assert fixed == [set(layer.bottlenecks) for layer in exact.layers]


def test_full_links_that_are_no_bottlenecks_are_fixed_too_early() -> None:
    network = load_network("manet:nodes=40,seed=2,frame=0")
    found, exact = (
        hunt_layers(network, "n1", "n30", basic="full"),
        capillary_route(network, "n1", "n30"),
    )
    first = set(exact.layers[0].bottlenecks)
    assert {network.links[i].id for i in found.layers[0].bottlenecks} > first
    assert len(found.layers) < len(exact.layers)


def test_capacities_weigh_in() -> None:
    ends = [("a", "b", 4e7), ("a", "c", 1e7), ("b", "d", 4e7), ("c", "d", 2e7)]
    network = Network(
        name="unequal",
        nodes=tuple(Node(id=n, kind="switch") for n in "abcd"),
        links=tuple(Link(source=s, target=t, capacity_bps=c) for s, t, c in ends),
    )
    exact = [float(load) for load in capillary_route(network, "a", "d").loads]
    for rule in get_args(Rule):
        assert hunt_layers(network, "a", "d", basic=rule).loads == pytest.approx(exact)


def test_tiny_loads_end_infeasible_where_the_stable_form_goes_on() -> None:
    network = nested_example(9)
    assert float(
        min(load for load in capillary_route(network, "s", "t").loads if load)
    ) == pytest.approx(12**-9)
    found = hunt_layers(network, "s", "t", basic="hunted")
    assert found.failure is not None and "infeasible" in found.failure
    assert found.layers[-1].load > 1e-8


def test_a_sink_out_of_reach_is_an_error() -> None:
    nodes = tuple(Node(id=n, kind="switch") for n in "abc")
    with pytest.raises(NoPathError, match="no path"):
        apart = Network(name="apart", nodes=nodes, links=(Link(source="a", target="b"),))
        hunt_layers(apart, "a", "c", basic="hunted")
