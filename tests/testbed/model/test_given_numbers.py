"""Ports, datapath ids and lengths of queues that a network gives: honoured in every form in which it may come, or
refused in one line; on switches Open vSwitch shows them, and a queue holds so many packets."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import testbed
from testbed.model.wiring import MAX_PORT, Wiring, wire
from tests.helpers.stream_plans import planned
from topologies.errors import TopologyError
from topologies.files.foreign import NetworkNote
from topologies.files.node_link import parse_document, parse_json, write_document
from topologies.network import Link, Network, Node

PORTS = st.one_of(st.none(), st.integers(1, MAX_PORT))


def free_of(taken: set[int]) -> st.SearchStrategy[int | None]:
    return PORTS.filter(lambda port: port not in taken)


@st.composite
def numbered(draw: st.DrawFn) -> Network:
    """Switches and hosts with cables between any two, of which some have ports of their own, and some switches ids."""
    ids = [f"n{i}" for i in range(draw(st.integers(2, 5)))]
    dpids = draw(st.lists(st.integers(1, 2**64 - 1), unique=True, max_size=len(ids)))
    nodes = [
        Node(id=name, kind="switch", attributes={"dpid": f"{dpids[i]:x}"}) if i < len(dpids) else
        Node(id=name, kind=draw(st.sampled_from(["host", "switch"])))
        for i, name in enumerate(ids)
    ]  # fmt: skip
    pairs = draw(
        st.lists(
            st.lists(st.sampled_from(ids), min_size=2, max_size=2, unique=True),
            min_size=1,
            max_size=9,
        )
    )
    taken: dict[str, set[int]] = {name: set() for name in ids}
    links = []
    for key, (a, b) in enumerate(pairs):
        ports = [draw(free_of(taken[name])) for name in (a, b)]
        for name, port in zip((a, b), ports, strict=True):
            taken[name].add(port or 0)
        given_ports = {"ports": ports} if any(ports) else {}
        links.append(Link(source=a, target=b, key=key, attributes=given_ports))
        if draw(st.booleans()):
            links.append(
                Link(
                    source=b,
                    target=a,
                    key=key,
                    attributes={"ports": ports[::-1]} if any(ports) else {},
                )
            )
    return Network(name="drawn", nodes=tuple(nodes), links=tuple(links))


def ends(wiring: Wiring) -> list[tuple[str, int]]:
    return [end for c in wiring.cables for end in ((c.a, c.a_port), (c.b, c.b_port))]


@given(numbered())
def test_numbers_that_are_given_are_kept_and_all_are_unlike(network: Network) -> None:
    wiring = wire(network, [node.id for node in network.switches])
    for cable in wiring.cables:
        if cable.forward is not None:
            given_ports = network.link(*cable.forward).ports
            for own, found in zip(given_ports, (cable.a_port, cable.b_port), strict=True):
                assert own in (None, found)
    assert len(set(ends(wiring))) == len(ends(wiring))
    lowest = {host.name: 0 for host in wiring.hosts} | {
        switch.name: 1 for switch in wiring.switches
    }
    assert all(lowest[name] <= port <= MAX_PORT for name, port in ends(wiring))
    dpids = [switch.dpid for switch in wiring.switches]
    assert len(set(dpids)) == len(dpids)
    assert all(node.dpid in (None, wiring.switch_at(node.id).dpid) for node in network.switches)
    assert wire(parse_document(parse_json(write_document(network))), ()) == wire(network, ())


def test_without_given_numbers_they_count_on() -> None:
    names = ["s1", "s2", "s3"]
    links = [Link(source=a, target=b) for a, b in pairwise(names)]
    nodes = [Node(id="s1", kind="switch"), Node(id="s2", kind="switch", attributes={"dpid": "1"})]
    network = Network(name="n", nodes=(*nodes, Node(id="s3", kind="switch")), links=tuple(links))
    assert [s.dpid for s in wire(network).switches] == [2, 1, 3]
    assert ends(wire(network)) == [("s1", 1), ("s2", 1), ("s2", 2), ("s3", 1)]


def one(switch: dict[str, Any], **link: Any) -> Any:
    return {
        "hosts": ["h"],
        "switches": [("s", switch), "t"],
        "links": [("h", "s", link), ("s", "t", {"port1": 2})],
    }


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (one({}, port2=2), "'s': two cables have its port 2, one of them to 't'; change one"),
        (one({}, port2=0), "'s': port 0 towards 'h'; give 1 to 65279"),
        (one({}, port1=65280), "'h': port 65280 towards 's'; give 0 to 65279"),
        (
            one({"dpid": "xyz"}),
            "dpid 'xyz' is not a datapath id; write 1 to 16 hexadecimal digits as text, not 0",
        ),
        (one({"dpid": "0" * 16}), "is not a datapath id"),
        (one({"dpid": 7}), "dpid 7 is not a datapath id"),
        (one({"dpid": "f" * 17}), "is not a datapath id"),
        (
            {"nodes": [{"id": "a", "dpid": "A"}, {"id": "b", "dpid": "00:0a"}], "links": []},
            "'a' and 'b' have the datapath id a; change one",
        ),
        (
            {
                "directed": True,
                "nodes": ["a", "b"],
                "links": [("a", "b", {"ports": [1, 2]}), ("b", "a", {"ports": [3, 1]})],
            },
            "a->b: port 2 one way and 3 the other; give one",
        ),
    ],
)
def test_numbers_twice_or_out_of_range_are_refused_in_one_line(value: Any, words: str) -> None:
    with pytest.raises(TopologyError) as refused:
        wire(testbed.network(value))
    assert words in str(refused.value) and "\n" not in str(refused.value)


def in_every_form(tmp_path: Path) -> dict[str, Network]:
    from mininet.topo import Topo

    topo = Topo()
    topo.addHost("h")
    topo.addSwitch("s", dpid="1f")
    topo.addLink("h", "s", port1=3, port2=9, max_queue_size=5)
    graph = nx.Graph()
    graph.add_node("h", kind="host")
    graph.add_node("s", dpid="1f")
    link = {"ports": [3, 9], "max_queue_size": 5}
    graph.add_edge("h", "s", **link)
    nodes = [{"id": "h", "kind": "host"}, {"id": "s", "dpid": "1f"}]
    document = {"nodes": nodes, "links": [{"source": "h", "target": "s", **link}]}
    path, mininet = tmp_path / "n.json", tmp_path / "lab.py"
    path.write_text(json.dumps(document))
    mininet.write_text(
        "from mininet.topo import Topo\nclass T(Topo):\n def build(self):\n"
        "  self.addHost('h'); self.addSwitch('s', dpid='1f')\n"
        "  self.addLink('h', 's', port1=3, port2=9, max_queue_size=5)\n"
    )
    forms: dict[str, Any] = {"Topo": topo, "graph": graph, "document": document, "file": str(path)}
    forms["dictionary"] = {
        "hosts": ["h"],
        "switches": [("s", {"dpid": "1f"})],
        "links": [("h", "s", link)],
    }
    forms["Mininet file"] = f"{mininet}:T"
    found = {name: testbed.network(value) for name, value in forms.items()}
    written = tmp_path / "written.json"
    written.write_text(write_document(found["graph"]))
    return found | {
        "written": testbed.network(str(written)),
        "round": testbed.network(found["graph"].to_networkx()),
    }


def test_every_form_of_a_network_has_ports_ids_and_queues(tmp_path: Path) -> None:
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always", NetworkNote)
        for form, network in in_every_form(tmp_path).items():
            wiring = wire(network)
            assert (ends(wiring), [s.dpid for s in wiring.switches]) == (
                [("h", 3), ("s", 9)],
                [31],
            ), form
            assert [link.queue_packets for link in network.links] == [5, 5], form
    assert not any("not read" in str(note.message) for note in noted)


def test_foreign_keys_are_kept_and_not_read() -> None:
    link = Link(source="a", target="b", attributes={"ports": "ge-0/0/1", "max_queue_size": "big"})
    assert (link.ports, link.queue_packets) == ((None, None), None)


def test_a_stream_begins_at_the_port_that_its_host_has() -> None:
    from fec.protocol.wire import STREAM_UDP_PORT
    from testbed.openflow.flow_table import RuleWalker
    from testbed.openflow.rules import split_rules

    links = [("a", "s", {"ports": [3, 9]}), ("s", "b", {"ports": [200, 5]})]
    network = testbed.network({"hosts": ["a", "b"], "switches": ["s"], "links": links})
    plan = planned(network, "a", "b")
    walker = RuleWalker(wire(network), split_rules(wire(network), plan.forward, plan.backward)[0])
    walk = walker.walk("a", walker.stream_packet("a", "b", STREAM_UDP_PORT) | {"udp_src": 0})
    assert (walk.links, walk.host) == ((("a", "s", 0), ("s", "b", 0)), "b")


def on_switches() -> dict[str, Any]:
    import socket
    import subprocess
    import time

    from testbed.emulation.control.base_rules import install_shortest_paths
    from testbed.emulation.network.emulated_network import EmulatedNetwork

    queue = {"bw": 0.08, "max_queue_size": 5}
    hosts = ["a", "b"]
    links = [("a", "s", {"ports": [4, 300], **queue}), ("s", "b", {"ports": [7, 2], "bw": 10})]
    wiring = wire(
        testbed.network(
            {"hosts": hosts, "switches": [("s", {"dpid": "abcdef0123456789"})], "links": links}
        )
    )
    found: dict[str, Any] = {}
    with EmulatedNetwork(wiring) as net:
        install_shortest_paths(wiring)
        for what in (
            ["get", "Bridge", "s", "datapath_id"],
            *(["get", "Interface", f"s-eth{n}", "ofport"] for n in (300, 7)),
        ):
            done = subprocess.run(
                ["ovs-vsctl", *what], capture_output=True, text=True, check=True, timeout=20
            )
            found[what[2]] = done.stdout.strip()
        found["pinged"] = net.run_in_host("a", ["ping", "-c1", "-W2", net.host("b").ip]).wait(10)
        found["interfaces"] = net.mininet["b"].cmd("ls /proc/sys/net/ipv4/conf").split()
        for size in (1400, 100):
            with (
                net.open_socket("b", socket.AF_INET, socket.SOCK_DGRAM) as receiver,
                net.open_socket("a", socket.AF_INET, socket.SOCK_DGRAM) as sender,
            ):
                receiver.bind(("0.0.0.0", 9000))
                receiver.settimeout(1.5)
                before, began = net.link_counters()["a", "s", 0][2], time.monotonic()
                for _ in range(120):
                    sender.sendto(bytes(size), (net.host("b").ip, 9000))
                took, arrived = time.monotonic() - began, 0
                while True:
                    try:
                        receiver.recv(2000)
                    except TimeoutError:
                        break
                    arrived += 1
                found[f"{size}"] = arrived, net.link_counters()["a", "s", 0][2] - before, took
    return found


@pytest.mark.emulation
@pytest.mark.unclocked
def test_switches_have_the_numbers_and_queues_the_length(sandboxed: Callable[..., Any]) -> None:
    found = sandboxed(on_switches)
    assert found["s"].strip('"') == "abcdef0123456789" and (found["s-eth300"], found["s-eth7"]) == (
        "300",
        "7",
    )
    assert found["pinged"] == 0 and "b-eth2" in found["interfaces"]
    for size in (1400, 100):
        arrived, dropped, took = found[str(size)]
        frame = size + 42
        at_once, leaving = (
            3028 // frame,
            int(took * 10_000 / frame) + 1,
        )  # what the bucket held, and 80 kbit/s
        assert 5 + at_once <= arrived <= 5 + at_once + leaving, (size, found)
        assert arrived + dropped == 120
