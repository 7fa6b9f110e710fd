"""A network namespace a router, a veth pair a cable, and one packet socket at each end of each."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from testbed.emulation.network.kernel.host_namespaces import HostNamespaces
from testbed.emulation.network.kernel.rtnetlink import Netlink, NetlinkError, VethEnd, make_veth, set_up
from testbed.emulation.sandbox.sandbox import require_sandbox
from testbed.errors import CapabilityError
from testbed.routers.plan import RouterPlan
from testbed.routers.wire import ETHERTYPE

MTU = 4096
_FIRST_INDEX = 2  # loopback is 1
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
    require_sandbox()
    names = [f"r{number}" for number in range(plan.routers)]
    namespaces = HostNamespaces(names)
    with ExitStack() as stack:
        stack.callback(namespaces.close)
        namespaces.wait()
        try:
            _make_pairs(plan, namespaces, names)
        except NetlinkError as error:
            raise CapabilityError(f"the kernel refused a cable between routers: {error.strerror}") from error
        sockets = tuple(
            tuple(
                stack.enter_context(_open_socket(namespaces, name, port)) for port in range(len(plan.ports[number]))
            )
            for number, name in enumerate(names)
        )  # fmt: skip
        yield namespaces, sockets


def _make_pairs(plan: RouterPlan, namespaces: HostNamespaces, names: list[str]) -> None:
    with Netlink() as netlink:
        for a, b in plan.cables:
            ends = []
            for here, there in ((a, b), (b, a)):
                port = plan.ports[here].index(there)
                ends.append(
                    VethEnd(
                        name=f"p{port}",
                        index=_FIRST_INDEX + port,
                        mac=mac_of(here, port),
                        namespace=namespaces.descriptor(names[here]),
                    )
                )
            netlink.apply([make_veth(ends[0], ends[1], mtu=MTU)])
    for number, name in enumerate(names):
        ports = range(len(plan.ports[number]))
        namespaces.netlink_of(name).apply([set_up(_FIRST_INDEX + port, True) for port in ports])


def _open_socket(namespaces: HostNamespaces, name: str, port: int) -> socket.socket:
    """Whole frames of our type alone; never waits."""
    sock = namespaces.open_socket(name, socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHERTYPE))
    sock.bind((f"p{port}", ETHERTYPE))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SOCKET_BYTES)
    sock.setblocking(False)
    return sock
