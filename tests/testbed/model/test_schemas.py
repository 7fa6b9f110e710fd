"""Every kind of file has one published schema; a key that it does not know is refused by name, with the nearest one,
everywhere."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from testbed.campaigns.description import Campaign, Claim, parse_campaign
from testbed.cli import main
from testbed.errors import InputError
from testbed.faults.grammar import parse_fault_document
from testbed.model.schemas import KINDS, schema_of
from testbed.routing.demands.matrix_files import parse_matrix
from testbed.scheduling.traffic.patterns import parse_pairs
from testbed.scheduling.traffic.traffic_file import parse_traffic
from topologies import TopologyError, load_network
from topologies.files.formats import write_network_file

FAULT = {"link": "s1->s2", "start_s": 1, "stop_s": 2}
CAMPAIGN = {"name": "c", "networks": ["swiss-t1"], "methods": ["single"]}
NODES = [{"id": "a"}, {"id": "b"}]
WRONG = {
    "capacity": "capacity_bps", "capacity_bsp": "capacity_bps", "capacity_mbps": "capacity_bps", "delay": "delay_s",
    "delay_ms": "delay_s", "Source": "source", "impairment": "impairments",
}  # fmt: skip


def _file(folder: Path, document: Any) -> str:
    path = folder / "file.json"
    path.write_text(json.dumps(document))
    return str(path)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize(("key", "right"), WRONG.items())
def test_a_link_s_unknown_key_is_refused_with_the_nearest_one(
    key: str, right: str, directed: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    links = [{"source": "a", "target": "b", key: 3}]
    file = _file(tmp_path, {"directed": directed, "nodes": NODES, "links": links})
    assert main(["topology", "show", file]) == 2
    said = capsys.readouterr().err
    assert f"links[0]: unknown key {key!r}; " in said and said.count("\n") == 1
    assert f"did you mean {right!r}?" in said


@pytest.mark.parametrize(
    ("document", "place"),
    [
        (
            {"nodes": NODES, "links": [], "directd": True},
            "unknown key 'directd'; did you mean 'directed'",
        ),
        (
            {"nodes": [{"id": "a", "knd": "host"}], "links": []},
            r"nodes\[0\]: unknown key 'knd'; did you mean 'kind'",
        ),
        (
            {"nodes": NODES, "links": [], "graph": {"ruoting": "table"}},
            "graph: unknown key 'ruoting'; did you mean 'routing'",
        ),
    ],
)
def test_unknown_keys_of_every_part_of_a_network_are_refused(
    document: Any, place: str, tmp_path: Path
) -> None:
    with pytest.raises(TopologyError, match=place):
        load_network(_file(tmp_path, document))


def test_a_graphml_file_is_held_to_the_same_keys(tmp_path: Path) -> None:
    import networkx as nx

    graph = nx.Graph()
    graph.add_edge("a", "b", capacity=3e6)
    nx.write_graphml(graph, tmp_path / "n.graphml")
    with pytest.raises(
        TopologyError, match=r"edges\[0\]: unknown key 'capacity'; did you mean 'capacity_bps'"
    ):
        load_network(tmp_path / "n.graphml")


def test_unread_values_are_kept_under_attributes(tmp_path: Path) -> None:
    links = [{"source": "a", "target": "b", "attributes": {"colour": "red"}}]
    network = load_network(_file(tmp_path, {"nodes": NODES, "links": links}))
    assert network.links[0].attributes == {"colour": "red"}
    write_network_file(network, tmp_path / "n.json")
    assert load_network(tmp_path / "n.json").links == network.links


def test_unknown_keys_of_other_files_are_refused_with_the_nearest_one() -> None:
    network = load_network("swiss-t1")
    from testbed.commands.scheduling.unequal_messages import split_traffic

    def faults(said: object) -> object:
        return parse_fault_document(said, network, "here")

    def matrix(said: str) -> object:
        return parse_matrix(f'{{"demands": {said}}}', network, "here")

    traffic = parse_traffic({"transfers": [["a"]]}, "here")
    for read, says in (
        (lambda: faults([FAULT | {"knd": "down"}]), r"here: \[0\]: unknown key 'knd'; did you mean 'kind'"),
        (lambda: faults({"faults": [FAULT | {"loss": 1}]}), "'loss'; did you mean 'loss_fraction'"),
        (lambda: faults({"faults": [FAULT], "seed": 1}), "unknown key 'seed'"),
        (lambda: parse_pairs({"pairs": [["t0", "r1"]], "pair": []}, network, "here"), "unknown key 'pair'"),
        (lambda: parse_traffic({"transfers": [["a"]], "frame": []}, "here"), "'frame'; did you mean 'frames'"),
        (lambda: split_traffic({"sizes_bytes": 1, "chunk": 1}, "here", traffic, None), "'chunk'; did .* 'chunk_bytes'"),
        (lambda: matrix('[{"source": "s1", "sink": "s2", "bps": 1, "unit": "k"}]'), "unknown key 'unit'"),
        (lambda: matrix('{"s1": {"s2": 1}}, "unit": "kbps"'), "unknown key 'unit'"),
        (lambda: parse_campaign(CAMPAIGN | {"tolerance": [0.1]}, "here"), "'tolerance'; did you mean 'tolerances'"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=says):
            read()


def test_a_message_of_a_simulation_with_an_unknown_key_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = {"messages": [{"source": "h0", "destination": "h1", "size": 7}]}
    assert main(["simulate", "ring:4", "--traffic", _file(tmp_path, document)]) == 2
    assert "messages[0]: unknown key 'size'" in capsys.readouterr().err


def test_schemas_are_published_and_say_what_the_parsers_take(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["schema", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)["schemas"]) == set(KINDS)
    for kind in KINDS:
        assert main(["schema", kind]) == 0
        assert json.loads(capsys.readouterr().out) == schema_of(kind)
    campaign = schema_of("campaign")["properties"]
    assert set(campaign) == {f.name for f in fields(Campaign)}
    assert set(campaign["claims"]["items"]["properties"]) == {f.name for f in fields(Claim)}


NETWORKS = (
    "swiss-t1", "two-switch", "capillary-layers:graph=1", "bottleneck-hunt", "optical-cloud", "manet:nodes=9",
    "torus:4x4x4", "mesh:4x3", "ring:8", "fat-tree:2,3", "clos:4", "topohub:topozoo/Abilene",
    "topohub:sndlib/polska", "topohub:gabriel/25/0",
)  # fmt: skip


@pytest.mark.parametrize("name", NETWORKS)
def test_written_files_match_their_schema(name: str, tmp_path: Path) -> None:
    validator = pytest.importorskip("jsonschema").Draft202012Validator
    network = load_network(name)
    write_network_file(network, tmp_path / "n.json")
    document = json.loads((tmp_path / "n.json").read_text())
    validator(schema_of("network")).validate(document)
    assert "attributes" not in json.dumps(document), (
        "a catalogue network has no key that the schema does not know"
    )
    assert load_network(tmp_path / "n.json") == network


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_is_a_schema_and_tells_right_from_wrong(kind: str) -> None:
    validator = pytest.importorskip("jsonschema").Draft202012Validator
    validator.check_schema(schema_of(kind))
    right: dict[str, Any] = {
        "network": {"nodes": NODES, "links": [{"source": "a", "target": "b"}]}, "faults": [FAULT],
        "pattern": [["a", "b"]], "schedule": {"transfers": [["a"]], "frames": [[0]]},
        "messages": {"messages": [{"source": "a", "destination": "b"}]},
        "unequal": {"sizes_bytes": 5}, "demands": {"a": {"b": 1e6}}, "campaign": CAMPAIGN,
        "placement": {"machines": [["a", "b"], ["c"]]},
    }  # fmt: skip
    assert validator(schema_of(kind)).is_valid(right[kind])
    assert not validator(schema_of(kind)).is_valid({"unheard_of": 1})
