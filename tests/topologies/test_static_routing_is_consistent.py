"""Shortest paths: as short as networkx's, the same from every node on the way, never over a host."""

from __future__ import annotations

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.drawn import drawn
from topologies import Link, Network, Node, NoPathError
from topologies.routing_tables import shortest_path_routing


@st.composite
def networks(draw: st.DrawFn) -> Network:
    count = draw(st.integers(min_value=2, max_value=8))
    nodes = tuple(
        Node(id=f"v{i}", kind=draw(st.sampled_from(["switch", "switch", "host"])))
        for i in range(count)
    )
    pairs = [(a.id, b.id) for a in nodes for b in nodes if a != b]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=20))
    return Network(name="n", nodes=nodes, links=tuple(Link(source=a, target=b) for a, b in chosen))


@given(network=networks())
@drawn(150)
def test_paths_are_shortest_and_their_tails_are_the_paths_from_there(network: Network) -> None:
    routing = shortest_path_routing(network)
    for source in network.nodes:
        for destination in network.nodes:
            if source == destination:
                continue
            forwarders = {n.id for n in network.switches} | {source.id, destination.id}
            graph = nx.DiGraph(
                (k.source, k.target) for k in network.links if {k.source, k.target} <= forwarders
            )
            graph.add_nodes_from(forwarders)
            try:
                path = routing(source.id, destination.id)
            except NoPathError:
                assert not nx.has_path(graph, source.id, destination.id)
                continue
            assert len(path) == nx.shortest_path_length(graph, source.id, destination.id)
            if len(path) > 1:
                assert path[1:] == routing(path[0][1], destination.id)
