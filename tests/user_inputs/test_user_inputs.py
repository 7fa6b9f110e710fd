"""Files as users bring them, each with a command and its answer.

Every table ``*.tsv`` in this folder has the columns ``input``, ``command``, ``exit_code`` and
``expected``. A fifth one, ``marks``, may say ``emulation`` (the row needs real switches) and
``long`` (only `make soak` runs the row). ``FILE`` in a command is the path of the input. ``expected`` is a regular
expression that the output of the command must match. A command runs in a copy of this folder.
"""

from __future__ import annotations

import csv
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.paths import ROOT
from tests.helpers.warm import TESTBED, run

FOLDER = Path(__file__).parent
_SHELL = re.compile(r"[|<>;&$*]")
_TIME_LIMIT_S = 240.0


def _rows() -> list[object]:
    rows = []
    for table in sorted(FOLDER.glob("*.tsv")):
        with table.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
                marks = [getattr(pytest.mark, mark) for mark in (row["marks"] or "").split()]
                rows.append(
                    pytest.param(
                        row["input"],
                        row["command"],
                        int(row["exit_code"]),
                        row["expected"],
                        marks=marks,
                        id=f"{table.stem}-{row['input']}-{len(rows)}",
                    )
                )
    return rows


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    copy = tmp_path / "inputs"
    shutil.copytree(FOLDER, copy, ignore=shutil.ignore_patterns("test_*.py", "__pycache__"))
    return copy


def _run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in the folder, without the start of an interpreter if it is one of testbed."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "COLUMNS": "100"}
    words = shlex.split(command)
    if words[0] == "testbed" and not _SHELL.search(command):
        return run(
            [*TESTBED, *words[1:]],
            capture_output=True,
            text=True,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            timeout=_TIME_LIMIT_S,
        )
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        timeout=_TIME_LIMIT_S,
        check=False,
    )


@pytest.mark.parametrize(("name", "command", "exit_code", "expected"), _rows())
def test_user_input_gives_expected_answer(
    name: str, command: str, exit_code: int, expected: str, folder: Path
) -> None:
    assert (folder / name).exists()
    done = _run(command.replace("FILE", f"./{name}"), folder)
    output = done.stdout + done.stderr
    assert done.returncode == exit_code, output
    assert re.search(expected, output, re.MULTILINE), output
    assert "Traceback" not in output


def test_every_input_has_a_row() -> None:
    """An input without a row would be read by nobody."""
    texts = [table.read_text(encoding="utf-8") for table in FOLDER.glob("*.tsv")]
    inputs = [
        path.name
        for path in FOLDER.iterdir()
        if path.is_file() and path.suffix not in (".tsv", ".toml") and path.name[:5] != "test_"
    ]
    assert [name for name in inputs if not any(name in text for text in texts)] == []
