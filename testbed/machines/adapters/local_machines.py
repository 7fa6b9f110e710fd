"""Machines on this computer: namespaces with a Dask worker each, and a bridge between them.

Each machine is a network, mount, process and time namespace. This shows that a run over several
machines is correct, not that it is fast, because all machines share the processors. Their clocks
are thousands of seconds apart. No machine sees the temporary files or abstract sockets of another.
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
# The clock of machine k is (k + 1) times this far ahead of ours, in seconds, so that a stamp of the
# wrong clock cannot go unnoticed.
CLOCK_STEP_S = 4321.0
_MTU = 9000
_START_S = 10.0


def address_of(number: int) -> str:
    """Return the IPv4 address of a machine on the bridge; -1 is the computer itself."""
    return f"192.168.77.{number + 2}"


def port_of(number: int) -> str:
    """Return the name of the bridge's port to a machine."""
    return f"machine{number}"


class LocalMachine:
    """A machine on this computer: its outer process and its namespaces.

    Args:
        number: Number of the machine, from 0.
        scheduler: Address of the Dask scheduler.
        certificate: Certificate of the machine's worker, and its key (PEM), for the scheduler.
    """

    def __init__(self, number: int, scheduler: str, certificate: tuple[str, str]) -> None:
        self.name = f"machine-{number}"
        self.number = number
        self.address = address_of(number)
        self._certificate = certificate
        program = [sys.executable, "-P", "-m", "testbed.machines.adapters.local_worker"]
        argv = [*program, scheduler, self.name, self.address]
        command = sandbox_command(
            argv, die_with_parent=True, clock_offset_s=CLOCK_STEP_S * (number + 1)
        )
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE)

    def connect(self) -> None:
        """Give the machine its interface as soon as it has a network namespace, and let it go on.

        Raises:
            CapabilityError: The machine could not be started.
        """
        self._await_namespace()
        pid = self.process.pid
        port = port_of(self.number)
        pair = f"link add {port} mtu {_MTU} type veth peer name {UNDERLAY} mtu {_MTU} netns {pid}"
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
        """Raise a CapabilityError if the machine has ended."""
        if self.process.poll() is not None:
            raise CapabilityError(f"{self.name} has died; it may have been killed")

    def close(self) -> None:
        """Kill the machine. The kernel removes everything in its namespaces."""
        self.process.kill()
        self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()


@contextmanager
def local_machines(
    count: int, scheduler: str, certificate: tuple[str, str]
) -> Iterator[list[LocalMachine]]:
    """Run a number of machines on a bridge with the address ``address_of(-1)``.

    This needs a sandbox.

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
    """Remove interfaces that may or may not exist any more.

    The kernel removes the interfaces of a dead network namespace with a delay, but the next
    machines use the same names.
    """
    commands = "".join(f"link delete {name}\n" for name in names)
    subprocess.run(
        ["ip", "-force", "-batch", "-"], input=commands, capture_output=True, text=True, check=False
    )


def make_bridge() -> None:
    """Create the bridge with this computer's address. A scheduler can listen on it afterwards."""
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
    """Run iproute2 commands in order.

    Args:
        commands: The commands, without ``ip``.
        pid: A process in whose network namespace they run; None: in ours.

    Raises:
        CapabilityError: A command failed. The text is the kernel's reason.
    """
    argv = ["ip", "-batch", "-"]
    if pid is not None:
        argv = ["nsenter", "-t", str(pid), "-n", *argv]
    result = subprocess.run(
        argv, input="\n".join(commands) + "\n", capture_output=True, text=True, check=False
    )
    if result.returncode:
        raise CapabilityError(f"machines on this machine: {result.stderr.strip().splitlines()[0]}")
