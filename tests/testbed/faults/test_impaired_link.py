"""Impairments packet by packet: statistics of each by theory, order, traces, and the same for the same seed."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.faults.impaired_link import ImpairedLink
from tests.helpers.drawn import drawn
from topologies.errors import TopologyError
from topologies.impairments import (
    GilbertElliott,
    RateTrace,
    impairment_text,
    mean_loss,
    parse_impairments,
    parse_trace,
    to_text,
)

LINK = ("a", "b", 0)


def _fates(words: str, packets: int, *, gap_s: float = 0.001, seed: int = 1) -> list[list[float]]:
    link = ImpairedLink(parse_impairments(words), LINK, seed=seed)
    return [link.offer(k * gap_s, 514) for k in range(packets)]


@drawn(25)
@given(
    p=st.floats(0.02, 0.4),
    r=st.floats(0.05, 0.9),
    bad=st.floats(0.3, 1.0),
    good=st.floats(0.0, 0.2),
    seed=st.integers(0, 1000),
)
def test_burst_chain_loses_as_theory_says(
    p: float, r: float, bad: float, good: float, seed: int
) -> None:
    chain = GilbertElliott(p=p, r=r, bad_loss=bad, good_loss=good)
    packets = 20_000
    lost = [not times for times in _fates(str(chain), packets, seed=seed)]
    inflation = (1 + max(0.0, chain.memory)) / (1 - max(0.0, chain.memory))
    error = 5 * math.sqrt(0.25 * inflation / packets)
    assert abs(sum(lost) / packets - chain.mean_loss) < error
    spread = chain.loss_in_bad_state * (1 - chain.loss_in_bad_state) * (bad - good) ** 2
    both = sum(a and b for a, b in itertools.pairwise(lost)) / packets
    assert abs(both - (chain.mean_loss**2 + spread * chain.memory)) < error


@pytest.mark.parametrize("share", [0.05, 0.3, 1.0])
def test_random_loss_takes_its_share_of_the_packets(share: float) -> None:
    lost = sum(not times for times in _fates(f"loss:{share}", 4000))
    assert abs(lost / 4000 - share) <= 5 * math.sqrt(share * (1 - share) / 4000)


def test_bursts_of_a_simple_chain_last_one_over_r_packets_on_average() -> None:
    lost = [not times for times in _fates("ge:p=0.02,r=0.25", 60_000)]
    bursts = sum(b and not a for a, b in zip([False, *lost], lost, strict=False))
    assert sum(lost) / bursts == pytest.approx(4.0, rel=0.08)


def test_the_same_seed_gives_the_same_fates_and_another_seed_others() -> None:
    assert _fates("ge:p=0.1,r=0.3 jitter:0.01", 500) == _fates("ge:p=0.1,r=0.3 jitter:0.01", 500)
    assert _fates("loss:0.3", 500) != _fates("loss:0.3", 500, seed=2)


def test_jitter_is_even_around_its_delay_and_lets_packets_overtake() -> None:
    waits = [
        times[0] - 0.001 * k for k, times in enumerate(_fates("delay:0.02,jitter=0.01", 20_000))
    ]
    assert min(waits) >= 0.01 - 1e-9 and max(waits) <= 0.03 + 1e-9
    assert sum(waits) / len(waits) == pytest.approx(0.02, abs=2e-4)
    leaves = [times[0] for times in _fates("delay:0.02,jitter=0.01", 200)]
    assert leaves != sorted(leaves)


def test_reordered_share_goes_at_once_and_all_others_wait() -> None:
    waits = [
        times[0] - 0.001 * k for k, times in enumerate(_fates("reorder:0.25,delay=0.03", 20_000))
    ]
    assert sum(wait == 0 for wait in waits) / len(waits) == pytest.approx(0.25, abs=0.02)
    assert {round(wait, 6) for wait in waits} == {0.0, 0.03}


def test_duplicated_share_comes_twice() -> None:
    copies = [len(times) for times in _fates("duplicate:0.1", 20_000)]
    assert sum(copies) / len(copies) == pytest.approx(1.1, abs=0.01)


def test_copies_of_a_packet_meet_what_comes_after_it_one_by_one() -> None:
    link = ImpairedLink(parse_impairments("duplicate:1 loss:0.5"), LINK, seed=3)
    copies = [len(link.offer(k / 1000, 100)) for k in range(4000)]
    assert {0, 1, 2} == set(copies)
    assert copies.count(1) / 4000 == pytest.approx(0.5, abs=0.04)
    assert link.counts.lost == copies.count(0) and link.counts.copies == copies.count(2)


def test_trace_passes_1500_bytes_per_opportunity() -> None:
    link = ImpairedLink((RateTrace(times_ms=(0, 10, 10, 30)),), LINK, seed=1, queue_bytes=100_000)
    whole = 1514
    assert link.offer(0.0, whole) == [0.0]
    assert link.offer(0.0, whole) == [pytest.approx(0.010)]
    assert link.offer(0.0, whole) == [pytest.approx(0.010)]
    assert link.offer(0.001, whole) == [pytest.approx(0.030)]
    assert link.offer(0.065, whole) == [
        pytest.approx(0.070)
    ]  # the trace comes again after 30 ms: 60, 70, 70, 90


def test_small_packets_share_an_opportunity() -> None:
    link = ImpairedLink((RateTrace(times_ms=(5, 10)),), LINK, seed=1)
    leaves = [link.offer(0.0, 614)[0] for _ in range(5)]
    assert leaves == [pytest.approx(t) for t in (0.005, 0.005, 0.010, 0.010, 0.010)]


def test_trace_loses_what_its_queue_cannot_hold() -> None:
    link = ImpairedLink((RateTrace(times_ms=(1000,)),), LINK, seed=1, queue_bytes=3000)
    assert [len(link.offer(0.0, 1514)) for _ in range(4)] == [1, 1, 0, 0]


@drawn(30)
@given(
    gaps=st.lists(st.integers(0, 40), min_size=1, max_size=30).filter(lambda g: sum(g) > 0),
    arrivals=st.lists(st.floats(0, 3), min_size=1, max_size=60),
    sizes=st.integers(60, 1514),
)
def test_trace_keeps_order_times_and_rate(
    gaps: list[int], arrivals: list[float], sizes: int
) -> None:
    times, at = [], 0
    for gap in gaps:
        times.append(at := at + gap)
    trace = RateTrace(times_ms=tuple(times))
    link = ImpairedLink((trace,), LINK, seed=1, queue_bytes=10**9)
    came = sorted(arrivals)
    left = [link.offer(now, sizes)[0] for now in came]
    assert left == sorted(left)
    assert all(b >= a for a, b in zip(came, left, strict=True))
    span = left[-1] - came[0]
    rounds = span / trace.period_s + 2
    assert (sizes - 14) * len(left) <= 1500 * len(times) * rounds + 1500


def test_words_come_back_from_their_text_with_a_trace_inside() -> None:
    words = (
        "loss:0.1 ge:p=0.01,r=0.3,1-h=0.9,1-k=0.001 delay:0.02,jitter=0.01 reorder:0.2 duplicate:0.05 "
        "trace:ms=0+12x3+40"
    )
    known = parse_impairments(words)
    assert parse_impairments(impairment_text(known)) == known
    assert known[-1] == RateTrace(times_ms=(0, 12, 24, 36, 76))
    assert to_text(known).startswith(
        "loss:0.1 ge:p=0.01,r=0.3,1-h=0.9,1-k=0.001 delay:0.02,jitter=0.01 reorder:0.2,delay=0.01"
    )
    assert mean_loss(known[:2]) == pytest.approx(1 - 0.9 * (1 - known[1].mean_loss))


@pytest.mark.parametrize(
    ("with_units", "plain"),
    [
        ("delay:10ms,jitter=5ms loss:1%", "delay:0.01,jitter=0.005 loss:0.01"),
        ("jitter:5 ms", "jitter:0.005"),
        ("ge:p=1%,r=30%,1-h=90%", "ge:p=0.01,r=0.3,1-h=0.9"),
        ("reorder:25 %,delay=10ms duplicate:2%", "reorder:0.25,delay=0.01 duplicate:0.02"),
    ],
)
def test_impairments_take_units(with_units: str, plain: str) -> None:
    assert parse_impairments(with_units) == parse_impairments(plain)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("ge:p=2,r=0.1", "p=2 is not a probability"),
        ("ge:r=0.1", "p is missing"),
        ("ge:p=0.1,q=1", "'q=1' is none of p=, r=, 1-h=, 1-k="),
        ("loss:0", "above 0"),
        ("jitter:x", "'x' is not a number"),
        ("jitter:nan", "not a number"),
        ("delay:10%", "'10%' is not a number; give seconds or a unit, as 10ms"),
        ("loss:5ms", "'5ms' is not a number; give 0.01 or 1%"),
        ("rate:10Mbit", "write it as capacity"),
        ("delay:0.01,jitter=0.02", "a delay cannot be negative"),
        ("reorder:1", "between 0 and 1"),
        ("corrupt:0.1", "write loss:FRACTION"),
        ("gemodel:0.1", "none of loss:, ge:"),
        ("trace:", "name the trace's file"),
        ("trace:ms=a", "gaps of ms"),
        ("trace:ms=0", "duration is 0 ms"),
        ("trace:no/such/file", "cannot be read"),
    ],
)
def test_wrong_words_are_refused_in_one_line(words: str, said: str) -> None:
    with pytest.raises(TopologyError, match=said) as caught:
        parse_impairments(words)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0\nx\n", "line 2: not a whole number"),
        ("5\n3\n", "line 2: this time is less than the one before"),
        ("\n\n", "no line with a time"),
        ("-1\n", "line 1"),
    ],
)
def test_wrong_traces_are_refused_with_their_line(text: str, said: str) -> None:
    with pytest.raises(TopologyError, match=said):
        parse_trace(text, "t.mahi")


def test_trace_tells_its_rate() -> None:
    trace = parse_trace("".join(f"{ms}\n" for ms in range(1, 1001)), "12mbps")
    assert trace.mean_rate_bps == 12e6 and trace.gaps == "1x1000" and trace.period_s == 1.0
