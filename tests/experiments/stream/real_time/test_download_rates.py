"""The study of downloads: runs made in virtual time pass, and the same runs spoilt as a rival would be do not."""

from __future__ import annotations

from functools import cache
from typing import Any

from experiments.stream.real_time import download_rates


@cache
def measured() -> tuple[dict[str, Any], ...]:
    points = [point for point in download_rates.points(True, 1) if point["fabric"] == "simulator"]
    return tuple({**point, **download_rates.measure(point)} for point in points)


def not_held(rows: list[dict[str, Any]]) -> list[str]:
    return [check.name for check in download_rates.judge(rows).checks if not check.passed]


def test_a_raised_rate_saves_what_is_predicted_over_both_rivals() -> None:
    verdict = download_rates.judge(measured())
    assert verdict.passed, [check for check in verdict.checks if not check.passed]
    assert [check.rival for check in verdict.checks] == [0.0, 1.0, 0.0, 0.0, 0.0]
    assert list(download_rates.figures(measured())) == ["swiss-t1-simulator"]


def test_a_sender_that_does_not_raise_its_rate_after_all_fails() -> None:
    raised, constant, single = measured()
    as_rival = raised | {key: constant[key] for key in ("seconds", "sent", "verdict")}
    assert [name.split(": ")[1] for name in not_held([as_rival, constant, single])] == [
        "verdict of the download that raises its rate",
        "seconds saved, raised rate over constant rate",
        "seconds saved, raised rate over single path",
    ]


def test_a_judgement_that_passes_the_rival_fails() -> None:
    raised, constant, single = measured()
    assert len(not_held([raised, constant | {"verdict": "passed"}, single])) == 1


def test_a_run_that_the_machine_spoilt_says_nothing() -> None:
    raised, constant, single = measured()
    assert (
        download_rates.judge(
            [raised | {"invalid": "the sender was 1 s late"}, constant, single]
        ).exit_code
        == 4
    )
