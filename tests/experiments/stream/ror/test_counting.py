"""Block sizes counted from packet logs: the counts are those of plain loops, true rows pass, and a policy that claims a
packet more or less fails on a real run."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.stream.ror import ror_by_counting
from experiments.stream.ror.counting import (
    fewest_packets,
    packets_needed,
    short_blocks,
    tail,
    weighted_short_blocks,
)
from experiments.stream.ror.counting_checks import judge_counts

Rows = list[dict[str, Any]]


def rows() -> Rows:
    return [
        json.loads(line)
        for line in Path(__file__).with_name("rows_by_counting.jsonl").read_text().splitlines()
    ]


def failing(found: Rows) -> list[str]:
    return [check.name for check in judge_counts(found).checks if check.outcome == "fails"]


@given(st.lists(st.booleans(), min_size=1, max_size=60), st.integers(1, 6), st.integers(1, 12))
def test_counts_are_those_of_plain_loops(came: list[bool], m: int, size: int) -> None:
    needed = []
    for start in range(len(came)):
        enough = [n for n in range(1, len(came) - start + 1) if sum(came[start : start + n]) >= m]
        needed += enough[:1]
    assert packets_needed(np.array(came), m).tolist() == needed
    blocks = [came[at : at + size] for at in range(0, len(came) - size + 1, size)]
    assert short_blocks(np.array(came), size, m) == (
        sum(sum(block) < m for block in blocks),
        len(blocks),
    )
    for rate in (0.0, 0.1, 0.5) if needed else ():
        least = fewest_packets(np.array(needed), rate)
        assert sum(n > least for n in needed) <= rate * len(needed) + 1e-9
        assert least == min(needed) or sum(n > least - 1 for n in needed) > rate * len(needed)


@pytest.mark.parametrize(("m", "n", "loss"), [(20, 27, 0.25), (5, 5, 0.01), (20, 40, 1 / 3)])
def test_the_tail_is_the_sum_of_equation_25(m: int, n: int, loss: float) -> None:
    terms = (math.comb(n, k) * (1 - loss) ** k * loss ** (n - k) for k in range(m))
    assert tail(m, n, loss) == pytest.approx(math.fsum(terms))


def test_true_rows_pass_and_every_check_names_its_rival() -> None:
    verdict = judge_counts(rows())
    assert verdict.passed, failing(rows())
    assert len(verdict.checks) == 5
    assert all(check.rival is not None and check.rival_note for check in verdict.checks)


def test_rates_of_which_too_few_blocks_are_expected_are_not_judged() -> None:
    few = [
        row | {"allowed": [[[0.0] * 3] * 3 for _ in row["allowed"]]}
        for row in rows()
        if row["labels"] == "random"
    ]
    assert not judge_counts(few).checks


@pytest.mark.parametrize(
    ("labels", "words"), [("stratified", "cannot be decoded with N"), ("random", "error rate 0.1")]
)
def test_blocks_that_fall_short_as_with_a_packet_fewer_fail(labels: str, words: str) -> None:
    spoilt = rows()
    for row in (row for row in spoilt if row["labels"] == labels):
        row["short"] = [
            [[own[1], *own[1:]] if len(own) > 1 else own for own in link] for link in row["short"]
        ]
    assert any(words in name for name in failing(spoilt))


@pytest.mark.parametrize("more", [-1, 1])
def test_a_policy_a_packet_off_fails_on_a_real_run(
    more: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = ror_by_counting.claimed_sizes
    monkeypatch.setattr(
        ror_by_counting, "claimed_sizes", lambda plan, link: [n + more for n in right(plan, link)]
    )
    monkeypatch.setattr(ror_by_counting, "MAX_LINKS", {"stratified": 1})
    monkeypatch.setattr(ror_by_counting, "PACKETS", {"stratified": 4000})
    point = ror_by_counting.points(quick=True, seed=1)[0]
    found = failing([point | ror_by_counting.measure(point)])
    assert any("counted is the one claimed" in name for name in found)
    assert any(
        ("cannot be decoded" if more < 0 else "lose blocks with N - 1") in name for name in found
    )


def test_unweighted_shares_are_those_of_the_counts() -> None:
    arrived = np.random.default_rng(1).random(9_000) > 0.3
    short, blocks = short_blocks(arrived, 30, 20)
    assert short > 20 and weighted_short_blocks(arrived, 30, 20, 0.3, 0.3)[0] == pytest.approx(
        short / blocks
    )


def rare_rows(off: str = "") -> Rows:
    """Ten links of 0.05 to 0.35 of the packets, their losses drawn one by one at a share at which blocks often are
    short; or ``off`` that: every fate twice, or what blocks of a packet fewer give."""
    chance, found, m = np.random.default_rng(7), [], 20
    for load in np.linspace(0.05, 0.35, 10).tolist():
        size = next(n for n in range(m, 99) if tail(m, n, load) <= 1e-5)
        lost = (size - m + 1) / size
        arrived = chance.random(100_000) > lost
        if off == "twice":
            arrived = np.repeat(arrived[::2], 2)
        sizes = (size - 1, size - 2) if off == "fewer" else (size, size - 1)
        estimates = [weighted_short_blocks(arrived, n, m, lost, load) for n in sizes]
        expected = [tail(m, n, load) for n in (size, size - 1)]
        share, error = zip(*estimates, strict=True)
        found.append(
            {"size": size, "lost": lost, "share": share, "error": error, "expected": expected}
        )
    return [row | {"rare": found} for row in rows() if row["labels"] == "random"][:1]


@pytest.mark.parametrize("off", ["", "twice", "fewer"])
def test_an_error_rate_of_the_document_is_held_by_importance_sampling(off: str) -> None:
    (check,) = (check for check in judge_counts(rare_rows(off)).checks if "1e-05" in check.name)
    assert (check.outcome == "holds") is not bool(off), check
    assert off or abs(check.measured - 1) < 0.05
