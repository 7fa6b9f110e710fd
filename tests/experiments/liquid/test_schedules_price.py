"""schedules_price judges what it measures, and does not pass where that is spoilt."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from experiments.liquid.schedules_price import EQUAL, SKEWED, STUDY, prices

SMALL = ("kautz:5,2", "gpu-machines:2,2")


@cache
def rows() -> list[dict[str, Any]]:
    points = [
        {"network": name, "loads": kind, "seed": 1} for name in SMALL for kind in (EQUAL, SKEWED)
    ]
    return [{**point, **STUDY.measure(point)} for point in points]


def test_prices_of_a_small_network_by_hand() -> None:
    """Two machines of 2 GPUs, eight cables: 4 messages each way could take half a frame; static routes use one cable,
    balanced ones two, halves four; and a host sends 2 to the other machine over its own link."""
    row = next(one for one in rows() if one["network"] == SMALL[1] and one["loads"] == EQUAL)
    assert (row["messages"], row["bound"], row["bound_with_hosts"]) == (
        8,
        pytest.approx(0.5),
        pytest.approx(2),
    )
    assert row["carried"] == {"static": 4, "balanced": 2, "halves": 1}
    assert prices(row) == pytest.approx(
        {"static routes": 8, "balanced routes": 4, "in halves": 2, "circuits": 1, "host links": 4}
    )


@pytest.mark.parametrize(
    ("spoilt", "failing"),
    [
        ({"bound": 1e6}, "frames over the flow bound, least"),
        ({"frames": {"static": 99, "balanced": 99, "halves": 99}}, "the price of circuits"),
        ({"carried": {"static": 9, "balanced": 9, "halves": 9}}, "balanced routes for halves"),
    ],
)
def test_spoilt_rows_fail(spoilt: dict[str, object], failing: str) -> None:
    checks = STUDY.judged([row | spoilt for row in rows()]).checks
    assert any(failing in check.name and check.outcome == "fails" for check in checks)
