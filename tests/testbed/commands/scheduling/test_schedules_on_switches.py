"""On real switches: what ``testbed schedule`` wrote is carried out frame by frame, pairs are written A:B, hosts know
their names."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.commands import in_process
from tests.helpers.warm import TESTBED, run

pytestmark = [pytest.mark.emulation, pytest.mark.unclocked]
SMALL = "swiss-t1:allocation=1-1-1-1-0-0-0-0"
CODES = {0, 1, 4}
"""An invalid run (exit code 4) says that the machine was busy; what was carried out is looked at all the same."""
PACE = ("throughput over", "dropped at switches")
"""Checks that a run beside others may fail (exit code 1): how fast it went, and what TCP repeated. No other."""


def asked(*words: str) -> dict[str, Any]:
    done = run(
        [*TESTBED, *words, "--json"],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode in CODES, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    if done.returncode == 1:
        failed = [check for check in document["verdict"]["checks"] if not check["passed"]]
        assert failed and all(any(word in check["name"] for word in PACE) for check in failed), (
            failed
        )
    return document


def test_bulk_transfers_go_in_the_time_frames_of_the_file(tmp_path: Path) -> None:
    file = str(tmp_path / "s.json")
    written = json.loads(
        in_process(
            "schedule", SMALL, "--pattern", "all-to-others", "--output", file, "--json"
        ).stdout
    )
    size = ("--message-size", "200kB")
    run = asked(
        "bulk", SMALL, "--schedule", file, *size, "--no-comparison", "--results", str(tmp_path)
    )
    assert (run["fabric"], run["method"]) == ("emulation", "file")
    assert (run["transfers"], run["frames"]) == (len(written["transfers"]), written["length"])
    assert run["messages_verified"] == run["transfers"]


@pytest.mark.long
def test_pairs_on_the_command_line_are_sent_and_no_others(tmp_path: Path) -> None:
    words = (
        "--pattern",
        "t0:r2,t1:r3",
        "--message-size",
        "200kB",
        "--no-comparison",
        "--results",
        str(tmp_path),
    )
    run = asked("bulk", "crossbar:4", *words)
    assert (run["fabric"], run["transfers"], run["messages_verified"]) == ("emulation", 2, 2)


def test_a_striped_file_is_written_in_the_time_frames_of_the_file(tmp_path: Path) -> None:
    sfio = ("sfio", SMALL, "--compute-nodes", "2", "--io-nodes", "2", "--file-size", "2MB")
    pairs, file = str(tmp_path / "pairs.json"), str(tmp_path / "s.json")
    assert in_process(*sfio, "--write-pattern", pairs).returncode == 0
    assert in_process("schedule", SMALL, "--pattern", pairs, "--output", file).returncode == 0
    run = asked(*sfio, "--schedule", file, "--results", str(tmp_path))
    assert (run["fabric"], run["schedule"], run["switching"], run["verified"]) == (
        "emulation",
        "file",
        "circuit",
        True,
    )


def test_gethostname_of_a_host_is_the_hosts_name(tmp_path: Path) -> None:
    program = "import os, socket; print(os.environ['SFIO_RANK'], socket.gethostname(), os.uname().nodename)"
    words = [
        "run",
        "crossbar:3",
        "--compute-nodes",
        "2",
        "--io-nodes",
        "1",
        "--results",
        str(tmp_path),
        "--",
    ]
    done = run(
        [*TESTBED, *words, sys.executable, "-c", program],
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    names = dict(line.split()[:2] for line in sorted(done.stdout.splitlines()))
    assert all(line.split()[1] == line.split()[2] for line in done.stdout.splitlines())
    assert names == {"0": "t0", "1": "t1"}
