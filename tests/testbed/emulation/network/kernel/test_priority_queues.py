"""Priority queues mean what we meant: pyroute2 reads the messages, and the classifier's program is run on packets."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from pyroute2.netlink.rtnl.marshal import MarshalRtnl
from pyroute2.netlink.rtnl.tcmsg.common import tick_in_usec

from testbed.emulation.network.kernel.queues import priority_buckets

LOAD_HALF, LOAD_BYTE, JUMP_IF_EQUAL, ANSWER = 0x28, 0x30, 0x15, 0x06
PORT = 5683


def read_back() -> list[Any]:
    sent = b""
    for kind, flags, body in priority_buckets(
        7, rate_bps=1e6, burst_bytes=3000, queue_packets=20, first_udp_port=PORT, parent=0x10001
    ):
        sent += (
            struct.pack("=IHHII", 16 + len(body), kind, 1 | flags, 1, 0)
            + body
            + bytes(-len(body) % 4)
        )
    return list(MarshalRtnl().parse(sent))


def classified(packet: bytes) -> bool:
    """Runs the classifier's program on a packet, as the kernel does: what lies beyond the packet's end matches
    nothing."""
    body = priority_buckets(
        7, rate_bps=1e6, burst_bytes=3000, queue_packets=20, first_udp_port=PORT
    )[-1][2]
    start = (
        body.index(struct.pack("=HH", 6, 4)) + 8 + 4
    )  # after OPS_LEN, which is padded, and the header of OPS
    steps = list(struct.iter_unpack("=HBBI", body[start:]))
    at = value = 0
    while True:
        code, yes, no, operand = steps[at]
        at += 1
        if code in (LOAD_HALF, LOAD_BYTE):
            size = 2 if code == LOAD_HALF else 1
            if operand + size > len(packet):
                return False
            value = int.from_bytes(packet[operand : operand + size])
        elif code == JUMP_IF_EQUAL:
            at += yes if value == operand else no
        else:
            assert code == ANSWER
            return bool(operand)


def frame(protocol: int = 17, port: int = PORT, ethertype: int = 0x0800) -> bytes:
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 28, 0, 0, 64, protocol, 0, b"\n\0\0\1", b"\n\0\0\2")
    return bytes(12) + struct.pack(">H", ethertype) + ip + struct.pack(">HHHH", 40_000, port, 8, 0)


def test_two_classes_share_the_rate_and_the_first_goes_first() -> None:
    queue, link, first, rest, own, other, rule = read_back()
    assert (queue["parent"], queue.get_attr("TCA_KIND")) == (0x10001, "htb")
    parameters = [
        one.get_attr("TCA_OPTIONS").get_attr("TCA_HTB_PARMS") for one in (link, first, rest)
    ]
    assert [one["rate"] for one in parameters] == [125_000, 125_000, 1250]
    assert [one["ceil"] for one in parameters] == [125_000] * 3, "either may use all of the link"
    assert [one["prio"] for one in parameters] == [0, 0, 1]
    burst_s = parameters[0]["buffer"] / tick_in_usec / 1e6
    assert burst_s == pytest.approx(3000 / 125_000, rel=0.01)
    assert (first["parent"], rest["parent"]) == (link["handle"], link["handle"])
    assert [(one["parent"], one.get_attr("TCA_KIND")) for one in (own, other)] == [
        (first["handle"], "pfifo_head_drop"),
        (rest["handle"], "pfifo_head_drop"),
    ]
    assert (
        queue.get_attr("TCA_OPTIONS").get_attr("TCA_HTB_INIT")["defcls"] == rest["handle"] & 0xFFFF
    )
    assert rule.get_attr("TCA_OPTIONS").get_attr("TCA_BPF_CLASSID") == first["handle"]


def test_datagrams_to_the_port_go_first_and_nothing_else() -> None:
    assert classified(frame())
    assert not classified(frame(port=PORT + 1))
    assert not classified(frame(protocol=6)), "TCP to the same port"
    assert not classified(frame(ethertype=0x0806))
    assert not classified(frame()[:30])
