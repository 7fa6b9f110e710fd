"""A file in large blocks arrives whole over a lossy way, at the pace asked for, with little more than the code must
send."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from fec.adapters.raptorq_blocks import RaptorQBlocks
from fec.code.block_codes import ReedSolomonBlocks
from fec.errors import FecError
from fec.protocol.large_blocks import (
    HEADER,
    LargeBlockParameters,
    LargeBlockReceiver,
    LargeBlockSender,
    LargeSymbol,
    decode_symbol,
    encode_acknowledgement,
    encode_symbol,
)

CODES = {"raptorq": RaptorQBlocks(), "reed-solomon": ReedSolomonBlocks()}


def transfer(
    data: bytes,
    code: str,
    lost: Callable[[float, int], bool],
    *,
    symbols: int = 100,
    limit_s: float = 60.0,
) -> tuple[LargeBlockSender, LargeBlockReceiver, float]:
    parameters = LargeBlockParameters(
        symbol_bytes=64, block_symbols=symbols, arrival_pps=1000, max_pps=10_000
    )
    sender = LargeBlockSender(data, parameters, CODES[code], lambda n: n * 40503 & 0xFFFF)
    receiver = LargeBlockReceiver(1, CODES[code])
    now = 0.0
    while not sender.done and now < limit_s:
        now = max(now, min(sender.next_due_s(), max(receiver.next_deadline_s(), now)))
        for packet in sender.packets_due(now):
            if not lost(now, packet.label):
                receiver.receive(packet.data, now)
        for acknowledgement in receiver.acknowledgements_due(now):
            sender.receive(acknowledgement)
    return sender, receiver, now


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("size", [0, 1, 6399, 6400, 50_000])
def test_a_file_arrives_whole_without_loss(size: int, code: str) -> None:
    data = random.Random(size).randbytes(size)
    sender, receiver, _ = transfer(data, code, lambda now, label: False)
    assert receiver.file == data and sender.done
    assert sender.sent <= sender.source_symbols * 1.1 + 5 * sender.blocks


@pytest.mark.parametrize("code", CODES)
def test_redundancy_follows_the_loss_and_the_rate_makes_up_for_it(code: str) -> None:
    data = random.Random(1).randbytes(400_000)
    sender, receiver, seconds = transfer(data, code, lambda now, label: label < 65536 * 3 // 10)
    assert receiver.file == data
    assert sender.loss == pytest.approx(0.3, abs=0.03)
    assert sender.sent == pytest.approx(sender.source_symbols / 0.7, rel=0.08)
    assert seconds == pytest.approx(
        sender.source_symbols / 1000, rel=0.1
    )  # as if nothing had been lost


def test_an_outage_is_survived_and_paid_for_in_time_only() -> None:
    data = random.Random(2).randbytes(200_000)
    _, receiver, seconds = transfer(data, "raptorq", lambda now, label: 1.0 <= now < 2.5)
    assert receiver.file == data
    assert 4.3 < seconds < 6.5


def test_damaged_and_foreign_packets_are_counted_and_change_nothing() -> None:
    receiver = LargeBlockReceiver(1, RaptorQBlocks())
    good = encode_symbol(1, LargeSymbol(0, 0, 10, 2, 5, bytes(64)))
    assert decode_symbol(good, 1) == (0, 0, 10, 2, 5, bytes(64))
    chance = random.Random(3)
    for _ in range(3000):
        bad = bytearray(good)
        bad[chance.randrange(len(bad))] ^= 1 << chance.randrange(8)
        receiver.receive(
            bytes(bad[: chance.choice((len(bad), len(bad), chance.randrange(len(bad))))]), 0.0
        )
    receiver.receive(encode_symbol(2, LargeSymbol(0, 0, 10, 2, 5, bytes(64))), 0.0)
    receiver.receive(encode_symbol(1, LargeSymbol(2, 0, 10, 2, 5, bytes(64))), 0.0)
    assert receiver.received == 0 and sum(receiver.counters.values()) == 3002
    receiver.receive(good, 0.0)
    receiver.receive(encode_symbol(1, LargeSymbol(0, 1, 11, 2, 5, bytes(64))), 0.0)
    assert receiver.received == 1


def test_values_that_cannot_be_used_are_refused() -> None:
    with pytest.raises(FecError, match="multiple of 8"):
        LargeBlockParameters(symbol_bytes=100)
    with pytest.raises(FecError, match="at most 254"):
        LargeBlockSender(
            b"x", LargeBlockParameters(block_symbols=255), ReedSolomonBlocks(), lambda n: n
        )
    with pytest.raises(FecError, match="larger blocks"):
        LargeBlockSender(
            bytes(300 * 64),
            LargeBlockParameters(symbol_bytes=64, block_symbols=1),
            RaptorQBlocks(),
            lambda n: n,
        )
    assert HEADER.size == 24


def test_a_sender_does_not_answer_the_losses_of_its_own_congestion() -> None:
    """After a second in which three quarters are lost it sends at its highest rate; a link of little more than the rate
    asked for drops the rest."""
    asked_pps, link_pps, max_pps = 400.0, 420.0, 1600.0
    parameters = LargeBlockParameters(
        symbol_bytes=8, block_symbols=200, arrival_pps=asked_pps, max_pps=max_pps
    )
    sender = LargeBlockSender(bytes(200_000), parameters, ReedSolomonBlocks(), lambda index: index)
    received, carried, newest_us, highest = 0, 0.0, 0, 0.0
    for step in range(1, 400):
        now_s = step / 100
        due = sender.packets_due(now_s)
        if 1 <= now_s < 2:
            due = [packet for packet in due if packet.symbol % 4 == 0]
        carried = min(carried + link_pps / 100, 5.0)
        passing = due[: int(carried)]
        carried -= len(passing)
        received += len(passing)
        newest_us = max([newest_us, *(int(now_s * 1e6) for _ in passing)])
        if step % 5 == 0:
            sender.receive(encode_acknowledgement(1, newest_us, received, {}))
        highest = max(highest, sender.loss)
        if now_s >= 3.5:
            assert sender.loss < 0.06, now_s
    assert highest > 0.6


def test_delayed_sender_bursts_for_50_ms_and_reports_skipped_packets() -> None:
    parameters = LargeBlockParameters(
        symbol_bytes=8, block_symbols=200, arrival_pps=1000, max_pps=1000
    )
    sender = LargeBlockSender(bytes(200_000), parameters, ReedSolomonBlocks(), lambda index: index)
    sender.packets_due(0.0)
    sender.packets_due(0.04)
    assert sender.skipped_s == 0
    assert len(sender.packets_due(0.3)) == pytest.approx(50, abs=1)
    assert sender.skipped_s == pytest.approx(0.3 - 0.041 - 0.05, abs=0.002)


def test_after_a_time_in_which_nothing_arrives_the_rate_is_as_before() -> None:
    lost = random.Random(1).randbytes(400_000)
    seen: list[float] = []
    sender, receiver, _ = transfer(
        lost, "raptorq", lambda now, label: seen.append(now) or 2 <= now < 4
    )  # type: ignore[func-returns-value]
    assert receiver.file == lost
    after = sum(4 <= now < 4.5 for now in seen)
    assert after == pytest.approx(500, abs=25), "at 1000 packets/s, and not at ten times as much"
    assert sender.loss < 0.1


def test_a_file_without_room_for_its_length_counts_as_damaged() -> None:
    receiver = LargeBlockReceiver(1, CODES["reed-solomon"])
    receiver.receive(encode_symbol(1, LargeSymbol(0, 0, 1, 1, 0, bytes(8))), 0.0)
    assert receiver.corrupted and receiver.file is None
