"""What must hold for every loss and every link: block sizes are the smallest that suffice, and grow with the loss."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fec import fec_block_size, ror
from fec.redundancy.block_size import (
    decoding_failure_probability,
    stratified_block_size,
    stratified_tolerance_block_size,
    window_share_error,
)
from fec.redundancy.labels import LABELS, StratifiedLabels
from tests.helpers.drawn import drawn

losses = st.fractions(0, Fraction(9, 10), max_denominator=10**6)
rates = st.sampled_from([Fraction(1, 10), Fraction(1, 100), Fraction(1, 10**5), Fraction(1, 10**9)])


@given(m=st.integers(1, 40), loss=losses, rate=rates)
def test_block_size_is_the_smallest_within_the_error_rate(
    m: int, loss: Fraction, rate: Fraction
) -> None:
    n = fec_block_size(m, loss, rate)
    assert n >= m
    assert decoding_failure_probability(m, n, loss) <= rate
    assert n == m or decoding_failure_probability(m, n - 1, loss) > rate


@given(
    m=st.integers(1, 10),
    n=st.integers(1, 60),
    loss=st.fractions(Fraction(1, 100), Fraction(9, 10), max_denominator=100),
)
def test_an_error_rate_met_exactly_is_met(m: int, n: int, loss: Fraction) -> None:
    """The boundary itself: DER equal to a failure probability must give that N, a hair below it one more."""
    n += m
    exact = decoding_failure_probability(m, n, loss)
    assert fec_block_size(m, loss, exact) == n
    assert fec_block_size(m, loss, exact - exact / 10**40) == n + 1


@given(m=st.integers(1, 30), a=losses, b=losses)
def test_more_loss_never_needs_a_smaller_block(m: int, a: Fraction, b: Fraction) -> None:
    low, high = sorted((a, b))
    assert fec_block_size(m, low, 1e-5) <= fec_block_size(m, high, 1e-5)
    assert stratified_tolerance_block_size(low, m) <= stratified_tolerance_block_size(high, m)


@drawn(60)
@given(
    cuts=st.lists(st.integers(0, LABELS), min_size=2, max_size=12, unique=True).map(sorted),
    m=st.integers(1, 30),
    offset=st.integers(0, LABELS - 1),
)
def test_every_block_of_the_worst_window_size_decodes(cuts: list[int], m: int, offset: int) -> None:
    intervals = list(zip(cuts[::2], cuts[1::2], strict=False))
    if sum(b - a for a, b in intervals) == LABELS:
        intervals = [(0, LABELS - 1)]
    n = stratified_block_size(intervals, m)
    labels = np.array([StratifiedLabels().label(offset + i) for i in range(n)])
    lost = sum(int(((labels >= a) & (labels < b)).sum()) for a, b in intervals)
    assert n - lost >= m
    share = Fraction(sum(b - a for a, b in intervals), LABELS)
    assert abs(Fraction(lost, n) - share) <= Fraction(window_share_error(intervals, n)) + Fraction(
        1, 10**9
    )


@given(
    start=st.integers(0, LABELS - 1), m=st.integers(1, 30), tolerance=st.integers(0, LABELS // 2)
)
@drawn(60)
def test_intervals_within_the_tolerance_need_at_most_their_block_size(
    start: int, m: int, tolerance: int
) -> None:
    interval = (start, min(LABELS, start + tolerance))
    assert stratified_block_size([interval], m) <= stratified_tolerance_block_size(
        Fraction(tolerance, LABELS), m
    )


@given(loads=st.lists(losses, max_size=8), t=st.fractions(0, Fraction(1, 2), max_denominator=1000))
def test_ror_is_a_sum_over_links_and_large_blocks_need_less(
    loads: list[Fraction], t: Fraction
) -> None:
    def of(chosen: list[Fraction], large: bool = False) -> float:
        return ror(
            chosen, tolerance=t, source_packets=20, decoding_error_rate=1e-5, large_blocks=large
        )

    assert of(loads) >= 0
    assert np.isclose(of(loads), sum(of([r]) for r in loads))
    assert np.isclose(of(loads, large=True), sum(of([r], large=True) for r in loads))


def test_importing_the_package_loads_no_compiler_no_scapy_and_no_scipy() -> None:
    heavy = "{'numba', 'scapy', 'scipy', 'reedsolo', 'ctypes.util'}"
    program = f"import sys, fec, fec.protocol.wire, fec.redundancy.labels; print(sorted({heavy} & set(sys.modules)))"
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert out.stdout.strip() == "[]"
