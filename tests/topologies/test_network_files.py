"""Files: what other programs write is read, what is wrong is named with file, entry and mend, writing is all or
nothing."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from topologies import Link, Network, Node, TopologyError, load_network
from topologies.files.formats import write_network_file
from topologies.network import DEFAULT_CAPACITY_BPS


def saved(folder: Path, content: Any, name: str = "net.json") -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def two(**more: Any) -> dict[str, Any]:
    return {"nodes": [{"id": "a"}, {"id": "b"}], "links": [{"source": "a", "target": "b", **more}]}


def test_an_undirected_file_stands_for_both_directions(tmp_path: Path) -> None:
    network = load_network(saved(tmp_path, two(capacity_bps=5e6)))
    assert [(k.label, k.capacity_bps) for k in network.links] == [("a->b", 5e6), ("b->a", 5e6)]


def test_directed_file_keeps_directions_and_has_defaults(
    tmp_path: Path,
) -> None:
    network = load_network(str(saved(tmp_path, {**two(), "directed": True})))
    assert [k.label for k in network.links] == ["a->b"]
    assert network.links[0].capacity_bps == DEFAULT_CAPACITY_BPS and network.links[0].delay_s == 0
    assert [n.kind for n in network.nodes] == ["switch", "switch"] and network.name == "net"


@pytest.mark.parametrize("edges", ["links", "edges"])
@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph])
def test_networkx_files_are_read(tmp_path: Path, kind: Any, edges: str) -> None:
    graph = kind(name="theirs")
    graph.add_edge(1, 2, capacity_bps=3e6)
    graph.add_edge(2, 3)
    if graph.is_multigraph():
        graph.add_edge(1, 2, key="spare")
    network = load_network(saved(tmp_path, nx.node_link_data(graph, edges=edges)))
    assert network.name == "theirs" and network.link("1", "2").capacity_bps == 3e6
    assert len(network.links) == graph.number_of_edges() * (1 if graph.is_directed() else 2)
    if graph.is_multigraph():
        assert network.link("1", "2", 1).attributes["key_name"] == "spare"


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph])
def test_graphml_that_networkx_writes_is_read(tmp_path: Path, kind: Any) -> None:
    graph = kind()
    graph.add_node("x", kind="host", Longitude=1.5, Latitude=2.5)
    graph.add_edge("x", "y", capacity_bps=3e6, delay_s=0.5, label="fast")
    if graph.is_multigraph():
        graph.add_edge("x", "y", key=4)
    nx.write_graphml(graph, tmp_path / "net.graphml")
    network = load_network(tmp_path / "net.graphml")
    assert network.node("x").kind == "host" and network.node("x").position == (1.5, 2.5)
    link = network.link("x", "y")
    assert (link.capacity_bps, link.delay_s, link.attributes["label"]) == (3e6, 0.5, "fast")
    assert len(network.links) == graph.number_of_edges() * (1 if graph.is_directed() else 2)


def test_networkx_reads_the_json_that_we_write(tmp_path: Path) -> None:
    write_network_file(load_network("optical-cloud"), tmp_path / "oc.json")
    graph = nx.node_link_graph(json.loads((tmp_path / "oc.json").read_text()), edges="links")
    assert graph.is_directed() and graph.is_multigraph() and graph.number_of_edges() == 126


WRONG_JSON = [
    ("{", "line 1"),
    ("", "it is empty"),
    ("[" * 100_000, "JSON"),
    ("[]", "a JSON object, not a list"),
    ({"nodes": []}, "'links' is missing"),
    ({"nodes": [], "links": [], "edges": []}, "keep one"),
    ({"links": []}, "'nodes' is missing"),
    ({"nodes": {}, "links": []}, "'nodes' must be a list"),
    ({**two(), "directed": "yes"}, "'directed' must be true or false"),
    ({"nodes": ["a"], "links": []}, "nodes[0]: must be an object"),
    ({"nodes": [{}], "links": []}, "nodes[0]: id is missing"),
    ({"nodes": [{"id": ""}], "links": []}, "nodes[0]: id ''"),
    ({"nodes": [{"id": [1]}], "links": []}, "nodes[0]: id [1]"),
    (
        {"nodes": [{"id": "a"}, {"id": "a"}], "links": []},
        "nodes[1]: the id 'a' is that of nodes[0]",
    ),
    ({"nodes": [{"id": 1}, {"id": "1"}], "links": []}, "nodes[1]: the id '1'"),
    ({"nodes": [{"id": "a", "kind": "router"}], "links": []}, "nodes[0]: node 'a': kind 'router'"),
    ({"nodes": [{"id": "a", "position": [1]}], "links": []}, "nodes[0]: position"),
    (
        {"nodes": [{"id": "a"}], "links": [{"source": "a", "target": "z"}]},
        "links[0]: link 'a' -> 'z' names the unknown",
    ),
    ({"nodes": [{"id": "a"}], "edges": [{"source": "a"}]}, "edges[0]: target is missing"),
    (
        {"nodes": [{"id": "a"}], "links": [{"source": "a", "target": "a"}]},
        "links[0]: link 'a' -> 'a': a link from",
    ),
    (two(capacity_bps=0), "links[0]: link 'a' -> 'b': capacity_bps 0 must be positive"),
    (two(capacity_bps=-5), "must be positive"),
    (two(capacity_bps="fast"), "capacity_bps 'fast' is not a number"),
    (two(capacity_bps=True), "capacity_bps True is not a number"),
    (two(capacity_bps=None), "capacity_bps None is not a number"),
    (
        '{"nodes":[{"id":"a"},{"id":"b"}],"links":[{"source":"a","target":"b","capacity_bps":NaN}]}',
        "nan is not a number",
    ),
    (
        '{"nodes":[{"id":"a"},{"id":"b"}],"links":[{"source":"a","target":"b","capacity_bps":1'
        + "0" * 400
        + "}]}",
        "number",
    ),
    (
        '{"nodes":[{"id":"a"},{"id":"b"}],"links":[{"source":"a","target":"b","capacity_bps":1'
        + "0" * 9000
        + "}]}",
        "JSON",
    ),
    (two(delay_s=-1), "delay_s -1 must be zero or more"),
    (two(key=1.5), "key 1.5"),
    (
        {
            "nodes": [{"id": "a"}, {"id": "b"}],
            "links": [{"source": "a", "target": "b"}, {"source": "b", "target": "a"}],
        },
        "links[1]: link b->a is there already as links[0]",
    ),
    ('{"nodes":[{"id":"\\ud800"}],"links":[]}', "not valid text"),
]


@pytest.mark.parametrize(("content", "says"), WRONG_JSON, ids=range(len(WRONG_JSON)))
def test_a_wrong_json_file_is_named_with_entry_and_mend(
    tmp_path: Path, content: Any, says: str
) -> None:
    path = saved(tmp_path, content)
    with pytest.raises(TopologyError) as caught:
        load_network(path)
    assert (
        says in str(caught.value)
        and str(caught.value).startswith(str(path))
        and "\n" not in str(caught.value)
    )


def graphml(body: str, default: str = "undirected") -> str:
    return (
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
        '<key id="c" for="edge" attr.name="capacity_bps" attr.type="double"/>'
        f'<graph edgedefault="{default}">{body}</graph></graphml>'
    )


WRONG_GRAPHML = [
    ("<graphml>", "not XML"),
    ("<svg/>", "root element is <svg>"),
    ("<graphml/>", "0 graphs"),
    (graphml("", "sideways"), "edgedefault 'sideways'"),
    (
        graphml('<node id="a"/><edge source="a" target="b"/>'),
        "edges[0]: link 'a' -> 'b' names the unknown",
    ),
    (graphml('<node id="a"/><node id="a"/>'), "nodes[1]: the id 'a'"),
    (graphml("<node/>"), "nodes[0]: id is missing"),
    (
        graphml('<node id="a"/><node id="b"/><edge source="a" target="b" directed="no"/>'),
        "edges[0]: directed 'no'",
    ),
    (
        graphml(
            '<node id="a"/><node id="b"/><edge source="a" target="b"><data key="c">x</data></edge>'
        ),
        "'x' is not of its type",
    ),
    (
        graphml(
            '<node id="a"/><node id="b"/><edge source="a" target="b"><data key="c">0</data></edge>'
        ),
        "must be positive",
    ),
    (
        graphml('<node id="a"/><node id="b"/><edge source="a" target="b"><data>0</data></edge>'),
        "<data> without a key",
    ),
    (graphml('<node id="a"/><hyperedge/>'), "hyperedge"),
]


@pytest.mark.parametrize(("content", "says"), WRONG_GRAPHML, ids=range(len(WRONG_GRAPHML)))
def test_a_wrong_graphml_file_is_named_with_entry_and_mend(
    tmp_path: Path, content: str, says: str
) -> None:
    path = saved(tmp_path, content, "net.graphml")
    with pytest.raises(TopologyError) as caught:
        load_network(path)
    assert (
        says in str(caught.value)
        and str(caught.value).startswith(str(path))
        and "\n" not in str(caught.value)
    )


def test_an_edges_own_direction_wins_in_graphml(tmp_path: Path) -> None:
    body = '<node id="a"/><node id="b"/><node id="c"/>'
    body += '<edge source="a" target="b" directed="true"/><edge source="b" target="c"/>'
    network = load_network(saved(tmp_path, graphml(body), "net.graphml"))
    assert [k.label for k in network.links] == ["a->b", "b->c", "c->b"]


def test_bytes_that_are_no_text_and_folders_are_refused(tmp_path: Path) -> None:
    (tmp_path / "b.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TopologyError, match="not text in UTF-8"):
        load_network(tmp_path / "b.json")
    with pytest.raises(TopologyError, match="cannot be read"):
        load_network(tmp_path)


def test_a_write_that_cannot_finish_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "net.json"
    path.write_text("old")
    bad = Network(
        name="n", nodes=(Node(id="a", kind="host", attributes={"x": float("nan")}),), links=()
    )
    with pytest.raises(TopologyError, match=r"net\.json"):
        write_network_file(bad, path)
    assert path.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == [path.name]


def test_a_place_that_cannot_be_written_and_an_unknown_ending_are_refused(tmp_path: Path) -> None:
    network = load_network("ring:3")
    with pytest.raises(TopologyError, match="cannot be written"):
        write_network_file(network, tmp_path / "missing" / "net.json")
    with pytest.raises(TopologyError, match=r"use \.json"):
        write_network_file(network, tmp_path / "net.yaml")


def test_an_attribute_with_the_name_of_a_field_is_refused() -> None:
    with pytest.raises(TopologyError, match="'kind' has a field of its own"):
        Node(id="a", kind="host", attributes={"kind": "x"})
    with pytest.raises(TopologyError, match="'delay_s' has a field of its own"):
        Link(source="a", target="b", attributes={"delay_s": 1})


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make what another user made")
def test_a_link_that_another_user_put_into_a_common_folder_is_not_followed(tmp_path: Path) -> None:
    common, victim = tmp_path / "common", tmp_path / "victim"
    common.mkdir()
    common.chmod(0o1777)
    victim.write_text("old")
    link = common / "net.json"
    link.symlink_to(victim)
    os.chown(link, 54321, 54321, follow_symlinks=False)
    with pytest.raises(TopologyError, match="another user's symbolic link"):
        write_network_file(load_network("ring:3"), link)
    assert victim.read_text() == "old" and link.is_symlink()
    os.chown(link, 0, 0, follow_symlinks=False)
    write_network_file(load_network("ring:3"), link)
    assert load_network(victim).name == "ring:3" and link.is_symlink()


def test_a_pipe_that_nobody_reads_is_refused_at_once(tmp_path: Path) -> None:
    pipe = tmp_path / "net.json"
    os.mkfifo(pipe)
    with pytest.raises(TopologyError, match="cannot be written"):
        write_network_file(load_network("ring:3"), pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_network_file(load_network("ring:3"), pipe)
    assert b'"links"' in os.read(reader, 1 << 16)
    os.close(reader)


def test_a_folder_that_is_gone_is_no_place_to_write(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    with contextlib.chdir(gone):
        gone.rmdir()
        with pytest.raises(TopologyError, match=r"n\.json: cannot be written"):
            write_network_file(load_network("ring:3"), "n.json")
