"""``testbed topology``: what users and other programs see of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from testbed.cli import main
from tests.helpers.commands import in_process
from topologies import catalogue, load_network
from topologies.files.node_link import parse_document


def test_show_json_is_one_document_with_every_direction_listed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["topology", "show", "swiss-t1", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    switches = {n["id"] for n in document["nodes"] if n["kind"] == "switch"}
    core = [k for k in document["links"] if k["source"] in switches and k["target"] in switches]
    assert (
        document["directed"] is True
        and len(core) == 32
        and len(document["nodes"]) - len(switches) == 64
    )
    assert {"source", "target", "capacity_bps", "delay_s"} <= core[0].keys()
    assert parse_document(document) == load_network("swiss-t1")


def test_show_says_what_a_network_is_made_of(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topology", "show", "two-switch"]) == 0
    shown = capsys.readouterr().out
    assert (
        "12 directed, 2 of them between switches, 10 unidirectional" in shown
        and "10 Mbit/s" in shown
    )


def test_list_names_every_family_and_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topology", "list"]) == 0
    table = capsys.readouterr().out
    assert all(entry.name in table for entry in catalogue()) and "degree=6.1" in table
    assert main(["topology", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["networks"]
    assert [n["name"] for n in listed] == [entry.name for entry in catalogue()]


def test_export_writes_a_file_that_show_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "cloud.json")
    assert main(["topology", "export", "optical-cloud", path]) == 0
    assert load_network(path) == load_network("optical-cloud")
    assert main(["topology", "show", path]) == 0
    assert "optical-cloud" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["show", "swis-t1"], "swiss-t1"),
        (["show", "no.json"], "no.json"),
        (["show"], "NETWORK"),
        (["export", "ring:3", "ring.txt"], ".json"),
        (["show", "ring:3", "--plot", "ring.docx"], ".svg"),
        (["show", "ring:3", "--plot", "/no/such/folder/ring.svg"], "cannot be written"),
    ],
)
def test_a_mistake_is_one_line_on_stderr_and_exit_code_2(words: list[str], says: str) -> None:
    done = in_process("topology", *words)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and says in done.stderr


def test_draw_is_a_picture_of_the_network(tmp_path: Path) -> None:
    drawn, shown = tmp_path / "drawn.svg", tmp_path / "shown.svg"
    assert main(["topology", "draw", "ring:4", str(drawn)]) == 0
    assert main(["topology", "show", "ring:4", "--plot", str(shown)]) == 0
    assert drawn.read_bytes() == shown.read_bytes()
