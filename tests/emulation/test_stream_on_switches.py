"""The stream command on real switches, from outside: its verdict, and that kill -9 in the middle leaves nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.emulation
COMMAND = [sys.executable, "-m", "testbed.cli", "stream", "swiss-t1", "--from", "s1", "--to", "s6"]


def _stream(results: Path) -> tuple[int, dict[str, object], str]:
    words = [*COMMAND, "--links", "2", "--hold", "0.5", "--fabric", "emulation", "--json", "--results", str(results)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=100, check=False)
    return done.returncode, json.loads(done.stdout or "{}"), done.stderr


def test_stream_over_real_switches_passes(tmp_path: Path) -> None:
    code, document, said = _stream(tmp_path)
    if code == 4:  # the machine was too busy: once more
        code, document, said = _stream(tmp_path)
    assert code == 0, (document.get("verdict"), said)
    assert document["fabric"] == "emulation"
    for fault in document["per_fault"]:  # type: ignore[attr-defined]
        assert abs(fault["measured_loss"] - fault["predicted_loss"]) < 0.015
        assert fault["undecodable_blocks"] == 0
        assert fault["start_s"] <= fault["port_status_s"] < fault["start_s"] + 0.5


def test_kill_9_in_the_middle_leaves_no_process_and_no_result_half_done(tmp_path: Path) -> None:
    mark = f"kill-test-{os.getpid()}"
    words = [*COMMAND, "--fabric", "emulation", "--results", str(tmp_path / mark)]
    run = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    until = time.monotonic() + 30
    while time.monotonic() < until and not any("ovs-vswitchd" in _command(pid) for pid in _descendants(run.pid)):
        time.sleep(0.2)
    time.sleep(1)
    assert run.poll() is None and len(_processes(mark)) >= 2
    children = _descendants(run.pid)
    assert any("ovs-vswitchd" in _command(pid) for pid in children)
    os.kill(run.pid, signal.SIGKILL)
    run.wait(5)
    time.sleep(2)
    assert not [pid for pid in children if Path(f"/proc/{pid}").exists() and _command(pid)]
    assert not list((tmp_path / mark).glob("stream/*[!d]/verdict.json"))


def _processes(mark: str) -> list[int]:
    return [int(d.name) for d in Path("/proc").iterdir() if d.name.isdigit() and mark in _command(int(d.name))]


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
                parents[int(directory.name)] = int((directory / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    waiting = [pid]
    while waiting:
        parent = waiting.pop()
        children = [child for child, own in parents.items() if own == parent]
        found += children
        waiting += children
    return found
