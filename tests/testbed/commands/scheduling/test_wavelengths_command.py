"""``testbed wavelengths`` from outside: rounds, baselines, the walked fabric, bad input."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

import testbed
from tests.helpers.commands import in_process
from topologies import load_network
from topologies.files.formats import write_network_file


def wavelengths(*words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = in_process("wavelengths", *words)
    assert done.returncode == code, done.stderr
    return done


def document(*words: str, code: int = 0) -> dict[str, Any]:
    return dict(json.loads(wavelengths(*words, "--json", code=code).stdout))


def test_nsfnet_all_to_all_beats_every_greedy_assignment() -> None:
    found = document("optical-cloud", "--wavelengths", "8")
    assert (found["rounds"], found["bound"], found["optimal"], found["frames"]) == (2, 2, True, 15)
    assert (found["lightpaths"], found["switching"], found["conversions"]) == (182, "wsxc", 0)
    assert set(found["baselines"]) == {"first-fit", "random-fit", "most-used", "longest-first"}
    assert min(found["baselines"].values()) > found["rounds"]
    lit = [path for lit_paths in found["plan"] for path in lit_paths]
    assert len({(p["source"], p["target"]) for p in lit}) == 182
    assert all(len(p["wavelengths"]) == len(p["links"]) for p in lit)


def test_walked_rules_deliver_and_drop_as_the_verdict_predicts(tmp_path: Path) -> None:
    pattern = tmp_path / "arcs.json"
    pattern.write_text(json.dumps({"pairs": [[f"h{i}", f"h{(i + 2) % 5}"] for i in range(5)]}))
    words = ("ring:5", "--pattern", str(pattern), "--wavelengths", "2", "--fabric", "simulator")
    words += ("--results", str(tmp_path / "results"))
    kept, changed = document(*words), document(*words, "--wavelength-conversion", "full")
    assert (kept["rounds"], changed["rounds"]) == (2, 1)
    assert kept["conversions"] == 0 < changed["conversions"]
    for found in (kept, changed):
        assert found["verdict"]["passed"]
        assert sum(r["delivered"] for r in found["per_round"]) == 100
        assert sum(r["dropped"] for r in found["per_round"]) == 20
    text = wavelengths(*words).stdout
    assert "2 rounds (optimal)" in text
    assert "verdict: passed (6 of 6 checks)" in text
    assert (Path(kept["results"]) / "page.html").is_file() and len(
        list((tmp_path / "results/wavelengths").iterdir())
    ) == 3


def test_run_options_are_refused_if_only_the_plan_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "results" not in document("ring:5", "--wavelengths", "2") and not list(
        tmp_path.iterdir()
    )
    for option in (("--wrong-wavelength-packets", "1"), ("--retries", "2"), ("--live",)):
        done = wavelengths("ring:5", "--wavelengths", "2", *option, code=2)
        assert f"{option[0]}: it is for a run" in done.stderr


def test_the_library_gives_the_commands_document(tmp_path: Path) -> None:
    plan = testbed.wavelength_plan("ring:5", "h0:h2,h1:h3", wavelengths=2, seed=3)
    assert (
        testbed.wavelength_plan(
            "ring:5", [("h0", "h2"), ("h1", "h3")], wavelengths=2, seed=3
        ).rounds
        == plan.rounds
    )
    words = (
        "ring:5",
        "--pattern",
        "h0:h2,h1:h3",
        "--wavelengths",
        "2",
        "--seed",
        "3",
        "--fabric",
        "simulator",
    )
    theirs = document(*words, "--results", str(tmp_path))
    ours = dict(testbed.run(plan, "simulator").document)
    for found in (ours, theirs):
        del found["solve_s"]
    assert json.loads(json.dumps(ours)) == {
        key: value for key, value in theirs.items() if key != "results"
    }


def test_bad_input_is_one_line_that_says_how_to_mend_it(tmp_path: Path) -> None:
    broken, empty, named = (
        tmp_path / "broken.json",
        tmp_path / "empty.json",
        tmp_path / "named.json",
    )
    broken.write_text("{")
    empty.write_text('{"pairs": []}')
    named.write_text('{"pairs": [["e1", "e99"]]}')
    for words, said in (
        (("optical-cloud", "--wavelengths", "0"), "1 to 10000"),
        (("ring:5",), "give --wavelengths"),
        (
            ("optical-cloud", "--pattern", str(tmp_path / "none.json")),
            "give all-to-all, A:B,C:D or a file",
        ),
        (("optical-cloud", "--pattern", str(broken)), "not JSON"),
        (("optical-cloud", "--pattern", str(empty)), "one pair or more"),
        (("optical-cloud", "--pattern", str(named)), "no node 'e99'"),
        (("optical-cloud", "--scheduling", "best"), "there are liquid"),
        (
            ("optical-cloud", "--packets-per-path", "0", "--fabric", "simulator"),
            "--packets-per-path: '0'",
        ),
        (("optical-cloud", "--wavelengths", "5000", "--fabric", "simulator"), "at most 4093"),
        (
            ("optical-cloud", "--solver-time-limit", "0"),
            "--solver-time-limit: '0': give seconds, more than 0",
        ),
    ):
        done = wavelengths(*words, code=2)
        assert said in done.stderr and done.stderr.count("\n") == 1, done.stderr
        assert done.stdout == ""


@pytest.mark.parametrize("switching", ["wsxc", "wixc"])
def test_network_file_says_what_its_switches_can(tmp_path: Path, switching: str) -> None:
    file = tmp_path / "cloud.json"
    write_network_file(load_network(f"optical-cloud:wavelengths=3,conversion={switching}"), file)
    found = document(str(file))
    assert (found["switching"], found["wavelengths"], found["rounds"]) == (switching, 3, 5)
