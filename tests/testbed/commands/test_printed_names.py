"""Names of a hostile file never reach a terminal, a pipe or a page as they are."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.paths import ROOT
from tests.helpers.warm import TESTBED, run, run_on_a_terminal

Run = Callable[[list[str]], tuple[int, bytes]]

NAMES = {
    "title": "\x1b]0;owned\x07\x1b[2J\x1b[1;1Hverdict: passed (9 of 9 checks)",
    "line": "nl\nverdict: passed (7 of 7 checks)",
    "turned": "\u202egnp.exe\u2066",
    "unseen": "s\u200b1\ufeff\x9b31m\x7f",
    "return": "x\rverdict: passed (7 of 7 checks)",
    "wide": "東京 [bold]:smile:[/x]",
}
RAW = [
    chr(n)
    for n in (
        *range(9),
        *range(11, 27),
        *range(28, 32),
        *range(0x7F, 0xA0),
        0x202E,
        0x2066,
        0x200B,
        0xFEFF,
    )
]
FORGED = ("verdict: passed (7 of 7 checks)", "verdict: passed (9 of 9 checks)")
STYLE = re.compile(r"\x1b\[[0-9;]*m")
"""Colours of our own, on a terminal; elsewhere there is no escape character at all."""


def network(folder: Path) -> Path:
    names = list(NAMES.values())
    nodes = [{"id": name, "kind": "switch"} for name in names]
    links = [{"source": a, "target": b} for a, b in zip(names, [*names[1:], names[0]], strict=True)]
    file = folder / "hostile.json"
    file.write_text(json.dumps({"graph": {"name": NAMES["title"]}, "nodes": nodes, "links": links}))
    return file


def raw(found: bytes) -> Iterator[str]:
    """What ought not to be there: control characters, escape sequences that are not ours, a line that a name forged."""
    text = _without_bar(found.decode())
    yield from (repr(one) for one in RAW if one in text)
    for line in text.split("\n"):
        yield from (line for forged in FORGED if line.strip().startswith(forged))
    yield from STYLE.sub("", text).split("\x1b")[1:]


A, B = NAMES["title"], NAMES["turned"]
COMMANDS: dict[str, tuple[int, list[str]]] = {
    "summary": (0, ["topology", "show", "NET"]),
    "document": (0, ["topology", "show", "NET", "--json"]),
    "route": (0, ["route", "NET", "--from", A, "--to", B]),
    "route, json": (0, ["route", "NET", "--from", A, "--to", B, "--json"]),
    "ror": (0, ["ror", "NET", "--from", A, "--to", B]),
    "demands": (0, ["demands", "NET", "--routing", "single"]),
    "schedule": (0, ["schedule", "NET", "--pattern", "pairs.json"]),
    "no such node": (2, ["route", "NET", "--from", A, "--to", "\x1b[31mred\u202e"]),
    "no such file": (2, ["topology", "show", "no\x1b[31m\u202e\nfile.json"]),
    "no such option": (2, ["route", "NET", "--\x1b[31m\u202e"]),
    "no such command": (2, ["\x1b[31m\u202e"]),
    "no network": (2, ["topology", "show", "bad.json"]),
    "plot": (0, ["topology", "show", "NET", "--plot", "out.svg"]),
    "export": (0, ["topology", "export", "NET", "out.json"]),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    network(folder)
    (folder / "pairs.json").write_text(
        json.dumps({"pairs": [[A, B], [NAMES["line"], NAMES["wide"]]]})
    )
    bad = {
        "nodes": [{"id": "a"}],
        "links": [{"source": "a", "target": "\x1b[2J\u202e\nverdict: passed (9 of 9 checks)"}],
    }
    (folder / "bad.json").write_text(json.dumps(bad))
    return folder


@pytest.fixture
def surroundings(folder: Path) -> dict[str, Any]:
    return {"cwd": folder, "env": {**os.environ, "TERM": "xterm-256color", "COLUMNS": "300"}}


@pytest.fixture
def on_a_terminal(surroundings: dict[str, Any]) -> Run:
    """The command with a terminal for stdin, stdout and stderr; everything that reaches it."""
    return lambda words: run_on_a_terminal([*TESTBED, *words], **surroundings)


@pytest.fixture
def without_terminal(surroundings: dict[str, Any]) -> Run:
    """The command with its output in a pipe."""

    def piped(words: list[str]) -> tuple[int, bytes]:
        done = run([*TESTBED, *words], capture_output=True, **surroundings)
        return done.returncode, done.stdout + done.stderr

    return piped


@pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "file"])
@pytest.mark.parametrize("command", COMMANDS)
def test_commands(command: str, terminal: bool, on_a_terminal: Run, without_terminal: Run) -> None:
    code, words = COMMANDS[command]
    run = on_a_terminal if terminal else without_terminal
    got, found = run([word.replace("NET", "hostile.json") for word in words])
    assert got == code, found
    assert terminal or b"\x1b" not in found
    assert not list(raw(found))
    if words[-1] == "--json":
        json.loads(found[found.index(b"{") :])


def test_a_stored_run_and_its_pages(
    folder: Path, on_a_terminal: Run, without_terminal: Run
) -> None:
    words = [
        "stream",
        "hostile.json",
        "--from",
        A,
        "--to",
        B,
        "--fabric",
        "simulator",
        "--duration",
        "6",
        "--max-faults",
        "2",
    ]
    code, found = on_a_terminal(words)
    assert code in (0, 1, 5), found
    assert not list(raw(found))
    place = next((folder / "results" / "stream").iterdir())
    manifest = json.loads((place / "manifest.json").read_text())
    (place / "manifest.json").write_text(
        json.dumps(manifest | {"command": f"testbed\n{FORGED[0]}\n\x1b[2J\u202e"})
    )
    (place / "SHA256SUMS").unlink()
    for printed in (on_a_terminal, without_terminal):
        code, found = printed(["report", str(place), "--figures"])
        assert code in (0, 1, 5) and not list(raw(found))
    pages = [
        place / "page.html",
        *(place / "figures").glob("*.svg"),
        place / "figures" / "captions.md",
    ]
    assert len(pages) > 4
    for page in pages:
        assert not list(raw(page.read_bytes())), page
        assert b"owned" in page.read_bytes() or "loss" in page.name or "size" in page.name


@pytest.mark.parametrize("name", ["evil_names.json", "evil2.json", "trace_tty.json"])
def test_the_files_of_the_trial(name: str, on_a_terminal: Run) -> None:
    file = ROOT / "tests" / "setup" / "inputs" / name
    nodes = [node["id"] for node in json.loads(file.read_text())["nodes"]]
    for words in (
        ["topology", "show", str(file)],
        ["route", str(file), "--from", nodes[-1], "--to", nodes[0]],
    ):
        _, found = on_a_terminal(words)
        assert not list(raw(found))


def _without_bar(text: str) -> str:
    """Without what draws a bar or a sign of life anew on its line, and hides and shows the cursor: that is our own."""
    for own in ("\x1b[2K", "\x1b[?25l", "\x1b[?25h", "\x1b[1A"):
        text = text.replace(own, "")
    return text.replace("\r", "\n")
