"""The result store: whole runs, names of their own, unfinished ones that say so."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from testbed.emulation.machine.provenance import describe_run
from testbed.errors import InputError
from testbed.model.run_records import LoadedRun, Manifest
from testbed.model.verdict import Check, Verdict
from testbed.results.result_store import UNFINISHED, ResultStore, load_run, redraw
from tests.helpers import sample_runs
from tests.helpers.paths import ROOT

NOON = datetime(2026, 1, 2, 12, 0, 0, tzinfo=UTC)
MANIFEST = Manifest(command="testbed demo", seed=7)
PASSED = Verdict(checks=(Check(name="c", predicted=1.0, measured=1.0, tolerance=0.0, passed=True),))


def store(root: Path) -> ResultStore:
    return ResultStore(root / "results", now=lambda: NOON)


def write(root: Path, run: LoadedRun, verdict: Verdict | None = None) -> Path:
    with store(root).new_run("demo", run.manifest) as out:
        for part in run.sessions:
            for record in (part.session, *part.faults, part.timeline, part.summary):
                out.add(record)
        return out.finish(verdict)


@pytest.fixture(scope="module")
def sample() -> LoadedRun:
    return sample_runs.sample_run(wrong=True)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory, sample: LoadedRun) -> Path:
    """To be read only."""
    return write(tmp_path_factory.mktemp("written"), sample)


@pytest.fixture
def place(tmp_path: Path, written: Path) -> Path:
    """Of a copy, the only run of its directory, that a test may change."""
    return shutil.copytree(written, tmp_path / "demo" / written.name)


def test_finished_run_reads_back_as_it_was_written(written: Path, sample: LoadedRun) -> None:
    loaded = load_run(written)
    assert loaded.sessions == sample.sessions
    assert loaded.verdict == sample.verdict
    assert loaded.unfinished is None


def test_run_is_named_by_time_and_seed_and_holds_its_files(tmp_path: Path) -> None:
    with store(tmp_path).new_run("demo", MANIFEST) as run:
        place = run.finish(PASSED)
    assert place == tmp_path / "results" / "demo" / "20260102T120000Z-seed7"
    assert sorted(p.name for p in place.iterdir()) == [
        "SHA256SUMS",
        "manifest.json",
        "measurements.jsonl",
        "page.html",
        "verdict.json",
    ]


def test_each_line_of_measurements_is_a_json_object_naming_its_record(written: Path) -> None:
    lines = (written / "measurements.jsonl").read_text().splitlines()
    kinds = [json.loads(line)["record"] for line in lines]
    assert (
        kinds.count("session") == 3 and kinds.count("timeline") == 3 and kinds.count("summary") == 3
    )
    assert set(kinds) == {"session", "fault", "timeline", "summary"}


def test_two_runs_in_the_same_second_get_different_names(tmp_path: Path) -> None:
    places: list[Path] = []

    def one() -> None:
        with store(tmp_path).new_run("demo", MANIFEST) as run:
            places.append(run.finish(PASSED))

    threads = [threading.Thread(target=one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(places)) == 8
    assert all(load_run(place).verdict == PASSED for place in places)
    assert not list((tmp_path / "results" / "demo").glob(f"*{UNFINISHED}"))


def test_run_left_by_an_error_says_that_it_was_interrupted_and_why(tmp_path: Path) -> None:
    part = sample_runs.sample_run().sessions[0]
    with pytest.raises(RuntimeError), store(tmp_path).new_run("demo", MANIFEST) as run:
        run.add(part.session)
        raise RuntimeError("switch gone")
    loaded = load_run(run.place)
    assert loaded.verdict is None
    assert loaded.unfinished == "the run was interrupted (RuntimeError: switch gone)"
    assert not run.place.exists()


def test_run_in_which_nothing_was_measured_leaves_no_directory(tmp_path: Path) -> None:
    with pytest.raises(InputError), store(tmp_path).new_run("demo", MANIFEST):
        raise InputError("no such node")
    assert list((tmp_path / "results" / "demo").iterdir()) == []


KILLED = """
import sys, time
from pathlib import Path
from testbed.results.result_store import ResultStore
from testbed.model.run_records import Manifest
from tests.helpers.sample_runs import sample_run
sample = sample_run()
run = ResultStore(Path(sys.argv[1])).new_run("demo", Manifest(command="x"))
run.add(sample.sessions[0].session)
run._file.write('{"record": "fau'); run._file.flush()
print(run.place, flush=True)
time.sleep(60)
"""


def test_run_is_in_progress_until_its_process_is_killed_then_interrupted(
    tmp_path: Path,
) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        place = Path(process.stdout.readline().strip())
        assert load_run(place).unfinished == "the run is still going on"
        os.kill(process.pid, signal.SIGKILL)
    loaded = load_run(place)
    assert loaded.unfinished == "the run was interrupted before its end"
    assert len(loaded.sessions) == 1 and loaded.sessions[0].faults == ()


def test_redrawing_gives_the_same_page_and_leaves_the_records_alone(place: Path) -> None:
    before = {p.name: p.read_bytes() for p in place.iterdir()}
    (place / "page.html").unlink()
    _, page = redraw(place)
    assert page == place / "page.html"
    assert {p.name: p.read_bytes() for p in place.iterdir()} == before


@pytest.mark.parametrize("name", ["", "..", "a/b", "-x", "a\n", "x" * 101, "x.unfinished"])
def test_name_that_is_no_plain_directory_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="result name"):
        store(tmp_path).new_run(name, MANIFEST)


def test_place_that_cannot_be_written_is_an_input_error(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("a file")
    with pytest.raises(InputError, match="choose a directory"):
        store(tmp_path).new_run("demo", MANIFEST)


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("manifest.json", '{"format": 2}', "format '2' is not 1"),
        ("manifest.json", "[]", "format 'None' is not 1"),
        ("manifest.json", "{", "not JSON"),
        ("manifest.json", '{"format": 1}', "command is missing"),
        (
            "measurements.jsonl",
            '{"record": "fault", "session": 0}',
            "measurements.jsonl:1: kind is missing",
        ),
        ("measurements.jsonl", '{"record": "other"}', "no kind of record"),
        ("measurements.jsonl", "7", "no kind of record"),
        ("measurements.jsonl", "[" * 100_000, "not JSON"),
        (
            "measurements.jsonl",
            '{"record": "summary", "session": 3, "verdict": {"checks": []}}',
            "which has no session record",
        ),
        ("verdict.json", '{"checks": 4}', "checks: 4 is not a list"),
    ],
)
def test_damaged_file_is_named_with_what_is_wrong(
    place: Path, file: str, content: str, said: str
) -> None:
    (place / file).write_text(content)
    (place / "SHA256SUMS").unlink()
    with pytest.raises(InputError) as caught:
        load_run(place)
    assert said in str(caught.value) and file in str(caught.value)


@pytest.mark.parametrize("file", ["manifest.json", "measurements.jsonl", "verdict.json"])
def test_flipped_bit_is_noticed(place: Path, file: str) -> None:
    """Flip each bit of a sample of bytes, among them some that leave the file readable."""
    content = (place / file).read_bytes()
    for position in range(0, len(content), max(1, len(content) // 20)):
        for bit in range(8):
            changed = bytearray(content)
            changed[position] ^= 1 << bit
            (place / file).write_bytes(changed)
            with pytest.raises(InputError, match=rf"{file}: the file is not what the run wrote"):
                load_run(place)


def test_missing_file_with_a_digest_is_noticed(place: Path) -> None:
    (place / "measurements.jsonl").unlink()
    with pytest.raises(InputError, match=r"measurements\.jsonl: the file is missing"):
        load_run(place)


@pytest.mark.parametrize("text", ["no digest", "0" * 64, f"{'0' * 64}  ../outside", "\0"])
def test_damaged_list_of_digests_is_named(place: Path, text: str) -> None:
    (place / "SHA256SUMS").write_text(text)
    with pytest.raises(InputError, match="SHA256SUMS:1: not a digest and a file name"):
        load_run(place)


def test_coreutils_check_the_digests(place: Path) -> None:
    subprocess.run(["sha256sum", "--check", "SHA256SUMS"], cwd=place, check=True)


def test_directory_of_runs_is_refused_with_the_last_run_in_it(place: Path) -> None:
    with pytest.raises(InputError, match="it holds runs") as caught:
        load_run(place.parent)
    assert str(place) in str(caught.value)


def test_manifest_tells_machine_and_versions() -> None:
    manifest = describe_run(command="testbed demo", seed=3)
    assert manifest.machine["cores"] >= 1 and manifest.machine["memory_bytes"] > 2**20
    assert "numpy" in manifest.versions and manifest.seed == 3
