"""Block sizes: equation 25 against exact sums and the reference table, worst windows against brute force."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import numpy as np
import pytest

from fec import FecError, fec_block_size
from fec.redundancy.block_size import (
    binomial_interval,
    binomial_window_for,
    decoding_failure_probability,
    stratified_block_size,
    stratified_tolerance_block_size,
    stratified_window_for,
    window_share_error,
)
from fec.redundancy.labels import LABELS, StratifiedLabels

LOSSES = (0.01, 0.036, 0.05, 0.1, 0.2, 0.25, Fraction(1, 3), 0.5)
TABLE = {
    1: (3, 4, 4, 5, 8, 9, 11, 17),
    5: (8, 9, 10, 12, 16, 18, 22, 32),
    10: (13, 15, 16, 19, 24, 27, 32, 48),
    20: (24, 27, 28, 32, 40, 44, 52, 76),
}
WORST_WINDOWS = {
    0.05: (22, 24),
    0.1: (23, 26),
    0.2: (27, 29),
    0.25: (27, 31),
    1 / 3: (31, 36),
    0.5: (40, 47),
}
"""Measured figures for M = 20: one interval, eight intervals."""


@pytest.mark.parametrize("source_packets", TABLE)
def test_block_sizes_are_those_of_the_reference_table(source_packets: int) -> None:
    assert tuple(fec_block_size(source_packets, p, 1e-5) for p in LOSSES) == TABLE[source_packets]


def test_a_failure_probability_equal_to_the_error_rate_is_accepted() -> None:
    assert fec_block_size(1, 0.1, 1e-5) == 5
    assert fec_block_size(1, Fraction(1, 10), Fraction(1, 100_000)) == 5
    assert fec_block_size(1, Fraction(1, 10) + Fraction(1, 10**30), Fraction(1, 100_000)) == 6
    assert fec_block_size(1, np.float64(0.1), 1e-5) == 5


@pytest.mark.parametrize("source_packets", [1, 2, 3, 7, 20, 25])
@pytest.mark.parametrize(
    "loss", [Fraction(1, 1000), Fraction(13, 100), Fraction(2, 5), Fraction(3, 5)]
)
@pytest.mark.parametrize("rate", [Fraction(1, 100), Fraction(1, 100_000)])
def test_block_size_is_the_smallest_that_meets_equation_25(
    source_packets: int, loss: Fraction, rate: Fraction
) -> None:
    def failure(n: int) -> Fraction:
        lost = range(n - source_packets + 1, n + 1)
        return sum((comb(n, k) * loss**k * (1 - loss) ** (n - k) for k in lost), Fraction(0))

    n = fec_block_size(source_packets, loss, rate)
    assert failure(n) <= rate
    assert n == source_packets or failure(n - 1) > rate
    assert decoding_failure_probability(source_packets, n, loss) == failure(n)


def test_block_size_at_no_loss_is_the_source_packets_alone() -> None:
    assert fec_block_size(20, 0, 1e-5) == 20
    assert decoding_failure_probability(20, 20, 0) == 0
    assert decoding_failure_probability(20, 19, 0) == 1


def test_block_size_reaches_losses_near_one() -> None:
    assert fec_block_size(20, 0.99, 1e-5) == 4491
    assert decoding_failure_probability(20, 4491, 0.99) <= Fraction(1, 10**5)
    assert decoding_failure_probability(20, 4490, 0.99) > Fraction(1, 10**5)


@pytest.mark.parametrize(
    ("source_packets", "loss", "rate", "says"),
    [
        (20, 1, 1e-5, "infinite"),
        (20, 1.5, 1e-5, "infinite"),
        (20, -0.1, 1e-5, "negative"),
        (20, float("nan"), 1e-5, "finite"),
        (20, "a tenth", 1e-5, "finite"),
        (20, 0.1, 0, "between 0 and 1"),
        (20, 0.1, 1, "between 0 and 1"),
        (0, 0.1, 1e-5, "at least 1"),
    ],
)
def test_block_size_refuses_what_has_none(
    source_packets: int, loss: float, rate: float, says: str
) -> None:
    with pytest.raises(FecError, match=says):
        fec_block_size(source_packets, loss, rate)


def _evenly_placed(share: float, count: int) -> list[tuple[int, int]]:
    """``count`` equal intervals at uneven places, ``share`` of the labels in all."""
    width = int(share * LABELS) // count
    places = [
        (k * LABELS) // count + (k * k * 311) % (LABELS // count - width) for k in range(count)
    ]
    return [(at, at + width) for at in places]


@pytest.mark.parametrize(
    "intervals", [[(0, 32768)], [(100, 5000), (40000, 61000)], _evenly_placed(0.25, 8), []]
)
@pytest.mark.parametrize("source_packets", [1, 5, 20])
def test_stratified_block_size_is_the_smallest_that_every_window_meets(
    intervals: list[tuple[int, int]], source_packets: int
) -> None:
    labels = StratifiedLabels().table
    outside = ~np.logical_or.reduce(
        [(labels >= a) & (labels < b) for a, b in intervals] or [labels < 0]
    )
    running = np.concatenate([[0], np.cumsum(np.concatenate([outside, outside]))])

    def fewest(n: int) -> int:
        return int((running[n : LABELS + n] - running[:LABELS]).min())

    n = stratified_block_size(intervals, source_packets)
    assert fewest(n) >= source_packets > fewest(n - 1)


@pytest.mark.parametrize("share", WORST_WINDOWS)
def test_deterministic_block_sizes_stay_within_the_measured_figures(share: float) -> None:
    one, eight = WORST_WINDOWS[share]
    single = stratified_tolerance_block_size(share, 20)
    assert 20 / (1 - share) <= single <= eight
    assert abs(single - one) <= 2
    assert single < fec_block_size(20, share, 1e-5)


def test_tolerance_block_size_holds_at_every_position_of_the_interval() -> None:
    width = -(-LABELS * 36 // 1000)
    bound = stratified_tolerance_block_size(0.036, 20)
    positions = [0, 1, 777, 12345, 40000, LABELS - width]
    assert {stratified_block_size([(at, at + width)], 20) for at in positions} == {bound}


def test_a_link_with_every_label_has_no_block_size() -> None:
    with pytest.raises(FecError, match="every label"):
        stratified_block_size([(0, 30000), (30000, LABELS)], 20)
    with pytest.raises(FecError, match="within"):
        stratified_block_size([(5, LABELS + 1)], 20)


def test_window_share_error_matches_counting() -> None:
    intervals = [(1000, 9000), (30000, 31000)]
    labels = np.tile(StratifiedLabels().table, 2)
    hit = sum(((labels >= a) & (labels < b)).astype(np.int64) for a, b in intervals)
    share = 9000 / LABELS
    for window in (1, 37, 500):
        counts = np.convolve(hit, np.ones(window, dtype=np.int64), "valid")[:LABELS]
        assert window_share_error(intervals, window) == pytest.approx(
            float(np.abs(counts / window - share).max())
        )


@pytest.mark.parametrize("intervals", [[(0, 21845)], _evenly_placed(0.25, 8), [(7, 8)]])
@pytest.mark.parametrize("precision", [0.1, 0.01])
def test_no_window_beyond_the_chosen_one_exceeds_the_precision(
    intervals: list[tuple[int, int]], precision: float
) -> None:
    chosen = stratified_window_for(intervals, precision)
    assert chosen == 1 or window_share_error(intervals, chosen - 1) > precision
    for window in (*range(chosen, chosen + 60), 2 * chosen, 3 * chosen + 1, LABELS, LABELS + 1):
        assert window_share_error(intervals, window) <= precision + 1e-12


def test_binomial_interval_covers_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(5)
    for loss in (0.01, 0.3):
        intervals = [binomial_interval(int(k), 400, 0.95) for k in rng.binomial(400, loss, 2000)]
        assert np.mean([low <= loss <= high for low, high in intervals]) >= 0.945
    assert binomial_interval(0, 100, 0.95)[0] == 0
    assert binomial_interval(100, 100, 0.95)[1] == 1


def test_binomial_window_gives_the_precision_asked() -> None:
    sent = binomial_window_for(0.2, 0.01)
    low, high = binomial_interval(round(0.2 * sent), sent, 0.99)
    assert (high - low) / 2 == pytest.approx(0.01, rel=0.05)
    assert binomial_window_for(Fraction(0), 0.01) > 100


@pytest.mark.parametrize(
    ("loss", "precision", "confidence", "packets"),
    [(0.5, 1.0, 0.5, 1), (0.0, 0.1, 0.9, 24), (0.5, 0.01, 0.99, 16588)],
)
def test_window_of_an_independent_loss(
    loss: float, precision: float, confidence: float, packets: int
) -> None:
    assert binomial_window_for(loss, precision, confidence) == packets


@pytest.mark.parametrize(
    "wrong", [(-0.5, 0.1, 0.9), (1.5, 0.1, 0.9), (0.5, 0.0, 0.9), (0.5, 0.1, 0.0), (0.5, 0.1, 1.0)]
)
def test_window_of_what_is_no_loss_precision_or_confidence_is_refused(
    wrong: tuple[float, float, float],
) -> None:
    with pytest.raises(FecError, match="within"):
        binomial_window_for(*wrong)


def test_loss_beyond_the_longest_code_is_refused() -> None:
    assert fec_block_size(20, "0.9999999", 1e-5) > 4e8
    for loss in ("0.999999999", "0.999999999999999999"):
        with pytest.raises(FecError, match="blocks of more than 1e"):
            fec_block_size(20, loss, 1e-5)
