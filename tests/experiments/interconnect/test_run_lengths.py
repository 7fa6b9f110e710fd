"""When studies that double their time say that a figure still moves."""

from __future__ import annotations

import pytest

from experiments.interconnect.samples import stands_still


@pytest.mark.parametrize(
    ("short", "doubled", "said"),
    [(10.0, 98.5, "holds"), (10.0, 90.0, "fails"), (98.0, 98.5, "cannot-tell")],
)
def test_run_length_check_tells_steady_moving_and_unmoved_means(
    short: float, doubled: float, said: str
) -> None:
    noise = (-0.1, 0.0, 0.1)
    values = ([mean + part for part in noise] for mean in (short, 98.0, doubled))
    check = stands_still("a figure", 0.1, *values, may=1.0)
    assert check.outcome == said
    assert "from 98 to" in check.detail and check.rival == pytest.approx(98.0 - short)
