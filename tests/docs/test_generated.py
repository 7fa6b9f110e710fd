"""What the site writes from declarations and stored runs: every option, every check, every key."""

from __future__ import annotations

import argparse
import json
import re
import warnings
from pathlib import Path
from types import ModuleType

import pytest

from testbed.cli import build_parser
from testbed.commands.command_list import COMMANDS
from testbed.errors import InputError
from testbed.model.run_records import Manifest
from testbed.model.schemas import KINDS, refuse_unknown
from testbed.model.stored_runs import StoredRun
from testbed.model.verdict import Claim, Verdict
from testbed.report.book import Chapter, Entry
from tests.helpers.module_files import module_of
from tests.helpers.paths import ROOT
from topologies import load_network

DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def generated() -> ModuleType:
    return module_of(DOCS / "generated.py")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_page_of_a_command_has_all_its_options(name: str, generated: ModuleType) -> None:
    place = DOCS / f"reference/commands/{name}.md"
    assert place.is_file(), (
        f"write {place}: what it is explained in, <!-- generated: command {name} -->, its JSON keys"
    )
    page = generated.filled(place.read_text())
    top = build_parser(name)
    parser = next(
        a.choices[name] for a in top._actions if isinstance(a, argparse._SubParsersAction)
    )  # type: ignore[union-attr]
    options = {word for action in parser._actions for word in action.option_strings} - {
        "-h",
        "--help",
    }
    assert not [
        word for word in options if f"`{word}`" not in page and not word.startswith("--help-")
    ]
    assert "==SUPPRESS==" not in page and "%(" not in page


def test_every_part_that_a_page_asks_for_is_written(generated: ModuleType) -> None:
    asked = {
        m
        for page in DOCS.rglob("*.md")
        for m in re.findall(r"<!-- generated: (\w+)", page.read_text())
    }
    assert asked == set(generated.KINDS)
    assert re.match(r"[67]\d studies: ", generated.filled("<!-- generated: counts -->"))


def test_the_site_has_every_check_of_every_stored_run(generated: ModuleType) -> None:
    shown = "".join(
        generated.stored(page.stem) for page in (DOCS / "replication/results").glob("*.md")
    )
    runs = [
        entry.run
        for chapter in generated._book()
        for entry in chapter.entries
        if entry.page and entry.run
    ]
    checks = [check for run in runs if run.verdict for check in run.verdict.checks]
    assert len(checks) > 700 and shown.count(" ✓ holds |") == sum(check.passed for check in checks)
    assert shown.count("\n### ") == len(runs)


def test_table_row_names_claim_result_rival_size_and_command(
    generated: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    gain = (
        Claim("gain")
        .equal(1.7, (1.71, 0.05), 0.1)
        .against(1.0, "no gain")
        .cites("1.5 to 2, page 66")
    )
    weak = Claim("order_of|methods").at_least(0.5, 1.0).against(0.9)
    manifest = Manifest(
        name="gains", run="1", started="2026-01-02T03:04:05+00:00", seconds=61.0,
        command="testbed experiment run gains", machine={"cores": 2, "system": "Debian"},
        study={"size": "full", "deviations": ["500 kB instead of 2 MB"]},
    )  # fmt: skip
    run = StoredRun(
        directory=Path("1"), manifest=manifest, points=7, verdict=Verdict(checks=(gain, weak))
    )
    entries = [
        Entry(name=f"study_{i}", title="Gains", answers="Figure 66", run=r, page="p")
        for i, r in enumerate((run, None))
    ]
    monkeypatch.setattr(generated, "_book", lambda: [Chapter(number=3, entries=tuple(entries))])
    text = generated.stored("p")
    assert (
        "| gain | 1.5 to 2, page 66 | 1.7 ± 0.1 | 1.71 \\[1.66, 1.76\\] | 1 (no gain) | ✓ holds |"
        in text
    )
    assert "| order\\_of\\|methods |" in text and "? cannot tell |" in text
    assert (
        "| Gains | full, 7 points | cannot tell | 1 | 0 | 1 | `testbed experiment run gains` |"
        in text
    )
    assert "- Differs from the document: 500 kB instead of 2 MB" in text
    assert "No stored run: Gains (`study_1`)." in text


def test_schemas_are_published_and_files_may_name_them(
    generated: ModuleType, tmp_path: Path
) -> None:
    generated.publish_schemas(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {f"{kind}.schema.json" for kind in KINDS}
    schema = json.loads((tmp_path / "campaign.schema.json").read_text())
    assert "$schema" in schema["properties"] and "## campaign" in generated.schemas()


def test_a_file_may_name_its_schema(tmp_path: Path) -> None:
    refuse_unknown({"$schema": "placement.schema.json", "machines": [["a"]]}, "placement", "file")
    with pytest.raises(InputError, match="schema"):
        refuse_unknown(
            {"schema": "placement.schema.json", "machines": [["a"]]}, "placement", "file"
        )
    file = tmp_path / "net.json"
    file.write_text(
        '{"$schema": "network.schema.json", "nodes": [{"id": "a"}, {"id": "b"}], "links": []}'
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "$schema" not in str(load_network(file))


def test_links_of_the_change_log_lead_to_pages_that_are_there(generated: ModuleType) -> None:
    links = re.findall(r"\]\((\.\./[^)]+)\)", generated.changes())
    assert links and not [link for link in links if not (DOCS / "reference" / link).exists()]
