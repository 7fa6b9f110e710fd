"""Byte streams of a machine (a switch's management socket, a process's pipe) as connections that the coordinator holds.

A connection begins with the run's key and the stream's name; one without the key is closed unanswered.
"""

import contextlib
import os
import secrets
import socket
from collections.abc import Callable
from functools import partial

from testbed.emulation.control.remote_controller import accept_each, copy_both_directions
from testbed.emulation.network.open_vswitch.switches import connect_bridge
from testbed.errors import CapabilityError
from testbed.machines.rpc import MachineState

KEY_BYTES = 16
BRIDGE = "bridge "
"""Before a bridge's name: its management socket, which need not be offered."""
_NAME_BYTES = 64
_CONNECT_S = 10.0
Opened = tuple[int, int]
"""Descriptors to read from and to write to, which the relay closes."""


def serve_streams(machine: MachineState, address: str, port: int, key: bytes) -> None:
    """Accept connections from now on. Streams are those of ``offer``."""
    listening = socket.create_server((address, port))
    machine.objects["built"].callback(_end, listening)
    accept_each(listening, partial(_serve, machine, key))


def register_stream(machine: MachineState, name: str, open_stream: Callable[[], Opened]) -> None:
    """Let the coordinator connect to a stream of that name."""
    machine.objects["stream", name] = open_stream


def connect_relay(address: str, port: int, key: bytes, name: str) -> socket.socket:
    """The coordinator's end of a stream. CapabilityError where the machine does not answer."""
    try:
        sock = socket.create_connection((address, port), _CONNECT_S)
    except OSError as error:
        raise CapabilityError(
            f"the stream {name} of a machine cannot be reached ({error})"
        ) from None
    sock.settimeout(None)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.sendall(key + name.encode().ljust(_NAME_BYTES, b"\0"))
    return sock


def listen_address(towards: str) -> str:
    """The address that packets to that one leave from."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect((towards, 9))
        return str(sock.getsockname()[0])


def _end(listening: socket.socket) -> None:
    """The port is free when this returns: closed alone, it would go on listening for the thread that waits for it."""
    with contextlib.suppress(OSError):
        listening.shutdown(socket.SHUT_RDWR)
    listening.close()


def _serve(machine: MachineState, key: bytes, sock: socket.socket) -> None:
    with sock:
        sock.settimeout(_CONNECT_S)
        head = b""
        with contextlib.suppress(OSError):
            while len(head) < KEY_BYTES + _NAME_BYTES and (
                part := sock.recv(KEY_BYTES + _NAME_BYTES - len(head))
            ):
                head += part
        name = head[KEY_BYTES:].rstrip(b"\0").decode(errors="replace")
        open_stream = machine.objects.get(("stream", name))
        if name.startswith(BRIDGE):
            open_stream = partial(_open_bridge, name.removeprefix(BRIDGE))
        if not secrets.compare_digest(head[:KEY_BYTES], key) or open_stream is None:
            return
        reading, writing = open_stream()
        try:
            copy_both_directions(sock, reading, writing)
        finally:
            for descriptor in {reading, writing}:
                os.close(descriptor)


def _open_bridge(name: str) -> Opened:
    descriptor = connect_bridge(name).detach()
    return descriptor, descriptor
