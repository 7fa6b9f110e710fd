"""Impaired links on real switches, packet by packet: what the words say happens to packets."""

from __future__ import annotations

import itertools
import socket
import statistics
import struct
import time
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.emulation
LINK = ("x", "y", 0)
CAPACITY_BPS = 4e6
_STAMPED = 35
"""SO_TIMESTAMPNS: the kernel notes each packet's arrival, however late it is read."""


def _network() -> Any:
    """Hosts a on switch x, b on switch y, and one cable x-y that is slower than the others."""
    from topologies.network import Link, Network, Node

    ends = (("a", "x", 5e7), ("x", "y", CAPACITY_BPS), ("y", "b", 5e7))
    links = [
        Link(source=s, target=t, key=0, capacity_bps=c, delay_s=0.0)
        for p, q, c in ends
        for s, t in ((p, q), (q, p))
    ]
    nodes = tuple(Node(id=n, kind="host" if n in "ab" else "switch") for n in "axyb")
    return Network(name="two switches", nodes=nodes, links=tuple(links))


class Trip:
    """Numbered packets from one host to the other, each with the time at which it was sent."""

    def __init__(self, net: Any) -> None:
        self.to = (net.host("b").ip, 9000)
        self.sender = net.open_socket("a", socket.AF_INET, socket.SOCK_DGRAM)
        self.receiver = net.open_socket("b", socket.AF_INET, socket.SOCK_DGRAM)
        self.receiver.bind(("0.0.0.0", 9000))
        self.receiver.setsockopt(socket.SOL_SOCKET, _STAMPED, 1)
        self.receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)

    def of(self, packets: int, *, gap_s: float, size: int = 60) -> list[tuple[int, float, float]]:
        """(number, wait in s, arrival in s) of each packet that came, in the order of arrival."""
        began = time.monotonic()
        for number in range(packets):
            time.sleep(max(0.0, began + number * gap_s - time.monotonic()))
            self.sender.sendto(
                struct.pack("=Iq", number, time.time_ns()) + bytes(size - 12), self.to
            )
        self.receiver.settimeout(0.5)
        came = []
        while True:
            try:
                data, stamps, _, _ = self.receiver.recvmsg(2000, 64)
            except TimeoutError:
                return came
            number, sent_ns = struct.unpack_from("=Iq", data)
            seconds, ns = struct.unpack("=qq", stamps[0][2])
            at_ns = seconds * 1_000_000_000 + ns
            came.append((number, (at_ns - sent_ns) / 1e9, at_ns / 1e9))


def impaired(words: list[str], packets: int) -> dict[str, Any]:
    """For each of the words what came of that many packets, and of as many once the link was whole again; what did
    it."""
    from testbed.emulation.control.base_rules import install_shortest_paths
    from testbed.emulation.network.emulated_network import EmulatedNetwork
    from testbed.model.wiring import wire
    from topologies.impairments import parse_impairments

    wiring = wire(_network())
    with EmulatedNetwork(wiring) as net:
        install_shortest_paths(wiring)
        trip, found = Trip(net), {}
        trip.of(5, gap_s=0.02)
        for one in words:
            net.set_impairments(LINK, parse_impairments(one), "forward")
            found[one] = trip.of(packets, gap_s=0.001)
        net.set_impairments(LINK, (), "forward")
        whole = trip.of(packets, gap_s=0.001)
        relayed = [
            report for name, report in net.impairment_reports().items() if name.startswith("x")
        ]
    return {"came": found, "whole": whole, "relayed": len(relayed)}


def _lost(came: list[Any], packets: int) -> list[bool]:
    there = {number for number, _, _ in came}
    return [number not in there for number in range(packets)]


def test_each_impairment_does_to_packets_on_a_cable_what_its_word_says(
    sandboxed: Callable[..., Any],
) -> None:
    packets = 600
    loss, bursts, copies = "loss:0.3", "ge:p=0.1,r=0.3", "duplicate:0.3"
    wait, overtaking = "delay:0.03,jitter=0.02", "reorder:0.3,delay=0.03"
    found = sandboxed(impaired, [loss, bursts, copies, wait, overtaking], packets)
    came = found["came"]
    assert found["relayed"] > 0

    assert sum(_lost(came[loss], packets)) / packets == pytest.approx(0.3, abs=0.1)
    lost = _lost(came[bursts], packets)
    again = [b for a, b in itertools.pairwise(lost) if a]
    assert sum(lost) / packets == pytest.approx(0.25, abs=0.14)
    assert sum(again) / len(again) == pytest.approx(
        0.7, abs=0.17
    )  # were each lost alone: a quarter

    assert len(came[copies]) / packets == pytest.approx(1.3, abs=0.1)
    assert not any(_lost(came[copies], packets))

    waits = [waited for _, waited, _ in came[wait]]
    assert len(waits) == packets and min(waits) >= 0.0099
    assert statistics.median(waits) == pytest.approx(0.03, abs=0.01)
    assert sum(w < 0.03 for w in waits) > packets / 4  # were the jitter left out: none
    order = [number for number, _, _ in came[wait]]
    assert sum(b < a for a, b in itertools.pairwise(order)) > packets / 10

    waits = [waited for _, waited, _ in came[overtaking]]
    assert len(waits) == packets
    assert sum(w < 0.025 for w in waits) / packets == pytest.approx(0.3, abs=0.1)
    assert statistics.median(waits) >= 0.0299

    assert [number for number, _, _ in found["whole"]] == list(range(packets))


def flooded(words: str) -> dict[str, Any]:
    """Bits a second that came over the cable while three times its capacity was sent for a second."""
    from testbed.emulation.control.base_rules import install_shortest_paths
    from testbed.emulation.network.emulated_network import EmulatedNetwork
    from testbed.model.wiring import wire
    from topologies.impairments import parse_impairments

    wiring = wire(_network())
    with EmulatedNetwork(wiring) as net:
        install_shortest_paths(wiring)
        trip = Trip(net)
        trip.of(5, gap_s=0.02)
        net.set_impairments(LINK, parse_impairments(words), "forward")
        came = trip.of(1200, gap_s=1242 * 8 / (3 * CAPACITY_BPS), size=1200)
    # the burst that the shaper allows passes at its head
    times = sorted(at for _, _, at in came)[20:]
    return {"rate_bps": (len(times) - 1) * 1242 * 8 / (times[-1] - times[0]), "came": len(came)}


def test_packets_that_overtake_are_held_to_the_capacity_too(sandboxed: Callable[..., Any]) -> None:
    """The kernel's netem hands what it lets overtake past the shaper behind it: were it used, half of 12 Mbit/s would
    come beside the capacity."""
    found = sandboxed(flooded, "reorder:0.5,delay=0.02")
    assert found["came"] > 100
    assert found["rate_bps"] <= 1.08 * CAPACITY_BPS
