"""Requests to a machine about programs in its hosts (``remote_program`` is the coordinator's side).

A program has four streams: standard input, output and error, and a control stream with the frames
of ``testbed.emulation.attach.protocol``. The program starts when the control stream is connected,
and is killed when it is closed.
"""

import itertools
import os
import socket
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path

from testbed.emulation.attach.host_processes import argv_in_host, run_program
from testbed.emulation.attach.protocol import Frame, error_header, send
from testbed.emulation.control.base_rules import install_shortest_paths
from testbed.emulation.control.ipv6 import add_ipv6
from testbed.emulation.network.emulated_network import EmulatedNetwork
from testbed.errors import InputError, SessionClosedError
from testbed.machines.adapters.rpc_network import network_of
from testbed.machines.adapters.stream_forwarding import Opened, register_stream
from testbed.machines.rpc import MachineState
from topologies import Json

IN = "in"
OUT = "out"
ERRORS = "errors"
CONTROL = "control"
# The processes of a machine ignore Ctrl-C, and a child inherits that. A program in a host must
# decide for itself.
_DEFAULT_INTERRUPTS = ("env", "--default-signal=INT")
_numbers = itertools.count(1)


def stream_name(number: int, stream: str) -> str:
    """Return the name of a stream of a program.

    >>> stream_name(3, OUT)
    'program 3 out'
    """
    return f"program {number} {stream}"


def prepare_program(machine: MachineState, requested: Json) -> int:
    """Offer the streams of a program, and return its number.

    Args:
        machine: The machine.
        requested: The fields of a request as in
            ``testbed.emulation.attach.host_processes.run_program``.

    Raises:
        InputError: There is no such host or directory on this machine.
    """
    net = network_of(machine)
    argv_in_host(
        net,
        str(requested.get("host")),
        list(requested.get("argv", ())),
        end_point=bool(requested.get("end_point")),
    )
    folder = str(requested.get("cwd") or "/")
    if not Path(folder).is_dir():
        raise InputError(f"no directory {folder}; give an existing working directory")
    number = next(_numbers)
    program_in, our_in = os.pipe()
    our_out, program_out = os.pipe()
    our_errors, program_errors = os.pipe()
    header = {**requested, "argv": [*_DEFAULT_INTERRUPTS, *requested["argv"]]}
    request = Frame(header, b"", (program_in, program_out, program_errors))
    for stream, descriptor in ((IN, our_in), (OUT, our_out), (ERRORS, our_errors)):
        name = stream_name(number, stream)
        register_stream(machine, name, partial(_open_once, machine, name, descriptor))
    start = partial(_start_program, net, request, number)
    register_stream(machine, stream_name(number, CONTROL), start)
    return number


def _open_once(machine: MachineState, name: str, descriptor: int) -> Opened:
    """Open a stream, which then cannot be opened again."""
    machine.objects.pop(("stream", name), None)
    return descriptor, descriptor


def _start_program(net: EmulatedNetwork, request: Frame, number: int) -> Opened:
    """Start the program, and return its control stream."""
    ours, theirs = socket.socketpair()
    threading.Thread(
        target=_attend, args=(net, ours, request), name=f"program {number}", daemon=True
    ).start()
    descriptor = theirs.detach()
    return descriptor, descriptor


def _attend(net: EmulatedNetwork, ours: socket.socket, request: Frame) -> None:
    # The session is closed when the client has disconnected; the program has been killed then.
    with ours, suppress(SessionClosedError):
        try:
            run_program(net, ours, request)
        except SessionClosedError:
            raise
        except Exception as error:  # noqa: BLE001 - the error is sent to the client
            send(ours, error_header(error))


def add_all_neighbours(machine: MachineState) -> int:
    """Install the rules of ``testbed up`` in the switches here, and return their number."""
    net = network_of(machine)
    return install_shortest_paths(net.wiring, net.switch_names)


def add_ipv6_here(machine: MachineState, rules: bool) -> None:
    """Give IPv6 addresses to the hosts here (``testbed.emulation.control.ipv6``)."""
    add_ipv6(network_of(machine), rules=rules)
