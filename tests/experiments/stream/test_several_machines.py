"""The published streams over several machines, spoilt as their rivals say: the verdict must fail."""

from __future__ import annotations

import pytest

from experiments.stream.several_machines import judge
from tests.helpers.study_rows import Change, failed, published

SPOILT: dict[str, tuple[str, Change]] = {
    "every fault misses": ("greatest difference of a fault's loss", lambda row: {"losses": [0.0] * len(row["losses"])}),
    "N is never raised": (
        "answered by another block size",
        lambda row: {"block_sizes": [20.0] * len(row["block_sizes"])},
    ),
    "a hundredth of what crosses is lost": (
        "packets that fared otherwise",
        lambda row: {
            "wrong_fates": None if row["wrong_fates"] is None else row["wrong_fates"] + row["crossing_sent"] / 100
        },
    ),
    "the machines' clocks are taken for ours": (
        "clocks further off than they claim",
        lambda row: {"clocks": [{**clock, "offset_s": 0.0} for clock in row["clocks"]]},
    ),
}  # fmt: skip


def test_the_published_points_are_judged_as_they_were() -> None:
    verdict = judge(published("several_machines"))
    assert verdict.invalid is None
    assert not any(check.outcome == "cannot-tell" for check in verdict.checks)


@pytest.mark.parametrize("name", SPOILT)
def test_points_spoilt_as_the_rival_says_fail(name: str) -> None:
    told, change = SPOILT[name]
    rows = published("several_machines")
    several = [row | change(row) if row["machines"] > 1 else row for row in rows]
    spoilt_checks = failed(judge(several)).split("; ")
    asked = [check.name for check in judge(rows).checks if told in check.name]
    assert asked and set(asked) <= set(spoilt_checks)
