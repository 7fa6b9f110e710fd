"""Dask actor of a machine: starts the machine's process and passes requests and answers.

The scheduler releases an actor when its client has disconnected, however that happened. The
processes of the actor end with it.

If the sandbox of a machine has no interface towards the other machines, pasta gives it one, without
privileges. Pasta copies the address of the machine's network into the sandbox, and forwards the
ports that a run uses through sockets outside. If root starts pasta, it would change to the user
nobody, who may not enter root's namespaces. Therefore it is told to stay root.
"""

import asyncio
import itertools
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from testbed.emulation.sandbox.process_lifetime import await_own_network
from testbed.emulation.sandbox.sandbox import in_sandbox, sandbox_command
from testbed.errors import CapabilityError
from testbed.machines.adapters.machine_process import FRAME

# Limit on the time until a sandbox has its interface, in seconds.
_WAIT_S = 10.0


def uplink_argv(pasta: str, pid: int, port: int, *, root: bool = False) -> list[str]:
    """Return the command that attaches pasta to the network of a process.

    Pasta forwards UDP ``port`` for tunnels, the next UDP port for clocks, and TCP ``port`` for
    streams. A sandbox has no IPv6, and pasta (version of 2026) fails if it cannot set an IPv6
    address.

    Args:
        pasta: Path of pasta.
        pid: The process.
        port: The first port.
        root: Whether root starts pasta. Pasta drops the privilege to inspect other processes first.
            So it gets the network as a file, in a mount namespace that ends with it.

    >>> print(*uplink_argv("pasta", 7, 20006)[:4], *uplink_argv("pasta", 7, 20006)[10:])
    setpriv --pdeathsig KILL pasta --foreground -t 20006 -u 20006,20007 -T none -U none 7
    """
    ports = ["-t", str(port), "-u", f"{port},{port + 1}", "-T", "none", "-U", "none"]
    options = [
        "--config-net",
        "--ipv4-only",
        "--mtu",
        "65520",
        "--no-map-gw",
        "--quiet",
        "--foreground",
        *ports,
    ]
    die_with_parent = ["setpriv", "--pdeathsig", "KILL"]
    if not root:
        return [*die_with_parent, pasta, *options, str(pid)]
    steps = [
        "mount -t tmpfs none /mnt",
        ": > /mnt/net",
        f"mount --bind /proc/{pid}/ns/net /mnt/net",
        'exec "$@"',
    ]
    in_mount_namespace = ["unshare", "--mount", "sh", "-c", " && ".join(steps), "sh"]
    as_root = ["--runas", "0:0", "--netns", "/mnt/net"]
    return [*die_with_parent, *in_mount_namespace, pasta, *options, *as_root]


def start_uplink(pid: int, port: int) -> subprocess.Popen[bytes] | None:
    """Give an interface to the sandbox of a process.

    Args:
        pid: The process.
        port: The first port of the run.

    Returns:
        The process of pasta, or None if this machine has no pasta.

    Raises:
        CapabilityError: Pasta failed.
    """
    pasta = shutil.which("pasta")
    if pasta is None:
        return None
    if not await_own_network(pid, _WAIT_S):
        raise CapabilityError("the sandbox of this machine did not come up")
    argv = uplink_argv(pasta, pid, port, root=os.geteuid() == 0)
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=errors)
        until_s = time.monotonic() + _WAIT_S
        while time.monotonic() < until_s and process.poll() is None:
            if _has_route(pid):
                return process
            time.sleep(0.02)
        process.kill()
        process.wait()
        errors.seek(0)
        reason = _reason(errors.read().decode(errors="replace"))
        raise CapabilityError(f"pasta did not create an interface in the sandbox{reason}")


def _has_route(pid: int) -> bool:
    """Return whether the network of a process has a route. The first line is a heading."""
    return len(Path(f"/proc/{pid}/net/route").read_text().splitlines()) > 1


def _reason(output: str) -> str:
    r"""Return the last line of pasta's output that is not a complaint about a missing log.

    >>> _reason("Couldn't open network namespace\nFailed to send 9 bytes to syslog\n")
    " (Couldn't open network namespace)"
    """
    lines: list[str] = []
    for line in output.splitlines():
        if line.strip() and not line.startswith("Failed to send"):
            lines.append(line.strip())
    return f" ({lines[-1]})" if lines else "; see testbed doctor"


class MachineActor:
    """The actor of one machine.

    Its methods are coroutines. They run in the event loop of the worker, so that a long request
    does not delay others.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._numbers = itertools.count(1)
        # The answers that are awaited, by the number of the request.
        self._pending: dict[int, asyncio.Future[bytes]] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._uplink: subprocess.Popen[bytes] | None = None

    async def start(self, port: int) -> int:
        """Start the machine's process, and return its process id.

        If the worker is not in a sandbox, the process gets a sandbox with an uplink.

        Args:
            port: The first port of the run.
        """
        ours, theirs = socket.socketpair()
        needs_sandbox = not in_sandbox()
        with theirs:
            descriptor = theirs.fileno()
            program = [sys.executable, "-P", "-m", "testbed.machines.adapters.machine_process"]
            argv = [*program, str(descriptor), self._name]
            if needs_sandbox:
                argv = sandbox_command(argv, die_with_parent=True)
            self._process = subprocess.Popen(argv, pass_fds=[descriptor], stdin=subprocess.DEVNULL)
        if needs_sandbox:
            self._uplink = await asyncio.to_thread(start_uplink, self._process.pid, port)
        reader, self._writer = await asyncio.open_connection(sock=ours)
        self._task = asyncio.get_running_loop().create_task(_read(reader, self._pending))
        return self._process.pid

    async def call(self, request: bytes) -> bytes:
        """Send a request, and return its answer. Both are pickled."""
        number = next(self._numbers)
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._pending[number] = answer
        self._writer.write(FRAME.pack(number, len(request)) + request)
        return await answer

    async def stop(self) -> None:
        """Kill the machine's process, whatever it is doing."""
        self._end()

    def __del__(self) -> None:
        self._end()

    def _end(self) -> None:
        for process in (self._uplink, self._process):
            if process is not None:
                process.kill()
                process.wait()


async def _read(reader: asyncio.StreamReader, pending: dict[int, asyncio.Future[bytes]]) -> None:
    """Deliver answers until the process ends.

    This is not a method: a task with a reference to the actor would keep the actor alive.
    """
    try:
        while True:
            number, size = FRAME.unpack(await reader.readexactly(FRAME.size))
            pending.pop(number).set_result(await reader.readexactly(size))
    except (asyncio.IncompleteReadError, ConnectionError):
        for answer in pending.values():
            answer.set_exception(ConnectionError("the machine's process has ended"))
