"""Names of nodes and of their devices, and the wiring that is made of them, over whatever a user calls his nodes."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.emulation.network.kernel.host_namespaces import as_hostname
from testbed.model.naming.device_names import device_names, end_point_name
from testbed.model.wiring import Wiring, wire
from topologies import load_network
from topologies.network import Link, Network, Node, reverse_of

AWKWARD = [
    *(
        "h0",
        "h1",
        "h2",
        "s0",
        "s1",
        "s2",
        "h_s1",
        "h_h1",
        "0",
        "1",
        "lo",
        "all",
        "eth0",
        "ovs-netdev",
        "gre0",
        "x",
        "help",
    ),
    *(
        "h1-eth0",
        "s1-eth1",
        "a->b",
        "São Paulo",
        "東京",
        "of:0000000000000001",
        "a-name-of-35-characters-------------",
        "-",
        ".",
    ),
]
IDS = st.one_of(st.sampled_from(AWKWARD), st.text(min_size=1, max_size=40))


def chain(ids: Sequence[str], switches: Sequence[bool]) -> Network:
    """A network in which each node is joined to the next, both ways."""
    nodes = [
        Node(id=name, kind="switch" if is_switch else "host")
        for name, is_switch in zip(ids, switches, strict=True)
    ]
    links = [
        Link(source=s, target=t) for a, b in itertools.pairwise(ids) for s, t in ((a, b), (b, a))
    ]
    return Network(name="chain", nodes=tuple(nodes), links=tuple(links))


@st.composite
def wirings(draw: st.DrawFn) -> Wiring:
    ids = draw(st.lists(IDS, min_size=1, max_size=12, unique=True))
    switches = draw(st.lists(st.booleans(), min_size=len(ids), max_size=len(ids)))
    ends = draw(st.lists(st.sampled_from(ids), max_size=4))
    return wire(chain(ids, switches), ends)


@given(wirings())
def test_a_node_is_called_by_its_id_and_no_device_by_anothers(wiring: Wiring) -> None:
    named = [*wiring.hosts, *wiring.switches]
    names = [one.name for one in named]
    ids = {node.id for node in wiring.network.nodes}
    assert len(set(names)) == len(names)
    assert all(one.name == one.node for one in named if not getattr(one, "outside", False))
    assert not ids & {host.name for host in wiring.hosts if host.outside}
    assert all(one.device == one.name or one.device not in names for one in named)


@given(wirings())
def test_devices_and_interfaces_are_unlike_and_the_kernel_takes_them(wiring: Wiring) -> None:
    devices = [one.device for one in (*wiring.hosts, *wiring.switches)]
    interfaces = [
        name for cable in wiring.cables for name in (cable.a_interface, cable.b_interface)
    ]
    both = [*devices, *interfaces]
    assert len(set(both)) == len(both)
    assert all(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,14}", name) for name in both)
    assert not {"lo", "all", "default", "eth0", "ovs-netdev", "gre0"} & set(both)


@given(wirings())
def test_cables_join_what_the_links_join(wiring: Wiring) -> None:
    for link in wiring.network.links:
        cable = wiring.cable_of(link.id)
        assert {cable.a, cable.b} == {link.source, link.target}
        assert link.id in (cable.forward, cable.backward) and reverse_of(link.id) in (
            cable.forward,
            cable.backward,
        )


@given(st.text(max_size=90))
def test_hostname_is_the_name_as_far_as_64_bytes_go(name: str) -> None:
    said = as_hostname(name)
    assert 0 < len(said) <= 64 and b"\0" not in said and b"\n" not in said
    if name.isprintable() and 0 < len(name.encode()) <= 64:
        assert said.decode() == name


@pytest.mark.parametrize(
    "name",
    ["swiss-t1", "optical-cloud", "ring:4", "torus:8x8", "fat-tree:4,3", "manet:nodes=115,seed=3"],
)
def test_nodes_of_the_catalogue_are_their_devices(name: str) -> None:
    network = load_network(name)
    wiring = wire(network, [node.id for node in network.switches])
    assert all(one.device == one.name for one in (*wiring.hosts, *wiring.switches))


def test_ports_decide_whether_a_name_fits() -> None:
    assert device_names({}, {"ten-letter": 9, "10-letters": 10}) == {
        "ten-letter": "ten-letter",
        "10-letters": "s1",
    }


def test_end_point_of_a_switch_is_never_a_node() -> None:
    assert [
        end_point_name("s1", taken) for taken in ({"s1"}, {"s1", "h1"}, {"s1", "h1", "h_s1"})
    ] == [
        "h1",
        "h_s1",
        "h_s1_2",
    ]
    found = wire(chain(["s1", "h1", "1"], [True, True, True]), ["s1", "h1", "1"])
    assert [host.name for host in found.hosts] == ["h_s1", "h_h1", "h_1"]
