"""Losses of a full queue are told from failures: by a queue that stands, and by what TCP would send at such losses."""

from __future__ import annotations

from random import Random

import pytest

from fec.redundancy.adaptation import AdaptationParameters, BlockSizeController
from fec.redundancy.block_size import fec_block_size
from fec.redundancy.block_size_control import PacketReport
from fec.redundancy.congestion import CongestionBreaker


def opened(
    round_trip_s: float, loss: float, pps: float, *, spread_s: float = 0.0, lasts_s: float = 1.0
) -> bool:
    breaker = CongestionBreaker(interval_s=0.1, spread_s=spread_s, hold_s=2.0)
    breaker.add(0.0, round_trip_s=0.02, loss=0.0, sent_pps=pps, raised=False)
    for k in range(1, int(lasts_s / 0.05) + 1):
        breaker.add(0.05 * k, round_trip_s=round_trip_s, loss=loss, sent_pps=pps, raised=loss > 0)
    return breaker.open


@pytest.mark.parametrize(
    ("case", "opens"),
    [
        ({"round_trip_s": 0.07, "loss": 0.1, "pps": 1000}, True),
        ({"round_trip_s": 0.02, "loss": 0.1, "pps": 1000}, False),  # as long as before: no queue
        ({"round_trip_s": 0.07, "loss": 0.0, "pps": 1000}, False),
        ({"round_trip_s": 0.07, "loss": 0.1, "pps": 500}, False),  # ten times TCP are 553
        ({"round_trip_s": 0.07, "loss": 0.1, "pps": 1000, "spread_s": 0.05}, False),
        ({"round_trip_s": 0.07, "loss": 0.1, "pps": 1000, "lasts_s": 0.3}, False),
        ({"round_trip_s": 0.07, "loss": 0.1, "pps": 1000, "lasts_s": 0.7}, True),
    ],
)
def test_congestion_begins_after_three_intervals_of_queue_at_ten_times_tcp(
    case: dict[str, float], opens: bool
) -> None:
    assert opened(**case) == opens


def test_congestion_ends_when_the_queue_was_empty_for_the_hold_time() -> None:
    breaker = CongestionBreaker(interval_s=0.1, spread_s=0.0, hold_s=2.0)
    states = []
    for k in range(80):
        trip_s = 0.07 if 10 <= k < 30 else 0.02
        loss = 0.1 if 10 <= k < 30 else 0.02
        breaker.add(0.1 * k, round_trip_s=trip_s, loss=loss, sent_pps=1000, raised=k >= 10)
        states.append(breaker.open)
    assert not any(states[:12]) and all(states[14:48]) and not any(states[50:])


def states(trips: list[float], losses: list[float]) -> list[bool]:
    """Open or not after each of as many reports; N is raised while there are losses."""
    breaker = CongestionBreaker(interval_s=0.1, spread_s=0.0, hold_s=2.0)
    found = []
    for k, (trip_s, loss) in enumerate(zip(trips, losses, strict=True)):
        breaker.add(0.1 * k, round_trip_s=trip_s, loss=loss, sent_pps=1000, raised=loss > 0)
        found.append(breaker.open)
    return found


def test_neither_jitter_nor_another_delay_is_a_queue() -> None:
    chance = Random(1)
    jittered = [0.05 + 0.04 * chance.random() for _ in range(200)]
    assert not any(states(jittered, [0.0] * 50 + [0.2] * 150))
    assert not any(states([0.02] * 40 + [0.2] * 160, [0.0] * 80 + [0.2] * 120))


def test_answers_only_losses_that_redundancy_does_not_cause() -> None:
    trips = [0.02] * 20 + [0.08] * 120
    same = states(trips, [0.0] * 20 + [0.2] * 120)
    assert any(same[22:40]) and not any(same[44:])
    own = states(trips, [0.0] * 20 + [0.2] * 40 + [0.4] * 20 + [0.2] * 60)
    assert not own[55] and all(own[62:95])


def controlled(trip_of: dict[bool, float]) -> list[tuple[int, bool]]:
    """(N, late parity) after each of 100 reports, of which those from 20 on tell of every tenth packet lost, of every
    fifth while N is greater than at rest."""
    control = BlockSizeController(
        AdaptationParameters(base=22, deterministic=False),
        lambda loss: fec_block_size(20, round(loss, 4), 1e-5),
    )
    told = []
    for k in range(100):
        lossy, every = k >= 20, 5 if control.block_size > 22 else 10
        news = [PacketReport(0, lossy and i % every == 0, 0.1 * k + 0.001 * i) for i in range(100)]
        control.on_packet_reports(news, 0.1 * (k + 1), trip_of[lossy])
        told.append((control.block_size, control.late_parity))
    return told


def test_a_sender_answers_losses_but_not_those_of_its_own_queue() -> None:
    lossy, congested = (controlled({False: 0.02, True: trip_s}) for trip_s in (0.02, 0.08))
    assert lossy[-1][0] > 35 and lossy[-1][1]
    assert congested[-1] == (22, False)
