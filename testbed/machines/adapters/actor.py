"""The Dask actor of one machine: starts the machine's process next to the worker and passes requests and answers
through.

The scheduler lets go of an actor when its client is gone, however that ended: with the actor its processes end.
"""

import asyncio
import itertools
import socket
import subprocess
import sys

from testbed.emulation.sandbox.sandbox import in_sandbox, sandbox_command
from testbed.machines.adapters.machine_process import FRAME
from testbed.machines.adapters.uplink import start_uplink


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
            words = [sys.executable, "-P", "-m", "testbed.machines.adapters.machine_process", number, self._name]
            apart = not in_sandbox()
            if apart:
                words = sandbox_command(words, die_with_parent=True)
            self._process = subprocess.Popen(words, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
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
