"""Parts of a judgement that several workloads share."""

from __future__ import annotations

import math

import numpy as np
import pytest

from testbed.judgement.bins import TimeBins
from testbed.judgement.counts import first_impossible, negative_count
from testbed.judgement.deliveries import packet_deliveries
from testbed.judgement.validity import (
    arrived_early,
    dropped_reason,
    first_reason,
    lost_in_no_fault,
)


def test_first_arrival_counts_in_any_order_of_the_log() -> None:
    fates = packet_deliveries(
        np.array([7, 8, 9]),
        np.array([0.0, 1.0, 2.0]),
        np.array([9, 7, 7, 5]),
        np.array([2.5, 0.75, 0.25, 0.1]),
    )
    assert fates.copies.tolist() == [2, 0, 1]
    assert fates.lost.tolist() == [False, True, False]
    assert fates.arrived_s.tolist()[::2] == [0.25, 2.5]
    assert fates.transit_s.tolist()[::2] == [0.25, 0.5]
    assert math.isnan(fates.arrived_s[1])


def test_packets_are_matched_by_all_fields_of_their_rows() -> None:
    fields = np.dtype([("flow", np.int64), ("number", np.int64)])
    sent = np.array([(1, 1), (1, 2), (2, 1)], dtype=fields)
    received = np.array([(2, 1), (2, 2)], dtype=fields)
    fates = packet_deliveries(sent, np.zeros(3), received, np.ones(2))
    assert fates.lost.tolist() == [True, True, False]


def test_empty_logs_have_no_fates() -> None:
    nothing = np.zeros(0)
    assert len(packet_deliveries(nothing, nothing, nothing, nothing).lost) == 0
    assert packet_deliveries(np.arange(2), np.zeros(2), nothing, nothing).lost.all()


def test_first_impossible_count_is_outside_its_limits() -> None:
    limits = {"sent": (1.0, 3.0), "lost": (0.0, 2.0), "late": (0.0, 0.0)}
    assert first_impossible({"sent": 1, "lost": 2}, limits) is None
    assert first_impossible({"sent": 1, "lost": None, "late": 0}, limits) is None
    assert first_impossible({"lost": 3, "late": 1}, limits) == ("lost", 3, 0.0, 2.0)
    assert first_impossible({"sent": 0.5}, limits) == ("sent", 0.5, 1.0, 3.0)


@pytest.mark.parametrize("counts", [{}, {"a": 0, "b": [0, 1], "c": "-1", "d": None}])
def test_zero_and_text_are_no_negative_counts(counts: dict[str, object]) -> None:
    assert negative_count(counts) is None


def test_reasons_of_an_invalid_run_name_their_figures() -> None:
    assert first_reason(None, "", "second", "third") == "second"
    assert first_reason(None) is None
    assert lost_in_no_fault(10, 10_000, 1e-3) is None
    assert "11 of 10000" in str(lost_in_no_fault(11, 10_000, 1e-3))
    assert dropped_reason(0, 0, "there") is None
    assert "1 packets were dropped there" in str(dropped_reason(1, 0, "there"))


def test_packets_that_arrive_before_they_were_sent_are_a_reason() -> None:
    transit_s = np.array([-0.02, 0.01, 0.01])
    assert arrived_early(transit_s, 50, 0.0) is None
    assert arrived_early(transit_s, 0, 0.02) is None
    assert "20.0 ms before" in str(arrived_early(transit_s, 0, 0.01))
    assert arrived_early(np.zeros(0), 50, 0.0) is None


def test_packets_outside_all_intervals_are_not_counted() -> None:
    times_s = np.array([-0.1, 0.0, 0.4, 0.5, 1.4, 1.5])
    bins = TimeBins(times_s, start_s=0.0, bin_s=0.5, count=3)
    assert bins.counts() == [2, 1, 1]
    assert bins.counts(times_s > 0.3) == [1, 1, 1]
    assert bins.sums(np.arange(6)) == [3.0, 3.0, 4.0]
