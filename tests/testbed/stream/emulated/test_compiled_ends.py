"""The receiver of an emulated stream is compiled where it can be, and plain elsewhere: the same events, reports and
logs. Its sender makes packets in batches."""

from __future__ import annotations

import hashlib
import logging
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import testbed
from fec import jit
from fec.adapters.raw_sockets import DatagramReceiver, FrameSender, Messages
from fec.adapters.scapy_layer import FrameTemplate
from fec.code import reed_solomon
from fec.engines import load_engine
from fec.jit import CompiledEntry
from fec.protocol.batches import BatchReceiver, BatchSender
from fec.protocol.compiled import receiver_steps
from fec.protocol.compiled.receiver import CompiledReceiver
from testbed.stream.emulated import ends
from testbed.stream.emulated.ends import fastest, prepare_sender
from testbed.stream.emulated.frames import LabelledFrames
from testbed.stream.endpoints import build_receiver, build_sender
from testbed.stream.judgement.packet_logs import SentLog
from testbed.stream.plan import StreamPlan
from tests.helpers.compiled_packets import compile_ends

FALL_BACK = [
    "missing",
    "damaged",
    "processor",
    "instructions",
    "asked",
    "no ISA-L",
    "not compiled at all",
]
NO_LINES: list[str] = []
ONE_LINE = ["packets are handled one by one"]


@pytest.fixture(autouse=True)
def _compiled() -> Iterator[None]:
    ends._say.cache_clear()
    with pytest.MonkeyPatch.context() as patched:
        compile_ends(patched)
        yield


def plan_of(**options: Any) -> StreamPlan:
    plan = testbed.stream_plan(
        "ring:4", "s0", "s2", faults="none", rate_pps=2000.0, duration_s=1.5, **options
    )
    assert isinstance(plan, StreamPlan)
    return plan


def take_away(case: str, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """What compiled ends need."""
    changes: dict[str, Callable[[], None]] = {
        "missing": lambda: monkeypatch.setattr(jit, "KERNELS", folder / "missing.so"),
        "damaged": lambda: monkeypatch.setattr(jit, "KERNELS", folder / "damaged.so"),
        "processor": lambda: monkeypatch.setattr(jit.platform, "machine", lambda: "aarch64"),
        "instructions": lambda: monkeypatch.setattr(jit, "PROCESSOR", frozenset({"avx1024"})),
        "asked": lambda: monkeypatch.setenv("TESTBED_KERNELS", "numba"),
        "no ISA-L": lambda: monkeypatch.setattr(
            reed_solomon, "best_engine", lambda: load_engine("numpy")
        ),
        "not compiled at all": lambda: monkeypatch.setattr(
            receiver_steps, "TAKE", receiver_steps.take
        ),
    }
    (folder / "damaged.so").write_text("no object")
    if case == "damaged":  # its digest is right, so that loading it fails
        monkeypatch.setattr(jit, "kernels_are_intact", lambda: True)
    changes[case]()
    if case not in ("no ISA-L", "not compiled at all"):
        monkeypatch.setattr(jit, "kernels", jit.kernels.__wrapped__)
        monkeypatch.setattr(CompiledEntry, "missed", None)


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
    receiver: Any = fastest(
        lambda kind: build_receiver(plan, None, kind), (CompiledReceiver, BatchReceiver)
    )
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


@pytest.mark.parametrize("case", FALL_BACK)
def test_without_what_compiled_ends_need_plain_ones_do_the_same_and_one_line_says_so(
    case: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kind, digest = streamed()
    assert kind is CompiledReceiver and told(caplog) == NO_LINES
    take_away(case, monkeypatch, tmp_path)
    assert streamed() == (BatchReceiver, digest)
    assert told(caplog) == ONE_LINE


def test_ends_in_processes_of_their_own_do_not_say_it_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    take_away("missing", monkeypatch, tmp_path)
    ends.say_what_is_missing.__wrapped__()
    assert told(caplog) == ONE_LINE
    streamed()
    assert told(caplog) == ONE_LINE


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
