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
from tests.recorded.computed import COMPUTED as FAULTS
from tests.recorded.computed import plain
from tests.recorded.computed_libraries import LIBRARIES
from tests.recorded.computed_senders import SENDERS
from tests.recorded.invocations import JSON, TEXT, TWINS, write_files
from tests.recorded.judged import JUDGED

HERE = Path(__file__).parent
COMPUTED = FAULTS | LIBRARIES | SENDERS
"""What pure rooms compute, by name."""
MASKED = frozenset(
    {"seconds", "solve_s", "results", "version", "testbed_version", "page", "directory"}
)
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
    return {
        "words": shlex.join(words),
        "exit": code,
        "json": masked(name, json.loads(said[0]) if said[0] else None),
    }


def twin(name: str) -> dict[str, Any]:
    """The document of the library's way to the same."""
    outcome = testbed.run(TWINS[name](), "simulator")
    return {
        "passed": outcome.passed,
        "json": masked(name, json.loads(json.dumps(outcome.document))),
    }


def computed(name: str) -> dict[str, Any]:
    """What a room computes or a judge says, as JSON reads it back; of a run's document what differs from that of the
    first."""
    if name in COMPUTED:
        found = COMPUTED[name]()
    else:
        found, first = dict(JUDGED[name]()), dict[str, Any]()
        for one in found.values():
            for part in one if isinstance(one, list) else [one]:
                if isinstance(part, dict) and isinstance(part.get("document"), dict):
                    first = first or part["document"]
                    known = {} if part["document"] is first else first
                    part["document"] = {
                        k: v for k, v in part["document"].items() if k not in known or known[k] != v
                    }
    value: dict[str, Any] = json.loads(json.dumps(plain(found)))
    return value


def masked(name: str, value: Any) -> Any:
    """The value without what no second run repeats."""
    hidden = MASKED - ({"seconds"} if name.startswith(VIRTUAL) else set())
    if name == "plugins-list":
        hidden |= {"plugins"}  # what is installed beside the product is this machine's
    if isinstance(value, dict):
        return {
            key: "MASKED" if key in hidden else masked(name, inner) for key, inner in value.items()
        }
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
                path_of(kind, name).write_text(
                    json.dumps(measure(name), indent=1, ensure_ascii=False) + "\n"
                )
    for name in (*COMPUTED, *JUDGED):
        if not names or name in names:
            path_of("computed", name).parent.mkdir(exist_ok=True)
            path_of("computed", name).write_text(lines_of(computed(name)) + "\n")


def lines_of(value: dict[str, Any]) -> str:
    """JSON with a line for each value of the second level."""
    parts = []
    for key, inner in value.items():
        entries = (
            inner.items()
            if isinstance(inner, dict)
            else [("", one) for one in inner]
            if isinstance(inner, list)
            else []
        )
        lines = [
            (f"{json.dumps(name, ensure_ascii=False)}: " if isinstance(inner, dict) else "")
            + json.dumps(one, ensure_ascii=False)
            for name, one in entries
        ]
        marks = "{}" if isinstance(inner, dict) else "[]"
        whole = (
            f"{marks[0]}\n  " + ",\n  ".join(lines) + f"\n {marks[1]}"
            if lines
            else json.dumps(inner, ensure_ascii=False)
        )
        parts.append(f" {json.dumps(key, ensure_ascii=False)}: {whole}")
    return "{\n" + ",\n".join(parts) + "\n}"


if __name__ == "__main__":
    record(sys.argv[1:])
