"""An end of a tunnel that was kept waiting takes what came in time for what it is."""

from __future__ import annotations

import os
import socket
import threading
import time
from contextlib import ExitStack
from typing import Any, cast

from testbed.stream.emulated.ends import Arrivals
from testbed.tunnel.emulated import tunnel_end
from testbed.tunnel.emulated.tun_device import TunDevice
from testbed.tunnel.emulated.tunnel_end import GAUGES, TunnelEndSpec, _End
from testbed.tunnel.ends import build_sender
from testbed.tunnel.plan import build_tunnel

KEY, OWN, PEER, OTHER = bytes(32), "127.0.0.1", "127.0.0.2", "127.0.0.3"


class NoFrames:
    refused = 0

    def send(self, label: int, payload: bytes) -> None:
        pass


def test_no_block_is_closed_before_its_packets_are_read_that_came_in_time(monkeypatch: Any) -> None:
    """Foreign datagrams fill the batch in between."""
    plan = build_tunnel("torus:3x3", "s0_0", "s1_1")
    playback_s = plan.back.stream.playback_s
    monkeypatch.setattr(tunnel_end, "warm_up", lambda *_: None)
    with ExitStack() as opened:
        program, device = (
            opened.enter_context(one)
            for one in socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        )
        own, peer, other = (
            opened.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            for _ in (OWN, PEER, OTHER)
        )
        for sock, address in ((own, OWN), (peer, PEER), (other, OTHER)):
            sock.bind((address, 0))
        for sock in (own, device, program):
            sock.setblocking(False)
        statistics = os.open("/proc/thread-self/net/dev", os.O_RDONLY)
        opened.callback(os.close, statistics)
        spec = TunnelEndSpec(plan=plan, device="tun9", address=OWN, peer=PEER, udp_port=1, key=KEY)
        tun, gauge = TunDevice("tun9", device.fileno(), statistics), cast(Any, [0.0] * len(GAUGES))
        end = _End(spec, cast(Any, NoFrames()), own, PEER, tun, gauge)
        sender = build_sender(plan.reversed(), KEY)
        packets = [
            packet for k in range(5) for packet in sender.offer(bytes([0x45, k]) + bytes(30), 0.0)
        ]
        start_s = time.monotonic()
        peer.sendto(packets[0].data, own.getsockname())
        for _ in range(Arrivals.limit - 1):
            other.sendto(b"x", own.getsockname())
        for packet in packets[1:]:
            peer.sendto(packet.data, own.getsockname())
        time.sleep(playback_s + 0.2)
        stop = threading.Timer(0.3, gauge.__setitem__, (0, 1.0))
        stop.start()
        counters = cast(Any, end.run(start_s))["counters"]
        stop.join()
        assert counters["foreign"] == Arrivals.limit - 1 and counters["delivered"] == 5
        assert counters["accepted"] == len(packets) == 5 and "late" not in counters
        assert [program.recv(100)[1] for _ in range(5)] == list(range(5))
