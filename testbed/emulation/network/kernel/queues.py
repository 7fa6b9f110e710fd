"""What holds an interface to a rate and delays its packets (rtnetlink messages): netem, behind it a token bucket with a
queue before it, or two queues of which one goes first, as in a router (htb).

Of the two queues' classes, which share the link's rate, packets of one UDP port are always within their share, so that
they go first; the rest takes what they leave, and waits in a queue of its own.
"""

import struct
from typing import Any

from testbed.emulation.network.kernel import rtnetlink as rtnl
from testbed.faults.impaired_link import queue_bytes

_BURST_S = 0.002
_MOST = 0x7FFFFFFF
_ETHERNET_BYTES = 14


TOKEN_BUCKET = 0x100000
"""Handle of every such queue."""
NETEM_CHILD = 0x10001
"""The queue behind a netem queue."""
_WHOLE, _LIMIT_PACKETS, _LOOPBACK = 0xFFFFFFFF, 100_000, 1
RTM_NEWTCLASS = 40
_QUEUE = 0x100000
_LINK, _FIRST, _REST = _QUEUE | 1, _QUEUE | 2, _QUEUE | 3
_REST_SHARE = 0.01
"""Of the rate, which the rest has for sure: the kernel wants some."""


def link_queues(
    index: int,
    *,
    rate_bps: float | None,
    mtu: int,
    packets: int | None = None,
    netem: rtnl.Message | None = None,
    first_udp_port: int | None = None,
) -> list[rtnl.Message]:
    """All queues of an interface: packets meet the delay first, and leave it no faster than ``rate_bps`` (None: as they
    like). ``packets``: so many wait at most, whatever their size; None: 50 ms of the rate, and 20 packets of ``mtu``
    bytes at least. ``first_udp_port`` as of ``priority_buckets`` (None: one queue for all)."""
    parent, messages = (rtnl.ROOT, []) if netem is None else (NETEM_CHILD, [netem])
    if rate_bps is None:
        return messages
    waiting, burst = min(_MOST, queue_bytes(rate_bps, mtu)), burst_bytes(rate_bps, mtu)
    if first_udp_port is not None:
        most = packets or waiting // (mtu + _ETHERNET_BYTES)
        shared: dict[str, Any] = {"rate_bps": rate_bps, "burst_bytes": burst, "queue_packets": most}
        return messages + priority_buckets(
            index, **shared, first_udp_port=first_udp_port, parent=parent
        )
    messages.append(
        token_bucket(
            index, rate_bps=rate_bps, burst_bytes=burst, queue_bytes=waiting, parent=parent
        )
    )
    if packets is not None:
        messages.append(
            rtnl.new_queue(index, "pfifo", struct.pack("=I", packets), parent=TOKEN_BUCKET | 1)
        )
    return messages


def has_netem(netlink: rtnl.Netlink) -> bool:
    """Tried on the loopback interface: a queue that does nothing, taken away again."""
    try:
        netlink.apply([netem_line(_LOOPBACK), rtnl.delete_queue(_LOOPBACK)])
    except rtnl.NetlinkError:
        return False
    return True


def netem_line(
    index: int, *, delay_s: float = 0.0, jitter_s: float = 0.0, loss: float = 0.0
) -> rtnl.Message:
    """The netem queue, as the interface's root queue 1:; a shaper may follow at parent 1:1. One that is there is
    changed in place."""
    ticks, jitter_ticks = (
        min(_WHOLE, round(s * 1e9 / rtnl.tick_ns())) for s in (delay_s, jitter_s)
    )
    body = struct.pack("=6I", ticks, _LIMIT_PACKETS, round(loss * _WHOLE), 0, 0, jitter_ticks)
    body += rtnl.attribute(10, struct.pack("=q", round(delay_s * 1e9)))
    body += rtnl.attribute(11, struct.pack("=q", round(jitter_s * 1e9)))
    return rtnl.new_queue(index, "netem", body, handle=0x10000)


def token_bucket(
    index: int, *, rate_bps: float, burst_bytes: int, queue_bytes: int, parent: int = rtnl.ROOT
) -> rtnl.Message:
    """Shape what the interface sends to ``rate_bps`` (tbf), with a queue of ``queue_bytes`` before packets are
    dropped."""
    rate = max(1, round(rate_bps / 8))
    ticks = min(0xFFFFFFFF, round(burst_bytes / rate * 1e9 / rtnl.tick_ns()))
    parameters = rtnl.rate_spec(rate) + bytes(12) + struct.pack("=III", queue_bytes, ticks, 0)
    options = rtnl.attribute(1, parameters) + rtnl.number(6, burst_bytes)
    if rate > 0xFFFFFFFF:
        options += rtnl.attribute(4, struct.pack("=Q", rate))
    return rtnl.new_queue(index, "tbf", options, handle=TOKEN_BUCKET, parent=parent)


def burst_bytes(rate_bps: float, mtu: int) -> int:
    """What may be sent at once: 2 ms of the rate, and two packets at least."""
    return min(_MOST, max(2 * (mtu + _ETHERNET_BYTES), round(rate_bps / 8 * _BURST_S)))


def priority_buckets(
    index: int,
    *,
    rate_bps: float,
    burst_bytes: int,
    queue_packets: int,
    first_udp_port: int,
    parent: int = rtnl.ROOT,
) -> list[rtnl.Message]:
    """Shape what the interface sends to ``rate_bps``; datagrams to ``first_udp_port`` go before everything else.

    Either kind has a queue of ``queue_packets``; where it is full the oldest goes. (A queue that turned the newest away
    would report it to the sender, and a user-space switch then throws away the rest of its batch, whatever kind that
    is.)
    """
    whole = struct.pack("=5I", 3, 10, _REST & 0xFFFF, 0, 0)
    messages = [
        rtnl.new_queue(index, "htb", rtnl.attribute(2, whole), handle=_QUEUE, parent=parent)
    ]
    classes = ((_LINK, _QUEUE, 1.0, 0), (_FIRST, _LINK, 1.0, 0), (_REST, _LINK, _REST_SHARE, 1))
    for handle, above, share, priority in classes:
        body = rtnl.tc_header(index, handle, above) + rtnl.text(1, "htb")
        messages.append(
            (
                RTM_NEWTCLASS,
                rtnl.NLM_F_CREATE,
                body + _class_options(rate_bps, share, burst_bytes, priority),
            )
        )
    for handle in (_FIRST, _REST):
        limit = struct.pack("=I", queue_packets)
        messages.append(rtnl.new_queue(index, "pfifo_head_drop", limit, parent=handle, flags=0))
    messages.append(
        rtnl.bpf_rule(
            index,
            _QUEUE,
            1,
            _datagrams_to(first_udp_port),
            rtnl.attribute(3, struct.pack("=I", _FIRST)),
        )
    )
    return messages


def _class_options(rate_bps: float, share: float, burst_bytes: int, priority: int) -> bytes:
    """Rate and ceiling of a class; what it may send at once is the same time at either."""
    ceiling = max(1, round(rate_bps / 8))
    rate = max(1, round(ceiling * share))
    ticks = min(0xFFFFFFFF, round(burst_bytes / ceiling * 1e9 / rtnl.tick_ns()))
    parameters = (
        rtnl.rate_spec(rate)
        + rtnl.rate_spec(ceiling)
        + struct.pack("=5I", ticks, ticks, burst_bytes, 0, priority)
    )
    options = rtnl.attribute(1, parameters)
    if ceiling > 0xFFFFFFFF:
        options += rtnl.attribute(6, struct.pack("=Q", rate)) + rtnl.attribute(
            7, struct.pack("=Q", ceiling)
        )
    return rtnl.attribute(2, options)


def _datagrams_to(port: int) -> tuple[rtnl.BpfStep, ...]:
    """A classic BPF program over a whole Ethernet packet: IPv4 without options, UDP, that port; says no or "as the
    class is set"."""
    load_half, load_byte, jump_if_equal, answer = 0x28, 0x30, 0x15, 0x06
    ipv4, udp = 0x0800, 17
    return (
        (load_half, 0, 0, 12),
        (jump_if_equal, 0, 5, ipv4),
        (load_byte, 0, 0, 23),
        (jump_if_equal, 0, 3, udp),
        (load_half, 0, 0, 36),
        (jump_if_equal, 0, 1, port),
        (answer, 0, 0, 0xFFFFFFFF),
        (answer, 0, 0, 0),
    )
