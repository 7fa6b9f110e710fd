"""Optical burst switching: no burst is lost from sight, no fibre bears too much, none leaves before it can be known,
first fit fits."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import InputError
from testbed.scheduling.fast.packing import pack, solve_packing
from testbed.wavelengths.burst_switching import (
    STRATEGIES,
    BurstCloud,
    BurstTraffic,
    Reservations,
    dispatcher_of,
    fewest_rounds,
    optical_cloud_of,
    simulate_bursts,
)
from tests.helpers.drawn import drawn
from topologies import load_network

RING = load_network("ring:5")


def ring(wavelengths: int, switching: str) -> BurstCloud:
    return optical_cloud_of(RING, wavelengths=wavelengths, switching=switching)  # type: ignore[arg-type]


scenarios = {
    "strategy": st.sampled_from(STRATEGIES),
    "switching": st.sampled_from(["wsxc", "wixc"]),
    "wavelengths": st.integers(1, 3),
    "load": st.sampled_from([0.2, 0.7, 1.0, 1.6]),
    "seed": st.integers(0, 999),
}


@drawn(40)
@given(**scenarios, buffer_bursts=st.sampled_from([3, 200]))
def test_every_burst_is_sent_lost_or_still_waiting(
    strategy: str, switching: str, wavelengths: int, load: float, seed: int, buffer_bursts: int
) -> None:
    traffic = BurstTraffic(
        load=load, slots=60, warm_up_slots=0, buffer_bursts=buffer_bursts, seed=seed
    )
    found = simulate_bursts(ring(wavelengths, switching), traffic, strategy)  # type: ignore[arg-type]
    assert found.offered == found.carried + found.blocked + found.overflowed + found.backlog
    assert found.fullest <= buffer_bursts
    assert 0 <= found.utilisation <= 1
    assert found.blocked == 0 or strategy == "greedy-drop"
    assert (
        found.mean_delay_slots is None or found.mean_delay_slots >= 2.5
    )  # known a slot after, then a slot to send


@drawn(40)
@given(**scenarios, known_after=st.integers(0, 3))
def test_bursts_of_a_slot_fit_the_wavelengths_and_were_announced(
    strategy: str, switching: str, wavelengths: int, load: float, seed: int, known_after: int
) -> None:
    cloud, chance = ring(wavelengths, switching), random.Random(seed)
    traffic = BurstTraffic(
        load=load, slots=30, warm_up_slots=0, signalling_slots=known_after, seed=seed
    )
    dispatcher = dispatcher_of(cloud, traffic, strategy)  # type: ignore[arg-type]
    kept, sent = Counter[tuple[int, int]](), Counter[tuple[int, int]]()
    last: dict[int, int] = {}
    for slot in range(400):
        leaving = list(dispatcher.leaving(slot))
        paths = [cloud.paths[pair] for pair, _ in leaving]
        bins, capacity = (wavelengths, 1) if switching == "wsxc" else (1, wavelengths)
        fits = (
            pack(paths, bins, capacity) is not None
            or solve_packing(paths, bins, capacity, time_limit_s=10).bins
        )
        assert fits
        for pair, arrived in sorted(leaving):
            assert slot >= arrived + 1 + known_after
            assert arrived >= last.get(pair, 0)  # bursts of a pair keep their order
            last[pair] = arrived
        sent.update(leaving)
        if slot < 30:
            for pair in chance.choices(range(len(cloud.paths)), k=round(6 * load)):
                if dispatcher.arrive(pair, slot):
                    kept[pair, slot] += 1
    assert sent == kept  # all that was taken has left in the end, none twice


@drawn(40)
@given(seed=st.integers(0, 9999), wavelengths=st.integers(1, 3), converting=st.booleans())
def test_first_fit_finds_the_first_slot_that_a_plain_search_finds(
    seed: int, wavelengths: int, converting: bool
) -> None:
    chance = random.Random(seed)
    paths = [tuple(chance.sample(range(5), chance.randint(1, 3))) for _ in range(6)]
    reservations = Reservations(paths, wavelengths, converting=converting)
    taken: set[tuple[int, int, int]] = set()  # (link, wavelength, slot)
    for now in range(4):
        for _ in range(8):
            pair, earliest = chance.randrange(6), chance.randint(0, 3)
            slot = now + earliest
            while True:
                free = [
                    [w for w in range(wavelengths) if (x, w, slot) not in taken]
                    for x in paths[pair]
                ]
                shared = sorted(set.intersection(*map(set, free)))
                if all(free) if converting else shared:
                    break
                slot += 1
            assert reservations.reserve(pair, now + earliest, slot - 1) is None
            assert reservations.reserve(pair, now + earliest) == slot
            for link, own in zip(paths[pair], free, strict=True):
                taken.add((link, own[0] if converting else shared[0], slot))
        reservations.forget(now)


def test_rounds_of_a_buffered_cloud_are_as_few_as_its_bottleneck_needs() -> None:
    cloud = optical_cloud_of(load_network("optical-cloud"), wavelengths=8, switching="wsxc")
    paths = [cloud.paths[pair] for pair in random.Random(1).choices(range(len(cloud.paths)), k=400)]
    load = max(Counter(link for path in paths for link in path).values())
    rounds = fewest_rounds(paths, 8, converting=False)
    assert len(rounds) == -(-load // 8)
    assert sorted(i for lit in rounds for frame in lit for i in frame) == list(range(400))


def test_repeated_liquid_schedules_carry_what_bufferless_first_fit_loses() -> None:
    cloud = optical_cloud_of(load_network("optical-cloud"), wavelengths=8, switching="wsxc")
    traffic = BurstTraffic(load=0.8, slots=200, warm_up_slots=40)
    found = {strategy: simulate_bursts(cloud, traffic, strategy) for strategy in STRATEGIES}
    assert found["greedy-drop"].loss > 0.08
    for strategy in ("liquid", "liquid-rolling", "greedy-defer"):
        assert (found[strategy].loss, found[strategy].offered) == (0, found["greedy-drop"].offered)
    delays = {name: result.mean_delay_slots for name, result in found.items()}
    assert delays["liquid-rolling"] < delays["greedy-defer"] < delays["liquid"]  # type: ignore[operator]


def test_impossible_scenarios_are_refused() -> None:
    for wrong in (
        {"load": 0},
        {"load": 0.5, "slots": 10, "warm_up_slots": 10},
        {"load": 0.5, "buffer_bursts": 0},
        {"load": 0.5, "signalling_slots": -1},
    ):
        with pytest.raises(InputError):
            BurstTraffic(**wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="strategy 'best'"):
        simulate_bursts(ring(1, "wsxc"), BurstTraffic(load=0.5), "best")  # type: ignore[arg-type]
