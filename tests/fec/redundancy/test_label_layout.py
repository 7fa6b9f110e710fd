"""The order of labels that suits a route: exact in what it claims, never worse than the usual one, near the bound."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fec.errors import FecError
from fec.redundancy import label_slots
from fec.redundancy.block_size import (
    block_size_of_order,
    order_share,
    stratified_block_size,
    stratified_tolerance_block_size,
)
from fec.redundancy.label_layout import (
    CANDIDATES,
    Groups,
    best_layout,
    block_size_bound,
    label_layout,
    rest_block_size,
)
from fec.redundancy.label_slots import SlotSearch
from fec.redundancy.labels import (
    LABELS,
    WEYL_MULTIPLIER,
    LabelRule,
    StratifiedLabels,
    stratified_labels,
)
from fec.redundancy.worst_windows import WorstWindows
from tests.helpers.drawn import drawn


@st.composite
def groups(draw: st.DrawFn) -> Groups:
    found = []
    for _ in range(draw(st.integers(1, 4))):
        edges = sorted(draw(st.lists(st.integers(0, LABELS), min_size=2, max_size=6, unique=True)))
        intervals = tuple(itertools.pairwise(edges))[::2]
        if sum(stop - start for start, stop in intervals) < 0.8 * LABELS:
            found.append((intervals, draw(st.integers(1, 5))))
    return tuple(found)


rules = st.sampled_from(CANDIDATES) | st.integers(2, 60).flatmap(
    lambda count: st.permutations(range(count)).map(tuple)
)


@drawn(25)
@given(groups=groups())
def test_best_order_lies_between_the_bound_and_the_usual_order(
    groups: Groups,
) -> None:
    best, usual = best_layout(groups, 20, 0.05), label_layout(groups, 20, 0.05, WEYL_MULTIPLIER)
    assert (best.base, best.packets) <= (usual.base, usual.packets)
    assert (best.slots or best.multiplier in CANDIDATES) and best.over_bound >= 0
    needed = 0
    for intervals, count in groups:
        share = sum(stop - start for start, stop in intervals) / LABELS
        size = stratified_block_size(intervals, 20, best.rule)
        assert size >= block_size_bound(order_share(intervals, best.rule), 20)
        assert share > 0.05 or best.base >= size
        needed += count * (max(size, best.bound) - best.bound)
    assert best.packets == needed and best.base >= rest_block_size(0.05, 20, best.rule)


@drawn(8)
@given(groups=groups())
def test_the_best_order_is_the_first_of_the_cheapest_of_all_that_are_tried(groups: Groups) -> None:
    """However early the search gives others up."""
    sets, counts = (
        [intervals for intervals, _ in sorted(groups)],
        [count for _, count in sorted(groups)],
    )
    tried: list[LabelRule] = [*CANDIDATES]
    search = SlotSearch(sets, counts, 20, 22)
    tried += search.orders(lambda rule: label_layout(groups, 20, 0.05, rule).cost, ())
    every = [label_layout(tuple(sorted(groups)), 20, 0.05, rule) for rule in tried]
    assert best_layout(groups, 20, 0.05) == min(every, key=lambda layout: layout.cost)


@drawn(20)
@given(groups=groups(), choice=rules, data=st.data())
def test_an_order_is_given_up_where_it_asks_for_more_than_the_limits(
    groups: Groups, choice: LabelRule, data: st.DataObject
) -> None:
    windows = WorstWindows([intervals for intervals, _ in groups], 20)
    whole, counts = windows.sizes(choice), np.array([count for _, count in groups])
    packets = int((np.maximum(whole - 22, 0) * counts).sum())
    spare = data.draw(st.sampled_from([-1, 0, 1])), data.draw(st.sampled_from([-1, 0, 1]))
    most = max(0, packets + spare[1])
    found = windows.sizes(choice, (counts, whole + spare[0], 22, most))
    beyond = len(groups) > 0 and (spare[0] < 0 or most < packets)
    assert found.tolist() == ([] if beyond else whole.tolist())


@drawn(40)
@given(groups=groups(), choice=rules)
def test_no_order_has_less_of_an_interval_than_the_search_assumes(
    groups: Groups, choice: LabelRule
) -> None:
    for intervals, _ in groups:
        share = sum(stop - start for start, stop in intervals) / LABELS
        assert order_share(intervals, choice) >= share - 16 / LABELS * len(intervals)


@drawn(20)
@given(groups=groups(), first=st.integers(0, LABELS - 1), choice=rules)
def test_every_window_of_the_size_it_gives_holds_enough_survivors(
    groups: Groups, first: int, choice: LabelRule
) -> None:
    for intervals, _ in groups:
        size = stratified_block_size(intervals, 20, choice)
        labels = [*map(stratified_labels(choice).label, range(first, first + size))]
        assert sum(not any(a <= label < b for a, b in intervals) for label in labels) >= 20


@drawn(40)
@given(groups=groups(), source_packets=st.integers(1, 60), choice=rules)
def test_compiled_worst_windows_are_those_of_every_set_by_itself(
    groups: Groups, source_packets: int, choice: LabelRule
) -> None:
    sets = [intervals for intervals, _ in groups]
    found = WorstWindows(sets, source_packets).sizes(choice).tolist()
    assert found == [stratified_block_size(intervals, source_packets, choice) for intervals in sets]


@pytest.mark.parametrize("share", [0.0, 0.95, 0.999, 1 - 1 / LABELS])
def test_compiled_worst_windows_of_next_to_nothing_and_next_to_everything(share: float) -> None:
    heavy = ((0, round(share * LABELS)),)
    assert WorstWindows([heavy], 3).sizes(WEYL_MULTIPLIER).tolist() == [
        stratified_block_size(heavy, 3)
    ]


def test_quarters_reach_the_bound_and_the_usual_order_does_not() -> None:
    quarters = tuple((((k * 16384, (k + 1) * 16384),), 1) for k in range(4))
    usual = label_layout(quarters, 20, 0.05, WEYL_MULTIPLIER)
    assert (usual.over_bound, usual.links_over_bound) == (4, 4)
    assert best_layout(quarters, 20, 0.05).over_bound == 0


def test_layout_of_thirds_and_halves_reaches_the_bound() -> None:
    sixths = [(k * LABELS // 6, (k + 1) * LABELS // 6) for k in range(6)]
    sets = [
        *([one] for one in sixths),
        sixths[0:2],
        sixths[2:4],
        sixths[4:6],
        sixths[0:3],
        sixths[3:6],
        sixths[1:5:3],
    ]
    groups = tuple((tuple(intervals), 1) for intervals in sets)
    best = best_layout(groups, 20, 0.05)
    assert best.slots and best.over_bound == 0
    assert (
        min(label_layout(groups, 20, 0.05, choice).packets for choice in CANDIDATES) > best.packets
    )
    assert best_layout(groups, 20, 0.05).slots == best.slots


@pytest.mark.parametrize("multiplier", CANDIDATES)
def test_candidates_are_permutations_with_the_bound_at_the_usual_tolerance(
    multiplier: int,
) -> None:
    assert math.gcd(multiplier, LABELS) == 1
    assert stratified_tolerance_block_size(0.05, 20, multiplier) == block_size_bound(0.05, 20) == 22


@pytest.mark.parametrize("multiplier", CANDIDATES)
def test_runs_of_any_length_leave_no_wide_gap_in_the_labels(
    multiplier: int,
) -> None:
    for count in (30, 60, 120, 240, 480, 960, 1920, 3840):
        labels = sorted(StratifiedLabels(multiplier).table[:count].tolist())
        widest = max(b - a for a, b in itertools.pairwise([*labels, labels[0] + LABELS]))
        assert widest * count <= 7 * LABELS


def test_values_that_cannot_be_used_are_refused() -> None:
    with pytest.raises(FecError, match="share"):
        block_size_bound(1.0, 20)
    with pytest.raises(FecError, match="every label"):
        label_layout(((((0, LABELS),), 1),), 20, 0.05, WEYL_MULTIPLIER)
    with pytest.raises(FecError, match="odd"):
        StratifiedLabels(40502)


def test_a_moved_loss_changes_the_windows_that_a_recount_finds() -> None:
    chance = random.Random(1)
    for _ in range(300):
        places = chance.randint(2, 12)
        windows, most = np.array([chance.randint(1, 30)]), np.array([chance.randint(0, 4)])
        out, into = chance.sample(range(places), 2)
        inside = np.array(
            [[place == out or (place != into and chance.random() < 0.4)] for place in range(places)]
        )
        counted, recounted = np.zeros((2, 1, places), dtype=np.int32)
        before = label_slots._excess(np.arange(places), inside, windows, most, counted)
        grown = label_slots._growth(0, out, into, windows, most, counted)
        label_slots._shift(0, out, into, windows, counted)
        inside[[out, into]] = inside[[into, out]]
        after = label_slots._excess(np.arange(places), inside, windows, most, recounted)
        assert grown == after[0] - before[0] and (counted == recounted).all()


def test_no_order_omits_all_labels_outside_one_group() -> None:
    """An order of slots takes some labels only: with one of all the labels left, a heavy link's failure lost all."""
    heavy, thin = ((0, LABELS - 1),), ((LABELS - 1, LABELS),)
    layout = best_layout(((heavy, 1), (thin, 2)), 20, 0.05)
    assert stratified_block_size(heavy, 20, layout.rule) == 20 * LABELS
    assert block_size_of_order(heavy, 20, (0, 1)) is None
