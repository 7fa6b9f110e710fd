"""A packed run is read like a plain one, says the same in the book, and a damaged one is told in a line."""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.cli import main
from testbed.commands.studies.book import pack_runs, write_book
from testbed.errors import InputError
from testbed.model.run_records import Manifest
from testbed.model.verdict import Claim, Verdict
from testbed.report.drawing.svg_figures import following_dark_mode
from testbed.results.compressed_files import drawings_of, pack_run, read_bytes, read_packed
from testbed.results.result_store import ResultStore, load_run
from testbed.results.study_store import StudyRun, load_study, stored_runs
from tests.helpers import sample_runs
from tests.helpers.study_rows import published_run

ROWS = [{"x": x, "value": 1 / (x + 1), "words": "the same words " * 5} for x in range(200)]
DRAWING = "<svg>" + "<path d='M0 0'/>" * 100 + "</svg>"
MANIFEST = Manifest(
    started="2026-01-02T03:04:05+00:00",
    command="testbed experiment run twice",
    study={"size": "full"},
)


def whole_run(root: Path) -> Path:
    with StudyRun.new(root, "twice", MANIFEST) as run:
        for row in ROWS:
            run.add(row)
        verdict = Verdict(checks=(Claim("n").equal(1, 1).against(None, "none: a count"),))
        return run.finish(run.rows, verdict, {"first": DRAWING, "second": DRAWING})


def pack_by_file(place: Path) -> None:
    """Pack as version 0.2 did."""
    for path in [*place.glob("*.jsonl"), *place.glob("*.svg")]:
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
        path.unlink()


def in_an_archive(place: Path) -> None:
    assert pack_run(place) > 15_000 and pack_run(place) == 0
    with zipfile.ZipFile(f"{place}.zip") as archive:
        names = set(archive.namelist())
    assert names == {
        "SHA256SUMS",
        "manifest.json",
        "verdict.json",
        "points.jsonl",
        "figure-first.svg",
        "figure-second.svg",
    }
    assert [path.name for path in place.iterdir()] == ["page.html"]


def in_an_archive_alone(place: Path) -> None:
    (place / "page.html").unlink()
    pack_run(place)
    assert not place.exists()


PACKINGS = pytest.mark.parametrize("pack", [in_an_archive, in_an_archive_alone, pack_by_file])


@PACKINGS
def test_a_packed_run_is_read_as_before(tmp_path: Path, pack: Callable[[Path], None]) -> None:
    place = whole_run(tmp_path)
    before, listed = load_study(place), stored_runs(tmp_path)
    pack(place)
    assert (
        load_study(place) == before
        and stored_runs(tmp_path) == stored_runs(tmp_path, "twice") == listed
    )
    assert read_packed(place / "figure-first.svg") == DRAWING


@pytest.mark.parametrize("pack", [pack_run, pack_by_file])
def test_a_packed_run_is_reported_like_a_plain_one(
    tmp_path: Path, pack: Callable[[Path], object], capsys: pytest.CaptureFixture[str]
) -> None:
    part = sample_runs.sample_session(0, "optical-cloud", sample_runs.cloud(), "x0", "x13")
    with ResultStore(tmp_path).new_run("stream", sample_runs.sample_manifest()) as out:
        for record in (part.session, *part.faults, part.timeline, part.summary):
            out.add(record)
        place = out.finish()
    code = main(["report", str(place), "--json"])
    plain = json.loads(capsys.readouterr().out)
    (place / "page.html").unlink()
    pack(place)
    assert main(["report", str(place), "--json"]) == code and (place / "page.html").is_file()
    assert json.loads(capsys.readouterr().out) == plain
    archive = Path(f"{place}.zip")
    if archive.exists():
        assert main(["report", str(archive), "--json"]) == code
        assert json.loads(capsys.readouterr().out) == plain


def test_runs_of_version_0_2_are_packed_anew(tmp_path: Path) -> None:
    place = whole_run(tmp_path)
    before = load_study(place)
    pack_by_file(place)
    pack_run(place)
    assert not list(place.glob("*.gz")) and load_study(place) == before


def test_the_same_run_packs_to_the_same_bytes(tmp_path: Path) -> None:
    one = whole_run(tmp_path / "one")
    two = shutil.copytree(one, tmp_path / "two")
    for place in (one, two):
        pack_run(place)
    assert Path(f"{one}.zip").read_bytes() == Path(f"{two}.zip").read_bytes()


def test_book_shows_drawings_of_packed_runs(
    tmp_path: Path,
) -> None:
    root, pages = tmp_path / "replication", tmp_path / "pages"
    pages.mkdir()
    place = whole_run(root)
    (pages / "about.md").write_text(
        f"![the first](../replication/twice/{place.name}/figure-first.svg)\n"
    )
    assert pack_runs(root, pages) > 0
    assert sorted(path.name for path in place.iterdir()) == ["figure-first.svg", "page.html"]
    write_book(root)
    shown = base64.b64encode(following_dark_mode(DRAWING).encode()).decode()
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
    assert drawings_of(place) == ("figure-first.svg", "figure-second.svg")
    pack_run(place)
    assert (
        read_packed(place / "figure-first.svg") == "<svg/>"
        and not (place / "figure-first.svg").exists()
    )


def cut_short(content: bytes) -> bytes:
    return content[:-20]


def changed_within(content: bytes) -> bytes:
    return content[:400] + b"changed" + content[407:]


def of_another_kind(content: bytes) -> bytes:
    return content.replace(b"\x08\0\0\0\x21\0", b"\x63\0\0\0\x21\0")


@pytest.mark.parametrize(
    ("packed", "spoil"),
    [
        ("points.jsonl.gz", cut_short),
        (".zip", cut_short),
        (".zip", changed_within),
        (".zip", of_another_kind),
    ],
)
def test_a_damaged_packed_file_is_told_in_a_line(
    tmp_path: Path, packed: str, spoil: Callable[[bytes], bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    place = whole_run(tmp_path)
    if packed == ".zip":
        pack_run(place)
    else:
        pack_by_file(place)
    file = Path(f"{place}.zip") if packed == ".zip" else place / packed
    file.write_bytes(spoil(file.read_bytes()))
    with pytest.raises(InputError, match="damaged, restore it"):
        load_study(place)
    assert main(["replicate", "--report-only", "--results", str(tmp_path)]) == 2
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


def test_a_run_is_resumed_in_its_own_folder(tmp_path: Path) -> None:
    with StudyRun.new(tmp_path, "twice", MANIFEST) as run:
        run.add(ROWS[0])
    with contextlib.chdir(run.draft), StudyRun.resume(Path(), "twice", 1) as again:
        place = again.finish(again.rows, Verdict(checks=()), {})
    assert place.is_dir() and not run.draft.exists()
    with contextlib.chdir("/"), pytest.raises(InputError, match="/: this run is finished"):
        StudyRun.resume(Path("/"), "twice", 1)


def test_seconds_of_killed_parts_count_up_to_their_last_point(tmp_path: Path) -> None:
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
    run = published_run("fault_injection_streaming")
    assert run is not None
    place = tmp_path / run.name / run.manifest.run
    place.mkdir(parents=True)
    for name in ("manifest.json", "verdict.json", "measurements.jsonl"):
        (place / name).write_bytes(read_bytes(run.directory / name))
    before = load_run(place)
    sessions = stored_runs(tmp_path)[0].points
    assert pack_run(place) > 0 and not (place / "measurements.jsonl").exists()
    assert load_run(place) == before and stored_runs(tmp_path)[0].points == sessions == len(
        before.sessions
    )


def add_to_archive(place: Path, members: dict[str, str]) -> None:
    with zipfile.ZipFile(f"{place}.zip", "a", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(zipfile.ZipInfo(name), text, zipfile.ZIP_DEFLATED)


@pytest.mark.parametrize(
    "name",
    [
        "../../../outside/figure-1.svg",
        "/figure-1.svg",
        "sub/figure-1.svg",
        "..",
        "figure-../../x.svg",
        "figure-\x1b[2J.svg",
        "figure-a\nb.svg",
        "figure-" + "n" * 300 + ".svg",
        "..\\figure-1.svg",
    ],
)
@pytest.mark.parametrize("folder_exists", [True, False])
def test_archive_with_other_than_plain_names_is_refused(
    tmp_path: Path, name: str, folder_exists: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing outside the run's folder is read, and nothing is deleted there."""
    outside = tmp_path / "outside" / "figure-1.svg"
    outside.parent.mkdir()
    outside.write_text("<svg>a drawing of the user</svg>")
    place = whole_run(tmp_path / "results")
    in_an_archive(place)
    if not folder_exists:
        shutil.rmtree(place)
    add_to_archive(place, {name: "<svg/>"})
    for options in ([], ["--compress"]):
        command = ["replicate", "--report-only", *options, "--results", str(tmp_path / "results")]
        assert main(command) == 2
        message = capsys.readouterr().err
        assert "the archive of a run holds plain file names only" in message
        assert message.count("\n") == 1 and "\x1b" not in message
    assert outside.read_text() == "<svg>a drawing of the user</svg>"


def test_archive_with_a_file_twice_is_refused(tmp_path: Path) -> None:
    place = whole_run(tmp_path)
    pack_run(place)
    with pytest.warns(UserWarning, match="Duplicate name"):
        add_to_archive(place, {"verdict.json": '{"passed": true, "checks": []}'})
    with pytest.raises(InputError, match=r"it holds verdict\.json twice"):
        load_study(place)


def test_archive_with_very_many_files_is_refused(tmp_path: Path) -> None:
    place = whole_run(tmp_path)
    pack_run(place)
    add_to_archive(place, {f"figure-{number}.svg": "<svg/>" for number in range(1001)})
    with pytest.raises(InputError, match="1007 files in it"):
        load_study(place)


@pytest.mark.parametrize("line", ["[" * 500 + "]" * 500, '{"a":' * 200 + "1" + "}" * 200])
@pytest.mark.parametrize("name", ["points.jsonl", "manifest.json"])
def test_values_that_take_much_memory_are_not_read(tmp_path: Path, name: str, line: str) -> None:
    """A small archive may unpack to values that take gigabytes."""
    place = whole_run(tmp_path)
    (place / "SHA256SUMS").unlink()
    rows = f'{{"a": {line}}}\n' * 20_000
    (place / name).write_text(
        rows if name == "points.jsonl" else f"[{rows.replace(chr(10), ',')}0]"
    )
    with pytest.raises(InputError, match="take more than 512 MiB of memory"):
        load_study(place)
