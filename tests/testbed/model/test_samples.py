"""A mean of few samples and how far it may be off."""

from __future__ import annotations

import math

import pytest

from testbed.model.studies.samples import half_width, spread


def test_three_values_have_the_half_width_of_students_t() -> None:
    mean, half = spread([1.0, 2.0, 3.0])
    assert mean == 2.0 and half == pytest.approx(4.302653 / math.sqrt(3), rel=1e-6)


def test_one_value_has_a_mean_and_no_width_and_none_has_no_mean() -> None:
    assert spread([2.0]) == (2.0, 0.0)
    assert math.isnan(spread([])[0]) and half_width([]) == 0.0
