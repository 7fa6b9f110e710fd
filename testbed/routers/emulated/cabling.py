"""A network namespace a router, a veth pair a cable, and one packet socket at each end of each."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from testbed.emulation.network.kernel.host_namespaces import HostNamespaces
from testbed.emulation.network.mininet_network.batch import Batch, refusals
from testbed.routers.plan import RouterPlan
from testbed.routers.wire import ETHERTYPE

MTU = 4096
_SOCKET_BYTES = 4 << 20
Sockets = tuple[tuple[socket.socket, ...], ...]


def mac_of(router: int, port: int) -> bytes:
    """A locally administered address."""
    return bytes((2, 0, 0, router >> 8, router & 255, port))


@contextmanager
def lay_cables(plan: RouterPlan) -> Iterator[tuple[HostNamespaces, Sockets]]:
    """Namespaces, cables and sockets (of each router, one a port) for the time of the block, inside the sandbox.

    CapabilityError where the kernel refuses.
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
        sockets = tuple(
            tuple(
                stack.enter_context(_open_socket(batch.namespaces, number, port))
                for port in range(len(neighbours))
            )
            for number, neighbours in enumerate(plan.ports)
        )
        yield batch.namespaces, sockets


def _end(plan: RouterPlan, here: int, there: int) -> tuple[str, str, str]:
    """The interface of the cable at one router: its name, the router's namespace, its MAC address."""
    port = plan.ports[here].index(there)
    return f"p{port}", f"r{here}", mac_of(here, port).hex(":")


def _open_socket(namespaces: HostNamespaces, router: int, port: int) -> socket.socket:
    """Whole frames of our type alone; never waits."""
    sock = namespaces.open_socket(
        f"r{router}", socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHERTYPE)
    )
    sock.bind((f"p{port}", ETHERTYPE))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SOCKET_BYTES)
    sock.setblocking(False)
    return sock
