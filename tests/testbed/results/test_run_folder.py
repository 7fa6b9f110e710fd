"""A run's folder of somebody else's: nothing below it is followed, nothing hangs, nothing outside it changes."""

from __future__ import annotations

import functools
import gzip
import json
import os
import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.cli import main
from testbed.commands.studies.book import pack_runs, write_book
from testbed.errors import InputError
from testbed.model.run_records import Manifest
from testbed.model.verdict import Claim, Verdict
from testbed.results import compressed_files, run_folder
from testbed.results.result_store import UNFINISHED, ResultStore
from testbed.results.run_folder import read_plain, write_below
from testbed.results.study_store import StudyRun
from testbed.results.trace_files import read_lines
from tests.helpers import sample_runs

SECRET = "what was there before\n"
VERDICT = Verdict(checks=(Claim("n").equal(1, 1).against(None, "none: a count"),))
BULK_ROW = {"frames": 1}


@functools.cache
def stored_results() -> tempfile.TemporaryDirectory[str]:
    """Return a folder of results with one stored stream; it is removed when Python ends."""
    folder = tempfile.TemporaryDirectory(prefix="testbed-results-")
    part = sample_runs.sample_session(0, "optical-cloud", sample_runs.cloud(), "x0", "x13")
    with ResultStore(Path(folder.name)).new_run("stream", sample_runs.sample_manifest()) as out:
        for record in (part.session, *part.faults, part.timeline, part.summary):
            out.add(record)
        out.finish()
    return folder


def stream_run(root: Path) -> Path:
    shutil.copytree(stored_results().name, root, dirs_exist_ok=True)
    (run,) = (root / "stream").iterdir()
    return run


def study_run(root: Path) -> Path:
    manifest = Manifest(command="testbed campaign quick", study={"size": "full"})
    with StudyRun.new(root, "campaign-quick-0", manifest) as run:
        run.add({"unit": 0, "rows": []})
        return run.finish(run.rows, VERDICT, {})


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    file = tmp_path / "victim"
    file.write_text(SECRET)
    return file


def linked(place: Path, name: str, target: Path) -> None:
    (place / name).unlink(missing_ok=True)
    (place / name).symlink_to(target)


@pytest.mark.parametrize("options", [[], ["--figures"], ["--json"]])
@pytest.mark.parametrize("absent", [False, True], ids=["a file", "nothing yet"])
def test_a_page_that_is_a_link_is_replaced(
    tmp_path: Path, victim: Path, options: list[str], absent: bool
) -> None:
    place = stream_run(tmp_path / "results")
    target = tmp_path / "not there" if absent else victim
    linked(place, "page.html", target)
    assert main(["report", str(place), *options]) == 0
    assert victim.read_text() == SECRET and not (tmp_path / "not there").exists()
    assert (
        not (place / "page.html").is_symlink()
        and "<!doctype html>" in (place / "page.html").read_text()
    )


def test_the_attack_of_an_authorized_key(tmp_path: Path, victim: Path) -> None:
    """A line of the manifest's command that stands alone in a page written through a link would be a line of the
    victim's file."""
    place = stream_run(tmp_path / "results")
    manifest = json.loads((place / "manifest.json").read_text())
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA attacker"
    (place / "manifest.json").write_text(
        json.dumps(manifest | {"command": f"testbed stream\n{key}\n#"})
    )
    linked(place, "page.html", victim)
    main(["report", str(place)])
    assert victim.read_text() == SECRET
    assert not [
        line for line in (place / "page.html").read_text().splitlines() if line.startswith("ssh-")
    ]


def test_a_hard_linked_page_is_replaced(tmp_path: Path, victim: Path) -> None:
    place = stream_run(tmp_path / "results")
    (place / "page.html").unlink()
    os.link(victim, place / "page.html")
    main(["report", str(place)])
    assert victim.read_text() == SECRET


def test_a_pipe_for_a_page_does_not_hang(tmp_path: Path) -> None:
    place = stream_run(tmp_path / "results")
    (place / "page.html").unlink()
    os.mkfifo(place / "page.html")
    assert main(["report", str(place)]) == 0
    assert (place / "page.html").is_file()


@pytest.mark.parametrize("target", ["folder", "nowhere"])
def test_figures_that_are_a_link(
    tmp_path: Path, target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    place = stream_run(tmp_path / "results")
    (tmp_path / "folder").mkdir()
    (place / "figures").symlink_to(tmp_path / target)
    assert main(["report", str(place), "--figures"]) == 2
    error = capsys.readouterr().err
    assert "figures" in error and error.count("\n") == 1
    assert not list((tmp_path / "folder").iterdir()) and not (tmp_path / "nowhere").exists()


def test_a_figure_that_is_a_link(tmp_path: Path, victim: Path) -> None:
    place = stream_run(tmp_path / "results")
    main(["report", str(place), "--figures"])
    names = sorted(path.name for path in (place / "figures").iterdir())
    assert "captions.md" in names and len(names) > 2
    for name in names:
        linked(place / "figures", name, victim)
    main(["report", str(place), "--figures"])
    assert victim.read_text() == SECRET
    assert not any(path.is_symlink() for path in (place / "figures").iterdir())


READ = {
    stream_run: ("manifest.json", "measurements.jsonl", "verdict.json"),
    study_run: ("manifest.json", "points.jsonl", "verdict.json"),
}
KINDS: dict[str, Callable[[Path, Path], None]] = {
    "a symbolic link": lambda path, content: path.symlink_to(content),
    "a pipe": lambda path, content: os.mkfifo(path),
}


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("make", "name"), [(make, name) for make, names in READ.items() for name in names]
)
def test_run_folder_reads_plain_files_only(
    tmp_path: Path,
    make: Callable[[Path], Path],
    name: str,
    kind: str,
    packed: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    place = make(tmp_path / "results")
    moved = (place / name).rename(tmp_path / "elsewhere")
    if packed:
        moved.write_bytes(gzip.compress(moved.read_bytes()))
    if packed and not name.endswith("l"):
        pytest.skip("only lines and drawings are packed")
    KINDS[kind](place / (name + (".gz" if packed else "")), moved)
    assert main(["report", str(place)]) == 2
    error = capsys.readouterr().err
    assert name in error and kind in error and error.count("\n") == 1, error


def test_a_resumed_study_does_not_write_through_a_link(tmp_path: Path, victim: Path) -> None:
    for put, kind in ((Path.symlink_to, "symbolic link"), (Path.hardlink_to, "hard link")):
        place = study_run(tmp_path / kind)
        draft = place.rename(place.with_name(place.name + UNFINISHED))
        (draft / "points.jsonl").unlink()
        put(draft / "points.jsonl", victim)
        with pytest.raises(InputError, match=kind):
            StudyRun.resume(draft, "campaign-quick-0", 1)
    assert victim.read_text() == SECRET


def test_packing_reads_and_writes_no_link(tmp_path: Path, victim: Path) -> None:
    victim.write_text(SECRET * 500)
    place = study_run(tmp_path / "results")
    (place / "figure-x.svg").symlink_to(victim)
    with pytest.raises(InputError, match=r"figure-x\.svg: a symbolic link"):
        pack_runs(tmp_path / "results")
    (place / "figure-x.svg").unlink()
    (place / "figure-x.svg").write_text("<svg/>" * 500)
    place.with_name(place.name + ".zip").symlink_to(victim)
    with pytest.raises(InputError, match=r"\.zip: a symbolic link"):
        pack_runs(tmp_path / "results")
    assert victim.read_text() == SECRET * 500 and (place / "points.jsonl").is_file()


def test_the_book_is_not_written_through_a_link(tmp_path: Path) -> None:
    study_run(tmp_path / "results")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "results" / "book").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="book"):
        write_book(tmp_path / "results")
    assert not list((tmp_path / "elsewhere").iterdir())


def test_folders_below_the_results_are_not_followed(tmp_path: Path) -> None:
    place = study_run(tmp_path / "elsewhere")
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / place.parent.name).symlink_to(place.parent)
    with pytest.raises(InputError, match="symbolic link"):
        write_book(tmp_path / "results")
    with pytest.raises(InputError, match="symbolic link"):
        ResultStore(tmp_path / "results").new_run(
            place.parent.name, Manifest(command="testbed stream")
        )


def test_a_folder_that_the_user_named_may_be_a_link(tmp_path: Path) -> None:
    place = stream_run(tmp_path / "results")
    (tmp_path / "short").symlink_to(place)
    assert main(["report", str(tmp_path / "short")]) == 0


def test_a_link_put_there_while_it_is_written_is_replaced(tmp_path: Path, victim: Path) -> None:
    place, over = tmp_path / "run", threading.Event()
    place.mkdir()

    def tease() -> None:
        while not over.is_set():
            (tmp_path / "link").unlink(missing_ok=True)
            (tmp_path / "link").symlink_to(victim)
            (tmp_path / "link").rename(place / "page.html")

    teasing = threading.Thread(target=tease)
    teasing.start()
    for _ in range(200):
        write_below(place, "page.html", b"the page")
    over.set()
    teasing.join()
    assert victim.read_text() == SECRET
    assert {path.name for path in place.iterdir()} == {"page.html"}


def test_written_files_keep_their_mode_and_leave_no_draft(tmp_path: Path) -> None:
    write_below(tmp_path, "a", b"one")
    (tmp_path / "a").chmod(0o600)
    write_below(tmp_path, "a", b"two")
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600 and read_plain(tmp_path / "a") == b"two"
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="cannot be written"):
        write_below(tmp_path, "folder", b"three")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "folder"]


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
def test_more_than_a_run_writes_is_not_read(
    tmp_path: Path,
    packed: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(run_folder, "MAX_BYTES", 1 << 20)
    place = stream_run(tmp_path)
    (place / "measurements.jsonl").unlink()
    content = b"x" * (2 << 20)
    name = "measurements.jsonl" + (".gz" if packed else "")
    (place / name).write_bytes(gzip.compress(content) if packed else content)
    assert main(["report", str(place)]) == 2
    assert "more than 1 MiB" in capsys.readouterr().err
    (tmp_path / "trace.gz").write_bytes(gzip.compress(content))
    with pytest.raises(InputError, match="more than 1 MiB"):
        read_lines(tmp_path / "trace.gz")


def test_a_line_that_no_run_writes_is_not_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compressed_files, "MAX_LINE_BYTES", 1000)
    (tmp_path / "points.jsonl").write_text("{}\n[" + "[]," * 1000 + "[]]\n")
    with pytest.raises(InputError, match=r"points\.jsonl:2: a line of 3004 characters"):
        compressed_files.read_lines(tmp_path / "points.jsonl")
