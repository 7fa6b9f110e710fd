"""The stream command on real switches, from outside: its verdict, and that kill -9 in the middle leaves nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.warm import TESTBED, run

pytestmark = pytest.mark.emulation
COMMAND = [*TESTBED, "stream", "swiss-t1", "--from", "s1", "--to", "s6"]


def _stream(results: Path) -> subprocess.CompletedProcess[str]:
    words = [
        *COMMAND,
        "--max-faults",
        "2",
        "--hold-time",
        "0.5",
        "--fabric",
        "emulation",
        "--json",
        "--results",
        str(results),
    ]
    return run(words, capture_output=True, text=True, timeout=120, check=False)


def test_stream_over_real_switches_passes(
    tmp_path: Path, valid_run: Callable[..., Any], timely: Callable[..., None]
) -> None:
    def run() -> str | None:
        done = valid_run(lambda: _stream(tmp_path))
        document = json.loads(done.stdout)
        assert done.returncode == 0, (document["verdict"], done.stderr)
        assert document["fabric"] == "emulation"
        late = []
        for fault in document["per_fault"]:
            assert abs(fault["measured_loss"] - fault["predicted_loss"]) < 0.015
            assert fault["undecodable_blocks"] == 0
            assert fault["start_s"] <= fault["port_status_s"] < fault["stop_s"]
            if fault["port_status_s"] >= fault["start_s"] + 0.5:
                late.append(
                    f"{fault['link']} told {fault['port_status_s'] - fault['start_s']:.2f} s after its cut"
                )
        return ", ".join(late) or None

    timely(run)


@pytest.mark.unclocked
def test_kill_9_in_the_middle_leaves_no_process_and_no_result_half_done(tmp_path: Path) -> None:
    mark = f"kill-test-{os.getpid()}"
    words = [*COMMAND, "--fabric", "emulation", "--results", str(tmp_path / mark)]
    run = subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        _wait_until(lambda: run.poll() is not None or _streaming(run.pid), 90)
        children = _descendants(run.pid)
        assert run.poll() is None and len(_processes(mark)) >= 2
        assert any("ovs-vswitchd" in _command(pid) for pid in children)
    finally:
        os.kill(run.pid, signal.SIGKILL)
    run.wait(30)
    _wait_until(lambda: not _alive(children), 30)
    assert not _alive(children)
    assert not list((tmp_path / mark).glob("stream/*[!d]/verdict.json"))


def _wait_until(condition: Callable[[], bool], limit_s: float) -> None:
    limit = time.monotonic() + limit_s
    while not condition() and time.monotonic() < limit:
        time.sleep(0.05)


def _streaming(pid: int) -> bool:
    """Whether the run's own switches stand and have passed packets on: the middle. (Asking a switch for its version, as
    the look at the machine's abilities does, starts a process of the same name that is gone at once.)"""
    for child in _descendants(pid):
        if "ovs-vswitchd unix:" in _command(child):
            return _packets_through(child) > 500
    return False


def _packets_through(pid: int) -> int:
    """The most that any interface in the network of this process has received."""
    try:
        lines = Path(f"/proc/{pid}/net/dev").read_text().splitlines()[2:]
    except OSError:
        return 0
    return max((int(line.partition(":")[2].split()[1]) for line in lines), default=0)


def _alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if _command(pid)]


def _processes(mark: str) -> list[int]:
    return [
        int(d.name)
        for d in Path("/proc").iterdir()
        if d.name.isdigit() and mark in _command(int(d.name))
    ]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def _descendants(pid: int) -> list[int]:
    found, parents = [], {}
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit():
            try:
                parents[int(directory.name)] = int(
                    (directory / "stat").read_text().rpartition(")")[2].split()[1]
                )
            except OSError:
                continue
    waiting = [pid]
    while waiting:
        parent = waiting.pop()
        children = [child for child, own in parents.items() if own == parent]
        found += children
        waiting += children
    return found
