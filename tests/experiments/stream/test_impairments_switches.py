"""The published run of impaired links on switches: each check, spoilt as its rival says, fails."""

from __future__ import annotations

from testbed.model.verdict import Check
from tests.helpers.study_rows import published_run


def _checks() -> tuple[Check, ...]:
    run = published_run("impairments_switches")
    verdict = run and run.verdict
    assert verdict is not None and verdict.invalid is None and verdict.passed
    return verdict.checks


def test_every_published_check_fails_with_what_its_rival_measures() -> None:
    told = [check for check in _checks() if check.rival is not None]
    names = {check.name.rpartition(": ")[2].split(",")[0] for check in told}
    assert {
        "share of packets lost",
        "share of losses that follow a loss",
        "share of packets that came twice",
        "mean wait",
        "share of packets overtaken",
        "longest silence",
    } <= names, names
    for check in told:
        make = {"equals": Check.equal, "at-least": Check.at_least, "at-most": Check.at_most}[check.relation]
        tolerance = {"tolerance": check.tolerance} if check.relation == "equals" else {}
        assert check.predicted is not None and check.measured is not None and check.rival is not None
        honest = make(check.name, check.predicted, check.measured, rival=check.rival, **tolerance)
        spoilt = make(check.name, check.predicted, check.rival, **tolerance)
        assert honest.outcome == "holds" and spoilt.outcome == "fails", check.name
