"""First fit, edge colouring and the ejection of units against a plain and slow statement of what they must return.

The portfolio hides a step that went wrong, for another one then finds the schedule: so each is called alone here,
uncompiled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.scheduling.fast.steps import (
    LARGE,
    UNPLACED,
    colour_edges,
    first_fit,
    seeded_state,
)
from testbed.scheduling.fast.unit_ejection import (
    UnitTable,
    cheapest_position,
    eject,
    enter_positions,
    is_free,
    place,
    place_greedily,
    remove,
    unit_table,
)
from tests.helpers.link_sets import FEW, LINKS, MANY, link_sets, paths_of_few_links

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered")


@FEW
@given(
    paths_of_few_links,
    st.integers(1, 5),
    st.sampled_from([0, 61, 64, 127]),
    st.randoms(use_true_random=False),
)
def test_first_fit_takes_the_first_free_frame(paths, frames, more, chance) -> None:
    """``more`` transfers of all links come first, so that frames lie in the second and third word too."""
    paths, frames = [*[list(range(LINKS))] * more, *paths], frames + more
    order = [*range(more), *chance.sample(range(more, len(paths)), len(paths) - more)]
    taken: list[set[int]] = [set() for _ in range(frames)]
    expected = [UNPLACED] * len(paths)
    for transfer in order:
        free = [f for f in range(frames) if not taken[f] & set(paths[transfer])]
        if free:
            expected[transfer] = free[0]
            taken[free[0]] |= set(paths[transfer])
    frame_of = np.zeros(len(paths), dtype=np.int32)
    assert first_fit(link_sets(paths), np.array(order), frames, frame_of) == expected.count(
        UNPLACED
    )
    assert frame_of.tolist() == expected


@FEW
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), max_size=25))
def test_edges_at_a_vertex_differ_in_colour_within_the_degree(edges) -> None:
    ends = np.array(edges, dtype=np.int64).reshape(-1, 2)
    degree = max(
        [1, *Counter(ends[:, 0].tolist()).values(), *Counter(ends[:, 1].tolist()).values()]
    )
    colour = np.full(len(edges), 99, dtype=np.int64)
    colour_edges(ends[:, 0], ends[:, 1], (5, 4), degree, colour)
    assert all(0 <= c < degree for c in colour)
    for side in (0, 1):
        assert len(set(zip(ends[:, side].tolist(), colour.tolist(), strict=True))) == len(edges)


@st.composite
def tables(draw, shifts_of=(1, 2), least_frames: int = 1) -> tuple[UnitTable, list[list[int]], int]:
    """A table with two shifts (links go round by half) in which some units have positions; its paths; a unit that
    waits."""
    paths = draw(paths_of_few_links)
    frames = draw(st.integers(least_frames, 3))
    shifts = draw(st.sampled_from(shifts_of))
    moved = np.array(
        [[(link + 3 * shift) % LINKS for link in range(LINKS)] for shift in range(shifts)]
    )
    table = unit_table(link_sets(paths), moved, frames, seeded_state(draw(st.integers(1, 99))))
    for unit in range(len(paths) - 1):
        at = draw(st.integers(0, frames * shifts - 1))
        if is_free(table, unit, at):
            place(table, unit, at)
    table.weight[:] = draw(st.lists(st.integers(1, 4), min_size=len(paths), max_size=len(paths)))
    table.tabu[:] = draw(st.lists(st.integers(0, 6), min_size=len(paths), max_size=len(paths)))
    table.steps[0] = 3
    return table, paths, len(paths) - 1


def held_links(
    table: UnitTable, paths: Sequence[Sequence[int]], unit: int, at: int
) -> set[tuple[int, int]]:
    """(link, frame) that the unit holds at the position: links go round by half at the second shift."""
    frame, shift = divmod(at, len(table.moved))
    return {((link + 3 * shift) % LINKS, frame) for link in paths[unit]}


def holders(table: UnitTable, paths: Sequence[Sequence[int]]) -> dict[tuple[int, int], int]:
    """Who holds what, from the positions alone."""
    placed = [unit for unit in range(len(paths)) if table.position[unit] != UNPLACED]
    return {
        place: u for u in placed for place in held_links(table, paths, u, int(table.position[u]))
    }


def assert_holders_agree(table: UnitTable, paths: Sequence[Sequence[int]]) -> None:
    entered = {
        tuple(p): int(table.holder[tuple(p)])
        for p in np.argwhere(table.holder != UNPLACED).tolist()
    }
    assert entered == holders(table, paths)


@MANY
@given(tables())
def test_a_unit_is_put_where_it_is_cheapest(case) -> None:
    table, paths, unit = case
    assert_holders_agree(table, paths)
    positions = table.holder.shape[1] * len(table.moved)
    known = holders(table, paths)
    leaving = [
        {known[p] for p in held_links(table, paths, unit, at) if p in known}
        for at in range(positions)
    ]
    costs = [
        sum(int(table.weight[u]) + LARGE * bool(table.tabu[u] > 3) for u in units)
        for units in leaving
    ]
    for at in range(positions):
        assert is_free(table, unit, at) == (not leaving[at])
    at, leave = cheapest_position(table, unit, np.zeros(1, dtype=np.int32))
    assert costs[at] == min(costs)
    assert leave == len(leaving[at]) and set(table.leaving[:leave].tolist()) == leaving[at]
    for other in leaving[at]:
        remove(table, other)
        assert table.position[other] == UNPLACED
    place(table, unit, at)
    assert table.position[unit] == at
    assert_holders_agree(table, paths)


@MANY
@given(tables(shifts_of=(1,), least_frames=2))
def test_only_frames_with_fewest_occupied_links_are_weighed(case) -> None:
    table, paths, unit = case
    frames = table.holder.shape[1]
    known = holders(table, paths)
    held = [sum((link, frame) in known for link in paths[unit]) for frame in range(frames)]
    cost = [
        sum(
            int(table.weight[u]) + LARGE * bool(table.tabu[u] > 3)
            for u in set(map(known.get, places)) - {None}
        )
        for places in (held_links(table, paths, unit, frame) for frame in range(frames))
    ]
    taken = np.full(frames, 9, dtype=np.int32)
    at, _ = cheapest_position(table, unit, taken)
    assert taken.tolist() == held
    assert held[at] == min(held) and cost[at] == min(
        c for c, h in zip(cost, held, strict=True) if h == min(held)
    )


def test_ties_are_broken_at_random() -> None:
    """Wherever the search begins, and it mostly begins among the four frames whose unit is dear to move."""
    table = unit_table(link_sets([[0]] * 7), np.arange(LINKS).reshape(1, -1), 6, seeded_state(1))
    for unit in range(6):
        place(table, unit, unit)
    table.weight[2:] = 5
    met = Counter(cheapest_position(table, 6, np.zeros(1, dtype=np.int32))[0] for _ in range(200))
    assert set(met) == {0, 1} and min(met.values()) >= 70


@MANY
@given(tables())
def test_a_step_of_ejection_weighs_who_leaves_and_keeps_who_came(case) -> None:
    table, paths, unit = case
    placed = table.position != UNPLACED
    weight, tabu = table.weight.copy(), table.tabu.copy()
    table.waiting[0] = unit
    left = eject(table, 1, 1)
    gone = placed & (table.position == UNPLACED)
    assert (
        table.position[unit] != UNPLACED
        and sorted(table.waiting[:left]) == np.flatnonzero(gone).tolist()
    )
    assert table.weight.tolist() == (weight + gone).tolist()
    tabu[unit] = 4 + 1  # the fourth step, and one more in which it stays
    assert table.tabu.tolist() == tabu.tolist() and table.steps[0] == 4
    assert_holders_agree(table, paths)


@FEW
@given(paths_of_few_links, st.integers(1, 4))
def test_units_are_placed_at_the_first_free_position(paths, frames) -> None:
    fitted = np.zeros(len(paths), dtype=np.int32)
    failed = first_fit(link_sets(paths), np.arange(len(paths)), frames, fitted)
    unmoved = np.arange(LINKS).reshape(1, -1)
    greedy, entered = (
        unit_table(link_sets(paths), unmoved, frames, seeded_state(1)) for _ in range(2)
    )
    assert place_greedily(greedy, np.arange(len(paths))) == failed
    assert enter_positions(entered, fitted) == failed
    for table in (greedy, entered):
        assert table.position.tolist() == fitted.tolist()
        assert table.waiting[:failed].tolist() == np.flatnonzero(fitted == UNPLACED).tolist()
        assert_holders_agree(table, paths)
