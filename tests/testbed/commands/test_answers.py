"""What commands that only compute answer: as lines within the terminal's width, as CSV, as a picture, as a page."""

from __future__ import annotations

import csv
import functools
import io
import json
import re
import shlex
import sys
from pathlib import Path

import pytest

from testbed.cli import main
from tests.helpers.commands import in_process

ANSWERS = {
    "route": "route swiss-t1 --from s1 --to s6",
    "route-two": "route torus:3x3 --flow s0_0:s1_1 --flow s1_0:s2_2",
    "ror": "ror ring:4 --from s0 --to s2 --show-links",
    "ror-methods": "ror swiss-t1 --from s1 --to s6 --routing single --routing capillary",
    "demands": "demands ring:4 --routing ecmp --routing capillary",
    "schedule": "schedule swiss-t1:allocation=1-1-1-1-0-0-0-0",
    "wavelengths": "wavelengths optical-cloud --pattern x1:x14,x2:x5",
}
TABLES = {**ANSWERS, "allocate": "allocate swiss-t1 --nodes 8", "networks": "topology list"}
RUNS = {
    "sfio": "sfio crossbar:4 --compute-nodes 2 --io-nodes 2 --fabric simulator",
    "simulate": "simulate torus:4x4 --load 0.2 --duration 1e-4",
}


def said(capsys: pytest.CaptureFixture[str], command: str, *more: str) -> str:
    assert main([*command.split(), *more]) == 0
    return capsys.readouterr().out


@functools.cache
def csv_of(command: str) -> str:
    done = in_process(*command.split(), "--csv")
    assert done.returncode == 0
    return done.stdout


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("name", [name for name in TABLES if name != "networks"])
def test_tables_fit_the_terminal_and_no_cell_of_the_first_column_is_cut(
    name: str, width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    out = said(capsys, TABLES[name])
    table = [line for line in out.splitlines() if line.endswith(" ") or "  " in line.strip()]
    assert "…" not in out and table
    heads, *rows = csv.reader(io.StringIO(csv_of(TABLES[name])))
    first = [row[heads[0] == "of"] for row in rows]
    assert any(cell in out for cell in first)


@pytest.mark.parametrize("name", [*TABLES, *RUNS])
def test_csv_has_the_numbers_in_full(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = TABLES.get(name) or RUNS[name]
    heads, *rows = csv.reader(io.StringIO(csv_of(command)))
    assert rows and all(len(row) == len(heads) for row in rows)
    assert not any("…" in cell or "–" in cell for row in rows for cell in row)
    assert main([*command.split(), "--csv", "--json"]) == 2


def test_csv_and_json_say_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    rows = list(csv.DictReader(io.StringIO(said(capsys, ANSWERS["ror-methods"], "--csv"))))
    document = json.loads(said(capsys, ANSWERS["ror-methods"], "--json"))
    links = [link for one in document["methods"] for link in one["per_link"]]
    assert [float(row["load"]) for row in rows] == [link["load_float"] for link in links]
    assert rows[0]["overhead"] == "inf" and len({row["of"] for row in rows}) == 2


def test_methods_are_compared_first_in_one_table(capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(capsys, ANSWERS["ror-methods"]).splitlines()
    assert lines[0].startswith("least redundancy: capillary, ROR 1.591")
    assert [line.split()[0] for line in lines[1:6]] == [
        "methods",
        lines[2].split()[0],
        "method",
        "single",
        "capillary",
    ]


@pytest.mark.parametrize("name", ANSWERS)
def test_answer_is_stored_with_tables_and_a_self_contained_page(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = json.loads(said(capsys, ANSWERS[name], "--json", "--results", str(tmp_path)))
    place = Path(out.pop("results"))
    files = {path.name for path in place.iterdir()}
    assert {"answer.json", "manifest.json", "page.html"} < files and any(
        one.endswith(".csv") for one in files
    )
    assert json.loads((place / "answer.json").read_text()) == out
    page = (place / "page.html").read_text(encoding="utf-8")
    network = ANSWERS[name].split()[1].partition(":")[0]
    assert re.search(rf"<h1>{network}.*</h1>", page) and "Run again: " in page and "<figure" in page
    assert set(re.findall(r'href="([^"#]+)"', page)) <= files | {"data:,"}


def test_no_answer_is_kept_unasked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for command in ANSWERS.values():
        said(capsys, command)
    assert list(tmp_path.iterdir()) == []


def test_a_page_writes_names_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    network = {
        "nodes": [{"id": name} for name in ("<b>", "=1+1", "c")],
        "links": [{"source": "<b>", "target": "=1+1"}],
    }
    (tmp_path / "odd.json").write_text(json.dumps(network))
    out = said(
        capsys, f"route {tmp_path}/odd.json --from <b> --to =1+1 --json --results {tmp_path}"
    )
    assert "<b>" not in (Path(json.loads(out)["results"]) / "page.html").read_text()


def test_the_command_that_runs_it_again_can_be_pasted_into_a_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "odd.dot").write_text('graph { "New York" -- "Chicago & Co" }')
    words = [
        "route",
        f"{tmp_path}/odd.dot",
        "--from",
        "New York",
        "--to",
        "Chicago & Co",
        "--results",
        str(tmp_path),
    ]
    monkeypatch.setattr(sys, "argv", ["testbed", *words])
    assert main([*words, "--json"]) == 0
    manifest = Path(json.loads(capsys.readouterr().out)["results"]) / "manifest.json"
    assert shlex.split(json.loads(manifest.read_text())["command"]) == ["testbed", *words]


@pytest.mark.parametrize(
    "words",
    [
        "ror ring:4 --from s0 --to s2 --down s0-",
        "simulate ring:4 --faults s0-",
        "route ring:4 --from s0 --to s0-",
    ],
)
def test_a_link_whose_sign_the_shell_took_is_to_be_quoted(
    words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["testbed", *words.split()])
    assert main(words.split()) == 2
    error = capsys.readouterr().err
    assert (
        error.endswith("write the link as s0-..., or in quotes, as 's0->...'\n")
        and error.count("\n") == 1
    )
