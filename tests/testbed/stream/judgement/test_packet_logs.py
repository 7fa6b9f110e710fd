"""Block outcomes computed from packet logs."""

from __future__ import annotations

import numpy as np

from testbed.judgement.deliveries import packet_deliveries
from testbed.stream.judgement.packet_logs import (
    ReceivedLog,
    SentLog,
    block_outcomes,
    undecided_arrivals,
)
from testbed.stream.measurements import ReceivedPackets, SentPackets


def _logs(lost: set[tuple[int, int]], blocks: int = 3, m: int = 4, n: int = 6, late: float = 0.0):
    sent, received = SentLog(), ReceivedLog()
    at = 0.0
    for block in range(blocks):
        for symbol in range(n):
            at += 0.001
            sent.add(at, at, block, symbol, 0, n)
            if (block, symbol) not in lost:
                received.add(at + 0.002 + (late if block == 1 else 0.0), block, symbol)
    return block_outcomes(sent.packets(), received.packets(), m, 0.1)


def test_block_with_enough_symbols_is_complete_when_the_mth_arrives():
    outcome = _logs({(0, 1), (0, 2)})
    assert not np.isnan(outcome.complete_s).any()
    assert outcome.complete_s[0] == np.float64(0.006 + 0.002)
    assert list(outcome.arrived) == [4, 6, 6]
    assert list(outcome.late_source_packets) == [0, 0, 0]


def test_block_without_enough_symbols_loses_only_what_did_not_arrive():
    outcome = _logs({(1, 0), (1, 1), (1, 5)})
    assert np.isnan(outcome.complete_s[1]) and not np.isnan(outcome.complete_s[[0, 2]]).any()
    assert list(outcome.late_source_packets) == [0, 2, 0]


def test_symbols_after_the_playback_deadline_do_not_count():
    outcome = _logs(set(), late=0.2)
    assert np.isnan(outcome.complete_s[1])
    assert list(outcome.late_source_packets) == [0, 4, 0]


def test_duplicate_arrivals_count_once():
    sent, received = SentLog(), ReceivedLog()
    for symbol in range(4):
        sent.add(0.001 * symbol, 0.0, 7, symbol, 0, 4)
    for _ in range(3):
        received.add(0.01, 7, 0)
    outcome = block_outcomes(sent.packets(), received.packets(), 2, 1.0)
    assert list(outcome.arrived) == [1] and np.isnan(outcome.complete_s[0])


def test_lag_of_the_sender_is_the_worst_one():
    sent = SentLog()
    sent.add(1.0, 0.99, 0, 0, 0, 1)
    sent.add(2.0, 1.5, 0, 1, 0, 1)
    sent.add(3.0, 3.0, 0, 2, 0, 1)
    assert sent.worst_lag_s == 0.5


def test_arrivals_that_clocks_cannot_compare_with_the_buffer_are_counted() -> None:
    sent = SentPackets(
        time_s=np.array([0.0, 0.1, 0.2, 0.3]),
        block=np.zeros(4, dtype=np.int64),
        symbol=np.arange(4),
        label=np.arange(4),
        block_size=np.full(4, 4),
    )
    received = ReceivedPackets(
        time_s=np.array([0.05, 0.598, 0.602, 0.75, 0.9]),
        block=np.zeros(5, dtype=np.int64),
        symbol=np.array([0, 2, 1, 3, 2]),
    )
    deliveries = packet_deliveries(sent.key, sent.time_s, received.key, received.time_s)
    assert undecided_arrivals(deliveries, 0.4, 0.0) == 0
    assert undecided_arrivals(deliveries, 0.4, 0.003) == 1  # symbol 2 by its first arrival
    assert undecided_arrivals(deliveries, 0.4, 0.06) == 2
    assert undecided_arrivals(deliveries, 0.4, 0.2) == 3
