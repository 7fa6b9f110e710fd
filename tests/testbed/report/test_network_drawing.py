"""Drawings: every node has a place of its own, every file its format, the same network the same bytes."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from testbed.errors import InputError
from testbed.report.drawing.network_drawing import draw_network, picture
from testbed.report.drawing.node_positions import place_network
from topologies import Network, Node, load_network
from topologies.files.node_link import parse_document

NAMES = [
    "swiss-t1",
    "two-switch",
    "crossbar:60",
    "optical-cloud",
    "manet:nodes=40",
    "torus:4x4",
    "torus:3x3x3x2",
    "mesh:5",
    "ring:6",
    "fat-tree:2,3",
    "clos:4",
    "topohub:topozoo/Abilene",
]


@pytest.mark.parametrize("name", NAMES)
def test_every_node_has_a_place_of_its_own(name: str) -> None:
    network = load_network(name)
    places = place_network(network)
    assert places.keys() == network.node_index.keys()
    assert len({(round(x, 6), round(y, 6)) for x, y in places.values()}) == len(network.nodes)
    assert all(math.isfinite(c) for place in places.values() for c in place)


def test_a_network_in_parts_without_positions_is_placed_part_beside_part() -> None:
    ends = [("a", "b"), ("b", "c"), ("c", "d"), ("e", "f")]
    nodes = [{"id": i} for i in "abcdefg"] + [{"id": "h", "kind": "host"}]
    network = parse_document(
        {"nodes": nodes, "links": [{"source": s, "target": t} for s, t in ends]}
    )
    places = place_network(network)
    assert len(set(places.values())) == 8
    assert max(places[i][0] for i in "abcd") < min(places[i][0] for i in "ef")


def test_drawing_without_positions_has_the_sink_on_the_right() -> None:
    links = [{"source": f"s{k}", "target": f"s{k + 1}"} for k in range(9)] + [
        {"source": "h", "target": "s0"}
    ]
    nodes = [{"id": f"s{k}"} for k in range(10)] + [{"id": "h", "kind": "host"}]
    network = parse_document({"nodes": nodes, "links": links})
    for source, sink, first, last in (
        ("s0", "s9", "s0", "s9"),
        ("s9", "s0", "s9", "s0"),
        ("h", "s4", "s0", "s4"),
    ):
        places = place_network(network, (source, sink))
        assert places[first][0] < places[last][0]
        assert places[first][1] == pytest.approx(places[last][1], abs=1e-6)
    torus = load_network("torus:4x4")
    assert place_network(torus, ("s3_3", "s0_0")) == place_network(torus)  # a grid stays a grid


def test_fat_tree_levels_are_rows_with_the_hosts_below() -> None:
    network = load_network("fat-tree:2,3")
    places = place_network(network)
    rows = [
        {places[n.id][1] for n in network.switches if n.attributes["level"] == level}
        for level in range(3)
    ]
    assert all(len(row) == 1 for row in rows)
    assert max(places[h.id][1] for h in network.hosts) < min(rows[0]) < min(rows[1]) < min(rows[2])


def test_the_svg_shows_every_name_and_is_the_same_each_time() -> None:
    network = load_network("clos:4")
    drawn = picture(network, "svg")
    texts = {
        "".join(e.itertext()).strip()
        for e in ElementTree.fromstring(drawn).iter()
        if e.tag.endswith("text")
    }
    assert {n.id for n in network.nodes} <= texts and network.name in texts
    assert picture(network, "svg") == drawn


@pytest.mark.parametrize(
    ("ending", "start"), [("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF")]
)
def test_the_files_ending_chooses_the_format(tmp_path: Path, ending: str, start: bytes) -> None:
    draw_network(load_network("two-switch"), tmp_path / f"two.{ending}")
    assert (tmp_path / f"two.{ending}").read_bytes().startswith(start)


def test_a_network_without_nodes_or_a_strange_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be drawn"):
        draw_network(Network(name="none", nodes=(), links=()), tmp_path / "none.svg")
    with pytest.raises(InputError, match="names no picture"):
        draw_network(load_network("ring:3"), tmp_path / "ring")


def test_a_single_node_with_a_dollar_in_its_name_is_drawn() -> None:
    assert picture(Network(name="$x_$", nodes=(Node(id="$a^$", kind="switch"),), links=()), "svg")


def test_node_names_of_files_are_drawn_below_ids() -> None:
    nodes = [
        {"id": "0", "label": "Zürich"},
        {"id": "1", "name": "Bern"},
        {"id": "2", "label": "None"},
    ]
    network = parse_document(
        {"nodes": nodes, "links": [{"source": "0", "target": "1"}, {"source": "1", "target": "2"}]}
    )
    text = picture(network, "svg").decode()
    assert "Zürich" in text and "Bern" in text and ">None<" not in text
