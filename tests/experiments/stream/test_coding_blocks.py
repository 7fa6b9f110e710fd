"""The published run of coded blocks, spoilt as its rivals say."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from experiments.stream import coding_blocks
from tests.helpers.study_rows import failed, published, spoilt

Row = dict[str, Any]
SPOILS: list[tuple[str, Callable[[Row], Row]]] = [
    ("packets until it decodes, mean", lambda row: {"mean": float(row["m"])}),
    ("packets until it decodes, mean", lambda row: {"wrong": 1}),
    ("packets that all but 1 %", lambda row: {"quantile": math.ceil(row["m"] / (1 - row["loss"]))}),
    ("is near that of equation 29", lambda row: {"quantile": 1.9 * row["m"]}),
]


@pytest.mark.parametrize(("check", "change"), SPOILS)
def test_blocks_that_need_what_the_rival_says_fail(check: str, change: Callable[[Row], Row]) -> None:
    rows = published("coding_blocks")
    names = failed(coding_blocks.judge(rows))
    spoilt_names = failed(coding_blocks.judge(spoilt(rows, None, change)))
    assert spoilt_names.count(check) > names.count(check)
