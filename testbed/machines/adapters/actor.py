"""The Dask actor of one machine: starts the machine's process next to the worker and passes requests and answers
through.

The scheduler lets go of an actor when its client is gone, however that ended: with the actor its processes end.

A machine whose sandbox has no interface towards the others has one by pasta, without rights, by the ports that a run
uses: it copies the address of the machine's own network into the sandbox and passes datagrams and connections on by
sockets outside. Started by root it would become nobody, who may not enter root's namespaces: it is told to stay root.
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

_WAIT_S = 10.0


def uplink_argv(pasta: str, pid: int, port: int, *, root: bool = False) -> list[str]:
    """The command that attaches pasta to a process's network: UDP ``port`` for tunnels, the next one for clocks, TCP
    ``port`` for streams.

    ``root``: whether root starts it. Without the right to look at other processes, which pasta gives up first, it is
    handed the network as a file, in a mount namespace that goes with it. A sandbox's network has no IPv6, and pasta of
    2026 ends where it may not set such an address.

    >>> print(*uplink_argv("pasta", 7, 20006)[:4], *uplink_argv("pasta", 7, 20006)[10:])
    setpriv --pdeathsig KILL pasta --foreground -t 20006 -u 20006,20007 -T none -U none 7
    """
    ports = ["-t", str(port), "-u", f"{port},{port + 1}", "-T", "none", "-U", "none"]
    words = [
        pasta,
        "--config-net",
        "--ipv4-only",
        "--mtu",
        "65520",
        "--no-map-gw",
        "--quiet",
        "--foreground",
        *ports,
    ]
    if not root:
        return ["setpriv", "--pdeathsig", "KILL", *words, str(pid)]
    steps = [
        "mount -t tmpfs none /mnt",
        ": > /mnt/net",
        f"mount --bind /proc/{pid}/ns/net /mnt/net",
        'exec "$@"',
    ]
    mounted = ["unshare", "--mount", "sh", "-c", " && ".join(steps), "sh"]
    return [
        "setpriv",
        "--pdeathsig",
        "KILL",
        *mounted,
        *words,
        "--runas",
        "0:0",
        "--netns",
        "/mnt/net",
    ]


def start_uplink(pid: int, port: int) -> subprocess.Popen[bytes] | None:
    """Give the sandbox of that process an interface; None where this machine has no pasta. CapabilityError with pasta's
    words."""
    pasta = shutil.which("pasta")
    if pasta is None:
        return None
    if not await_own_network(pid, _WAIT_S):
        raise CapabilityError("the sandbox of this machine did not come up")
    words = uplink_argv(pasta, pid, port, root=os.geteuid() == 0)
    with tempfile.TemporaryFile() as said:
        program = subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=said)
        until = time.monotonic() + _WAIT_S
        while time.monotonic() < until and program.poll() is None:
            if len(Path(f"/proc/{pid}/net/route").read_text().splitlines()) > 1:  # a way out
                return program
            time.sleep(0.02)
        program.kill()
        program.wait()
        said.seek(0)
        raise CapabilityError(
            f"pasta did not create an interface in the sandbox{_reason(said.read().decode(errors='replace'))}"
        )


def _reason(said: str) -> str:
    """The last line of what pasta said that is no complaint about a missing log.

    >>> _reason("Couldn't open network namespace /proc/7/ns/net\\nFailed to send 9 bytes to syslog\\n")
    " (Couldn't open network namespace /proc/7/ns/net)"
    """
    lines = [
        line for line in said.splitlines() if line.strip() and not line.startswith("Failed to send")
    ]
    return f" ({lines[-1].strip()})" if lines else "; see testbed doctor"


class MachineActor:
    """Its methods are coroutines: they run in the worker's event loop, so that a long request holds no other one up."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[bytes]] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._uplink: subprocess.Popen[bytes] | None = None

    async def start(self, port: int) -> int:
        """Start the process, in a sandbox of its own where the worker is in none, with an uplink by ``port`` and the
        next; its process id."""
        ours, theirs = socket.socketpair()
        with theirs:
            number = str(theirs.fileno())
            words = [
                sys.executable,
                "-P",
                "-m",
                "testbed.machines.adapters.machine_process",
                number,
                self._name,
            ]
            apart = not in_sandbox()
            if apart:
                words = sandbox_command(words, die_with_parent=True)
            self._process = subprocess.Popen(
                words, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL
            )
        if apart:
            self._uplink = await asyncio.to_thread(start_uplink, self._process.pid, port)
        reader, self._writer = await asyncio.open_connection(sock=ours)
        self._task = asyncio.get_running_loop().create_task(_read(reader, self._waiting))
        return self._process.pid

    async def call(self, request: bytes) -> bytes:
        """One request, one answer."""
        number = next(self._numbers)
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        self._writer.write(FRAME.pack(number, len(request)) + request)
        return await answer

    async def stop(self) -> None:
        """End the process, whatever it is doing."""
        self._end()

    def __del__(self) -> None:
        self._end()

    def _end(self) -> None:
        for process in (self._uplink, self._process):
            if process is not None:
                process.kill()
                process.wait()


async def _read(reader: asyncio.StreamReader, waiting: dict[int, asyncio.Future[bytes]]) -> None:
    """Hand answers on until the process ends. It knows nothing of the actor: a task that did would keep it
    permanently."""
    try:
        while True:
            number, size = FRAME.unpack(await reader.readexactly(FRAME.size))
            waiting.pop(number).set_result(await reader.readexactly(size))
    except (asyncio.IncompleteReadError, ConnectionError):
        for one in waiting.values():
            one.set_exception(ConnectionError("the machine's process has ended"))
