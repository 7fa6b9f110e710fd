"""Losses of a full queue are told from failures: by a queue that stands, and by what TCP would send at such losses."""

from __future__ import annotations

import pytest

from fec.redundancy.adaptation import AdaptationParameters, BlockSizeController
from fec.redundancy.block_size import fec_block_size
from fec.redundancy.block_size_control import PacketReport
from fec.redundancy.congestion import CongestionBreaker


def opened(round_trip_s: float, loss: float, pps: float, *, spread_s: float = 0.0, lasts_s: float = 1.0) -> bool:
    breaker = CongestionBreaker(interval_s=0.1, spread_s=spread_s, hold_s=2.0)
    breaker.add(0.0, round_trip_s=0.02, loss=0.0, sent_pps=pps)
    for k in range(1, int(lasts_s / 0.05) + 1):
        breaker.add(0.05 * k, round_trip_s=round_trip_s, loss=loss, sent_pps=pps)
    return breaker.open


@pytest.mark.parametrize(
    ("case", "opens"),
    [
        ({"round_trip_s": 0.07, "loss": 0.1, "pps": 1000}, True),
        ({"round_trip_s": 0.02, "loss": 0.1, "pps": 1000}, False),  # as long as ever: no queue
        ({"round_trip_s": 0.07, "loss": 0.0, "pps": 1000}, False),
        ({"round_trip_s": 0.07, "loss": 0.1, "pps": 500}, False),  # ten times TCP are 553
        ({"round_trip_s": 0.07, "loss": 0.1, "pps": 1000, "spread_s": 0.05}, False),
        ({"round_trip_s": 0.07, "loss": 0.1, "pps": 1000, "lasts_s": 0.3}, False),
        ({"round_trip_s": 0.07, "loss": 0.1, "pps": 1000, "lasts_s": 0.7}, True),
    ],
)
def test_it_opens_after_three_intervals_of_a_queue_and_ten_times_what_tcp_would_send(
    case: dict[str, float], opens: bool
) -> None:
    assert opened(**case) == opens


def test_it_closes_when_the_queue_has_been_gone_for_the_hold_time() -> None:
    breaker = CongestionBreaker(interval_s=0.1, spread_s=0.0, hold_s=2.0)
    states = []
    for k in range(80):
        trip_s = 0.07 if 10 <= k < 30 else 0.02
        breaker.add(0.1 * k, round_trip_s=trip_s, loss=0.1, sent_pps=1000)
        states.append(breaker.open)
    assert not any(states[:12]) and all(states[14:48]) and not any(states[50:])


def controlled(trip_of: dict[bool, float]) -> list[tuple[int, bool]]:
    """(N, late parity) after each of 100 reports, of which those from 20 on tell of every fifth packet lost."""
    control = BlockSizeController(
        AdaptationParameters(base=22, deterministic=False), lambda loss: fec_block_size(20, round(loss, 4), 1e-5)
    )
    told = []
    for k in range(100):
        lossy = k >= 20
        news = [PacketReport(0, lossy and i % 5 == 0, 0.1 * k + 0.001 * i) for i in range(100)]
        control.on_packet_reports(news, 0.1 * (k + 1), trip_of[lossy])
        told.append((control.block_size, control.late_parity))
    return told


def test_a_sender_answers_losses_but_not_those_of_its_own_queue() -> None:
    lossy, congested = (controlled({False: 0.02, True: trip_s}) for trip_s in (0.02, 0.08))
    assert lossy[-1][0] > 35 and lossy[-1][1]
    assert congested[-1] == (22, False)
