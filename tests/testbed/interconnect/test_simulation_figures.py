"""What a page of ``testbed simulate`` draws: loads, buffers over time, NAC's moves, and a deadlock as its cycle; from
stored rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from testbed.cli import main
from testbed.interconnect.simulation import cycle_of
from testbed.report.column_units import column
from testbed.report.drawing.charts import draw_lines
from testbed.simulation.figures import saturation_load, simulation_figures

STUCK = [
    "ring:8",
    "--load",
    "0.9",
    "--buffer-size",
    "2048",
    "--model",
    "thesis",
    "--duration",
    "0.002",
]


def simulated(capsys: pytest.CaptureFixture[str], folder: Path, *words: str) -> dict[str, Any]:
    main(["simulate", *words, "--results", str(folder), "--json"])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_a_sweep_of_rates_is_a_run_with_a_page_that_report_redraws(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    found = simulated(
        capsys,
        tmp_path,
        "torus:4x4",
        "--loads",
        "0.1:0.5:0.2",
        "--repetitions",
        "3",
        "--duration",
        "0.001",
    )
    assert [one["load"] for one in found["loads"]] == pytest.approx([0.1, 0.3, 0.5])
    assert found["mean_latency_s"] is None and len(found["per_seed"]) == 9
    latencies = [one["mean_latency_s"] for one in found["loads"]]
    assert latencies == sorted(latencies)
    place = Path(found["results"])
    drawn = {file.name for file in place.glob("figure-*.svg")}
    assert {
        "figure-latency-over-load.svg",
        "figure-throughput-over-load.svg",
        "figure-packets-over-time.svg",
    } <= drawn
    assert main(["report", str(place)]) == 0
    assert "page:" in capsys.readouterr().out


def test_a_deadlock_is_drawn_as_the_cycle_that_it_is(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (row,) = simulated(capsys, tmp_path, *STUCK)["per_seed"]
    cycle = row["deadlock_cycle"]
    assert row["deadlocked"] and len(cycle) == 8
    assert all(one[1] == after[0] for one, after in zip(cycle, cycle[1:] + cycle[:1], strict=True))
    assert "deadlock" in simulation_figures([row])


def test_a_deadlock_under_ft_drb_is_drawn_as_its_cycle_too(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (row,) = simulated(capsys, tmp_path, *STUCK, "--routing", "ft-drb")["per_seed"]
    cycle = row["deadlock_cycle"]
    assert row["deadlocked"] and len(cycle) == 8
    assert all(one[1] == after[0] for one, after in zip(cycle, cycle[1:] + cycle[:1], strict=True))


def test_saturation_is_the_load_at_which_latency_has_tripled() -> None:
    rows = [
        {"load": load, "mean_latency_s": latency, "deadlocked": False}
        for load, latency in ((0.1, 1.0), (0.3, 1.4), (0.5, 3.2), (0.7, 9.0))
    ]
    assert saturation_load(rows) == 0.5
    assert saturation_load(rows[:2]) is None


def test_packets_over_time_are_those_that_are_sent_and_not_yet_there(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (row,) = simulated(capsys, tmp_path, "ring:8", "--load", "0.3", "--duration", "0.002")[
        "per_seed"
    ]
    over = row["over_time"]
    assert (
        min(over["packets_in_network"]) >= 0
        and over["packets_in_network"][-1] == over["packets_in_source_queues"][-1] == 0
    )
    assert max(over["packets_in_network"]) > 0 and row["deadlock_cycle"] == []
    (held,) = simulated(capsys, tmp_path, *STUCK)["per_seed"]
    assert (
        held["over_time"]["packets_in_network"][-1]
        + held["over_time"]["packets_in_source_queues"][-1]
        == held["sent"] - held["received"]
    )


def test_moves_of_nac_are_counted_over_time(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (row,) = simulated(capsys, tmp_path, *STUCK, "--deadlock-avoidance", "nac")["per_seed"]
    assert not row["deadlocked"]
    moved = row["nac"]["moved"] + row["nac"]["recovery_moved"]
    assert sum(row["over_time"]["nac_moves"]) == moved > 0
    assert "nac-moves" in simulation_figures([row])


def test_waits_that_close_no_cycle_have_none() -> None:
    assert cycle_of([(0, 1), (1, 2)]) == []


def test_rates_that_are_none_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for word in ("nan:1:0.1", "0.1:0.9:0", "0.1:0.9:1e-9", "0.9:0.1:0.1", "0.1", "0.5:2:0.5"):
        assert main(["simulate", "torus:4x4", f"--loads={word}"]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_whiskers_of_shares_stay_between_0_and_1() -> None:
    shares = {("a", 2.0): (0.9, 0.3), ("a", 4.0): (0.1, 0.2), ("a", 8.0): (1.0, 0.0)}
    figure = draw_lines("shares", shares, x="slots", y="share of runs", max_value=1.0)
    (bars,) = figure.axes[0].containers
    ends = [point[1] for line in bars[2][0].get_segments() for point in line]
    assert ends == pytest.approx([0.6, 1.0, 0.0, 0.3, 1.0, 1.0])


def test_a_row_of_a_simulation_names_its_latency_at_no_load_with_a_unit(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (row,) = simulated(capsys, tmp_path, *STUCK)["per_seed"]
    headings = [column(name, [value])[0] for name, value in row.items()]
    assert "zero load hop latency (µs)" in headings
    assert not [heading for heading in headings if " s " in heading]
