"""One networkx graph gives one network: as an object and as JSON, GraphML, GML and DOT."""

from __future__ import annotations

import json
import warnings
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import testbed
from topologies import Network, load_network
from topologies.errors import TopologyError
from topologies.files.foreign import NetworkNote

_RATES = [5, 2.5, "5", "10Mbps", "1 Gbit/s"]
_TIMES = ["3ms", "10ms 2ms", "0.5 s", "20ms 5ms distribution normal"]
_EDGE = {
    "bw": st.sampled_from(_RATES),
    "bandwidth": st.sampled_from([5, "10Mbps"]),
    "latency": st.sampled_from([5, "7ms"]),
    "capacity": st.sampled_from(["10Mbps", "2.5 Gbit/s"]),
    "delay": st.sampled_from(_TIMES),
    "loss": st.sampled_from([0, 1, 2.5, "1%"]),
    "max_queue_size": st.sampled_from([20, 100]),
    "weight": st.sampled_from([1, 2.5]),
    "label": st.just("fibre"),
    "impairments": st.sampled_from(["jitter:5ms", "loss:1% delay:10 ms"]),
}
_NODE = {
    "kind": st.sampled_from(["host", "switch"]),
    "type": st.sampled_from(["host", "switch"]),
    "ip": st.sampled_from(["10.1.0.1/24", "dhcp", "fe80::1"]),
    "mac": st.sampled_from(["00:00:00:00:0:5", "0011.2233.4455", "unknown"]),
    "forwarding": st.booleans(),
    "x": st.sampled_from([1.5, 2]),
    "y": st.sampled_from([0, -3.25]),
    "zone": st.just("north"),
}


def _dot_value(value: object) -> str:
    return json.dumps(str(value), ensure_ascii=False)


def _write_dot(graph: Any, path: Path) -> None:
    """Write a graph as pydot does: all values are text."""
    arrow = "->" if graph.is_directed() else "--"
    lines = []
    for node, fields in graph.nodes(data=True):
        values = ", ".join(f"{name}={_dot_value(value)}" for name, value in fields.items())
        lines.append(f"{_dot_value(node)} [{values}];")
    for source, target, fields in graph.edges(data=True):
        values = ", ".join(f"{name}={_dot_value(value)}" for name, value in fields.items())
        lines.append(f"{_dot_value(source)} {arrow} {_dot_value(target)} [{values}];")
    kind = "digraph" if graph.is_directed() else "graph"
    path.write_text(f"{kind} g {{\n" + "\n".join(lines) + "\n}\n")


def _write_json(graph: Any, path: Path) -> None:
    path.write_text(json.dumps(nx.node_link_data(graph, edges="links")))


_WRITERS = {
    "json": _write_json,
    "graphml": nx.write_graphml,
    "gml": nx.write_gml,
    "dot": _write_dot,
}


def _compared(network: Network) -> object:
    """Return what must be equal; formats of text have no other values than text."""
    nodes = sorted(
        (node.id, node.kind, node.position, node.forwards, node.addresses, node.mac)
        for node in network.nodes
    )
    links = sorted(
        (link.id, link.capacity_bps, link.delay_s, link.impairments, link.queue_packets or 0)
        for link in network.links
    )
    node_names = {name for node in network.nodes for name in node.attributes} - {"label"}
    link_names = {name for link in network.links for name in link.attributes}
    return nodes, links, sorted(node_names), sorted(link_names)


def _outcome(value: object) -> object:
    """Return the network, or that it is refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NetworkNote)
        try:
            return _compared(
                load_network(value) if isinstance(value, Path) else testbed.network(value)
            )
        except TopologyError as error:
            return f"refused: {str(error).rpartition(': ')[2]}"


@st.composite
def graphs(draw: st.DrawFn) -> Any:
    graph: Any = draw(st.sampled_from([nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph]))()
    names: list[Hashable] = draw(
        st.sampled_from([["a", "b", "c"], [0, 1, 2], [(0, 0), (0, 1), (1, 0)], ["x 1", "ä", "c-d"]])
    )
    node_keys = draw(st.sets(st.sampled_from(sorted(_NODE)), max_size=3))
    edge_keys = draw(st.sets(st.sampled_from(sorted(_EDGE)), max_size=3))
    if node_keys & {"ip", "mac"}:
        # A field of ours makes the file one of ours, in which wrong addresses are refused.
        edge_keys -= {"impairments"}
    for name in names:
        graph.add_node(name, **{key: draw(_NODE[key]) for key in sorted(node_keys)})
    for source, target in ((0, 1), (1, 2), (0, 1)):
        fields = {key: draw(_EDGE[key]) for key in sorted(edge_keys)}
        if source == 0 or draw(st.booleans()):
            graph.add_edge(names[source], names[target], **fields)
    return graph


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("forms")


@given(graph=graphs())
def test_graph_gives_one_network_in_every_form(graph: Any, folder: Path) -> None:
    note(f"{type(graph).__name__} {graph.nodes(data=True)} {graph.edges(data=True)}")
    expected = _outcome(graph)
    for ending, write in _WRITERS.items():
        path = folder / f"graph.{ending}"
        write(graph, path)
        assert _outcome(path) == expected, ending


def test_grid_has_the_same_nodes_in_every_form(folder: Path) -> None:
    graph = nx.grid_2d_graph(2, 2)
    names = [node.id for node in testbed.network(graph).nodes]
    assert names == ["0_0", "0_1", "1_0", "1_1"]
    for ending, write in _WRITERS.items():
        write(graph, folder / f"grid.{ending}")
        assert [node.id for node in load_network(folder / f"grid.{ending}").nodes] == names
