"""A packed run is read like a plain one, says the same in the book, and a damaged one is told in a line."""

from __future__ import annotations

import base64
import os
import shutil
from pathlib import Path

import pytest

from testbed.cli import main
from testbed.commands.studies.book import pack_runs, write_book
from testbed.errors import InputError
from testbed.model.run_records import Manifest
from testbed.model.verdict import Check, Verdict
from testbed.results.packed_files import drawings_of, pack_run, read_packed
from testbed.results.replication import stored_runs
from testbed.results.result_store import load_run
from testbed.results.study_store import StudyRun, load_study
from tests.helpers.paths import ROOT

ROWS = [{"x": x, "value": 1 / (x + 1), "words": "the same words " * 5} for x in range(200)]
DRAWING = "<svg>" + "<path d='M0 0'/>" * 100 + "</svg>"
MANIFEST = Manifest(started="2026-01-02T03:04:05+00:00", command="testbed experiment run twice", study={"size": "full"})


def whole_run(root: Path) -> Path:
    with StudyRun.new(root, "twice", MANIFEST) as run:
        for row in ROWS:
            run.add(row)
        verdict = Verdict(checks=(Check.equal("n", 1, 1, rival_is="none: a count"),))
        return run.finish(run.rows, verdict, {"first": DRAWING, "second": DRAWING})


def test_a_packed_run_is_read_as_before_and_is_far_smaller(tmp_path: Path) -> None:
    place = whole_run(tmp_path)
    before, listed = load_study(place), stored_runs(tmp_path)
    saved = pack_run(place)
    assert {"points.jsonl.gz", "figure-first.svg.gz", "figure-second.svg.gz"} <= {path.name for path in place.iterdir()}
    assert not (place / "points.jsonl").exists() and saved > 15_000
    assert load_study(place) == before and stored_runs(tmp_path) == listed
    assert read_packed(place / "figure-first.svg") == DRAWING
    assert pack_run(place) == 0


def test_the_same_run_packs_to_the_same_bytes(tmp_path: Path) -> None:
    one, two = whole_run(tmp_path / "one"), whole_run(tmp_path / "two")
    for place in (one, two):
        pack_run(place)
    assert (one / "points.jsonl.gz").read_bytes() == (two / "points.jsonl.gz").read_bytes()


def test_the_book_shows_the_drawings_of_packed_runs_and_leaves_what_a_page_shows(tmp_path: Path) -> None:
    root, pages = tmp_path / "replication", tmp_path / "pages"
    pages.mkdir()
    place = whole_run(root)
    (pages / "about.md").write_text(f"![the first](../replication/twice/{place.name}/figure-first.svg)\n")
    assert pack_runs(root, pages) > 0
    assert (place / "figure-first.svg").is_file() and (place / "figure-second.svg.gz").is_file()
    write_book(root)
    shown = base64.b64encode(DRAWING.encode()).decode()
    assert (root / "book" / "chapter_0.html").read_text().count(shown) == 2


def test_an_unfinished_run_is_not_packed(tmp_path: Path) -> None:
    with StudyRun.new(tmp_path, "twice", MANIFEST) as run:
        run.add(ROWS[0])
    assert pack_runs(tmp_path) == 0 and (run.draft / "points.jsonl").is_file()


def test_a_drawing_made_anew_replaces_the_packed_one(tmp_path: Path) -> None:
    from testbed.results.study_store import write_drawings

    place = whole_run(tmp_path)
    pack_run(place)
    _, manifest, rows, verdict = load_study(place)
    write_drawings(place, manifest, rows, verdict, {"first": "<svg/>"})
    assert read_packed(place / "figure-first.svg") == "<svg/>"
    assert (
        drawings_of(place) == ("figure-first.svg", "figure-second.svg") and not (place / "figure-first.svg.gz").exists()
    )


def test_a_damaged_packed_file_is_told_in_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = whole_run(tmp_path)
    pack_run(place)
    packed = place / "points.jsonl.gz"
    packed.write_bytes(packed.read_bytes()[:-20])
    with pytest.raises(InputError, match="damaged, restore it"):
        load_study(place)
    assert main(["replicate", "--book", "--results", str(tmp_path)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_the_seconds_of_a_resumed_run_leave_out_the_pause(tmp_path: Path) -> None:
    with StudyRun.new(tmp_path, "twice", MANIFEST) as run:
        run.add(ROWS[0])
    part = stored_runs(tmp_path)[0].manifest.seconds
    assert part is not None and part < 60  # MANIFEST says that it began long ago
    with StudyRun.resume(run.draft, "twice", 1) as again:
        place = again.finish(again.rows, Verdict(checks=()), {})
    seconds = stored_runs(tmp_path)[0].manifest.seconds
    assert place.is_dir() and seconds is not None and part <= seconds < 60


def test_the_seconds_of_parts_that_were_killed_count_up_to_their_last_point(tmp_path: Path) -> None:
    run = StudyRun.new(tmp_path, "twice", MANIFEST)
    for part in ("first", "second"):
        with run:
            run.add(ROWS[0])
            killed = shutil.copytree(run.draft, tmp_path / f"{part}.unfinished")
        began = (killed / "manifest.json").stat().st_mtime
        os.utime(killed / "points.jsonl", (began, began + 100))
        run = StudyRun.resume(killed, "twice", 1)
    with run:
        run.count_earlier(1000)
        place = run.finish(run.rows, Verdict(checks=()), {})
    seconds = load_study(place)[1].seconds
    assert seconds is not None and 1200 <= seconds < 1260


def test_the_measurements_of_sessions_are_read_packed_too(tmp_path: Path) -> None:
    kept = ROOT / "replication" / "fault_injection_streaming"
    run = max(path for path in kept.iterdir() if (path / "verdict.json").is_file())
    place = tmp_path / "fault_injection_streaming" / run.name
    place.mkdir(parents=True)
    for name in ("manifest.json", "verdict.json"):
        (place / name).write_bytes((run / name).read_bytes())
    (place / "measurements.jsonl").write_text(read_packed(run / "measurements.jsonl"))
    before = load_run(place)
    sessions = stored_runs(tmp_path)[0].points
    assert pack_run(place) > 0 and not (place / "measurements.jsonl").exists()
    assert load_run(place) == before and stored_runs(tmp_path)[0].points == sessions == len(before.sessions)
