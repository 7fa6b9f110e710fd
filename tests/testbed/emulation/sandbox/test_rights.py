"""A program in a host keeps nothing outside, as root too, and goes on doing what networks are for."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import testbed
from testbed.errors import InputError
from testbed.striping.emulated.mpi_launcher import find_mpiexec
from tests.helpers.ordinary_user import as_ordinary_user
from tests.helpers.warm import TESTBED, run

pytestmark = [pytest.mark.emulation, pytest.mark.unclocked]
COMMAND = TESTBED
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="it is about root's runs")
TAKEN = {
    "sys_admin": 21,
    "sys_module": 16,
    "sys_rawio": 17,
    "mknod": 27,
    "sys_ptrace": 19,
    "sys_boot": 22,
    "sys_time": 25,
    "syslog": 34,
    "bpf": 39,
}
"""Numbers of capabilities, as <linux/capability.h> has them."""
RIGHTS = "grep -E 'CapPrm|CapBnd|NoNewPrivs' /proc/self/status"
# what is written is what is there already: where one succeeds after all, the machine stays as it is
ATTEMPTS = {
    "a sysctl": "f=/proc/sys/kernel/panic; v=$(cat $f); echo $v > $f",
    "a sysctl of memory": "f=/proc/sys/vm/swappiness; v=$(cat $f); echo $v > $f",
    "a control group": "for d in /sys/fs/cgroup /sys/fs/cgroup/*/; do mkdir $d/testbed-attempt && exit 0; done; exit 1",
    "a setting in /sys": "f=/sys/kernel/profiling; echo 0 > $f",
    "a mount": "mount -t tmpfs none /mnt",
    "a read-only mount made writable": "mount -o remount,bind,rw /proc/sys",
    "a mount taken away": "umount /proc/sys",
    "a device": "mknod $TMPDIR/disk b 7 0",
    "the clock": "date -s now",
    "another namespace": "nsenter -t 1 -n true",
    "the environment of the sandbox's first process": "cat /proc/1/environ",
    "the files of the sandbox's first process": "ls /proc/1/root/",
}
WORKS = {
    "ping": "ping -c 1 -W 2 10.0.0.2",
    "forwarding": "echo 1 > /proc/sys/net/ipv4/ip_forward && grep 1 /proc/sys/net/ipv4/ip_forward",
    "ip": "ip address add 192.0.2.1/32 dev lo && ip route add 198.51.100.0/24 dev h0-eth0 && ip route show",
    "tc": "tc qdisc add dev h0-eth0 root tbf rate 1mbit burst 10kb latency 50ms; tc qdisc show dev h0-eth0 | grep "
    "-q tbf",
    "nft": "nft add table ip attempt && nft list tables | grep attempt",
    "tcpdump": "(sleep 0.3; ping -c 2 -W 1 10.0.0.2 >/dev/null) & timeout 10 tcpdump -c 1 -n -i any icmp",
    "a server below port 1024": "python3 -c 'import socket; socket.create_server((\"\", 80))' || perl -e 1",
    "files of one's own": "touch $TMPDIR/mine && chmod 600 $TMPDIR/mine && rm $TMPDIR/mine",
    "interfaces in /sys": 'test "$(cd /sys/class/net && echo *)" = "h0-eth0 lo"',
    "limits of control groups": "test -e /sys/fs/cgroup/cpuset || test -e /sys/fs/cgroup/cgroup.controllers",
    "memory shared by System V": "ipcmk -M 4096 && ipcs -m | grep -c 4096",
}  # fmt: skip


@pytest.fixture(scope="module")
def session() -> Iterator[testbed.Session]:
    with testbed.session("ring:4") as held:
        yield held


def bounded(status: str) -> bool:
    """Whether /proc/self/status, as much of it as there is, shows a program that can change nothing of the machine."""
    lines = [line.split() for line in status.splitlines() if line.startswith(("Cap", "NoNewPrivs"))]
    sets = [int(value, 16) for name, value in lines if name.startswith("Cap")]
    return (
        ["NoNewPrivs:", "1"] in lines
        and bool(sets)
        and not any(s >> n & 1 for s in sets for n in TAKEN.values())
    )


@pytest.mark.parametrize("what", ATTEMPTS)
def test_a_program_in_a_host_changes_nothing_of_the_machine(
    what: str, session: testbed.Session
) -> None:
    done = session.exec("h0", ["sh", "-c", ATTEMPTS[what]], timeout_s=30)
    assert done.returncode != 0, done.stdout
    assert not [
        *Path("/sys/fs/cgroup").glob("testbed-attempt"),
        *Path("/sys/fs/cgroup").glob("*/testbed-attempt"),
    ]


@pytest.mark.parametrize("what", WORKS)
def test_a_program_in_a_host_does_what_networks_are_for(
    what: str, session: testbed.Session
) -> None:
    done = session.exec("h0", ["sh", "-c", WORKS[what]], timeout_s=30)
    assert done.returncode == 0, done.stdout + done.stderr


def test_memory_shared_by_system_v_goes_with_the_run() -> None:
    size = "4194923"  # told from segments of others on the machine, which come and go meanwhile
    with testbed.session("ring:3") as held:
        assert held.exec("h0", ["ipcmk", "-M", size]).returncode == 0
        assert size in held.exec("h0", ["cat", "/proc/sysvipc/shm"]).stdout.split()
        assert size not in Path("/proc/sysvipc/shm").read_text().split()
    assert size not in Path("/proc/sysvipc/shm").read_text().split()


def test_programs_in_hosts_and_at_switches_are_bounded_alike(session: testbed.Session) -> None:
    for node, end_point in (("h0", False), ("s0", False)):
        assert bounded(session.exec(node, ["sh", "-c", RIGHTS], end_point=end_point).stdout), node
    assert "s0-eth1" in session.exec("s0", ["ls", "/sys/class/net"]).stdout.split()
    said = session.exec("s0", ["ovs-vsctl", "list-br"])
    assert said.returncode == 0 and len(said.stdout.split()) == 4
    with pytest.raises(InputError):
        bad = session.exec("h0", ["no-such-program"])
        raise InputError(bad.stderr if bad.returncode == 2 and bad.stderr.count("\n") == 1 else "")


def test_shells_and_programs_of_the_prompt_are_bounded() -> None:
    lines = [
        f"h0 {RIGHTS}",
        'py print(net["h0"].pexec("cat /proc/self/status")[0])',
        "h0 ping -c 1 -W 2 h1",
    ]
    done = run(
        [*COMMAND, "up", "ring:3"],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        timeout=60,
    )
    shell, program = done.stdout.split("NoNewPrivs:", 1)
    assert bounded(shell + "NoNewPrivs:" + program[:4]) and bounded(program[4:]), done.stdout
    assert " 1 received" in done.stdout and done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("mpi", [False, True])
def test_ranks_of_a_run_are_bounded(mpi: bool) -> None:
    if mpi:
        find_mpiexec()
    words = [
        *COMMAND,
        "run",
        "crossbar:4",
        "--compute-nodes",
        "2",
        "--io-nodes",
        "2",
        *(["--mpi"] if mpi else []),
    ]
    done = run([*words, "--", "sh", "-c", RIGHTS], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0 and done.stdout.count("NoNewPrivs") == 2, done.stdout + done.stderr
    assert bounded(done.stdout)


@ROOT_ONLY
def test_an_ordinary_user_s_programs_are_bounded_and_work() -> None:
    works = " && ".join(
        f"({words}) >/dev/null"
        for name, words in WORKS.items()
        if name in ("ping", "forwarding", "ip", "nft", "interfaces in /sys")
    )
    lines = [f"h0 {RIGHTS}", f"h0 ({works}) && echo all well"]
    command = as_ordinary_user([*COMMAND, "up", "ring:3"])
    done = subprocess.run(
        command, input="\n".join(lines), capture_output=True, text=True, timeout=100
    )
    assert bounded(done.stdout) and "all well" in done.stdout, done.stdout + done.stderr
