"""The rate that a machine can stream at its ease follows from what a packet costs both ends on a clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fec.protocol.receiver import StreamReceiver
from fec.protocol.sender import StreamSender
from testbed.stream.emulated import calibration


class SlowEnds:
    """A clock that only moves while the stream's ends work: so long for each packet sent, so long for each that is
    received."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = self.send_s = self.receive_s = 0.0
        self.sent = self.received = self.decoded = 0
        packets_due, receive = StreamSender.packets_due, StreamReceiver.receive

        def slow_packets_due(sender: StreamSender, now_s: float, limit: int = 64) -> list[Any]:
            due = packets_due(sender, now_s, limit)
            self.sent += len(due)
            self.now_s += self.send_s * len(due)
            return due

        def slow_receive(receiver: StreamReceiver, data: bytes, now_s: float) -> list[Any]:
            events = receive(receiver, data, now_s)
            self.received += 1
            self.decoded += any(getattr(event, "recovered", False) for event in events)
            self.now_s += self.receive_s
            return events

        monkeypatch.setattr(StreamSender, "packets_due", slow_packets_due)
        monkeypatch.setattr(StreamReceiver, "receive", slow_receive)
        monkeypatch.setattr(calibration.time, "perf_counter", self.clock)
        self.on_start: Callable[[], None] = lambda: None

    def clock(self) -> float:
        self.on_start()
        return self.now_s


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> SlowEnds:
    return SlowEnds(monkeypatch)


@pytest.mark.parametrize(
    ("cost_s", "rate_pps"), [(1e-6, 1000), (2.5e-5, 500), (5e-5, 250), (1e-2, 125)]
)
def test_the_dearer_a_packet_the_fewer_are_streamed(
    ends: SlowEnds, cost_s: float, rate_pps: float
) -> None:
    ends.send_s = ends.receive_s = cost_s
    assert calibration.affordable_rate_pps() == rate_pps
    taken = (
        rate_pps * cost_s * (1.4 + 1.05)
    )  # 28 packets sent and 21 received for 20 source packets
    assert taken <= calibration.SHARE or rate_pps == calibration.STEPS_PPS[-1]
    assert rate_pps == calibration.STEPS_PPS[0] or 2 * taken > calibration.SHARE


def test_both_ends_are_paid_for_and_blocks_are_decoded(ends: SlowEnds) -> None:
    ends.send_s = 1e-5
    sending = calibration._seconds_per_source_packet()
    assert ends.decoded >= 15 and 0.7 < ends.received / ends.sent < 0.8
    ends.send_s, ends.receive_s = 0.0, 1e-5
    receiving = calibration._seconds_per_source_packet()
    assert sending == pytest.approx(1.4e-5, rel=0.05) and receiving == pytest.approx(
        1.05e-5, rel=0.05
    )


def test_a_busy_moment_does_not_count(ends: SlowEnds) -> None:
    costs = iter([1e-2, 1e-2, 1e-2, 1e-2, 1e-6, 1e-6])  # each run reads the clock twice

    def next_cost() -> None:
        ends.send_s = next(costs)

    ends.on_start = next_cost
    assert calibration.affordable_rate_pps() == 1000
