"""Fission of categories on traffics small enough to know every full simultaneity and every full team by hand or brute
force."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest

from testbed.scheduling.exact.full_simultaneities import (
    BLANK,
    IDLE,
    NAIVE,
    SKELETON,
    Category,
    CategoryCount,
    Conflicts,
    OutOfTimeError,
    TeamSearch,
    full_simultaneities,
    full_teams,
    search_space,
    teams_of,
    transfers_of,
)

FIGURE_30 = [
    [f"t{i}", *(["ab"] if i <= 3 < j else ["ba"] if j <= 3 < i else []), f"r{j}"]
    for i in range(1, 6)
    for j in range(1, 6)
]
FIGURE_37 = [["t1", "ab", "bc", "r1"], ["t2", "bc", "ca", "r2"], ["t3", "ca", "ab", "r3"]]


def numbered(transfers: list[list[str]]) -> list[list[int]]:
    numbers: dict[str, int] = {}
    return [[numbers.setdefault(link, len(numbers)) for link in path] for path in transfers]


def brute_force(paths: list[list[int]], full: bool = True) -> set[frozenset[int]]:
    sets = [frozenset(path) for path in paths]
    free = [
        frozenset(chosen)
        for size in range(1, len(sets) + 1)
        for chosen in combinations(range(len(sets)), size)
        if all(sets[a].isdisjoint(sets[b]) for a, b in combinations(chosen, 2))
    ]
    if not full:
        return set(free)
    return {
        s
        for s in free
        if all(any(sets[x] & sets[y] for y in s) for x in range(len(sets)) if x not in s)
    }


SMALL = numbered(FIGURE_30)[2:14]


@pytest.mark.parametrize("blank", [True, False])
def test_every_full_simultaneity_comes_once(blank: bool) -> None:
    conflicts = Conflicts.of(SMALL)
    prim = Category(includer=0, depot=conflicts.everything, excluder=0)
    found = [
        frozenset(transfers_of(s))
        for s in full_simultaneities(
            conflicts, prim, CategoryCount(), search=TeamSearch(blank=blank)
        )
    ]
    assert len(found) == len(set(found))
    assert set(found) == brute_force(SMALL)


@pytest.mark.parametrize("search", [NAIVE, BLANK, IDLE, SKELETON])
def test_every_full_team_comes_once_whatever_is_switched_off(search: object) -> None:
    conflicts = Conflicts.of(SMALL)
    duration, bottlenecks = conflicts.bottlenecks(conflicts.everything)
    found = [
        frozenset(transfers_of(team))
        for team in full_teams(conflicts, conflicts.everything, CategoryCount(), search=search)  # type: ignore[arg-type]
    ]
    assert len(found) == len(set(found)) > 1
    assert duration == 5
    assert set(found) == {
        s for s in brute_force(SMALL) if set(bottlenecks) <= {link for x in s for link in SMALL[x]}
    }


@pytest.mark.parametrize("search", [IDLE, SKELETON])
def test_teams_that_need_not_be_full_come_once_too(search: TeamSearch) -> None:
    conflicts = Conflicts.of(SMALL)
    required = conflicts.bottlenecks(conflicts.everything)[1]
    found = [
        frozenset(transfers_of(team))
        for team in teams_of(
            conflicts,
            conflicts.everything,
            CategoryCount(),
            required=required,
            search=replace(search, full=False),
        )
    ]
    wanted = {
        s
        for s in brute_force(SMALL, full=False)
        if set(required) <= {link for x in s for link in SMALL[x]}
    }
    assert len(found) == len(set(found))
    assert set(found) == wanted


def test_figure_30_has_the_load_and_the_bottlenecks_of_the_thesis() -> None:
    paths = numbered(FIGURE_30)
    conflicts = Conflicts.of(paths)
    duration, bottlenecks = conflicts.bottlenecks(conflicts.everything)
    names = {
        number: name
        for path, links in zip(paths, FIGURE_30, strict=True)
        for number, name in zip(path, links, strict=True)
    }
    assert duration == 6
    assert {names[link] for link in bottlenecks} == {"ab", "ba"}
    assert conflicts.skeleton(conflicts.everything, bottlenecks).bit_count() == 12


def test_figure_37_has_no_team() -> None:
    assert search_space(numbered(FIGURE_37), NAIVE)[1] == 0
    assert search_space(numbered(FIGURE_37), SKELETON)[1] == 0


def test_each_optimisation_reduces_the_search_space_of_figure_30() -> None:
    spaces = [
        search_space(numbered(FIGURE_30), search) for search in (NAIVE, BLANK, IDLE, SKELETON)
    ]
    sizes = [space for space, _ in spaces]
    assert len({teams for _, teams in spaces}) == 1
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < sizes[0] / 4


def test_search_ends_at_its_allowance() -> None:
    conflicts = Conflicts.of(numbered(FIGURE_30))
    with pytest.raises(OutOfTimeError):
        list(full_teams(conflicts, conflicts.everything, CategoryCount(most=50), search=NAIVE))
