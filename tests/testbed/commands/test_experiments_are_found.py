"""Our own experiments are found by walking their package, those of others by their entry points."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import pkgutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

import experiments
from testbed.cli import main
from testbed.commands.studies.experiment import find_experiments
from testbed.model.studies.study import Study

ARGUMENTS = {"points": 2, "measure": 1, "judge": 1, "figures": 1}

THEIRS = """
from testbed.commands.studies.study import Study
from testbed.model.verdict import Claim, Verdict

def points(quick, seed):
    return [{"x": 1 if quick else 2}]

def measure(point):
    return {"y": 3 * point["x"]}

def judge(rows):
    return Verdict(checks=(Claim("three").equal(3, rows[0]["y"]),))

def figures(rows):
    return {}

STUDY = Study.of_module(__name__, name="theirs", does="multiplies", answers="a claim of theirs")
"""


@pytest.fixture
def their_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A distribution of somebody else, installed as far as Python can tell."""
    (tmp_path / "their_study.py").write_text(THEIRS)
    description = tmp_path / "theirs-1.0.dist-info"
    description.mkdir()
    (description / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (description / "entry_points.txt").write_text(
        "[testbed.experiments]\ntheirs = their_study:STUDY\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "their_study", raising=False)


@pytest.mark.usefixtures("their_package")
def test_an_experiment_of_another_package_is_listed_and_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["experiment", "list", "--json"]) == 0
    listed = {e["name"]: e["claim"] for e in json.loads(capsys.readouterr().out)["experiments"]}
    assert listed["theirs"] == "a claim of theirs"
    assert "ror_validation" in listed  # beside our own
    assert (
        main(["experiment", "run", "theirs", "--quick", "--json", "--results", str(tmp_path)]) == 0
    )
    assert json.loads(capsys.readouterr().out)["points"] == [{"x": 1, "y": 3}]
    assert main(["experiment", "run", "theirs", "--results", str(tmp_path)]) == 1


def test_without_that_package_its_name_is_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["experiment", "run", "theirs"]) == 2
    assert "no experiment 'theirs'" in capsys.readouterr().err


def test_every_module_that_declares_a_study_is_found() -> None:
    declared = 0
    for module in pkgutil.walk_packages(experiments.__path__, "experiments."):
        source = inspect.getsource(importlib.import_module(module.name))
        declared += any(line.startswith("STUDY = ") for line in source.splitlines())
    assert declared == len(find_experiments()) > 30


@pytest.mark.parametrize("study", find_experiments().values(), ids=lambda study: study.name)
def test_functions_of_a_study_take_what_they_are_given(study: object) -> None:
    if not isinstance(study, Study):
        return
    for field in dataclasses.fields(study):
        function = getattr(study, field.name)
        if field.name in ARGUMENTS and function is not None:
            inspect.signature(function).bind(*range(ARGUMENTS[field.name]))
    if study.options is not None:
        assert study.points(True, 1, study.options()) == study.points(True, 1)


def test_every_study_of_ror_says_which_code_its_figures_belong_to() -> None:
    studies = {name: one for name, one in find_experiments().items() if isinstance(one, Study)}
    about = {
        name for name, one in studies.items() if "ROR" in f"{one.title} {one.does} {one.answers}"
    }
    assert len(about) >= 7
    for name in about:
        code = studies[name].ror_code
        assert "labels" in code and "DER" in code and "tolerance" in code, name


def test_a_module_without_the_functions_of_a_study_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    empty = ModuleType("empty_study")
    monkeypatch.setitem(sys.modules, "empty_study", empty)
    with pytest.raises(TypeError, match="points"):
        Study.of_module("empty_study", name="empty", does="nothing", answers="nothing")
