"""Runs the recorded invocations; ``python -m tests.recorded.record [NAME...]`` records them again.

Floats are exact. Values that differ from run to run (times, folders, the version) are masked.
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
# Keys whose values belong to this machine or this run.
MASKED = frozenset(
    {"seconds", "solve_s", "results", "version", "testbed_version", "page", "directory"}
)
# Invocations whose ``seconds`` are simulated, and therefore exact.
VIRTUAL = ("stream", "mobility", "download", "bulk", "sfio", "simulate")


def run(name: str) -> dict[str, Any]:
    """Run the invocation of this name, and return its exit code and output.

    The output is JSON with masks, or the lines of text.
    """
    argv = shlex.split(JSON.get(name) or TEXT[name])
    stdout = io.StringIO()
    stderr = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        write_files(Path(folder))
        with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
            code = main(argv)
    output = stdout.getvalue().replace(folder, "FOLDER")
    if name in TEXT:
        return {
            "words": shlex.join(argv),
            "exit": code,
            "stdout": output.splitlines(),
            "stderr": stderr.getvalue().replace(folder, "FOLDER").splitlines(),
        }
    return {
        "words": shlex.join(argv),
        "exit": code,
        "json": masked(name, json.loads(output) if output else None),
    }


def run_twin(name: str) -> dict[str, Any]:
    """Run the plan of this name through the library, and return its verdict and document."""
    outcome = testbed.run(TWINS[name](), "simulator")
    return {
        "passed": outcome.passed,
        "json": masked(name, json.loads(json.dumps(outcome.document))),
    }


def masked(name: str, value: Any) -> Any:
    """Return the value of the invocation with masks for what differs from run to run."""
    hidden = set(MASKED)
    if name.startswith(VIRTUAL):
        hidden.discard("seconds")
    if name == "plugins-list":
        hidden.add("plugins")  # Other machines have other plug-ins installed.
    if isinstance(value, dict):
        return {
            key: "MASKED" if key in hidden else masked(name, inner) for key, inner in value.items()
        }
    if isinstance(value, list):
        return [masked(name, inner) for inner in value]
    if isinstance(value, str):
        return re.sub(r"/tmp/\S+", "PATH", value)
    return value


def record_path(kind: str, name: str) -> Path:
    """Return the path of the record: ``json``, ``text`` or ``twins``, and its name."""
    return HERE / kind / f"{name}.json"


def load_record(kind: str, name: str) -> dict[str, Any]:
    """Load the record of this kind and name."""
    value: dict[str, Any] = json.loads(record_path(kind, name).read_text())
    return value


def record(names: list[str]) -> None:
    """Write the records of these names, or all if the list is empty."""
    os.environ["COLUMNS"] = "80"
    for kind, table, measure in (
        ("json", JSON, run),
        ("text", TEXT, run),
        ("twins", TWINS, run_twin),
    ):
        for name in table:
            if not names or name in names:
                path = record_path(kind, name)
                path.parent.mkdir(exist_ok=True)
                text = json.dumps(measure(name), indent=1, ensure_ascii=False)
                path.write_text(text + "\n")


if __name__ == "__main__":
    record(sys.argv[1:])
