"""Switches that store messages and links parted into virtual ones: what they must do to a traffic, on cases small
enough to count."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import InputError
from testbed.scheduling.baselines import sending_rounds
from testbed.scheduling.traffic.patterns import all_to_all
from testbed.scheduling.wormhole import run_queues, run_virtual_links, run_wormhole
from topologies import load_network

Paths = list[list[int]]


@pytest.mark.parametrize("hops", [1, 2, 5])
def test_a_message_alone_takes_its_time_or_its_time_at_every_stop(hops: int) -> None:
    path = [list(range(hops))]
    assert run_queues(path, [[0]], stored_fraction=0.0) == (1.0,)
    assert run_queues(path, [[0]], stored_fraction=1.0) == (float(hops),)
    assert run_queues(path, [[0]], stored_fraction=0.25) == (1.0 + 0.25 * (hops - 1),)


def test_a_stored_message_frees_the_links_behind_it_and_a_worm_does_not() -> None:
    """Two messages meet on link 9; a third only wants link 0, which the blocked one of them has crossed."""
    paths, frames = [[1, 9], [0, 9], [0, 5]], [[0, 1, 2]]
    assert run_queues(paths, frames, stored_fraction=0.0) == (1.0, 2.0, 2.0)
    assert run_wormhole(paths, frames, barrier=False).finished == (1.0, 2.0, 3.0)


def test_two_messages_share_a_parted_link_and_each_takes_twice_as_long() -> None:
    run = run_virtual_links([[1, 9], [0, 9]], [[0, 1]], number=2)
    assert run.finished == (2.0, 2.0) and run.channels == 2


@st.composite
def traffics(draw: st.DrawFn) -> Paths:
    """Up to 12 transfers over links that only lead up, so that no circle of waiting can close."""
    count = draw(st.integers(1, 12))
    return [sorted(draw(st.sets(st.integers(0, 7), min_size=1, max_size=4))) for _ in range(count)]


@given(traffics(), st.integers(0, 100))
def test_one_virtual_link_is_the_wormhole_network(paths: Paths, seed: int) -> None:
    order = list(range(len(paths)))
    random.Random(seed).shuffle(order)
    assert run_virtual_links(paths, [order], number=1).finished == pytest.approx(
        run_wormhole(paths, [order], barrier=False).finished
    )


@given(traffics(), st.sampled_from([0.0, 0.3, 1.0]), st.integers(1, 5))
def test_no_link_carries_more_than_it_can(paths: Paths, fraction: float, number: int) -> None:
    load = max(sum(link in path for path in paths) for link in range(8))
    frames = [list(range(len(paths)))]
    assert max(run_queues(paths, frames, stored_fraction=fraction)) >= load - 1e-9
    run = run_virtual_links(paths, frames, number=number)
    assert not run.deadlock and run.duration >= load - 1e-9


def test_two_switch_example_is_nearly_liquid_with_room_for_all_messages() -> None:
    paths = all_to_all(load_network("two-switch")).paths()
    rounds = sending_rounds(paths, "round-robin")
    worm = run_wormhole(paths, rounds, barrier=False).duration
    assert 6 <= max(run_queues(paths, rounds, stored_fraction=0.0)) <= worm


def test_impossible_schedules_are_refused() -> None:
    with pytest.raises(InputError, match="every transfer must be in exactly one frame"):
        run_queues([[0], [1]], [[0]], stored_fraction=0.0)
    with pytest.raises(InputError, match="0 to 1"):
        run_queues([[0]], [[0]], stored_fraction=1.5)
    with pytest.raises(InputError, match="1 or more"):
        run_virtual_links([[0]], [[0]], number=0)
    with pytest.raises(InputError, match="every transfer must be in exactly one frame"):
        run_virtual_links([[0]], [[0, 0]], number=2)
