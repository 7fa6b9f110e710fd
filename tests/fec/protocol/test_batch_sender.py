"""A sender by columns against one that makes packet by packet: the same bytes under the same labels, whatever is lost or
reported."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fec.code.reed_solomon import ReedSolomonCode
from fec.protocol import batches
from fec.protocol.batches import LABEL_BEFORE, MAX_SENT, BatchSender
from fec.protocol.receiver import StreamReceiver
from fec.protocol.receiver_types import ReceiverParameters
from fec.protocol.sender import OutgoingPacket, SenderParameters, StreamSender
from fec.redundancy.adaptation import AdaptationParameters, BlockSizeController
from fec.redundancy.block_size_control import BlockSizeControl, fixed_block_size
from fec.redundancy.labels import LABELS, RandomLabels, SlottedLabels, StratifiedLabels
from tests.helpers.delay_loop import payload
from tests.helpers.drawn import drawn

PATHS = bytes([1]) * 20_000 + bytes([2]) * 20_000 + bytes(LABELS - 40_000)
DELAYS = [0.002] * 30_000 + [0.012] * (LABELS - 30_000)


def control_of(m: int, fixed: bool) -> BlockSizeControl:
    if fixed:
        return fixed_block_size(m + 3)
    return BlockSizeController(
        AdaptationParameters(base=m + 1, hold_s=0.2), lambda loss: int(m / (1 - loss) + 2)
    )


def pair(
    chance: random.Random, **changes: Any
) -> tuple[StreamSender, BatchSender, ReceiverParameters]:
    """Both senders, and what their receiver is told; all the same but for the class."""
    m, symbol_bytes = chance.choice([1, 3, 20]), chance.choice([20, 24, 61])
    key, rate_pps = chance.choice([None, bytes(16)]), chance.choice([1000.0, 7000.0])
    delays, fixed = chance.choice([None, DELAYS]), chance.random() < 0.2
    values: dict[str, Any] = {
        "source_packets": m,
        "symbol_bytes": symbol_bytes,
        "rate_pps": rate_pps,
        "key": key,
    }
    values |= {
        "late_parity_pps": chance.choice([None, 300.0]),
        "playback_s": chance.choice([0.06, 0.4]),
        "session": 7,
    }
    values |= {
        "delay_of_label": delays,
        "silence_s": chance.choice([0.15, 9.0]),
        "silent_size": m + 5,
    } | changes
    orders = [StratifiedLabels(), SlottedLabels((0, 2, 1, 3, 4)), RandomLabels(5)]
    labels = chance.choice(orders)
    paths = chance.choice([None, PATHS])

    def built(kind: Callable[..., Any]) -> Any:
        code = ReedSolomonCode(m)
        return kind(SenderParameters(**values), code, labels, control_of(m, fixed), content, paths)

    told = ReceiverParameters(
        source_packets=m,
        symbol_bytes=symbol_bytes,
        playback_s=values["playback_s"],
        report_interval_s=0.03,
        key=key,
    )
    return built(StreamSender), built(BatchSender), told


def content(index: int) -> bytes:
    """Of any length that fits."""
    return payload(index)[: 18 - index % 5 * (index % 3)]


def packets_of(sender: BatchSender, now_s: float) -> list[OutgoingPacket]:
    """Return what a call of ``fill`` makes, as the other sender gives it."""
    count = sender.fill(now_s)
    assert all(
        int.from_bytes(row[:2], "big") == label
        for row, label in zip(sender.rows, sender.log[:count, 3].tolist(), strict=False)
    )
    return [
        OutgoingPacket(
            due_s, int(label), row[LABEL_BEFORE:].tobytes(), int(block), int(symbol), int(size)
        )
        for row, (due_s, block, symbol, label, size) in zip(
            sender.rows, sender.log[:count].tolist(), strict=False
        )
    ]


def run_both(chance: random.Random, seconds: float) -> tuple[StreamSender, StreamSender]:
    """Both over the same lossy ways, step by step: each packet, decision and deadline is held against the other's."""
    plain, batched, told = pair(chance)
    decided: tuple[list[Any], list[Any]] = ([], [])
    for sender, found in zip((plain, batched), decided, strict=True):
        sender.on_judgement = lambda *what, found=found: found.append(what)
    receiver = StreamReceiver(told, ReedSolomonCode(told.source_packets))
    flying: list[tuple[float, bytes]] = []
    returning: list[tuple[float, bytes]] = []
    now, lost_from = 0.0, chance.randrange(LABELS)
    while now < seconds:
        now += chance.choice([0.0002, 0.001, 0.004, 0.004, 0.03, 0.2 * (chance.random() < 0.2)])
        lost_to = lost_from + (LABELS // 4 if 0.3 < now % 1 < 0.7 else 500)
        if chance.random() < 0.002:
            plain.finish_source(), batched.finish_source()
        packets: list[OutgoingPacket] = []
        while made := packets_of(batched, now):
            assert plain.packets_due(now, len(made)) == made
            packets += made
        assert not plain.packets_due(now)
        # While packets are still due, the senders may differ: a batch also drops the late parity
        # that comes after it and is past its deadline.
        assert batched.next_due_s() == plain.next_due_s()
        for packet in packets:
            if not lost_from <= packet.label < lost_to and chance.random() > 0.01:
                flying.append((now + chance.choice([0.002, 0.003, 0.02]), packet.data))
        flying.sort()
        while flying and flying[0][0] <= now:
            receiver.receive(flying.pop(0)[1], now)
        receiver.advance(now)
        returning += [(now + 0.002, data) for data in receiver.reports_due(now) for _ in range(2)]
        if chance.random() < 0.01:
            returning.append((now, bytes(chance.randrange(60))))
            receiver = StreamReceiver(
                told, ReedSolomonCode(told.source_packets)
            )  # it was started again
        while returning and returning[0][0] <= now:
            data = returning.pop(0)[1]
            if not 1.2 < now < 1.6:  # no report comes for longer than blocks are kept
                plain.receive(data, now), batched.receive(data, now)
    assert decided[0] == decided[1]
    assert plain.counters == batched.counters and plain.path_reports == batched.path_reports
    assert plain.block_size == batched.block_size and plain.control.loss == batched.control.loss
    return plain, batched


def test_batch_sender_goes_on_if_queued_packets_leave_no_room_for_a_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Thousands of late packets wait, and none of them is due before the block that begins."""
    monkeypatch.setattr(batches, "FEW", random.Random(16341).choice([0, 2, 16]))
    run_both(random.Random(16341), 0.6)


@drawn(5)
@given(st.integers(0, 1 << 32))
def test_both_senders_make_the_same_packets(seed: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(batches, "FEW", random.Random(seed).choice([0, 2, 16]))
        run_both(random.Random(seed), 0.6)


@pytest.mark.long
def test_drawn_runs_have_late_parity_reports_and_paths() -> None:
    seen = [run_both(random.Random(seed), 1.0)[1] for seed in range(6)]
    assert sum(one.counters["late_parity"] > 50 for one in seen) >= 2
    assert sum(one.counters["reports"] > 10 for one in seen) >= 4
    assert any(one.counters["spurious_losses"] for one in seen)
    assert any(one.path_reports for one in seen)


@pytest.mark.parametrize("late_s", [0.02, 3.0])
def test_rows_are_frames_with_the_label_in_their_udp_header(late_s: float) -> None:
    parameters = SenderParameters(source_packets=2, symbol_bytes=9, rate_pps=100, session=1)
    headers = bytes(range(42))
    arguments = (
        ReedSolomonCode(2),
        StratifiedLabels(),
        fixed_block_size(3),
        lambda i: b"x" * (i % 7),
    )
    sender = BatchSender(parameters, *arguments, headers=headers)
    expected = StreamSender(parameters, *arguments).packets_due(late_s, MAX_SENT)
    assert sender.fill(late_s) == len(expected)
    for row, (due_s, block, symbol, label, size) in zip(
        sender.rows, sender.log[:3].tolist(), strict=False
    ):
        frame = row.tobytes()
        assert frame[:34] + frame[36:42] == headers[:34] + headers[36:]
        assert int.from_bytes(frame[34:36], "big") == label == StratifiedLabels().label(int(symbol))
        assert (due_s, block, size) == ({0: 0.0, 1: 0.01, 2: 0.02}[symbol], 0, 3)


def test_a_batch_holds_no_more_packets_than_rows() -> None:
    """Whatever is due: the rest is made by the next calls."""
    parameters = SenderParameters(source_packets=20, symbol_bytes=24, rate_pps=1e5, session=1)
    arguments = (ReedSolomonCode(20), RandomLabels(2), fixed_block_size(40), payload)
    plain, batched = StreamSender(parameters, *arguments), BatchSender(parameters, *arguments)
    expected = plain.packets_due(0.1, 10**6)
    made: list[OutgoingPacket] = []
    counts = []
    while packets := packets_of(batched, 0.1):
        made += packets
        counts.append(len(packets))
    assert made == expected
    assert max(counts) <= MAX_SENT and len(counts) < 1.1 * len(expected) / MAX_SENT + 2


def test_late_parity_in_vain_makes_no_packet() -> None:
    parameters = SenderParameters(source_packets=2, symbol_bytes=24, rate_pps=100, session=1)
    arguments = (ReedSolomonCode(2), StratifiedLabels(), fixed_block_size(3), payload)
    sender = BatchSender(parameters, *arguments)
    assert sender.fill(0.015) == 2
    sender.finish_source()
    (block,) = sender._blocks.values()
    while sender.fill(1.0):
        pass
    sender._late.append((0.02, block, 2))
    assert sender.fill(1.0) == 0 and sender.counters["late_parity"] == 0
    assert sender.next_due_s() == float("inf")
