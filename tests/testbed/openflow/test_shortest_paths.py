"""Shortest-path forwarding: walked from every host to every other."""

from __future__ import annotations

from collections.abc import Mapping

import networkx as nx
import pytest

from testbed.model.wiring import Wiring, wire
from testbed.openflow.shortest_paths import flow_texts, shortest_path_ports
from topologies import load_network
from topologies.network import Link, Network, Node


def walk(wiring: Wiring, source: str, sink: str, ports: Mapping[str, Mapping[str, int]] | None = None) -> list[str]:
    """Devices that a packet passes, following the ports."""
    ports = ports or shortest_path_ports(wiring)
    ends = {(c.a, c.a_port): c.b for c in wiring.cables} | {(c.b, c.b_port): c.a for c in wiring.cables}
    passed = [source, ends[source, 0]]
    while passed[-1] != sink:
        assert len(passed) < 200, f"a loop: {passed[:10]}"
        passed.append(ends[passed[-1], ports[passed[-1]][sink]])
    return passed


@pytest.mark.parametrize("name", ["swiss-t1", "ring:5", "torus:3x3", "fat-tree:2,3", "manet:nodes=30,seed=2"])
def test_every_pair_is_joined_by_a_shortest_path(name: str) -> None:
    network = load_network(name)
    wiring = wire(network)
    graph = nx.Graph((c.a, c.b) for c in wiring.cables)
    lengths = dict(nx.all_pairs_shortest_path_length(graph))
    hosts = [h.name for h in wiring.hosts]
    ports = shortest_path_ports(wiring)
    for source in hosts[:6]:
        for sink in hosts:
            if source != sink and sink in lengths[source]:
                assert len(walk(wiring, source, sink, ports)) - 1 == lengths[source][sink]


def test_cable_is_used_against_the_model_only_where_nothing_else_leads_there() -> None:
    nodes = [Node(id=n, kind="host" if n in "ab" else "switch") for n in ("a", "b", "x", "y", "z")]
    pairs = [("a", "x"), ("x", "a"), ("b", "y"), ("y", "b"), ("x", "y"), ("y", "z"), ("z", "x")]
    network = Network(name="one way", nodes=tuple(nodes), links=tuple(Link(source=s, target=t) for s, t in pairs))
    wiring = wire(network)
    assert walk(wiring, "a", "b") == ["a", "x", "y", "b"]
    assert walk(wiring, "b", "a") == ["b", "y", "z", "x", "a"]


def test_no_path_leads_through_a_host() -> None:
    nodes = [Node(id=n, kind="host" if n in "abc" else "switch") for n in ("a", "b", "c", "x", "y")]
    pairs = [("a", "x"), ("b", "y"), ("c", "x"), ("c", "y")]
    links = [Link(source=s, target=t) for p in pairs for s, t in (p, p[::-1])]
    wiring = wire(Network(name="bridge host", nodes=tuple(nodes), links=tuple(links)))
    assert "b" not in shortest_path_ports(wiring)["x"]


def test_rules_match_ip_and_arp_of_every_destination() -> None:
    wiring = wire(load_network("ring:3"))
    texts = flow_texts(wiring)["s1"]
    assert len(texts) == 2 * len(wiring.hosts)
    assert any(t.startswith("priority=1,ip,nw_dst=10.0.0.1,actions=output:") for t in texts)
    assert any(t.startswith("priority=1,arp,arp_tpa=10.0.0.1,actions=output:") for t in texts)
