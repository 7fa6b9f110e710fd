"""Losses in bursts are answered by parity sent after them, or by N for the chain that makes them where there is no time
for it; independent ones, and those of failures, by N as without bursts."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fec.protocol.receiver_types import BlockUndecodable
from fec.redundancy.block_size import fec_block_size
from fec.redundancy.loss_bursts import (
    SHORT_GAP,
    BurstChain,
    LossBursts,
    burst_block_size,
    failure_in_bursts,
)
from tests.helpers.delay_loop import DelayLoop, build_receiver, build_sender
from tests.helpers.drawn import drawn

M = 20


def mean_loss(loss: float) -> int:
    """Equation 25."""
    return fec_block_size(M, round(min(loss, 0.6), 2), 1e-5)


def gilbert(p: float, r: float, seed: int = 4) -> Iterator[bool]:
    """Whether each packet of a channel is lost that turns bad with probability p and good again with r."""
    chance, bad = random.Random(seed), False
    while True:
        bad = chance.random() >= r if bad else chance.random() < p
        yield bad


def stream(
    lost: Iterator[bool], *, pass_by: bool, cut_s: float = 9.0, way_s: float = 0.01
) -> tuple[DelayLoop, int]:
    """Four seconds; from ``cut_s`` on a quarter of the labels is lost as well. And the blocks that were."""
    sender = build_sender(policy=mean_loss, largest=55, bursts_pass=pass_by)
    loop = DelayLoop(sender, build_receiver(), backward=lambda *_: (way_s,))
    loop.forward = lambda packet, at: (
        () if next(lost) or (at >= cut_s and packet.label < 1 << 14) else (way_s,)
    )
    loop.run_until(4.0)
    return loop, sum(isinstance(event, BlockUndecodable) for event in loop.events)


@pytest.mark.parametrize(("p", "r"), [(0.001, 0.1), (0.005, 0.2), (0.01, 0.5)])
def test_bursts_cost_the_parity_that_they_take_and_no_block(p: float, r: float) -> None:
    """The rival raises N to twice as much and more, and loses no fewer."""
    sent = []
    for pass_by in (True, False):
        loop, lost = stream(gilbert(p, r), pass_by=pass_by)
        assert (
            lost == 0
            and sum(loop.receiver.counters[name] for name in ("recovered", "decoded_blocks")) > 200
        )
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


CHAINS = [(0.001, 0.1, 1.0), (0.005, 0.2, 1.0), (0.01, 0.5, 1.0), (0.002, 0.1, 0.7)]
"""Turns bad, turns good again, loses so much while it is bad."""


def elliott(p: float, r: float, bad: float, seed: int = 4) -> Iterator[bool]:
    chance = random.Random(seed)
    return (gone and chance.random() < bad for gone in gilbert(p, r, seed))


@cache
def _fates(p: float, r: float, bad: float, seed: int) -> np.ndarray:
    """Return whether each of 200,000 packets of the channel is lost."""
    return np.fromiter(elliott(p, r, bad, seed), dtype=bool, count=200_000)


def chain_of(p: float, r: float, bad: float) -> BurstChain:
    return BurstChain(share=p / (p + r), length=1 / r, lost=bad)


def burst_answer(chain: BurstChain) -> int:
    return burst_block_size(M, chain, 1e-5)


def without_late_parity(
    lost: Iterator[bool], seconds: float = 4.0, **changes: object
) -> tuple[DelayLoop, list[int]]:
    """A playback buffer in which no parity comes in time that answers a report; N block by block. Lost blocks are left
    to the caller."""
    sender = build_sender(policy=mean_loss, playback_s=0.1, **changes)
    loop = DelayLoop(sender, build_receiver(playback_s=0.1), backward=lambda *_: (0.04,))
    loop.forward = lambda packet, at: () if next(lost) else (0.04,)
    loop.run_until(seconds)
    return loop, list(
        {packet.block: packet.block_size for _, packet in loop.sent if packet.symbol < M}.values()
    )


def lost_blocks(loop: DelayLoop) -> int:
    return sum(isinstance(event, BlockUndecodable) for event in loop.events)


@pytest.mark.parametrize(
    ("p", "r", "sizes"),
    [(0.001, 0.1, (31, 53, 97)), (0.005, 0.2, (32, 43, 65)), (0.01, 0.5, (25, 29, 36))],
)
def test_n_of_a_chain_is_that_of_a_recursion_by_others(
    p: float, r: float, sizes: tuple[int, ...]
) -> None:
    """At decoding error rates of 1e-2, 1e-3 and 1e-5, by a dynamic programme outside the product; the rival is equation
    25 at the mean loss."""
    found = [
        burst_block_size(M, chain_of(p, r, 1.0), rate, interleaved=False)
        for rate in (1e-2, 1e-3, 1e-5)
    ]
    assert found == list(sizes) and found[2] > fec_block_size(M, round(p / (p + r), 4), 1e-5) + 9


@pytest.mark.parametrize("interleaved", [True, False])
@pytest.mark.parametrize(("p", "r", "bad"), CHAINS)
@pytest.mark.parametrize("n", [24, 31])
def test_blocks_fail_as_often_as_the_chain_says(
    p: float, r: float, bad: float, n: int, interleaved: bool
) -> None:
    """Counted over 200,000 packets of the channel; as many independent losses lose next to nothing."""
    fates = _fates(p, r, bad, n)
    if interleaved:  # sources of a block alternate with the parity of the one before
        order = np.argsort(
            np.concatenate([np.linspace(0, 1, M, False), 1 + (np.arange(n - M) + 0.5) / (n - M)])
        )
        when = np.concatenate([np.arange(M) * n / M, n + (np.arange(n - M) + 0.5) * n / (n - M)])[
            order
        ]
        starts = np.arange(0, len(fates) - 2 * n - 1, n)
        lost = fates[(starts[:, None] + np.floor(when).astype(int)[None, :])].sum(axis=1)
    else:
        lost = fates[: len(fates) // n * n].reshape(-1, n).sum(axis=1)
    counted, predicted = (
        float((lost > n - M).mean()),
        failure_in_bursts(M, n, chain_of(p, r, bad), interleaved=interleaved),
    )
    sigma = np.sqrt(predicted * (1 + 2 / r / n) / len(lost))
    assert abs(counted - predicted) < 4 * sigma + 3 / len(lost)


@pytest.mark.parametrize(
    ("p", "r", "bad"),
    [pytest.param(*one, marks=[] if k == 1 else pytest.mark.soak) for k, one in enumerate(CHAINS)],
)
def test_n_covers_bursts_if_later_parity_would_be_too_late(p: float, r: float, bad: float) -> None:
    """Within a quarter of what the chain asks for, once bursts were seen; the rival is the block size of equation 25 at
    the mean loss, which loses many blocks."""
    needed = burst_answer(chain_of(p, r, bad))
    loop, sizes = without_late_parity(elliott(p, r, bad), 16.0, of_bursts=burst_answer)
    settled = sizes[len(sizes) // 2 :]
    assert 0.8 * needed - 1 <= np.median(settled) <= 1.25 * needed + 1, (needed, np.median(settled))
    before = lost_blocks(loop)
    mean = fec_block_size(M, round(bad * p / (p + r), 4), 1e-5)
    rival, _ = without_late_parity(elliott(p, r, bad), 16.0, block_size=mean)
    assert 3 * before + 3 < lost_blocks(rival)


@pytest.mark.parametrize("labels", [0, 1 << 14])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.2])
def test_n_of_independent_losses_and_of_single_failures_stays_as_it_was(
    share: float, labels: int
) -> None:
    logs = []
    for changes in ({}, {"of_bursts": burst_answer}):
        chance = random.Random(5)
        loop, sizes = (
            DelayLoop(
                build_sender(policy=mean_loss, playback_s=0.1, **changes),
                build_receiver(playback_s=0.1),
            ),
            [],
        )
        loop.forward = lambda packet, at, chance=chance: (
            () if chance.random() < share or (1 < at < 2 and packet.label < labels) else (0.002,)
        )
        loop.run_until(3.0)
        sizes = [(at, packet.block_size) for at, packet in loop.sent]
        logs.append(sizes)
    assert logs[0] == logs[1] and len(logs[0]) > 3000


def test_a_failure_among_bursts_keeps_n_and_bursts_that_end_give_it_back() -> None:
    lost = elliott(0.005, 0.2, 1.0)
    sender = build_sender(policy=mean_loss, largest=55, playback_s=0.1, of_bursts=burst_answer)
    loop = DelayLoop(sender, build_receiver(playback_s=0.1))
    loop.forward = lambda packet, at: (
        () if (at < 14 and next(lost)) or (8 < at < 10 and packet.label < 1 << 14) else (0.002,)
    )
    loop.run_until(22.0)
    sizes = {at: packet.block_size for at, packet in loop.sent}
    assert min(size for at, size in sizes.items() if 6 < at < 14) >= 35
    assert max(size for at, size in sizes.items() if 10.5 < at < 14) <= 80
    assert sizes[max(sizes)] == 22


@drawn(40)
@given(seed=st.integers(0, 10**9), share=st.floats(0.001, 0.6), more=st.floats(0.001, 0.6))
def test_independent_losses_whose_share_changes_make_no_chain(
    seed: int, share: float, more: float
) -> None:
    chance, bursts = random.Random(seed), LossBursts(SHORT_GAP)
    for number in range(400):
        bursts.add([chance.random() < (share if number < 200 else more) for _ in range(50)])
        assert bursts.chain is None


@pytest.mark.parametrize("most", [30, pytest.param(255, marks=pytest.mark.long)])
def test_n_of_bursts_goes_no_further_than_the_code_or_the_route(most: int) -> None:
    _, sizes = without_late_parity(
        elliott(0.004, 0.02, 1.0),
        6.0,
        of_bursts=lambda chain: burst_block_size(M, chain, 1e-5, largest=most),
    )
    assert sizes[-1] == most
