"""The guard before the tunnels: real VXLAN packets of peers and of strangers, in namespaces."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from typing import Any

import pytest

from testbed.emulation.network.kernel.tunnels import MAX_TUNNELS, guard_steps
from testbed.errors import CapabilityError


def arrivals(framed: bool) -> dict[str, int]:
    """Inner frames that a machine's end of a tunnel took, by who sent them: each sender sends ten.

    ``framed``: over Ethernet, or over an interface whose packets have no such header, as WireGuard's have none.
    """
    import fcntl
    import os
    import subprocess
    import time

    from testbed.emulation.network.kernel.rtnetlink import Netlink, VethEnd, packet_gate
    from testbed.emulation.network.kernel.tunnels import make_tunnel, tunnel_guard
    from testbed.model.wiring import Tunnel, WiringPart

    run = lambda words: subprocess.run(words, shell=True, check=True)  # noqa: E731
    if framed:
        run("ip link add u type veth peer name peer && ip link set peer up")
    else:
        tun = os.open("/dev/net/tun", os.O_RDWR)
        fcntl.ioctl(
            tun, 0x400454CA, struct.pack("16sH14x", b"u", 0x1001)
        )  # TUNSETIFF: IFF_TUN, IFF_NO_PI
    run("ip addr add 10.9.0.1/24 dev u && ip link set u up")
    part = WiringPart(devices=frozenset(), tunnels={}, underlay="u", local="10.9.0.1", port=20000)
    known = [Tunnel(vni=4097, remote="10.9.0.2"), Tunnel(vni=4098, remote="10.9.0.3")]
    received = {}
    with Netlink() as netlink:
        index = netlink.interfaces()["u"]
        netlink.apply([packet_gate(index), tunnel_guard(index, part.port, known, framed=framed)])
        for number, tunnel in enumerate(known):
            end = VethEnd(name=f"t{number}", index=500 + number)
            netlink.apply([make_tunnel(end, tunnel, part, underlay_index=index, mtu=1400, group=0)])
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sock:
            sock.bind(("peer" if framed else "u", 0))
            with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as own:
                own.bind(("u", 0))
                destination = own.getsockname()[4]
            cases = {
                "peer": ("10.9.0.2", 4097, "t0"),
                "a stranger's address": ("10.9.0.9", 4097, "t0"),
                "another peer's identifier": ("10.9.0.2", 4098, "t1"),
                "the other peer": ("10.9.0.3", 4098, "t1"),
                "another run's identifier": ("10.9.0.2", 8193, "t0"),
            }
            for name, (source, vni, interface) in cases.items():
                before = netlink.counters()[interface].received_packets
                for _ in range(10):
                    frame = _vxlan(destination, source, vni)
                    sock.send(frame) if framed else os.write(tun, frame[len(destination) + 8 :])
                time.sleep(0.05)
                received[name] = netlink.counters()[interface].received_packets - before
    return received


def _vxlan(destination: bytes, source: str, vni: int) -> bytes:
    inner = b"\xff" * 6 + b"\x02\0\0\0\0\1" + b"\x88\xb5" + bytes(50)
    udp = (
        struct.pack("!HHHH", 40000, 20000, 16 + len(inner), 0)
        + struct.pack("!II", 0x08000000, vni << 8)
        + inner
    )
    head = struct.pack(
        "!BBHHHBBH4s4s",
        0x45,
        0,
        20 + len(udp),
        0,
        0,
        64,
        17,
        0,
        socket.inet_aton(source),
        socket.inet_aton("10.9.0.1"),
    )
    total = sum(struct.unpack("!10H", head))
    total = (total & 0xFFFF) + (total >> 16)
    head = head[:10] + struct.pack("!H", ~(total + (total >> 16)) & 0xFFFF) + head[12:]
    return destination + b"\x02\0\0\0\0\2" + b"\x08\x00" + head + udp


@pytest.mark.emulation
@pytest.mark.parametrize("framed", [True, False])
def test_a_tunnel_takes_its_own_peers_packets_and_nobody_elses(
    framed: bool, sandboxed: Callable[..., Any]
) -> None:
    assert sandboxed(arrivals, framed) == {
        "peer": 10,
        "a stranger's address": 0,
        "another peer's identifier": 0,
        "the other peer": 10,
        "another run's identifier": 0,
    }


def test_the_guard_fits_into_a_program_of_the_kernel_or_says_so() -> None:
    pairs = [(k, f"10.0.0.{k % 60}") for k in range(MAX_TUNNELS)]
    assert len(guard_steps(20000, pairs)) <= 4096
    with pytest.raises(CapabilityError, match="1901 crossing cables"):
        guard_steps(20000, [*pairs, (5, "10.0.0.1")])
