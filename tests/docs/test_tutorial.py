"""The tutorial word by word: every file that it gives is written, every command is run in its order, and what is
certain of its output is there."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import warm
from tests.helpers.commands import in_process
from tests.helpers.paths import ROOT

LESSONS = sorted((ROOT / "docs" / "tutorial").glob("[0-9]*.md"))
FILE = re.compile(
    r"Call this \*\*(?P<name>[\w.]+)\*\*:\n\n```\w+\n(?P<text>.*?)^```", re.DOTALL | re.MULTILINE
)
COMMAND = re.compile(r"^    \$ (?P<words>.+)\n(?P<output>(?:    (?!\$).+\n)*)", re.MULTILINE)
CERTAIN = ("route", "ror", "schedule", "topology", "python")
"""Commands whose output is the same everywhere."""
ON_FABRIC = ("stream", "bulk", "sfio")
ALLOWED = {
    "campaign small.toml": {5},
    "sfio crossbar:8 --compute-nodes 2 --io-nodes 2 --file-size 8MB --kill r1@0.5": {0},
}
"""Commands of which the page itself says that they may end otherwise than with 0."""


def steps(page: str) -> list[tuple[int, str, str, str]]:
    """(place, kind, name or command, text or output) of a lesson, in order."""
    files = [(m.start(), "file", m["name"], m["text"]) for m in FILE.finditer(page)]
    commands = [(m.start(), "command", m["words"], m["output"]) for m in COMMAND.finditer(page)]
    return sorted(files + commands)


def run(words: str, folder: Path, fabric: str) -> subprocess.CompletedProcess[str]:
    """As a reader does, by a shell; what needs none in a fork, and what ends in virtual time as a call."""
    path = f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    there = {**os.environ, "PYTHONPATH": path, "COLUMNS": "200"}
    plain = not set(re.sub("'.*?'", "", words)) & set("|<>&;$*`~")
    if plain and (words.startswith("python ") or fabric == "emulation"):
        program = [sys.executable] if words.startswith("python ") else warm.TESTBED
        words_of_it = [*program, *shlex.split(words)[1:]]
        return warm.run(
            words_of_it, cwd=folder, env=there, capture_output=True, text=True, timeout=280
        )
    if plain and words.startswith("testbed "):
        on_fabric = ["--fabric", "simulator"] if words.split()[1] in ON_FABRIC else []
        on_fabric += (
            ["--workers", "1"] if words.split()[1] == "campaign" else []
        )  # processes of workers start slowly
        return in_process(*shlex.split(words)[1:], *on_fabric, cwd=folder)
    command = words.replace("testbed ", f"{sys.executable} -m testbed.cli ", 1)
    command = re.sub(r"^python ", f"{sys.executable} ", command)
    if fabric == "simulator" and words.split()[1] in ON_FABRIC:
        command += " --fabric simulator"
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=there,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


def is_run(words: str, fabric: str) -> bool:
    """In virtual time all but what needs switches; on switches that."""
    return (words.startswith("testbed run") or "--kill" in words) == (fabric == "emulation")


def followed(folder: Path, fabric: str) -> int:
    """Follow all lessons in one folder; the number of commands that were run."""
    count = 0
    for lesson in LESSONS:
        for _, kind, words, text in steps(lesson.read_text()):
            if kind == "file":
                (folder / words).write_text(text)
                continue
            if not is_run(words, fabric):
                continue
            done = run(words, folder, fabric)
            invalid = {4} if fabric == "emulation" else set()
            allowed = ALLOWED.get(words.removeprefix("testbed "), {0}) | invalid
            assert done.returncode in allowed, (
                f"{lesson.name}: {words}\n{done.stdout}\n{done.stderr}"
            )
            if words.split()[1] in CERTAIN or words.startswith("python"):
                for line in text.splitlines():
                    assert " ".join(line.split()) in " ".join(done.stdout.split()), (
                        f"{lesson.name}: {words}: {line}"
                    )
            if done.returncode == 0 and "verdict: passed" in text:
                assert "verdict: passed" in done.stdout
            count += 1
    return count


def test_every_lesson_has_commands_and_every_fence_that_is_named_is_a_file() -> None:
    assert len(LESSONS) == 7
    for lesson in LESSONS:
        page = lesson.read_text()
        assert any(kind == "command" for _, kind, _, _ in steps(page)), lesson.name
        assert page.count("Call this **") == len(FILE.findall(page))


def test_the_tutorial_in_virtual_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert followed(tmp_path, "simulator") >= 18


@pytest.mark.emulation
@pytest.mark.unclocked
@pytest.mark.timeout(900)
@pytest.mark.long
def test_tutorial_parts_for_switches(tmp_path: Path) -> None:
    if shutil.which("ovs-vswitchd") is None and not Path("/usr/sbin/ovs-vswitchd").exists():
        pytest.skip("Open vSwitch is not installed")
    assert followed(tmp_path, "emulation") == 2
