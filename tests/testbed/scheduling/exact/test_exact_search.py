"""The exact search: what it finds is a schedule, what it excludes does not exist, whatever optimisation is off."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from testbed.scheduling.exact.exact_search import ExactOptions, search_exactly
from testbed.scheduling.exact.full_simultaneities import NAIVE

FIGURE_30 = [
    [i, *([10] if i < 3 <= j else [11] if j < 3 <= i else []), 5 + j]
    for i in range(5)
    for j in range(5)
]
FIGURE_37 = [[0, 1, 2, 3], [4, 2, 5, 6], [7, 5, 1, 8]]
PLAIN = ExactOptions(
    reduced=False, full=False, anchored=False, remembered=False, scarce_first=False, restarts=False
)
SWITCHED = [
    ExactOptions(),
    ExactOptions(teams=NAIVE, restarts=False),
    ExactOptions(full=False, restarts=False),
    ExactOptions(reduced=False),
    replace(PLAIN, reduced=True, full=True),
    PLAIN,
]


def assert_schedule(paths: list[list[int]], frames: tuple[tuple[int, ...], ...]) -> None:
    assert sorted(i for frame in frames for i in frame) == list(range(len(paths)))
    for frame in frames:
        links = [link for i in frame for link in paths[i]]
        assert len(links) == len(set(links)), frame


def random_traffic(chance: random.Random, transfers: int) -> list[list[int]]:
    links = chance.randint(4, 9)
    return [chance.sample(range(links), chance.randint(1, 3)) for _ in range(transfers)]


@pytest.mark.parametrize("options", SWITCHED)
def test_figure_37_has_no_liquid_schedule_and_needs_three_frames(
    options: ExactOptions,
) -> None:
    result = search_exactly(FIGURE_37, options=options)
    assert (result.duration, result.proved, result.optimal) == (2, "no-liquid-schedule", True)
    assert result.frames is not None and len(result.frames) == 3
    assert_schedule(FIGURE_37, result.frames)


def test_figure_30_takes_the_six_frames_of_the_thesis() -> None:
    result = search_exactly(FIGURE_30)
    assert result.frames is not None and len(result.frames) == 6
    assert (result.proved, result.optimal, result.exhausted) == ("liquid", True, ())
    assert_schedule(FIGURE_30, result.frames)


@pytest.mark.parametrize("options", SWITCHED[1:])
def test_switching_optimisations_off_changes_no_length(options: ExactOptions) -> None:
    chance = random.Random(5)
    for _ in range(25):
        paths = random_traffic(chance, chance.randint(1, 8))
        full = search_exactly(paths)
        other = search_exactly(paths, options=options)
        assert full.frames is not None and other.frames is not None
        assert len(full.frames) == len(other.frames) == full.lower_bound == other.lower_bound
        assert_schedule(paths, other.frames)


def test_schedules_of_500_random_traffics_are_as_short_as_a_solver_finds() -> None:
    cp_model = pytest.importorskip("ortools.sat.python.cp_model")
    chance = random.Random(11)
    impossible = 0
    for _ in range(500):
        paths = random_traffic(chance, chance.randint(2, 14))
        result = search_exactly(paths)
        assert result.frames is not None and result.optimal
        assert_schedule(paths, result.frames)
        length = len(result.frames)
        impossible += result.proved == "no-liquid-schedule"
        assert (result.proved == "liquid") == (length == result.duration)
        if length > result.duration:
            assert not fits(cp_model, paths, length - 1)
    assert impossible > 30


def fits(cp_model: object, paths: list[list[int]], frames: int) -> bool:
    """Whether CP-SAT schedules the transfers in so many frames."""
    model = cp_model.CpModel()  # type: ignore[attr-defined]
    at = [[model.new_bool_var("") for _ in range(frames)] for _ in paths]
    for row in at:
        model.add_exactly_one(row)
    for link in {link for path in paths for link in path}:
        for t in range(frames):
            model.add_at_most_one(at[i][t] for i, path in enumerate(paths) if link in path)
    solver = cp_model.CpSolver()  # type: ignore[attr-defined]
    solver.parameters.num_workers = 1
    return bool(solver.solve(model) in (cp_model.OPTIMAL, cp_model.FEASIBLE))  # type: ignore[attr-defined]


def test_same_seed_gives_the_same_frames_and_little_time_an_unknown() -> None:
    assert search_exactly(FIGURE_30, seed=3) == search_exactly(FIGURE_30, seed=3)
    cut = search_exactly(FIGURE_30, most_categories=3)
    assert (cut.frames, cut.proved, cut.optimal) == (None, "unknown", False)
    late = search_exactly(FIGURE_30 * 12, expired=lambda: True)
    assert late.proved == "unknown"
