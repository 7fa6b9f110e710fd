"""Streams that a machine offers: a network that is taken down leaves its port to the next one at once."""

from __future__ import annotations

import os
import socket
import time
from contextlib import ExitStack

from testbed.machines.adapters.stream_forwarding import (
    connect_relay,
    register_stream,
    serve_streams,
)
from testbed.machines.rpc import MachineState

KEY = b"k" * 16


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


def test_a_port_is_free_again_as_soon_as_its_network_is_down() -> None:
    machine, port = MachineState(name="m"), free_port()
    for number in range(5):
        with ExitStack() as built:
            machine.objects["built"] = built
            serve_streams(machine, "127.0.0.1", port, KEY)
            source, sink = os.pipe()
            os.write(sink, b"%d" % number)
            ends = [(source, os.open(os.devnull, os.O_WRONLY))]
            register_stream(machine, "pipe", ends.pop)
            with connect_relay("127.0.0.1", port, KEY, "pipe") as stream:
                assert stream.recv(1) == b"%d" % number
            os.close(sink)
            time.sleep(0.05)  # the thread waits for the next connection
