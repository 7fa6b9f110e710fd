"""The rate that a machine can stream at its ease follows from what a packet costs it."""

from __future__ import annotations

import pytest

from testbed.stream.emulated import calibration


@pytest.mark.parametrize(("cost_s", "rate_pps"), [(1e-5, 1000), (4e-5, 1000), (5e-5, 500), (1.5e-4, 250), (1e-2, 125)])
def test_slower_machine_streams_fewer_packets(monkeypatch: pytest.MonkeyPatch, cost_s: float, rate_pps: float) -> None:
    monkeypatch.setattr(calibration, "_seconds_per_source_packet", lambda: cost_s)
    assert calibration.affordable_rate_pps() == rate_pps


def test_cost_of_a_packet_is_measured_on_the_stream_itself() -> None:
    assert 0 < calibration._seconds_per_source_packet() < 0.1
