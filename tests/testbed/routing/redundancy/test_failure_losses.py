"""What is lost when links fail: the proportional model, its pairs, a random walk beside it, and label intervals."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from testbed.errors import InputError
from testbed.model.routes import SplitRoute
from testbed.routing import capillary_route, route_by_name
from testbed.routing.label_split.spraying import spray
from testbed.routing.redundancy.failures import failure_loss, interval_loss, pair_losses
from topologies import load_network
from topologies.network import Link, Network, Node


def mesh_route(seed: int = 2) -> SplitRoute:
    return capillary_route(load_network(f"manet:nodes=40,seed={seed},frame=0"), "n1", "n30")


def test_a_single_failure_loses_the_load_of_its_link() -> None:
    route = mesh_route()
    assert [failure_loss(route, [i]) for i in route.loaded] == [
        route.loads[i] for i in route.loaded
    ]


def test_pair_losses_agree_with_the_exact_propagation_of_every_pair() -> None:
    route = load_route("swiss-t1", "s1", "s6")
    losses = pair_losses(route)
    for a, first in enumerate(route.loaded):
        for b, second in enumerate(route.loaded):
            assert losses[a, b] == pytest.approx(
                float(failure_loss(route, {first, second})), abs=1e-12
            )


def load_route(name: str, source: str, sink: str) -> SplitRoute:
    return capillary_route(load_network(name), source, sink)


def test_pair_losses_lie_between_the_larger_load_and_the_sum() -> None:
    losses = pair_losses(mesh_route())
    load = losses.diagonal()
    for a in range(len(load)):
        for b in range(a):
            assert (
                max(load[a], load[b]) - 1e-12 <= losses[a, b] <= min(1.0, load[a] + load[b]) + 1e-12
            )


def sampled_loss(route: SplitRoute, failed: set[int], packets: int) -> float:
    """Share lost of so many packets that walk the route at random, by the loads of the links that leave each node."""
    generator = random.Random("walk")
    lost = 0
    for _ in range(packets):
        node = route.source
        while node != route.sink:
            out = [i for i in route.network.out_links(node) if route.loads[i]]
            link = generator.choices(out, [float(route.loads[i]) for i in out])[0]
            if link in failed:
                lost += 1
                break
            node = route.network.links[link].target
    return lost / packets


def test_a_random_walk_of_packets_loses_what_the_model_says() -> None:
    route = mesh_route()
    heavy = sorted(route.loaded, key=lambda i: -route.loads[i])
    failed = {heavy[0], heavy[3], heavy[8]}
    assert sampled_loss(route, failed, 40_000) == pytest.approx(
        float(failure_loss(route, failed)), abs=0.01
    )


def test_label_intervals_lose_their_union_if_two_links_fail() -> None:
    route = load_route("swiss-t1", "s1", "s6")
    split = spray(route)
    first, second = route.loaded[0], route.loaded[5]
    assert float(interval_loss(split, [first])) == pytest.approx(
        float(route.loads[first]), abs=2e-5
    )
    labels = {
        x for i in (first, second) for low, high in split.intervals(i) for x in range(low, high)
    }
    assert interval_loss(split, [first, second]) == Fraction(len(labels), 65536)


def test_a_link_that_is_not_there_cannot_fail() -> None:
    with pytest.raises(InputError, match="has links 0 to"):
        failure_loss(mesh_route(), [99999])


def test_links_in_a_row_lose_once_and_links_side_by_side_twice() -> None:
    ends = [("a", "b"), ("b", "d"), ("a", "c"), ("c", "d")]
    square = Network(
        name="square",
        nodes=tuple(Node(id=i, kind="switch") for i in "abcd"),
        links=tuple(Link(source=s, target=t) for s, t in ends),
    )
    route = route_by_name(square, "a", "d", "ecmp")
    losses = pair_losses(route)
    assert losses[0, 1] == 0.5
    assert losses[0, 2] == losses[0, 3] == 1.0
