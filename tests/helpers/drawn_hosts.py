"""Networks drawn by chance in which hosts have any number of cables, some forward, and some cables join hosts alone."""

from __future__ import annotations

import random

import networkx as nx

from topologies.network import Link, Network, Node


def drawn_network(seed: int, *, most_hosts: int = 6, most_switches: int = 4) -> Network:
    """Two hosts or more, every node but some on at least one cable; one of all cables may be one way."""
    rng = random.Random(seed)
    hosts = [f"h{i}" for i in range(rng.randint(2, most_hosts))]
    switches = [f"s{i}" for i in range(rng.randint(0, most_switches))]
    nodes = [
        Node(id=h, kind="host", attributes={"forwarding": True} if rng.random() < 0.4 else {})
        for h in hosts
    ]
    nodes += [Node(id=s, kind="switch") for s in switches]
    ids = hosts + switches
    links: dict[tuple[str, str], Link] = {}
    for i, node in enumerate(ids):
        others = rng.sample(ids, min(len(ids), rng.randint(1, 3)))
        for other in (*others, *ids[max(0, i - 1) : i]):
            if other != node:
                for pair in ((node, other), (other, node)):
                    links[pair] = Link(source=pair[0], target=pair[1])
    return Network(name=f"drawn {seed}", nodes=tuple(nodes), links=tuple(links.values()))


def connected_pairs(network: Network) -> set[tuple[str, str]]:
    """Pairs of hosts that a way joins which leads through nodes that forward alone: what has to communicate."""
    graph = nx.Graph((link.source, link.target) for link in network.links)
    hosts, found = [host.id for host in network.hosts], set()
    for source in hosts:
        for sink in hosts:
            own = graph.subgraph({n.id for n in network.nodes if n.forwards} | {source, sink})
            if source != sink and source in own and sink in own and nx.has_path(own, source, sink):
                found.add((source, sink))
    return found
