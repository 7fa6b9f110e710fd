"""The skeleton of a study runs at once, its test passes, and what cannot become one is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import experiments
import testbed
from testbed.cli import main
from testbed.commands.studies.experiment import find_experiments
from tests.helpers.commands import in_process
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


def test_study_of_the_clone_is_written_where_its_user_asks(
    tree: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tree)
    assert main(["experiment", "new", "ring_links", "--folder", "experiments/liquid"]) == 0
    assert "testbed experiment run ring_links --quick" in capsys.readouterr().out
    assert "`ring_links`" in (tree / "docs/replication/chapter_3.md").read_text()
    there = {**os.environ, "PYTHONPATH": f"{tree}:{ROOT}"}
    run = [sys.executable, "-m", "testbed.cli", "experiment", "run", "ring_links", "--quick"]
    test = [sys.executable, "-m", "pytest", "-q", "--import-mode=importlib", "tests"]
    for command in (run, test):
        done = subprocess.run(command, cwd=tree, env=there, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    assert (tree / "results/ring_links").is_dir()


def test_new_study_is_a_plugin_in_the_current_folder(
    tree: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    mine = tmp_path_factory.mktemp("mine")
    done = in_process("experiment", "new", "own_links", cwd=mine)
    assert done.returncode == 0 and "run ./own_links/own_links.py --quick" in done.stdout
    files = ["own_links.py", "pyproject.toml", "test_own_links.py"]
    assert sorted(path.name for path in (mine / "own_links").iterdir()) == files
    assert sorted(path.name for path in tree.rglob("*") if path.is_file()) == [
        "__init__.py",
        "__init__.py",
    ]
    project = tomllib.loads((mine / "own_links/pyproject.toml").read_text())["project"]
    assert project["entry-points"]["testbed.experiments"] == {"own_links": "own_links:STUDY"}
    run = ["-m", "testbed", "experiment", "run", "./own_links/own_links.py", "--quick"]
    test = ["-m", "pytest", "-q", "own_links", "-p", "no:cacheprovider"]
    for words in (run, test):
        command = [sys.executable, *words]
        done = subprocess.run(command, cwd=mine, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    (results,) = (mine / "results/own_links").iterdir()
    assert testbed.load(results).manifest.command.endswith("run ./own_links/own_links.py --quick")
    report = in_process("report", str(results), cwd=mine)
    assert report.returncode == 2 and "give its file (--study FILE.py)" in report.stderr


def test_run_of_a_file_is_reported_with_the_file(tmp_path: Path) -> None:
    assert in_process("experiment", "new", "report_links", cwd=tmp_path).returncode == 0
    file = "./report_links/report_links.py"
    run = [sys.executable, "-m", "testbed", "experiment", "run", file, "--quick"]
    run += ["--workers", "2", "--json"]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)["results"]
    (tmp_path / results / "page.html").unlink()
    done = in_process("report", results, "--study", file, cwd=tmp_path)
    assert done.returncode == 0 and (tmp_path / results / "page.html").is_file()
    done = in_process("experiment", "run", results, "--quick", cwd=tmp_path)
    assert done.returncode == 2


def test_installed_study_is_found_by_every_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert in_process("experiment", "new", "found_links", cwd=tmp_path).returncode == 0
    info = tmp_path / "found_links/found_links-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: found-links\nVersion: 0.1\n")
    entry = "[testbed.experiments]\nfound_links = found_links:STUDY\n"
    (info / "entry_points.txt").write_text(entry)
    monkeypatch.syspath_prepend(str(tmp_path / "found_links"))
    assert "found_links" in in_process("experiment", "list").stdout
    assert "found_links (package found-links 0.1)" in in_process("plugins", "list").stdout
    done = in_process("experiment", "run", "found_links", "--quick", cwd=tmp_path)
    assert done.returncode == 0
    (results,) = (tmp_path / "results/found_links").iterdir()
    assert in_process("report", str(results)).returncode == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["Ring-links"], "not a valid name of a study"),
        (["class"], "not a valid name of a study"),
        (["liquid_gain"], "already"),
        (["json"], "already"),
        (["mine", "--folder", "/proc/nothing"], "give another name, or a --folder"),
        (["taken"], "give another name"),
    ],
)
def test_refuses_what_cannot_become_a_study(tmp_path: Path, words: list[str], says: str) -> None:
    (tmp_path / "taken").mkdir()
    done = in_process("experiment", "new", *words, cwd=tmp_path)
    assert done.returncode == 2 and says in done.stderr and done.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_writes_nothing_into_the_package_from_outside(
    tree: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    folder = str(tree / "experiments" / "liquid")
    done = in_process("experiment", "new", "ring_links", "--folder", folder, cwd=outside)
    assert done.returncode == 2 and "the testbed's own studies" in done.stderr
    assert not (tree / "tests").exists()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "no such file"),
        ("", "it has no STUDY"),
        ("raise SystemExit(0)", "it does not load (SystemExit"),
        ("1 / 0", "it does not load (ZeroDivisionError"),
        ("STUDY = 5", "it has no name"),
    ],
)
def test_file_without_a_study_is_refused(tmp_path: Path, text: str | None, says: str) -> None:
    file = tmp_path / "no_study_here.py"
    if text is not None:
        file.write_text(text)
    done = in_process("experiment", "run", str(file), "--quick")
    assert done.returncode == 2 and says in done.stderr and done.stderr.count("\n") == 1
