"""The receiver of an emulated stream is compiled where it can be, and plain elsewhere: the same events, reports and
logs. Its sender makes packets in batches."""

from __future__ import annotations

import hashlib
import logging
import socket
from typing import Any, cast

import numpy as np
import pytest

import testbed
from fec.adapters.raw_sockets import DatagramReceiver, FrameSender, Messages
from fec.adapters.scapy_layer import FrameTemplate
from fec.code import reed_solomon
from fec.engines import load_engine
from fec.protocol import row_seals
from fec.protocol.batches import BatchReceiver, BatchSender
from fec.protocol.compiled import receiver as receiver_module
from fec.protocol.compiled.receiver import CompiledReceiver
from testbed.stream.emulated import ends
from testbed.stream.emulated.ends import prepare_sender
from testbed.stream.emulated.frames import LabelledFrames
from testbed.stream.endpoints import build_sender
from testbed.stream.judgement.packet_logs import SentLog
from testbed.stream.plan import StreamPlan
from tests.helpers.compiled_packets import skip_without_c_module

NO_LINES: list[str] = []
ONE_LINE = [row_seals.SLOWER.partition(":")[0]]


@pytest.fixture(autouse=True)
def _compiled() -> None:
    ends._warn_once.cache_clear()
    skip_without_c_module()


def plan_of(**options: Any) -> StreamPlan:
    plan = testbed.stream_plan(
        "ring:4", "s0", "s2", faults="none", rate_pps=2000.0, duration_s=1.5, **options
    )
    assert isinstance(plan, StreamPlan)
    return plan


def take_away(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away something that compiled ends use."""
    if case == "no ISA-L":
        monkeypatch.setattr(reed_solomon, "best_engine", lambda: load_engine("numpy"))
        return
    for module in (ends, receiver_module, row_seals):
        monkeypatch.setattr(module, "c_module", lambda: None)


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage().partition(":")[0]
        for record in caplog.records
        if record.levelno >= logging.WARNING
    ]


def streamed() -> tuple[type, str]:
    """Of a stream of which much is lost for a while: the kind of its receiver, and a digest of all that the ends make."""
    plan, digest = plan_of(), hashlib.sha256()
    sender: Any = build_sender(plan, kind=BatchSender)
    receiver: Any = ends.build_batch_receiver(plan, None)
    for step in range(375):
        now = 0.004 * step
        made = sender.fill(now)
        packets, log = sender.rows[:made, -receiver.rows.shape[1] + 1 :], sender.log[:made].copy()
        came = np.flatnonzero((log[:, 3] > 20_000) | (step < 100) | (step > 200))
        receiver.rows[: len(came), :-1], receiver.lengths[: len(came)] = (
            packets[came],
            packets.shape[1],
        )
        receiver.times[: len(came)] = now + 0.001
        events = [*receiver.receive_many(len(came)), *receiver.advance(now + 0.001)]
        reports = receiver.reports_due(now + 0.001)
        for report in reports:
            sender.receive(report, now + 0.002)
        logs = (
            log.tolist(),
            receiver.log[: receiver.logged].tolist(),
            sender.next_due_s(),
            receiver.next_deadline_s(),
        )
        digest.update(
            packets.tobytes()
            + repr((logs, [(type(e).__name__, *e) for e in events], reports)).encode()
        )
    counted = sender.counters, sorted(receiver.counters.items()), sender.path_reports
    assert sender.counters["late_parity"] and receiver.counters["recovered"] and sender.path_reports
    digest.update(repr(counted).encode())
    return type(receiver), digest.hexdigest()


def test_ends_without_the_c_module_do_the_same_and_one_line_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kind, digest = streamed()
    assert kind is CompiledReceiver and told(caplog) == NO_LINES
    take_away("C module", monkeypatch)
    assert streamed() == (BatchReceiver, digest)
    ends.warn_if_slower()
    assert told(caplog) == ONE_LINE


def test_ends_without_isal_do_the_same(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    before = streamed()
    take_away("no ISA-L", monkeypatch)
    assert streamed() == before and told(caplog) == NO_LINES


def test_receiver_without_memory_for_its_tables_is_in_python(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_room(*_: object) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr(CompiledReceiver, "_lay_out", no_room)
    assert type(ends.build_batch_receiver(plan_of(), None)) is BatchReceiver
    assert told(caplog) == ["no room"]


@pytest.mark.parametrize("labels", ["stratified", "random"])
def test_a_sender_makes_frames_in_batches(labels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, chosen = plan_of(labels=labels), []

    def build(*arguments: Any, **named: Any) -> Any:
        chosen.append(build_sender(*arguments, **named))
        return chosen[-1]

    monkeypatch.setattr(ends, "build_sender", build)
    monkeypatch.setattr(ends, "warm_up", lambda *_: None)
    template = FrameTemplate(
        src_mac="02:00:00:00:00:01",
        dst_mac="02:00:00:00:00:02",
        src_ip="10.0.0.1",
        dst_ip="10.0.0.2",
    )
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        frames = FrameSender(sock, template)
        prepare_sender(
            plan, bytes(32), frames, (sock, DatagramReceiver(sock)), 0.0, cast(Any, [0.0, 0.0])
        )
    assert [type(one) for one in chosen] == [BatchSender]
    headers = template.headers_for(len(chosen[0].rows[0]) - template.header_bytes)
    assert chosen[0].rows[5, : len(headers)].tobytes() == headers


def test_a_batch_is_logged_as_its_packets_one_after_another() -> None:
    batch, single = SentLog(), SentLog()
    packets = np.array([[0.0, 5, 0, 40, 22], [0.01, 5, 1, 41, 22], [0.02, 5, 2, 42, 22]])
    batch.add_batch(0.1, 0.13, packets)
    for at_s, (due_s, block, symbol, label, size) in zip(
        (0.11, 0.12, 0.13), packets.tolist(), strict=True
    ):
        single.add(at_s, due_s, block, symbol, label, size)
    assert np.allclose([*batch.arrays().values()], [*single.arrays().values()])
    assert batch.worst_lag_s == pytest.approx(single.worst_lag_s)
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
