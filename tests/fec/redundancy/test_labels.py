"""Label orders: permutation, uniformity, the same label for the same index."""

from __future__ import annotations

import numpy as np
import pytest

from fec.errors import FecError
from fec.redundancy.labels import (
    LABELS,
    WEYL_MULTIPLIER,
    LabelOrder,
    LabelRule,
    RandomLabels,
    SlottedLabels,
    StratifiedLabels,
    label_table,
    slot_edges,
    stratified_labels,
)


@pytest.mark.parametrize("order", [StratifiedLabels(), SlottedLabels((1, 0, 2)), RandomLabels(-7)])
@pytest.mark.parametrize("start", [0, 65530, 2**40])
def test_labels_of_many_packets_are_those_of_each(order: LabelOrder, start: int) -> None:
    indices = np.arange(start, start + 1000)
    labels = order.labels(indices)
    assert labels.dtype == np.int64
    assert labels.tolist() == list(map(order.label, indices.tolist()))


@pytest.mark.parametrize("rule", [WEYL_MULTIPLIER, (1, 0, 2)])
@pytest.mark.parametrize("start", [0, 65530, 10**9 + 7, 2**40])
def test_single_labels_and_the_table_of_a_period_agree(rule: LabelRule, start: int) -> None:
    order, table = stratified_labels(rule), label_table(rule)
    assert table.dtype == np.int64
    assert [table[(start + i) % len(table)] for i in range(20)] == [
        order.label(start + i) for i in range(20)
    ]


@pytest.mark.parametrize("seed", [3, -3])
def test_random_labels_are_in_the_label_space(seed: int) -> None:
    assert all(0 <= RandomLabels(seed).label(2**40 + i) < LABELS for i in range(50))


def test_stratified_labels_take_every_label_once_a_period() -> None:
    order = StratifiedLabels()
    assert np.array_equal(np.sort(order.table), np.arange(LABELS))
    assert [order.label(LABELS + i) for i in range(5)] == order.table[:5].tolist()


def test_random_labels_depend_on_the_seed_and_are_uniform() -> None:
    labels, again, others = (
        np.array([order.label(i) for i in range(200_000)]) for order in map(RandomLabels, (1, 1, 2))
    )
    assert (labels == again).all()
    assert (labels == others).mean() < 0.001
    for bit in range(16):
        assert abs(((labels >> bit) & 1).mean() - 0.5) < 0.006
    counts = np.bincount(labels >> 8, minlength=256)
    assert (
        (counts - counts.mean()) ** 2 / counts.mean()
    ).sum() < 350  # chi-squared, 255 degrees of freedom
    pairs = np.corrcoef(labels[:-1], labels[1:])[0, 1]
    assert abs(pairs) < 0.01


def test_slots_take_every_label_equally_often_but_for_those_at_their_edges() -> None:
    slots = tuple(np.random.default_rng(1).permutation(24).tolist())
    order, table = SlottedLabels(slots), label_table(slots)
    assert len(table) == 24 * (LABELS // 24)
    assert (table.reshape(-1, 24) * 24 // LABELS == np.array(slots)).all()
    assert len(np.unique(table)) > 0.99 * LABELS
    low, high = slot_edges(24)
    rows = np.sort(table.reshape(-1, 24), axis=1)
    assert (rows >= low).all() and (rows <= high).all()
    assert [order.label(k) for k in (0, 23, 24, len(table) + 5)] == table[[0, 23, 24, 5]].tolist()


@pytest.mark.parametrize("slots", [(), (0,), (0, 0), (1, 2), (0, 1, 3)])
def test_slots_that_are_no_order_are_refused(slots: tuple[int, ...]) -> None:
    with pytest.raises(FecError, match="slots"):
        SlottedLabels(slots)
