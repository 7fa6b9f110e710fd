"""The JSON keys that the pages of docs/reference/commands promise are in what the commands print."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from testbed.cli import main
from tests.helpers.paths import ROOT

RUNS = {
    "topology show": ["two-switch"],
    "route": ["swiss-t1", "--from", "s1", "--to", "s6"],
    "ror": ["swiss-t1", "--from", "s1", "--to", "s6"],
    "demands": ["ring:4", "--routing", "single"],
    "allocate": ["swiss-t1", "--nodes", "2"],
    "schedule": ["two-switch", "--scheduling", "round-robin"],
    "wavelengths": [
        "ring:5",
        "--wavelengths",
        "2",
        "--scheduling",
        "first-fit",
        "--fabric",
        "simulator",
    ],
}


def _promised(command: str) -> set[str]:
    """Keys of the object itself: those within braces belong to what it holds."""
    page = (ROOT / "docs/reference/commands" / f"{command.split()[0]}.md").read_text()
    keys = page.split("## JSON\n\n")[1].splitlines()[0].replace("`topology show`", "")
    outer = re.sub(r"\{[^{}]*\}", "", keys)
    return {re.match(r"\w+", key).group() for key in re.findall(r"`(\w[^`]*)`", outer)}  # type: ignore[union-attr]


@pytest.mark.parametrize("command", RUNS)
def test_keys_that_are_promised_are_printed(
    command: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*command.split(), *RUNS[command], "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    promised = _promised(command)
    assert len(promised) > 2
    assert not promised - set(printed)
