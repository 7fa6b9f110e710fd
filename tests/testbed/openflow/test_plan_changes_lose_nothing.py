"""Changing a plan: whatever the order in which switches obey and packets move, none is lost and none goes in a circle.

And label prefixes: they cover an interval exactly, with the fewest there can be.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.errors import InputError
from testbed.model.label_split import LABELS, LabelSplit
from testbed.model.wiring import Wiring, wire
from testbed.openflow.flow_table import FlowTable
from testbed.openflow.rules import ETH_ARP, FlowRule, Match, downstream_order, label_prefixes, stream_rules
from testbed.openflow.session import Phase, PlanBook, SwitchStep, rules_from_json, rules_to_json
from testbed.routing.label_split.spraying import paths_split
from topologies.network import Link, Network, Node

PORT = 5000


def full_mesh(count: int) -> Network:
    names = [f"n{i}" for i in range(count)]
    links = tuple(Link(source=a, target=b) for a in names for b in names if a != b)
    return Network(name="mesh", nodes=tuple(Node(id=n, kind="switch") for n in names), links=links)


@st.composite
def splits(draw: st.DrawFn, network: Network) -> LabelSplit:
    """n0 -> n1 over a few paths that all follow one random order of the nodes between; orders of two splits may clash."""
    between = draw(st.permutations([n.id for n in network.nodes[2:]]))
    paths = []
    for weight in draw(st.lists(st.integers(1, 9), min_size=1, max_size=4)):
        kept = [n for n in between if draw(st.booleans())]
        nodes = ["n0", *kept, "n1"]
        links = [network.link_index[a, b, 0] for a, b in pairwise(nodes)]
        paths.append((links, Fraction(weight)))
    return paths_split(network, "n0", "n1", paths)


class Switches:
    """Rules with their cookies on every switch; what OpenFlow says of adding the same match twice: the later one stays."""

    def __init__(self) -> None:
        self.rules: dict[int, dict[tuple[int, Match], tuple[int, FlowRule]]] = {}
        self._tables: dict[int, FlowTable] = {}

    def obey(self, dpid: int, cookie: int, rule: FlowRule | None) -> None:
        own = self.rules.setdefault(dpid, {})
        if rule is None:
            self.rules[dpid] = {key: entry for key, entry in own.items() if entry[0] != cookie}
        else:
            own[rule.priority, rule.match] = (cookie, rule)
        self._tables.pop(dpid, None)

    def out_port(self, dpid: int, packet: dict[str, Any]) -> int | None:
        if dpid not in self._tables:
            self._tables[dpid] = FlowTable(rule for _, rule in self.rules.get(dpid, {}).values())
        return self._tables[dpid].out_port(packet)

    def all_rules(self) -> set[FlowRule]:
        return {rule for own in self.rules.values() for _, rule in own.values()}


class Traffic:
    """Packets of the pair under way, one hop at a time."""

    def __init__(self, wiring: Wiring, switches: Switches) -> None:
        self.switches = switches
        self.arrived = 0
        self._goal = wiring.host_at("n1").name
        self._dpid = {s.name: s.dpid for s in wiring.switches}
        self._far = {(c.a, c.a_port): c.b for c in wiring.cables} | {(c.b, c.b_port): c.a for c in wiring.cables}
        a, b = wiring.host_at("n0"), wiring.host_at("n1")
        self._first = wiring.switch_at("n0").name
        self._ip = {"eth_type": 0x0800, "ipv4_src": a.ip, "ipv4_dst": b.ip}
        self._arp = {"eth_type": ETH_ARP, "arp_spa": a.ip, "arp_tpa": b.ip}
        self.under_way: list[tuple[dict[str, Any], list[str]]] = []

    def send(self, label: int | None) -> None:
        stream = {**self._ip, "ip_proto": 17, "udp_dst": PORT, "udp_src": label}
        self.under_way.append((self._arp if label is None else stream, [self._first]))

    def move(self, number: int) -> None:
        packet, been = self.under_way[number]
        port = self.switches.out_port(self._dpid[been[-1]], packet)
        assert port is not None, f"{packet} found no rule after {been}"
        there = self._far[been[-1], port]
        assert there not in been, f"{packet} comes to {there} again after {been}"
        been.append(there)
        if there not in self._dpid:
            assert there == self._goal
            self.arrived += 1
            self.under_way.pop(number)

    def finish(self) -> None:
        while self.under_way:
            self.move(len(self.under_way) - 1)


def carry_out(phases: tuple[Phase, ...], traffic: Traffic, chance: random.Random) -> None:
    """The phases one after another, the messages within each in any order over the switches, packets moving in between."""
    for phase in phases:
        if phase.drain:
            traffic.finish()
        queues = [deque(messages(step)) for step in phase.steps]
        while queues := [queue for queue in queues if queue]:
            deed = chance.random()
            if deed < 0.4:
                traffic.switches.obey(*chance.choice(queues).popleft())
            elif deed < 0.6 and len(traffic.under_way) < 30:
                traffic.send(chance.choice([None, chance.randrange(LABELS), chance.randrange(LABELS)]))
            elif traffic.under_way:
                traffic.move(chance.randrange(len(traffic.under_way)))


def messages(step: SwitchStep) -> list[tuple[int, int, FlowRule | None]]:
    if step.action == "delete":
        return [(step.dpid, step.cookie, None)]
    return [(step.dpid, step.cookie, rule) for rule in step.rules]


def obey_all(switches: Switches, phases: tuple[Phase, ...]) -> None:
    """With no packet under way."""
    for phase in phases:
        for step in phase.steps:
            for message in messages(step):
                switches.obey(*message)


@settings(deadline=None, max_examples=60)
@given(st.data(), st.integers(3, 6), st.integers(0, 10**6))
def test_no_packet_is_lost_or_sent_in_a_circle_while_plans_change(data: st.DataObject, count: int, seed: int) -> None:
    network = full_mesh(count)
    wiring = wire(network, ["n0", "n1"])
    chance, book, switches = random.Random(seed), PlanBook(), Switches()
    traffic = Traffic(wiring, switches)
    first, *others = data.draw(st.lists(splits(network), min_size=2, max_size=3))
    obey_all(switches, book.install(7, stream_rules(wiring, first, udp_port=PORT)))
    for split in others:
        rules = stream_rules(wiring, split, udp_port=PORT)
        carry_out(book.replace(7, rules, downstream_order(wiring, split)), traffic, chance)
        assert switches.all_rules() == set(rules)  # nothing of the old plan, nothing of the passage
    traffic.finish()
    obey_all(switches, book.remove(7))
    assert switches.all_rules() == set()


def test_change_in_another_order_or_without_pauses_does_lose_packets() -> None:
    """The simulation can fail: from the source on, all at once or with packets under way, the same change errs."""
    network = full_mesh(4)
    wiring = wire(network, ["n0", "n1"])

    def along(*nodes: str) -> LabelSplit:
        links = [network.link_index[a, b, 0] for a, b in pairwise(nodes)]
        return paths_split(network, "n0", "n1", [(links, Fraction(1))])

    old, new = along("n0", "n2", "n3", "n1"), along("n0", "n3", "n2", "n1")
    order = downstream_order(wiring, new)
    rules = stream_rules(wiring, new, udp_port=PORT)

    def failures(chosen: Any, drained: bool) -> int:
        failed = 0
        for seed in range(100):
            book, switches = PlanBook(), Switches()
            obey_all(switches, book.install(1, stream_rules(wiring, old, udp_port=PORT)))
            phases = book.replace(1, rules, chosen)
            phases = phases if drained else tuple(replace(phase, drain=False) for phase in phases)
            try:
                carry_out(phases, Traffic(wiring, switches), random.Random(seed))
            except AssertionError:
                failed += 1
        return failed

    order = downstream_order(wiring, new)
    assert failures(order, True) == 0
    assert failures(order[::-1], True) > 0
    assert failures([[dpid for group in order for dpid in group]], True) > 0
    assert failures(order, False) > 0


def test_replace_refuses_an_order_without_a_switch_of_the_new_rules() -> None:
    network = full_mesh(3)
    wiring = wire(network, ["n0", "n1"])
    split = paths_split(network, "n0", "n1", [([network.link_index["n0", "n1", 0]], Fraction(1))])
    book = PlanBook()
    with pytest.raises(InputError, match=r"plan 3: switch 1 .*downstream_order"):
        book.replace(3, stream_rules(wiring, split, udp_port=PORT), [[2]])
    assert book.remove(3) == ()


def test_plan_is_installed_once_under_an_id_of_its_own() -> None:
    book = PlanBook()
    rule = FlowRule(dpid=4, priority=9, match=(), out_port=1)
    (phase,) = book.install(1, [rule])
    assert phase.steps == (SwitchStep(dpid=4, action="add", cookie=1 << 32, rules=(rule,)),)
    with pytest.raises(InputError, match="plan 1 is installed"):
        book.install(1, [rule])
    for wrong in (0, -3, 1 << 31):
        with pytest.raises(InputError, match="plan id"):
            book.install(wrong, [rule])
    assert book.replace(2, [rule], [[4]])[0].steps[0].cookie == 2 << 32  # not there yet: the same as to install
    assert [s.action for p in book.remove(1) for s in p.steps] == ["delete"]


@settings(deadline=None)
@given(st.integers(0, LABELS - 1), st.integers(1, LABELS))
def test_prefixes_cover_an_interval_exactly_with_the_fewest(start: int, stop: int) -> None:
    start, stop = min(start, stop - 1), max(start + 1, stop)
    prefixes = label_prefixes(start, stop)
    at = start
    for value, mask in prefixes:
        size = LABELS - mask
        assert (value, size & (size - 1), value % size) == (at, 0, 0)
        at += size
    assert at == stop
    assert len(prefixes) == fewest_prefixes(start, stop, 0, LABELS)


def fewest_prefixes(start: int, stop: int, low: int, high: int) -> int:
    """Blocks of the binary tree over [low, high) that make up [start, stop)."""
    if stop <= low or high <= start:
        return 0
    if start <= low and high <= stop:
        return 1
    middle = (low + high) // 2
    return fewest_prefixes(start, stop, low, middle) + fewest_prefixes(start, stop, middle, high)


def test_rules_come_back_from_json_as_they_went() -> None:
    network = full_mesh(4)
    wiring = wire(network, ["n0", "n1"])
    direct = network.link_index["n0", "n1", 0]
    detour = [network.link_index["n0", "n2", 0], network.link_index["n2", "n1", 0]]
    split = paths_split(network, "n0", "n1", [([direct], Fraction(1)), (detour, Fraction(2))])
    rules = list(stream_rules(wiring, split, udp_port=PORT))
    assert rules_from_json(rules_to_json(rules)) == rules
