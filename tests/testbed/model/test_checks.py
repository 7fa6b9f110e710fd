"""What a check compares: equal within a tolerance, at least, at most."""

from __future__ import annotations

import math

import pytest

from testbed.model.verdict import Check, Verdict


@pytest.mark.parametrize(
    ("check", "passed"),
    [
        (Check.equal("n", 3, 3), True),
        (Check.equal("n", 3, 4), False),
        (Check.equal("n", 3.0, 3.5, tolerance=0.5), True),
        (Check.equal("n", 3.0, 2.4, tolerance=0.5), False),
        (Check.equal("n", 0.0, math.nan, tolerance=1.0), False),
        (Check.at_least("n", 2, 2), True),
        (Check.at_least("n", 2, 1.9), False),
        (Check.at_most("n", 2, 2), True),
        (Check.at_most("n", 2, 2.1), False),
    ],
)
def test_a_check_holds_up_to_its_bound_and_not_beyond(check: Check, passed: bool) -> None:
    assert check.passed is passed
    assert Verdict(checks=(check,)).exit_code == (0 if passed else 1)


def test_a_check_keeps_what_it_compared() -> None:
    check = Check.at_most("delay (s)", 2.0, 1.5, detail="of ten runs")
    assert (check.name, check.predicted, check.measured, check.tolerance) == ("delay (s)", 2.0, 1.5, None)
    assert check.detail == "of ten runs"
    assert Check.equal("n", 1, 2, tolerance=3).tolerance == 3
