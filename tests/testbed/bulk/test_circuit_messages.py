"""OpenFlow messages of circuits as bytes, and circuits as rules."""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import Any

import pytest

from testbed.bulk.circuit_rules import BULK_PORT, circuit_rules, return_rules, shared_return_rules
from testbed.bulk.planning import transfers_of
from testbed.emulation.control.openflow_messages import (
    SwitchReader,
    add_rule,
    as_bytes,
    barrier,
    hello,
    is_down,
    remove_rule,
)
from testbed.errors import InputError
from testbed.model.wiring import wire
from testbed.openflow.flow_table import RuleWalker
from testbed.openflow.rules import FlowRule
from testbed.scheduling.traffic.patterns import other_pairs
from topologies import load_network
from topologies.routing_tables import static_routing

RULE = FlowRule(
    dpid=3,
    priority=400,
    match=(
        ("eth_type", 0x800),
        ("ip_proto", 6),
        ("ipv4_src", "10.0.0.1"),
        ("ipv4_dst", "10.0.0.9"),
        ("tcp_dst", 7117),
    ),
    out_port=5,
)


@pytest.mark.parametrize(("made", "command"), [(add_rule(RULE, 9), 0), (remove_rule(RULE), 4)])
def test_a_rule_is_read_as_it_was_meant(made: Any, command: int) -> None:
    (read,) = SwitchReader().receive(as_bytes(made, 77))
    assert (read.command, read.priority, read.xid) == (command, 400, 77)
    assert dict(read.match.items()) == dict(RULE.match)
    outputs = [a.port for i in read.instructions for a in i.actions]
    assert (read.cookie, outputs) == ((9, [5]) if command == 0 else (0, []))


def test_greeting_and_barrier_are_whole_messages() -> None:
    data = hello(4) + as_bytes(barrier(), 5)
    kinds = []
    while data:
        _, kind, length, _ = struct.unpack_from("!BBHI", data)
        kinds.append(kind)
        data = data[length:]
    assert kinds == [0, 28, 20]


def test_switch_messages_are_read_in_any_segmentation() -> None:
    port = (
        struct.pack("!Bxxxxxxx", 2)
        + struct.pack("!I", 7)
        + bytes(28)
        + struct.pack("!II", 0, 1)
        + bytes(24)
    )
    bodies = ((21, 5, b""), (12, 0, port), (1, 6, struct.pack("!HH", 5, 2)), (2, 8, b"hi"))
    stream = b"".join(
        struct.pack("!BBHI", 4, kind, 8 + len(body), xid) + body for kind, xid, body in bodies
    )
    for size in (1, 7, len(stream)):
        reader, told = SwitchReader(), list[Any]()
        for start in range(0, len(stream), size):
            told += reader.receive(stream[start : start + size])
        confirmed, port_status, refused, asked = told
        assert confirmed.xid == 5 and (refused.xid, refused.type, refused.code) == (6, 5, 2)
        assert port_status.desc.port_no == 7 and is_down(port_status)
        assert (asked.xid, asked.data) == (8, b"hi")


def test_circuit_has_one_rule_per_switch_and_a_reverse_return_path() -> None:
    network = load_network("swiss-t1")
    wiring, route = wire(network), static_routing(network)
    path = route("t0", "r20")
    rules = circuit_rules(wiring, ("t0", "r20"), path)
    assert [(r.dpid, r.out_port) for r in rules] == [
        (wiring.switch_at(link[0]).dpid, wiring.out_port(link)) for link in reversed(path[1:])
    ]
    assert all(("tcp_dst", BULK_PORT) in r.match for r in rules)
    back = return_rules(wiring, ("t0", "r20"), path)
    assert {r.dpid for r in back} == {r.dpid for r in rules}
    assert all(("tcp_src", BULK_PORT) in r.match for r in back)
    nodes = [link[0] for link in path] + [path[-1][1]]
    assert len(rules) == len(list(pairwise(nodes))) - 1


def test_a_path_that_breaks_off_or_leads_elsewhere_is_refused() -> None:
    network = load_network("swiss-t1")
    wiring, route = wire(network), static_routing(network)
    path = route("t0", "r20")
    for wrong in (path[:-1], path[1:], (path[0], path[-1]), ()):
        with pytest.raises(InputError, match="path of t0 to r20"):
            circuit_rules(wiring, ("t0", "r20"), wrong)


@pytest.mark.parametrize("name", ["swiss-t1", "torus:3x3", "clos:4"])
def test_packets_follow_circuits_and_shared_return_rules_and_nothing_else(name: str) -> None:
    network = load_network(name)
    wiring = wire(network)
    pairs = other_pairs(network)
    paths = {(t.source, t.sink): t.path for t in transfers_of(network, pairs)}
    backs = shared_return_rules(wiring, paths)
    standing = {pair for index, pair in enumerate(paths) if index % 3 == 0}
    walker = RuleWalker(
        wiring,
        (*backs, *(r for pair in standing for r in circuit_rules(wiring, pair, paths[pair]))),
    )
    assert len(backs) < sum(len(path) - 1 for path in paths.values())
    for pair in list(paths)[:: max(1, len(paths) // 200)]:
        source, sink = wiring.host_at(pair[0]), wiring.host_at(pair[1])
        packet = {"eth_type": 0x800, "ip_proto": 6, "ipv4_src": source.ip, "ipv4_dst": sink.ip}
        data = walker.walk(pair[0], {**packet, "tcp_src": 40000, "tcp_dst": BULK_PORT})
        if pair in standing:
            assert (data.links, data.host) == (paths[pair], sink.name)
        else:
            assert (data.host, data.dropped_at, data.dropped_by) == (None, paths[pair][0][1], None)
        answer = {"eth_type": 0x800, "ip_proto": 6, "ipv4_src": sink.ip, "ipv4_dst": source.ip}
        back = walker.walk(pair[1], {**answer, "tcp_src": BULK_PORT, "tcp_dst": 40000})
        assert back.links == tuple((b, a, key) for a, b, key in reversed(paths[pair]))
