"""Texts that somebody else chose do no harm in CSV files and in messages."""

from __future__ import annotations

import csv
import io
import itertools
import json
from pathlib import Path

import pytest

from testbed.cli import main
from testbed.report.answers import Table, csv_files

FORMULAS = ["=cmd|' /C calc'!A0", "+s", "-t", "@SUM(1)"]


@pytest.mark.parametrize("name", FORMULAS)
def test_csv_cell_is_no_formula(name: str) -> None:
    table = Table(name="links", headings=("link", "load"), rows=[(name, -0.5), ("-0.25", 1)])
    rows = list(csv.reader(io.StringIO(csv_files([table])["links.csv"])))
    assert rows[1:] == [[f"'{name}", "-0.5"], ["-0.25", "1"]]


def test_csv_of_a_network_has_no_formula(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [{"id": name, "kind": "switch"} for name in FORMULAS]
    links = [{"source": a, "target": b} for a, b in itertools.pairwise(FORMULAS)]
    file = tmp_path / "network.json"
    file.write_text(json.dumps({"nodes": nodes, "links": links}))
    assert main(["route", str(file), "--from", FORMULAS[0], "--to", FORMULAS[-1], "--csv"]) == 0
    cells = [cell for row in csv.reader(io.StringIO(capsys.readouterr().out)) for cell in row]
    assert len(cells) > 6
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@"))]


@pytest.mark.parametrize(
    "link",
    [
        {"impairments": "loss:" + "9" * 100_000},
        {"capacity": "x" * 100_000},
        {"source": "y" * 100_000},
        {"key" * 30_000: 1},
    ],
)
def test_message_about_a_long_value_is_short(
    tmp_path: Path, link: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    document = {"nodes": [{"id": "a"}, {"id": "b"}]}
    file = tmp_path / "network.json"
    file.write_text(json.dumps(document | {"links": [{"source": "a", "target": "b"} | link]}))
    main(["topology", "show", str(file)])
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert len(message) < 1300
