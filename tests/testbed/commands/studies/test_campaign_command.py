"""A campaign gives the same file whatever is killed on its way: itself, a worker, a worker of a scheduler elsewhere."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from testbed.cli import main
from testbed.commands.studies.campaign import _show
from testbed.model.verdict import Verdict
from testbed.report.answers import Table
from tests.helpers.warm import TESTBED, WarmProcess
from topologies.text.json_types import JsonObject

SEEDS = 16
FILE = f"""
name = "some"
networks = ["manet:nodes=60,seed={{seed}}"]
seeds = "1-{SEEDS}"
methods = ["capillary:1", "capillary:2", "capillary"]
tolerances = [0.036, 0.05]
"""
COMMAND = [*TESTBED, "campaign"]


def eventually(holds: Callable[[], bool], within_s: float = 120.0) -> None:
    end = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def columnar(results: Path) -> bytes:
    (file,) = results.glob("campaign-some-*/*/campaign.parquet")
    return file.read_bytes()


def journal_lines(results: Path) -> int:
    return sum(
        len(path.read_text().splitlines()) for path in results.glob("*/*.unfinished/points.jsonl")
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("campaigns")
    (folder / "some.toml").write_text(FILE)
    assert (
        main(
            [
                "campaign",
                str(folder / "some.toml"),
                "--workers",
                "1",
                "--results",
                str(folder / "plain"),
                "--json",
            ]
        )
        == 0
    )
    return folder


@pytest.fixture
def campaign(folder: Path, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    words = [
        *COMMAND,
        str(folder / "some.toml"),
        "--workers",
        "2",
        "--results",
        str(tmp_path),
        "--json",
    ]
    with WarmProcess(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        yield process
        process.kill()


@pytest.mark.long
def test_a_campaign_killed_in_the_middle_goes_on_and_leaves_no_process(
    folder: Path, tmp_path: Path, campaign: subprocess.Popen[bytes]
) -> None:
    eventually(lambda: journal_lines(tmp_path) >= 3)
    workers = psutil.Process(campaign.pid).children(recursive=True)
    os.kill(campaign.pid, signal.SIGKILL)
    campaign.wait()
    before = journal_lines(tmp_path)
    assert 3 <= before < SEEDS
    eventually(
        lambda: not any(w.is_running() and w.status() != psutil.STATUS_ZOMBIE for w in workers)
    )
    words = [
        "campaign",
        str(folder / "some.toml"),
        "--resume",
        "--workers",
        "1",
        "--results",
        str(tmp_path),
        "--json",
    ]
    assert main(words) == 0
    assert columnar(tmp_path) == columnar(folder / "plain")


def test_units_of_a_killed_worker_are_run_again(
    folder: Path, tmp_path: Path, campaign: subprocess.Popen[bytes]
) -> None:
    eventually(lambda: journal_lines(tmp_path) >= 3)
    for child in psutil.Process(campaign.pid).children(recursive=True):
        if "spawn_main" in " ".join(child.cmdline()):
            child.kill()
            break
    else:
        pytest.fail("no worker process found")
    out, err = campaign.communicate(timeout=240)
    assert campaign.returncode == 0, err.decode()
    assert json.loads(out)["rows"] == SEEDS * 6
    assert columnar(tmp_path) == columnar(folder / "plain")


def test_campaign_uses_a_remote_scheduler_and_survives_a_lost_worker(
    folder: Path, tmp_path: Path
) -> None:
    address_file = tmp_path / "scheduler.json"
    dask = [sys.executable, "-m", "dask"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": tmp_path}
    scheduler = WarmProcess(
        [
            *dask,
            "scheduler",
            "--host",
            "127.0.0.1",
            "--port",
            "0",
            "--no-dashboard",
            "--scheduler-file",
            str(address_file),
        ],
        **quiet,  # type: ignore[call-overload]
    )
    workers: list[subprocess.Popen[bytes]] = []
    try:
        eventually(lambda: address_file.exists() and address_file.read_text().strip().endswith("}"))
        address = json.loads(address_file.read_text())["address"]
        worker = [*dask, "worker", address, "--nthreads", "1", "--no-dashboard", "--no-nanny"]
        workers = [WarmProcess(worker, **quiet) for _ in range(2)]  # type: ignore[call-overload]
        words = [
            *COMMAND,
            str(folder / "some.toml"),
            "--dask",
            address,
            "--results",
            str(tmp_path / "out"),
            "--json",
        ]
        with WarmProcess(words, stdout=subprocess.PIPE) as process:
            eventually(lambda: journal_lines(tmp_path / "out") >= 3)
            workers[0].kill()
            assert process.wait(60) == 0
    finally:
        for started in (*workers, scheduler):
            started.kill()
            started.wait()
    assert columnar(tmp_path / "out") == columnar(folder / "plain")


def test_a_scheduler_that_is_not_there_ends_with_exit_code_3(
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("testbed.campaigns.adapters.dask_workers.CONNECT_S", 0.5)
    words = [
        "campaign",
        str(folder / "some.toml"),
        "--dask",
        "tcp://127.0.0.1:1",
        "--results",
        str(tmp_path),
    ]
    assert main(words) == 3
    assert "not reached" in capsys.readouterr().err
    assert not list(tmp_path.rglob("*.unfinished"))


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("missing.toml", None, "cannot be read"),
        ("broken.toml", "name = ", "not TOML"),
        ("digits.toml", f"m = {'9' * 5000}", "not TOML"),
        ("broken.json", "{", "not JSON"),
        ("wrong.toml", FILE + "\nseed = 3", "did you mean 'seeds'?"),
        ("network.toml", FILE.replace("manet:nodes=60,seed={seed}", "swis-t1"), "swis-t1"),
        ("method.toml", FILE.replace('"capillary:1"', '"shortest"'), "'shortest' is not known"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_kept(
    name: str, text: str | None, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    assert (
        main(
            [
                "campaign",
                str(tmp_path / name),
                "--workers",
                "1",
                "--results",
                str(tmp_path / "results"),
            ]
        )
        == 2
    )
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1
    assert not list(tmp_path.glob("results/*/*"))


def test_an_unknown_name_names_the_nearest_and_nothing_to_resume_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["campaign", "quik"]) == 2
    assert "did you mean quick?" in capsys.readouterr().err
    assert main(["campaign", "quick", "--resume", "--results", str(tmp_path)]) == 2
    assert "no unfinished run" in capsys.readouterr().err


def _summary_row(
    method: str, infinite: int, mean: float | None, common: float | None
) -> JsonObject:
    row = {"method": method, "tolerance": 0.05, "m": 20, "der": 1e-5, "large_blocks": False}
    row |= {"rows": 12, "without_path": 0, "infinite": infinite, "mean_ror": mean}
    common_rows = 0 if common is None else 3
    return row | {"common_rows": common_rows, "mean_ror_of_common_rows": common}


def test_a_mean_names_its_rows_and_nothing_is_not_zero() -> None:
    summary = [
        _summary_row("single", 12, None, None),
        _summary_row("ecmp", 9, 7.179, 7.179),
        _summary_row("capillary", 0, 8.44, 6.5),
    ]
    document = {"campaign": "mine", "summary": summary, "file": "f", "results": "r"}
    table, *lines = _show(document, Verdict(checks=()))
    assert isinstance(table, Table)
    cells = {row[0]: row[-2:] for row in table.words()}
    assert cells == {
        "single": ["–", "–"],
        "ecmp": ["7.179 (3 of 12)", "7.179 (3 of 12)"],
        "capillary": ["8.44", "6.5 (3 of 12)"],
    }
    text = " ".join(line for line in lines if isinstance(line, str))
    assert "compare methods by the common rows" in text and "--label-order random" in text
