"""Byte streams of a machine as TCP connections to the coordinator.

A stream is, for example, the management socket of a switch or the pipe of a process. A connection
begins with the key of the run and the name of the stream. A connection without the key is closed
without an answer.
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

# Length of the key of a run.
KEY_BYTES = 16
# The management socket of a bridge has this prefix and the bridge's name. It needs no registration.
BRIDGE = "bridge "
# Length of a stream's name, padded with zero bytes.
_NAME_BYTES = 64
_CONNECT_S = 10.0
# File descriptors for reading and for writing, which the relay closes.
Opened = tuple[int, int]


def serve_streams(machine: MachineState, address: str, port: int, key: bytes) -> None:
    """Accept connections to the registered streams until the network is removed.

    Args:
        machine: The machine.
        address: IPv4 address to listen on.
        port: TCP port to listen on.
        key: Key of the run, ``KEY_BYTES`` bytes.
    """
    listening = socket.create_server((address, port))
    machine.objects["built"].callback(_stop_listening, listening)
    accept_each(listening, partial(_serve, machine, key))


def register_stream(machine: MachineState, name: str, open_stream: Callable[[], Opened]) -> None:
    """Let the coordinator connect to a stream of this name."""
    machine.objects["stream", name] = open_stream


def connect_relay(address: str, port: int, key: bytes, name: str) -> socket.socket:
    """Connect to a stream of a machine.

    Args:
        address: IPv4 address of the machine.
        port: TCP port of its streams.
        key: Key of the run.
        name: Name of the stream.

    Raises:
        CapabilityError: The machine does not answer.
    """
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
    """Return our source address of packets to an IPv4 address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect((towards, 9))
        return str(sock.getsockname()[0])


def _stop_listening(listening: socket.socket) -> None:
    """Close the socket so that its port is free at once.

    Without the shutdown the port stays in use as long as a thread waits in ``accept``.
    """
    with contextlib.suppress(OSError):
        listening.shutdown(socket.SHUT_RDWR)
    listening.close()


def _serve(machine: MachineState, key: bytes, sock: socket.socket) -> None:
    with sock:
        sock.settimeout(_CONNECT_S)
        head = _receive_head(sock)
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
            # Both may be the same descriptor.
            for descriptor in {reading, writing}:
                os.close(descriptor)


def _receive_head(sock: socket.socket) -> bytes:
    """Receive the key and the name. The result is shorter if the connection ends before."""
    head = b""
    with contextlib.suppress(OSError):
        while len(head) < KEY_BYTES + _NAME_BYTES:
            part = sock.recv(KEY_BYTES + _NAME_BYTES - len(head))
            if not part:
                break
            head += part
    return head


def _open_bridge(name: str) -> Opened:
    descriptor = connect_bridge(name).detach()
    return descriptor, descriptor
