"""What must hold for every loss, order and damage: what can be decoded is delivered in time, and nothing goes
uncounted."""

from __future__ import annotations

import random
import zlib
from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fec.protocol.receiver_types import BlocksSkipped, BlockUndecodable, SourceDelivered
from fec.redundancy.block_size import (
    fec_block_size,
    stratified_block_size,
    stratified_tolerance_block_size,
)
from fec.redundancy.labels import RandomLabels
from tests.helpers.delay_loop import DelayLoop, build_receiver, build_sender, cut, payload
from tests.helpers.drawn import SOAK, drawn

M = 5
MUTATED = 100_000 if SOAK else 25_000


def accounts(loop) -> tuple[set[int], int]:
    """Delivered source packets (each once, with the right content), and how many were given up."""
    delivered = [event for event in loop.events if isinstance(event, SourceDelivered)]
    indices = {event.index for event in delivered}
    assert len(indices) == len(delivered)
    assert all(event.payload == payload(event.index) for event in delivered)
    lost = sum(event.missing for event in loop.events if isinstance(event, BlockUndecodable))
    lost += sum(
        (event.stop - event.first) * M for event in loop.events if isinstance(event, BlocksSkipped)
    )
    return indices, lost


@drawn(60)
@example(seed=199627, size=10, jitter_ms=28)  # the time of a block is known badly from two blocks
@given(seed=st.integers(0, 10**9), size=st.integers(M, 14), jitter_ms=st.integers(0, 60))
def test_losses_that_leave_m_symbols_per_block_delay_nothing(
    seed: int, size: int, jitter_ms: int
) -> None:
    chance = random.Random(seed)
    kept = {block: set(chance.sample(range(size), M)) for block in range(200)}

    def forward(packet, at):
        return (
            (0.001 + chance.random() * jitter_ms / 1000,)
            if packet.symbol in kept[packet.block]
            else ()
        )

    sender = build_sender(source_packets=M, block_size=size, base=size)
    loop = DelayLoop(sender, build_receiver(source_packets=M), forward=forward)
    loop.run_until(0.2)
    loop.finish()
    indices, lost = accounts(loop)
    assert indices == set(range(sender.counters["source"])) and lost == 0
    sent_s = {p.block * M + p.symbol: at for at, p in loop.sent if p.symbol < M}
    worst_s = (
        0.001 + jitter_ms / 1000 + 2 * M / 1000
    )  # on the way, and until the block's parity is out
    for event in loop.events:
        if isinstance(event, SourceDelivered):
            assert event.at_s - sent_s[event.index] <= worst_s + 1e-9


@drawn(25)
@given(
    seed=st.integers(0, 10**9),
    loss=st.floats(0, 1),
    burst_s=st.floats(0, 0.5),
    twice=st.floats(0, 0.5),
)
def test_generated_packets_are_delivered_or_reported_lost(
    seed: int, loss: float, burst_s: float, twice: float
) -> None:
    chance = random.Random(seed)

    def forward(packet, at):
        if chance.random() < loss or 0.1 <= at < 0.1 + burst_s:
            return ()
        return [chance.random() * 0.2 for _ in range(1 + (chance.random() < twice))]

    sender = build_sender(policy=lambda p: 9, source_packets=M, base=7)
    loop = DelayLoop(sender, build_receiver(source_packets=M, playback_s=0.15), forward=forward)
    loop.run_until(0.7)
    loop.finish()
    indices, lost = accounts(loop)
    highest = max((p.block for _, p in loop.sent), default=-1)
    never_heard_of = sender.counters["source"] - len(indices) - lost
    assert never_heard_of % M == 0 and never_heard_of >= 0
    if loss < 0.5:
        tail = {p.block for _, p in loop.sent[-3 * M :]}
        assert never_heard_of <= M * len(tail | {highest}) or burst_s > 0.4
    counters = loop.receiver.counters
    assert counters["delivered"] == len(indices)
    assert counters["lost_sources"] == lost


@drawn(25)
@given(
    seed=st.integers(0, 10**9),
    cap=st.integers(22, 255),
    loss=st.floats(0, 1),
    report_loss=st.floats(0, 1),
)
def test_damaged_or_repeated_reports_never_raise_n_above_its_cap(
    seed: int, cap: int, loss: float, report_loss: float
) -> None:
    chance = random.Random(seed)

    def backward(way, number, at):
        return (
            []
            if chance.random() < report_loss
            else [chance.random() * 0.4 for _ in range(chance.randint(1, 3))]
        )

    sender = build_sender(policy=lambda p: int(20 / (1 - p)) + 3, largest=cap)
    loop = DelayLoop(sender, build_receiver(), backward=backward)
    loop.forward = lambda packet, at: () if chance.random() < loss else (chance.random() * 0.02,)
    for step in range(8):
        loop.run_until(0.1 * (step + 1))
        for data in loop.receiver.reports_due(loop.now_s + 9.0):
            damaged = bytearray(data)
            damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
            sender.receive(bytes(damaged), loop.now_s)
        assert 22 <= sender.block_size <= cap
    assert all(p.symbol < cap and p.block_size <= cap for _, p in loop.sent)


@pytest.mark.parametrize(
    "share", [0.08, *(pytest.param(one, marks=pytest.mark.soak) for one in (0.15, 0.25)), 0.5]
)
@pytest.mark.parametrize("delay_s", [0.001, 0.03])
def test_n_converges_to_the_policys_value_and_returns_after_the_hold(
    share: float, delay_s: float
) -> None:
    """One interval of stratified labels is cut: nothing stays undecodable, not even what was cut before the first
    report."""
    stop = int(share * 65536)

    def policy(loss: float) -> int:
        return stratified_tolerance_block_size(round(min(0.9, loss + 0.015), 3), 20)

    sender = build_sender(policy=policy, hold_s=1.0)
    loop = DelayLoop(sender, build_receiver(), forward=cut(20000, 20000 + stop, 1.0, 4.0, delay_s))
    loop.backward = lambda way, number, at: (delay_s,)
    loop.run_until(3.9)
    assert sender.control.loss == pytest.approx(share, abs=0.005)
    settled = {p.block_size for at, p in loop.sent if at > 2.0}
    assert max(settled) - min(settled) <= 1
    assert min(settled) >= max(22, stratified_block_size([(20000, 20000 + stop)], 20))
    assert max(settled) <= policy(share + 0.005)
    loop.run_until(4.9)
    assert sender.block_size == max(settled)  # held
    loop.run_until(5.6)
    assert sender.block_size == 22
    loop.finish()
    assert not [event for event in loop.events if isinstance(event, BlockUndecodable)]
    assert sender.counters["spurious_losses"] == 0


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_n_follows_a_random_loss_to_equation_25(share: float) -> None:
    def policy(loss: float) -> int:
        return fec_block_size(20, round(loss, 4), 1e-5)

    chance = random.Random(5)
    sender = build_sender(
        policy=policy, labels=RandomLabels(3), base=policy(0.05), deterministic=False, hold_s=1.0
    )
    loop = DelayLoop(sender, build_receiver())
    loop.forward = lambda packet, at: (
        () if 1.0 <= at < 6.0 and chance.random() < share else (0.002,)
    )
    loop.run_until(5.9)
    assert policy(share - 0.03) <= sender.block_size <= policy(share + 0.03)
    reaction_s = min(at for at, p in loop.sent if at > 1.0 and p.block_size > policy(0.05)) - 1.0
    assert reaction_s < 0.25
    loop.run_until(7.5)
    assert sender.block_size == policy(0.05)


def test_reports_survive_one_failed_return_path_and_n_stays_without_both() -> None:
    sender = build_sender(policy=lambda loss: int(20 / (1 - loss)) + 4, hold_s=0.5)
    loop = DelayLoop(sender, build_receiver(), forward=cut(0, 16384, 0.5, 2.5))
    loop.backward = lambda way, number, at: (
        () if at >= 2.0 or (way == 0 and at >= 0.4) else (0.002,)
    )
    loop.run_until(2.0)
    assert max(b - a for a, b in zip(loop.reported_s, loop.reported_s[1:], strict=False)) < 0.105
    held = sender.block_size
    assert held >= 30
    loop.run_until(8.0)
    assert sender.block_size == held


def test_a_stream_that_was_wholly_silent_goes_on_afterwards() -> None:
    """The only path is cut for two seconds: N is no worse afterwards, and every lost packet is accounted for."""
    sender = build_sender(policy=lambda loss: int(20 / (1 - loss)) + 3, hold_s=0.5)
    loop = DelayLoop(sender, build_receiver(), forward=cut(0, 65536, 1.0, 3.0))
    loop.run_until(5.0)
    assert sender.block_size <= 23 and sender.control.loss == 0
    loop.finish()
    indices = {event.index for event in loop.events if isinstance(event, SourceDelivered)}
    lost = sum(event.missing for event in loop.events if isinstance(event, BlockUndecodable))
    assert len(indices) + lost == sender.counters["source"]
    assert 1960 - 400 <= lost <= 2000  # what is younger than the playback time is still saved
    assert max(p.block_size for at, p in loop.sent if p.symbol < 20) <= 23
    assert max(Counter(int(at * 100) for at, _ in loop.sent).values()) <= 100  # and not in a burst


@pytest.mark.scaled
def test_mutated_packets_are_each_accepted_or_counted_by_reason() -> None:
    chance = random.Random(7)
    sender, receiver = (
        build_sender(source_packets=M, base=8, symbol_bytes=24),
        build_receiver(source_packets=M),
    )
    genuine = [p.data for _ in range(5) for p in sender.packets_due(0.3)]
    reasons: Counter[str] = Counter()
    for k in range(MUTATED):
        data = bytearray(genuine[chance.randrange(len(genuine))])
        kind = chance.randrange(6)
        if kind == 0:
            del data[chance.randrange(len(data)) :]
        elif kind == 1:
            data += chance.randbytes(chance.randrange(1, 40))
        elif kind == 2:
            data = bytearray(chance.randbytes(chance.randrange(80)))
        else:
            for _ in range(kind - 2):
                data[chance.randrange(len(data))] = chance.randrange(256)
        if kind == 5 and len(data) > 28:
            data[24:28] = bytes(4)
            data[24:28] = zlib.crc32(data).to_bytes(4, "big")  # damage with a checksum that holds
        for event in receiver.receive(bytes(data), k * 1e-5):
            reasons[type(event).__name__] += 1
        assert len(receiver.reports_due(k * 1e-5)) <= 1
    counters = receiver.counters
    taken = counters["accepted"] + counters["duplicate"] + counters["late"]
    assert taken + sum(receiver.rejected.values()) == MUTATED
    assert {"truncated", "version", "type", "flags", "length", "checksum", "stream"} <= set(
        receiver.rejected
    )
    assert taken > MUTATED / 100 and reasons["SourceDelivered"] > 0
    assert receiver.open_blocks <= 2 * 4096
