"""Shortest-path forwarding: walked from every host to every other."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import networkx as nx
import pytest

from testbed.model.wiring import Wiring, wire
from testbed.openflow.shortest_paths import ShortestPaths
from tests.helpers.drawn_hosts import connected_pairs, drawn_network
from topologies import load_network
from topologies.network import Link, Network, Node


def walk(
    wiring: Wiring, source: str, sink: str, ports: Mapping[str, Mapping[str, int]] | None = None
) -> list[str]:
    """Devices that a packet passes, following the ports."""
    ports = ports or ShortestPaths(wiring).ports
    ends = {(c.a, c.a_port): c.b for c in wiring.cables} | {
        (c.b, c.b_port): c.a for c in wiring.cables
    }
    passed = [source, ends[source, 0]]
    while passed[-1] != sink:
        assert len(passed) < 200, f"a loop: {passed[:10]}"
        passed.append(ends[passed[-1], ports[passed[-1]][sink]])
    return passed


@pytest.mark.parametrize(
    "name", ["swiss-t1", "ring:5", "torus:3x3", "fat-tree:2,3", "manet:nodes=30,seed=2"]
)
def test_every_pair_is_joined_by_a_shortest_path(name: str) -> None:
    network = load_network(name)
    wiring = wire(network)
    graph = nx.Graph((c.a, c.b) for c in wiring.cables)
    lengths = dict(nx.all_pairs_shortest_path_length(graph))
    hosts = [h.name for h in wiring.hosts]
    ports = ShortestPaths(wiring).ports
    for source in hosts[:6]:
        for sink in hosts:
            if source != sink and sink in lengths[source]:
                assert len(walk(wiring, source, sink, ports)) - 1 == lengths[source][sink]


def test_cable_is_used_against_the_model_only_without_another_path() -> None:
    nodes = [Node(id=n, kind="host" if n in "ab" else "switch") for n in ("a", "b", "x", "y", "z")]
    pairs = [("a", "x"), ("x", "a"), ("b", "y"), ("y", "b"), ("x", "y"), ("y", "z"), ("z", "x")]
    network = Network(
        name="one way", nodes=tuple(nodes), links=tuple(Link(source=s, target=t) for s, t in pairs)
    )
    wiring = wire(network)
    assert walk(wiring, "a", "b") == ["a", "x", "y", "b"]
    assert walk(wiring, "b", "a") == ["b", "y", "z", "x", "a"]


def test_no_path_leads_through_a_host() -> None:
    nodes = [Node(id=n, kind="host" if n in "abc" else "switch") for n in ("a", "b", "c", "x", "y")]
    pairs = [("a", "x"), ("b", "y"), ("c", "x"), ("c", "y")]
    links = [Link(source=s, target=t) for p in pairs for s, t in (p, p[::-1])]
    wiring = wire(Network(name="bridge host", nodes=tuple(nodes), links=tuple(links)))
    assert "b" not in ShortestPaths(wiring).ports["x"]


def test_rules_match_ip_and_arp_of_every_destination() -> None:
    wiring = wire(load_network("ring:3"))
    texts = ShortestPaths(wiring).flow_texts()["s1"]
    assert len(texts) == 2 * len(wiring.hosts)
    assert any(
        t.startswith("priority=1,ip,dl_dst=02:00:00:00:00:00,actions=output:") for t in texts
    )
    assert any(t.startswith("priority=1,arp,arp_tpa=10.0.0.1,actions=output:") for t in texts)


def ip_walk(paths: ShortestPaths, source: str, sink: str) -> list[str] | None:
    """The IP nodes that a packet passes by hosts' steps and switches' ports, None where the source knows no way."""
    wiring = paths.wiring
    ends = {(c.a, c.a_port): c.b for c in wiring.cables} | {
        (c.b, c.b_port): c.a for c in wiring.cables
    }
    at, passed, steps = source, [source], paths.steps_to(sink)
    if source not in steps:
        return None
    while at != sink:
        step = steps[at]
        device = ends[at, step.port]
        for _ in range(len(ends)):
            if device not in paths.ports:
                break
            device = ends[device, paths.ports[device][step.node]]
        assert device == step.node, "a frame ends at a host that it is not addressed to"
        assert device == sink or wiring.network.node(device).forwards
        assert device not in passed, f"a packet goes round: {passed}"
        passed.append(at := device)
    return passed


@pytest.mark.parametrize("first", range(0, 400, 50))
def test_connected_pairs_of_drawn_networks_have_a_path_and_others_none(
    first: int,
) -> None:
    pairs, through = 0, 0
    for seed in range(first, first + 50):
        network = drawn_network(seed)
        paths, joined = ShortestPaths(wire(network)), connected_pairs(network)
        if not paths.wiring.routed:
            continue
        for source in network.hosts:
            for sink in network.hosts:
                if source.id != sink.id:
                    walked = ip_walk(paths, source.id, sink.id)
                    assert (walked is not None) == ((source.id, sink.id) in joined), (
                        network.name,
                        source.id,
                        sink.id,
                    )
                    pairs, through = pairs + 1, through + (walked is not None and len(walked) > 2)
    assert pairs > 100 and through > 20


def test_ways_through_hosts_that_forward_are_shortest() -> None:
    for seed in range(60):
        network = drawn_network(seed)
        wiring = wire(network)
        paths, graph = ShortestPaths(wiring), nx.Graph((c.a, c.b) for c in wiring.cables)
        if not wiring.routed:
            continue
        for source, sink in connected_pairs(network):
            own = graph.subgraph({n.id for n in network.nodes if n.forwards} | {source, sink})
            walked = ip_walk(paths, source, sink)
            assert walked is not None
            hops = sum(paths.neighbours[a][b][0] for a, b in pairwise(walked))
            assert hops == nx.shortest_path_length(own, source, sink)
