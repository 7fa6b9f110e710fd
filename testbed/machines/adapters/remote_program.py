"""A program in a host of another machine, as the coordinator holds it: its streams, signals and exit code."""

import os
import select
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import IO

from testbed.emulation.attach.program_group import attend
from testbed.emulation.attach.protocol import Frame, checked, receive, send
from testbed.errors import SessionClosedError
from testbed.machines.adapters.distributed_network import DistributedNetwork
from testbed.machines.adapters.rpc_programs import (
    CONTROL,
    ERRORS,
    IN,
    OUT,
    prepare_program,
    stream_name,
)
from topologies import Json

_PART = 1 << 16
_REST_S = 2.0


class RemoteProgram:
    """``testbed.emulation.attach.program_group.StartedProgram`` on a machine. MachineDiedError where that dies.

    ``asked``: ``host``, ``argv``, ``cwd``, ``env`` (added to the machine's own) as of ``run_program``. InputError where
    it cannot begin.
    """

    def __init__(self, network: DistributedNetwork, machine: int, requested: Json) -> None:
        self._machines, self._machine = network.machines, machine
        self._code: int | None = None
        number = int(self._machines.call(machine, prepare_program, requested).result(30))
        self.stdin = network.open_stream(machine, stream_name(number, IN))
        self.stdout: IO[bytes] = _reader(network.open_stream(machine, stream_name(number, OUT)))
        self.stderr: IO[bytes] = _reader(network.open_stream(machine, stream_name(number, ERRORS)))
        self._control = network.open_stream(machine, stream_name(number, CONTROL))
        self._answer()  # its process id there

    def fileno(self) -> int:
        """Of what can be read when it has ended."""
        return self._control.fileno()

    def poll(self) -> int | None:
        """Exit code, None while it runs."""
        return self.wait(0)

    def wait(self, timeout_s: float) -> int | None:
        """Exit code, None where it still runs after so long."""
        if self._code is None and select.select((self._control,), (), (), timeout_s)[0]:
            self._code = int(self._answer().header["code"])
        return self._code

    def signal(self, number: int) -> None:
        """To the program and what it started; passed over where it has ended."""
        with suppress(SessionClosedError):
            send(self._control, {"signal": number})

    def close(self) -> None:
        """Kill it where it still runs."""
        self._control.close()
        self.stdin.close()

    def _answer(self) -> Frame:
        frame = receive(self._control)
        if frame is None:
            self._machines.check(after_s=2.0)
        return checked(frame)


def programs_in_hosts(
    network: DistributedNetwork, requested: Sequence[tuple[int, Json]]
) -> list[RemoteProgram]:
    """Programs that read nothing, each on its machine, in order; all or none."""
    programs: list[RemoteProgram] = []
    try:
        for machine, one in requested:
            programs.append(RemoteProgram(network, machine, one))
            programs[-1].stdin.close()
    except BaseException:
        for program in programs:
            program.close()
        raise
    return programs


def attend_here(program: RemoteProgram, asker: socket.socket, descriptors: Sequence[int]) -> int:
    """Until the program ends, pass what it reads and writes between it and three descriptors, and the asker's signals
    on; its exit code.

    SessionClosedError where the asker goes: the program is killed.
    """
    stopped, stop = os.pipe()
    pumps = [
        threading.Thread(
            target=_pump_in, args=(descriptors[0], program.stdin, stopped), daemon=True
        ),
        threading.Thread(target=_pump_out, args=(program.stdout, descriptors[1]), daemon=True),
        threading.Thread(target=_pump_out, args=(program.stderr, descriptors[2]), daemon=True),
    ]
    try:
        for pump in pumps:
            pump.start()
        code = attend(program, asker)
        until = time.monotonic() + _REST_S
        for pump in pumps[1:]:
            pump.join(max(0.0, until - time.monotonic()))
        return code
    finally:
        os.close(stop)
        program.close()
        pumps[0].join(_REST_S)
        os.close(stopped)


def _reader(sock: socket.socket) -> IO[bytes]:
    with sock:
        return sock.makefile("rb")


def _pump_in(source: int, target: socket.socket, stopped: int) -> None:
    with target, suppress(OSError):
        while stopped not in (ready := select.select((source, stopped), (), ())[0]):
            data = os.read(source, _PART) if source in ready else b""
            if not data:
                return
            target.sendall(data)


def _pump_out(source: IO[bytes], target: int) -> None:
    with source, suppress(OSError):
        while data := source.read1(_PART):  # type: ignore[attr-defined]
            while data:
                data = data[os.write(target, data) :]
