"""Cables from port messages: down with the first port, up with the last, deaf to repetitions."""

from __future__ import annotations

from testbed.metapath.cable_states import CableStates
from testbed.model.wiring import wire
from topologies import load_network

WIRING = wire(load_network("torus:4x4"), ["s0_0"])
LINK = ("s1_0", "s2_0", 0)
CABLE = WIRING.cable_of(LINK)
A, B = (WIRING.switch_at("s1_0").dpid, CABLE.a_port), (WIRING.switch_at("s2_0").dpid, CABLE.b_port)


def test_a_cable_is_down_with_its_first_port_and_up_with_its_last() -> None:
    states = CableStates(WIRING)
    told = [
        states.on_port(*port, up)
        for port, up in ((A, True), (A, False), (B, True), (B, False), (B, True), (A, True))
    ]
    assert [one.up if one else None for one in told] == [None, False, None, None, None, True]
    assert told[1] is not None and set(told[1].links) == {LINK, ("s2_0", "s1_0", 0)}
    assert not states.down


def test_a_port_towards_a_host_is_no_cable_between_switches() -> None:
    states = CableStates(WIRING)
    port = WIRING.access_port(WIRING.host_at("s0_0"))
    assert port is not None
    assert states.on_port(WIRING.switch_at("s0_0").dpid, port, False) is None
    assert states.on_port(99, 1, False) is None
