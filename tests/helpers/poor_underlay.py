"""Makes the network between machines here worse while it runs: loss in the kernel, delay in a program on the way (no
kernel needs netem).

poor_underlay.py SECONDS INTERFACE INTERFACE        the program on the way: passes frames on, each so much later
"""

from __future__ import annotations

import select
import socket
import subprocess
import sys
import time
from collections import deque

from testbed.emulation.network.kernel.rtnetlink import Netlink, drop_rule, packet_gate
from testbed.errors import CapabilityError
from testbed.machines.adapters.local_machines import BRIDGE, ip_batch, port_of

_DETOUR = "detour"


def lose_towards(number: int, fraction: float) -> None:
    """Lose that share of all that goes to machine ``number``, from now on."""
    with Netlink() as netlink:
        index = netlink.interfaces()[port_of(number)]
        netlink.apply([packet_gate(index), drop_rule(index, fraction)])


def delay(number: int, seconds: float) -> subprocess.Popen[bytes]:
    """Delay everything to and from machine ``number`` from now on, without losses at the start.

    Returns:
        The program that delays the packets.
    """
    ip_batch(
        [
            f"link add {_DETOUR} mtu 9000 type veth peer name {_DETOUR}-b mtu 9000",
            f"link set {_DETOUR} up",
            f"link set {_DETOUR}-b master {BRIDGE} up",
        ]
    )
    words = [sys.executable, "-P", __file__, str(seconds), port_of(number), _DETOUR]
    program = subprocess.Popen(words, stdout=subprocess.PIPE)
    assert program.stdout is not None
    if not program.stdout.readline():
        raise CapabilityError("the program that delays the network between machines did not start")
    ip_batch([f"link set {port_of(number)} nomaster"])
    return program


def relay(seconds: float, one: str, other: str) -> None:
    """Frames that come in on either interface leave by the other, each ``seconds`` later, in order."""
    socks = [_socket(one), _socket(other)]
    waiting: deque[tuple[float, socket.socket, bytes]] = deque()
    print("ready", flush=True)
    while True:
        pause = None if not waiting else max(0.0, waiting[0][0] - time.monotonic())
        for sock in select.select(socks, (), (), pause)[0]:
            data, address = sock.recvfrom(65536)
            if address[2] != socket.PACKET_OUTGOING:
                waiting.append((time.monotonic() + seconds, socks[sock is socks[0]], data))
        while waiting and waiting[0][0] <= time.monotonic():
            _, out, data = waiting.popleft()
            out.send(data)


def _socket(interface: str) -> socket.socket:
    everything = 3
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(everything))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    sock.bind((interface, everything))
    return sock


if __name__ == "__main__":
    relay(float(sys.argv[1]), sys.argv[2], sys.argv[3])
