"""A process with sockets in many hosts, which executes the run's orders from a pipe.

The parent sends orders and reads reports (``testbed.bulk.messages``). The child runs until the pipe
is closed or it is killed.
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

# struct linger: enabled, zero seconds.
_RESET = struct.pack("ii", 1, 0)
# Above other programs of the machine, so that the end points keep up.
_PRIORITY = -5
# How long a process may take to answer.
ANSWER_S = 60.0


class PipeEnd:
    """The pipe of a process, which may be on another machine.

    Attributes:
        role: The role of the process, such as "sender".
        nodes: The nodes whose sockets it has.
    """

    def __init__(self, role: str, nodes: Sequence[str], pipe: Connection) -> None:
        self.role = role
        self.nodes = tuple(nodes)
        self._pipe = pipe

    def fileno(self) -> int:
        """Return the file descriptor, which is readable when there is a report."""
        return self._pipe.fileno()

    def order(self, order: Order) -> None:
        """Send an order.

        If the process has died, the order is ignored, and reading the next report fails.
        """
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._pipe.send(order)

    @property
    def has_report(self) -> bool:
        """True if ``receive`` would return, or raise, at once."""
        return self._pipe.poll()

    def receive(self, timeout_s: float = ANSWER_S) -> Report:
        """Return the next report.

        Args:
            timeout_s: How long to wait for it.

        Raises:
            EOFError: The process has died.
            CapabilityError: The process cannot continue, or has not answered in time.
        """
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
    """A child process and the parent's end of its pipe."""

    def __init__(self, role: str, nodes: Sequence[str], run: Callable[[Connection], None]) -> None:
        """Start the process.

        Args:
            role: The role of the process, for error messages.
            nodes: The nodes whose sockets it has.
            run: The function that it runs: one of a module, or a partial of one. Its argument is
                the other end of the pipe. ``recv`` returns an order (EOFError: the parent has
                ended), and ``send`` sends a report.
        """
        self._process = ForkedProcess(_child, run)
        super().__init__(role, nodes, self._process.pipe)

    def kill(self) -> None:
        """End the process at once, like a crash."""
        self._process.kill()

    def close(self) -> None:
        """End the process, and close the pipe."""
        self._process.close()


def reset_on_close(sock: socket.socket) -> None:
    """Let the kernel drop a connection without a handshake when it is closed.

    For a listening socket, this applies to the connections that it accepts. Without this, both ends
    would retransmit their FIN for minutes, because the circuit is gone, and switches would count
    these packets in the next run on this network.
    """
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)


def process_groups(nodes: Sequence[str], killed: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the nodes of each process.

    All nodes share one process, except that each node whose process is killed has its own.

    Args:
        nodes: All nodes.
        killed: The nodes whose process is killed during the run.

    >>> process_groups(["a", "b", "c"], ["b", "b"])
    [('a', 'c'), ('b',)]
    """
    apart = [node for node in dict.fromkeys(killed) if node in nodes]
    together = tuple(node for node in nodes if node not in apart)
    groups = [together] if together else []
    for node in apart:
        groups.append((node,))
    return groups


@dataclass(frozen=True)
class NodeSockets:
    """Opens sockets in the networks of nodes, in any process to which it is passed.

    Attributes:
        namespaces: The open file of the network namespace of each node.
        addresses: The IP address of every node.
    """

    namespaces: Mapping[str, int]
    addresses: Mapping[str, str]

    @classmethod
    def of(cls, net: EmulatedNetwork, nodes: Iterable[str]) -> "NodeSockets":
        """Return an object that opens sockets of these nodes."""
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
    """Run the function, and end the process."""
    begin_child(_PRIORITY)
    raise_open_file_limit()
    # A garbage collection would delay messages.
    gc.freeze()
    gc.disable()
    try:
        run(pipe)
    except (EOFError, BrokenPipeError):
        # The parent has ended the run.
        os._exit(0)
    except Exception as error:  # noqa: BLE001 - every error must reach the parent
        with contextlib.suppress(OSError):
            pipe.send(AgentFailed(reason=f"{type(error).__name__}: {error}"))
    os._exit(0)
