"""How clients of striped files reach their listeners: sockets, patience, and the threads that serve them."""

import gc
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from testbed.emulation.network.emulated_network import EmulatedNetwork
from testbed.striping.emulated.clients import Client, Group, all_at_once, raise_first
from testbed.striping.plan import StripingPlan

COORDINATED_SEND_BUFFER = 80 << 10
CIRCUIT_PATIENCE_S, _CONGESTION_PATIENCE_S = 120.0, 12.0
_QUEUE_BYTES, _MIN_WINDOW = 150_000, 20_000
_SWITCH_INTERVAL_S = 0.0005


def patience_s(plan: StripingPlan, timeout_s: float) -> float:
    """A connection that waits for its circuit is silent and whole; one that loses packets to others' is slow and whole;
    ``timeout_s`` where something is broken on purpose."""
    if plan.faults or plan.killed:
        return timeout_s
    return CIRCUIT_PATIENCE_S if plan.coordinated else _CONGESTION_PATIENCE_S


def client_socket(net: EmulatedNetwork, plan: StripingPlan, host: str) -> socket.socket:
    """A TCP socket of a compute node, in the host of that name, with buffers that fit the run."""
    sock = net.open_socket(host, socket.AF_INET, socket.SOCK_STREAM)
    if plan.coordinated:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, COORDINATED_SEND_BUFFER)
    else:  # what is under way to and from all listeners finds room in the queue before this host's link
        window = max(_MIN_WINDOW, _QUEUE_BYTES // plan.options.io_nodes)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, max(_MIN_WINDOW, window // 2))
    return sock


def open_clients(clients: Sequence[Client], group: Group, plan: StripingPlan) -> None:
    """Collective over all clients of the plan, here or elsewhere: the file is open, and a little of another has been
    written and read (``rehearsal``). Raises SfioError."""
    unit = plan.options.stripe_unit
    all_at_once(clients, lambda c: c.open(group, plan.placement.file_name(), unit, plan.file_bytes), group)
    raise_first(clients)
    all_at_once(clients, lambda c: c.rehearse(plan.placement.file_name("rehearsal"), unit), group)
    raise_first(clients)


@contextmanager
def prompt_threads() -> Iterator[None]:
    """Let a thread that is woken run at once: not after 5 ms, and not after a collection of everything ever made."""
    interval, collecting = sys.getswitchinterval(), gc.isenabled()
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    if collecting:  # else a block around this one has done it
        gc.collect()
        gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
        sys.setswitchinterval(interval)
