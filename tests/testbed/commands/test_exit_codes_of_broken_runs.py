"""Exit code 0 means a verdict that passed, whatever dies or closes."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.helpers.commands import in_process
from tests.helpers.drawn import SOAK
from tests.helpers.paths import ROOT

TESTBED = [sys.executable, "-P", "-m", "testbed.cli"]
EACH = "swiss-t1 --from s1 --to s6"
COMMANDS = [
    f"route {EACH}",
    f"ror {EACH} --json",
    "schedule swiss-t1 --pattern t0:r5,t1:r6",
    "demands ring:4 --routing single",
    "allocate swiss-t1 --nodes 8",
    "topology show swiss-t1",
    "topology list --json",
    "simulate ring:4 --loads 0.1:0.2:0.1 --json",
    "schema network",
]


def _violations(folder: Path, commands: list[str], draws: int) -> list[list[str]]:
    """Return what commands did that must not be, each run so often with another broken call."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "tests.helpers.broken_calls", "7", str(draws), str(folder)],
        input=json.dumps([command.split() for command in commands]),
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    violations: list[list[str]] = json.loads(done.stdout)
    return [violation for violation in violations if not _names_a_folder(violation)]


def test_no_broken_call_passes(tmp_path: Path) -> None:
    """A broken pipe in any function of the product is no success, unless the output is whole."""
    assert _violations(tmp_path, ["topology show swiss-t1", f"route {EACH}"], 3) == []


@pytest.mark.long
def test_no_broken_call_passes_in_any_command(tmp_path: Path) -> None:
    assert _violations(tmp_path, COMMANDS, 20) == []


def _names_a_folder(violation: list[str]) -> bool:
    """Whether the output differs because it names the folder of a new run."""
    return "results" in violation[2] and violation[0][0] == "simulate"


@pytest.fixture(scope="module")
def failed_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stored run whose verdict says that it failed."""
    folder = tmp_path_factory.mktemp("failed")
    words = "simulate ring:4 --loads 0.1:0.2:0.1 --results ."
    assert in_process(*words.split(), cwd=folder).returncode == 0
    run = next((folder / "simulate").iterdir())
    path = run / "verdict.json"
    document = json.loads(path.read_text())
    document["checks"][0] |= {"passed": False, "outcome": "fails"}
    path.write_text(json.dumps(document | {"passed": False}))
    (run / "SHA256SUMS").unlink()
    return run


@pytest.mark.parametrize(
    "reader", ["true", *(pytest.param(one, marks=pytest.mark.long) for one in ("head -c 1", "cat"))]
)
def test_report_of_failed_run_fails_whoever_reads(failed_run: Path, reader: str) -> None:
    report = subprocess.Popen(
        [*TESTBED, "report", str(failed_run)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert report.stdout is not None
    subprocess.run(reader.split(), stdin=report.stdout, stdout=subprocess.DEVNULL, check=True)
    report.stdout.close()
    assert report.stderr is not None
    with report.stderr as stderr:
        assert stderr.read() == b""
    assert report.wait(60) == 1


def _processes_below(root: int) -> dict[int, str]:
    """Process id -> command line of all descendants."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue
        parent = int(text.rpartition(")")[2].split()[1])
        children.setdefault(parent, []).append(int(stat.parent.name))
    pids = [root]
    for pid in pids:
        pids += children.get(pid, [])
    lines: dict[int, str] = {}
    for pid in pids[1:]:
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        lines[pid] = words.replace(b"\0", b" ").decode(errors="replace")
    return lines


#: What is killed, and latest how long after it is seen.
VICTIMS = [
    ("ovsdb-server ", 0.3),
    pytest.param("ovs-vswitchd ", 1.0, marks=pytest.mark.long),
    pytest.param("openflow_controller", 1.0, marks=pytest.mark.long),
    pytest.param("namespace_holder", 1.0, marks=pytest.mark.long),
    pytest.param("testbed.cli stream", 2.0, marks=pytest.mark.long),
]
STREAM = f"stream {EACH} --max-faults 1 --duration 2 --retries 0 --fabric emulation --json"
CODES = {1, 2, 3, 4, 5}
KILLS = range(8 if SOAK else 1)


@pytest.mark.emulation
@pytest.mark.unclocked
@pytest.mark.parametrize("kill", KILLS)
@pytest.mark.parametrize(("victim", "latest_s"), VICTIMS)
def test_killed_part_of_a_run_is_no_success(
    tmp_path: Path, victim: str, latest_s: float, kill: int
) -> None:
    """One line, and a documented exit code, or a verdict that is complete."""
    run = subprocess.Popen(
        [*TESTBED, *STREAM.split()],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + 60
    pids: list[int] = []
    while not pids and run.poll() is None and time.monotonic() < until:
        pids = [pid for pid, line in _processes_below(run.pid).items() if victim in line]
        time.sleep(0.01)
    time.sleep(random.Random(kill).uniform(0, latest_s))
    for pid in pids[-1:]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    out, err = run.communicate(timeout=200)
    if run.returncode == 0:
        assert json.loads(out)["verdict"]["passed"] is True
        return
    assert run.returncode in CODES, err
    assert "Traceback" not in err
    if run.returncode in (3, 4) and not out:
        assert re.search("killed|ended|died", err), err


FULL_DISKS = {
    "simulate ring:4 --loads 0.1:0.2:0.1 --results {small}": "(results in )?{small}",
    "sfio crossbar:4 --compute-nodes 2 --io-nodes 2 --file-size 40kB --fabric simulator"
    " --subfile-dir {small} --results {tmp_path}/results": "the disk of the subfiles is full",
}


@pytest.mark.parametrize("command", FULL_DISKS)
def test_full_disk_is_one_line_and_the_machines_lack(tmp_path: Path, command: str) -> None:
    """As root in a mount namespace of its own, or not at all."""
    small = tmp_path / "small"
    small.mkdir()
    words = command.format(small=small, tmp_path=tmp_path)
    script = (
        f"mount -t tmpfs -o size=8k none {small} && dd if=/dev/zero of={small}/fill bs=1k"
        f" 2>/dev/null; exec {' '.join(TESTBED)} {words}"
    )
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script], capture_output=True, text=True, check=False
    )
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 3, done.stderr
    start = FULL_DISKS[command].format(small=small)
    assert re.fullmatch(f"testbed: {start}.*No space left on device.*\n", done.stderr), done.stderr
