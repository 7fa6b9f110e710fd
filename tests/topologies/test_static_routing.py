"""Static routings: one path each, the right one, and an error where none leads."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from topologies import Link, Network, Node, NoPathError, TopologyError, load_network
from topologies.network import LinkId
from topologies.routing_tables import (
    StaticRouting,
    d_mod_k_routing,
    dimension_order_routing,
    shortest_path_routing,
    static_routing,
    table_routing,
)


def labels(path: tuple[LinkId, ...]) -> list[str]:
    return [f"{source}->{target}" for source, target, _ in path]


def loads(routing: StaticRouting, sources: list[str], destinations: list[str]) -> Counter[LinkId]:
    return Counter(link for s in sources for d in destinations for link in routing(s, d))


@pytest.mark.parametrize(
    ("name", "method", "largest"),
    [
        ("torus:8x8", "dimension-order", 80),
        ("ring:8", "dimension-order", 10),
        ("mesh:4x4", "dimension-order", 16),
        ("torus:3x4x2", "dimension-order", 23),
        ("fat-tree:4,2", "d-mod-k", 15),
        ("clos:4", "d-mod-k", 15),
    ],
)
def test_all_to_all_takes_shortest_paths_and_has_the_known_maximum_load(
    name: str, method: str, largest: int
) -> None:
    network = load_network(name)
    routing, shortest = static_routing(network), shortest_path_routing(network)
    hosts = [h.id for h in network.hosts]
    for source, destination in itertools.permutations(hosts, 2):
        path = routing(source, destination)
        assert path[0][0] == source and path[-1][1] == destination
        assert all(a[1] == b[0] for a, b in itertools.pairwise(path))
        assert len(path) == len(shortest(source, destination))
    assert routing.method == method
    assert max(loads(routing, hosts, hosts).values()) == largest


def test_the_full_swiss_t1_has_a_bottleneck_load_of_48() -> None:
    routing = static_routing(load_network("swiss-t1"))
    found = loads(routing, [f"t{k}" for k in range(32)], [f"r{k}" for k in range(32)])
    assert routing.method == "table" and max(found.values()) == 48
    assert sum(1 for s, t, _ in found if s[0] == t[0] == "s") == 32


def test_swiss_t1_routes_through_the_switch_of_table_2() -> None:
    routing = static_routing(load_network("swiss-t1"))
    assert labels(routing("s1", "s7")) == ["s1->s8", "s8->s7"]
    assert labels(routing("t4", "r13")) == ["t4->s2", "s2->s7", "s7->s4", "s4->r13"]
    assert labels(routing("t0", "r1")) == ["t0->s1", "s1->r1"]


def test_two_switch_example_has_six_transfers_per_middle_link() -> None:
    routing = static_routing(load_network("two-switch"))
    found = loads(routing, [f"t{k}" for k in range(1, 6)], [f"r{k}" for k in range(1, 6)])
    assert found[("s_a", "s_b", 0)] == found[("s_b", "s_a", 0)] == 6 == max(found.values())
    assert labels(routing("t4", "r3")) == ["t4->s_b", "s_b->s_a", "s_a->r3"]
    assert labels(routing("t1", "r2")) == ["t1->s_a", "s_a->r2"]


def test_a_torus_breaks_ties_upwards_and_walks_dimension_0_first() -> None:
    routing = dimension_order_routing(load_network("torus:4x4"))
    assert labels(routing("s0_0", "s2_1")) == ["s0_0->s1_0", "s1_0->s2_0", "s2_0->s2_1"]
    assert labels(routing("s3_0", "s1_0")) == ["s3_0->s0_0", "s0_0->s1_0"]
    assert labels(routing("s0_0", "s3_3")) == ["s0_0->s3_0", "s3_0->s3_3"]


@pytest.mark.parametrize(("name", "levels"), [("fat-tree:3,3", 3), ("clos:6", 3)])
def test_d_mod_k_leads_all_paths_to_a_host_through_one_top_switch(name: str, levels: int) -> None:
    network = load_network(name)
    routing = d_mod_k_routing(network)
    hosts = [h.id for h in network.hosts]
    for destination in hosts[::5]:
        tops = {
            s
            for h in hosts
            for s, _, _ in routing(h, destination)
            if s.startswith(f"s{levels - 1}_")
        }
        assert len(tops) == 1


def test_d_mod_k_starts_at_any_switch_and_reaches_switches_too() -> None:
    network = load_network("fat-tree:2,3")
    routing, shortest = d_mod_k_routing(network), shortest_path_routing(network)
    for switch in network.switches:
        for host in network.hosts:
            assert routing(switch.id, host.id)[-1][1] == host.id
        assert routing("h0", switch.id) == shortest("h0", switch.id)


def test_shortest_path_prefers_the_node_that_comes_first() -> None:
    nodes = tuple(Node(id=i, kind="switch") for i in "azby")
    ends = (("a", "y"), ("y", "b"), ("a", "z"), ("z", "b"))
    routing = shortest_path_routing(
        Network(name="n", nodes=nodes, links=tuple(Link(source=s, target=t) for s, t in ends))
    )
    assert labels(routing("a", "b")) == ["a->z", "z->b"]


def test_no_path_leads_through_a_host() -> None:
    nodes = (Node(id="a", kind="switch"), Node(id="h", kind="host"), Node(id="b", kind="switch"))
    network = Network(
        name="n", nodes=nodes, links=(Link(source="a", target="h"), Link(source="h", target="b"))
    )
    with pytest.raises(NoPathError, match="no path from 'a' to 'b'"):
        shortest_path_routing(network)("a", "b")


def test_links_are_one_way() -> None:
    routing = static_routing(load_network("two-switch"))
    with pytest.raises(NoPathError, match="no path from 'r1' to 't1'"):
        routing("r1", "t1")


def test_a_table_without_a_link_for_a_pair_is_no_path() -> None:
    with pytest.raises(NoPathError, match="s1->s3"):
        table_routing(load_network("swiss-t1"), {})("s1", "s3")


def test_a_node_reaches_itself_over_no_link_and_unknown_nodes_are_named() -> None:
    routing = static_routing(load_network("ring:4"))
    assert routing("h1", "h1") == ()
    with pytest.raises(TopologyError, match="h9"):
        routing("h1", "h9")


@pytest.mark.parametrize("method", ["table", "dimension-order", "d-mod-k"])
def test_a_method_without_its_data_is_refused(method: str) -> None:
    with pytest.raises(TopologyError, match="Abilene"):
        static_routing(load_network("topohub:topozoo/Abilene"), method)


def test_an_unknown_method_is_refused_with_the_nearest() -> None:
    with pytest.raises(TopologyError, match="did you mean d-mod-k"):
        static_routing(load_network("clos:4"), "dmodk")


def test_a_table_that_names_an_unknown_switch_is_refused() -> None:
    with pytest.raises(TopologyError, match="'s9' is not a switch"):
        table_routing(load_network("swiss-t1"), {"s1": {"s3": "s9"}})


def test_parallel_links_use_the_lowest_key() -> None:
    routing = static_routing(load_network("optical-cloud"))
    assert {key for _, _, key in routing("e1", "e14")} == {0}
