"""The E-model against values of its recommendations, and over calls whose packets are lost in bursts."""

from __future__ import annotations

import math

import numpy as np
import pytest

from testbed.tunnel.voice_quality import (
    burst_ratio,
    call_opinion,
    opinion,
    opinions_over_time,
    rating,
)


@pytest.mark.parametrize(
    ("r", "score"), [(90, 4.34), (80, 4.03), (70, 3.60), (60, 3.10), (50, 2.58)]
)
def test_opinions_are_those_of_annex_b(r: float, score: float) -> None:
    assert opinion(r) == pytest.approx(score, abs=0.01)


@pytest.mark.parametrize(("percent", "worse"), [(0, 0.0), (1, 3.64), (5, 15.78), (20, 42.13)])
def test_random_loss_lowers_g711_by_its_equipment_factor(percent: float, worse: float) -> None:
    """95 Ppl / (Ppl + 25.1): G.711 with concealment."""
    assert 93.2 - rating(percent / 100, 1.0, 50) == pytest.approx(worse, abs=0.01)


def test_delay_counts_from_100_ms_on_and_more_and_more() -> None:
    worse = [93.2 - rating(0, 1, ms) for ms in (100, 150, 200, 300, 400)]
    assert worse[0] == 0 and worse == sorted(worse) and 10 < worse[3] < worse[4] < 30


def test_the_same_loss_in_bursts_sounds_worse() -> None:
    spread, burst = np.zeros(1000, dtype=bool), np.zeros(1000, dtype=bool)
    spread[::20], burst[100:150] = True, True
    assert burst_ratio(spread) == 1 and burst_ratio(burst) == pytest.approx(47.5)
    assert call_opinion(burst) < call_opinion(spread) < call_opinion(np.zeros(1000, dtype=bool))
    assert call_opinion(np.ones(10, dtype=bool)) == pytest.approx(1.0, abs=0.2)


def test_late_packets_are_lost_ones_of_their_second() -> None:
    sent = [k * 0.02 for k in range(150)]
    delay = [0.01] * 50 + [0.2] * 50 + [math.inf] * 50
    curve = opinions_over_time(sent, delay, 1.0)
    assert [at for at, _ in curve] == [0.5, 1.5, 2.5]
    assert curve[0][1] > 4.3 and curve[1][1] == curve[2][1] < 2
