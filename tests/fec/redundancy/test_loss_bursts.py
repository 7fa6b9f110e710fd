"""Losses in bursts are answered by parity sent after them; independent ones, and those of failures, by N."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fec.protocol.receiver_types import BlockUndecodable
from fec.redundancy.block_size import fec_block_size
from fec.redundancy.loss_bursts import LossBursts
from tests.helpers.delay_loop import DelayLoop, build_receiver, build_sender
from tests.helpers.drawn import drawn

M = 20


def gilbert(p: float, r: float, seed: int = 4) -> Iterator[bool]:
    """Whether each packet of a channel is lost that turns bad with probability p and good again with r."""
    chance, bad = random.Random(seed), False
    while True:
        bad = chance.random() >= r if bad else chance.random() < p
        yield bad


def stream(lost: Iterator[bool], *, pass_by: bool, cut_s: float = 9.0, way_s: float = 0.01) -> tuple[DelayLoop, int]:
    """Four seconds; from ``cut_s`` on a quarter of the labels is lost as well. And the blocks that were."""
    sender = build_sender(
        policy=lambda loss: fec_block_size(M, round(min(loss, 0.6), 2), 1e-5), largest=55, bursts_pass=pass_by
    )
    loop = DelayLoop(sender, build_receiver(), backward=lambda *_: (way_s,))
    loop.forward = lambda packet, at: () if next(lost) or (at >= cut_s and packet.label < 1 << 14) else (way_s,)
    loop.run_until(4.0)
    return loop, sum(isinstance(event, BlockUndecodable) for event in loop.events)


@pytest.mark.parametrize(("p", "r"), [(0.001, 0.1), (0.005, 0.2), (0.01, 0.5)])
def test_bursts_cost_the_parity_that_they_take_and_no_block(p: float, r: float) -> None:
    """The rival raises N to twice as much and more, and loses no fewer."""
    sent = []
    for pass_by in (True, False):
        loop, lost = stream(gilbert(p, r), pass_by=pass_by)
        assert lost == 0 and sum(loop.receiver.counters[name] for name in ("recovered", "decoded_blocks")) > 200
        sent.append(len(loop.sent) / (4.0 * 1000 / M))
    assert sent[0] < 30 < 38 < sent[1]


@pytest.mark.parametrize("share", [0.01, 0.05, 0.2])
def test_independent_losses_are_answered_as_without_it(share: float) -> None:
    logs = []
    for pass_by in (True, False):
        chance = random.Random(3)
        loop, _ = stream((chance.random() < share for _ in iter(int, 1)), pass_by=pass_by)
        logs.append([(at, packet.block_size) for at, packet in loop.sent])
    assert logs[0] == logs[1]


def test_a_failure_among_bursts_raises_n() -> None:
    loop, lost = stream(gilbert(0.001, 0.1), pass_by=True, cut_s=2.5)
    sizes = [packet.block_size for at, packet in loop.sent if at > 3.0]
    assert lost <= 2 and min(sizes) >= 27


@drawn(40)
@given(seed=st.integers(0, 10**9), share=st.floats(0.003, 0.9))
def test_independent_losses_are_hardly_ever_taken_for_bursts(seed: int, share: float) -> None:
    chance, bursts, taken = random.Random(seed), LossBursts(), 0
    for _ in range(100):
        bursts.add([chance.random() < share for _ in range(30)])
        taken += bursts.passing
    assert taken <= 25
