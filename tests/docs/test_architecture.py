"""The drawing of the house is the house: floors as import-linter keeps them, every room in it, none that is not
there."""

from __future__ import annotations

import re
import tomllib

from tests.helpers.paths import ROOT

PAGE = ROOT / "docs" / "dev" / "architecture.md"
ROW = re.compile(r"^\| (\d+) \| (.+?) \| (.+) \|$", re.MULTILINE)
STANDARD = {"emulated", "prediction", "judgement", "adapters", "shipped"}
"""Folders that any workload may have: described once, in the table of a workload's files."""


def _rooms() -> list[tuple[int, str, str]]:
    """(floor, room without its slash, what the row says of it), from the top down."""
    return [
        (int(floor), name.rstrip("/"), text)
        for floor, names, text in ROW.findall(PAGE.read_text())
        for name in re.findall(r"`([^`]+)`", names)
    ]


def _layers(container: str) -> list[set[str]]:
    document = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = document["tool"]["importlinter"]["contracts"]
    layers = next(
        c["layers"]
        for c in contracts
        if c["type"] == "layers" and c.get("containers") == [container]
    )
    return [set(re.split(r" [|:] ", layer)) for layer in layers]


def test_floors_are_those_of_the_contract() -> None:
    floors: dict[int, set[str]] = {}
    for floor, room, _ in _rooms():
        if room.startswith("testbed/"):
            floors.setdefault(floor, set()).add(room.removeprefix("testbed/").removesuffix(".py"))
    assert [floors[floor] for floor in sorted(floors, reverse=True)] == _layers("testbed")


def test_every_room_is_drawn_and_stands() -> None:
    drawn = {room for _, room, _ in _rooms()}
    top = {p.name for p in ROOT.iterdir() if (p / "__init__.py").is_file()} - {"testbed", "tests"}
    inside = {
        f"testbed/{p.name}" for p in (ROOT / "testbed").iterdir() if (p / "__init__.py").is_file()
    }
    files = {f"testbed/{p.name}" for p in (ROOT / "testbed").glob("*.py")} - {"testbed/__init__.py"}
    assert drawn == top | inside | files


def test_inner_rooms_of_what_all_share_are_named() -> None:
    missing = []
    for _, room, text in _rooms():
        if room in ("testbed/commands", "fec", "sfio_emu", "topologies"):
            continue
        inner = {
            p.name for p in (ROOT / room).glob("*/") if (p / "__init__.py").is_file()
        } - STANDARD
        missing += [f"{room}/{name}" for name in sorted(inner) if f"`{name}/`" not in text]
    assert not missing
