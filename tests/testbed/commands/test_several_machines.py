"""``--machines``: a machine that is killed ends the run by name and leaves nothing; what cannot be is refused before anything starts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from testbed.cli import main
from testbed.emulation.machine.time_namespaces import time_namespace_obstacle
from tests.helpers.processes import descendants, left_of, machine_worker, namespaces

OBSTACLE = time_namespace_obstacle()
STREAM = ("stream", "torus:3x3", "--from", "s0_0", "--to", "s2_1", "--faults", "none")


@pytest.mark.emulation
@pytest.mark.skipif(OBSTACLE is not None, reason=str(OBSTACLE))
def test_a_machine_killed_in_mid_run_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "testbed.cli", *STREAM, "--duration", "20", "--machines", "2", "--json"]
    run = subprocess.Popen([*words, "--results", str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    until = time.monotonic() + 60
    streaming = False
    while not streaming and time.monotonic() < until:
        assert run.poll() is None, run.communicate()
        time.sleep(0.2)
        there = descendants(run.pid)
        # each machine's process has forked its end of the stream
        streaming = sum("machine_process" in words for words in there.values()) == 4
    assert streaming
    time.sleep(1.5)
    there = descendants(run.pid)
    made = namespaces(there) - namespaces({os.getpid(): ""})
    os.kill(machine_worker(there, "machine-1"), signal.SIGKILL)
    killed_s = time.monotonic()
    out, err = run.communicate(timeout=30)
    assert time.monotonic() - killed_s < 10
    assert run.returncode == 4, err
    said = json.loads(out)
    assert "machine-1 has died" in said["invalid"] and "machine-1 has died" in err.decode().splitlines()[-1]
    assert said["lost"]["machine"] == "machine-1" and 0 < said["lost"]["at_s"] < 20
    assert sum(said["lost"]["crossing_packets"].values()) > 0
    time.sleep(0.5)
    assert left_of(there, made, os.getpid()) == ([], set())


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((*STREAM, "--machines", "99"), 2, "machines '99'"),
        ((*STREAM, "--machines", "2", "--fabric", "simulator"), 2, "--fabric simulator"),
        ((*STREAM, "--place", "x.json"), 2, "--machines"),
        ((*STREAM, "--machines", "2", "--pcap", "s0_0->s0_1=x"), 2, "--machines"),
        ((*STREAM, "--machines", "2", "--encrypt"), 3, "WireGuard"),
    ],
)
@pytest.mark.emulation
def test_what_cannot_be_is_refused_in_one_line(
    words: tuple[str, ...], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == code
    told = capsys.readouterr().err.strip().splitlines()
    assert said in told[-1]
