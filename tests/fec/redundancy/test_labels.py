"""Label orders: permutation, uniformity, the same label for the same index."""

from __future__ import annotations

import numpy as np
import pytest

from fec.redundancy.labels import LABELS, LabelOrder, RandomLabels, StratifiedLabels


@pytest.mark.parametrize("order", [StratifiedLabels(), RandomLabels(3), RandomLabels(-3)])
@pytest.mark.parametrize("start", [0, 65530, 10**9 + 7, 2**40])
def test_single_labels_and_runs_of_labels_agree(order: LabelOrder, start: int) -> None:
    run = order.labels(start, 20)
    assert run.dtype == np.int64
    assert run.tolist() == [order.label(start + i) for i in range(20)]
    assert all(0 <= label < LABELS for label in run.tolist())


def test_stratified_labels_take_every_label_once_a_period() -> None:
    order = StratifiedLabels()
    assert np.array_equal(np.sort(order.labels(0, LABELS)), np.arange(LABELS))
    assert order.labels(LABELS, 5).tolist() == order.labels(0, 5).tolist()


def test_random_labels_depend_on_the_seed_and_are_uniform() -> None:
    labels = RandomLabels(1).labels(0, 200_000)
    assert labels.tolist() == RandomLabels(1).labels(0, 200_000).tolist()
    assert (labels == RandomLabels(2).labels(0, 200_000)).mean() < 0.001
    for bit in range(16):
        assert abs(((labels >> bit) & 1).mean() - 0.5) < 0.006
    counts = np.bincount(labels >> 8, minlength=256)
    assert ((counts - counts.mean()) ** 2 / counts.mean()).sum() < 350  # chi-squared, 255 degrees of freedom
    pairs = np.corrcoef(labels[:-1], labels[1:])[0, 1]
    assert abs(pairs) < 0.01
