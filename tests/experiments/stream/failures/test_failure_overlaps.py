"""How often failures overlap: simulated rows pass; as the misprint and as single failures only would have
them they fail."""

from __future__ import annotations

import pytest

from experiments.stream.failures import failure_overlaps
from testbed.model.verdict import Verdict
from testbed.routing.redundancy.failures import overlap_probability
from tests.helpers.study_rows import Rows, failed, spoilt


def judged(rows: Rows) -> Verdict:
    return Verdict.of(failure_overlaps.overlap_checks(rows))


@pytest.fixture(scope="module")
def rows() -> Rows:
    return [
        point | failure_overlaps.measure(point) for point in failure_overlaps.points(True, 1)[:4]
    ]


def test_simulated_failures_overlap_as_the_formulas_say(rows: Rows) -> None:
    assert failed(judged(rows)) == ""


def test_the_misprinted_probability_fails(rows: Rows) -> None:
    doubled = spoilt(
        rows, 0, lambda row: {"overlaps": overlap_probability(50, 2 * row["failure_s"], 3600.0)}
    )
    assert "overlap probability (equation 39)" in failed(judged(doubled))


def test_single_failures_only_fail(rows: Rows) -> None:
    assert "k1" in failed(judged(spoilt(rows, 0, lambda _: {"one": 1.0})))


def test_too_few_failures_cannot_tell(rows: Rows) -> None:
    few = spoilt(
        rows,
        None,
        lambda row: {key: 3 * row[key] for key in ("overlaps_deviation", "one_deviation")},
    )
    assert [check.outcome for check in judged(few).checks[:2]] == ["cannot-tell"] * 2


def test_the_share_of_one_is_counted_by_hand() -> None:
    share, deviation = failure_overlaps._share_of_one(
        [0.0, 10.0, 11.0], 2.0
    )  # 2 s alone; 2 s alone and 1 s of both
    assert share == pytest.approx(4 / 5) and deviation == pytest.approx(
        ((2 - 1.6) ** 2 + (2 - 2.4) ** 2) ** 0.5 / 5
    )
