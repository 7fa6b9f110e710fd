"""Paths made before demands are known: the k shortest and those of Raecke's trees."""

from __future__ import annotations

import networkx as nx
import pytest

from testbed.errors import InputError
from testbed.routing.demands.matrix import DemandMatrix, uniform_matrix
from testbed.routing.demands.methods import route_demands
from testbed.routing.demands.path_sets import PathSet, shortest_path_set, tree_path_set
from tests.testbed.routing.demands.random_demands import random_matrix
from topologies import load_network
from topologies.network import Link, Network, Node


def assert_sound(paths: PathSet) -> None:
    network = paths.matrix.network
    hosts = {node.id for node in network.hosts}
    for (source, sink), own, weights in zip(
        paths.matrix.pairs, paths.paths, paths.weights, strict=True
    ):
        assert sum(weights) == pytest.approx(1)
        assert len(set(own)) == len(own)
        for path in own:
            nodes = [source, *(network.links[at].target for at in path)]
            assert [network.links[at].source for at in path] == nodes[:-1]
            assert nodes[-1] == sink and len(set(nodes)) == len(nodes)
            assert not hosts & set(nodes[1:-1])


@pytest.mark.parametrize("seed", range(12))
def test_paths_are_paths_and_weights_sum_to_one(seed: int) -> None:
    matrix = random_matrix(seed)
    trees = tree_path_set(matrix, seed)
    assert_sound(trees)
    assert_sound(trees.heaviest(2))
    assert max(map(len, trees.heaviest(2).paths)) <= 2
    assert_sound(shortest_path_set(matrix, 4))


def test_k_shortest_paths_are_networkx_s_by_length() -> None:
    network = load_network("topohub:sndlib/polska")
    matrix = uniform_matrix(network, [node.id for node in network.switches][:5])
    graph = nx.DiGraph([(link.source, link.target) for link in network.links])
    for pair, own in zip(matrix.pairs, shortest_path_set(matrix, 4).paths, strict=True):
        peers = nx.shortest_simple_paths(graph, *pair)
        assert sorted(map(len, own)) == [len(next(peers)) - 1 for _ in range(4)]


def test_parallel_links_are_paths_of_their_own() -> None:
    links = tuple(Link(source="a", target="b", key=key) for key in range(3))
    pair = Network(
        name="pair", nodes=(Node(id="a", kind="switch"), Node(id="b", kind="switch")), links=links
    )
    matrix = DemandMatrix(network=pair, name="one", pairs=(("a", "b"),), rates_bps=(1.0,))
    assert sorted(shortest_path_set(matrix, 5).paths[0]) == [(0,), (1,), (2,)]


def test_trees_are_the_same_for_a_seed_and_others_for_another() -> None:
    matrix = uniform_matrix(load_network("topohub:sndlib/polska"), ["0", "3", "7"])
    assert tree_path_set(matrix, 1).paths == tree_path_set(matrix, 1).paths
    assert tree_path_set(matrix, 1).weights != tree_path_set(matrix, 2).weights


def test_trees_spread_over_a_torus_within_a_few_times_the_optimum() -> None:
    network = load_network("torus:4x4")
    matrix = uniform_matrix(network, [node.id for node in network.switches])
    oblivious, best = (
        route_demands(matrix, method).greatest_utilisation for method in ("raecke", "optimum")
    )
    assert best <= oblivious <= 4 * best


def test_trees_need_nodes_that_reach_one_another() -> None:
    one_way = Network(
        name="one-way",
        nodes=tuple(Node(id=i, kind="switch") for i in "ab"),
        links=(Link(source="a", target="b"),),
    )
    matrix = DemandMatrix(network=one_way, name="one", pairs=(("a", "b"),), rates_bps=(1.0,))
    with pytest.raises(InputError, match="'a' and 'b' do not"):
        tree_path_set(matrix)
