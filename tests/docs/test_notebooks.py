"""The notebooks run from their first cell to their last in a kernel, and their exercises do not accept any answer."""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.paths import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
OPEN = "my_answer = ..."
"""How the cell of an exercise begins."""
WRONG = """
try:
    exec({!r})
except (AssertionError, LookupError, TypeError):
    pass
else:
    raise SystemError("a wrong answer passes")
"""
ON_SWITCHES = {"2_coding_under_failures", "4_striping", "7_own_network_and_program"}
"""Notebooks that run over real switches where the machine has them."""
# Of the notebooks on switches `make test` runs one. The third takes as long as all others together.
SLOW = {"2_coding_under_failures", "3_liquid_scheduling", "7_own_network_and_program"}


def environment() -> dict[str, str]:
    """Of a kernel: it imports the checkout."""
    return {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}


@pytest.fixture(scope="module")
def kernel() -> Iterator[Any]:
    """One for all, which forgets what the notebook before made: the import of the library takes a second."""
    manager = pytest.importorskip(
        "jupyter_client.manager", reason="the extra test is not installed"
    )
    started, client = manager.start_new_kernel(env=environment(), cwd=str(ROOT / "notebooks"))
    client.stop_channels()
    yield started
    started.shutdown_kernel(now=True)


def document(notebook: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(notebook.read_text())
    return found


def solved(notebook: Path) -> dict[str, Any]:
    """With the answer of the solution below each exercise in place of the one that is to be written."""
    found = document(notebook)
    cells = found["cells"]
    for cell, below in itertools.pairwise(cells):
        text = "".join(cell["source"])
        if cell["cell_type"] == "code" and text.startswith(OPEN):
            answer = re.search(r"^`(my_answer = .*)`$", "".join(below["source"]), re.MULTILINE)
            assert answer is not None and "<details>" in "".join(below["source"]), text
            cell["source"] = text.replace(text.splitlines()[0], answer[1], 1)
    return found


def as_parameters() -> list[Any]:
    """Return the notebooks as parameters, with marks for those that `make test` leaves out."""
    parameters = []
    for notebook in NOTEBOOKS:
        marks = []
        if notebook.stem in ON_SWITCHES:
            marks += [pytest.mark.emulation, pytest.mark.unclocked]
        if notebook.stem in SLOW:
            marks.append(pytest.mark.long)
        parameters.append(pytest.param(notebook, marks=marks, id=notebook.stem))
    return parameters


def tried(notebook: Path) -> dict[str, Any]:
    """Before the answer of each exercise: a cell as a reader finds it, and one with a wrong answer that has to fail."""
    found = solved(notebook)
    cells = []
    for cell, answered in zip(document(notebook)["cells"], found["cells"], strict=True):
        text = "".join(cell["source"])
        if cell["cell_type"] == "code" and text.startswith(OPEN):
            wrong = WRONG.format(text.replace(OPEN, "my_answer = -1.5", 1))
            cells += [
                {**cell, "id": f"{cell['id']}-{k}", "source": one}
                for k, one in enumerate((text, wrong))
            ]
        cells.append(answered)
    return found | {"cells": cells}


@pytest.mark.parametrize("notebook", as_parameters())
def test_notebook_runs_and_rejects_wrong_answers(notebook: Path, kernel: Any) -> None:
    nbclient = pytest.importorskip("nbclient", reason="the extra test is not installed")
    nbformat = pytest.importorskip("nbformat", reason="the extra test is not installed")
    cells = nbformat.reads(json.dumps(tried(notebook)), as_version=4)
    forget = nbformat.v4.new_code_cell("%reset -f")
    cells.cells.insert(0, forget)
    nbclient.NotebookClient(cells, km=kernel, timeout=240).execute()
    assert all(cell.execution_count for cell in cells.cells if cell.cell_type == "code")


def test_notebooks_have_exercises_and_pictures_and_no_output() -> None:
    assert len(NOTEBOOKS) == 7
    for notebook in NOTEBOOKS:
        cells = document(notebook)["cells"]
        text = "".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
        assert (
            text.startswith("# ")
            and "After this notebook you" in text
            and text.count("**Exercise") >= 2
        )
        assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)
        opened = ["".join(cell["source"]).startswith(OPEN) for cell in cells]
        assert sum(opened) == text.count("**Exercise") and "testbed.draw(" in str(cells)
        assert sum("assert" in "".join(cell["source"]) for cell in cells) >= 3
