"""The published exchanges and files over several machines, spoilt as their rivals say: the verdict must fail."""

from __future__ import annotations

import pytest

from experiments.stream.machine_transfers import judge
from tests.helpers.study_rows import Change, failed, published

SPOILT: dict[str, tuple[str, Change]] = {
    "one message that crosses is not whole": (
        "checks of the run itself",
        lambda row: {"failed": [*row["failed"], "every message arrived whole, once"]},
    ),
    "what crosses does not arrive": (
        "that did not arrive whole",
        lambda row: {"arrived": [row["arrived"][0] - row["arrived"][1] // 4, row["arrived"][1]]},
    ),
    "crossing cables are held to half": (
        "share of the predicted throughput",
        lambda row: {"shares": [share / 2 for share in row["shares"]]},
    ),
    "the cut is in force at no end": ("processes that the cut breaks", lambda row: {"broken": 0}),
    "the machines' clocks are taken for ours": (
        "clocks further off than they claim",
        lambda row: {"clocks": [{**clock, "offset_s": 0.0} for clock in row["clocks"]]},
    ),
}


def test_the_published_points_are_judged_as_they_were() -> None:
    verdict = judge(published("machine_transfers"))
    assert verdict.passed and len(verdict.checks) == 26


def test_runs_on_one_machine_that_differ_by_as_much_as_the_rival_cannot_tell() -> None:
    rows = published("machine_transfers")
    wide = [
        row | {"shares_of_runs": [[share * k for share in row["shares"]] for k in (0.7, 1.0, 1.3)]}
        if row["machines"] == 1
        else row
        for row in rows
    ]
    assert {check.name.partition(",")[0] for check in judge(wide).checks if check.outcome == "cannot-tell"} == {
        "bulk exchange",
        "striped file",
    }


@pytest.mark.parametrize("name", SPOILT)
def test_points_spoilt_as_the_rival_says_fail(name: str) -> None:
    told, change = SPOILT[name]
    rows = published("machine_transfers")
    several = [row | change(row) if row["machines"] > 1 else row for row in rows]
    spoilt_checks = failed(judge(several)).split("; ")
    asked = [check.name for check in judge(rows).checks if told in check.name]
    assert asked and set(asked) <= set(spoilt_checks)
