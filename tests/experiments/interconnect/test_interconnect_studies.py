"""The interconnect studies, run for real on their quick points: what they conclude, and that they notice what would
refute it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pytest

from experiments.interconnect import (
    collectives,
    ft_drb_parameters,
    paths,
    permanent,
    saturation,
    shapes,
    traces,
    transient,
)
from experiments.interconnect.deadlock import nac, nac_traffic, safety
from experiments.interconnect.samples import COUNTED, performances
from experiments.interconnect.study_points import (
    Run,
    drb_point,
    faults_of,
    ring_point,
    ring_traffic,
    traffic_of,
)
from testbed.model.studies.samples import spread
from testbed.model.studies.study import Study

Row = dict[str, Any]

ROUTING: dict[str, Study] = {
    room.STUDY.name.removeprefix("interconnect_"): room.STUDY
    for room in (
        ft_drb_parameters,
        collectives,
        paths,
        permanent,
        safety,
        saturation,
        shapes,
        traces,
        transient,
    )
}
COMPARED = ("balance", "paths", "safety", "saturation")
"""Studies that compare runs with failures with one another, or whose quick run is too short to hold."""
RING = {"nac": nac.STUDY, "nac_traffic": nac_traffic.STUDY}
SEEDS = 1
"""Of the quick points; the time of these tests."""
LENGTH = 0.25
"""Of the quick points' simulated time."""


@cache
def measured(name: str) -> tuple[Row, ...]:
    """Rows of a study's quick points, of its first seed, as the simulator gives them now."""
    study = (ROUTING | RING)[name]
    points = study.points(True, 1)
    kept = sorted({point["seed"] for point in points})[:SEEDS]
    share = LENGTH if name in ROUTING else 1.0  # the burst on the ring is at a stated time
    own = [point for point in points if point["seed"] in kept]
    shorter = [
        point | {"seconds": share * point["seconds"]} if "seconds" in point else point
        for point in own
    ]
    return tuple({**point, **study.measure(point)} for point in shorter)


def changed(
    rows: Sequence[Row], which: Callable[[Row], bool], **changes: Callable[[Row], Any]
) -> list[Row]:
    """The rows, in those that are meant the named results put otherwise."""
    return [
        row | {name: value(row) for name, value in changes.items()} if which(row) else dict(row)
        for row in rows
    ]


def failed(study: Study, rows: Sequence[Row]) -> set[str]:
    return {check.name for check in study.judge(rows).checks if not check.passed}


#: Studies whose runs take seconds: left to `make soak`.
SLOW = {"balance", "collectives", "saturation", "shapes", "traces"}
NAMES = [
    pytest.param(name, marks=[pytest.mark.long] if name in SLOW else [])
    for name in sorted(ROUTING | RING)
]


@pytest.mark.parametrize("name", NAMES)
def test_the_simulator_loses_no_packet_and_every_check_names_its_rival(name: str) -> None:
    checks = (ROUTING | RING)[name].judge(measured(name)).checks
    counted = [check for check in checks if check.rival_note == COUNTED]
    assert counted and all(check.passed for check in counted)
    assert not [check.name for check in checks if check.rival is None and not check.rival_note]


@pytest.mark.parametrize("name", NAMES)
def test_a_study_fails_where_one_packet_of_one_run_is_lost(name: str) -> None:
    study, last = (
        (ROUTING | RING)[name],
        [row for row in measured(name) if row["deadlock"] == "nac"][-1],
    )
    rows = changed(
        measured(name), lambda row: row == last, received=lambda row: row["received"] - 1
    )
    assert any("deliver" in check or "sent = received" in check for check in failed(study, rows))


@pytest.mark.parametrize("name", sorted(set(ROUTING) - set(COMPARED) - SLOW))
def test_a_study_fails_where_failures_cost_half_as_much_again(name: str) -> None:
    slower = {
        field: lambda row, field=field: 1.5 * row[field]
        for field in ("latency_s", "latency_later_s")
    }
    rows = changed(measured(name), lambda row: row["faults"] > 0, **slower)
    before, after = (
        {c.name: c for c in ROUTING[name].judge(some).checks} for some in (measured(name), rows)
    )
    more = [
        one
        for one, check in after.items()
        if check.outcome == "fails" and before[one].outcome != "fails"
    ]
    assert more and not any("sent = received" in check for check in more)


def test_safety_fails_if_nac_is_unused_or_ft_drb_costs_without_failures() -> None:
    idle = changed(measured("safety"), lambda row: True, nac_moves=lambda row: 0)
    assert any("moves of NAC in" in check for check in failed(safety.STUDY, idle))
    dear = changed(
        measured("safety"),
        lambda row: row["routing"] == "ft-drb",
        latency_s=lambda row: 1.01 * row["latency_s"],
    )
    assert any("costs nothing" in check for check in failed(safety.STUDY, dear))


def test_ring_study_fails_if_low_rates_deadlock_or_high_rates_do_not() -> None:
    rows = measured("nac")
    early = changed(
        rows,
        lambda row: row["part"] == "stated",
        deadlocked=lambda _: True,
        deadlock_s=lambda _: 1.18,
    )
    assert any("stated rates" in check for check in failed(nac.STUDY, early))
    late = changed(
        rows,
        lambda row: row["part"] == "sweep",
        deadlocked=lambda _: False,
        deadlock_s=lambda _: None,
    )
    assert any("within 100 ms" in check for check in failed(nac.STUDY, late))


@pytest.mark.parametrize("name", NAMES)
def test_figures_are_drawn_from_rows_with_labelled_axes(name: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    drawn = (ROUTING | RING)[name].figures(measured(name))
    assert drawn
    for figure in drawn.values():
        assert all(axes.get_ylabel() for axes in figure.axes)
        plt.close(figure)


def test_performance_is_paired_by_seed_with_runs_without_failures() -> None:
    rows = [
        {**point, "latency_s": (1.01 if point["faults"] else 1.0) * point["seed"] * 1e-6}
        for point in shapes.STUDY.points(True, 1)
    ]
    values = performances(rows, lambda row: row["fault_kind"] == "none")
    assert spread(values[True]) == (100.0, 0.0)
    assert values[False] == pytest.approx([100 / 1.01] * len(values[False]))


def test_every_kind_of_failure_meets_the_same_messages() -> None:
    calm, shape, ten = (
        Run.of(drb_point("torus:8x8", "uniform", 3, quick=True, faults=n, fault_kind=kind))
        for n, kind in ((0, "none"), (1, "shape:U:3"), (10, "half"))
    )
    assert (
        traffic_of(calm).time_ps.tolist()
        == traffic_of(shape).time_ps.tolist()
        == traffic_of(ten).time_ps.tolist()
    )
    assert (len(faults_of(calm)), len(faults_of(shape)), len(faults_of(ten))) == (0, 9, 10)
    assert {fault.start_s for fault in faults_of(ten)} == {0.2}


def test_the_ring_sends_in_its_row_only_unless_others_are_asked_for() -> None:
    alone = ring_traffic(ring_point("burst", 500.0, 1, seconds=1.5, deadlock="nac", burst=10))
    assert {int(s) % 8 for s in alone.source} == {5}
    both = ring_traffic(
        ring_point("burst", 500.0, 1, seconds=1.5, deadlock="nac", burst=10, others="transpose")
    )
    assert {int(s) % 8 for s in both.source} == set(range(8))
    in_row = both.source % 8 == 5
    assert both.time_ps[in_row].tolist() == alone.time_ps.tolist()
