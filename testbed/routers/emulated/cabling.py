"""Namespaces, veth pairs and packet sockets of a run: one per router, cable and port."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from testbed.emulation.network.kernel.host_namespaces import HostNamespaces
from testbed.emulation.network.mininet_network.batch import Batch, refusals
from testbed.routers.plan import RouterPlan
from testbed.routers.wire import ETHERTYPE

# Fits the largest payload (``plan.MAX_PAYLOAD_BYTES``) with its headers.
MTU = 4096

# Receive buffer of a socket. Frames must not be lost while a router waits for the processor.
_SOCKET_BYTES = 4 << 20

# The sockets of each router, one per port.
Sockets = tuple[tuple[socket.socket, ...], ...]


def mac_of(router: int, port: int) -> bytes:
    """Return the locally administered MAC address of a router's port."""
    return bytes((2, 0, 0, router >> 8, router & 255, port))


@contextmanager
def lay_cables(plan: RouterPlan) -> Iterator[tuple[HostNamespaces, Sockets]]:
    """Create the namespaces, cables and sockets of a plan inside the sandbox, and remove them.

    They exist until the context ends.

    Raises:
        CapabilityError: The kernel refuses.
    """
    batch = Batch(mtu=MTU)
    with ExitStack() as stack:
        stack.callback(batch.close)
        for number in range(plan.routers):
            batch.add_host(f"r{number}")
        for a, b in plan.cables:
            batch.add_interfaces(_end(plan, a, b), _end(plan, b, a))
        with refusals():
            batch.flush()
        sockets = []
        for number, neighbours in enumerate(plan.ports):
            of_router = []
            for port in range(len(neighbours)):
                sock = _open_socket(batch.namespaces, number, port)
                of_router.append(stack.enter_context(sock))
            sockets.append(tuple(of_router))
        yield batch.namespaces, tuple(sockets)


def _end(plan: RouterPlan, router: int, neighbour: int) -> tuple[str, str, str]:
    """Return one end of a cable: interface name, namespace, and MAC address."""
    port = plan.ports[router].index(neighbour)
    return f"p{port}", f"r{router}", mac_of(router, port).hex(":")


def _open_socket(namespaces: HostNamespaces, router: int, port: int) -> socket.socket:
    """Open a socket that receives complete frames of our Ethernet type and never blocks."""
    sock = namespaces.open_socket(
        f"r{router}", socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHERTYPE)
    )
    sock.bind((f"p{port}", ETHERTYPE))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SOCKET_BYTES)
    sock.setblocking(False)
    return sock
