"""Files of other programs are read (REPETITA, containerlab, GML, DOT, SNDlib, D3); what is wrong in them is named."""

from __future__ import annotations

import gzip
import json
import re
import warnings
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.routing import capillary_route
from tests.helpers.drawn import drawn
from topologies import Network, load_network
from topologies.errors import TopologyError
from topologies.files.foreign import NetworkNote
from topologies.files.formats import write_network_file

# the ends of the first links of Abilene, as REPETITA's collection has them: 9.95 Gbit/s
SQUARE = """NODES 4
label x y
0_New_York -74.0 40.7
1_Chicago -87.6 41.9
2_Washington -77.0 38.9
3_Seattle -122.3 47.6

EDGES 9
label src dest weight bw delay
edge_0 0 1 1 9953280 1913
edge_1 1 0 1 9953280 1913
edge_2 0 2 1 9953280 329
edge_3 2 0 1 9953280 329
edge_4 1 3 2 9953280 2793
edge_5 3 1 2 9953280 2793
edge_6 2 3 2 9953280 3100
edge_7 3 2 2 9953280 3100
edge_8 0 1 5 155520 1913
"""
CLAB = """
name: leaves
topology:
  defaults: {kind: nokia_srlinux}
  groups: {client: {kind: linux}}
  nodes:
    spine: {kind: nokia_srlinux, type: ixrd3}
    leaf1:
    leaf2:
    a: {group: client}
    b: {kind: linux, image: "alpine:3"}
  links:
    - endpoints: ["leaf1:e1-49", "spine:e1-1"]
    - endpoints: ["spine:e1-2", "leaf2:e1-49"]
    - endpoints: ["leaf2:e1-50", "spine:e1-3"]
    - type: veth
      endpoints: [{node: a, interface: eth1}, {node: leaf1, interface: e1-1}]
    - endpoints: ["b:eth1", "leaf2:e1-1"]
"""


def written(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def test_repetita_graph_has_its_names_rates_delays_and_parallel_links(tmp_path: Path) -> None:
    network = load_network(written(tmp_path, "abilene.graph", SQUARE))
    assert (network.name, len(network.nodes), len(network.links)) == ("abilene", 4, 9)
    first, parallel = (
        network.link("0_New_York", "1_Chicago", 0),
        network.link("0_New_York", "1_Chicago", 1),
    )
    assert (first.capacity_bps, first.delay_s, first.attributes["weight"]) == (
        9.95328e9,
        0.001913,
        1.0,
    )
    assert parallel.capacity_bps == 155.52e6
    assert (
        max(capillary_route(network, "0_New_York", "3_Seattle").loads).limit_denominator(10)
        == 1 / 2
    )


def test_containerlab_topology_has_hosts_switches_and_parallel_cables(tmp_path: Path) -> None:
    network = load_network(written(tmp_path, "lab.clab.yml", CLAB))
    assert network.name == "leaves" and [host.id for host in network.hosts] == ["a", "b"]
    assert {link.label for link in network.links if link.source == "spine"} == {
        "spine->leaf1",
        "spine->leaf2",
        "spine->leaf2#1",
    }
    assert len(network.links) == 10
    assert [str(load) for load in capillary_route(network, "spine", "leaf2").loads if load] == [
        "1/2",
        "1/2",
    ]


@pytest.mark.parametrize(
    ("name", "old", "new", "says"),
    [
        ("x.graph", "EDGES 9", "EDGES 10", "4 nodes and 10 links are announced, 4 and 9 follow"),
        ("x.graph", "NODES 4", "NODES many", "line 1: give 'NODES NUMBER'"),
        (
            "x.graph",
            "edge_0 0 1",
            "edge_0 0 7",
            "line 10: src and dest are numbers of nodes, 0 to 3",
        ),
        ("x.graph", "1 9953280 329\nedge_3", "1 fast 329\nedge_3", "line 12: .* are not numbers"),
        (
            "x.graph",
            "155520 1913",
            "0 1913",
            "line 18: link '0_New_York' -> '1_Chicago'.*capacity_bps",
        ),
        ("x.graph", "label src dest", "label from to", "give 'EDGES NUMBER'"),
        ("x.clab.yml", '"b:eth1"', '"c:eth1"', r"topology.links\[4\]: 'c' is none of the nodes"),
        ("x.clab.yml", "  nodes:", "  knots:", "topology.nodes: give a table"),
        ("x.clab.yml", '["b:eth1", "leaf2:e1-1"]', '["b:eth1"]', "give two endpoints"),
        ("x.clab.yml", "name: leaves", "name: [", "not YAML"),
    ],
)
def test_wrong_entry_is_named(tmp_path: Path, name: str, old: str, new: str, says: str) -> None:
    text = SQUARE if name.endswith("graph") else CLAB
    assert old in text
    with pytest.raises(TopologyError, match=says):
        load_network(written(tmp_path, name, text.replace(old, new, 1)))


def read(path: str | Path) -> tuple[Network, str]:
    """The network, and its note or nothing."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        network = load_network(path)
    notes = [str(one.message) for one in caught if issubclass(one.category, NetworkNote)]
    assert len(notes) <= 1
    return network, "".join(notes)


LAB = """
name: 007
x-common: &common {kind: srl, image: "i:1"}
topology:
  nodes:
    no: {<<: *common}
    010: *common
    on: {kind: linux}
    null_: ~
  links:
    - {endpoints: ["no:e1", "010:e1"], mtu: 9000}
    - endpoints: ["no:e2", "host:up"]
    - endpoints: ["macvlan:eth0", "on:eth1"]
    - {type: dummy, endpoint: {node: "010", interface: e9}}
    - {type: mgmt-net, endpoint: {node: "010", interface: e8}, host-interface: x}
    - endpoints: ["on:eth2", "no:e3"]
    - {type: veth, endpoints: [{node: on, interface: eth3}, {node: null_, interface: e1}]}
    - endpoints: ["no:e4", "no:e5"]
"""


def test_a_lab_is_text_and_what_leaves_it_is_left_out(tmp_path: Path) -> None:
    network, note = read(written(tmp_path, "lab.clab.yml", LAB))
    assert (network.name, [n.id for n in network.nodes]) == ("007", ["no", "010", "on", "null_"])
    assert [k.label for k in network.links[::2]] == ["no->010", "on->no", "on->null_"]
    assert (
        network.links[0].attributes == {"mtu": 9000}
        and network.node("no").attributes["type_name"] == "srl"
    )
    for part in (
        "left out: links out of the network, at 'no', 'on', '010'",
        "left out: 1 link from a node to itself, at 'no'",
        "hosts (kind linux) with several links, which forward over shortest paths: 'on'",
        "mtu (links) of 9000",
        "kept, but not read: image (nodes)",
    ):
        assert part in note


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("010: *common", "no: *common", "the key 'no' is there twice"),
        ('"010:e1"]', '"010:e9"]', "topology.links[3]: '010:e9' is used by topology.links[0] too"),
        ('"host:up"', '"router:up"', "topology.links[1]: 'router' is none of the nodes"),
        ('"no:e2", "host:up"', '"mgmt-net:a", "host:up"', "is none of the nodes"),
        ('"no:e2", "host:up"', '"no:e2"', "give two endpoints"),
        ('"no:e2", "host:up"', '[a], "host:up"', "give each endpoint as node:interface"),
        ("name: 007", "name: [a]", "name: give text"),
        ("kind: linux", "kind: {a: b}", "kind: give text"),
        ("*common}", "*other}", "the alias 'other' is not defined before it is used"),
        ("  links:", "  links: 7\n  more:", "topology.links: give a list"),
    ],
)
def test_a_wrong_lab_is_refused(old: str, new: str, says: str, tmp_path: Path) -> None:
    assert old in LAB
    with pytest.raises(TopologyError) as caught:
        load_network(written(tmp_path, "lab.clab.yml", LAB.replace(old, new, 1)))
    assert says in str(caught.value)


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph])
@pytest.mark.parametrize("ending", ["gml", "graphml", "json"])
def test_networkx_writes_and_we_read_the_same(kind: Any, ending: str, tmp_path: Path) -> None:
    graph = kind()
    graph.add_edge("Zürich", "São Paulo", weight=2.5)
    graph.add_edge("São Paulo", "東京 (1)", weight=1)
    graph.add_edge("東京 (1)", 'a "b"', weight=1)
    if graph.is_multigraph():
        graph.add_edge("Zürich", "São Paulo", weight=7)
    path = tmp_path / f"n.{ending}"
    if ending == "json":
        path.write_text(json.dumps(nx.node_link_data(graph, edges="edges")))
    else:
        (nx.write_gml if ending == "gml" else nx.write_graphml)(graph, path)
    network, note = read(path)
    assert {n.id for n in network.nodes} == set(graph)
    assert len(network.links) == graph.number_of_edges() * (1 if graph.is_directed() else 2)
    assert (
        network.link("Zürich", "São Paulo").attributes["weight"] == 2.5 and "weight (links)" in note
    )


NONE = 'node [ id 3 label "None" Longitude 8.5 Latitude 47.4 ] node [ id 5 label "None" ]'


def test_gml_of_the_zoo(tmp_path: Path) -> None:
    edges = 'edge [ source 3 target 5 LinkSpeedRaw 1e10 LinkLabel "&#252;" ]'
    edges += " edge [ source 5 target 3 ] edge [ source 5 target 5 ]"
    text = f'# a comment [\nCreator "X"\ngraph [\n DateObtained "1/1/10"\n{NONE}\n{edges}\n]'
    network, note = read(written(tmp_path, "z.gml", text))
    assert [(n.id, n.position) for n in network.nodes] == [("3", (8.5, 47.4)), ("5", None)]
    assert [(k.label, k.capacity_bps) for k in network.links[::2]] == [
        ("3->5", 1e10),
        ("5->3#1", 1e7),
    ]
    assert network.links[0].attributes["LinkLabel"] == "ü"
    for part in ("named by their ids", "1 link from a node to itself", "DateObtained (graph)"):
        assert part in note


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.gml", 'graph [ node [ id 1 label "Zürich" ] ]'),
        ("a.dot", 'graph { "Zürich" }'),
        ("a.graph", "NODES 1\nlabel x y\nZürich 1 2\nEDGES 0\nlabel src dest weight bw delay\n"),
    ],
)
def test_latin_1_is_read_with_a_note(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(text.encode("latin-1"))
    network, note = read(str(tmp_path / name))
    assert (
        network.nodes[0].id == "Zürich"
        and "read as Latin-1; save it as UTF-8 if names look wrong" in note
    )


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "utf-8-sig"])
def test_json_of_other_unicode_encodings_is_read(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes('{"nodes": [{"id": "Zürich"}], "links": []}'.encode(encoding))
    assert load_network(str(tmp_path / "a.json")).nodes[0].id == "Zürich"


def test_gml_groups_are_flattened(tmp_path: Path) -> None:
    nodes = 'node [ id 0 label "g" isGroup 1 ] node [ id 1 label "a" gid 0 ] node [ id 2 label "b" gid 0 isGroup 0 ]'
    network, note = read(
        written(tmp_path, "y.gml", f"graph [ {nodes} edge [ source 1 target 2 ] ]")
    )
    assert [n.id for n in network.nodes] == [
        "a",
        "b",
    ] and "groups of nodes, without links of their own: 'g'" in note


def test_dot_of_yates_and_of_graphviz(tmp_path: Path) -> None:
    text = """strict digraph "the net" { /* { */ // }
    # -> x
    node [type=switch]; edge [cost=1, delay=5ms]
    h1 [type=host,ip="10.0.0.1"];
    h1:p1 -> s1 -> "a \\"b\\"" [capacity="1Gbps";dst_port=2]
    subgraph cluster_0 { node [role=core] s2 } s2 -> s1; rankdir = LR }"""
    network, note = read(written(tmp_path, "t.dot", text))
    assert network.name == "the net" and [h.id for h in network.hosts] == ["h1"]
    assert [k.label for k in network.links] == ["h1->s1", 's1->a "b"', "s2->s1"]
    assert {(k.capacity_bps, k.delay_s) for k in network.links} == {(1e9, 0.005), (1e7, 0.005)}
    assert network.node("s2").attributes["role"] == "core" and "cost, dst_port (links)" in note
    assert network.node("h1").addresses == (("10.0.0.1", 32),)
    assert len(read(written(tmp_path, "u.txt", "graph { a -- b -- c }"))[0].links) == 4


@pytest.mark.parametrize(
    ("text", "links"),
    [
        ("graph { a -- {b; c} }", ["a-b", "a-c"]),
        ("graph { {a b} -- subgraph x { c } -- d }", ["a-c", "b-c", "c-d"]),
        ("graph { a -- { b -- c } }", ["b-c", "a-b", "a-c"]),
        ("graph { subgraph { a b } c -- a }", ["c-a"]),
        ('graph { a:"eth 0" -- b:p1:n }', ["a-b"]),
        ("strict graph { a -- b; b -- a; a -- b -- c }", ["a-b", "b-c"]),
        ("graph { a -- b; a -- b }", ["a-b", "a-b"]),
        ("graph { a [label=<<b>x</b> > y>]; a -- b }", None),
        ("graph { a [label=<<b>x</b> y>]; a -- b }", ["a-b"]),
    ],
)
def test_dot_subgraphs_and_strict(text: str, links: list[str] | None, tmp_path: Path) -> None:
    path = written(tmp_path, "s.dot", text)
    if links is None:
        with pytest.raises(TopologyError):
            load_network(path)
        return
    found = [f"{link.source}-{link.target}" for link in load_network(path).links]
    assert found[::2] == links and len(found) == 2 * len(links)


def test_strict_dot_joins_attributes(tmp_path: Path) -> None:
    text = 'strict graph { a -- b [capacity="5Mbps"]; b -- a [cost=3] }'
    (there, back) = read(written(tmp_path, "s.dot", text))[0].links
    assert (there.label, there.capacity_bps, back.attributes) == ("a->b", 5e6, {"cost": "3"})


NATIVE = """?SNDlib native format; type: network; version: 1.0
# NODES ( x
META (
  granularity = UNLIMITED
)
NODES (
  N1 ( 7.1 50.7 )
  N2 ( 8.2 49.0 ) # a comment
)
LINKS (
  L1 ( N1 N2 ) 40.00 0.00 0.00 0.00 ( 155.00 8500.00 622.00 17000.00 )
  L2 ( N2 N1 ) 0.00 0.00 0.00 0.00 ( )
)
DEMANDS (
  D1 ( N1 N2 ) 1 195.00 UNLIMITED
)
ADMISSIBLE_PATHS ( )
"""
XML = """<?xml version="1.0" encoding="ISO-8859-1"?><network xmlns="http://sndlib.zib.de/network" version="1.0"><meta/>
<networkStructure><nodes coordinatesType="geographical">
<node id="N1"><coordinates><x>7.1</x><y>50.7</y></coordinates></node>
<node id="N2"><coordinates><x>8.2</x><y>49.0</y></coordinates></node></nodes>
<links><link id="L1"><source>N1</source><target>N2</target><preInstalledModule><capacity>40.0</capacity><cost>0</cost>
</preInstalledModule><additionalModules><addModule><capacity>155.0</capacity></addModule></additionalModules></link>
<link id="L2"><source> N2 </source><target>N1</target></link></links></networkStructure>
<demands><demand id="D1"><source>N1</source><target>N2</target></demand></demands></network>"""


@pytest.mark.parametrize(
    ("name", "text"), [("n.txt", NATIVE), ("n.xml", XML), ("no_ending", NATIVE)]
)
def test_sndlib_in_both_forms(name: str, text: str, tmp_path: Path) -> None:
    network, note = read(written(tmp_path, name, text))
    assert [(n.id, n.position) for n in network.nodes] == [("N1", (7.1, 50.7)), ("N2", (8.2, 49.0))]
    assert [k.label for k in network.links] == ["N1->N2", "N2->N1", "N2->N1#1", "N1->N2#1"]
    assert network.links[0].attributes == {"name": "L1", "preinstalled_capacity": 40.0}
    assert network.links[0].capacity_bps == 1e7
    assert "preinstalled_capacity (links)" in note
    assert "pre-installed capacities are not used, and links have 10 Mbit/s: META names no" in note
    assert "no pre-installed capacity, therefore 10 Mbit/s" in note and "'L2'" in note


SNDLIB_UNITS = [
    ("MBITPERSEC", "5min", 40e6),
    ("GBITPERSEC", "", 40e9),
    ("GBIT", "1hour", 40e9 / 3600),
]


@pytest.mark.parametrize("ending", ["txt", "xml"])
@pytest.mark.parametrize(("unit", "granularity", "rate_bps"), SNDLIB_UNITS)
def test_sndlib_preinstalled_capacity_is_the_capacity(
    ending: str, unit: str, granularity: str, rate_bps: float, tmp_path: Path
) -> None:
    native_meta = f"  granularity = {granularity or 'UNLIMITED'}\n  unit={unit}\n"
    native = NATIVE.replace("  granularity = UNLIMITED\n", native_meta)
    xml_meta = f"<meta><granularity>{granularity}</granularity><unit>{unit}</unit></meta>"
    text = native if ending == "txt" else XML.replace("<meta/>", xml_meta)
    network, note = read(written(tmp_path, f"n.{ending}", text))
    assert network.links[0].capacity_bps == pytest.approx(rate_bps)
    assert network.links[0].attributes == {"name": "L1"}
    # Modules of the link that could be added are no capacity of it.
    assert network.links[2].capacity_bps == 1e7
    assert note.count("therefore 10 Mbit/s") == 1 and "'L2'" in note and "'L1'" not in note


def test_sndlib_impossible_capacity_is_refused(tmp_path: Path) -> None:
    text = NATIVE.replace("UNLIMITED\n)", "UNLIMITED\n unit = MBITPERSEC\n)", 1)
    for value in ("-40.00", "inf", "nan"):
        path = written(tmp_path, "n.txt", text.replace("40.00", value))
        with pytest.raises(TopologyError, match=r"links\[0\].*capacity_bps"):
            read(path)


def test_numbers_that_no_file_can_hold_are_left_out_of_lists_too(tmp_path: Path) -> None:
    deep = "[" * 300 + "NaN" + "]" * 300
    text = f'{{"nodes": [{{"id": "a", "far": {deep}, "near": [1.5], "t": {{"x": -Infinity}}}}], "links": []}}'
    network, note = read(written(tmp_path, "n.json", text))
    assert network.nodes[0].attributes == {"near": [1.5]} and "no finite numbers, of far, t" in note
    write_network_file(network, tmp_path / "again.json")


NODES_AB = "NODES (\n A ( 1 2 )\n B ( -1 -3.5)\n)\n"


@pytest.mark.parametrize(
    ("links", "labels"),
    [
        ("LINKS ( )", []),
        ("LINKS (\n)", []),
        ("LINKS ( L ( A B ) 0 0 0 0 ( ) )", ["A->B"]),
        (
            "LINKS (\n L ( A B ) 0 0 0 0 ( 40.0 5.0\n   155 10.0 )\n M (B A)\n0 0 0 0 (UNLIMITED 1) )",
            ["A->B", "B->A#1"],
        ),
        ("LINKS (\n L ( A B ) 155.0\n M ( B A ) 2\n)", ["A->B", "B->A#1"]),
        ("LINKS (\n L ( A B )\n M ( B A )\n)", ["A->B", "B->A#1"]),
    ],
)
def test_sndlib_native_however_it_is_broken_into_lines(
    links: str, labels: list[str], tmp_path: Path
) -> None:
    network = load_network(written(tmp_path, "n.txt", NODES_AB + links))
    assert [(n.id, n.position) for n in network.nodes] == [("A", (1.0, 2.0)), ("B", (-1.0, -3.5))]
    assert [k.label for k in network.links[::2]] == labels


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("NODES (\n A\n B\n)\nLINKS ( )", "NODES: 'A' is not an entry"),
        ("NODES (\n A 1 2\n)\nLINKS ( )", "NODES: 'A' is not an entry"),
        ("NODES (\n A ( 1 2 ) B\n)\nLINKS ( )", "NODES: 'B' is not an entry"),
        (NODES_AB + "LINKS (\n L ( A )\n)", "LINKS: 'L' is not an entry"),
        (NODES_AB + "LINKS (\n L ( A B ) 0 0 0 0 0 0 ( )\n)", "LINKS: '0' is not an entry"),
        (NODES_AB + "LINKS (\n L ( A B ) 0 0 0 0 ( 1 2 )", "ends within parentheses"),
        (NODES_AB + "LINKS ( ) )", "line 5: ')' has no other half"),
    ],
)
def test_sndlib_native_names_what_is_wrong(text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(TopologyError, match=re.escape(says)):
        load_network(written(tmp_path, "n.txt", text))


def test_sndlib_nodes_without_a_place(tmp_path: Path) -> None:
    network = load_network(
        written(tmp_path, "n.txt", "NODES ( A ( ) B ( ) ) LINKS ( L ( A B ) 0 0 0 0 ( ) )")
    )
    assert [(n.id, n.position) for n in network.nodes] == [("A", None), ("B", None)] and len(
        network.links
    ) == 2


PAIR: list[dict[str, Any]] = [{"id": "a"}, {"id": "b"}]


def document(folder: Path, nodes: Any, links: Any, **more: Any) -> str:
    return written(folder, "n.json", json.dumps({"nodes": nodes, "links": links, **more}))


@pytest.mark.parametrize(
    ("nodes", "ends", "ids", "says"),
    [
        ([[0, 1], [0, 2]], ([0, 1], [0, 2]), ["0_1", "0_2"], "[0, 1] is '0_1'"),
        (
            [["a", [1, 2.0]], [3.5, "b"]],
            (["a", [1, 2]], [3.5, "b"]),
            ["a_1_2", "3.5_b"],
            "is 'a_1_2'",
        ),
        ([1.5, 2.0], (1.5, 2), ["1.5", "2"], "1.5 is '1.5'"),
        (["x", "y"], (0, 1), ["x", "y"], "positions in the list of nodes"),
    ],
)
def test_ids_of_networkx_and_d3(
    nodes: Any, ends: Any, ids: list[str], says: str, tmp_path: Path
) -> None:
    links = [{"source": ends[0], "target": ends[1]}]
    network, note = read(document(tmp_path, [{"id": one} for one in nodes], links))
    assert (
        [n.id for n in network.nodes] == ids
        and network.links[0].id[:2] == tuple(ids)
        and says in note
    )


def test_nodes_of_d3_have_names_alone(tmp_path: Path) -> None:
    nodes = [{"name": "Myriel", "group": 1}, {"name": "Napoléon", "group": 1}]
    network, note = read(document(tmp_path, nodes, [{"source": 1, "target": 0, "value": 2}]))
    assert network.links[0].label == "Napoléon->Myriel" and "named by their 'name'" in note
    with pytest.raises(TopologyError, match="the id 'Myriel' is that of"):
        load_network(document(tmp_path, [nodes[0], nodes[0]], []))


P4 = {
    "hosts": {
        "h1": {
            "ip": "10.0.1.1/24",
            "mac": "08:00:00:00:01:11",
            "commands": ["route add default gw 10.0.1.10"],
        },
        "h2": {"ip": "10.0.2.2/24", "mac": "08:00:00:00:02:22"},
    },
    "switches": {"s1": {"runtime_json": "s1.json"}, "s2": {}},
    "links": [
        ["h1", "s1-p1"],
        ["s1-p3", "s2-p2", 5, 0.5],
        ["h2", "s2-p1", "2ms"],
        ["s1-p2", "s2-p3", "7"],
    ],
}


@pytest.mark.parametrize(
    "wrap", [lambda lab: lab, lambda lab: {"program": "x.p4", "topology": lab}]
)
def test_a_p4_tutorials_ends_are_switches_with_their_ports(wrap: Any, tmp_path: Path) -> None:
    network, note = read(written(tmp_path, "topology.json", json.dumps(wrap(P4))))
    assert [n.id for n in network.hosts] == ["h1", "h2"] and [n.id for n in network.switches] == [
        "s1",
        "s2",
    ]
    assert [k.label for k in network.links[::2]] == ["h1->s1", "s1->s2", "h2->s2", "s1->s2#1"]
    assert [k.attributes["ports"] for k in network.links[::2]] == [
        [None, 1],
        [3, 2],
        [None, 1],
        [2, 3],
    ]
    assert [(k.capacity_bps, k.delay_s) for k in network.links[::2]] == [
        (1e7, 0), (5e5, 0.005), (1e7, 0.002), (1e7, 7e-6),
    ]  # fmt: skip
    assert (
        network.node("h1").addresses == (("10.0.1.1", 24),)
        and network.node("h1").mac == "08:00:00:00:01:11"
    )
    assert "commands, runtime_json (nodes)" in note


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"s1-p1"', '"s9-p1"', "names the unknown node 's9-p1'"),
        ("5, 0.5]", "-5, 0.5]", "delay"),
        ("5, 0.5]", "5, 0]", "bw 0 is not a rate"),
        ("5, 0.5]", "5, 0.5, 1]", "is not a link; give two nodes"),
        ('"2ms"]', '"soon"]', "delay"),
    ],
)
def test_a_wrong_link_of_a_p4_tutorial_is_named(
    old: str, new: str, says: str, tmp_path: Path
) -> None:
    text = json.dumps(P4)
    assert old in text
    with pytest.raises(TopologyError) as caught:
        load_network(written(tmp_path, "topology.json", text.replace(old, new, 1)))
    assert says in str(caught.value)


def test_a_switch_that_is_called_as_an_end_at_a_port_is_itself(tmp_path: Path) -> None:
    lab = {"switches": ["s1", "s1-p1"], "links": [["s1", "s1-p1"]]}
    assert [n.id for n in read(written(tmp_path, "t.json", json.dumps(lab)))[0].nodes] == [
        "s1",
        "s1-p1",
    ]


@pytest.mark.parametrize(
    ("named", "ids", "says"),
    [
        (('name "Bern"', 'name "Basel"'), ["Bern", "Basel"], ""),
        (('name "Bern" label "b"', 'name "Basel" label "a"'), ["b", "a"], ""),
        (('name "Bern" label "x"', 'name "Basel" label "x"'), ["Bern", "Basel"], ""),
        (('name "Bern"', 'name "Bern"'), ["0", "1"], "nodes are named by their ids"),
        (('name "Bern"', ""), ["0", "1"], "nodes are named by their ids"),
        (("", ""), ["0", "1"], ""),
    ],
)
def test_igraphs_gml_has_names_and_no_labels(
    named: tuple[str, str], ids: list[str], says: str, tmp_path: Path
) -> None:
    nodes = "".join(f"node [ id {k} {words} ]\n" for k, words in enumerate(named))
    text = f'Creator "igraph version 0.10"\nVersion 1\ngraph\n[\n directed 0\n{nodes} edge [ source 1 target 0 ]\n]'
    network, note = read(written(tmp_path, "i.gml", text))
    assert [n.id for n in network.nodes] == ids and network.links[0].id[:2] == (ids[1], ids[0])
    assert says in note and (says or "named by" not in note)


@pytest.mark.parametrize("ids", [[1, 2, 3], ["1", "2", "3"]])
def test_numbers_that_are_ids_are_no_positions(ids: Any, tmp_path: Path) -> None:
    nodes = [{"id": one} for one in ids]
    assert read(document(tmp_path, nodes, [{"source": 1, "target": 2}]))[0].links[0].label == "1->2"
    with pytest.raises(TopologyError, match="unknown node '0'"):
        load_network(document(tmp_path, nodes, [{"source": 0, "target": 1}]))


@pytest.mark.parametrize(
    ("fields", "capacity_bps", "delay_s"),
    [
        ({"capacity_bps": "10Mbps", "delay_s": "5ms"}, 1e7, 0.005),
        ({"capacity": "2.5 Gbit/s", "delay": "20 us"}, 2.5e9, 2e-5),
        ({"capacity": "100k", "delay": "1min"}, 1e5, 60.0),
        ({"capacity_bps": "1e6", "delay_s": "0.25"}, 1e6, 0.25),
        ({"LinkSpeedRaw": 155520000.0}, 155.52e6, 0.0),
        ({"LinkSpeedRaw": "2500000000", "LinkSpeed": "2.5"}, 2.5e9, 0.0),
        ({"LinkSpeedRaw": 1e9, "capacity_bps": 5e6}, 5e6, 0.0),
        ({"LinkSpeedRaw": 0}, 1e7, 0.0),
        ({"LinkSpeedRaw": 1e300}, 1e7, 0.0),
    ],
)
def test_units_in_a_file(fields: Any, capacity_bps: float, delay_s: float, tmp_path: Path) -> None:
    network, _ = read(document(tmp_path, PAIR, [{"source": "a", "target": "b", **fields}]))
    assert (network.links[0].capacity_bps, network.links[0].delay_s) == (capacity_bps, delay_s)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"capacity": 10}, "links[0]: unknown key 'capacity'; did you mean 'capacity_bps'? It is in bits a second"),
        ({"capacity": "10"}, "or say the unit, as capacity '10Mbps'"),
        ({"delay": 5}, "key 'delay'; did you mean 'delay_s'? It is in seconds; or say the unit, as delay '5ms'"),
        ({"delay": None}, "unknown key 'delay'"),
        ({"capacity": "10Mbps", "capacity_bps": 1e7}, "both 'capacity' and 'capacity_bps'"),
        ({"capacity": "10MB/s"}, "capacity_bps '10MB/s' is not a number"),
        ({"capacity_bps": "fast"}, "capacity_bps 'fast' is not a number"),
        ({"capacity_bps": 1e300}, "must be at most 1e+15"),
        ({"capacity_bps": "1000000T"}, "must be at most 1e+15"),
        ({"capacity_bps": 10**400}, "is not a number"),
        ({"delay_s": 1e6}, "must be at most 86400"),
        ({"delay_s": "nan"}, "is not a number"),
        ({"capacity_bps": float("inf")}, "is not a number"),
        ({"capacity_mbps": 10}, "did you mean 'capacity_bps'? It is in bits a second"),
    ],
)  # fmt: skip
def test_numbers_without_unit_or_bound_are_refused(fields: Any, says: str, tmp_path: Path) -> None:
    with pytest.raises(TopologyError) as caught:
        load_network(document(tmp_path, PAIR, [{"source": "a", "target": "b", **fields}]))
    assert says in str(caught.value)


@given(st.sampled_from(["capacity_bps", "delay_s", "impairments"]), st.data())
@drawn(60)
def test_one_slip_in_a_key_of_ours_is_refused(key: str, data: st.DataObject) -> None:
    from topologies.files.foreign import adapted

    place = data.draw(st.integers(0, len(key) - 2))
    sign = data.draw(st.sampled_from("qzx0"))
    slips = (
        key[:place] + key[place + 1 :],
        key[:place] + sign + key[place:],
        key[:place] + sign + key[place + 1 :],
        key[:place] + key[place + 1] + key[place] + key[place + 2 :],
    )
    wrong = data.draw(st.sampled_from([slip for slip in slips if slip != key]))
    with pytest.raises(TopologyError, match=f"did you mean {key!r}"):
        adapted({"nodes": PAIR, "links": [{"source": "a", "target": "b", wrong: 1}]}, [])


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        (
            "a.py",
            "from mininet.topo import Topo\ngraph = []",
            "a Python file is a program: say what it is to build, as a.py:__main__",
        ),
        (
            "a.mn",
            '{"application": {}, "hosts": [], "links": [], "switches": []}',
            "it has no node",
        ),
        ("a.gexf", "<gexf/>", "the root element is <gexf>"),
        ("a.net", "*Vertices 2", "Pajek files are not read"),
        ("a.csv", "a,b", "tables are not read as networks"),
        ("a.edgelist", "a b {}", ".edgelist files are not read"),
        ("a.xlsx", b"PK\x03\x04", "packed by zip"),
        ("a.bz2", b"BZh9", "packed by bzip2"),
        (
            "a.json.gz",
            gzip.compress(gzip.compress(b"{}", mtime=0), mtime=0),
            "packed by gzip twice",
        ),
        ("a.graphml", "", "it is empty"),
        ("a.gml", "\n \n", "it is empty"),
        ("a.gml", "hello", "no GML"),
        (
            "a.gml",
            "graph [ node [ id 0 label 0 ] edge [ source [ a 1 ] target 0 ] ]",
            "edge 0: source is a list",
        ),
        ("a.gml", "graph [ node [ id 0 id 1 ] ]", "node 0: id is a list, or there twice"),
        (
            "a.gml",
            'graph [ node [ id 1 label "a" ] node [ id 2 label "5" ] edge [ source 1 target 5 ] ]',
            "edge 0: target 5 is not the id of a node",
        ),
        ("a.dot", "hello", "no DOT: line 1"),
        ("a.dot", "graph {\n a -- }", "line 2, '}': a name must stand here"),
        ("a.dot", "graph { a -> b }", "'->': a name must stand here"),
        ("a.dot", "graph { {} = x }", "'=': a name must stand here"),
        ("a.dot", "graph { a:- -- b }", "'-': this character"),
        ("a.dot", "graph { a [label=<b] }", "'<': this character is unexpected"),
        ("a.dot", "graph " + "{" * 99 + "}" * 99, "nested subgraphs"),
        (
            "a.dot",
            f"graph {{ {{ {' '.join(map(str, range(1200)))} }} -- {{ {' '.join(map(str, range(1200)))} }} }}",
            "edges;",
        ),
        ("a.dot", "graph { h-1 }", "'-': this character is unexpected"),
        ("a.graph", "6 7", "give 'NODES NUMBER'"),
        ("a.txt", "hello", "it is in none of the formats"),
        ("a.txt", "NODES (\n A ( 1 2 )\n)", "the sections NODES ( ... ) and LINKS ( ... )"),
        ("a.json", '{"nodes": [], "links": []}', "it has no node"),
        (
            "a.json",
            '{"nodes": [{"id": "a", "id": "b"}], "links": []}',
            "the key 'id' is there twice",
        ),
        ("a.json", "hello", "not JSON at line 1"),
        ("a.json", " \n", "it is empty"),
        ("a.mn", "{}", "hosts, switches and links of MiniEdit are missing"),
        ("a.mn", '{"hosts": []}', "hosts, switches and links of MiniEdit are missing"),
        (
            "a.json",
            '{"nodes": [{"id": %s}], "links": []}' % ("9" * 5000),
            "a number has thousands of digits; shorten it",
        ),
        ("a.json", "[" * 99_999, "too many nested lists and objects; use fewer"),
        (
            "a.json",
            '{"nodes": [{"id": "a"}], "adjacency": [[]]}',
            "networkx' adjacency lists are not read",
        ),
        ("a.json", '{"elements": {"nodes": []}}', "Cytoscape files are not read"),
        ("a.gns3", '{"name": "x", "topology": {"nodes": []}}', "GNS3 projects are not read"),
        (
            "a.json",
            '{"nodes": [{"id": "Z\xfcrich"}], "links": []}'.encode("latin-1"),
            "not text in UTF-8",
        ),
        ("a.graphml", b'<graphml><graph><node id="\xfc"/></graph></graphml>', "save it as UTF-8"),
        ("a.graphml", b'<?xml version="1.0" encoding="zip"?><graphml id="\xfc"/>', "not XML"),
    ],
)
def test_unread_parts_are_reported_by_format(
    name: str, content: str | bytes, says: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(TopologyError) as caught:
        load_network(str(tmp_path / name))
    said = str(caught.value)
    assert says in said and said.startswith(str(tmp_path / name)) and "\n" not in said
    assert "not JSON" not in said or name == "a.json"


def test_an_entry_is_counted_as_in_the_file_though_loops_are_left_out(tmp_path: Path) -> None:
    body = '<node id="a"/><edge source="a" target="a"/><edge source="a" target="z"/>'
    for name, text in (
        ("n.graphml", f'<graphml><graph edgedefault="directed">{body}</graph></graphml>'),
        ("n.dot", "digraph { a -> a; a -> b [delay_s=-1] }"),
    ):
        with pytest.raises(TopologyError, match=r"(edges|links)\[1\]: "):
            load_network(written(tmp_path, name, text))


def test_a_name_in_a_python_file_is_told_as_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, "my.py", "topos = {}")
    with pytest.raises(TopologyError, match=r"my.py: it has no topology 'mytopo'"):
        load_network(f"{path}:mytopo")


@given(
    st.binary(max_size=60),
    st.sampled_from(["gml", "graphml", "json", "clab.yml", "gz", "txt"]),
    st.booleans(),
)
@drawn(150)
def test_no_bytes_are_more_than_one_line_of_error(
    content: bytes, ending: str, packed: bool
) -> None:
    import gzip
    import tempfile

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / f"n.{ending}"
        for start in (b"", b"<graphml>", b"\xff\xfe", b"\x1f\x8b", b"graph ["):
            path.write_bytes(gzip.compress(start + content) if packed else start + content)
            try:
                load_network(path)
            except TopologyError as error:
                assert "\n" not in str(error)


@given(
    st.text(max_size=60),
    st.sampled_from(["gml", "dot", "graph", "clab.yml", "txt", "graphml", "json"]),
)
@drawn(150)
def test_no_text_is_more_than_one_line_of_error(text: str, ending: str) -> None:
    import tempfile

    starts = {
        "gml": "graph [ node [ ",
        "dot": "graph { a -- ",
        "clab.yml": "topology: ",
        "graphml": "<graphml>",
        "graph": "NODES 1\n",
    }
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for content in (text, starts.get(ending, "") + text):
            path = Path(folder) / f"n.{ending}"
            path.write_text(content, encoding="utf-8")
            try:
                load_network(path)
            except TopologyError as error:
                assert "\n" not in str(error)
