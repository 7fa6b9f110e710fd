"""The ends of an emulated stream are compiled where they can be; what they log is what plain ends log."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from fec.adapters.raw_sockets import Messages
from fec.errors import EngineUnavailable
from fec.protocol.receiver import StreamReceiver
from testbed.stream.emulated.ends import fastest
from testbed.stream.emulated.frames import LabelledFrames
from testbed.stream.judgement.packet_logs import SentLog


def test_a_machine_without_compiled_code_is_told_so_in_one_line_and_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    def build(kind: str) -> StreamReceiver:
        if kind == "compiled":
            raise EngineUnavailable("packets are received one by one: nothing is compiled ahead for this machine")
        return kind  # type: ignore[return-value]

    with caplog.at_level(logging.WARNING):
        assert fastest(build, ("compiled", "plain")) == "plain"
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["packets are received one by one"]


def test_a_batch_is_logged_as_its_packets_one_after_another() -> None:
    batch, single = SentLog(), SentLog()
    packets = np.array([[0.0, 5, 0, 40, 22], [0.01, 5, 1, 41, 22], [0.02, 5, 2, 42, 22]])
    batch.add_batch(0.1, 0.13, packets)
    for at_s, (due_s, block, symbol, label, size) in zip((0.11, 0.12, 0.13), packets.tolist(), strict=True):
        single.add(at_s, due_s, block, symbol, label, size)
    assert np.allclose(batch.values, single.values) and batch.worst_lag_s == pytest.approx(single.worst_lag_s)
    assert batch.packets().block_size.tolist() == [22, 22, 22]


def test_each_row_leaves_by_the_cable_of_its_label() -> None:
    class Cable:
        template, refused = None, 0

        def __init__(self) -> None:
            self.sent: list[tuple[int, bytes]] = []

        def send(self, label: int, payload: bytes) -> None:
            self.sent.append((label, payload))

    first, second = Cable(), Cable()
    frames = LabelledFrames([(0, first), (1000, second)])  # type: ignore[list-item]
    rows = np.repeat(np.arange(3, dtype=np.uint8), 45).reshape(3, 45)
    frames.send_rows(Messages(rows), np.array([999.0, 1000.0]))
    assert first.sent == [(999, bytes([0] * 3))] and second.sent == [(1000, bytes([1] * 3))]
