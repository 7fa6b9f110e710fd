"""The counts on the page of rows are those of its tables, studies that it names exist, and a full row has a full
run."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from testbed.commands.studies.experiment import find_experiments
from tests.helpers.paths import ROOT
from tests.helpers.study_rows import published_run

PAGE = (ROOT / "docs" / "replication" / "rows.md").read_text()
STATES = ("full", "reduced", "computed", "missing")
DOCUMENTS = {part.splitlines()[0]: part for part in PAGE.split("\n## ")[1:]}


def rows_of(part: str) -> list[list[str]]:
    lines = [line for line in part.splitlines() if line.startswith("| ") and not line.startswith("| where |")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


ROWS = [row for part in DOCUMENTS.values() for row in rows_of(part)]


def test_the_counts_are_those_of_the_tables() -> None:
    states = Counter(re.split(r"[ ,]", row[2])[0] for row in ROWS)
    assert set(states) <= set(STATES)
    share = 100 * states["full"] / len(ROWS)
    words = ", ".join(f"{states[state]} {state}" for state in STATES)
    assert f"**{len(ROWS)} rows: {words}: {share:.0f} % in full.**" in PAGE


def test_every_row_that_is_not_full_has_its_reason() -> None:
    assert not [row for row in ROWS if not row[2].startswith("full") and not row[4].strip()]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}: {row[1]}"[:60])
def test_a_row_in_full_that_names_a_study_has_a_valid_run_of_full_size(row: list[str]) -> None:
    named = [name for name in re.findall(r"`(\w+)`", row[3]) if name in find_experiments()]
    for name in named if row[2].startswith("full") else ():
        run = published_run(name)
        assert run is not None and run.state not in ("invalid", "unfinished") and run.size != "quick", name
