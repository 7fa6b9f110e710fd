"""Stored runs read back: every kind, listed, compared and as tables."""

from __future__ import annotations

import functools
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import testbed
from testbed.api.stored import DamagedRunWarning
from testbed.errors import InputError, UsageError
from testbed.results.compressed_files import pack_run
from tests.helpers.commands import in_process


def plans() -> dict[str, Any]:
    return {
        "stream": testbed.stream_plan(
            "ring:4", "s0", "s2", faults=["s0->s1@2-3"], duration_s=4, rate_pps=200
        ),
        "bulk": testbed.bulk_plan("crossbar:3", message_bytes=10_000),
        "campaign": testbed.campaign_plan(
            name="x", networks=["ring:4"], methods=["single", "ecmp"], pairs=[["s0", "s2"]]
        ),
        "wavelengths": testbed.wavelength_plan("optical-cloud"),
        "simulation": testbed.simulation_plan("mesh:3x3", duration_s=0.001, repetitions=2),
    }


@functools.cache
def fresh_run(name: str) -> Any:
    """Return a run of the plan that is not stored."""
    return testbed.run(plans()[name], "simulator")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of each kind, and an answer."""
    folder = tmp_path_factory.mktemp("runs") / "results"
    for plan in plans().values():
        testbed.run(plan, "simulator", results=folder)
    words = ("ror", "ring:4", "--from", "s0", "--to", "s2", "--results", str(folder))
    assert in_process(*words).returncode == 0
    return folder


def only_run(results: Path, name: str) -> Path:
    (folder,) = (results / name).iterdir()
    return folder


@pytest.mark.parametrize("name", plans())
def test_stored_run_is_what_run_returned(results: Path, name: str) -> None:
    run = fresh_run(name)
    stored = testbed.load(only_run(results, name))
    assert isinstance(stored, testbed.RunResult) and stored.workload == name
    assert stored.passed and stored.verdict.to_json()["passed"]
    assert len(stored.verdict.checks) == len(run.verdict.checks)
    assert stored.page.read_text().startswith("<!doctype html>") or stored.page.stat().st_size
    assert len(stored.rows) >= 1 and stored.measurements
    assert stored.document["manifest"]["name"] == name and len(repr(stored)) < 160
    assert len(testbed.data_frame(stored)) == len(stored.rows)
    assert stored._repr_html_()
    with pytest.raises(UsageError, match="this run is stored in"):
        stored.save(results)


def test_faults_of_a_stored_stream_are_those_of_the_run(results: Path) -> None:
    run = fresh_run("stream")
    stored = testbed.load(str(only_run(results, "stream")))
    (row,) = json.loads(json.dumps(run.rows))
    (stored_row,) = stored.rows
    assert stored.fabric == "simulator" and stored_row["link"] == "s0->s1"
    common = row.keys() & stored_row.keys()
    assert len(common) > 20
    assert {name: row[name] for name in common} == {name: stored_row[name] for name in common}


def test_loads_an_archive(results: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(only_run(results, "simulation"), tmp_path / "simulation" / "run")
    pack_run(folder)
    for path in (folder, folder.with_suffix(".zip")):
        stored = testbed.load(path)
        assert stored.passed and len(stored.rows) == 2
    (folder / "page.html").unlink()
    with pytest.raises(UsageError, match="testbed report"):
        stored.page  # noqa: B018


def test_unfinished_run_is_invalid_with_its_reason(results: Path, tmp_path: Path) -> None:
    for name in ("stream", "bulk"):
        folder = shutil.copytree(only_run(results, name), tmp_path / name / "run.unfinished")
        (folder / "verdict.json").unlink()
        stored = testbed.load(folder)
        assert not stored.passed and "interrupted" in str(stored.verdict.invalid)
        with pytest.raises(InputError, match="did not end"):
            testbed.compare([folder, only_run(results, name)])


@pytest.mark.parametrize("path", ["nothing", "results", "results/stream", ""])
def test_path_without_a_run_is_input_error(
    results: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(results.parent)
    with pytest.raises(InputError, match="give"):
        testbed.load(path)


def test_load_refuses_another_value() -> None:
    with pytest.raises(UsageError, match="load: got an int; give a run such as"):
        testbed.load(5)  # type: ignore[arg-type]


def test_compares_stored_runs_with_new_ones(results: Path) -> None:
    folder = only_run(results, "simulation")
    new = fresh_run("simulation")
    comparison = testbed.compare({"stored": folder, "loaded": testbed.load(folder), "new": new})
    assert [run.label for run in comparison.runs] == ["stored", "loaded", "new"]
    frame = testbed.data_frame(comparison)
    assert set(frame.run) == {"stored", "loaded", "new"}
    assert len(testbed.compare([str(folder), folder]).runs) == 2


@pytest.mark.parametrize("runs", ["results", ["nothing", "nothing"], [5, 6]])
def test_compare_of_no_runs_is_refused(runs: Any) -> None:
    with pytest.raises(InputError, match="give"):
        testbed.compare(runs)


def test_runs_are_listed_by_command_and_library(results: Path) -> None:
    listed = json.loads(in_process("runs", str(results), "--json").stdout)["runs"]
    assert [set(each) for each in listed] == [{"path", "command", "verdict", "started"}] * 6
    # Runs that began in the same second are listed by their folders' names.
    assert sorted(str(each["verdict"]) for each in listed) == ["None"] + ["passed"] * 5
    assert [each["path"] for each in listed] == [
        str(run.directory) for run in testbed.runs(results)
    ]
    shown = in_process("runs", str(results)).stdout
    assert shown.count("passed") == 5 and "computed" in shown
    assert sorted(testbed.data_frame(results).verdict) == ["computed"] + ["passed"] * 5
    assert len(testbed.data_frame(testbed.runs(results / "stream"))) == 1


def test_damaged_run_does_not_hide_the_others(results: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(results, tmp_path / "results")
    (only_run(folder, "bulk") / "manifest.json").write_text("{")
    with pytest.warns(DamagedRunWarning, match="bulk"):
        assert len(testbed.runs(folder)) == 5
    done = in_process("runs", str(folder))
    assert done.returncode == 0 and "left out" in done.stderr and "simulation" in done.stdout


def test_runs_of_an_empty_or_missing_folder(tmp_path: Path) -> None:
    assert testbed.runs(tmp_path) == ()
    assert "no run is stored" in in_process("runs", str(tmp_path)).stdout
    done = in_process("runs", str(tmp_path / "nothing"))
    assert done.returncode == 2 and done.stderr.count("\n") == 1
