"""A host whose own queue is full for long: its connections wait, and the kernel ends none."""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

pytestmark = [pytest.mark.emulation, pytest.mark.unclocked]
FULL_S = 9.5
"""By the kernel's own setting a connection ends after some 8 s."""
ONE_PACKET = 1448


def bytes_received_during_a_flood() -> list[int]:
    """Bytes that arrive by each of some connections whose host has a full queue, when they begin to send and for
    some seconds."""
    from testbed.emulation.control.base_rules import install_shortest_paths
    from testbed.emulation.network.emulated_network import EmulatedNetwork
    from testbed.model.wiring import wire
    from topologies.network import Link, Network, Node

    nodes = tuple(Node(id=name, kind="switch" if name == "x" else "host") for name in "axb")
    pairs = (("a", "x"), ("x", "a"), ("b", "x"), ("x", "b"))
    links = tuple(Link(source=s, target=t, capacity_bps=2e5) for s, t in pairs)
    wiring = wire(Network(name="pair", nodes=nodes, links=links))
    a, b = wiring.hosts
    with EmulatedNetwork(wiring) as net:
        install_shortest_paths(wiring)
        listening = net.open_socket(b.name, socket.AF_INET, socket.SOCK_STREAM)
        listening.bind((b.ip, 9000))
        listening.listen(8)
        senders = [net.open_socket(a.name, socket.AF_INET, socket.SOCK_STREAM) for _ in range(4)]
        for sender in senders:
            sender.connect((b.ip, 9000))
        receivers = [listening.accept()[0] for _ in senders]
        floods = [net.open_socket(a.name, socket.AF_INET, socket.SOCK_DGRAM) for _ in range(8)]
        over = threading.Event()

        def flood() -> None:
            while not over.wait(0.001):
                for one in floods:
                    with suppress(OSError):  # the socket's own buffer is full
                        one.sendto(bytes(1400), socket.MSG_DONTWAIT, (b.ip, 9))

        flooding = threading.Thread(target=flood)
        flooding.start()
        try:
            time.sleep(0.5)
            for sender in senders:
                sender.sendall(bytes(ONE_PACKET))
            time.sleep(FULL_S)
        finally:
            over.set()
            flooding.join()
        for sender in senders:
            sender.shutdown(socket.SHUT_WR)  # an error where the kernel has ended the connection
        return [len(receiver.recv(ONE_PACKET, socket.MSG_WAITALL)) for receiver in receivers]


def patience_of_hosts() -> list[str]:
    """The setting, in each host."""
    from testbed.emulation.network.emulated_network import EmulatedNetwork
    from testbed.model.wiring import wire
    from topologies import load_network

    with EmulatedNetwork(wire(load_network("crossbar:2"))) as net:
        words = ["cat", "/proc/sys/net/ipv4/tcp_retries2"]
        running = [
            net.run_in_host(h.node, words, stdout=subprocess.PIPE, text=True)
            for h in net.wiring.hosts
        ]
        return [one.communicate(timeout=30)[0].strip() for one in running]


def test_every_host_has_the_setting(sandboxed: Callable[..., Any]) -> None:
    assert set(sandboxed(patience_of_hosts)) == {"255"}


@pytest.mark.soak
def test_connections_outlive_a_queue_that_is_full_for_long(sandboxed: Callable[..., Any]) -> None:
    assert sandboxed(bytes_received_during_a_flood) == [ONE_PACKET] * 4
