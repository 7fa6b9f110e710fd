"""Carries frozen invocations out and compares them: ``python -m tests.recorded.record [NAME...]`` records them anew.

Floats are exact; what differs from run to run (times of this machine, folders, the version) is masked.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any

import testbed
from testbed.cli import main
from tests.recorded.invocations import JSON, TEXT, TWINS, write_files

HERE = Path(__file__).parent
MASKED = frozenset({"seconds", "solve_s", "results", "version", "testbed_version", "page", "directory"})
"""Keys whose values are this machine's or this run's, wherever they stand, but in virtual time (``VIRTUAL``)."""
VIRTUAL = ("stream", "mobility", "download", "bulk", "sfio", "simulate")
"""Invocations whose ``seconds`` are simulated, and therefore exact."""


def run(name: str) -> dict[str, Any]:
    """The invocation's exit code and what it wrote: JSON with masks, or text."""
    words = shlex.split(JSON.get(name) or TEXT[name])
    out, err = io.StringIO(), io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        write_files(Path(folder))
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(words)
        said = [text.replace(folder, "FOLDER") for text in (out.getvalue(), err.getvalue())]
    if name in TEXT:
        return {
            "words": shlex.join(words),
            "exit": code,
            "stdout": said[0].splitlines(),
            "stderr": said[1].splitlines(),
        }
    return {"words": shlex.join(words), "exit": code, "json": masked(name, json.loads(said[0]) if said[0] else None)}


def twin(name: str) -> dict[str, Any]:
    """The document of the library's way to the same."""
    outcome = testbed.run(TWINS[name](), "simulator")
    return {"passed": outcome.passed, "json": masked(name, json.loads(json.dumps(outcome.document)))}


def masked(name: str, value: Any) -> Any:
    """The value without what no second run repeats."""
    hidden = MASKED - ({"seconds"} if name.startswith(VIRTUAL) else set())
    if name == "plugins-list":
        hidden |= {"plugins"}  # what is installed beside the product is this machine's
    if isinstance(value, dict):
        return {key: "MASKED" if key in hidden else masked(name, inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [masked(name, inner) for inner in value]
    if isinstance(value, str):
        return re.sub(r"/tmp/\S+", "PATH", value)
    return value


def path_of(kind: str, name: str) -> Path:
    """Where the record lies."""
    return HERE / kind / f"{name}.json"


def kept(kind: str, name: str) -> dict[str, Any]:
    """What was recorded."""
    value: dict[str, Any] = json.loads(path_of(kind, name).read_text())
    return value


def record(names: list[str]) -> None:
    """Write the records of these names (all, if none is given)."""
    os.environ["COLUMNS"] = "80"
    for kind, table, measure in (("json", JSON, run), ("text", TEXT, run), ("twins", TWINS, twin)):
        for name in table:
            if not names or name in names:
                path_of(kind, name).parent.mkdir(exist_ok=True)
                path_of(kind, name).write_text(json.dumps(measure(name), indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    record(sys.argv[1:])
