"""Machines on this machine: each a network, mount, process and time namespace with a Dask worker, and a bridge between
them.

It proves correctness, not speed: all share the processors. Clocks are thousands of seconds apart, no file of one's
temporary directory and no abstract socket is another's.
"""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from testbed.emulation.network.kernel.host_namespaces import inside_namespace
from testbed.emulation.network.kernel.rtnetlink import compute_checksums
from testbed.emulation.sandbox.process_lifetime import await_own_network
from testbed.emulation.sandbox.sandbox import require_sandbox, sandbox_command
from testbed.errors import CapabilityError
from testbed.machines.machines_request import UNDERLAY

BRIDGE = "machines0"
CLOCK_STEP_S = 4321.0
"""The clock of machine k is ahead of this one's by (k + 1) times so much."""
_MTU = 9000
_START_S = 10.0


def address_of(number: int) -> str:
    """IPv4 address of machine ``number`` on the bridge; -1: this machine's own."""
    return f"192.168.77.{number + 2}"


def port_of(number: int) -> str:
    """The machine's port on the bridge, on our side."""
    return f"machine{number}"


class LocalMachine:
    """One machine: its outer process and its namespaces. ``certificate``: of its worker, with the key (PEM), for the
    scheduler."""

    def __init__(self, number: int, scheduler: str, certificate: tuple[str, str]) -> None:
        self.name, self.number, self.address = f"machine-{number}", number, address_of(number)
        self._certificate = certificate
        program = [sys.executable, "-P", "-m", "testbed.machines.adapters.local_worker"]
        words = [*program, scheduler, self.name, self.address]
        command = sandbox_command(
            words, die_with_parent=True, clock_offset_s=CLOCK_STEP_S * (number + 1)
        )
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE)

    def connect(self) -> None:
        """Give it its interface, once its network namespace is there, and let it go on."""
        self._await_namespace()
        pid = self.process.pid
        port, mtu = port_of(self.number), f"mtu {_MTU}"
        pair = f"link add {port} {mtu} type veth peer name {UNDERLAY} {mtu} netns {pid}"
        ip_batch([pair, f"link set {port} master {BRIDGE} up"])
        ip_batch([f"address add {self.address}/24 dev {UNDERLAY}", f"link set {UNDERLAY} up"], pid)
        namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            with inside_namespace(namespace):
                _compute_checksums(UNDERLAY)
        finally:
            os.close(namespace)
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(self._certificate).encode() + b"\n")
        self.process.stdin.flush()

    def _await_namespace(self) -> None:
        if await_own_network(self.process.pid, _START_S, lambda: self.process.poll() is None):
            return
        if self.process.poll() is not None:
            raise CapabilityError(
                f"{self.name} could not be started on this machine; see its output above"
            )
        raise CapabilityError(f"{self.name} not ready within {_START_S:g} s")

    def require_running(self) -> None:
        """Raise CapabilityError if it has ended."""
        if self.process.poll() is not None:
            raise CapabilityError(f"{self.name} has died; it may have been killed")

    def close(self) -> None:
        """End it; the kernel removes what was in its namespaces."""
        self.process.kill()
        self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()


@contextmanager
def local_machines(
    count: int, scheduler: str, certificate: tuple[str, str]
) -> Iterator[list[LocalMachine]]:
    """Keep a number of machines up on a bridge with the address ``address_of(-1)``.

    It needs a sandbox.

    Args:
        count: Number of machines.
        scheduler: Address of the Dask scheduler.
        certificate: The certificate of all workers, and its key.
    """
    require_sandbox()
    machines: list[LocalMachine] = []
    try:
        for number in range(count):
            machines.append(LocalMachine(number, scheduler, certificate))
        for machine in machines:
            machine.connect()
        yield machines
    finally:
        for machine in machines:
            machine.close()
        _remove_links([*(port_of(machine.number) for machine in machines), BRIDGE])


def _remove_links(names: Sequence[str]) -> None:
    """Now, and those of a dead network namespace too, which the kernel takes away in its own time: the names are used
    again."""
    commands = "".join(f"link delete {name}\n" for name in names)
    subprocess.run(
        ["ip", "-force", "-batch", "-"], input=commands, capture_output=True, text=True, check=False
    )


def make_bridge() -> None:
    """The bridge, with this machine's address, before a scheduler can listen on it."""
    ip_batch(
        [
            f"link add {BRIDGE} address 02:00:00:00:77:01 mtu {_MTU} type bridge",
            f"address add {address_of(-1)}/24 dev {BRIDGE}",
            f"link set {BRIDGE} up",
        ]
    )
    _compute_checksums(BRIDGE)


def _compute_checksums(interface: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        compute_checksums(interface, sock)


def ip_batch(commands: Sequence[str], pid: int | None = None) -> None:
    """iproute2 commands in order, in a process's network namespace. CapabilityError with the kernel's words."""
    words = (
        ["ip", "-batch", "-"]
        if pid is None
        else ["nsenter", "-t", str(pid), "-n", "ip", "-batch", "-"]
    )
    done = subprocess.run(
        words, input="\n".join(commands) + "\n", capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise CapabilityError(f"machines on this machine: {done.stderr.strip().splitlines()[0]}")
