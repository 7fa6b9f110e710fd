"""What Mininet is given of a wiring is the wiring: every name, port, address and cable, whole or of a part; and what
Mininet's parameters of interfaces mean."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.emulation.network.mininet_network.messages import queue_messages, seconds
from testbed.emulation.network.mininet_network.wired import WiredMininet, described_mininet
from testbed.errors import InputError
from testbed.model.naming.printable import printable
from testbed.model.wiring import Wiring, wire, wiring_document
from topologies.network import Link, Network, Node

NAMES = st.one_of(
    st.text(min_size=1, max_size=20), st.sampled_from(["s1", "h1", "0", "c0", "a\nb", "東京", "lo"])
)


@st.composite
def wirings(draw: st.DrawFn) -> Wiring:
    """Hosts and switches, links one way or both, several between two nodes; some switches with an end point."""
    ids = draw(st.lists(NAMES, min_size=2, max_size=6, unique_by=printable))
    kinds = [draw(st.sampled_from(["switch", "host"])) for _ in ids]
    ends = st.tuples(st.sampled_from(ids), st.sampled_from(ids), st.sampled_from([0, 1]))
    links = draw(
        st.lists(ends.filter(lambda link: link[0] != link[1]), min_size=1, max_size=9, unique=True)
    )
    network = Network(
        name="drawn",
        nodes=tuple(Node(id=name, kind=kind) for name, kind in zip(ids, kinds, strict=True)),
        links=tuple(Link(source=a, target=b, key=key) for a, b, key in links),
    )
    switches = [node.id for node in network.switches]
    return wire(network, draw(st.lists(st.sampled_from(switches), unique=True)) if switches else ())


def mininet_of(wiring: Wiring, cut: list[tuple[str, str, bool]] | None = None) -> WiredMininet:
    """Described, not built."""
    document, cables = wiring_document(wiring, cables=True), [] if cut is None else cut
    return described_mininet(
        document, lambda name, argv: [name, *argv], lambda *cable: cables.append(cable)
    )


@given(wirings())
def test_mininet_has_the_wirings_nodes_ports_addresses_and_cables(wiring: Wiring) -> None:
    net = mininet_of(wiring)
    for host in wiring.hosts:
        node = net[host.name]
        assert (node.given, node.name, node.device) == (
            host.name,
            printable(host.name),
            host.device,
        )
        if any(host.name in (cable.a, cable.b) for cable in wiring.cables):
            assert node.IP() == host.ip
        assert all(interface.mac == host.mac for interface in node.intfList())
    for switch in wiring.switches:
        node = net[switch.name]
        assert (node.given, node.device, int(node.dpid, 16)) == (
            switch.name,
            switch.device,
            switch.dpid,
        )
    found = {
        frozenset((i.node.given, i.node.ports[i], i.name) for i in (link.intf1, link.intf2))
        for link in net.links
    }
    assert found == {
        frozenset(((c.a, c.a_port, c.a_interface), (c.b, c.b_port, c.b_interface)))
        for c in wiring.cables
    }


@given(wirings())
def test_cables_know_which_link_each_interface_sends_and_receives(wiring: Wiring) -> None:
    plan = mininet_of(wiring).cable_plan(wiring)
    assert set(plan.sending) == set(plan.receiving) == {link.id for link in wiring.network.links}
    for link, end in plan.sending.items():
        assert end.link is not None and end.link.id == link
        cable = wiring.cable_of(link)
        near, far = (cable.a_interface, cable.b_interface)
        assert (end.interface, plan.receiving[link].interface) == (
            (near, far) if cable.forward == link else (far, near)
        )
    hosts = {host.name for host in wiring.hosts}
    for name in hosts:
        ends = [(c.a, c.a_port, c.a_interface) for c in wiring.cables]
        ends += [(c.b, c.b_port, c.b_interface) for c in wiring.cables]
        assert [end.interface for end in plan.ends_of(name)] == [
            i for _, i in sorted((p, i) for n, p, i in ends if n == name)
        ]
    assert all((end.host in hosts) is (end.host is not None) for end in plan.sending.values())


@given(wirings())
def test_commands_go_to_the_node_by_the_networks_name_and_cuts_too(wiring: Wiring) -> None:
    cut: list[tuple[str, str, bool]] = []
    net = mininet_of(wiring, cut)
    cable = wiring.cables[0]
    net.configLinkStatus(printable(cable.a), cable.b, "down")
    assert cut == [(cable.a, cable.b, False)]
    node = net[cable.a]
    assert node.requests.words_at(node, ["id"]) == [cable.a, "id"]


@pytest.mark.parametrize(
    ("said", "meant"),
    [("5ms", 0.005), (" 10us", 1e-5), ("2s", 2.0), (7, 7e-6), ("1.5 msecs", 0.0015), ("3", 3e-6)],
)
def test_delays_are_read_as_tc_reads_them(said: object, meant: float) -> None:
    assert seconds(said) == pytest.approx(meant)


@pytest.mark.parametrize(
    "values", [{"delay": "soon"}, {"delay": "-1ms"}, {"loss": 101}, {"loss": -1}]
)
def test_values_that_mean_nothing_are_refused_in_one_line(values: dict[str, Any]) -> None:
    with pytest.raises(InputError) as refused:
        queue_messages(10, values, 1500)
    assert "\n" not in str(refused.value) and "give" in str(refused.value)


def test_interface_that_is_called_too_long_is_refused() -> None:
    wiring = wire(
        Network(
            name="two",
            nodes=tuple(Node(id=n, kind="switch") for n in "ab"),
            links=(Link(source="a", target="b"),),
        )
    )
    wiring = replace(
        wiring, switches=tuple(replace(one, device="much-too-long") for one in wiring.switches)
    )
    with pytest.raises(InputError, match="15 bytes at most; give its node a shorter name"):
        mininet_of(wiring)
