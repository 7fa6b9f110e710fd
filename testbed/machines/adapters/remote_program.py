"""A program in a host of another machine, on the coordinator's side."""

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

# Bytes that are copied at once.
_PART = 1 << 16
# How long to wait for the remaining output of a program that has ended, in seconds.
_REMAINING_OUTPUT_S = 2.0


class RemoteProgram:
    """A running program (``testbed.emulation.attach.program_group.StartedProgram``).

    Args:
        network: The network.
        machine: Number of the machine.
        requested: ``host``, ``argv``, ``cwd``, and ``env`` (added to that of the machine), as in
            ``run_program``.

    Attributes:
        stdin: Standard input of the program.
        stdout: Its standard output.
        stderr: Its standard error.

    Raises:
        InputError: The program cannot be started.
        MachineDiedError: The machine has died. All methods may raise this.
    """

    def __init__(self, network: DistributedNetwork, machine: int, requested: Json) -> None:
        self._machines = network.machines
        self._machine = machine
        self._exit_code: int | None = None
        number = int(self._machines.call(machine, prepare_program, requested).result(30))
        self.stdin = network.open_stream(machine, stream_name(number, IN))
        self.stdout: IO[bytes] = _reader(network.open_stream(machine, stream_name(number, OUT)))
        self.stderr: IO[bytes] = _reader(network.open_stream(machine, stream_name(number, ERRORS)))
        self._control = network.open_stream(machine, stream_name(number, CONTROL))
        # The first answer is the process id on the machine, which is of no use here.
        self._answer()

    def fileno(self) -> int:
        """Return a file descriptor that becomes readable when the program has ended."""
        return self._control.fileno()

    def poll(self) -> int | None:
        """Return the exit code, or None if the program is running."""
        return self.wait(0)

    def wait(self, timeout_s: float) -> int | None:
        """Return the exit code, or None if the program runs for longer than ``timeout_s``."""
        if self._exit_code is None and select.select((self._control,), (), (), timeout_s)[0]:
            self._exit_code = int(self._answer().header["code"])
        return self._exit_code

    def signal(self, number: int) -> None:
        """Send a signal to the program and its children, unless it has ended."""
        with suppress(SessionClosedError):
            send(self._control, {"signal": number})

    def close(self) -> None:
        """Kill the program if it is running."""
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
    """Start programs without standard input. If one cannot be started, all are killed.

    Args:
        network: The network.
        requested: The machine and the request of each program.
    """
    programs: list[RemoteProgram] = []
    try:
        for machine, request in requested:
            programs.append(RemoteProgram(network, machine, request))
            programs[-1].stdin.close()
    except BaseException:
        for program in programs:
            program.close()
        raise
    return programs


def attend_here(program: RemoteProgram, asker: socket.socket, descriptors: Sequence[int]) -> int:
    """Connect a program to three file descriptors until it ends, and return its exit code.

    Args:
        program: The program.
        asker: The client's connection. Its signals are passed to the program.
        descriptors: Standard input, output and error of the client.

    Raises:
        SessionClosedError: The client disconnected. The program is killed.
    """
    stopped, stop = os.pipe()
    source, *targets = descriptors
    input_thread = threading.Thread(
        target=_copy_input, args=(source, program.stdin, stopped), daemon=True
    )
    output_threads: list[threading.Thread] = []
    for stream, target in zip((program.stdout, program.stderr), targets, strict=True):
        thread = threading.Thread(target=_copy_output, args=(stream, target), daemon=True)
        output_threads.append(thread)
    try:
        input_thread.start()
        for thread in output_threads:
            thread.start()
        exit_code = attend(program, asker)
        until_s = time.monotonic() + _REMAINING_OUTPUT_S
        for thread in output_threads:
            thread.join(max(0.0, until_s - time.monotonic()))
        return exit_code
    finally:
        # Closing the pipe ends the thread that waits for input.
        os.close(stop)
        program.close()
        input_thread.join(_REMAINING_OUTPUT_S)
        os.close(stopped)


def _reader(sock: socket.socket) -> IO[bytes]:
    with sock:
        return sock.makefile("rb")


def _copy_input(source: int, target: socket.socket, stopped: int) -> None:
    """Copy from a descriptor to the program until its end, or until ``stopped`` is readable."""
    with target, suppress(OSError):
        while stopped not in (ready := select.select((source, stopped), (), ())[0]):
            data = os.read(source, _PART) if source in ready else b""
            if not data:
                return
            target.sendall(data)


def _copy_output(source: IO[bytes], target: int) -> None:
    """Copy from the program to a descriptor until the end of the stream."""
    with source, suppress(OSError):
        while data := source.read1(_PART):  # type: ignore[attr-defined]
            while data:
                data = data[os.write(target, data) :]
