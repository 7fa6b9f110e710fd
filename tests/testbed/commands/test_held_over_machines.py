"""``testbed run`` and ``testbed up`` over two machines: programs where their hosts lie, faults, and machines that are
killed."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from testbed.emulation.sandbox.sandbox import probe_sandbox
from tests.helpers.paths import ROOT
from tests.helpers.processes import descendants, kept_namespaces, left_of, machine_worker
from tests.helpers.warm import TESTBED, WarmProcess, run

OBSTACLE = probe_sandbox(clock_offset_s=1)
pytestmark = [
    pytest.mark.emulation,
    pytest.mark.unclocked,
    pytest.mark.skipif(OBSTACLE is not None, reason=str(OBSTACLE)),
]
NETWORK = "swiss-t1:allocation=1-1-1-1-0-0-0-0"
PROGRAM = """
import os, socket, sys, time
from sfio_emu import mclose, mopen, mwritec, rank
texts = [b"Good*morning!", b"Bonjour!", b"Buona*mattina!"]
file = mopen("p1/a.dat;p2/a.dat;p3/a.dat;p4/a.dat;", 5)
mwritec(file, sum(map(len, texts[:rank()])), texts[rank()], len(texts[rank()]))
mclose(file)
print(rank(), socket.gethostname(), sys.argv[1], os.getcwd())
sys.stdout.flush()
if rank() == 1:
    time.sleep(1)
    print("oops", file=sys.stderr)
    sys.exit(7)
time.sleep(60)
"""


@pytest.mark.long
def test_program_runs_on_its_hosts_machines_and_the_first_failure_ends_it(
    tmp_path: Path,
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    words = [
        "run",
        NETWORK,
        "--compute-nodes",
        "3",
        "--io-nodes",
        "4",
        "--machines",
        "2",
        "--subfile-dir",
        "files",
    ]
    began_s = time.monotonic()
    done = run(
        [*TESTBED, *words, "--", "python", str(program), "a b"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 7, done.stdout + done.stderr
    assert time.monotonic() - began_s < 60, "the ranks that slept were ended"
    assert sorted(done.stdout.splitlines()) == [
        f"{n} {host} a b {tmp_path}" for n, host in enumerate(("t0", "t4", "t8"))
    ]
    assert "oops" in done.stderr and "testbed: rank 1 on t4 ended with exit code 7" in done.stderr
    units = [(tmp_path / "files" / f"p{n}" / "a.dat").read_bytes() for n in (1, 2, 3, 4)]
    whole = b"".join(units[n % 4][n // 4 * 5 :][:5] for n in range(8))
    assert whole == b"Good*morning!Bonjour!Buona*mattina!"


def test_network_ends_when_a_machine_is_killed_and_leaves_nothing(tmp_path: Path) -> None:
    name = f"spread-{os.getpid()}"
    held = WarmProcess(
        [*TESTBED, "up", "ring:4", "--machines", "2", "--name", name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert held.stdin is not None and held.stdout is not None
    said = [held.stdout.readline() for _ in range(4)]
    assert "2 of them between machines" in said[0], held.communicate()
    assert "hosts h2 10.0.0.3, h3 10.0.0.4" in said[1] and f"testbed exec {name} h0" in said[3]
    ping = ["sh", "-c", "ping -c 1 -W 5 10.0.0.3 > /dev/null; echo $?"]
    assert said_in("h0", ping, name) == (0, "0\n")
    held.stdin.write("fault s0->s1 blackhole\nfault s0->s3 down\n")
    held.stdin.flush()
    assert (
        held.stdout.readline() == "s0->s1 blackhole\n" and held.stdout.readline() == "s0->s3 down\n"
    )
    cut = ["sh", "-c", "ping -c 1 -W 1 10.0.0.3 > /dev/null; echo $?"]
    assert said_in("h0", cut, name) == (0, "1\n")
    assert said_in(
        "h2", ["sh", "-c", "cat; hostname; exit 3"], name, text="to another machine "
    ) == (
        3,
        "to another machine h2\n",
    )
    there = descendants(held.pid)
    made = kept_namespaces(there, os.getpid())
    os.kill(machine_worker(there, "machine-1"), signal.SIGKILL)
    _, errors = held.communicate(timeout=20)
    assert held.returncode == 4 and "machine-1 has died" in errors, errors
    time.sleep(0.5)
    assert left_of(there, made, os.getpid()) == ([], set())


@pytest.mark.long
def test_links_are_set_and_hosts_have_ipv6_over_machines() -> None:
    lines = """config s0->s1 delay=20ms bw=5
config s1->s2 loss=100 one-way
config
h1 ping -q -c3 -i 0.2 -W5 h0 | tail -1
h1 ping -c1 -W1 h2 > /dev/null; echo lost $?
config s1->s2 reset
h1 ping -6 -c1 -W5 fd00::3 > /dev/null; echo reached $?
"""
    words = ["up", "ring:4", "--machines", "2", "--ipv6"]
    done = run(
        [*TESTBED, *words],
        input=lines,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    assert "h0 is fd00::1, and so on" in done.stdout
    said = [line for line in done.stdout.splitlines()[4:] if line]
    assert float(said.pop(5).partition(" = ")[2].partition("/")[0]) >= 40
    assert said == [
        "s0->s1 bw=5 delay=20ms loss=0",
        "s1->s2 bw=10 delay=0ms loss=100",
        "s0->s1 bw=5 delay=20ms loss=0",
        "s1->s0 bw=5 delay=20ms loss=0",
        "s1->s2 bw=10 delay=0ms loss=100",
        "lost 1",
        "s1->s2 as the network says",
        "reached 0",
    ]


def said_in(host: str, words: list[str], name: str, text: str = "") -> tuple[int, str]:
    done = run(
        [*TESTBED, "exec", name, host, "--", *words],
        input=text,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        cwd=ROOT,
    )
    return done.returncode, done.stdout
