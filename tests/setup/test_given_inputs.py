"""The table of the outside trials' inputs holds: exit codes, what is said, and in how many lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.setup.given_inputs import (
    ON_SWITCHES,
    QUICK,
    README,
    SHOWN,
    Row,
    given,
    outcome,
)


def name_of(row: Row) -> str:
    return f"{row.file} {row.command.split()[0]}"


def require(row: Row, folder: Path) -> None:
    found = outcome(row, folder)
    assert found.code == row.code, found
    complaints = [line for line in found.complaints if not line.startswith("testbed: note: ")]
    if row.code == 2 and not row.typed:
        assert (
            len(found.complaints) == 1
            and complaints[0].startswith("testbed: ")
            and len(complaints[0]) < 450
        ), found
    elif not row.command.startswith("python"):
        assert len(found.complaints) == row.notes, found
    if row.command == "topology show FILE" and row.code == 0:
        assert SHOWN[row.file][-1] in " ".join(found.complaints)
    rest = " ".join([found.output, *found.complaints])
    assert row.command.startswith("python") or "Traceback" not in rest
    rest = " ".join(rest.split())
    for said in row.says:
        assert said in rest, (said, found)
        rest = rest.partition(said)[2]


def test_no_file_is_left_out() -> None:
    rows = {row.file for row in (*QUICK, *ON_SWITCHES)}
    assert given().keys() == rows - {README}
    assert README in rows


@pytest.mark.parametrize("row", QUICK, ids=name_of)
def test_given_input(row: Row, tmp_path: Path) -> None:
    require(row, tmp_path)


@pytest.mark.emulation
@pytest.mark.unclocked
@pytest.mark.parametrize("row", ON_SWITCHES, ids=name_of)
def test_given_input_on_switches(row: Row, tmp_path: Path) -> None:
    require(row, tmp_path)
