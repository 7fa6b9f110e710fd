"""The small network of Gabrielyan 2007, Figures 44 to 53: the numbers of its text, and the graphs that have them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction

import pytest

from testbed.routing import capillary_route
from testbed.routing.capillary.certificate import check_certificate
from topologies import load_network
from topologies.network import Link, Network, Node

LINKS = 9
"""Two bottlenecks, and seven links that remain (Figures 44 and 45)."""
Arcs = tuple[tuple[int, int], ...]


@pytest.mark.parametrize("graph", [1, 2, 3, 4])
def test_each_graph_of_the_catalogue_has_the_numbers_of_the_text(graph: int) -> None:
    network = load_network(f"capillary-layers:graph={graph}")
    route = capillary_route(network, "s", "t")
    assert len(network.links) == LINKS
    assert [layer.factor for layer in route.layers[:3]] == [
        Fraction(2),
        Fraction(3, 2),
        Fraction(4, 3),
    ]
    assert [layer.load for layer in route.layers[:3]] == [
        Fraction(1, 2),
        Fraction(1, 3),
        Fraction(1, 4),
    ]
    assert [len(layer.bottlenecks) for layer in route.layers[:3]] == [2, 3, 2]
    assert len(route.loaded) == LINKS
    assert check_certificate(network, "s", "t", route.loads).valid


@pytest.mark.parametrize("graph", [1, 2, 3, 4])
def test_the_first_layer_is_two_paths_of_one_half_each(graph: int) -> None:
    route = capillary_route(load_network(f"capillary-layers:graph={graph}"), "s", "t", layers=1)
    assert {load for load in route.loads if load} == {Fraction(1, 2)}
    loaded = [route.network.links[i] for i in route.loaded]
    assert (
        sum(link.source == "s" for link in loaded)
        == sum(link.target == "t" for link in loaded)
        == 2
    )


@pytest.mark.parametrize(
    "nodes", [5, 6, *(pytest.param(n, marks=pytest.mark.soak) for n in (7, 8))]
)
def test_no_other_graph_of_nine_links_has_them(nodes: int) -> None:
    """Every graph without circles and parallel links whose only source is the top node and whose only sink is the
    bottom one. Nine nodes would leave every inner node one link in and one out: two paths and no third layer."""
    fitting = {_canonical(nodes, arcs) for arcs in _graphs(nodes) if _fits(nodes, arcs)}
    ours = set()
    for graph in (1, 2, 3, 4):
        network = load_network(f"capillary-layers:graph={graph}")
        place = {node: k for k, node in enumerate(_top_down(network))}
        ours.add(
            _canonical(6, tuple((place[link.source], place[link.target]) for link in network.links))
        )
    assert len(ours) == 4
    assert fitting == (ours if nodes == 6 else set())


def _graphs(nodes: int) -> Iterator[Arcs]:
    """Nodes are in the order from top to bottom; each chooses which later ones it sends to."""

    def grown(node: int, left: int) -> Iterator[Arcs]:
        if node == nodes - 1:
            if left == 0:
                yield ()
            return
        least = 2 if node == 0 else 1
        for count in range(least, left - (nodes - 2 - node) + 1):
            for heads in itertools.combinations(range(node + 1, nodes), count):
                for rest in grown(node + 1, left - count):
                    yield (*((node, head) for head in heads), *rest)

    for arcs in grown(0, LINKS):
        heads = [head for _, head in arcs]
        if set(heads) == set(range(1, nodes)) and heads.count(nodes - 1) >= 2:
            yield arcs


def _fits(nodes: int, arcs: Arcs) -> bool:
    network = Network(
        name="candidate",
        nodes=tuple(Node(id=str(i), kind="switch") for i in range(nodes)),
        links=tuple(Link(source=str(a), target=str(b)) for a, b in arcs),
    )
    layers = capillary_route(network, "0", str(nodes - 1)).layers[:3]
    return [(layer.load, len(layer.bottlenecks)) for layer in layers] == [
        (Fraction(1, 2), 2),
        (Fraction(1, 3), 3),
        (Fraction(1, 4), 2),
    ]


def _canonical(nodes: int, arcs: Arcs) -> Arcs:
    """The same for graphs that differ in the names of their inner nodes."""
    names = [(0, *order, nodes - 1) for order in itertools.permutations(range(1, nodes - 1))]
    return min(tuple(sorted((name[a], name[b]) for a, b in arcs)) for name in names)


def _top_down(network: Network) -> list[str]:
    order = ["s"]
    inner = [node.id for node in network.nodes if node.id not in "st"]
    while inner:
        ready = next(
            n
            for n in inner
            if all(link.source in order for link in network.links if link.target == n)
        )
        order.append(ready)
        inner.remove(ready)
    return [*order, "t"]
