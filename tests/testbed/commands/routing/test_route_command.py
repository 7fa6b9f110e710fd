"""``testbed route`` from the command line: its JSON, its table, its errors."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from testbed.cli import main

LINKS = ["sa", "sb", "ac", "ad", "bc", "bd", "bt", "ct", "dt"]


@pytest.fixture
def thesis(tmp_path: Path) -> str:
    document = {
        "directed": True,
        "multigraph": False,
        "graph": {},
        "nodes": [{"id": n, "kind": "switch"} for n in "sabcdt"],
        "links": [
            {"source": n[0], "target": n[1], "capacity_bps": 1e7, "delay_s": 0.0} for n in LINKS
        ],
    }
    path = tmp_path / "thesis.json"
    path.write_text(json.dumps(document))
    return str(path)


def route(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    code = main(["route", *words, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_json_holds_exact_loads_and_layers(thesis: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, document = route(
        capsys, thesis, "--from", "s", "--to", "t", "--routing", "capillary", "--certify"
    )
    assert code == 0
    assert document["method"] == "capillary"
    assert [link["load"] for link in document["links"]] == [
        "1/2", "1/2", "1/4", "1/4", "1/12", "1/12", "1/3", "1/3", "1/3",
    ]  # fmt: skip
    assert document["links"][4] == {
        "source": "b", "target": "c", "key": 0, "load": "1/12",
        "load_float": pytest.approx(1 / 12), "utilisation": pytest.approx(1 / 12), "layer": 4,
    }  # fmt: skip
    assert document["layers"][1]["factor"] == "3/2"
    assert document["layers"][0]["bottlenecks"] == [
        {"source": "s", "target": "a", "key": 0},
        {"source": "s", "target": "b", "key": 0},
    ]
    assert document["certificate"] == {"valid": True, "levels": 4, "violations": []}


@pytest.mark.parametrize(
    "method", ["single", "ecmp", "disjoint-2", "disjoint:2", "max-flow", "capillary:2"]
)
def test_every_method_sends_the_whole_flow(
    thesis: str, method: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, document = route(capsys, thesis, "--from", "s", "--to", "t", "--routing", method)
    assert code == 0
    assert document["method"] == method
    assert sum(Fraction(link["load"]) for link in document["links"] if link["source"] == "s") == 1


def test_layers_are_an_option_of_capillary(thesis: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, document = route(capsys, thesis, "--from", "s", "--to", "t", "--layers", "2")
    assert document["method"] == "capillary:2"
    assert len(document["layers"]) == 2


def test_missing_disjoint_paths_are_said(thesis: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, document = route(capsys, thesis, "--from", "s", "--to", "t", "--routing", "disjoint:3")
    assert document["note"] == "only 2 link-disjoint paths exist"


def test_the_table_names_links_layers_and_certificate(
    thesis: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["route", thesis, "--from", "s", "--to", "t", "--certify"]) == 0
    shown = capsys.readouterr().out
    for text in ("s->a", "1/12", "factor F", "3/2", "certificate: holds (4 levels)"):
        assert text in shown


def test_no_link_is_shown_above_its_capacity(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Relative to the largest capacity of the network, the slow link has a utilisation of 5."""
    file = tmp_path / "slow.json"
    links = [("a", "s", 5e8), ("s", "t", 1e8), ("t", "b", 5e8)]
    document = {
        "nodes": [{"id": name} for name in "abst"],
        "links": [{"source": a, "target": b, "capacity_bps": bps} for a, b, bps in links],
    }
    file.write_text(json.dumps(document))
    assert main(["route", str(file), "--from", "a", "--to", "b"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("a -> b: 3 links, the busiest carries all of the flow, s->t is full")
    assert "% of capacity at 100 Mbit/s" in lines[2] and "utilisation" not in lines[2]
    shares = {line.split()[0]: line.split()[2] for line in lines[3:6]}
    assert shares == {"a->s": "20", "s->t": "100", "t->b": "20"}
    assert main(["route", str(file), "--from", "a", "--to", "b", "--csv"]) == 0
    assert "s->t,1,5.0,1" in capsys.readouterr().out


def test_links_of_one_capacity_have_a_load_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["route", "swiss-t1", "--from", "s1", "--to", "s2", "--layers", "1"]) == 0
    out = capsys.readouterr().out
    assert "; 1 layer\n" in out and "utilisation" not in out and "capacity" not in out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--from", "s", "--to", "x"], "no node 'x'"),
        (["--from", "s", "--to", "s"], "both 's'"),
        (["--from", "t", "--to", "s"], "no path leads from 't' to 's'"),
        (["--from", "s", "--to", "t", "--routing", "fastest"], "choose one of single"),
        (
            ["--from", "s", "--to", "t", "--routing", "ecmp", "--layers", "2"],
            "for --routing capillary",
        ),
        (["--from", "s", "--to", "t", "--routing", "disjoint:0"], "at least 1"),
        (["--from", "s", "--to", "t", "--routing", "ecmp", "--certify"], "leave it out"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    thesis: str, words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["route", thesis, *words]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert complaint in shown.err
    assert shown.err.count("\n") == 1


@pytest.mark.parametrize("layers", ["0", "-1", "two"])
def test_wrong_layers_are_one_line_and_exit_code_2(
    thesis: str, layers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["route", thesis, "--from", "s", "--to", "t", "--layers", layers]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_many_pairs_come_in_one_object_exact_or_in_floats(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["route", "swiss-t1", "--from", "s1", "--to", "s6", "--flow", "s2:s7", "--json"]
    assert main(words) == 0
    exact = json.loads(capsys.readouterr().out)["routes"]
    assert main([*words, "--float"]) == 0
    floats = json.loads(capsys.readouterr().out)["routes"]
    assert [(r["source"], r["sink"]) for r in exact] == [("s1", "s6"), ("s2", "s7")]
    for a, b in zip(exact, floats, strict=True):
        assert [e["load_float"] for e in a["links"]] == pytest.approx(
            [e["load_float"] for e in b["links"]]
        )


def test_a_route_of_some_layers_is_certified_by_the_full_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = [
        "route",
        "manet:nodes=40,seed=2",
        "--from",
        "n1",
        "--to",
        "n30",
        "--layers",
        "3",
        "--certify",
        "--json",
    ]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["certificate"]["valid"]


@pytest.mark.parametrize(
    "words", [[], ["--from", "s1"], ["--from", "s1", "--to", "s6", "--float", "--certify"]], ids=str
)
def test_a_flow_without_ends_and_a_certificate_of_floats_are_refused(
    capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert main(["route", "swiss-t1", *words]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("thin_bps", "floats", "says"),
    [
        (1e-300, [], "capacity_bps 1e-300 must be at least 0.001"),
        (1, ["--float"], "differ too much for floats"),
    ],
)
def test_capacities_beyond_reckoning_are_one_line_and_exit_code_2(
    thin_bps: float,
    floats: list[str],
    says: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ends = (("a", "b", 1e15), ("a", "c", thin_bps), ("c", "b", thin_bps))
    links = [{"source": a, "target": b, "capacity_bps": rate} for a, b, rate in ends]
    file = tmp_path / "net.json"
    file.write_text(json.dumps({"nodes": [{"id": name} for name in "abc"], "links": links}))
    assert main(["route", str(file), "--from", "a", "--to", "b", *floats]) == 2
    assert says in capsys.readouterr().err.splitlines()[-1]


def test_one_layer_is_singular(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["route", "ring:4", "--from", "s0", "--to", "s2", "--layers", "1"]) == 0
    assert "; 1 layer\n" in capsys.readouterr().out
