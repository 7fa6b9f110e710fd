"""Whatever the traffic, a schedule is one by two independent checkers, and no method beats a proof."""

from __future__ import annotations

import itertools
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from testbed.model.schedule import Schedule
from testbed.model.traffic import Traffic
from testbed.scheduling.checker import check_schedule
from testbed.scheduling.fast.portfolio import cp_sat_schedule, liquid_schedule
from testbed.scheduling.fast.searches import SEARCH_TWINS
from testbed.scheduling.fast.steps import LinkSets, colour_edges
from tests.helpers.drawn import drawn

transfers = st.lists(
    st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True), min_size=1, max_size=24
)


@drawn(60)
@given(transfers)
def test_schedules_pass_the_checker_and_are_not_below_the_bottleneck(
    links: list[list[int]],
) -> None:
    traffic = Traffic.from_transfers(links)
    schedule = liquid_schedule(traffic, time_limit_s=2)
    check_schedule(traffic, schedule)
    assert sorted(t for frame in schedule.frames for t in frame) == list(range(len(links)))
    assert (
        schedule.length
        >= traffic.bottleneck_load
        == max(sum(name in t for t in links) for name in range(10))
    )


@drawn(25)
@given(
    st.lists(
        st.lists(st.integers(0, 6), min_size=1, max_size=3, unique=True), min_size=1, max_size=12
    )
)
def test_the_fast_method_agrees_with_cp_sat_on_small_traffics(links: list[list[int]]) -> None:
    traffic = Traffic.from_transfers(links)
    ours, exact = liquid_schedule(traffic, time_limit_s=5), cp_sat_schedule(traffic, time_limit_s=5)
    assert exact.optimal and ours.length == exact.length
    assert ours.proved == exact.proved


@drawn(60)
@given(
    st.integers(1, 6),
    st.integers(1, 6),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=40),
)
def test_edge_colourings_are_proper_with_as_many_colours_as_the_degree(
    lefts: int, rights: int, edges: list[tuple[int, int]]
) -> None:
    left = np.array([a % lefts for a, _ in edges], dtype=np.int64)
    right = np.array([b % rights for _, b in edges], dtype=np.int64)
    degree = max([np.bincount(left).max(), np.bincount(right).max()]) if edges else 1
    colour = np.full(len(edges), -1, dtype=np.int64)
    colour_edges(left, right, (lefts, rights), degree, colour)
    assert all(0 <= c < degree for c in colour)
    for side in (left, right):
        assert len({(int(v), int(c)) for v, c in zip(side, colour, strict=True)}) == len(edges)


def uses_every_link_once_a_frame(links: list[list[int]], frames: list[list[int]]) -> bool:
    """Return whether the frames hold each transfer once, and no frame uses a link twice."""
    if sorted(transfer for frame in frames for transfer in frame) != list(range(len(links))):
        return False
    for frame in frames:
        used = [link for transfer in frame for link in links[transfer]]
        if len(used) != len(set(used)):
            return False
    return True


def test_frames_are_those_of_a_schedule() -> None:
    chance = np.random.default_rng(1)
    for _ in range(5):
        links = [
            chance.choice(20, size=chance.integers(1, 5), replace=False).tolist() for _ in range(60)
        ]
        traffic = Traffic.from_transfers(links)
        frames = liquid_schedule(traffic, time_limit_s=2).frames
        assert uses_every_link_once_a_frame(links, frames)
        assert not uses_every_link_once_a_frame(links, frames[1:])
        assert not uses_every_link_once_a_frame(links, [[*frames[0], *frames[1]], *frames[2:]])


@drawn(40)
@given(
    st.lists(st.integers(1, 4), min_size=2, max_size=6),
    st.lists(
        st.tuples(
            st.lists(st.integers(0, 5), min_size=1, max_size=3, unique=True), st.integers(0, 2)
        ),
        min_size=1,
        max_size=5,
    ),
    st.integers(1, 2),
    st.randoms(use_true_random=False),
)
def test_classes_found_in_the_links_alone_give_schedules(
    pools: list[int], classes: list[tuple[list[int], int]], copies: int, chance: Random
) -> None:
    links = []
    for used, joint in classes:
        for chosen in itertools.product(
            *[[f"{p % len(pools)}.{i}" for i in range(pools[p % len(pools)])] for p in used]
        ):
            path = list(dict.fromkeys([*chosen, f"joint{joint}"]))
            links += [chance.sample(path, len(path)) for _ in range(copies)]
    traffic = Traffic.from_transfers(links)
    bound = traffic.bottleneck_load
    frame_of = np.zeros(len(links), dtype=np.int32)
    state = SEARCH_TWINS(
        LinkSets(traffic.offsets, traffic.indices, len(traffic.links)), bound, 5000, 1, frame_of
    )
    assert state in (-1, 0, 1)
    if state == 1:
        check_schedule(traffic, Schedule.of(frame_of, bound, method="twins"))
