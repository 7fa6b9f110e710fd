"""Machines with a real sshd each, on this one: network, mount, process and time namespaces, and a bridge on a third
one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.helpers.paths import ROOT
from tests.helpers.processes import descendants

HEAD = 9
ADDRESS = "192.168.78.{}"
CLOCK_STEP_S = 4321
_CONFIG = """Port 22
HostKey {folder}/host
AuthorizedKeysFile {folder}/id.pub
PidFile none
UsePAM no
StrictModes no
PermitRootLogin yes
SetEnv PYTHONPATH={root}
"""


def sshd() -> str | None:
    """Return the path of sshd, or None if it is not installed."""
    return shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


@dataclass(frozen=True)
class SshMachines:
    """``inits``: the first process of every machine's process namespace, by number; ``HEAD`` holds the bridge and no
    sandbox."""

    folder: Path
    inits: dict[int, int]

    def command(self, machine: int, *words: str) -> list[str]:
        """The words that run a command in a machine's network."""
        return ["nsenter", "-t", str(self.inits[machine]), "-n", *words]

    def processes(self, machine: int) -> dict[int, str]:
        """Process id on this machine -> its words, of all processes of that machine, its sandboxes' too, that have not
        ended."""
        return {pid: words for pid, words in descendants(self.inits[machine]).items() if words}

    @contextmanager
    def cluster(self) -> Iterator[list[str]]:
        """Yield the arguments of --machines for a scheduler on the head and one worker per machine.

        They are started by ``examples/ssh_machines.py``.
        """
        hosts = [ADDRESS.format(number) for number in (HEAD, *(n for n in self.inits if n != HEAD))]
        key = ["--key", str(self.folder / "id"), "--any-host-key"]
        words = self.command(
            HEAD, sys.executable, str(ROOT / "examples" / "ssh_machines.py"), *key, *hosts
        )
        with (self.folder / "cluster.log").open("w") as log:
            example = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        try:
            assert example.stdout is not None
            words = (example.stdout.readline() + example.stdout.readline()).split()
            assert words, (self.folder / "cluster.log").read_text()
            yield words
        finally:
            try:
                example.communicate(timeout=30)
            finally:
                example.kill()
                example.wait()


@contextmanager
def ssh_machines(folder: Path) -> Iterator[SshMachines]:
    """Machines 1 and 2, and the head; all of them go with the block. Root only."""
    for name in ("host", "id"):
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(words, check=True)
    (folder / "sshd_config").write_text(_CONFIG.format(folder=folder, root=ROOT))
    serve = (
        f"mount -t proc none /proc && mount -t tmpfs none /run && mkdir /run/sshd && exec {sshd()} -D -e -f "
        f"{folder}/sshd_config"
    )
    with ExitStack() as stack:
        outer = {}
        for number in (1, 2, HEAD):
            clock = ["--time", "--monotonic", str(CLOCK_STEP_S * number)]
            words = [
                "unshare",
                "--net",
                "--mount",
                "--pid",
                *clock,
                "--fork",
                "--kill-child",
                "sh",
                "-c",
                serve,
            ]
            with (folder / f"sshd-{number}.log").open("w") as log:
                process = subprocess.Popen(words, stderr=log, stdin=subprocess.DEVNULL)
            stack.callback(process.wait)
            stack.callback(process.kill)
            outer[number] = process.pid
        inits = {number: _child_of(pid) for number, pid in outer.items()}
        machines = SshMachines(folder, inits)
        _join(machines)
        yield machines


def _child_of(pid: int) -> int:
    until = time.monotonic() + 10
    while time.monotonic() < until:
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if found and b"sshd" in Path(f"/proc/{found[0]}/cmdline").read_bytes():
            return int(found[0])
        time.sleep(0.01)
    raise AssertionError("sshd did not start")


def _join(machines: SshMachines) -> None:
    own = (
        "link set lo up\nlink set between up\naddress add 192.168.78.{0}/24 dev between\nroute add default via "
        "192.168.78.254\n"
    )
    head = [
        "link set lo up",
        "link add br0 mtu 9000 type bridge",
        "link set br0 up",
        f"address add {ADDRESS.format(HEAD)}/24 dev br0",
    ]
    for k in (1, 2):
        ends = (
            f"link add v{k} mtu 9000 type veth peer name between mtu 9000 netns {machines.inits[k]}"
        )
        head += [ends, f"link set v{k} master br0 up"]
    for number, text in ((HEAD, "\n".join(head) + "\n"), (1, own.format(1)), (2, own.format(2))):
        subprocess.run(
            machines.command(number, "ip", "-batch", "-"), input=text, text=True, check=True
        )
