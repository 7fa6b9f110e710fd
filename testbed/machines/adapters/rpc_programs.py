"""Programs in the hosts that lie on one of several machines: what the coordinator asks of it (``remote_program`` is its
side).

A program has four streams: its input, output and errors, and one on which requests of
``testbed.emulation.attach.protocol`` are exchanged; it begins when that one is connected to, and is killed when it
closes.
"""

import itertools
import os
import socket
import threading
from contextlib import suppress
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

IN, OUT, ERRORS, CONTROL = "in", "out", "errors", "control"
_NOTICE_INTERRUPTS = ("env", "--default-signal=INT")
"""A machine's processes ignore Ctrl-C, and what ignores a signal hands that on; a program in a host decides for
itself."""
_numbers = itertools.count(1)


def stream_name(number: int, which: str) -> str:
    """Of a program's stream.

    >>> stream_name(3, OUT)
    'program 3 out'
    """
    return f"program {number} {which}"


def prepare_program(machine: MachineState, requested: Json) -> int:
    """Offer the streams of a program; its number. ``asked``: as of
    ``testbed.emulation.attach.host_processes.run_program``.

    InputError where there is no such host here, or no such directory.
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
        raise InputError(f"there is no directory {folder}, where the program is to begin")
    number = next(_numbers)
    from_us, into_it = os.pipe()
    from_it, out_of_it = os.pipe()
    errors, errors_of_it = os.pipe()
    header = {**requested, "argv": [*_NOTICE_INTERRUPTS, *requested["argv"]]}

    def begin() -> Opened:
        ours, theirs = socket.socketpair()
        request = Frame(header, b"", (from_us, out_of_it, errors_of_it))
        threading.Thread(
            target=_attend, args=(net, ours, request), name=f"program {number}", daemon=True
        ).start()
        descriptor = theirs.detach()
        return descriptor, descriptor

    def once(which: str, descriptor: int) -> None:
        def opened() -> Opened:
            machine.objects.pop(("stream", stream_name(number, which)), None)
            return descriptor, descriptor

        register_stream(machine, stream_name(number, which), opened)

    for which, descriptor in ((IN, into_it), (OUT, from_it), (ERRORS, errors)):
        once(which, descriptor)
    register_stream(machine, stream_name(number, CONTROL), begin)
    return number


def _attend(net: EmulatedNetwork, ours: socket.socket, request: Frame) -> None:
    with ours, suppress(SessionClosedError):  # whoever requests has gone, and the program with them
        try:
            run_program(net, ours, request)
        except SessionClosedError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, whoever asked has to be told
            send(ours, error_header(error))


def add_all_neighbours(machine: MachineState) -> int:
    """The rules of ``testbed up`` for the switches that lie here; how many."""
    net = network_of(machine)
    return install_shortest_paths(net.wiring, net.switch_names)


def add_ipv6_here(machine: MachineState, rules: bool) -> None:
    """IPv6 addresses for the hosts that lie here (``testbed.emulation.control.ipv6``)."""
    add_ipv6(network_of(machine), rules=rules)
