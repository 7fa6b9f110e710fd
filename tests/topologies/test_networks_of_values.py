"""Networks of networkx graphs, dictionaries, node-link documents and Mininet's Topo objects; what is wrong is named."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mininet.link import TCLink
from mininet.node import Node as MininetNode
from mininet.topo import LinearTopo, SingleSwitchReversedTopo, SingleSwitchTopo, Topo

import testbed
from testbed.errors import UsageError
from tests.helpers.drawn import drawn
from tests.topologies.test_network_files_round_trip import networks
from topologies import Network, load_network
from topologies.errors import TopologyError
from topologies.files.foreign import NetworkNote
from topologies.files.node_link import network_document
from topologies.mininet.parameters import BACK


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NetworkNote)
        yield


def read(value: Any) -> tuple[Network, str]:
    """The network, and what was noted."""
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always", NetworkNote)
        network = testbed.network(value)
    return network, " ".join(str(one.message) for one in noted)


@given(network=networks())
@drawn(150)
def test_a_graph_of_a_network_is_that_network(network: Network) -> None:
    if not {"index", BACK} & {name for link in network.links for name in link.attributes}:
        assert testbed.network(network.to_networkx()) == network
        assert read(network.to_networkx())[1] == ""


@pytest.mark.parametrize(
    "name", ["swiss-t1", "two-switch", "optical-cloud", "manet:nodes=20", "capillary-layers"]
)
def test_networks_of_the_catalogue_through_graphs_and_documents(name: str) -> None:
    network = load_network(name)
    assert testbed.network(network.to_networkx()) == network
    assert testbed.network(network_document(network)) == network


def test_a_graph_without_directions_stands_for_both() -> None:
    network, note = read(nx.path_graph(3))
    assert [link.label for link in network.links] == ["0->1", "1->0", "1->2", "2->1"] and note == ""
    assert [link.label for link in testbed.network(nx.DiGraph([("a", "b")])).links] == ["a->b"]
    multi = nx.MultiGraph([("a", "b"), ("a", "b", {"bw": 2})])
    assert [(k.label, k.capacity_bps) for k in testbed.network(multi).links[::2]] == [
        ("a->b", 1e7),
        ("a->b#1", 2e6),
    ]
    network, note = read(nx.grid_2d_graph(2, 1))
    assert network.links[0].label == "0_0->1_0" and "[0, 0] is '0_0'" in note


def test_a_graph_may_have_numpy_s_numbers_and_places() -> None:
    import numpy as np

    graph = nx.Graph()
    graph.add_node("a", pos=np.array([1.0, 2.0]), kind="host")
    graph.add_edge("a", "b", capacity_bps=np.float64(5e6), weight=np.int64(3))
    network = testbed.network(graph)
    assert (network.nodes[0].position, network.nodes[0].kind) == ((1.0, 2.0), "host")
    assert (network.links[0].capacity_bps, network.links[0].attributes) == (5e6, {"weight": 3})
    graph = nx.Graph([("a", "b"), ("b", "b")])
    assert "left out: 1 link from a node to itself, at 'b'" in read(graph)[1]


MININET = {"bw": 20, "delay": "10ms", "loss": 9, "max_queue_size": 400, "use_htb": True}


@pytest.mark.parametrize(
    "value",
    [
        nx.Graph([("a", "b", MININET)]),
        {"a": {"b": MININET}},
        {"nodes": ["a", "b"], "links": [("a", "b", MININET)]},
        {"nodes": [{"id": "a"}, {"id": "b"}], "edges": [{"source": "a", "target": "b", **MININET}]},
        {"switches": {"a": {}, "b": {}}, "links": [["a", "b", MININET]]},
    ],
)
def test_mininet_s_parameters_of_links(value: Any) -> None:
    links = testbed.network(value).links
    assert [link.label for link in links] == ["a->b", "b->a"]
    assert {(k.capacity_bps, k.delay_s, k.impairments) for k in links} == {(2e7, 0.01, "loss:0.09")}
    assert links[0].attributes["max_queue_size"] == 400


@pytest.mark.parametrize(
    ("parameters", "capacity_bps", "delay_s", "impairments"),
    [
        ({"bw": "0.5"}, 5e5, 0, ""),
        ({"bw": "2Gbps", "delay": "3 usecs"}, 2e9, 3e-6, ""),
        ({"loss": 0, "jitter": "0ms"}, 1e7, 0, ""),
        (
            {"delay": "5ms", "jitter": "1msec", "loss": 2},
            1e7,
            0,
            "loss:0.02 delay:0.005,jitter=0.001",
        ),
        ({"bw": None, "loss": None}, 1e7, 0, ""),
        ({"params1": {"bw": 3}}, 3e6, 0, ""),
        ({"bw": 1, "params2": {"bw": 3}}, 1e6, 0, ""),
    ],
)
def test_units_of_mininet(
    parameters: Any, capacity_bps: float, delay_s: float, impairments: str
) -> None:
    link = testbed.network({"a": {"b": parameters}}).links[0]
    assert (link.capacity_bps, link.delay_s, link.impairments) == (
        capacity_bps,
        delay_s,
        impairments,
    )


def test_each_end_has_parameters_of_its_own() -> None:
    """What is one end's address is the host's; a switch has none."""
    ends = {
        "params1": {"bw": 1, "delay": "2ms", "ip": "10.1.0.1/24"},
        "params2": {"bw": 8},
        "port2": 5,
        "loss": 1,
    }
    there, back = testbed.network({"nodes": ["a", "b"], "links": [("a", "b", ends)]}).links
    assert (there.capacity_bps, there.delay_s, there.impairments) == (1e6, 0.002, "loss:0.01")
    assert (back.capacity_bps, back.delay_s, back.impairments) == (8e6, 0, "loss:0.01")
    assert (there.attributes, back.attributes) == ({"ports": [None, 5]}, {"ports": [5, None]})


@given(
    st.floats(0.001, 1e6),
    st.integers(1, 10**6),
    st.floats(0, 100).filter(lambda loss: not 0 < loss < 1e-9),
    st.integers(0, 10**6),
    st.booleans(),
)
@drawn(100)
def test_whatever_mininet_takes_is_taken(
    bw: float, delay: int, loss: float, jitter: int, per_end: bool
) -> None:
    given_ = {"bw": bw, "delay": f"{delay}us", "loss": loss, "jitter": f"{min(jitter, delay)}us"}
    link = testbed.network({"a": {"b": {"params1": given_} if per_end else given_}}).links[0]
    assert link.capacity_bps == bw * 1e6
    assert [str(one).partition(":")[0] for one in link.impaired_by] == ["loss"] * (loss > 0) + [
        "delay"
    ] * (jitter > 0)
    waits = link.delay_s + sum(getattr(one, "mean_s", 0) for one in link.impaired_by)
    assert waits == pytest.approx(delay * 1e-6)
    assert sum(one.mean_loss for one in link.impaired_by) == pytest.approx(loss / 100)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"a": {"b": {"delay": 5}}}, "links[0]: unknown key 'delay'; did you mean 'delay_s'?"),
        ({"a": {"b": {"bw": 0}}}, "links[0]: bw 0 is not a rate; give Mbit/s above 0"),
        ({"a": {"b": {"bw": "fast"}}}, "bw 'fast' is not a rate"),
        ({"a": {"b": {"bw": True}}}, "bw True is not a number; it is in Mbit/s"),
        (
            {"a": {"b": {"bw": 1, "capacity_bps": 1e6}}},
            "both 'bw' and 'capacity_bps' are there; keep one",
        ),
        ({"a": {"b": {"loss": 101}}}, "loss 101 is in per cent; give 0 to 100"),
        ({"a": {"b": {"loss": 1, "impairments": "loss:0.1"}}}, "both 'loss' and 'impairments'"),
        ({"a": {"b": {"jitter": 1, "delay": "1ms"}}}, "jitter 1 has no unit; write it as '1ms'"),
        ({"a": {"b": {"jitter": "2ms", "delay": "1ms"}}}, "jitter '2ms' is more than the delay"),
        ({"a": {"b": {"max_queue_size": 0}}}, "max_queue_size 0 is not a number of packets"),
        ({"a": {"b": {"params1": 3}}}, "params1 '3' is not a table of parameters"),
        ({"a": {"b": {"port1": -1}}}, "ports [-1, None] must be whole numbers from 0"),
        (
            {"a": {"b": {"ports": 3}}},
            "ports '3': give two values, that of the source and that of the target",
        ),
        ({"a": "b"}, "'b' are not neighbours; give a networkx graph"),
        ({"a": {"b": 3}}, "'3' are not parameters of a link"),
        ({"nodes": "ab", "links": []}, "nodes: give a list, not str"),
        ({"nodes": [2.5j], "links": []}, "nodes[0]: '2.5j' is not a node"),
        ({"nodes": ["a"], "links": [("a",)]}, "is not a link; give two nodes"),
        ({"nodes": ["a"], "links": [("a", "b")]}, "names the unknown node 'b'"),
        ({"hosts": ["a", "a"], "links": []}, "the id 'a' is that of nodes[0] too"),
        ({"nodes": [], "links": [], "edges": []}, "both 'links' and 'edges' are there"),
        ({"nodes": ["a"], "links": [], "directed": 1}, "'directed' must be true or false"),
        (
            {"data": [], "directed": False, "elements": {"nodes": []}},
            "Cytoscape files are not read",
        ),
        ({}, "it has no node"),
        (nx.Graph(), "it has no node"),
    ],
)
def test_a_value_that_makes_no_network_is_told_in_one_line(value: Any, says: str) -> None:
    with pytest.raises(TopologyError) as caught:
        testbed.network(value)
    assert says in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [3, None, ["a"], {"a"}, Topo, b"ring:4"])
def test_unreadable_network_is_usage_error(value: Any) -> None:
    with pytest.raises(
        UsageError, match=r"give a catalogue name .* networkx graph, a Mininet Topo"
    ):
        testbed.network(value)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=4), lambda inner: (
    st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["nodes", "links", "edges", "hosts", "switches", "directed", "params1", "bw", "id", "a", "b"]),
        inner, max_size=4,
    )
), max_leaves=12))  # fmt: skip
@drawn(200)
def test_no_dictionary_is_more_than_one_line_of_error(value: Any) -> None:
    try:
        testbed.network(value if isinstance(value, dict) else {"nodes": value, "links": []})
    except TopologyError as error:
        assert "\n" not in str(error)


class Router(MininetNode):  # type: ignore[misc]
    """As LinuxRouter of Mininet's examples."""

    def config(self, **params: Any) -> None:
        super().config(**params)
        self.cmd("sysctl net.ipv4.ip_forward=1")


class Lab(Topo):  # type: ignore[misc]
    """Two hosts behind a router, and a switch."""

    def build(self, bw: float = 5) -> None:
        r = self.addNode("r0", cls=Router, ip="192.168.1.1/24")
        h1 = self.addHost("h1", ip="192.168.1.100/24", defaultRoute="via 192.168.1.1")
        s1 = self.addSwitch("s1", dpid="1f")
        self.addLink(h1, s1, bw=bw, delay="2ms", cls=TCLink)
        self.addLink(s1, r, intfName2="r0-eth1", params2={"ip": "192.168.1.1/24"})
        self.addLink(self.addSwitch("s2"), r, params2={"ip": "172.16.0.1/12"})


def test_a_topo_is_a_network() -> None:
    network, note = read(Lab(bw=7))
    assert [(n.id, n.kind) for n in network.nodes] == [
        ("h1", "host"),
        ("r0", "host"),
        ("s1", "switch"),
        ("s2", "switch"),
    ]
    assert (
        network.node("r0").attributes["forwarding"] is True
        and "forwarding" not in network.node("h1").attributes
    )
    assert network.node("h1").attributes["ip"] == "192.168.1.100/24"
    assert network.node("r0").attributes["ip"] == ["192.168.1.1/24", "172.16.0.1/12"]
    assert network.node("s1").attributes["dpid"] == "1f"
    assert [(k.label, k.capacity_bps, k.delay_s) for k in network.links[:4:2]] == [
        ("h1->s1", 7e6, 0.002),
        ("s1->r0", 1e7, 0),
    ]
    assert "2 of 3 links have no bw, which Mininet does not limit; here they have 10 Mbit/s" in note
    assert (
        "default routes of 'h1' are not set: every host has the shortest path to each other one"
        in note
    )
    graph = nx.Graph([("h", "s")])
    graph.nodes["h"].update(kind="host", defaultRoute="via 10.0.0.9", colour="red")
    note = read(graph)[1]
    assert (
        "default routes of 'h' are not set" in note and "kept, but not read: colour (nodes)" in note
    )


def test_topos_of_mininet_and_the_same_through_networkx() -> None:
    for topo, hosts, switches, links in (
        (SingleSwitchTopo(3), 3, 1, 6),
        (LinearTopo(3, 2), 6, 3, 16),
    ):
        network = testbed.network(topo)
        assert (len(network.hosts), len(network.switches), len(network.links)) == (
            hosts,
            switches,
            links,
        )
        other = testbed.network(topo.convertTo(nx.MultiGraph))
        assert {n.id: n.kind for n in other.nodes} == {n.id: n.kind for n in network.nodes}
        assert {k.id for k in other.links} == {k.id for k in network.links}
    reverse = testbed.network(SingleSwitchReversedTopo(3))  # whose last host is at the first port
    assert [k.source for k in reverse.links[::2]] == ["h3", "h2", "h1"] and not reverse.links[
        0
    ].attributes


def test_a_bare_delay_of_a_topo_is_microseconds_as_for_tc() -> None:
    topo = Topo()
    topo.addLink(topo.addHost("h1"), topo.addSwitch("s1"), delay=1, bw=1)
    network, note = read(topo)
    assert (
        network.links[0].delay_s == 1e-6
        and "delay=1 has no unit: Mininet's tc reads microseconds" in note
    )


def test_values_are_networks_wherever_one_is_taken() -> None:
    graph = nx.Graph([("a", "b"), ("b", "c"), ("a", "c")])
    triangle = {"a": ["b", "c"], "b": ["c"]}
    loads = [
        {found.network.links[i].label: found.loads[i] for i in found.loaded}
        for found in (testbed.route(one, "a", "c") for one in (graph, triangle))
    ]
    assert loads[0] == loads[1] and len(loads[0]) == 3
    assert len(testbed.traffic(SingleSwitchTopo(3), [("h1", "h2")])) == 1


def test_mininet_s_parts_are_a_network_in_a_file_too(tmp_path: Path) -> None:
    parts = {
        "hosts": ["h1", ["h2", {"ip": "10.0.0.9/8"}]],
        "switches": {"s1": {}},
        "links": [["h1", "s1", {"bw": 5}]],
    }
    (tmp_path / "parts.json").write_text(json.dumps(parts))
    with pytest.warns(NetworkNote, match=r"bw \(Mbit/s\)"):
        read = testbed.network(tmp_path / "parts.json")
    assert [(link.label, link.capacity_bps) for link in read.links] == [
        ("h1->s1", 5e6),
        ("s1->h1", 5e6),
    ]
    assert read.node("h2").addresses == (("10.0.0.9", 8),)
