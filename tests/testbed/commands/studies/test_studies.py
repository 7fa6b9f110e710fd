"""A study stores its points as they come, goes on where it was stopped, and is drawn anew without measuring."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from testbed.commands.studies.study import Study
from testbed.errors import InputError
from testbed.model.verdict import Check, Verdict
from testbed.results.study_store import load_study

measured: list[int] = []


def square(point: Mapping[str, Any]) -> dict[str, Any]:
    measured.append(point["x"])
    return {"y": point["x"] ** 2}


def stops_at_three(point: Mapping[str, Any]) -> dict[str, Any]:
    if point["x"] == 3:
        raise InputError("the machine was switched off")
    return square(point)


def judge(rows: Sequence[Mapping[str, Any]]) -> Verdict:
    largest = max(row["y"] for row in rows)
    check = Check(
        name="largest square",
        predicted=25.0,
        measured=float(largest),
        tolerance=0.0,
        passed=largest == 25,
    )
    return Verdict(checks=(check,))


def figures(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots()
    axes.plot([row["x"] for row in rows], [row["y"] for row in rows])
    return {"squares": figure}


def study(measure: Any = square) -> Study:
    return Study(
        name="squares",
        does="squares numbers",
        answers="nothing",
        points=lambda quick, seed: [{"x": x, "tags": ["a", x]} for x in range(4 if quick else 6)],
        measure=measure,
        judge=judge,
        figures=figures,
    )


@pytest.fixture(autouse=True)
def forget() -> None:
    measured.clear()


def only_run(results: Path) -> Path:
    (run,) = (results / "squares").iterdir()
    return run


def test_a_study_stores_rows_verdict_figure_and_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert study().main(["--results", str(tmp_path)]) == 0
    run = only_run(tmp_path)
    assert {p.name for p in run.iterdir()} == {
        "SHA256SUMS",
        "manifest.json",
        "points.jsonl",
        "verdict.json",
        "figure-squares.svg",
        "page.html",
    }
    _, _, rows, verdict = load_study(run)
    assert [row["y"] for row in rows] == [0, 1, 4, 9, 16, 25]
    assert verdict is not None and verdict.passed
    assert "verdict: passed (1 of 1 checks)" in capsys.readouterr().out


def test_a_failed_claim_ends_with_exit_code_1(tmp_path: Path) -> None:
    assert study().main(["--quick", "--results", str(tmp_path)]) == 1


def test_a_stopped_study_goes_on_without_measuring_a_point_twice(tmp_path: Path) -> None:
    assert study(stops_at_three).main(["--results", str(tmp_path)]) == 2
    draft = only_run(tmp_path)
    assert draft.name.endswith(".unfinished")
    with (draft / "points.jsonl").open("a") as file:
        file.write('{"x": 3, "y"')  # cut short by a kill
    measured.clear()
    assert study().main(["--results", str(tmp_path), "--resume", str(draft)]) == 0
    assert measured == [3, 4, 5]
    undisturbed = tmp_path / "other"
    study().main(["--results", str(undisturbed)])
    resumed = (
        only_run(tmp_path) if not undisturbed.exists() else next((tmp_path / "squares").iterdir())
    ) / "points.jsonl"
    assert resumed.read_bytes() == (only_run(undisturbed) / "points.jsonl").read_bytes()


def test_a_finished_run_or_another_seed_is_not_resumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study().main(["--results", str(tmp_path)])
    run = only_run(tmp_path)
    assert study().main(["--results", str(tmp_path), "--resume", str(run)]) == 2
    assert "finished" in capsys.readouterr().err
    other = tmp_path / "stopped"
    study(stops_at_three).main(["--results", str(other)])
    capsys.readouterr()
    assert study().main(["--seed", "2", "--resume", str(only_run(other))]) == 2
    assert "seed 1, not squares with seed 2" in capsys.readouterr().err


def test_points_are_shared_by_processes_and_keep_their_order(tmp_path: Path) -> None:
    study().main(["--results", str(tmp_path / "one")])
    study().main(["--workers", "2", "--results", str(tmp_path / "two")])
    one, two = (only_run(tmp_path / name) / "points.jsonl" for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()


def test_a_study_is_drawn_anew_without_measuring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from testbed.cli import main

    study().main(["--results", str(tmp_path)])
    run = only_run(tmp_path)
    first = (run / "page.html").read_bytes()
    (run / "page.html").unlink()
    (run / "figure-squares.svg").unlink()
    measured.clear()
    capsys.readouterr()
    monkeypatch.setattr(
        "testbed.commands.studies.report.find_experiments", lambda: {"squares": study()}
    )
    assert main(["report", str(run), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"]["passed"] is True
    assert (run / "page.html").read_bytes() == first
    assert not measured


def test_json_prints_one_object(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert study().main(["--json", "--results", str(tmp_path)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["study"] == "squares" and len(document["points"]) == 6


def _seconds(results: Path) -> float:
    return float(json.loads((only_run(results) / "manifest.json").read_text())["seconds"])


def test_a_run_extends_a_finished_one_and_measures_only_what_that_lacks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    quick, whole = tmp_path / "quick", tmp_path / "whole"
    study().main(["--quick", "--results", str(quick)])
    measured.clear()
    assert study().main(["--reuse-points", str(only_run(quick)), "--results", str(whole)]) == 0
    assert measured == [4, 5]
    assert [row["y"] for row in load_study(only_run(whole))[2]] == [0, 1, 4, 9, 16, 25]
    assert _seconds(whole) >= _seconds(quick) > 0, (
        "what the points took that were taken over counts"
    )
    capsys.readouterr()
    assert (
        study().main(
            [
                "--seed",
                "2",
                "--reuse-points",
                str(only_run(quick)),
                "--results",
                str(tmp_path / "no"),
            ]
        )
        == 2
    )
    assert "seed 1, not squares with seed 2" in capsys.readouterr().err


def test_a_study_stops_after_its_hours_and_goes_on_later(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--results", str(tmp_path)]
    assert study().main([*words, "--max-hours", "1e-12"]) == 4
    assert measured == [0]
    draft = only_run(tmp_path)
    assert f"stopped: 1 of 6 points; go on with --resume {draft}" in capsys.readouterr().err
    assert study().main([*words, "--resume", str(draft), "--max-hours", "1"]) == 0
    assert measured == [0, 1, 2, 3, 4, 5]
    with pytest.raises(SystemExit, match="2"):
        study().main([*words, "--max-hours", "0"])


def test_a_point_with_more_parameters_is_not_taken_for_one_with_fewer(tmp_path: Path) -> None:
    mixed = replace(study(), points=lambda quick, seed: [{"x": 5}, {"x": 5, "slowly": True}])
    mixed.main(["--results", str(tmp_path)])
    run = only_run(tmp_path)
    measured.clear()
    assert mixed.main(["--reuse-points", str(run), "--results", str(tmp_path / "again")]) == 0
    assert not measured
    _, _, rows, _ = load_study(only_run(tmp_path / "again"))
    assert rows == [{"x": 5, "y": 25}, {"x": 5, "slowly": True, "y": 25}]
