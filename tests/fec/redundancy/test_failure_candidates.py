"""Suspects and the labels that they lose, against counting label by label; blocks that are closed early, against
counting windows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fec.errors import FecError
from fec.redundancy.block_size import block_size_of_order
from fec.redundancy.candidates import CandidateTable, FailureCandidate
from fec.redundancy.congestion import CongestionBreaker, tcp_rate_pps
from fec.redundancy.labels import LABELS
from fec.redundancy.short_blocks import ShortBlocks
from tests.helpers.drawn import drawn

intervals = st.lists(st.integers(0, LABELS), min_size=2, max_size=6, unique=True).map(
    lambda edges: tuple(zip(sorted(edges)[::2], sorted(edges)[1::2], strict=False))
)


@drawn(30)
@given(
    st.lists(intervals, min_size=1, max_size=5),
    st.lists(st.integers(0, LABELS - 1), min_size=1, max_size=9),
)
def test_labels_and_suspects_are_those_of_counting_label_by_label(
    sets: list[tuple[tuple[int, int], ...]], labels: list[int]
) -> None:
    table = CandidateTable(
        [FailureCandidate(name=str(k), intervals=own) for k, own in enumerate(sets)]
    )
    inside = np.zeros((len(sets), LABELS), dtype=bool)
    for number, own in enumerate(sets):
        for start, stop in own:
            inside[number, start:stop] = True
    edges = sorted({edge for own in sets for interval in own for edge in interval} - {LABELS})
    for label in (*labels, 0, LABELS - 1, *edges):
        assert list(table.holding(table.bit_of(label))) == np.flatnonzero(inside[:, label]).tolist()
    for number, mask in enumerate(table.masks):
        assert table.labels_in(mask) == inside[number].sum()
        assert all(bool(mask & table.bit_of(label)) == inside[number, label] for label in labels)
    union = table.masks[0] | table.masks[-1]
    found = np.zeros(LABELS, dtype=bool)
    for start, stop in table.intervals_in(union):
        assert not found[start:stop].any() and (start == 0 or not found[start - 1]), (
            "adjacent ones are one"
        )
        found[start:stop] = True
    assert np.array_equal(found, inside[0] | inside[-1])


@pytest.mark.parametrize("interval", [(-1, 5), (0, LABELS + 1)])
def test_no_suspects_and_labels_outside_of_the_label_space_are_refused(
    interval: tuple[int, int],
) -> None:
    with pytest.raises(FecError, match="no suspects"):
        CandidateTable([])
    with pytest.raises(FecError, match="give 0 to 65536"):
        CandidateTable([FailureCandidate(name="x", intervals=(interval,))])


@drawn(6)
@given(
    st.lists(intervals, min_size=1, max_size=3),
    st.integers(1, 9),
    st.permutations(range(12)).map(tuple),
)
def test_short_block_has_the_parity_of_failures_that_n_covers(
    sets: list[tuple[tuple[int, int], ...]], m: int, rule: tuple[int, ...]
) -> None:
    sizes = [[block_size_of_order(own, k, rule) for k in range(1, m + 1)] for own in sets]
    if any(size is None or size > 200 for own in sizes for size in own):
        return
    short = ShortBlocks(sets, m, rule)
    assert short.whole == max(own[-1] or 0 for own in sizes)
    for size in range(m, short.whole + 3):
        stood = [own for own in sizes if (own[-1] or 0) <= size]
        for k in range(1, m + 1):
            spare = size - m
            needed = max(((own[k - 1] or 0) - k for own in stood), default=0)
            expected = (
                spare if size > short.whole else min(spare, max(needed, math.ceil(spare * k / m)))
            )
            assert short.parity(k, size) == expected


def test_parity_at_rest_is_the_same_share_of_a_short_block() -> None:
    quarter = [(0, 16384)]
    plain = ShortBlocks([quarter], 20, 40503)
    rested = ShortBlocks([quarter], 20, 40503, base_size=28)
    assert plain.whole == rested.whole == 28
    assert [plain.parity(k, 28) for k in (1, 4, 19, 20)] == [1, 3, 8, 8]
    assert [rested.parity(k, 28) for k in (1, 4, 19, 20)] == [1, 2, 8, 8]
    assert [plain.parity(k, 20) for k in (1, 20)] == [0, 0] and plain.parity(3, 10) == 0
    assert [plain.parity(k, 29) for k in (1, 20)] == [9, 9]
    with pytest.raises(FecError, match="no failures"):
        ShortBlocks([], 20, 40503)


def test_tcp_takes_what_mathis_says_and_all_where_nothing_is_lost() -> None:
    assert tcp_rate_pps(0.015, 0.1) == pytest.approx(100)
    assert tcp_rate_pps(0.06, 0.1) == pytest.approx(50) and tcp_rate_pps(
        0.015, 0.2
    ) == pytest.approx(50)
    assert tcp_rate_pps(0.0, 0.1) == tcp_rate_pps(0.015, 0.0) == math.inf


def test_a_queue_is_five_milliseconds_beyond_what_was_usual() -> None:
    for trip_s, opens in ((0.0249, False), (0.0251, True)):
        breaker = CongestionBreaker(interval_s=0.1, spread_s=0.0, hold_s=2.0)
        breaker.add(0.0, round_trip_s=0.02, loss=0.0, sent_pps=5000, raised=False)
        for k in range(1, 9):
            breaker.add(0.1 * k, round_trip_s=trip_s, loss=0.1, sent_pps=5000, raised=True)
        assert (breaker.open, breaker.calm) == (opens, not opens)


def test_ten_times_what_tcp_would_send_is_too_much() -> None:
    limit = 10 * tcp_rate_pps(0.1, 0.07)
    for pps, opens in ((0.99 * limit, False), (1.01 * limit, True)):
        breaker = CongestionBreaker(interval_s=0.1, spread_s=0.0, hold_s=2.0)
        breaker.add(0.0, round_trip_s=0.02, loss=0.0, sent_pps=pps, raised=False)
        for k in range(1, 9):
            breaker.add(0.1 * k, round_trip_s=0.07, loss=0.1, sent_pps=pps, raised=True)
        assert breaker.open == opens
