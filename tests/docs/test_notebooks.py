"""The notebooks run from their first cell to their last in a kernel, and their exercises do not accept any answer, by
nbmake."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.paths import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
ON_SWITCHES = {"2_coding_under_failures", "4_striping"}
"""Notebooks that run over real switches where the machine has them."""


def environment() -> dict[str, str]:
    """Of a kernel: it imports the checkout."""
    return {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}


def executed(notebook: Path) -> subprocess.CompletedProcess[str]:
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        "--nbmake",
        "--nbmake-timeout=240",
    ]
    return subprocess.run(
        [*words, str(notebook)], cwd=notebook.parent, env=environment(), capture_output=True, text=True, timeout=290,
        check=False,
    )  # fmt: skip


def document(notebook: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(notebook.read_text())
    return found


def as_parameters() -> list[Any]:
    """Those on switches run alone, after the others, as all tests of switches do."""
    return [
        pytest.param(
            one, marks=[pytest.mark.emulation, pytest.mark.unclocked] if one.stem in ON_SWITCHES else [], id=one.stem
        )
        for one in NOTEBOOKS
    ]


@pytest.mark.parametrize("notebook", as_parameters())
def test_a_notebook_runs_from_its_first_cell_to_its_last(notebook: Path) -> None:
    nbclient = pytest.importorskip("nbclient", reason="the extra test is not installed")
    nbformat = pytest.importorskip("nbformat", reason="the extra test is not installed")
    cells = nbformat.read(notebook, as_version=4)
    folder = {"metadata": {"path": str(notebook.parent)}}
    nbclient.NotebookClient(cells, timeout=240, resources=folder).execute(env=environment())
    assert all(cell.execution_count for cell in cells.cells if cell.cell_type == "code")


def test_five_notebooks_are_lessons_with_exercises_and_carry_no_output() -> None:
    assert len(NOTEBOOKS) == 5
    for notebook in NOTEBOOKS:
        cells = document(notebook)["cells"]
        text = "".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
        assert text.startswith("# ") and "After this notebook you" in text and text.count("**Exercise") >= 2
        assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)
        assert sum("assert" in "".join(cell["source"]) for cell in cells) >= 3


def test_a_wrong_answer_to_an_exercise_fails(tmp_path: Path) -> None:
    pytest.importorskip("nbmake", reason="the extra test is not installed")
    wrong = document(next(one for one in NOTEBOOKS if one.stem.startswith("1_")))
    (cell,) = (cell for cell in wrong["cells"] if "my_answer = Fraction(1, 5)" in "".join(cell["source"]))
    cell["source"] = "".join(cell["source"]).replace("Fraction(1, 5)", "Fraction(1, 3)")
    (tmp_path / "wrong.ipynb").write_text(json.dumps(wrong))
    done = executed(tmp_path / "wrong.ipynb")
    assert done.returncode == 1 and "it is 1/5" in done.stdout
