"""``--machines``: a machine that is killed ends the run by name and leaves nothing; what cannot be is refused before
anything starts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from testbed.cli import main
from testbed.emulation.sandbox.sandbox import probe_sandbox
from tests.helpers.processes import descendants, kept_namespaces, left_of, machine_worker
from tests.helpers.warm import TESTBED, WarmProcess

OBSTACLE = probe_sandbox(clock_offset_s=1)
STREAM = (
    "stream",
    "ring:4",
    "--from",
    "s0",
    "--to",
    "s2",
    "--packet-rate",
    "200",
    "--faults",
    "none",
)
SWISS = "swiss-t1:allocation=1-1-1-1-0-0-0-0"
KILLED = {
    "mobility": (
        "mobility", "manet:nodes=12", "--from", "n0", "--to", "n11", "--frames", "3", "--frame-duration", "20", "--json"
    ),
    "bulk": ("bulk", "ring:4", "--no-comparison", "--message-size", "1MB", "--link-rate", "5Mbps", "--json"),
    "sfio": (
        "sfio", SWISS, "--compute-nodes", "4", "--io-nodes", "4", "--file-size", "20MB", "--link-rate", "5Mbps",
        "--json",
    ),
    "run": ("run", SWISS, "--compute-nodes", "3", "--io-nodes", "4"),
}  # fmt: skip
"""Commands that take far longer than until a machine is killed."""
PROGRAM = ("--", "sh", "-c", 'test "$SFIO_RANK" = 0 || sleep 60')
MEASURED = {
    "bulk": "messages",
    "mobility": "crossing_packets",
    "sfio": "operations",
    "run": "ranks",
}


@pytest.mark.emulation
@pytest.mark.unclocked
@pytest.mark.skipif(OBSTACLE is not None, reason=str(OBSTACLE))
@pytest.mark.parametrize(
    "command",
    [pytest.param(c, marks=[] if c == "bulk" else [pytest.mark.soak]) for c in sorted(KILLED)],
)
def test_killed_machine_is_named_by_each_command_with_its_measurements(
    command: str, tmp_path: Path
) -> None:
    words = [*TESTBED, *KILLED[command], "--machines", "2", "--results", str(tmp_path)]
    words += PROGRAM if command == "run" else ()
    run = WarmProcess(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 60
    there = {run.pid: ""}
    # Each machine has its own process, and a helper that starts the processes of its hosts.
    while sum("machine_process" in argv or "fork_server" in argv for argv in there.values()) < 4:
        assert run.poll() is None and time.monotonic() < until, run.communicate()
        time.sleep(0.2)
        there = descendants(run.pid)
    time.sleep(1.5)
    there = descendants(run.pid)
    made = kept_namespaces(there, os.getpid())
    os.kill(machine_worker(there, "machine-1"), signal.SIGKILL)
    out, err = run.communicate(timeout=30)
    assert run.returncode == 4 and "machine-1 has died" in err.splitlines()[-1], err
    assert 'until then: machine: "machine-1"' in err and f"until then: {MEASURED[command]}: " in err
    if "--json" in KILLED[command]:
        lost = json.loads(out)["lost"]
        assert lost["machine"] == "machine-1" and 0 < lost["at_s"] < 60
    else:
        assert 'until then: ranks_ended: {"0": 0}' in err
    time.sleep(0.5)
    assert left_of(there, made, os.getpid()) == ([], set())


@pytest.mark.emulation
@pytest.mark.unclocked
@pytest.mark.skipif(OBSTACLE is not None, reason=str(OBSTACLE))
@pytest.mark.long
def test_a_machine_killed_in_mid_run_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    words = [*TESTBED, *STREAM, "--duration", "20", "--machines", "2", "--json"]
    run = WarmProcess(
        [*words, "--results", str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    until = time.monotonic() + 60
    streaming = False
    while not streaming and time.monotonic() < until:
        assert run.poll() is None, run.communicate()
        time.sleep(0.2)
        there = descendants(run.pid)
        # A helper on each machine, and the end of the stream that it has forked.
        streaming = sum("fork_server" in argv for argv in there.values()) >= 4
    assert streaming
    time.sleep(1.5)
    there = descendants(run.pid)
    made = kept_namespaces(there, os.getpid())
    os.kill(machine_worker(there, "machine-1"), signal.SIGKILL)
    killed_s = time.monotonic()
    out, err = run.communicate(timeout=30)
    assert time.monotonic() - killed_s < 10
    assert run.returncode == 4, err
    said = json.loads(out)
    assert (
        "machine-1 has died" in said["invalid"]
        and "machine-1 has died" in err.decode().splitlines()[-1]
    )
    assert said["lost"]["machine"] == "machine-1" and 0 < said["lost"]["at_s"] < 20
    assert sum(said["lost"]["crossing_packets"].values()) > 0
    time.sleep(0.5)
    assert left_of(there, made, os.getpid()) == ([], set())


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((*STREAM, "--machines", "99"), 2, "machines '99'"),
        ((*STREAM, "--machines", "2", "--fabric", "simulator"), 2, "--fabric simulator"),
        ((*STREAM, "--machine-placement", "x.json"), 2, "--machines"),
        ((*STREAM, "--machines", "2", "--pcap", "s0->s1=x"), 2, "--machines"),
        (
            ("up", "ring:4", "--machines", "2", "--pcap", "s0->s1=x"),
            2,
            "--pcap: on one machine only",
        ),
        ((*STREAM, "--encrypt"), 2, "--machines"),
    ],
)
@pytest.mark.emulation
@pytest.mark.unclocked
def test_impossible_options_are_refused_in_one_line(
    words: tuple[str, ...], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == code
    told = capsys.readouterr().err.strip().splitlines()
    assert said in told[-1]


@pytest.mark.parametrize(
    ("there", "said"),
    [((), "apt-get install wireguard-tools"), (("wg",), "apt-get install wireguard-go")],
)
def test_encryption_is_refused_with_what_to_install(
    there: tuple[str, ...],
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from testbed.emulation.machine import encryption

    monkeypatch.setattr(
        encryption, "find_program", lambda name: f"/usr/bin/{name}" if name in there else None
    )
    monkeypatch.setattr(encryption, "refusal", lambda _: "refused")
    assert main((*STREAM, "--machines", "2", "--encrypt")) == 3
    told = capsys.readouterr().err.strip().splitlines()[-1]
    assert "--encrypt" in told and said in told
