"""What failures cost is judged beside the same runs in which sources divert nothing."""

from __future__ import annotations

import pytest

from experiments.interconnect.permanent import beyond_escapes


@pytest.mark.parametrize(
    ("values", "alone", "said"),
    [
        ((99.0, 99.1), (97.0, 97.1), {"holds"}),
        ((99.0, 99.1), (98.5, 98.6), {"cannot-tell", "holds"}),
        ((99.0, 99.1), (99.0, 99.1), {"cannot-tell", "fails"}),
        ((97.0, 97.1), (96.0, 96.1), {"fails", "holds"}),
        ((99.0, 99.1), (), {"cannot-tell"}),
        ((97.0, 97.1), (), {"fails"}),
    ],
)
def test_a_bar_that_escapes_reach_cannot_tell(values: tuple[float, ...], alone: tuple[float, ...], said: set[str]):
    checks = beyond_escapes("performance", 98.0, 9 * values, 9 * alone, "above 98 %")
    assert {check.outcome for check in checks} == said
    assert all(check.rival_note for check in checks)
