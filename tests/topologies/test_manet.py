"""The random walk: the same frame however it is reached, links that come and go, the degree that was asked for."""

from __future__ import annotations

import numpy as np
import pytest

from topologies import load_network
from topologies.errors import TopologyError
from topologies.manet import (
    DENSE_NODES,
    Walk,
    fraction_in_range,
    manet,
    manet_frames,
    pairs_in_range,
    range_for_degree,
)


def test_a_frame_is_the_same_alone_and_in_sequence() -> None:
    walk = Walk(nodes=30, seed=7)
    assert list(manet_frames(walk, first=2, count=4)) == [manet(walk, frame=f) for f in range(2, 6)]


def test_nodes_stay_on_the_square_and_move_at_most_a_step() -> None:
    before, after = (manet(Walk(nodes=200, seed=5, step=0.1), frame=f) for f in (3, 4))
    for a, b in zip(before.switches, after.switches, strict=True):
        assert a.position is not None and b.position is not None
        assert all(0 <= c <= 1 for c in b.position)
        assert all(abs(p - q) <= 0.1 for p, q in zip(a.position, b.position, strict=True))


def test_seeds_give_different_networks_and_the_default_is_seed_1() -> None:
    assert load_network("manet") == load_network(
        "manet:nodes=115,seed=1,frame=0,degree=6.1,step=0.02"
    )
    assert load_network("manet").links != load_network("manet:seed=2").links


def test_two_nodes_are_joined_exactly_when_in_range() -> None:
    network = load_network("manet:nodes=40,range=0.2,seed=4")
    spots = {n.id: n.position for n in network.switches}
    for a in spots:
        for b in spots:
            (ax, ay), (bx, by) = spots[a] or (0, 0), spots[b] or (0, 0)
            near = a != b and (ax - bx) ** 2 + (ay - by) ** 2 <= 0.04
            assert ((a, b, 0) in network.link_index) == near


def test_the_range_gives_the_asked_degree_on_average() -> None:
    walks = (Walk(nodes=115, seed=s) for s in range(30))
    links = [sum(k.source[0] == k.target[0] == "n" for k in manet(w).links) for w in walks]
    assert sum(links) / len(links) / 115 == pytest.approx(6.1, rel=0.03)


def test_the_range_inverts_the_share_of_pairs_in_range() -> None:
    assert fraction_in_range(range_for_degree(200, 8.0)) * 199 == pytest.approx(8.0, rel=1e-12)


@pytest.mark.parametrize("aspect", [1.5, 3.0])
def test_a_rectangle_has_the_asked_degree_and_its_nodes_stay_on_it(aspect: float) -> None:
    networks = [
        load_network(f"manet:nodes=300,degree=8.519,seed={s},frame=2,aspect={aspect}")
        for s in range(12)
    ]
    links = [sum(k.source[0] == k.target[0] == "n" for k in network.links) for network in networks]
    assert sum(links) / len(links) / 300 == pytest.approx(8.519, rel=0.03)
    spots = np.array([node.position for network in networks for node in network.switches])
    assert (spots >= 0).all() and spots.max(axis=0) == pytest.approx(
        [aspect**0.5, aspect**-0.5], rel=0.01
    )
    assert (
        load_network("manet:nodes=3,aspect=4").links
        and "aspect=3" in load_network("manet:aspect=3").name
    )
    with pytest.raises(TopologyError, match="aspect"):
        load_network("manet:aspect=0.5")


def test_too_few_nodes_for_the_default_degree_all_hear_each_other() -> None:
    assert len(load_network("manet:nodes=4").links) == 4 * 3 + 2 * 4


def test_the_tree_and_the_table_of_distances_find_the_same_pairs() -> None:
    points = np.random.Generator(np.random.PCG64(1)).random((DENSE_NODES + 1, 2))
    tree = pairs_in_range(points, 0.05)
    table = pairs_in_range(points[:DENSE_NODES], 0.05)
    assert [p for p in tree.tolist() if p[1] < DENSE_NODES] == table.tolist()
