"""I/O listeners of striped files in emulated hosts: sockets in the hosts' networks, one process for all of them.

A node whose listener is to die on its own gets a process of its own.
"""

import logging
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

from testbed.bulk.circuit_rules import BULK_PORT
from testbed.bulk.emulated.agent_process import AgentProcess
from testbed.bulk.messages import Ready
from testbed.emulation.network.emulated_network import EmulatedNetwork
from testbed.model.wiring import Wiring

LISTENER_PORT = BULK_PORT
"""TCP port of every listener."""
_BACKLOG = 512
_READY_S = 20.0


class ListenerProcess:
    """Serves the nodes' subfiles below ``root/<node>`` from construction until ``close`` (or ``kill``, as a crash
    would).

    ``key``: of the run, without which no client is served. ``client_silence_s``: until a silent client is given up
    (default: a listener's own). Raises CapabilityError where the process cannot begin.
    """

    def __init__(
        self,
        net: EmulatedNetwork,
        wiring: Wiring,
        nodes: Sequence[str],
        root: Path,
        *,
        key: bytes,
        send_buffer_bytes: int | None = None,
        client_silence_s: float | None = None,
    ) -> None:
        self._key, self._client_silence_s = key, client_silence_s
        self.nodes = tuple(nodes)
        self.killed = False
        self._net, self._wiring, self._root = net, wiring, root
        self._send_buffer_bytes = send_buffer_bytes
        self._agent = AgentProcess("listener", nodes, self._serve)
        self._agent.receive(_READY_S)

    def kill(self) -> None:
        """End it at once."""
        self.killed = True
        self._agent.kill()

    def close(self) -> None:
        self._agent.close()

    def _serve(self, port: Connection) -> None:
        from sfio_emu.adapters.listener import LOG, Listener
        from sfio_emu.adapters.listener_clients import Limits

        LOG.setLevel(logging.ERROR)  # which clients were lost, and when, the run itself reports
        places = [(self._listening_socket(node), self._root / node) for node in self.nodes]
        limits = Limits.of_process()
        if self._client_silence_s is not None:
            limits = replace(limits, silence_s=self._client_silence_s)
        listener = Listener(places, key=self._key, limits=limits)
        port.send(Ready())
        listener.serve_forever()

    def _listening_socket(self, node: str) -> socket.socket:
        sock = self._net.open_socket(self._wiring.host_at(node).name, socket.AF_INET, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if self._send_buffer_bytes is not None:  # what it accepts inherits it
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._send_buffer_bytes)
        sock.bind(("0.0.0.0", LISTENER_PORT))
        sock.listen(_BACKLOG)
        return sock


class ListenerKiller:
    """Ends the listeners of nodes at their times (seconds after ``start`` on the monotonic clock); a context
    manager."""

    def __init__(self, listeners: Sequence[ListenerProcess], times: Sequence[tuple[float, str]], start: float) -> None:
        self._timers = [
            threading.Timer(max(0.0, start + at_s - time.monotonic()), listener.kill)
            for at_s, node in times
            for listener in listeners
            if node in listener.nodes
        ]

    def __enter__(self) -> "ListenerKiller":
        for timer in self._timers:
            timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        for timer in self._timers:
            timer.cancel()
            timer.join()
