"""``testbed replicate`` runs what is not stored, goes on after kill -9 where it was, and repeats what was invalid."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from testbed.cli import main
from testbed.commands.studies import replicate
from testbed.commands.studies.experiment import find_experiments
from testbed.commands.studies.replicate import Replication, expected_seconds
from testbed.results.study_store import STORED, stored_runs
from tests.helpers.paths import ROOT
from tests.helpers.warm import TESTBED, WarmProcess, run

STUDIES = """
import pathlib, time
from testbed.model.studies.study import Study
from testbed.model.verdict import Claim, Verdict

HERE = pathlib.Path(__file__).parent

def points(quick, seed):
    return [{"x": x} for x in range(2 if quick else 4)]

def measure(point):
    with (HERE / "measured").open("a") as file:
        file.write(f"{point['x']}\\n")
    time.sleep(0.4)
    return {"y": 3 * point["x"]}

def judge(rows):
    return Verdict(checks=(Claim("three").equal(3, rows[1]["y"]).against(1, "no factor"),))

def busy(rows):
    tries = HERE / "tries"
    tries.write_text((tries.read_text() if tries.exists() else "") + "x")
    reason = "the machine was busy" if len(tries.read_text()) < 3 else None
    return Verdict(checks=(Claim("one").equal(1, 1),), invalid=reason)

def lagging(point):
    measured = HERE / "measured"
    late = measured.exists() and point["x"] == 1 and "1" not in measured.read_text().split()
    return measure(point) | {"invalid": "the machine lagged" if late else None}

def judge_valid(rows):
    return Verdict(checks=judge(rows).checks, invalid=next((row["invalid"] for row in rows if row["invalid"]), None))

def broken(point):
    raise ValueError("no such thing")

def figures(rows):
    return {}

SLOW = Study.of_module(__name__, name="slow", does="multiplies", answers="a claim", timed=True)
PARTLY = Study(name="partly", does="lags once", answers="a claim", points=points, measure=lagging,
               judge=judge_valid, figures=figures, timed=True)
BUSY = Study(name="busy", does="is busy", answers="a claim", points=lambda quick, seed: [{"x": 1}],
             measure=lambda p: {}, judge=busy, figures=figures, timed=True)
BROKEN = Study(name="broken", does="breaks", answers="a claim", points=points, measure=broken, judge=judge,
               figures=figures, timed=True)
"""


@pytest.fixture
def theirs(tmp_path: Path) -> dict[str, str]:
    """Studies of somebody else, installed as far as Python can tell; returns the environment in which they are."""
    (tmp_path / "their_studies.py").write_text(STUDIES)
    description = tmp_path / "theirs-1.0.dist-info"
    description.mkdir()
    (description / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    points = "".join(
        f"{name} = their_studies:{name.upper()}\n" for name in ("slow", "busy", "broken", "partly")
    )
    (description / "entry_points.txt").write_text(f"[testbed.experiments]\n{points}")
    return {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}


def command(*words: str) -> list[str]:
    return [*TESTBED, "replicate", "--results", "kept", *words]


def measured(folder: Path) -> list[str]:
    file = folder / "measured"
    return file.read_text().split() if file.exists() else []


def run_here(words: Sequence[str], limit_s: float | None) -> tuple[int, str]:
    """A study in this process, which has Python's modules loaded already; its exit code and the last line on stderr."""
    with contextlib.redirect_stderr(io.StringIO()) as said:
        code = main(list(words))
    return code, (said.getvalue().splitlines() or [""])[-1]


def document(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    return {study["name"]: study for study in json.loads(done.stdout)["studies"]}


@pytest.mark.long
def test_killed_in_the_middle_it_goes_on_where_it_was(
    tmp_path: Path, theirs: dict[str, str]
) -> None:
    started = WarmProcess(
        command("--only", "slow"), cwd=tmp_path, env=theirs, stdout=subprocess.DEVNULL
    )
    until = time.monotonic() + 60
    while len(measured(tmp_path)) < 2 and time.monotonic() < until:
        time.sleep(0.02)
    children = psutil.Process(started.pid).children(recursive=True)
    started.send_signal(signal.SIGKILL)
    started.wait()
    _, alive = psutil.wait_procs(children, timeout=10)
    assert children and not alive
    before = measured(tmp_path)
    again = run(
        command("--only", "slow", "--json"),
        cwd=tmp_path,
        env=theirs,
        capture_output=True,
        text=True,
    )
    assert again.returncode == 0, again.stderr
    assert document(again)["slow"]["checks"] == {"holds": 1, "fails": 0, "cannot-tell": 0}
    everything = measured(tmp_path)
    assert sorted(set(everything)) == ["0", "1", "2", "3"]
    assert (
        len(everything) == 5 and everything.count(before[-1]) == 2
    )  # the point in the air was measured again, no other
    assert "three" in (tmp_path / "kept" / "book" / "chapter_0.html").read_text()


def test_replicate_repeats_invalid_runs_and_continues_after_broken_studies(
    tmp_path: Path,
    theirs: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "their_studies", raising=False)
    monkeypatch.setattr(replicate, "_child", run_here)
    words = ["replicate", "--results", str(tmp_path / "kept"), "--json"]
    words += ["--only", "busy", "--only", "broken", "--only", "slow"]
    assert main(words) == 1
    said = capsys.readouterr().out
    found = {study["name"]: study for study in json.loads(said.splitlines()[-1])["studies"]}
    assert (found["busy"]["state"], found["busy"]["invalid_runs"]) == ("passed", 2)
    assert found["broken"]["state"] == "broken" and "no such thing" in found["broken"]["problem"]
    assert found["slow"]["state"] == "passed" and measured(tmp_path) == ["0", "1", "2", "3"]
    assert main(words) == 1
    assert measured(tmp_path) == ["0", "1", "2", "3"]  # what is stored is not run again


def test_a_quick_run_that_stays_invalid_is_repeated_once(
    tmp_path: Path,
    theirs: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "their_studies", raising=False)
    monkeypatch.setattr(replicate, "_child", run_here)
    assert (
        main(
            [
                "replicate",
                "--results",
                str(tmp_path / "kept"),
                "--quick",
                "--json",
                "--only",
                "busy",
            ]
        )
        == 4
    )
    (found,) = json.loads(capsys.readouterr().out.splitlines()[-1])["studies"]
    assert (found["state"], found["invalid_runs"]) == ("invalid", 2)


def test_a_repeated_run_keeps_the_points_that_were_valid(
    tmp_path: Path,
    theirs: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "their_studies", raising=False)
    monkeypatch.setattr(replicate, "_child", run_here)
    assert (
        main(["replicate", "--results", str(tmp_path / "kept"), "--only", "partly", "--json"]) == 0
    )
    (found,) = json.loads(capsys.readouterr().out.splitlines()[-1])["studies"]
    assert (found["state"], found["invalid_runs"]) == ("passed", 1)
    assert measured(tmp_path) == ["0", "1", "2", "3", "1"]


def test_remaining_time_is_estimated_from_stored_seconds(
    tmp_path: Path,
    theirs: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "their_studies", raising=False)
    monkeypatch.setattr(replicate, "_child", run_here)
    monkeypatch.chdir(tmp_path)
    words = ["replicate", "--quick", "--only", "slow"]
    assert main([*words, "--results", str(STORED)]) == 0
    assert (
        "1 of 1 studies left: 0 took 0 s at this size before, 1 were never timed at it"
        in capsys.readouterr().out
    )
    (took,) = [run.manifest.seconds for run in stored_runs(tmp_path / STORED)]
    known = find_experiments()
    fresh = Replication({"slow": known["slow"]}, "quick", tmp_path / "elsewhere", 1, [])
    assert took is not None and took >= 0.8 and expected_seconds(fresh, "slow") == took
    full = Replication({"slow": known["slow"]}, "full", tmp_path / "elsewhere", 1, [])
    assert expected_seconds(full, "slow") is None


def test_a_time_budget_ends_the_run_and_keeps_what_is_stored(
    tmp_path: Path, theirs: dict[str, str]
) -> None:
    words = command("--only", "slow", "--max-hours", "0.0001", "--json")
    done = run(words, cwd=tmp_path, env=theirs, capture_output=True, text=True)
    assert done.returncode == 4 and document(done)["slow"]["state"] in ("unfinished", "not run")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--only", "ror_layer"], "no experiment 'ror_layer'; did you mean ror_layers or"),
        (["--max-hours", "nan"], "--max-hours: 'nan': give hours, more than 0 and at most 10000"),
        (["--workers", "0"], "--workers: '0': give a whole number, 1 to 256"),
    ],
)
def test_bad_input_is_one_line(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replicate", "--results", str(tmp_path), *words]) == 2
    said = capsys.readouterr().err
    assert message in said and said.count("\n") == 1


def test_packing_without_the_book_is_refused_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(replicate, "_child", lambda *_: pytest.fail("a study was started"))
    assert main(["replicate", "--quick", "--results", str(tmp_path / "kept"), "--compress"]) == 2
    assert "--report-only" in capsys.readouterr().err
    assert not (tmp_path / "kept").exists()
    assert (
        main(
            [
                "replicate",
                "--quick",
                "--results",
                str(tmp_path / "kept"),
                "--compress",
                "--report-only",
                "--only",
                "liquid_gain",
            ]
        )
        == 4
    )
