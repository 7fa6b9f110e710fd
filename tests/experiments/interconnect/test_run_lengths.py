"""The study that doubles the time of the others: whose points it takes, and when it says that a figure still moves."""

from __future__ import annotations

from typing import Any

import pytest

from experiments.interconnect.run_lengths import lengths
from experiments.interconnect.samples import RUN_KEYS, stands_still
from experiments.interconnect.study_points import drb_point

LATENCY = {0.1: 1.25, 1.0: 1.02}
"""Over that without failures: performance of 80 and 98 %."""


@pytest.mark.parametrize("quick", [True, False])
def test_every_point_with_failures_is_a_studys_own_and_has_its_run_without(quick: bool) -> None:
    points = lengths.points(quick, 1)
    whole = {tuple(p[name] for name in RUN_KEYS) for p in points if not p["faults"]}
    failed = [p for p in points if p["faults"]]
    assert {p["of"] for p in failed} == set(lengths.STUDIES)
    for name, study in lengths.STUDIES.items():
        own = [p for p in study.points(quick, 1) if p["faults"]]
        taken = [
            {k: v for k, v in p.items() if k not in ("of", "share", "runs")}
            for p in failed
            if p["of"] == name and p["share"] == 1.0
        ]
        assert taken and all(p in own for p in taken)
        most: dict[Any, int] = {}
        for p in own:
            figure = tuple(p[k] for k in lengths.SAME)
            most[figure] = max(most.get(figure, 0), p["faults"])
        assert all(p["faults"] == most[tuple(p[k] for k in lengths.SAME)] for p in taken)
    assert all(tuple(p[k] for k in RUN_KEYS) in whole for p in failed)


def row(share: float, seed: int, latency: float) -> dict[str, Any]:
    point = drb_point("torus:8x8", "uniform", seed, quick=True, faults=4, fault_kind="half", seconds=share)
    counts = {"sent": 1, "received": 1, "deadlocked": False, "diverted_share_last": 0.3, "escaped_share_last": 0.1}
    return point | {"of": "permanent", "share": share, "runs": 30, "latency_s": latency} | counts


def outcome(doubled: float, tenth: float = LATENCY[0.1]) -> str:
    """Of rows of three seeds whose performance differs by a little, at latencies of so much in the tenth and in twice
    the time."""
    rows = []
    for seed, less in ((1, 0.0), (2, 0.001), (3, -0.001)):
        for share, latency in ((0.1, tenth), (1.0, LATENCY[1.0]), (2.0, doubled)):
            failed = row(share, seed, latency + less)
            rows += [failed, {**failed, "faults": 0, "fault_kind": "none", "latency_s": 1.0}]
    (check,) = [c for c in lengths.judge(rows).checks if "when the time is doubled" in c.name]
    assert "0.75 diverted" in check.detail
    return check.outcome


@pytest.mark.parametrize(
    ("doubled", "tenth", "said"),
    [(1.0195, 1.25, "holds"), (1.015, 1.25, "fails"), (1.025, 1.25, "fails"), (1.0195, 1.0195, "cannot-tell")],
)
def test_a_figure_stands_still_moves_or_did_not_even_move_from_a_tenth_of_the_time(
    doubled: float, tenth: float, said: str
) -> None:
    assert outcome(doubled, tenth) == said


@pytest.mark.parametrize(
    ("short", "doubled", "said"),
    [(10.0, 98.5, "holds"), (10.0, 90.0, "fails"), (98.0, 98.5, "cannot-tell")],
)
def test_a_mean_stands_still_moves_or_did_not_even_move_from_the_short_time(
    short: float, doubled: float, said: str
) -> None:
    noise = (-0.1, 0.0, 0.1)
    values = ([mean + part for part in noise] for mean in (short, 98.0, doubled))
    check = stands_still("a figure", 0.1, *values, may=1.0)
    assert check.outcome == said
    assert "from 98 to" in check.detail and check.rival == pytest.approx(98.0 - short)
