"""The skeleton of a study runs at once, its test passes, and what cannot become one is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import experiments
from testbed.cli import main
from testbed.commands.studies.experiment import find_experiments
from tests.helpers.paths import ROOT


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A source tree with one folder for studies of chapter 3."""
    find_experiments()  # those of the product are known before the package is searched elsewhere
    folder = tmp_path / "experiments" / "liquid"
    folder.mkdir(parents=True)
    (tmp_path / "experiments" / "__init__.py").write_text("")
    (folder / "__init__.py").write_text("CHAPTER = 3\n")
    monkeypatch.setattr(experiments, "__path__", [str(tmp_path / "experiments")])
    return tmp_path


def test_a_new_study_runs_at_once_and_passes_its_test(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["experiment", "new", "ring_links", "--folder", "liquid"]) == 0
    assert "testbed experiment run ring_links --quick" in capsys.readouterr().out
    assert "`ring_links`" in (tree / "docs/replication/chapter_3.md").read_text()
    there = {**os.environ, "PYTHONPATH": f"{tree}:{ROOT}"}
    run = [sys.executable, "-m", "testbed.cli", "experiment", "run", "ring_links", "--quick"]
    test = [sys.executable, "-m", "pytest", "-q", "--import-mode=importlib", "tests"]
    for command in (run, test):
        done = subprocess.run(command, cwd=tree, env=there, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    assert (tree / "results/ring_links").is_dir()


@pytest.mark.parametrize(
    ("name", "folder", "says"),
    [
        ("Ring-links", "liquid", "no name of a study"),
        ("ring_links", "fluid", "no folder 'fluid'"),
        ("liquid_gain", "liquid", "already"),
    ],
)
def test_what_cannot_become_a_study_is_refused(
    tree: Path, capsys: pytest.CaptureFixture[str], name: str, folder: str, says: str
) -> None:
    assert main(["experiment", "new", name, "--folder", folder]) == 2
    assert says in capsys.readouterr().err
    assert not (tree / "tests").exists()
