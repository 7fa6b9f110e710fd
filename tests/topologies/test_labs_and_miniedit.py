"""containerlab's files with routers, rates, impairments and vendors' kinds, and MiniEdit's: read, or refused."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import testbed
from tests.helpers.drawn import drawn
from topologies import Network, load_network
from topologies.errors import TopologyError
from topologies.files.foreign import NetworkNote


def read(folder: Path, name: str, text: str) -> tuple[Network, str]:
    (folder / name).write_text(text, encoding="utf-8")
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always", NetworkNote)
        network = load_network(folder / name)
    return network, " ".join(str(one.message) for one in noted)


LAB = """
topology:
  nodes:
    r1: {kind: linux, image: frr}
    r2: {kind: linux, image: frr}
    br: {kind: bridge}
    spine: {kind: nokia_srlinux}
    pc: {kind: linux}
  links:
    - endpoints: ["r1:eth1", "r2:eth1"]
      LINK
    - endpoints: ["r1:eth2", "br:eth1"]
    - endpoints: ["r2:eth2", "spine:e1-1"]
    - endpoints: ["pc:eth1", "spine:e1-2"]
"""


def test_lab_linux_nodes_forward_and_note_names_vendor_kinds(tmp_path: Path) -> None:
    network, note = read(tmp_path, "lab.clab.yml", LAB.replace("LINK", "mtu: 9000"))
    assert [node.id for node in network.hosts if node.attributes.get("forwarding")] == ["r1", "r2"]
    assert "with several links, which forward over shortest paths: 'r1', 'r2'" in note
    assert "without the images and configurations of their kinds: nokia_srlinux ('spine')" in note
    assert (
        "bridge" not in note
        and "mtu (links) of 9000: all links of a run have one, which `up` takes as --mtu" in note
    )
    assert network.links[0].attributes["mtu"] == 9000 and "\n" not in note


def test_addresses_of_ends_in_the_long_form_are_the_hosts(tmp_path: Path) -> None:
    lab = """
topology:
  nodes: {pc: {kind: linux}, sw: {kind: bridge}}
  links:
    - type: veth
      endpoints:
        - {node: pc, interface: eth1, mac: "02:00:00:00:00:07", ipv4: 10.9.0.7/24, ipv6: "fd00::7/64"}
        - {node: sw, interface: eth1}
"""
    network, note = read(tmp_path, "long.clab.yml", lab)
    assert (network.node("pc").addresses, network.node("pc").mac) == (
        (("10.9.0.7", 24),),
        "02:00:00:00:00:07",
    )
    assert "kept, but not read: ipv6 (links)" in note


@pytest.mark.parametrize(
    ("words", "capacity_bps", "delay_s", "impairments"),
    [
        ("rate: 10000", 1e7, 0, ""),
        ("rate: 2Mbps", 2e6, 0, ""),
        ("delay: 15ms", 1e7, 0.015, ""),
        (
            "impairments: {delay: 15ms, jitter: 2ms, loss: 10, rate: 1000}",
            1e6,
            0,
            "loss:0.1 delay:0.015,jitter=0.002",
        ),
        ("loss: 0.5%", 1e7, 0, "loss:0.005"),
        ("impairments: 'duplicate:0.1'", 1e7, 0, "duplicate:0.1"),
        ("corruption: 0", 1e7, 0, ""),
    ],
)
def test_rates_and_impairments_of_a_lab_s_links(
    words: str, capacity_bps: float, delay_s: float, impairments: str, tmp_path: Path
) -> None:
    there, back, other = read(tmp_path, "lab.clab.yml", LAB.replace("LINK", words))[0].links[:3]
    for link in (there, back):
        assert (link.capacity_bps, link.delay_s, link.impairments) == (
            capacity_bps,
            delay_s,
            impairments,
        )
    assert (other.capacity_bps, other.delay_s, other.impairments) == (1e7, 0, "")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("rate: 0", "topology.links[0]: rate '0' is not a rate; give kbit/s above 0"),
        ("rate: fast", "rate 'fast' is not a rate"),
        ("delay: 15", "delay '15' is not a time with a unit; write it as 5ms"),
        ("delay: -1ms", "is not a time with a unit"),
        ("loss: most", "loss 'most' is not a number; it is in per cent"),
        ("loss: 200", "loss 200 is in per cent; give 0 to 100"),
        ("jitter: 2ms", "jitter '2ms' is more than the delay"),
        (
            "corruption: 1",
            "a corrupted packet is discarded by its receiver; write its share as loss",
        ),
        (
            "impairments: {speed: 1}",
            "topology.links[0].impairments: 'speed' is none of rate, delay, jitter, loss",
        ),
    ],
)
def test_a_wrong_quantity_of_a_lab_is_named(words: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(TopologyError, match=re.escape(says)):
        read(tmp_path, "lab.clab.yml", LAB.replace("LINK", words))


def miniedit(**changed: Any) -> dict[str, Any]:
    """A file as MiniEdit 2.2 writes it: two hosts, a router, two switches."""
    options = {"hostname": "h1", "nodeNum": 1, "sched": "host", "defaultRoute": "10.0.0.254"}
    host = {"number": "1", "opts": options, "x": "82.0", "y": "97.0"}
    pc = {
        "number": "2",
        "opts": {"hostname": "pc", "ip": "10.0.0.9/8", "cpu": 0.5, "startCommand": "date"},
    }
    switch = {
        "number": "1",
        "opts": {"hostname": "s1", "switchType": "default", "controllers": ["c0"], "dpid": "a"},
    }
    router = {"number": "3", "opts": {"hostname": "r3", "switchType": "legacyRouter", "nodeNum": 3}}
    links = [
        {
            "src": "h1",
            "dest": "s1",
            "opts": {"bw": 5, "delay": "10ms", "loss": 1, "speedup": 0, "jitter": ""},
        },
        {"src": "s1", "dest": "s4", "opts": {}},
        {"src": "s1", "dest": "r3", "opts": {}},
        {"src": "r3", "dest": "pc", "opts": {"delay": "2"}},
    ]
    return {
        "application": {"ipBase": "10.0.0.0/8"},
        "controllers": [
            {"opts": {"hostname": "c0", "controllerType": "remote"}, "x": "1", "y": "1"}
        ],
        "hosts": [host, pc],
        "links": links,
        "switches": [switch, router, {"number": "4", "opts": {}}],
        "version": "2",
    } | changed


def test_miniedit_hosts_are_in_the_subnet_of_the_preferences(tmp_path: Path) -> None:
    document = miniedit()
    document["application"] = {"ipBase": "192.168.10.0/24"}
    network, _ = read(tmp_path, "lab.mn", json.dumps(document))
    assert network.node("h1").addresses == (("192.168.10.1", 24),)
    assert network.node("pc").addresses == (("10.0.0.9", 8),)


def test_miniedit_s_file_is_a_network(tmp_path: Path) -> None:
    network, note = read(tmp_path, "lab.mn", json.dumps(miniedit()))
    assert network.name == "lab"
    assert {n.id: n.kind for n in network.nodes} == {
        "h1": "host", "pc": "host", "s1": "switch", "r3": "host", "s4": "switch",
    }  # fmt: skip
    assert network.node("r3").attributes["forwarding"] is True and network.node("h1").position == (
        82,
        -97,
    )
    assert network.node("pc").attributes["ip"] == "10.0.0.9/8"
    link = network.link("s1", "h1")
    assert (link.capacity_bps, link.delay_s, link.impairments) == (5e6, 0.01, "loss:0.01")
    assert network.link("pc", "r3").delay_s == 2e-6 and "Mininet's tc reads microseconds" in note
    for said in (
        "cpu of pc is left out",
        "startCommand of pc is left out",
        "controllers are left out",
    ):
        assert said in note
    assert "3 of 4 links have no bw" in note
    assert (
        "default routes of 'h1' are not set: every host has the shortest path" in note
        and "kept" not in note
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NetworkNote)
        assert testbed.network(miniedit()).links == network.links


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"hosts": [3]}, "hosts[0]: must be an object with opts"),
        ({"hosts": {"a": 1}}, "names the unknown node 'h1'"),
        ({"switches": "s"}, "switches: must be a list, as MiniEdit writes it"),
        (
            {"links": [{"src": "h1", "opts": {}}]},
            "links[0]: give src and dest, the names of two nodes",
        ),
        ({"links": [{"src": "h1", "dest": "s9", "opts": {}}]}, "names the unknown node 's9'"),
        (
            {"links": [{"src": "h1", "dest": "s1", "opts": {"bw": -1}}]},
            "links[0]: bw -1 is not a rate",
        ),
    ],
)
def test_a_wrong_entry_of_miniedit_is_named(
    changed: dict[str, Any], says: str, tmp_path: Path
) -> None:
    with pytest.raises(TopologyError) as caught:
        read(tmp_path, "lab.mn", json.dumps(miniedit(**changed)))
    assert says in str(caught.value) and str(caught.value).startswith(str(tmp_path / "lab.mn"))


_json = st.recursive(
    st.none() | st.integers() | st.sampled_from(["h1", "s1", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["opts", "hostname", "src", "dest", "bw", "number"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["hosts", "links", "switches", "controllers"]), _json))
@drawn(150)
def test_no_file_of_miniedit_is_more_than_one_line_of_error(changed: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NetworkNote)
        try:
            testbed.network(miniedit(**changed))
        except TopologyError as error:
            assert "\n" not in str(error)


def p4_app(**topology: Any) -> str:
    return json.dumps(
        {
            "topology": {
                "hosts": {"h1": {}, "h2": {}},
                "switches": {"s1": {}},
                "links": [["h1", "s1"], ["h2", "s1", {"bw": 1, "loss": 0}]],
                **topology,
            }
        }
    )


def test_p4_utils_default_is_that_of_all_links(tmp_path: Path) -> None:
    default = {"bw": 5, "delay": "10ms", "loss": 2, "max_queue_size": 30, "auto_arp_tables": False}
    text = p4_app(default=default, assignment_strategy="l3")
    network, note = read(tmp_path, "p4app.json", text)
    first = network.link("h1", "s1")
    assert (first.capacity_bps, first.delay_s, first.impairments) == (5e6, 0.01, "loss:0.02")
    assert first.queue_packets == 30
    second = network.link("h2", "s1")
    assert (second.capacity_bps, second.delay_s, second.impairments) == (1e6, 0.01, "")
    assert "assignment_strategy 'l3' is not followed" in note
    assert "not done: auto_arp_tables" in note


def test_p4_utils_delay_number_is_in_milliseconds(tmp_path: Path) -> None:
    """As its ``setDelay`` documents. The numbers of files are also defaults and ends of links."""
    ends = {"params1": {"delay": 4}, "params2": {"delay": 6}}
    links = [["h1", "s1"], ["h2", "s1", {"delay": 2.5}], ["h3", "s1", ends]]
    text = p4_app(default={"delay": 20}, hosts={"h1": {}, "h2": {}, "h3": {}}, links=links)
    network, note = read(tmp_path, "p4app.json", text)
    assert network.link("h1", "s1").delay_s == 0.02
    assert network.link("h2", "s1").delay_s == 0.0025
    assert network.link("h3", "s1").delay_s == 0.004
    assert network.link("s1", "h3").delay_s == 0.006
    assert "delays without a unit are in milliseconds" in note


def test_delay_number_outside_p4_utils_needs_a_unit(tmp_path: Path) -> None:
    parts = {"hosts": ["h1"], "switches": ["s1"], "links": [["h1", "s1", {"delay": 5}]]}
    with pytest.raises(TopologyError, match="say the unit, as delay '5ms'"):
        read(tmp_path, "parts.json", json.dumps(parts))


def test_p4_utils_router_forwards(tmp_path: Path) -> None:
    text = p4_app(routers={"r1": {"int_conf": "r1.conf"}}, links=[["h1", "r1"], ["r1", "h2"]])
    network, note = read(tmp_path, "p4app.json", text)
    assert network.node("r1").kind == "host"
    assert network.node("r1").forwards
    assert "routers forward over shortest paths" in note
    assert "no path" not in note


@pytest.mark.parametrize(
    ("text", "program"),
    [
        ("provider: clab\nnodes: [r1, r2]\nlinks: [r1-r2]\n", "a topology of netlab"),
        ("topology: [ Ring ]\nnpus_count: [ 8 ]\nbandwidth: [ 50.0 ]\n", "a network of astra-sim"),
        ("services:\n  a: {}\n", "a file of Docker Compose"),
        ("apiVersion: v1\nkind: Pod\n", "a manifest of Kubernetes"),
    ],
)
def test_yaml_of_another_program_is_named(text: str, program: str, tmp_path: Path) -> None:
    with pytest.raises(TopologyError, match=f"it is {program}.*, which is not read"):
        read(tmp_path, "lab.yml", text)


def test_yaml_without_topology_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TopologyError, match="topology is missing; of YAML only containerlab's"):
        read(tmp_path, "lab.yml", "name: lab\n")
