"""The published run of coded blocks, spoilt as its rivals say, and sizes by equation 25, spoilt likewise."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from experiments.stream import coding_blocks, fec_block_sizes
from testbed.model.verdict import Verdict
from tests.helpers.study_rows import failed, published, spoilt

Row = dict[str, Any]
SPOILS: list[tuple[str, Callable[[Row], Row]]] = [
    ("packets until it decodes, mean", lambda row: {"mean": float(row["m"])}),
    ("packets until it decodes, mean", lambda row: {"wrong": 1}),
    ("packets that all but 1 %", lambda row: {"quantile": math.ceil(row["m"] / (1 - row["loss"]))}),
    ("is near that of equation 29", lambda row: {"quantile": 1.9 * row["m"]}),
]


@pytest.mark.parametrize(("check", "change"), SPOILS)
def test_blocks_that_need_what_the_rival_says_fail(
    check: str, change: Callable[[Row], Row]
) -> None:
    rows = [row for row in published("coding_blocks") if "code" in row]
    computed = [row for row in published("coding_blocks") if "code" not in row]
    names = failed(coding_blocks.judge(rows + computed))
    spoilt_names = failed(coding_blocks.judge(spoilt(rows, None, change) + computed))
    assert spoilt_names.count(check) > names.count(check)


def test_a_wrong_block_size_fails_the_table_and_one_too_long_is_seen() -> None:
    rows = [{**point, **coding_blocks.measure(point)} for point in fec_block_sizes.points(True)]
    assert not failed(Verdict.of(fec_block_sizes.size_checks(rows)))
    rows[0]["table"][3] += 1
    rows[1]["least"] = False
    rows[2]["size"][0] = 100
    names = failed(Verdict.of(fec_block_sizes.size_checks(rows)))
    assert all(
        words in names
        for words in ("M = 1: of the block sizes", "one packet shorter", "outside the bounds")
    )
    assert list(fec_block_sizes.figures(rows)) == ["figure-59"]
