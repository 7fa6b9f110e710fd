"""Packets without a circuit: for which pair and when they are sent, and that a switch takes them for the pair's
data."""

from __future__ import annotations

from scapy.layers.l2 import Ether

from testbed.bulk.circuit_rules import BULK_PORT, circuit_rules
from testbed.bulk.emulated.injection import FORGOTTEN_S, InjectionChoice, data_packet
from testbed.bulk.plan import BulkPlan
from testbed.bulk.workload import bulk_plan
from testbed.model.wiring import wire


def plan() -> BulkPlan:
    return bulk_plan("crossbar:2", message_bytes=1000)


def test_a_pair_is_chosen_only_when_its_circuit_has_been_gone_for_long() -> None:
    choice, standing = InjectionChoice(plan()), {1}
    second = plan().transfers[1].source, plan().transfers[1].sink
    assert choice.pair(0.0, standing.__contains__) is None, "no message has arrived"
    choice.message_arrived(1)
    assert choice.pair(10.0, standing.__contains__) is None, "its circuit stands"
    standing.clear()
    assert choice.pair(11.0, standing.__contains__) is None, "it has just gone"
    assert choice.pair(11.0 + 0.9 * FORGOTTEN_S, standing.__contains__) is None
    assert choice.pair(11.0 + FORGOTTEN_S, standing.__contains__) == second
    choice.message_arrived(0)
    assert choice.pair(11.0 + FORGOTTEN_S, standing.__contains__) == second, (
        "the first has only just gone"
    )


def test_after_the_end_any_pair_without_a_circuit_will_do() -> None:
    choice = InjectionChoice(plan())
    assert choice.pair(1.0, lambda number: False, ended=True) is None
    choice.message_arrived(0)
    assert choice.pair(1.0, lambda number: True, ended=True) is None
    transfer = plan().transfers[0]
    assert choice.pair(1.0, lambda number: False, ended=True) == (transfer.source, transfer.sink)


def test_a_packet_matches_the_rules_that_its_circuit_would_have() -> None:
    wiring = wire(plan().network)
    transfer = plan().transfers[1]
    source, sink = wiring.host_at(transfer.source), wiring.host_at(transfer.sink)
    packet = Ether(data_packet(source, sink, sink))
    fields = {
        "eth_type": packet.type,
        "ip_proto": packet["IP"].proto,
        "ipv4_src": packet["IP"].src,
        "ipv4_dst": packet["IP"].dst,
        "tcp_dst": packet["TCP"].dport,
    }
    for rule in circuit_rules(wiring, (transfer.source, transfer.sink), transfer.path):
        assert dict(rule.match) == fields
    assert (packet.src, packet.dst, packet["TCP"].dport) == (source.mac, sink.mac, BULK_PORT)
    sums = packet["IP"].chksum, packet["TCP"].chksum
    del packet["IP"].chksum, packet["TCP"].chksum
    again = Ether(bytes(packet))
    assert (again["IP"].chksum, again["TCP"].chksum) == sums
