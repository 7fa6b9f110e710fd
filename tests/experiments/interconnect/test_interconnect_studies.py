"""The verdicts of the interconnect studies pass on what the document claims, and fail on what it does not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from experiments.interconnect import collectives as interconnect_collectives
from experiments.interconnect import nac as interconnect_nac
from experiments.interconnect import nac_traffic as interconnect_nac_traffic
from experiments.interconnect import paths as interconnect_paths
from experiments.interconnect import permanent as interconnect_permanent
from experiments.interconnect import safety as interconnect_safety
from experiments.interconnect import saturation as interconnect_saturation
from experiments.interconnect import shapes as interconnect_shapes
from experiments.interconnect import traces as interconnect_traces
from experiments.interconnect import transient as interconnect_transient
from experiments.interconnect.samples import performances, spread
from experiments.interconnect.traffic import drb_point, faults_of, ring_point, ring_traffic, traffic_of
from testbed.commands.studies.study import Study

Row = dict[str, Any]
Loss = Callable[[Mapping[str, Any]], float]

DRB_STUDIES: dict[str, tuple[Study, Loss]] = {
    "permanent": (interconnect_permanent.STUDY, lambda p: 0.003 * p["faults"]),
    "shapes": (interconnect_shapes.STUDY, lambda p: 0.01 * p["faults"]),
    "collectives": (interconnect_collectives.STUDY, lambda p: 0.0001 * p["faults"]),
    "transient": (
        interconnect_transient.STUDY,
        lambda p: p["faults"] * (3e-4 if p["fault_kind"] == "transient" else 3e-3),
    ),
    "traces": (
        interconnect_traces.STUDY,
        lambda p: 0.0 if not p["faults"] else 0.005 if p["fault_kind"].startswith("trace:") else 0.025,
    ),
    "paths": (interconnect_paths.STUDY, lambda p: 0.002 * p["faults"] - 1e-4 * p["paths"]),
    "saturation": (interconnect_saturation.STUDY, lambda p: 0.02 * p["faults"]),
    "safety": (interconnect_safety.STUDY, lambda p: 0.001 * p["faults"]),
}


def rows_of(study: Study, loss: Loss, **changed: Any) -> list[Row]:
    """What a run would give whose latency grows by ``loss``; FT-DRB without NAC deadlocks where there are failures."""
    rows = []
    for point in study.points(True, 1):
        stuck = point["deadlock"] == "none" and point["faults"] > 0
        results = {
            "latency_s": 4e-6 * (1 + loss(point)),
            "sent": 1000,
            "received": 900 if stuck else 1000,
            "deadlocked": stuck,
            "livelocked": 0,
            "hops": 17.0 + loss(point),
            "escapes": 10 * point["faults"],
            "alternative": 5 * point["faults"],
            "nac_moves": 7,
        }
        rows.append({**point, **results, **changed})
    return rows


def ring_rows(study: Study, **changed: Any) -> list[Row]:
    """What the reference says of the ring: the time to deadlock falls with the rate; NAC delivers."""
    rows = []
    flat = [[5 if y == 5 else 0 for y in range(8)] for _ in range(8)]
    for point in study.points(True, 1):
        dead = point["deadlock"] == "none" and (point["burst"] > 0 or point["rate"] > 20_000)
        results = {
            "sent": 1000,
            "received": 952 if dead else 1000,
            "deadlocked": dead,
            "deadlock_s": (25_000 / point["rate"]) ** 20 if dead else None,
            "nac_moves": 9 if point["deadlock"] == "nac" else 0,
            "latency_before_us": 8.7,
            "latency_after_us": 8.71,
            "rise_us": 4.0,
            "throughput_dip_percent": 0.1,
            "nac_treatment_us": 6.4,
            "identification_us": 3.18,
            "stuck_packets": 48,
            "received_slots": [40] * 200,
            "latency_slots_us": [8.7] * 200,
            "maps": [flat] * 4,
            "first_map": flat,
        }
        rows.append({**point, **results, **changed})
    return rows


@pytest.mark.parametrize("name", sorted(DRB_STUDIES))
def test_a_study_passes_on_what_the_document_claims(name: str) -> None:
    study, loss = DRB_STUDIES[name]
    verdict = study.judge(rows_of(study, loss))
    assert verdict.passed, [c for c in verdict.checks if not c.passed]


@pytest.mark.parametrize("name", sorted(DRB_STUDIES))
def test_a_study_fails_where_a_packet_is_lost(name: str) -> None:
    study, loss = DRB_STUDIES[name]
    assert not study.judge(rows_of(study, loss, received=999)).passed


@pytest.mark.parametrize("name", sorted(set(DRB_STUDIES) - {"safety"}))
def test_a_study_fails_where_failures_cost_a_third(name: str) -> None:
    study, _ = DRB_STUDIES[name]
    failed = study.judge(rows_of(study, lambda p: 0.5 if p["faults"] else 0.0)).to_json()["failed"]
    assert failed and "sent = received in every run" not in failed


def test_safety_fails_where_nac_never_moved_and_where_ft_drb_costs_without_failures() -> None:
    study, loss = DRB_STUDIES["safety"]
    assert not study.judge(rows_of(study, loss, nac_moves=0)).passed
    dear = rows_of(study, lambda p: 0.01 if p["routing"] == "ft-drb" and not p["faults"] else 0.0)
    assert any("costs nothing" in name for name in study.judge(dear).to_json()["failed"])


@pytest.mark.parametrize("study", [interconnect_nac.STUDY, interconnect_nac_traffic.STUDY], ids=lambda s: s.name)
def test_a_ring_study_passes_on_the_reference_and_fails_where_nac_delivers_not_all(study: Study) -> None:
    assert study.judge(ring_rows(study)).passed
    assert not study.judge(ring_rows(study, received=999)).passed


def test_the_ring_study_fails_where_a_stated_rate_deadlocks() -> None:
    study = interconnect_nac.STUDY
    verdict = study.judge(ring_rows(study, deadlocked=True, deadlock_s=1.18))
    assert any("stated rates" in name for name in verdict.to_json()["failed"])


@pytest.mark.parametrize("name", ["permanent", "shapes", "safety"])
def test_figures_are_drawn_from_rows_with_labelled_axes(name: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    study, loss = DRB_STUDIES[name]
    drawn = study.figures(rows_of(study, loss))
    assert drawn
    for figure in drawn.values():
        assert all(axes.get_ylabel() for axes in figure.axes)
        plt.close(figure)


def test_performance_is_paired_with_the_run_of_the_same_seed_without_failures() -> None:
    study, loss = DRB_STUDIES["shapes"]
    rows = rows_of(study, loss)
    for row in rows:
        row["latency_s"] *= 1 + row["seed"] / 1000
    values = performances(rows, lambda row: row["fault_kind"] == "none")
    assert spread(values[True]) == (100.0, 0.0)
    assert values[False] == pytest.approx([100 / 1.01] * len(values[False]))


def test_every_kind_of_failure_meets_the_same_messages() -> None:
    calm, shape, ten = (
        drb_point(network="torus:8x8", pattern="uniform", faults=n, fault_kind=kind, seed=3, quick=True)
        for n, kind in ((0, "none"), (1, "shape:U:3"), (10, "half"))
    )
    assert traffic_of(calm).time_ps.tolist() == traffic_of(shape).time_ps.tolist() == traffic_of(ten).time_ps.tolist()
    assert (len(faults_of(calm)), len(faults_of(shape)), len(faults_of(ten))) == (0, 9, 10)
    assert {fault.start_s for fault in faults_of(ten)} == {0.1}


def test_the_ring_sends_in_its_row_only_unless_others_are_asked_for() -> None:
    alone = ring_traffic(ring_point(part="burst", rate=500.0, seed=1, seconds=1.5, deadlock="nac", burst=10))
    assert {int(s) % 8 for s in alone.source} == {5}
    both = ring_traffic(
        ring_point(part="burst", rate=500.0, seed=1, seconds=1.5, deadlock="nac", burst=10, others="transpose")
    )
    assert {int(s) % 8 for s in both.source} == set(range(8))
    in_row = both.source % 8 == 5
    assert both.time_ps[in_row].tolist() == alone.time_ps.tolist()
