"""Machines that Dask's SSHCluster starts over two real sshd's, each with its own network and clock: verdicts, and what
is left of them."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from testbed.emulation.sandbox.sandbox import probe_sandbox
from tests.helpers.paths import ROOT
from tests.helpers.ssh_machines import CLOCK_STEP_S, HEAD, SshMachines, ssh_machines, sshd

NEEDS = {
    "root": os.geteuid() == 0,
    "sshd": sshd() is not None,
    "pasta": shutil.which("pasta") is not None,
    "asyncssh": importlib.util.find_spec("asyncssh") is not None,
    "time namespaces": probe_sandbox(clock_offset_s=1) is None,
}
pytestmark = [
    pytest.mark.emulation,
    pytest.mark.soak,
    pytest.mark.skipif(
        not all(NEEDS.values()), reason=f"needs {', '.join(n for n, there in NEEDS.items() if not there)}"
    ),
]  # fmt: skip
SWISS = "swiss-t1:allocation=1-1-1-1-0-0-0-0"
STREAM = (
    "stream",
    "ring:4",
    "--from",
    "s0",
    "--to",
    "s2",
    "--packet-rate",
    "200",
    "--mtu",
    "1400",
    "--json",
)
COMMANDS = {
    "stream": (*STREAM, "--faults", "s0->s1@1-2", "--duration", "4"),
    "bulk": ("bulk", SWISS, "--no-comparison", "--message-size", "500kB", "--link-rate", "5Mbps", "--json"),
    "sfio": (
        "sfio", SWISS, "--compute-nodes", "2", "--io-nodes", "2", "--file-size", "400kB", "--link-rate", "5Mbps",
        "--json",
    ),
    "run": ("run", SWISS, "--compute-nodes", "3", "--io-nodes", "4"),
}  # fmt: skip


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshMachines]:
    with ssh_machines(tmp_path_factory.mktemp("ssh")) as made:
        yield made


def started(machines: SshMachines, scheduler: list[str], *words: str) -> subprocess.Popen[str]:
    over = [
        "--machines",
        *scheduler,
        "--underlay",
        "between",
        "--results",
        str(machines.folder / "results"),
    ]
    program = (
        ["--", sys.executable, str(ROOT / "examples" / "greetings.py")] if words[0] == "run" else []
    )
    command = machines.command(HEAD, sys.executable, "-m", "testbed.cli", *words, *over, *program)
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    )


def there(machines: SshMachines) -> dict[int, dict[int, str]]:
    """The processes of both machines."""
    return {k: machines.processes(k) for k in (1, 2)}


def assert_soon(machines: SshMachines, expected: dict[int, dict[int, str]]) -> None:
    until = time.monotonic() + 5
    while there(machines) != expected and time.monotonic() < until:
        time.sleep(0.1)
    assert there(machines) == expected


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_runs_over_machines_that_are_reached_by_ssh(
    command: str, machines: SshMachines
) -> None:
    with machines.cluster() as scheduler:
        before = there(machines)
        run = started(machines, scheduler, *COMMANDS[command])
        out, errors = run.communicate(timeout=150)
        if run.returncode == 4 and "could not keep up" in errors:
            pytest.skip(errors.splitlines()[-1])
        assert run.returncode == 0, errors[-2000:]
        assert_soon(machines, before)
    if command == "stream":
        figures = json.loads(out)["figures"]
        assert figures["crossing_sent"] > 100
        # the head's clock is no further ahead than its own namespace, which the command is not in
        offsets = sorted(clock["offset_s"] for clock in figures["machines"])
        assert offsets == pytest.approx([CLOCK_STEP_S, 2 * CLOCK_STEP_S], abs=0.01)


@pytest.mark.parametrize("killed", ["a worker", "the command"])
def test_nothing_is_left_on_any_machine_when_one_side_is_killed(
    killed: str, machines: SshMachines
) -> None:
    with machines.cluster() as scheduler:
        before = there(machines)
        workers = [pid for pid, words in machines.processes(2).items() if "dask_spec" in words]
        run = started(machines, scheduler, *STREAM, "--faults", "none", "--duration", "40")
        until = time.monotonic() + 60
        # The helper that starts the machine's processes, and the end of the stream that it started.
        while sum("fork_server" in words for words in machines.processes(2).values()) < 2:
            assert run.poll() is None and time.monotonic() < until, run.communicate()
            time.sleep(0.2)
        time.sleep(1.5)
        os.kill(workers[0] if killed == "a worker" else run.pid, signal.SIGKILL)
        out, errors = run.communicate(timeout=30)
        if killed == "a worker":
            assert run.returncode == 4 and "has died" in errors.splitlines()[-1], errors
            assert json.loads(out)["lost"]["at_s"] > 0
            for worker in workers:
                del before[2][worker]
        assert_soon(machines, before)
