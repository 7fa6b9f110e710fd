"""The thesis' own loop finds the recursion's route, layer by layer, and shows its hunt."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from testbed.errors import InputError
from testbed.routing import capillary_route, route_by_name
from testbed.routing.capillary import thesis_loop
from testbed.routing.capillary.thesis_loop import hunt_layers
from testbed.routing.flows.end_points import exact_route, flow_problem
from testbed.routing.flows.linear_programs import UnsolvedError, solve_lp
from topologies import load_network
from topologies.errors import NoPathError
from topologies.network import Link, Network, Node


@pytest.mark.parametrize(
    ("name", "source", "sink"),
    [
        ("swiss-t1", "s1", "s6"),
        ("manet:nodes=40,seed=2,frame=0", "n1", "n30"),
        ("optical-cloud", "WA", "NJ"),
    ],
)
def test_the_loop_and_the_recursion_agree_on_loads_factors_and_bottlenecks(
    name: str, source: str, sink: str
) -> None:
    network = load_network(name)
    if source not in network.node_index:
        source, sink = network.switches[0].id, network.switches[-1].id
    exact, hunted = capillary_route(network, source, sink), hunt_layers(network, source, sink)
    assert hunted.loads == pytest.approx([float(load) for load in exact.loads], abs=1e-8)
    assert [layer.factor for layer in hunted.layers] == pytest.approx(
        [float(layer.factor) for layer in exact.layers]
    )
    for layer, true in zip(hunted.layers, exact.layers, strict=True):
        assert {network.links[i].id for i in layer.bottlenecks} == set(true.bottlenecks)


def test_suspects_never_grow_and_end_as_the_bottlenecks() -> None:
    network = load_network("manet:nodes=40,seed=2,frame=0")
    for layer in hunt_layers(network, "n1", "n30", layers=4).layers:
        assert list(layer.suspects) == sorted(layer.suspects, reverse=True)
        assert layer.suspects[-1] == layer.suspects[-2] == len(layer.bottlenecks)


def test_capacities_weigh_in_as_they_do_in_the_recursion() -> None:
    ends = [("a", "b", 4e7), ("a", "c", 1e7), ("b", "d", 4e7), ("c", "d", 2e7)]
    network = Network(
        name="unequal",
        nodes=tuple(Node(id=n, kind="switch") for n in "abcd"),
        links=tuple(Link(source=s, target=t, capacity_bps=c) for s, t, c in ends),
    )
    expected = [float(load) for load in capillary_route(network, "a", "d").loads]
    assert hunt_layers(network, "a", "d").loads == pytest.approx(expected)
    assert [
        float(x) for x in route_by_name(network, "a", "d", "thesis-loop").loads
    ] == pytest.approx(expected)


@pytest.mark.parametrize("thin", [7e3, 1e3, 1.0])
def test_capacities_beyond_float_precision_are_refused(thin: float) -> None:
    ends = [
        ("a", "b", 1e9),
        ("a", "c", thin),
        ("c", "b", 1e9),
        ("b", "d", thin),
        ("c", "d", thin),
        ("a", "d", thin),
    ]
    nodes = tuple(Node(id=i, kind="switch") for i in "abcd")
    links = tuple(Link(source=s, target=t, capacity_bps=capacity) for s, t, capacity in ends)
    network = Network(name="thin", nodes=nodes, links=links)
    with pytest.raises(InputError, match=r"more than 10,000.* exact method 'capillary'"):
        route_by_name(network, "a", "d", "thesis-loop")
    assert route_by_name(network, "a", "d").loads


def test_a_sink_out_of_reach_is_reported_not_looped_over() -> None:
    network = Network(
        name="apart",
        nodes=tuple(Node(id=n, kind="switch") for n in "abc"),
        links=(Link(source="a", target="b"),),
    )
    with pytest.raises(NoPathError, match="no path"):
        hunt_layers(network, "a", "c")


def test_floats_become_a_flow_that_is_conserved_exactly_and_has_no_circle() -> None:
    ends = [("a", "b"), ("b", "c"), ("c", "b"), ("b", "d"), ("a", "d")]
    network = Network(
        name="circle",
        nodes=tuple(Node(id=n, kind="switch") for n in "abcd"),
        links=tuple(Link(source=s, target=t) for s, t in ends),
    )
    problem = flow_problem(network, "a", "d")
    near = {"a->b": 1 / 3, "b->c": 0.25, "c->b": 0.25, "b->d": 0.3333333334, "a->d": 2 / 3}
    route = exact_route(problem, "near", [near[network.links[i].label] for i in problem.links])
    assert [float(load) for load in route.loads] == pytest.approx([1 / 3, 0, 0, 1 / 3, 2 / 3])
    assert route.loads[0] + route.loads[4] == Fraction(1)


def test_programme_that_the_solver_abandons_is_bad_input_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    solved: list[int] = []

    def gives_up(*arguments: Any, **options: Any) -> Any:
        solved.append(1)
        if len(solved) == 2:
            raise UnsolvedError("time limit")
        return solve_lp(*arguments, **options)

    monkeypatch.setattr(thesis_loop, "solve_lp", gives_up)
    words = r"'swiss-t1'.* lost its precision at linear programme 2 \(time limit\).*exact method 'capillary'"
    with pytest.raises(InputError, match=words):
        route_by_name(load_network("swiss-t1"), "s1", "s6", "thesis-loop")


def test_interior_solution_fills_only_bottlenecks_and_leaves_no_suspects() -> None:
    network = load_network("manet:nodes=40,seed=2,frame=0")
    vertices, inside = (
        hunt_layers(network, "n1", "n30", layers=6, interior=interior) for interior in (False, True)
    )
    assert [layer.bottlenecks for layer in inside.layers] == [
        layer.bottlenecks for layer in vertices.layers
    ]
    assert all(layer.suspects == (len(layer.bottlenecks),) * 2 for layer in inside.layers)
    assert all(layer.suspects[0] > 2 * len(layer.bottlenecks) for layer in vertices.layers)


def test_figures_54_to_57_reduce_four_suspects_to_two_in_two_iterations() -> None:
    network = load_network("bottleneck-hunt")
    first, second = hunt_layers(network, "s", "t", layers=2).layers
    assert {network.links[i].label for i in first.bottlenecks} == {
        "s->s1",
        "s->s2",
        "s->s3",
        "t1->t",
        "t2->t",
    }
    assert second.factor == pytest.approx(4 / 3)
    assert second.suspects == (4, 3, 2, 2)
    assert {network.links[i].label for i in second.bottlenecks} == {"s1->t1", "s2->t1"}
    assert [layer.factor for layer in capillary_route(network, "s", "t").layers[:2]] == [
        Fraction(2),
        Fraction(4, 3),
    ]
