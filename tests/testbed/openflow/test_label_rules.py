"""Flow rules of label splits, evaluated by the flow table: every topology, several pairs and routings, strays and
strangers."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from testbed.errors import InputError
from testbed.model.label_split import LABELS, LabelPath, LabelSplit
from testbed.model.routes import SplitRoute
from testbed.model.wiring import Wiring, wire
from testbed.openflow.flow_table import FlowTable, RuleWalker
from testbed.openflow.rules import (
    DROP,
    ETH_ARP,
    ETH_IPV4,
    FlowRule,
    label_prefixes,
    pair_rules,
    stream_rules,
)
from testbed.routing import route_by_name
from testbed.routing.label_split.spraying import SLIVER, disjoint_return_split, paths_split, spray
from tests.helpers.label_tables import label_loads, out_ports
from topologies import catalogue, load_network
from topologies.network import Link, Network, Node

PORT = 5000
NETWORKS = {
    "swiss-t1": [("s1", "s6"), ("t0", "r31"), ("t5", "r14")],
    "two-switch": [("t1", "r5"), ("t5", "r1")],
    "three-switch": [("t1", "r2")],
    "shared-fibre": [("A", "B"), ("C", "D")],
    "crossbar": [("t0", "r7"), ("t3", "r3")],
    "optical-cloud": [("h1", "h14"), ("x2", "x9")],
    "manet:nodes=30,seed=3": [("h0", "h29"), ("n3", "n20")],
    "torus:4x3": [("h0_0", "h2_1"), ("s1_0", "s3_2")],
    "mesh:3x3": [("h0_0", "h2_2"), ("s0_2", "h2_0")],
    "ring:5": [("h0", "h2"), ("s4", "s2")],
    "fat-tree:2,3": [("h0", "h7"), ("h1", "h2")],
    "clos:4": [("h0", "h15"), ("h3", "h4")],
    "topohub:topozoo/Abilene": [("0", "3"), ("5", "1")],
    "capillary-layers:graph=1": [("s", "t")],
    "bottleneck-hunt": [("s", "t")],
    "dragonfly:2,1,1": [("h0", "h5"), ("s0_1", "s2_0")],
    "hyperx:3x2,1": [("h0", "h5"), ("s0_1", "h4")],
    "hypercube:3": [("s0_0_0", "s1_1_1"), ("s0_0_1", "s0_1_0")],
    "kautz:8,2": [("h0", "h5"), ("s1", "s6")],
    "bipartite:3,2": [("h0", "h4"), ("s1", "s2")],
    "gpu-machines:2,2": [("h0", "h3"), ("s0", "h2")],
}
ONE_WAY = ("three-switch", "capillary-layers:graph=1", "bottleneck-hunt")
"""Drawn from one end to the other: no report gets back over them."""
METHODS = ("capillary", "ecmp", "disjoint:2", "max-flow", "single")
CASES = [(name, *pair) for name, pairs in NETWORKS.items() for pair in pairs]


def routed(name: str, source: str, sink: str, method: str) -> tuple[Wiring, SplitRoute, LabelSplit]:
    route = route_by_name(load_network(name), source, sink, method)
    return wire(route.network, [source, sink]), route, spray(route, budget=50)


def labels_on_links(split: LabelSplit) -> dict[Any, int]:
    return {split.network.links[i].id: int(split.load(i) * LABELS) for i in split.loaded}


def other_packets(wiring: Wiring, source: str, sink: str) -> list[dict[str, int | str]]:
    a, b = wiring.host_at(source), wiring.host_at(sink)
    ip: dict[str, int | str] = {"eth_type": ETH_IPV4, "ipv4_src": a.ip, "ipv4_dst": b.ip}
    return [
        {"eth_type": ETH_ARP, "arp_spa": a.ip, "arp_tpa": b.ip},
        {**ip, "ip_proto": 1},
        {**ip, "ip_proto": 6, "tcp_src": 40000, "tcp_dst": PORT},
        {**ip, "ip_proto": 17, "udp_src": 40000, "udp_dst": PORT + 1},
    ]


def test_every_family_of_networks_is_tried() -> None:
    assert {name.partition(":")[0] for name in NETWORKS} == {entry.name for entry in catalogue()}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("name", "source", "sink"), CASES)
def test_every_label_arrives_and_every_link_carries_its_load(
    name: str, source: str, sink: str, method: str
) -> None:
    wiring, route, split = routed(name, source, sink, method)
    walker = RuleWalker(wiring, stream_rules(wiring, split, udp_port=PORT))
    loads, arrived = label_loads(walker, source, sink, PORT)
    assert arrived == LABELS
    assert loads == labels_on_links(split)
    for link, load in zip(route.network.links, route.loads, strict=True):
        assert abs(Fraction(loads.get(link.id, 0), LABELS) - load) < Fraction(SLIVER, LABELS)


@pytest.mark.parametrize(("name", "source", "sink"), CASES)
def test_single_packets_follow_the_path_of_their_label(name: str, source: str, sink: str) -> None:
    wiring, _, split = routed(name, source, sink, "capillary")
    walker = RuleWalker(wiring, stream_rules(wiring, split, udp_port=PORT))
    packet = walker.stream_packet(source, sink, PORT)
    edges = {edge for path in split.paths for edge in (path.start, path.stop - 1)}
    for label in sorted(edges)[:40]:
        walk = walker.walk(source, {**packet, "udp_src": label})
        assert walk.links == tuple(split.network.links[i].id for i in split.path_of(label).links)
        assert walk.host == wiring.host_at(sink).name


@pytest.mark.parametrize(("name", "source", "sink"), CASES)
def test_all_else_of_the_pair_takes_the_path_of_label_0(name: str, source: str, sink: str) -> None:
    wiring, _, split = routed(name, source, sink, "capillary")
    walker = RuleWalker(wiring, stream_rules(wiring, split, udp_port=PORT))
    path = tuple(split.network.links[i].id for i in split.path_of(0).links)
    for packet in other_packets(wiring, source, sink):
        walk = walker.walk(source, packet)
        assert (walk.links, walk.host) == (path, wiring.host_at(sink).name)


@pytest.mark.parametrize(("name", "source", "sink"), CASES)
def test_strangers_are_dropped_at_the_first_switch(name: str, source: str, sink: str) -> None:
    wiring, _, split = routed(name, source, sink, "capillary")
    walker = RuleWalker(wiring, stream_rules(wiring, split, udp_port=PORT))
    stranger = "10.200.0.9"
    for packet in (
        *other_packets(wiring, source, sink),
        {**walker.stream_packet(source, sink, PORT), "udp_src": 7},
    ):
        for field in {"ipv4_src", "ipv4_dst", "arp_spa", "arp_tpa"} & packet.keys():
            walk = walker.walk(source, {**packet, field: stranger})
            assert walk.host is None
            assert len(walk.links) == (split.network.node(source).kind == "host")
    assert (
        walker.walk(
            source, {"eth_type": 0x86DD, "ip_proto": 17, "udp_src": 7, "udp_dst": PORT}
        ).host
        is None
    )


@pytest.mark.parametrize(("name", "source", "sink"), CASES)
def test_labels_that_stray_to_a_switch_are_dropped_there(name: str, source: str, sink: str) -> None:
    """Each switch sends each of the 65,536 labels to the port of its path, and all labels of other paths nowhere."""
    wiring, _, split = routed(name, source, sink, "capillary")
    walker = RuleWalker(wiring, stream_rules(wiring, split, udp_port=PORT))
    expected = {dpid: np.full(LABELS, -1) for dpid in walker.tables}
    for path in split.paths:
        for link in (split.network.links[i] for i in path.links):
            if split.network.node(link.source).kind == "switch":
                expected[wiring.switch_at(link.source).dpid][path.start : path.stop] = (
                    wiring.out_port(link.id)
                )
    end = wiring.host_at(sink)
    if end.outside:
        expected[wiring.switch_at(sink).dpid][:] = wiring.access_port(end)
    for dpid, table in walker.tables.items():
        assert np.array_equal(
            out_ports(table, walker.stream_packet(source, sink, PORT)), expected[dpid]
        )


@pytest.mark.parametrize(
    ("name", "pairs"), [one for one in NETWORKS.items() if one[0] not in ONE_WAY]
)
def test_streams_of_several_pairs_and_return_paths_do_not_interfere(
    name: str, pairs: list[tuple[str, str]]
) -> None:
    network = load_network(name)
    wiring = wire(network, [node for pair in pairs for node in pair])
    splits = [spray(route_by_name(network, *pair), budget=50) for pair in pairs]
    if name not in ("two-switch",):  # its links lead one way
        splits += [disjoint_return_split(network, *pair) for pair in pairs]
    together = RuleWalker(
        wiring, [r for split in splits for r in stream_rules(wiring, split, udp_port=PORT)]
    )
    for split in splits:
        loads, arrived = label_loads(together, split.source, split.sink, PORT)
        assert (loads, arrived) == (labels_on_links(split), LABELS)
        path = tuple(network.links[i].id for i in split.path_of(0).links)
        for packet in other_packets(wiring, split.source, split.sink):
            assert together.walk(split.source, packet).links == path


def test_split_whose_paths_run_against_each_other_arrives_all_the_same() -> None:
    ends = [("a", "b"), ("a", "c"), ("b", "c"), ("c", "b"), ("b", "d"), ("c", "d")]
    links = tuple(Link(source=s, target=t) for s, t in ends)
    network = Network(
        name="crossed", nodes=tuple(Node(id=n, kind="switch") for n in "abcd"), links=links
    )
    half = Fraction(1, 2)
    split = paths_split(network, "a", "d", [((0, 2, 5), half), ((1, 3, 4), half)])
    wiring = wire(network, ["a", "d"])
    walker = RuleWalker(wiring, stream_rules(wiring, split, udp_port=PORT))
    assert label_loads(walker, "a", "d", PORT) == (labels_on_links(split), LABELS)


def test_path_through_a_host_is_refused() -> None:
    nodes = tuple(Node(id=n, kind="host" if n == "h" else "switch") for n in "ahb")
    network = Network(
        name="via", nodes=nodes, links=(Link(source="a", target="h"), Link(source="h", target="b"))
    )
    split = LabelSplit(
        network=network,
        source="a",
        sink="b",
        paths=(LabelPath(start=0, stop=LABELS, links=(0, 1)),),
    )
    with pytest.raises(InputError, match="through the host 'h'"):
        stream_rules(wire(network, ["a", "b"]), split, udp_port=PORT)


def test_end_point_without_a_host_is_refused_with_the_mend() -> None:
    _, _, split = routed("ring:5", "s4", "s2", "single")
    with pytest.raises(InputError, match=r"'s4' has no host.*name it as an end point"):
        stream_rules(wire(split.network), split, udp_port=PORT)


def test_rules_of_every_pair_together_carry_each_over_its_path() -> None:
    network = load_network("ring:5")
    wiring = wire(network)
    paths: dict[tuple[str, str], list[Any]] = {}
    for a in network.hosts:
        for b in network.hosts:
            if a is not b:
                route = route_by_name(network, a.id, b.id, "single")
                split = spray(route)
                paths[a.id, b.id] = [network.links[i].id for i in split.path_of(0).links]
    walker = RuleWalker(
        wiring, [rule for ends, path in paths.items() for rule in pair_rules(wiring, *ends, path)]
    )
    for (a_id, b_id), path in paths.items():
        for packet in other_packets(wiring, a_id, b_id):
            assert walker.walk(a_id, packet).links == tuple(path)


def test_rules_of_one_priority_that_disagree_are_reported() -> None:
    rules = [
        FlowRule(dpid=1, priority=5, match=(("udp_src", (0, mask)),), out_port=p)
        for p, mask in ((1, 0), (2, 1))
    ]
    table = FlowTable(rules)
    assert table.rule_for({"udp_src": 1}) == rules[0]
    with pytest.raises(InputError, match="two rules of priority 5"):
        table.rule_for({"udp_src": 2})
    with pytest.raises(InputError, match="match label 0"):
        out_ports(table, {})


def test_drop_rule_hides_those_below_it() -> None:
    rules = [FlowRule(dpid=1, priority=2, match=(("udp_src", (0, 0x8000)),), out_port=DROP)]
    rules.append(FlowRule(dpid=1, priority=1, match=(), out_port=4))
    table = FlowTable(rules)
    assert [table.rule_for({"udp_src": label}) for label in (9, 0x8000)] == rules
    assert out_ports(table, {}).tolist() == [-1] * 32768 + [4] * 32768


def test_packets_that_go_round_in_a_circle_are_an_error() -> None:
    network = load_network("ring:3")
    wiring = wire(network)
    path = [("s0", "s1", 0), ("s1", "s2", 0), ("s2", "s0", 0)]
    walker = RuleWalker(wiring, pair_rules(wiring, "h0", "h1", path))
    with pytest.raises(InputError, match="round in a cycle"):
        walker.walk("h0", other_packets(wiring, "h0", "h1")[0])
    with pytest.raises(InputError, match="round in a cycle"):
        label_loads(walker, "h0", "h1", PORT)


@pytest.mark.parametrize(("start", "stop"), [(5, 5), (-1, 4), (0, LABELS + 1), (9, 3)])
def test_labels_outside_the_space_have_no_prefixes(start: int, stop: int) -> None:
    with pytest.raises(InputError, match=r"labels \["):
        label_prefixes(start, stop)


def test_per_label_repeats_the_value_of_each_path() -> None:
    network = load_network("swiss-t1")
    split = spray(route_by_name(network, "s1", "s6", "capillary"))
    links = split.per_label(path.links for path in split.paths)
    assert len(split.paths) > 2
    assert links == [split.path_of(label).links for label in range(LABELS)]
