"""``testbed report``: redraws, tells the verdict by its exit code, answers bad input in one line."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from testbed.cli import main
from testbed.model.run_records import SessionRun
from testbed.results.result_store import ResultStore
from tests.helpers import sample_runs
from tests.helpers.study_rows import published_run


def stored(
    root: Path, sessions: Sequence[SessionRun] = (), *, finish: bool = True, **options: Any
) -> Path:
    own = sample_runs.sample_session(
        0, "optical-cloud", sample_runs.cloud(), "x0", "x13", **options
    )
    with ResultStore(root).new_run("demo", sample_runs.sample_manifest()) as run:
        for part in sessions or [own]:
            for record in (part.session, *part.faults, part.timeline, part.summary):
                run.add(record)
        return run.finish() if finish else run.place


@pytest.mark.parametrize(
    ("options", "code"), [({}, 0), ({"wrong": True}, 1), ({"invalid": "lagged"}, 4)]
)
def test_exit_code_is_that_of_the_stored_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: dict[str, object], code: int
) -> None:
    place = stored(tmp_path, **options)
    (place / "page.html").unlink()
    assert main(["report", str(place)]) == code
    assert (place / "page.html").read_text().startswith("<!doctype html>")
    assert str(place / "page.html") in capsys.readouterr().out.replace("\n", "")


def test_json_is_one_object_with_page_sessions_and_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = stored(tmp_path, sample_runs.sample_run().sessions)
    assert main(["report", str(place), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["verdict"]["passed"] is True and len(document["streams"]) == 3
    assert document["streams"][0]["per_fault"][0]["predicted_loss"] == pytest.approx(5 / 14)
    assert document["page"] == str(place / "page.html")


def test_interrupted_run_is_reported_as_such(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = stored(tmp_path, finish=False)
    assert main(["report", str(place)]) == 4
    assert "the run was interrupted (no verdict was given)" in " ".join(
        capsys.readouterr().out.split()
    )
    page = place.with_name(place.name + ".unfinished") / "page.html"
    assert "Unfinished" in page.read_text()


@pytest.mark.parametrize("make", ["absent", "file", "empty", "damaged"])
def test_bad_input_is_one_line_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], make: str
) -> None:
    place = tmp_path / "it"
    if make == "file":
        place.write_text("x")
    elif make != "absent":
        place.mkdir()
    if make == "damaged":
        (place / "manifest.json").write_text("{")
    assert main(["report", str(place)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and str(place) in said


@pytest.mark.parametrize("change", [{"nodes": "many"}, None])
def test_points_that_a_study_cannot_draw_are_reported_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, Any] | None
) -> None:
    run = published_run("sfio_crossbar")
    assert run is not None
    with zipfile.ZipFile(f"{run.directory}.zip") as archive:
        archive.extractall(tmp_path)
    points = tmp_path / "points.jsonl"
    rows = [json.loads(line) for line in points.read_text().splitlines()]
    edited = [{"nodes": 2} if change is None else row | change for row in rows]
    points.write_text("".join(json.dumps(row) + "\n" for row in edited))
    assert main(["report", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and str(tmp_path) in said and "cannot draw" in said
