"""The wormhole model: waiting in turn, the barrier, deadlocks found, and the remedies."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable

import networkx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import InputError
from testbed.scheduling.baselines import sending_rounds
from testbed.scheduling.wormhole import run_wormhole, virtual_channels


def no_circle(waits: Iterable[tuple[Hashable, Hashable]]) -> bool:
    """Whether nothing that is held by who asks for the next leads back to itself."""
    return networkx.is_directed_acyclic_graph(networkx.DiGraph(waits))


FIGURE_30 = [
    [i, *([10] if i < 3 <= j else [11] if j < 3 <= i else []), 5 + j]
    for i in range(5)
    for j in range(5)
]
RING = [[10 + i, i, (i + 1) % 4, 20 + (i + 2) % 4] for i in range(4)]
"""Four transfers of two hops round a ring of four links: each gets its first link of the ring and waits for the
next."""


def test_transfers_run_one_after_another_on_shared_links_else_together() -> None:
    run = run_wormhole([[0, 1], [2, 1], [3]], [[0, 1, 2]], barrier=False)
    assert run.finished == (1.0, 2.0, 1.0)
    assert run.duration == 2.0


def test_a_waiting_transfer_keeps_what_it_has() -> None:
    paths = [[0, 9], [1, 2, 9], [3, 2]]
    assert run_wormhole(paths, [[0, 1, 2]], barrier=False).finished == (1.0, 2.0, 3.0)


def test_barrier_holds_a_frame_until_the_whole_one_before_is_through() -> None:
    paths = [[0], [0], [1], [1, 2]]
    frames = [[0, 1], [2], [3]]
    assert run_wormhole(paths, frames, barrier=True).finished == (1.0, 2.0, 3.0, 4.0)
    assert run_wormhole(paths, frames, barrier=False).finished == (1.0, 2.0, 1.0, 2.0)


def test_round_robin_of_figure_28_takes_at_least_the_bottleneck_load() -> None:
    rounds = sending_rounds(FIGURE_30, "round-robin")
    assert run_wormhole(FIGURE_30, rounds, barrier=True).duration == 7.0
    assert run_wormhole(FIGURE_30, rounds, barrier=False).duration >= 6.0


def test_ring_deadlocks_and_the_circle_is_told() -> None:
    run = run_wormhole(RING, [range(4)], barrier=False)
    assert run.finished == (None,) * 4
    assert sorted(wait.transfer for wait in run.deadlock) == [0, 1, 2, 3]
    for wait, after in zip(run.deadlock, (*run.deadlock[1:], run.deadlock[0]), strict=True):
        assert wait.holder == after.transfer
        assert wait.link in RING[wait.transfer] and wait.link in RING[wait.holder]
    assert sorted(wait.link for wait in run.deadlock) == [0, 1, 2, 3]


def test_virtual_channels_and_timeouts_end_the_deadlock() -> None:
    channels = run_wormhole(RING, [range(4)], barrier=False, remedy="virtual-channels")
    assert None not in channels.finished and not channels.deadlock
    assert channels.channels == 2
    given_up = run_wormhole(RING, [range(4)], barrier=False, remedy="timeout", seed=2)
    assert None not in given_up.finished and given_up.retries > 0
    assert given_up == run_wormhole(RING, [range(4)], barrier=False, remedy="timeout", seed=2)


def test_two_that_share_a_link_over_virtual_channels_take_twice_as_long() -> None:
    paths = [[0, 1, 5], [1, 0, 6]]
    run = run_wormhole(paths, [[0, 1]], barrier=False, remedy="virtual-channels")
    assert run.duration == 2.0


def test_frames_must_hold_every_transfer_once() -> None:
    with pytest.raises(InputError, match="every transfer must be in exactly one frame"):
        run_wormhole([[0], [1]], [[0, 0]], barrier=True)


@given(
    st.lists(
        st.lists(st.integers(0, 7), min_size=1, max_size=4, unique=True), min_size=1, max_size=14
    ),
    st.sampled_from(["virtual-channels", "timeout"]),
)
def test_remedies_deliver_everything_within_the_bottleneck_bound(
    paths: list[list[int]], remedy: str
) -> None:
    run = run_wormhole(paths, [range(len(paths))], barrier=False, remedy=remedy)  # type: ignore[arg-type]
    assert None not in run.finished
    loads = [sum(link in path for path in paths) for link in range(8)]
    assert run.duration >= max(loads) - 1e-9


@given(
    st.lists(
        st.lists(st.integers(0, 7), min_size=1, max_size=4, unique=True), min_size=1, max_size=14
    )
)
def test_without_a_circle_of_links_nothing_deadlocks_and_channels_rise(
    paths: list[list[int]],
) -> None:
    run = run_wormhole(paths, [range(len(paths))], barrier=False)
    if no_circle(pair for path in paths for pair in itertools.pairwise(path)):
        assert not run.deadlock and None not in run.finished
        assert all(number == 0 for path in virtual_channels(paths) for _, number in path)
    assert no_circle(pair for path in virtual_channels(paths) for pair in itertools.pairwise(path))
