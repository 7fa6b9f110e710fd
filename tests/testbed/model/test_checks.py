"""What a check compares: equal within a tolerance, at least, at most."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import InputError
from testbed.model.json_values import from_json
from testbed.model.verdict import Check, Claim, Verdict
from testbed.report.wording import check_words, verdict_reason


@pytest.mark.parametrize(
    ("check", "passed"),
    [
        (Claim("n").equal(3, 3), True),
        (Claim("n").equal(3, 4), False),
        (Claim("n").equal(3.0, 3.5, 0.5), True),
        (Claim("n").equal(3.0, 2.4, 0.5), False),
        (Claim("n").equal(0.0, math.nan, 1.0), False),
        (Claim("n").at_least(2, 2), True),
        (Claim("n").at_least(2, 1.9), False),
        (Claim("n").at_most(2, 2), True),
        (Claim("n").at_most(2, 2.1), False),
    ],
)
def test_a_check_holds_up_to_its_bound_and_not_beyond(check: Check, passed: bool) -> None:
    assert check.passed is passed
    assert Verdict(checks=(check,)).exit_code == (0 if passed else 1)


def test_a_check_keeps_what_it_compared() -> None:
    check = Claim("delay (s)").at_most(2.0, 1.5).noting("of ten runs")
    assert (check.name, check.predicted, check.measured, check.tolerance) == (
        "delay (s)",
        2.0,
        1.5,
        None,
    )
    assert check.detail == "of ten runs"
    assert Claim("n").equal(1, 2, 3).tolerance == 3


GAIN = (1.0, "no gain")


@pytest.mark.parametrize(
    ("check", "outcome"),
    [
        (Claim("gain").equal(1.7, 1.71, 0.1).against(*GAIN), "holds"),
        (Claim("gain").equal(1.7, 1.0, 0.1).against(*GAIN), "fails"),
        (
            Claim("gain").equal(1.7, 1.71, 0.8).against(*GAIN),
            "cannot-tell",
        ),  # the tolerance takes the rival in
        (Claim("gain").equal(1.7, 0.8, 0.8).against(*GAIN), "fails"),
        (Claim("gain").equal(1.7, (1.6, 0.1), 0.2).against(*GAIN), "holds"),
        (
            Claim("gain").equal(1.7, (1.6, 0.7), 0.2).against(*GAIN),
            "cannot-tell",
        ),  # the interval does
        (Claim("gain").equal(1.7, (1.2, 0.4), 0.2).against(*GAIN), "cannot-tell"),
        (Claim("gain").equal(1.7, (1.0, 0.1), 0.2).against(*GAIN), "fails"),
        (Claim("gain").at_least(1.5, 1.7).against(*GAIN), "holds"),
        (Claim("gain").at_least(0.9, 1.7).against(*GAIN), "cannot-tell"),
        (Claim("gain").at_least(1.5, (1.4, 0.5)).against(*GAIN), "cannot-tell"),
        (Claim("gain").at_least(1.5, (1.1, 0.2)).against(*GAIN), "fails"),
        (Claim("cost").at_most(0.5, 0.4).against(1.0), "holds"),
        (Claim("cost").at_most(1.0, 0.4).against(1.0), "cannot-tell"),
        (Claim("cost").at_most(0.5, (0.4, 0.7)).against(1.0), "cannot-tell"),
        (Claim("gain").equal(1.7, math.nan, 1.0).against(*GAIN), "fails"),
        (
            Claim("gain").at_least(1.5, (1.6, 0.2)),
            "cannot-tell",
        ),  # the interval crosses the check's own bar
        (Claim("gain").at_least(1.5, (1.4, 0.2)), "cannot-tell"),
        (Claim("paths").at_most(1.0, (0.94, 1.34)), "cannot-tell"),
        (Claim("gain").equal(1.7, (1.75, 0.2), 0.1), "cannot-tell"),
        (Claim("gain").equal(1.7, (1.9, 0.9), 0.1), "cannot-tell"),
        (Claim("gain").at_least(1.5, (1.7, 0.2)), "holds"),
        (Claim("gain").at_most(1.5, (1.8, 0.2)), "fails"),
    ],
)
def test_a_check_that_its_rival_would_pass_cannot_tell_and_is_not_passed(
    check: Check, outcome: str
) -> None:
    assert check.outcome == outcome
    assert check.passed is (outcome == "holds")
    assert check.to_json()["outcome"] == outcome
    assert Verdict(checks=(check,)).exit_code == {"holds": 0, "fails": 1, "cannot-tell": 5}[outcome]


@given(
    claimed=st.floats(-10, 10),
    measured=st.floats(-10, 10),
    rival=st.floats(-10, 10),
    tolerance=st.floats(0, 5),
    uncertainty=st.floats(0, 5),
)
def test_no_value_that_holds_is_near_its_rival(
    claimed: float, measured: float, rival: float, tolerance: float, uncertainty: float
) -> None:
    check = Claim("n").equal(claimed, (measured, uncertainty), tolerance).against(rival)
    if check.passed:
        assert abs(measured - claimed) <= tolerance < abs(rival - claimed)
        assert (
            abs(measured - rival) >= uncertainty
        )  # equal where their difference is too small for a float


@given(relation=st.sampled_from(("equal", "at_least", "at_most")), bar=st.integers(-9, 9),
       measured=st.integers(-9, 9), width=st.integers(0, 9))  # fmt: skip
def test_interval_passes_if_all_of_it_holds_and_fails_if_none_does(
    relation: str, bar: int, measured: int, width: int
) -> None:
    check: Callable[..., Check] = getattr(Claim("n"), relation)
    inside = {check(bar, value).passed for value in range(measured - width, measured + width + 1)}
    outcome = {(True,): "holds", (False,): "fails"}.get(tuple(inside), "cannot-tell")
    assert check(bar, (measured, width)).outcome == outcome


def test_a_check_reads_as_a_sentence_and_survives_json() -> None:
    check = Claim("gain").equal(1.7, (1.71, 0.05), 0.1).against(*GAIN).cites("1.5 to 2, page 66")
    words = check_words(check)
    assert words == (
        "expected 1.7 ± 0.1, measured 1.71 [1.66, 1.76] (document: 1.5 to 2, page 66; no gain: 1)"
    )
    verdict = Verdict(checks=(check,))
    assert from_json(Verdict, verdict.to_json(), "here") == verdict
    unsure = Verdict(checks=(Claim("gain").at_least(0.5, 1.0).against(*GAIN),))
    assert verdict_reason(unsure) == "1 inconclusive: the data also fit the alternative: gain."


LOSS = Claim("loss, a->b down", "loss", "fault:0").equal(0.5, 0.5)


def test_two_checks_of_one_key_about_the_same_are_refused() -> None:
    other = replace(LOSS, name="another name", about="fault:1")
    assert (
        len(Verdict(checks=(LOSS, other, replace(LOSS, key=""), replace(LOSS, key=""))).checks) == 4
    )
    with pytest.raises(InputError, match="two checks have the key 'loss', both about 'fault:0'"):
        Verdict(checks=(LOSS, replace(LOSS, name="another name")))


def test_json_has_key_and_about_where_they_say_something() -> None:
    assert {name: LOSS.to_json()[name] for name in ("key", "about")} == {
        "key": "loss",
        "about": "fault:0",
    }
    bare = Claim("n").equal(1, 1)
    assert not {"key", "about"} & set(bare.to_json())
    assert from_json(Verdict, Verdict(checks=(LOSS, bare)).to_json(), "here").checks == (LOSS, bare)


@given(st.lists(st.text(max_size=6), max_size=8), st.integers(0, 8))
def test_every_check_can_be_given_a_key_of_its_own(names: list[str], kept: int) -> None:
    checks = [Claim(name).equal(1, 1) for name in names]
    own = [replace(check, key=f"own-{number}") for number, check in enumerate(checks[:kept])]
    keyed = Verdict(checks=(*own, *checks[kept:])).keyed()
    keys = [check.key for check in keyed.checks]
    assert all(keys) and len(set(keys)) == len(keys) == len(names)
    assert [check.name for check in keyed.checks] == names and keyed.keyed() == keyed


@pytest.mark.parametrize("check", [LOSS, replace(LOSS, passed=False)])
def test_check_without_events_cannot_tell(check: Check) -> None:
    assert check.of(1) == check
    assert check.of(0).outcome == "cannot-tell" and not Verdict(checks=(check.of(0),)).passed


def test_the_worst_outcome_gives_the_exit_code() -> None:
    holds, fails, unsure = (
        LOSS,
        replace(LOSS, passed=False, about="1"),
        replace(LOSS.of(0), about="2"),
    )
    codes = [
        Verdict(checks=checks).exit_code
        for checks in ((holds,), (holds, unsure), (unsure, fails), (holds, fails), ())
    ]
    assert codes == [0, 5, 1, 1, 5]
    assert Verdict(checks=(fails,), invalid="the machine was busy").exit_code == 4


@pytest.mark.parametrize(
    ("value", "half", "outcome"),
    [(1.8, 0.1, "holds"), (1.8, 0.9, "cannot-tell"), (1.2, 0.1, "fails"), (1.8, None, "holds")],
)
def test_a_value_may_come_with_half_its_interval(
    value: float, half: float | None, outcome: str
) -> None:
    check = Claim("gain").at_least(1.5, (value, half))
    assert check == Claim("gain").at_least(1.5, value).plus_minus(half) and check.outcome == outcome
