"""GraphML of the Topology Zoo and of other programs is read: what is not ours is kept, and one note says what."""

from __future__ import annotations

import tempfile
import warnings
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.drawn import drawn
from tests.helpers.zoo_graphml import EDGE, GRAPH, zoo_graphml
from topologies import Network, load_network
from topologies.files.foreign import NetworkNote
from topologies.files.formats import write_network_file

HEAD = '<graphml xmlns="http://graphml.graphdrawing.org/xmlns" xmlns:y="http://www.yworks.com/xml/graphml">'


def read(path: Path, content: bytes | str) -> tuple[Network, list[str]]:
    """The network of a file with that content, and its notes."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        network = load_network(path)
    return network, [str(one.message) for one in caught if issubclass(one.category, NetworkNote)]


@pytest.mark.parametrize("encoding", ["utf-8", "iso-8859-1", "utf-16"])
@pytest.mark.parametrize("editor", [False, True], ids=["archive", "sources"])
def test_zoo_files_are_read(editor: bool, encoding: str, tmp_path: Path) -> None:
    for seed in range(10):
        content = zoo_graphml(seed, editor=editor, encoding=encoding)
        network, notes = read(tmp_path / "zoo.graphml", content)
        plain = nx.read_graphml(_utf8(tmp_path, content), force_multigraph=True)
        loops = nx.number_of_selfloops(plain)
        assert [node.id for node in network.nodes] == list(plain.nodes)
        assert len(network.links) == 2 * (plain.number_of_edges() - loops) and loops >= 1
        assert len(notes) == 1 and f"left out: {loops} link" in notes[0]
        for node in network.nodes:
            theirs = plain.nodes[node.id]
            assert node.attributes.get("asn") == theirs.get("asn")
            if "Longitude" in theirs and "Latitude" in theirs:
                assert node.position == (theirs["Longitude"], theirs["Latitude"])
        for link in network.links:
            assert link.capacity_bps == link.attributes.get("LinkSpeedRaw", 1e7)
        for name in plain.graph.keys() & {*GRAPH} - {
            "Network",
            "label",
            "edge_default",
            "node_default",
        }:
            assert network.attributes[name] == plain.graph[name] and name in notes[0]
        write_network_file(network, tmp_path / "again.json")
        again, told = read(tmp_path / "again.json", (tmp_path / "again.json").read_bytes())
        assert again == network and told == []


def _utf8(folder: Path, content: bytes) -> Path:
    """The file for networkx, which reads no keys without names: the editor's drawings are taken out."""
    root = ElementTree.fromstring(content)
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.endswith("key") and "attr.name" not in child.attrib:
                parent.remove(child)
            if child.tag.endswith("data") and (len(child) or child.get("key") == "r"):
                parent.remove(child)
            if child.tag.endswith("default"):
                parent.remove(child)
    (folder / "plain.graphml").write_bytes(ElementTree.tostring(root))
    return folder / "plain.graphml"


@pytest.mark.parametrize(
    "key",
    [*EDGE, "weight", "value", "Edge Label", "colour", "bandwidth", "latency", "Weight"],
)
def test_every_key_of_other_programs_stays(key: str, tmp_path: Path) -> None:
    graph = nx.Graph()
    graph.add_edge("a", "b", **{key: 3})
    nx.write_graphml(graph, tmp_path / "n.graphml")
    network, _ = read(tmp_path / "n.graphml", (tmp_path / "n.graphml").read_bytes())
    assert network.links[0].attributes.get(key) == 3 or key == "key"


def test_an_editor_s_label_is_read(tmp_path: Path) -> None:
    body = '<key for="node" id="d" yfiles.type="nodegraphics"/><key attr.name="url" for="node" id="u"/>'
    body += '<graph edgedefault="directed">'
    node = '<node id="n0"><data key="d"><y:ShapeNode><y:NodeLabel x="1"> Bern </y:NodeLabel></y:ShapeNode></data></node>'
    network, notes = read(tmp_path / "y.graphml", f"{HEAD}{body}{node}</graph></graphml>")
    assert network.nodes[0].attributes == {"label": "Bern"} and notes == []


DECLARED = '<?xml version="1.0" encoding="{}"?>'
GRAPHML = HEAD + (
    '<graph edgedefault="undirected"><node id="Zürich"/><node id="b"/><edge source="Zürich" target="b"/></graph>'
    "</graphml>"
)
ENCODED: dict[str, bytes] = {
    "declared latin-1": (DECLARED.format("ISO-8859-1") + GRAPHML).encode("latin-1"),
    "declared windows-1252": (DECLARED.format("windows-1252") + GRAPHML).encode("cp1252"),
    "declared utf-16": (DECLARED.format("UTF-16") + GRAPHML).encode("utf-16"),
    "utf-16 without mark": (DECLARED.format("UTF-16") + GRAPHML).encode("utf-16-be"),
    "latin-1 saved as utf-8": (DECLARED.format("ISO-8859-1") + GRAPHML).encode(),
    "utf-16 saved as utf-8": (DECLARED.format("UTF-16") + GRAPHML).encode(),
    "utf-8 with mark": (DECLARED.format("UTF-8") + GRAPHML)
    .replace(">", ">\r\n")
    .encode("utf-8-sig"),
    "blank lines first": ("\r\n\n  " + DECLARED.format("UTF-8") + GRAPHML).encode(),
    "blank lines in utf-16": ("\n\n" + DECLARED.format("UTF-16") + GRAPHML).encode("utf-16"),
}


@pytest.mark.parametrize("how", ENCODED)
@pytest.mark.parametrize("packed", [False, True], ids=["", "gzip"])
def test_xml_is_read_in_its_own_encoding(how: str, packed: bool, tmp_path: Path) -> None:
    import gzip

    content = gzip.compress(ENCODED[how]) if packed else ENCODED[how]
    network, notes = read(tmp_path / ("n.graphml.gz" if packed else "n.graphml"), content)
    assert [node.id for node in network.nodes] == ["Zürich", "b"] and (network.name, notes) == (
        "n",
        [],
    )


@pytest.mark.parametrize(
    ("document", "kept"),
    [
        ({"nodes": [{"id": 0}, {"id": 1}], "edges": [{"source": 0, "target": 1, "weight": 3.0}]}, "weight (links)"),
        ({"nodes": [{"id": "a", "group": 1}], "links": [], "options": {}}, "options (graph); group (nodes)"),
        ({"nodes": [{"id": "a", "TYPE": 1, "os": "10.0.0.1", "size": 3}], "links": []}, "TYPE, os, size (nodes)"),
        ({"nodes": [{"id": "a"}], "links": [], "graph": {"colour\x1b": "x"}}, "'colour\\x1b' (graph)"),
    ],
)  # fmt: skip
def test_other_programs_json_is_kept_with_one_note(
    document: Any, kept: str, tmp_path: Path
) -> None:
    import json

    network, notes = read(tmp_path / "n.json", json.dumps(document))
    assert notes == [f"{tmp_path / 'n.json'}: kept, but not read: {kept}"]
    write_network_file(network, tmp_path / "again.json")
    again, told = read(tmp_path / "again.json", (tmp_path / "again.json").read_bytes())
    assert again.nodes == network.nodes and again.attributes == network.attributes and told == []


GROUPS = """<key for="node" id="d0" yfiles.type="nodegraphics"/><key for="edge" id="d1" yfiles.type="edgegraphics"/>
<graph edgedefault="directed" id="G"><node id="n0"><port name="north"/></node>
<node id="n1" yfiles.foldertype="group"><data key="d0"><y:GroupNode><y:NodeLabel>site</y:NodeLabel></y:GroupNode></data>
<graph edgedefault="directed" id="n1:"><node id="n1::n0"/><node id="n1::n1"/>
<edge id="n1::e0" source="n1::n0" target="n1::n1"/></graph></node>
<node id="n2" yfiles.foldertype="folder"><graph edgedefault="undirected" id="n2:"><node id="n2::n0"/></graph></node>
<edge id="e0" source="n0" target="n1::n0"/><edge id="e1" source="n0" sourceport="north" target="n2"/></graph>
</graphml>"""


def test_groups_are_flattened(tmp_path: Path) -> None:
    network, notes = read(tmp_path / "groups.graphml", HEAD + GROUPS)
    assert [node.id for node in network.nodes] == ["n0", "n1::n0", "n1::n1", "n2", "n2::n0"]
    assert [link.label for link in network.links] == ["n0->n1::n0", "n0->n2", "n1::n0->n1::n1"]
    assert (
        len(notes) == 1
        and "left out: groups of nodes, without links of their own: 'n1'" in notes[0]
    )


def test_deep_groups_are_read(tmp_path: Path) -> None:
    deep = 3000
    opened = "".join(f'<node id="g{i}"><graph edgedefault="undirected">' for i in range(deep))
    inner = '<node id="a"/><node id="b"/><edge source="a" target="b"/>' + "</graph></node>" * deep
    network, notes = read(
        tmp_path / "deep.graphml",
        f'{HEAD}<graph edgedefault="directed">{opened}{inner}</graph></graphml>',
    )
    assert [link.label for link in network.links] == [
        "a->b",
        "b->a",
    ] and f"and {deep - 6} more" in notes[0]


@pytest.mark.parametrize(
    ("source", "target", "back", "links"),
    [
        ("none", "none", "", ["a->b", "b->a"]),
        ("none", "standard", "", ["a->b"]),
        ("none", "none", '<edge source="b" target="a"/>', ["a->b", "b->a"]),
    ],
)
def test_arrows_say_the_way(
    source: str, target: str, back: str, links: list[str], tmp_path: Path
) -> None:
    drawing = f'<data key="d1"><y:PolyLineEdge><y:Arrows source="{source}" target="{target}"/></y:PolyLineEdge></data>'
    text = f"""{HEAD}<key for="edge" id="d1" yfiles.type="edgegraphics"/><graph edgedefault="directed"><node id="a"/>
        <node id="b"/><edge source="a" target="b">{drawing}</edge>{back}</graph></graphml>"""
    network, notes = read(tmp_path / "drawn.graphml", text)
    assert [link.label for link in network.links] == links
    assert notes == (
        [f"{tmp_path}/drawn.graphml: both ways: 1 link drawn without arrows"]
        if not back and len(links) > 1
        else []
    )


def test_undeclared_keys_are_kept(tmp_path: Path) -> None:
    text = f'{HEAD}<graph edgedefault="undirected"><node id="a"><data key="zone">Bern</data></node></graph></graphml>'
    network, notes = read(tmp_path / "a.graphml", text)
    assert (
        network.nodes[0].attributes == {"zone": "Bern"}
        and "kept, but not read: zone (nodes)" in notes[0]
    )


SIGNS_OF = [
    ("shift_jis", "東京"), ("iso-2022-jp", "東京"), ("euc-jp", "東京"), ("gbk", "北京"), ("gb18030", "北京"),
    ("big5", "台北"), ("euc-kr", "서울"), ("koi8-r", "Москва"), ("windows-1251", "Москва"),
    ("utf-16", "Zürich"), ("utf-32", "Zürich"),
]  # fmt: skip


def one_node(name: str, declared: str) -> str:
    graph = f'<graph edgedefault="directed"><node id="{name}"/></graph>'
    return f'<?xml version="1.0" encoding="{declared}"?>{HEAD}{graph}</graphml>'


@pytest.mark.parametrize(("encoding", "name"), SIGNS_OF, ids=[encoding for encoding, _ in SIGNS_OF])
def test_declared_encodings_are_read(encoding: str, name: str, tmp_path: Path) -> None:
    network, _ = read(tmp_path / "a.graphml", one_node(name, encoding).encode(encoding))
    assert [node.id for node in network.nodes] == [name]


@pytest.mark.parametrize(
    "declared", ["utf-16", "iso-8859-1", "shift_jis", "unicode-escape", "no-encoding", "zip"]
)
def test_utf8_wins_over_a_wrong_declaration(declared: str, tmp_path: Path) -> None:
    for name in ("Zürich", "Bern", r"\x41"):
        network, _ = read(tmp_path / "a.graphml", one_node(name, declared))
        assert [node.id for node in network.nodes] == [name]


@given(st.lists(st.integers(0, 3), min_size=2, max_size=6), st.data())
@drawn(40)
def test_groups_change_no_links(depths: list[int], data: st.DataObject) -> None:
    nodes = range(len(depths))
    pairs = data.draw(
        st.lists(
            st.tuples(st.sampled_from(nodes), st.sampled_from(nodes)).filter(lambda p: p[0] != p[1])
        )
    )
    edges = "".join(f'<edge source="{a}" target="{b}"/>' for a, b in pairs)
    text = ""
    for i, depth in enumerate(depths):
        opened = "".join(f'<node id="g{i}{k}"><graph edgedefault="directed">' for k in range(depth))
        text += f'{opened}<node id="{i}"/>{"</graph></node>" * depth}'
    with tempfile.TemporaryDirectory() as folder:
        network, _ = read(
            Path(folder) / "a.graphml",
            f'{HEAD}<graph edgedefault="directed">{text}{edges}</graph></graphml>',
        )
    assert [node.id for node in network.nodes] == [str(i) for i in nodes]
    assert [(k.source, k.target) for k in network.links] == [(str(a), str(b)) for a, b in pairs]
