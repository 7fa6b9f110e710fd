"""The compiled receiver against the plain one: the same events, reports, counters and log, whatever comes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fec.code.reed_solomon import ReedSolomonCode
from fec.errors import EngineUnavailable
from fec.protocol.batches import MAX_RECEIVED
from fec.protocol.compiled import receiver as receiver_module
from fec.protocol.compiled.receiver import BatchEvents, CompiledReceiver
from fec.protocol.receiver import StreamReceiver
from fec.protocol.receiver_types import Event, ReceiverParameters, SourceDelivered
from fec.protocol.row_seals import c_module
from fec.protocol.sender import SenderParameters, StreamSender
from fec.redundancy.labels import LABELS, StratifiedLabels
from tests.helpers.compiled_packets import PlannedBlockSize
from tests.helpers.delay_loop import crc_of
from tests.helpers.drawn import drawn

PATHS = bytes([1]) * 20_000 + bytes([2]) * 20_000 + bytes(LABELS - 40_000)
Datagram = tuple[float, bytes]


def stream(
    chance: random.Random, values: dict[str, Any], session: int, began_s: float, ended_s: float
) -> list[Datagram]:
    """What arrives of one start of a sender, and when: lost in runs, twice, overtaken, late, damaged."""
    code = ReedSolomonCode(values["source_packets"])
    parameters = SenderParameters(rate_pps=1000.0, session=session, **values)
    size = PlannedBlockSize(lambda begins_s: values["source_packets"] + int(begins_s * 7) % 5)
    sender = StreamSender(
        parameters, code, StratifiedLabels(), size, lambda i: bytes([i % 251]) * (i % 3 + 5), PATHS
    )
    loss, spread_s, found = chance.choice([0.0, 0.02, 0.3]), chance.choice([0.0, 0.001, 0.03]), []
    offset_s, out_s = chance.choice([0.0, 0.0, 7.0, 0.45, 3.0, -3.0]), chance.choice([-1.0, 0.5])
    now = began_s
    while now < ended_s:
        now += 0.001
        for packet in sender.packets_due(now - began_s):
            data, at = packet.data, now + offset_s * (now > 1) + 0.002 + chance.random() * spread_s
            if chance.random() < loss or out_s < now < out_s + 0.15:
                continue
            if chance.random() < 0.01:
                data = damaged(chance, data)
            found.append((at + 0.5 * (chance.random() < 0.003), data))
            if chance.random() < 0.02:
                found.append((at + chance.choice([0.0, 0.01]), data))
    return found


def damaged(chance: random.Random, data: bytes) -> bytes:
    """A packet of which a byte is another one, or that is shorter, longer or of any bytes."""
    place = chance.randrange(len(data))
    return chance.choice(
        [
            data[:place] + bytes([data[place] ^ 1 << chance.randrange(8)]) + data[place + 1 :],
            data[:place],
            data + b"x",
        ]
    )


def drawn_stream(chance: random.Random) -> tuple[ReceiverParameters, list[Datagram]]:
    m, key = chance.choice([1, 2, 5, 20]), chance.choice([None, None, bytes(16)])
    values: dict[str, Any] = {
        "source_packets": m,
        "symbol_bytes": chance.choice([10, 40]),
        "key": key,
    }
    packets = stream(chance, values, 5, 0.0, chance.choice([0.7, 1.5]))
    if chance.random() < 0.6:
        packets += stream(chance, values, chance.choice([5, 6]), chance.choice([1.6, 2.5]), 3.0)
    still_s, until_s = chance.choice(
        [(9.0, 9.0), (0.4, 0.6), (0.3, 1.4)]
    )  # it takes what waited all at once
    packets = [(until_s if still_s < at < until_s else at, data) for at, data in packets]
    told = ReceiverParameters(
        playback_s=chance.choice([0.1, 0.4]), report_interval_s=0.03, **values
    )
    return told, sorted(packets, key=lambda packet: packet[0])


def same(events: Iterable[Event]) -> list[Any]:
    return [(type(event).__name__, *event) for event in events]


def payloads_together(events: BatchEvents) -> list[tuple[int, bytes, bool]]:
    rows, data = events.sources()
    return [
        (index, data[start:stop], bool(recovered))
        for index, start, stop, recovered in rows.tolist()
    ]


def hand_in(receiver: CompiledReceiver, packets: list[Datagram]) -> BatchEvents:
    """One batch."""
    for k, (at, data) in enumerate(packets):
        part = data[: receiver.rows.shape[1]]
        receiver.rows[k, : len(part)] = np.frombuffer(part, np.uint8)
        receiver.lengths[k], receiver.times[k] = len(part), at
    return receiver.receive_many(len(packets))


def run_both(chance: random.Random) -> tuple[StreamReceiver, CompiledReceiver]:
    """Both on the same datagrams, the compiled one in batches."""
    told, packets = drawn_stream(chance)
    plain = StreamReceiver(told, ReedSolomonCode(told.source_packets))
    compiled = CompiledReceiver(told, ReedSolomonCode(told.source_packets))
    at = 0
    while at < len(packets):
        batch = packets[at : at + chance.choice([1, 2, 7, 100])]
        at += len(batch)
        expected, logged = [], []
        for came, data in batch:
            before = plain.received
            expected += plain.receive(data, came)
            if plain.received > before:
                logged.append([came, int.from_bytes(data[4:7], "big"), data[7]])
        found = hand_in(compiled, batch)
        assert same(found) == same(expected) and len(found) == len(expected)
        sources = [
            (e.index, e.payload, e.recovered) for e in expected if isinstance(e, SourceDelivered)
        ]
        assert payloads_together(found) == sources
        assert compiled.log[: compiled.logged].tolist() == logged
        now = batch[-1][0]
        assert same(compiled.advance(now)) == same(plain.advance(now))
        assert compiled.reports_due(now) == plain.reports_due(now)
        assert compiled.next_deadline_s() == plain.next_deadline_s()
    end = packets[-1][0] + 1.0
    assert same(compiled.advance(end)) == same(plain.advance(end))
    assert compiled.counters == plain.counters and compiled.rejected == plain.rejected
    assert (
        compiled.worst_reordering_s == plain.worst_reordering_s
        and compiled.open_blocks == plain.open_blocks
    )
    return plain, compiled


@drawn(50)
@given(st.integers(0, 1 << 32))
def test_everything_is_as_with_the_plain_receiver(seed: int) -> None:
    run_both(random.Random(seed))


def test_all_that_can_happen_was_among_what_is_compared() -> None:
    seen: Counter[str] = sum(
        (run_both(random.Random(seed))[1].counters for seed in range(8)), Counter()
    )
    required = {
        "duplicate",
        "late",
        "reordered",
        "recovered",
        "undecodable_blocks",
        "unused_parity",
        "urgent_reports",
    }
    assert required | {"restarts"} <= set(seen)


def test_ordinary_packets_never_leave_the_compiled_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it nothing is won."""
    values: dict[str, Any] = {"source_packets": 20, "symbol_bytes": 40}
    sender = StreamSender(
        SenderParameters(rate_pps=1000.0, session=1, **values),
        ReedSolomonCode(20),
        StratifiedLabels(),
        PlannedBlockSize(lambda _: 22),
        lambda i: b"payload",
    )
    receiver, other = CompiledReceiver(ReceiverParameters(**values), ReedSolomonCode(20)), []
    receive = StreamReceiver.receive
    monkeypatch.setattr(
        StreamReceiver, "receive", lambda *given: other.append(given) or receive(*given)
    )
    for k in range(200):
        now = 0.01 * k
        hand_in(receiver, [(now, packet.data) for packet in sender.packets_due(now)])
    assert (
        receiver.counters["accepted"] > 2000 and len(other) < 60
    )  # until the time of a block is known


def test_more_symbols_than_a_batch_has_room_for_are_restored() -> None:
    """Of all blocks the source packets are lost, and the last parity that it takes comes in one batch."""
    values: dict[str, Any] = {"source_packets": 20, "symbol_bytes": 40}
    parameters, code = SenderParameters(rate_pps=10_000.0, session=1, **values), ReedSolomonCode(20)
    size = PlannedBlockSize(lambda begins_s: 22 if begins_s < 0.1 else 40)
    sender = StreamSender(
        parameters, code, StratifiedLabels(), size, lambda i: bytes([i % 251]) * (i % 38 + 1)
    )
    plain = StreamReceiver(ReceiverParameters(**values), ReedSolomonCode(20))
    compiled = CompiledReceiver(plain.parameters, ReedSolomonCode(20))
    packets = [(0.001 * k, packet) for k in range(250) for packet in sender.packets_due(0.001 * k)]
    usual = [(at, packet.data) for at, packet in packets if packet.block_size == 22]
    parity = [
        (0.25, packet) for _, packet in packets if packet.block_size == 40 and packet.symbol >= 20
    ]
    for last in (False, True):
        datagrams = usual * (not last) + [
            (at, packet.data) for at, packet in parity if (packet.symbol == 39) is last
        ]
        for at in range(0, len(datagrams), MAX_RECEIVED):
            batch = datagrams[at : at + MAX_RECEIVED]
            expected = [event for came, data in batch for event in plain.receive(data, came)]
            assert same(hand_in(compiled, batch)) == same(expected)
    assert compiled.counters == plain.counters and compiled.counters["recovered"] > 2 * MAX_RECEIVED


def test_blocks_with_a_forged_symbol_are_discarded() -> None:
    m, length = 2, 12
    sender = StreamSender(
        SenderParameters(source_packets=m, symbol_bytes=length, rate_pps=1000.0, session=1),
        ReedSolomonCode(m),
        StratifiedLabels(),
        PlannedBlockSize(lambda _: 3),
        lambda i: b"payload",
    )
    told = ReceiverParameters(source_packets=m, symbol_bytes=length, playback_s=0.02)
    receiver, plain = (
        CompiledReceiver(told, ReedSolomonCode(m)),
        StreamReceiver(told, ReedSolomonCode(m)),
    )
    for k in range(400):
        now, packets = 0.001 * k, []
        for packet in sender.packets_due(now):
            data = packet.data
            if (
                packet.block % 10 == 5 and packet.symbol
            ):  # the second source packet is lost, and the parity is another
                if packet.symbol == 1:
                    continue
                data = bytearray(data[:-length] + bytes([255] * length))
                data[24:28] = bytes(4)
                data[24:28] = crc_of(data)
            packets.append((now, bytes(data)))
        events = [event for at, data in packets for event in plain.receive(data, at)]
        assert same(hand_in(receiver, packets)) == same(events)
    assert receiver.counters == plain.counters and receiver.counters["unreadable"] > 10
    assert len(receiver._blocks._spoilt) <= 2  # type: ignore[attr-defined]


def test_unavailable_compiled_receiver_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiver_module, "c_module", lambda: None)
    with pytest.raises(EngineUnavailable, match="one by one"):
        CompiledReceiver(ReceiverParameters(source_packets=2, symbol_bytes=9), ReedSolomonCode(2))


def test_tables_of_other_sizes_are_refused() -> None:
    receiver = CompiledReceiver(
        ReceiverParameters(source_packets=2, symbol_bytes=9), ReedSolomonCode(2)
    )
    receive = c_module().receive
    tables = list(receiver._tables)
    assert receive(*tables) == 0
    with pytest.raises(TypeError):
        receive(*tables[:-1])
    for k, table in enumerate(tables):
        cut = [*tables[:k], table.reshape(-1).view(np.uint8)[:-1].copy(), *tables[k + 1 :]]
        with pytest.raises(ValueError, match="sizes"):
            receive(*cut)
    for name, value in {
        "next": -1,
        "count": MAX_RECEIVED + 1,
        "m": 0,
        "symbol_bytes": 1000,
    }.items():
        before = receiver.table[name].item()
        receiver.write(**{name: value})
        with pytest.raises(ValueError, match="sizes"):
            receive(*tables)
        receiver.write(**{name: before})


def test_without_isal_python_decodes() -> None:
    values: dict[str, Any] = {"source_packets": 20, "symbol_bytes": 40}
    code = ReedSolomonCode(20, "numpy")
    sender = StreamSender(
        SenderParameters(rate_pps=1000.0, session=1, **values),
        code,
        StratifiedLabels(),
        PlannedBlockSize(lambda _: 22),
        lambda i: b"payload",
    )
    receiver = CompiledReceiver(ReceiverParameters(**values), code)
    for k in range(50):
        packets = [p for p in sender.packets_due(0.01 * k) if p.symbol not in (3, 7)]
        hand_in(receiver, [(0.01 * k, packet.data) for packet in packets])
    assert receiver.counters["recovered"] >= 40 and not receiver.counters["undecodable_blocks"]
