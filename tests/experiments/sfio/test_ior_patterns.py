"""The study of IOR's patterns: how blocks are dealt, and its verdict on what was measured, as it is and as rivals would
have it."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.sfio import ior_patterns
from experiments.sfio.ior_process import block_offsets
from tests.helpers.study_rows import Rows, failed, published


@pytest.mark.parametrize("pattern", ior_patterns.PATTERNS)
def test_every_block_of_the_file_belongs_to_one_process(pattern: str) -> None:
    task = {"pattern": pattern, "blocks": 10, "block_bytes": 75}
    dealt = [block_offsets(task, rank, 4) for rank in range(4)]
    if pattern == "file per process":
        assert all(np.array_equal(each, np.arange(10) * 75) for each in dealt)
        return
    assert sorted(np.concatenate(dealt).tolist()) == list(range(0, 40 * 75, 75))
    assert (pattern == "segmented") == all((np.diff(each) == 75).all() for each in dealt)
    assert (pattern == "strided") == all((np.diff(each) == 300).all() for each in dealt)


def as_by_fragments(rows: Rows, pattern: str) -> Rows:
    """The rows, had aggregation brought nothing in one pattern."""
    plain = {(r["block_bytes"], r["pattern"]): r for r in rows if r["way"] == "SFIO, one request a fragment"}
    speeds = ("write_mb_cpu_s", "read_mb_cpu_s")
    return [
        row | {speed: plain[row["block_bytes"], pattern][speed] for speed in speeds}
        if (row["way"], row["pattern"]) == ("SFIO", pattern)
        else row
        for row in rows
    ]


def test_what_was_measured_holds_and_one_request_a_fragment_in_its_place_fails() -> None:
    rows = published("sfio_ior_patterns")
    assert not failed(ior_patterns.judge(rows))
    for pattern in ior_patterns.PATTERNS:
        names = failed(ior_patterns.judge(as_by_fragments(rows, pattern)))
        assert f"write, {pattern}, blocks of" in names and f"read, {pattern}, blocks of" in names


def test_a_pattern_whose_bytes_are_wrong_fails() -> None:
    rows = [row | {"verified": row["pattern"] != "random"} for row in published("sfio_ior_patterns")]
    assert "content" in failed(ior_patterns.judge(rows))
