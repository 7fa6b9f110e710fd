"""Addresses and other fields that foreign files fill with anything are read, or kept with a note."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from topologies import Network, load_network
from topologies.errors import TopologyError
from topologies.files.foreign import NetworkNote
from topologies.text.addresses import mac_address


def read(folder: Path, name: str, text: str) -> tuple[Network, str]:
    path = folder / name
    path.write_text(text)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", NetworkNote)
        network = load_network(path)
    return network, "".join(str(one.message) for one in caught)


def written(form: str, fields: list[dict[str, Any]], folder: Path) -> tuple[Network, str]:
    """Write hosts with these fields at one switch in a form, and read them."""
    graph = nx.Graph()
    graph.add_node("s")
    for number, own in enumerate(fields):
        graph.add_node(f"h{number}", kind="host", **own)
        graph.add_edge(f"h{number}", "s")
    if form == "dot":
        nodes = [
            f"{name} [{', '.join(f'{key}={json.dumps(str(one))}' for key, one in own.items())}];"
            for name, own in graph.nodes(data=True)
        ]
        edges = [f"{a} -- {b};" for a, b in graph.edges]
        return read(folder, "net.dot", "graph g {\n" + "\n".join(nodes + edges) + "\n}\n")
    if form == "json":
        return read(folder, "net.json", json.dumps(nx.node_link_data(graph, edges="links")))
    if form == "gml":
        return read(folder, "net.gml", "\n".join(nx.generate_gml(graph)))
    return read(folder, "net.graphml", "\n".join(nx.generate_graphml(graph)))


@pytest.mark.parametrize("form", ["dot", "gml", "graphml", "json"])
@pytest.mark.parametrize(
    ("written_mac", "mac"),
    [
        ("00:00:00:00:0:1", "00:00:00:00:00:01"),
        ("0011.2233.4455", "00:11:22:33:44:55"),
        ("00-11-22-33-44-55", "00:11:22:33:44:55"),
        ("001122334455", "00:11:22:33:44:55"),
    ],
)
def test_mac_is_read_in_every_notation(
    form: str, written_mac: str, mac: str, tmp_path: Path
) -> None:
    network, note = written(form, [{"mac": written_mac}], tmp_path)
    assert (network.node("h0").mac, note) == (mac, "")


@pytest.mark.parametrize("form", ["dot", "gml", "graphml", "json"])
@pytest.mark.parametrize(
    "fields",
    [
        {"mac": "00:00:00:00:00:00"},
        {"mac": "unknown"},
        {"mac": "01:00:5e:00:00:01"},
        {"ip": "dhcp"},
        {"ip": "fe80::1/64"},
        {"ip": "10.0.0.1/33"},
        {"ip": "10.0.0.0/24"},
        {"ip": "111.0.699.699"},
    ],
)
def test_unusable_address_is_kept_with_note(
    form: str, fields: dict[str, str], tmp_path: Path
) -> None:
    network, note = written(form, [fields], tmp_path)
    ((key, value),) = fields.items()
    assert network.node("h0").attributes[f"{key}_as_written"] == value
    assert (network.node("h0").mac, network.node("h0").addresses) == (None, ())
    assert f"cannot be used: {key} {value!r} of h0" in note


@pytest.mark.parametrize("form", ["dot", "gml", "graphml", "json"])
@pytest.mark.parametrize("address", [{"mac": "00:00:00:00:00:05"}, {"ip": "10.1.0.1/24"}])
def test_second_host_with_an_address_keeps_it_as_text(
    form: str, address: dict[str, str], tmp_path: Path
) -> None:
    network, note = written(form, [address, address], tmp_path)
    first, second = network.node("h0"), network.node("h1")
    assert bool(first.mac or first.addresses)
    assert not (second.mac or second.addresses)
    assert "an earlier node has the same" in note
    assert "of h1" in note


def test_usable_part_of_addresses_is_read(tmp_path: Path) -> None:
    both = {"ip": "10.1.0.1/24, fe80::1"}
    mask = {"ip": "10.1.0.2 255.255.255.0"}
    masks = {"ip": "10.1.0.3 255.255.255.0, 10.2.0.3 255.255.0.0"}
    network, note = written("graphml", [both, mask, masks], tmp_path)
    assert network.node("h0").addresses == (("10.1.0.1", 24),)
    assert network.node("h0").attributes["ip_as_written"] == "fe80::1"
    assert network.node("h1").addresses == (("10.1.0.2", 24),)
    assert network.node("h2").addresses == (("10.1.0.3", 24), ("10.2.0.3", 16))
    assert "ip 'fe80::1' of h0" in note


@pytest.mark.parametrize(
    "fields",
    [{"mac": "dhcp"}, {"ip": "dhcp"}, {"ip": "10.0.0.1/33"}],
)
def test_our_own_json_refuses_wrong_address(fields: dict[str, str], tmp_path: Path) -> None:
    document = {
        "nodes": [{"id": "h", "kind": "host", **fields}, {"id": "s"}],
        "links": [{"source": "h", "target": "s", "capacity_bps": 1e6}],
    }
    with pytest.raises(TopologyError, match=r"nodes\[0\]: node 'h'"):
        read(tmp_path, "net.json", json.dumps(document))


@pytest.mark.parametrize("value", ["00:11-22:33:44:55", "1.2.3.4.5", "00:11:22:33:44:5g", "", 5])
def test_other_text_is_no_mac_address(value: object) -> None:
    with pytest.raises(TopologyError, match="is not a unicast MAC address"):
        mac_address(value)


def test_pair_without_path_is_named_with_its_mend(tmp_path: Path) -> None:
    text = (
        "graph g { a [type=host]; b [type=host]; r [type=host]; s; t; a -- s; r -- s; r -- t;"
        " b -- t; }"
    )
    _, note = read(tmp_path, "net.dot", text)
    assert "no path joins a and b: r has several cables and does not forward" in note
    _, note = read(tmp_path, "net.dot", text.replace("r [type=host]", "r [forwarding=true]"))
    assert "no path" not in note
    _, note = read(tmp_path, "net.dot", "graph g { a [type=host]; b [type=host]; a -- s; b -- t; }")
    assert "no path joins a and b; add links between their parts" in note


@pytest.mark.parametrize(
    ("delay", "delay_s", "impairments", "said"),
    [
        ("10ms 2ms", 0.0, "delay:0.01,jitter=0.002", ""),
        ("10ms 2ms 25%", 0.0, "delay:0.01,jitter=0.002", "independently of each other"),
        ("10ms 2ms distribution normal", 0.0, "delay:0.01,jitter=0.002", "distribution normal"),
        ("10 ms", 0.01, "", ""),
    ],
)
def test_delay_of_two_times_has_jitter(
    delay: str, delay_s: float, impairments: str, said: str, tmp_path: Path
) -> None:
    text = f'graph g {{ a -- b [delay="{delay}"]; }}'
    network, note = read(tmp_path, "net.dot", text)
    link = network.link("a", "b")
    assert (link.delay_s, link.impairments) == (delay_s, impairments)
    assert said in note


@pytest.mark.parametrize("delay", ["10ms loss 1%", "10ms 2ms 3ms", "10ms jitter", "soon enough"])
def test_other_words_in_a_delay_are_refused(delay: str, tmp_path: Path) -> None:
    with pytest.raises(TopologyError, match="is not DELAY JITTER"):
        read(tmp_path, "net.dot", f'graph g {{ a -- b [delay="{delay}"]; }}')


@pytest.mark.parametrize(
    ("fields", "capacity_bps", "delay_s", "note"),
    [
        ('latency="200us", bandwidth="3 Mbit/s"', 3e6, 0.0002, ""),
        ('latency=5, bandwidth="3"', 10e6, 0.0, "kept, but not read: latency, bandwidth"),
        ('latency="7ms", delay="2ms"', 10e6, 0.002, "kept, but not read: latency"),
        ('latency="soon"', 10e6, 0.0, "kept, but not read: latency"),
    ],
)
def test_names_of_other_programs_are_read_with_a_unit(
    fields: str, capacity_bps: float, delay_s: float, note: str, tmp_path: Path
) -> None:
    network, said = read(tmp_path, "net.dot", f"graph g {{ a -- b [{fields}]; }}")
    link = network.link("a", "b")
    assert (link.capacity_bps, link.delay_s) == (capacity_bps, delay_s)
    assert note in said
