"""Baselines: round robin's rounds and the thesis' seven frames, orders, DSATUR and MILP."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import InputError
from testbed.scheduling.baselines import (
    Frames,
    compact_rounds,
    dsatur_frames,
    sending_rounds,
    split_rounds,
)
from testbed.scheduling.exact.milp import solve_milp
from tests.helpers.drawn import drawn

FIGURE_30 = [
    [i, *([10] if i < 3 <= j else [11] if j < 3 <= i else []), 5 + j]
    for i in range(5)
    for j in range(5)
]
FIGURE_37 = [[0, 1, 2, 3], [4, 2, 5, 6], [7, 5, 1, 8]]
TRAFFICS = st.lists(
    st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True), min_size=1, max_size=20
)


def assert_schedule(paths: list[list[int]], frames: Frames) -> None:
    assert sorted(i for frame in frames for i in frame) == list(range(len(paths)))
    for frame in frames:
        links = [link for i in frame for link in paths[i]]
        assert frame and len(links) == len(set(links)), frame


def test_round_robin_has_a_round_per_node_and_seven_frames_on_figure_28() -> None:
    rounds = sending_rounds(FIGURE_30, "round-robin")
    assert [sorted(FIGURE_30[i][-1] - 5 - FIGURE_30[i][0] for i in r) for r in rounds[:2]] == [
        [0] * 5,
        [-4, 1, 1, 1, 1],
    ]
    assert len(rounds) == 5
    assert len(split_rounds(FIGURE_30, rounds)) == 7


def test_a_pair_that_comes_twice_is_sent_again_after_all_rounds() -> None:
    rounds = sending_rounds([[0, 5], [1, 6], [0, 5]], "round-robin")
    assert rounds == ((0, 1), (2,))


def test_identical_order_collides_and_random_order_follows_its_seed() -> None:
    rounds = sending_rounds(FIGURE_30, "identical")
    assert all(len({FIGURE_30[i][-1] for i in round_}) == 1 for round_ in rounds)
    assert sending_rounds(FIGURE_30, "random", seed=4) == sending_rounds(
        FIGURE_30, "random", seed=4
    )
    assert sending_rounds(FIGURE_30, "random", seed=4) != sending_rounds(
        FIGURE_30, "random", seed=5
    )
    with pytest.raises(InputError, match="sorted"):
        sending_rounds(FIGURE_30, "sorted")  # type: ignore[arg-type]


@given(TRAFFICS, st.sampled_from(["round-robin", "random", "identical"]))
def test_every_order_becomes_a_schedule(paths: list[list[int]], order: str) -> None:
    rounds = sending_rounds(paths, order)  # type: ignore[arg-type]
    assert_schedule(paths, split_rounds(paths, rounds))
    compact = compact_rounds(paths, rounds)
    assert_schedule(paths, compact)
    when = {i: at for at, frame in enumerate(compact) for i in frame}
    sent: dict[int, int] = {}
    for i in (i for round_ in rounds for i in round_):
        assert when[i] > sent.get(paths[i][0], -1)
        sent[paths[i][0]] = when[i]


@given(TRAFFICS)
def test_dsatur_colours_every_congestion_graph(paths: list[list[int]]) -> None:
    assert_schedule(paths, dsatur_frames(paths))


@drawn(20)
@given(TRAFFICS)
def test_milp_finds_schedules_that_no_colouring_beats(paths: list[list[int]]) -> None:
    result = solve_milp(paths, time_limit_s=20)
    assert result.frames is not None
    assert_schedule(paths, result.frames)
    assert result.duration <= len(result.frames) == result.lower_bound <= len(dsatur_frames(paths))


def test_milp_proves_three_frames_on_figure_37_and_gives_up_without_time() -> None:
    result = solve_milp(FIGURE_37, time_limit_s=20)
    assert (
        result.frames is not None
        and len(result.frames) == result.lower_bound == 3 > result.duration
    )
    assert solve_milp(FIGURE_37, time_limit_s=0).frames is None
