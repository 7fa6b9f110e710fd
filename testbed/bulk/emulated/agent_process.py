"""A process of its own that holds sockets in many hosts, and takes the run's orders over a pipe.

The parent gives orders and reads reports (``testbed.bulk.messages``); the child runs until the pipe ends or it is
killed.
"""

import contextlib
import gc
import os
import socket
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import cast

from testbed.bulk.messages import AgentFailed, Order, Report
from testbed.emulation.network.emulated_network import EmulatedNetwork
from testbed.emulation.network.kernel.host_namespaces import (
    inside_namespace,
    raise_open_file_limit,
)
from testbed.emulation.sandbox.forked_process import ForkedProcess, OpenFile
from testbed.emulation.sandbox.process_lifetime import begin_child
from testbed.errors import CapabilityError

_RESET = struct.pack("ii", 1, 0)
ANSWER_S = 60.0
"""How long a process may take to answer."""


class PipeEnd:
    """The end of a process's pipe at whoever orders it about, here or on another machine; ``fileno`` is readable when
    a report has come."""

    def __init__(self, role: str, nodes: Sequence[str], pipe: Connection) -> None:
        self.role, self.nodes, self._pipe = role, tuple(nodes), pipe

    def fileno(self) -> int:
        return self._pipe.fileno()

    def order(self, order: Order) -> None:
        """Send an order. That the process has died shows when its next report is read."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._pipe.send(order)

    @property
    def has_report(self) -> bool:
        """Whether ``receive`` would return, or raise, at once."""
        return self._pipe.poll()

    def receive(self, timeout_s: float = ANSWER_S) -> Report:
        """The next report. EOFError where the process has died; CapabilityError where it gave up or is silent for so
        long."""
        if not self._pipe.poll(timeout_s):
            raise CapabilityError(f"bulk {self.role}: no response within {timeout_s:g} s")
        try:
            report = cast(Report, self._pipe.recv())
        except ConnectionResetError:
            raise EOFError from None
        if isinstance(report, AgentFailed):
            raise CapabilityError(f"the {self.role} of bulk transfers failed: {report.reason}")
        return report


class AgentProcess(PipeEnd):
    """The parent's side of a process that runs ``run(port)`` for ``nodes``.

    ``run`` is a function of a module, or a partial of one. ``port`` is the other end of the pipe: ``recv`` gives an
    order (EOFError: the parent has ended), ``send`` takes a report.
    """

    def __init__(self, role: str, nodes: Sequence[str], run: Callable[[Connection], None]) -> None:
        self._process = ForkedProcess(_child, run)
        super().__init__(role, nodes, self._process.pipe)

    def kill(self) -> None:
        """End it at once, as a crash would."""
        self._process.kill()

    def close(self) -> None:
        """End it, and close the pipe."""
        self._process.close()


def reset_on_close(sock: socket.socket) -> None:
    """Have the kernel forget the connection when it is closed, or those that a listening socket accepted.

    Otherwise both ends say goodbye again and again for minutes, because no circuit stands, and their packets are
    counted as strays of the next run on this network.
    """
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)


def process_groups(nodes: Sequence[str], killed: Sequence[str]) -> list[tuple[str, ...]]:
    """The nodes of each process: one for all, but one of its own for every node whose process is to be killed.

    >>> process_groups(["a", "b", "c"], ["b", "b"])
    [('a', 'c'), ('b',)]
    """
    apart = tuple(node for node in dict.fromkeys(killed) if node in nodes)
    together = tuple(node for node in nodes if node not in apart)
    return [group for group in (together, *((node,) for node in apart)) if group]


@dataclass(frozen=True)
class NodeSockets:
    """Opens sockets in the networks of nodes, in whatever process it is passed to.

    Attributes:
        namespaces: Node -> the open file of its network namespace.
        addresses: Node -> IP address, of every node.
    """

    namespaces: Mapping[str, int]
    addresses: Mapping[str, str]

    @classmethod
    def of(cls, net: EmulatedNetwork, nodes: Iterable[str]) -> "NodeSockets":
        """Return what opens sockets of these nodes."""
        namespaces: dict[str, int] = {}
        for node in nodes:
            host = net.wiring.host_at(node).name
            namespaces[node] = OpenFile(net.namespaces.descriptor(host))
        return cls(namespaces, {host.node: host.ip for host in net.wiring.hosts})

    def open(self, node: str, family: int, kind: int) -> socket.socket:
        """Return a socket in the node's network."""
        with inside_namespace(self.namespaces[node]):
            return socket.socket(family, kind)


def _child(pipe: Connection, run: Callable[[Connection], None]) -> None:
    begin_child(-5)
    raise_open_file_limit()
    gc.freeze()
    gc.disable()
    try:
        run(pipe)
    except (EOFError, BrokenPipeError):
        os._exit(0)  # the run is over
    except Exception as error:  # noqa: BLE001 - whatever went wrong must reach the parent, which names the process
        with contextlib.suppress(OSError):
            pipe.send(AgentFailed(reason=f"{type(error).__name__}: {error}"))
    os._exit(0)
