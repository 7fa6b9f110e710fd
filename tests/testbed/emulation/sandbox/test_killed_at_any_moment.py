"""`kill -9` of a run on switches at drawn moments, from its first instant to its end: nothing of it is left."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

pytestmark = [pytest.mark.soak, pytest.mark.emulation]

KILLS, LATEST_S, GONE_S = 60, 20.0, 30.0
STREAM = [
    "--from",
    "s1",
    "--to",
    "s6",
    "--packet-rate",
    "500",
    "--faults",
    "each-link",
    "--seed",
    "7",
]
RUNS = (["bulk", "swiss-t1:allocation=1-1-1-1-0-0-0-0"], ["stream", "swiss-t1", *STREAM])


class Run:
    """A run on switches with a mark in the environment of all that it starts, and a folder of its own."""

    def __init__(self, folder: Path, *words: str) -> None:
        folder.mkdir()
        self.folder, self._mark = folder, f"TESTBED_TEST_MARK={uuid.uuid4().hex}"
        name, _, value = self._mark.partition("=")
        command = [sys.executable, "-P", "-m", "testbed.cli", *words, "--fabric", "emulation"]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=os.environ | {"TMPDIR": str(folder), name: value},
            start_new_session=True,
            cwd=folder.parent,
        )

    def programs(self) -> list[str]:
        """What runs of it."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if self._mark.encode() in (entry / "environ").read_bytes():
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
        return found

    def kill(self) -> bool:
        """Whether its switches ran when it was killed."""
        switches = any("ovs-vswitchd" in one for one in self.programs())
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.communicate()
        return switches

    def left(self) -> list[str]:
        """Programs and files that are there for longer than the kernel needs."""
        until = time.monotonic() + GONE_S
        while (
            found := [*self.programs(), *map(str, self.folder.iterdir())]
        ) and time.monotonic() < until:
            time.sleep(0.05)
        return found


def interfaces() -> set[str]:
    return {path.name for path in Path("/sys/class/net").iterdir()}


def test_nothing_is_left_of_a_run_that_is_killed_at_any_moment(tmp_path: Path) -> None:
    chance, before, with_switches, left = random.Random(1), interfaces(), 0, list[list[str]]()
    for number in range(KILLS):
        run = Run(tmp_path / str(number), *RUNS[number % 2])
        time.sleep(chance.uniform(0.0, LATEST_S))
        with_switches += run.kill()
        left += [found] if (found := run.left()) else []
        if new := interfaces() - before:
            left.append(sorted(new))
    print(
        f"killed {KILLS} times, {with_switches} times with switches, something left {len(left)} times"
    )
    assert not left
    assert with_switches >= KILLS // 4


def test_run_continues_beside_a_killed_one(tmp_path: Path) -> None:
    killed, other = Run(tmp_path / "killed", *RUNS[1]), Run(tmp_path / "other", *RUNS[0])
    until = time.monotonic() + 60
    while not any("ovs-vswitchd" in one for one in killed.programs()) and time.monotonic() < until:
        time.sleep(0.1)
    assert killed.kill() and killed.left() == []
    said, _ = other.process.communicate(timeout=300)
    assert b"delivered exactly once and verified: expected 16, measured 16" in said, said.decode()[
        -3000:
    ]
    assert other.left() == []
