"""Two paths share as little as any two can: against all pairs of simple paths of small networks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.routing.label_split.spraying import disjoint_return_split, two_paths
from tests.helpers.drawn import drawn
from topologies.errors import NoPathError
from topologies.network import Link, Network, Node


@st.composite
def networks(draw: st.DrawFn) -> Network:
    """Up to six nodes, directed links, some of them cables, some parallel; sometimes a host in the middle."""
    count = draw(st.integers(2, 6))
    pair = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(
        lambda p: p[0] != p[1]
    )
    pairs = draw(st.lists(pair, min_size=1, max_size=9))
    if draw(st.booleans()):
        pairs = [ends for a, b in pairs[:6] for ends in ((a, b), (b, a))]
    host = draw(st.integers(0, 9))
    links = tuple(
        Link(source=f"n{a}", target=f"n{b}", key=pairs[:i].count((a, b)))
        for i, (a, b) in enumerate(pairs)
    )
    nodes = tuple(Node(id=f"n{i}", kind="host" if i == host else "switch") for i in range(count))
    return Network(name="random", nodes=nodes, links=links)


def simple_paths(
    network: Network, node: str, sink: str, links: tuple[int, ...] = ()
) -> Iterator[tuple[int, ...]]:
    if node == sink:
        yield links
        return
    if links and network.node(node).kind == "host":
        return
    been = {network.links[i].source for i in links}
    for i in network.out_links(node):
        if network.links[i].target not in been:
            yield from simple_paths(network, network.links[i].target, sink, (*links, i))


def price(
    network: Network, first: tuple[int, ...], second: tuple[int, ...]
) -> tuple[int, int, int]:
    """Shared cables, shared nodes between the ends, links in sum."""

    def cables(path: tuple[int, ...]) -> set[tuple[str, str, int]]:
        return {
            (*sorted((network.links[i].source, network.links[i].target)), network.links[i].key)
            for i in path
        }  # type: ignore[misc]

    def between(path: tuple[int, ...]) -> set[str]:
        return {network.links[i].source for i in path[1:]}

    return (
        len(cables(first) & cables(second)),
        len(between(first) & between(second)),
        len(first) + len(second),
    )


@drawn(200)
@given(networks())
def test_no_two_paths_share_less(network: Network) -> None:
    paths = list(simple_paths(network, "n0", "n1"))
    if not paths:
        with pytest.raises(NoPathError, match="'n0' to 'n1'"):
            two_paths(network, "n0", "n1")
        return
    first, second = two_paths(network, "n0", "n1")
    assert {first, second} <= set(paths)
    assert len(first) <= len(second)
    assert price(network, first, second) == min(price(network, p, q) for p in paths for q in paths)


@drawn(30)
@given(networks())
def test_reports_return_half_and_half_over_two_paths(network: Network) -> None:
    try:
        first, second = two_paths(network, "n1", "n0")
    except NoPathError:
        return
    split = disjoint_return_split(network, "n0", "n1")
    shares = [(p.links, p.stop - p.start) for p in split.paths]
    assert shares == ([(first, 65536)] if first == second else [(first, 32768), (second, 32768)])


def test_shortest_path_that_blocks_every_second_one_is_not_taken() -> None:
    """The trap of the greedy search: the shortest path a-b-c-d uses a link of both disjoint ones."""
    ends = [("a", "b"), ("b", "c"), ("c", "d"), ("a", "e"), ("e", "c"), ("b", "f"), ("f", "d")]
    links = tuple(Link(source=s, target=t) for a, b in ends for s, t in ((a, b), (b, a)))
    network = Network(
        name="trap", nodes=tuple(Node(id=n, kind="switch") for n in "abcdef"), links=links
    )
    first, second = two_paths(network, "a", "d")
    assert price(network, first, second) == (0, 0, 6)
