"""The compiled sender against the plain one: the same bytes under the same labels, whatever is lost or reported."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fec import jit
from fec.code.reed_solomon import ReedSolomonCode
from fec.errors import EngineUnavailable
from fec.jit import CompiledEntry
from fec.protocol.batches import MOST_SENT
from fec.protocol.compiled import sender as sender_module
from fec.protocol.compiled.sender import CompiledSender
from fec.protocol.receiver import StreamReceiver
from fec.protocol.receiver_types import ReceiverParameters
from fec.protocol.sender import SenderParameters, StreamSender
from fec.protocol.wire import HEADER_BYTES, protect
from fec.redundancy.adaptation import AdaptationParameters, BlockSizeController
from fec.redundancy.block_size_control import MAX_BLOCK, BlockSizeControl, fixed_block_size
from fec.redundancy.labels import LABELS, RandomLabels, SlottedLabels, StratifiedLabels
from tests.helpers.compiled_packets import PlannedBlockSize
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
) -> tuple[StreamSender, StreamSender, ReceiverParameters]:
    """Both senders, and what their receiver is told; all the same but for the class."""
    m, symbol_bytes, key = (
        chance.choice([1, 3, 20]),
        chance.choice([20, 24, 61]),
        chance.choice([None, None, bytes(16)]),
    )
    delays, fixed = chance.choice([None, DELAYS]), chance.random() < 0.2
    values: dict[str, Any] = {
        "source_packets": m,
        "symbol_bytes": symbol_bytes,
        "rate_pps": 1000.0,
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
    labels = chance.choice([StratifiedLabels(), SlottedLabels((0, 2, 1, 3, 4))])
    paths = chance.choice([None, PATHS])

    def built(kind: Callable[..., StreamSender]) -> StreamSender:
        code = ReedSolomonCode(m)
        return kind(SenderParameters(**values), code, labels, control_of(m, fixed), content, paths)

    told = ReceiverParameters(
        source_packets=m,
        symbol_bytes=symbol_bytes,
        playback_s=values["playback_s"],
        report_interval_s=0.03,
        key=key,
    )
    return built(StreamSender), built(CompiledSender), told


def content(index: int) -> bytes:
    """Of any length that fits."""
    return payload(index)[: 18 - index % 5 * (index % 3)]


def run_both(chance: random.Random, seconds: float) -> tuple[StreamSender, StreamSender]:
    """Both over the same lossy ways, step by step: each packet, decision and deadline is held against the other's."""
    plain, compiled, told = pair(chance)
    decided: tuple[list[Any], list[Any]] = ([], [])
    for sender, found in zip((plain, compiled), decided, strict=True):
        sender.on_judgement = lambda *what, found=found: found.append(what)
    receiver = StreamReceiver(told, ReedSolomonCode(told.source_packets))
    flying: list[tuple[float, bytes]] = []
    returning: list[tuple[float, bytes]] = []
    now, lost_from = 0.0, chance.randrange(LABELS)
    while now < seconds:
        now += chance.choice([0.0002, 0.001, 0.004, 0.004, 0.03])
        lost_to = lost_from + (LABELS // 4 if 0.3 < now % 1 < 0.7 else 500)
        if chance.random() < 0.002:
            plain.finish_source(), compiled.finish_source()
        limit = chance.choice([1, 7, MOST_SENT, 200])
        packets = plain.packets_due(now, limit)
        assert compiled.packets_due(now, limit) == packets
        assert compiled.next_due_s() == plain.next_due_s()
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
                plain.receive(data, now), compiled.receive(data, now)
    assert decided[0] == decided[1]
    assert plain.counters == compiled.counters and plain.path_reports == compiled.path_reports
    assert plain.block_size == compiled.block_size and plain.control.loss == compiled.control.loss
    return plain, compiled


@drawn(40)
@given(st.integers(0, 1 << 32))
def test_every_packet_has_the_bytes_and_the_label_of_the_plain_sender(seed: int) -> None:
    run_both(random.Random(seed), 2.0)


@pytest.mark.long
def test_late_parity_reports_and_changing_block_sizes_were_among_what_is_compared() -> None:
    seen = [run_both(random.Random(seed), 1.0)[1] for seed in range(6)]
    assert sum(one.counters["late_parity"] > 50 for one in seen) >= 2
    assert sum(one.counters["reports"] > 20 for one in seen) >= 4
    assert any(one.counters["spurious_losses"] for one in seen) and any(
        one.path_reports for one in seen
    )


def test_the_rows_are_frames_with_the_label_in_their_udp_header() -> None:
    parameters = SenderParameters(source_packets=2, symbol_bytes=9, rate_pps=100, session=1)
    headers = bytes(range(42))
    made = CompiledSender(
        parameters,
        ReedSolomonCode(2),
        StratifiedLabels(),
        fixed_block_size(3),
        lambda i: b"x" * i,
        headers=headers,
    )
    assert made.fill(0.02) == 4  # the fourth begins the next block
    for row, (due_s, block, symbol, label, size) in zip(
        made.rows, made.log[:3].tolist(), strict=False
    ):
        frame = row.tobytes()
        assert frame[:34] + frame[36:42] == headers[:34] + headers[36:]
        assert int.from_bytes(frame[34:36], "big") == label == StratifiedLabels().label(int(symbol))
        assert (due_s, block, size) == ({0: 0.0, 1: 0.01, 2: 0.02}[symbol], 0, 3)


def test_late_parity_is_never_laid_where_its_own_sources_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where memory is short for all blocks of the playback time."""
    monkeypatch.setattr(sender_module, "_MOST_BYTES", 1)
    m, code = 20, ReedSolomonCode(20)
    parameters = SenderParameters(
        source_packets=m, symbol_bytes=24, rate_pps=20_000.0, late_parity_pps=1e7, session=1
    )
    control = PlannedBlockSize(
        lambda begins_s: 22 if begins_s < 0.0799 else MAX_BLOCK, late_parity=True
    )
    sender = CompiledSender(parameters, code, StratifiedLabels(), control, payload)
    made = [packet for k in range(81) for packet in sender.packets_due(0.001 * k)]
    assert max(packet.block for packet in made) == 80
    sender._keep_begun()
    oldest, *blocks = sender._blocks.values()
    for block in (oldest, *blocks[-9:-2]):
        sender._send_late_parity(block, m - 1, 0.08)
    late = [
        packet
        for _ in range(4)
        for packet in sender.packets_due(0.0802, 512)
        if packet.symbol >= 22
    ]
    for block in sorted({packet.block for packet in late}):
        right = code.encode([protect(payload(m * block + i), 24) for i in range(m)], MAX_BLOCK)
        own = [packet for packet in late if packet.block == block]
        assert len(own) == MAX_BLOCK - 22 and all(
            p.data[HEADER_BYTES:] == right[p.symbol] for p in own
        )
    assert len(late) > 4 * MAX_BLOCK


@pytest.mark.parametrize("case", ["no kernels", "no engine", "random labels"])
def test_it_says_so_where_it_cannot_be(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    code = ReedSolomonCode(2, "numpy" if case == "no engine" else None)
    labels = RandomLabels(1) if case == "random labels" else StratifiedLabels()
    if case == "no kernels":
        monkeypatch.setattr(jit, "kernels", lambda: None)
        monkeypatch.setattr(CompiledEntry, "missed", None)
    with pytest.raises(EngineUnavailable, match="one by one"):
        CompiledSender(
            SenderParameters(source_packets=2, symbol_bytes=9, rate_pps=100),
            code,
            labels,
            fixed_block_size(3),
            content,
        )
