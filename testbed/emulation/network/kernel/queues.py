"""Queueing disciplines that limit the rate of an interface and delay its packets.

Functions such as ``netem_line`` return the rtnetlink messages that do what their summary says.

A netem queue delays packets. Behind it is either a token bucket with
one queue (tbf), or two queues of which one has priority, as in a router (htb).

The two queues are classes that share the link's rate. Packets to one UDP port are always within
the share of their class, so that they are sent first. The rest is sent at the remaining rate, and
waits in a queue of its own.
"""

import struct

from testbed.emulation.network.kernel import rtnetlink as rtnl
from testbed.faults.impaired_link import queue_bytes

# A token bucket may send this much of its rate at once.
_BURST_S = 0.002

# Largest burst and queue in bytes, which fit into the kernel's 32-bit fields.
_MAX_BYTES = 0x7FFFFFFF

_ETHERNET_BYTES = 14

# The handle of every token bucket.
TOKEN_BUCKET = 0x100000

# The parent of the queue behind a netem queue.
NETEM_CHILD = 0x10001

RTM_NEWTCLASS = 40

_MAX_UINT32 = 0xFFFFFFFF

# Packets that may wait in a netem queue, which delays them all.
_NETEM_LIMIT_PACKETS = 100_000
_LOOPBACK_INDEX = 1

# Attributes of the queueing disciplines (pkt_sched.h, pkt_cls.h).
_TCA_KIND = 1
_TCA_OPTIONS = 2
_TCA_NETEM_LATENCY64 = 10
_TCA_NETEM_JITTER64 = 11
_TCA_TBF_PARMS = 1
_TCA_TBF_RATE64 = 4
_TCA_TBF_BURST = 6
_TCA_HTB_PARMS = 1
_TCA_HTB_INIT = 2
_TCA_HTB_RATE64 = 6
_TCA_HTB_CEIL64 = 7
_TCA_BPF_CLASSID = 3

# Handles of the htb qdisc and of its classes: the link, and within it the packets that go first
# and the rest.
_HTB = 0x100000
_LINK_CLASS = _HTB | 1
_FIRST_CLASS = _HTB | 2
_REST_CLASS = _HTB | 3

# Guaranteed share of the rate for the rest. The kernel requires a share larger than zero.
_REST_SHARE = 0.01


def link_queues(
    index: int,
    *,
    rate_bps: float | None,
    mtu: int,
    packets: int | None = None,
    netem: rtnl.Message | None = None,
    first_udp_port: int | None = None,
) -> list[rtnl.Message]:
    """Create all queues of an interface: packets are first delayed, and then limited in rate.

    Args:
        index: Index of the interface.
        rate_bps: Largest rate of the interface in bit/s; None for no limit.
        mtu: MTU in bytes.
        packets: Length of the queue in packets of any size. None for 50 ms at the rate, but at
            least 20 packets of ``mtu`` bytes.
        netem: The message that creates the netem queue, if there is one.
        first_udp_port: Port whose datagrams go first (``priority_buckets``); None for one queue.
    """
    messages: list[rtnl.Message] = []
    parent = rtnl.ROOT
    if netem is not None:
        messages.append(netem)
        parent = NETEM_CHILD
    if rate_bps is None:
        return messages
    waiting_bytes = min(_MAX_BYTES, queue_bytes(rate_bps, mtu))
    burst = burst_bytes(rate_bps, mtu)
    if first_udp_port is not None:
        messages += priority_buckets(
            index,
            rate_bps=rate_bps,
            burst_bytes=burst,
            queue_packets=packets or waiting_bytes // (mtu + _ETHERNET_BYTES),
            first_udp_port=first_udp_port,
            parent=parent,
        )
        return messages
    messages.append(
        token_bucket(
            index, rate_bps=rate_bps, burst_bytes=burst, queue_bytes=waiting_bytes, parent=parent
        )
    )
    if packets is not None:
        limit = struct.pack("=I", packets)
        messages.append(rtnl.new_queue(index, "pfifo", limit, parent=TOKEN_BUCKET | 1))
    return messages


def has_netem(netlink: rtnl.Netlink) -> bool:
    """Return whether the kernel has netem.

    The loopback interface gets a netem queue that does nothing, which is then deleted.
    """
    try:
        netlink.apply([netem_line(_LOOPBACK_INDEX), rtnl.delete_queue(_LOOPBACK_INDEX)])
    except rtnl.NetlinkError:
        return False
    return True


def netem_line(
    index: int, *, delay_s: float = 0.0, jitter_s: float = 0.0, loss: float = 0.0
) -> rtnl.Message:
    """Create or change the netem queue, which becomes the root qdisc 1: of an interface.

    A shaper may follow as its child, with the parent 1:1 (``NETEM_CHILD``).

    Args:
        index: Index of the interface.
        delay_s: Delay in seconds.
        jitter_s: Random variation of the delay in seconds.
        loss: Probability that a packet is lost.
    """
    body = struct.pack(
        "=6I",
        _netem_ticks(delay_s),
        _NETEM_LIMIT_PACKETS,
        round(loss * _MAX_UINT32),
        0,
        0,
        _netem_ticks(jitter_s),
    )
    body += rtnl.attribute(_TCA_NETEM_LATENCY64, struct.pack("=q", round(delay_s * 1e9)))
    body += rtnl.attribute(_TCA_NETEM_JITTER64, struct.pack("=q", round(jitter_s * 1e9)))
    return rtnl.new_queue(index, "netem", body, handle=0x10000)


def _netem_ticks(duration_s: float) -> int:
    """Return a duration in ticks; a longer one than fits is given by a 64-bit attribute only."""
    return min(_MAX_UINT32, round(duration_s * 1e9 / rtnl.tick_ns()))


def token_bucket(
    index: int, *, rate_bps: float, burst_bytes: int, queue_bytes: int, parent: int = rtnl.ROOT
) -> rtnl.Message:
    """Create a tbf queue, which limits the rate at which an interface sends.

    Args:
        index: Index of the interface.
        rate_bps: The rate in bit/s.
        burst_bytes: Number of bytes that may be sent at once.
        queue_bytes: Length of the queue in bytes; packets that find it full are dropped.
        parent: Handle of the parent.
    """
    rate = max(1, round(rate_bps / 8))
    ticks = _burst_ticks(burst_bytes, rate)
    parameters = rtnl.rate_spec(rate) + bytes(12) + struct.pack("=III", queue_bytes, ticks, 0)
    options = rtnl.attribute(_TCA_TBF_PARMS, parameters)
    options += rtnl.number(_TCA_TBF_BURST, burst_bytes)
    if rate > _MAX_UINT32:
        options += rtnl.attribute(_TCA_TBF_RATE64, struct.pack("=Q", rate))
    return rtnl.new_queue(index, "tbf", options, handle=TOKEN_BUCKET, parent=parent)


def burst_bytes(rate_bps: float, mtu: int) -> int:
    """Return the number of bytes that may be sent at once: 2 ms, but at least two packets."""
    two_packets = 2 * (mtu + _ETHERNET_BYTES)
    return min(_MAX_BYTES, max(two_packets, round(rate_bps / 8 * _BURST_S)))


def _burst_ticks(burst_bytes: int, bytes_per_s: int) -> int:
    """Return the time in ticks that a burst takes at this rate."""
    return min(_MAX_UINT32, round(burst_bytes / bytes_per_s * 1e9 / rtnl.tick_ns()))


def priority_buckets(
    index: int,
    *,
    rate_bps: float,
    burst_bytes: int,
    queue_packets: int,
    first_udp_port: int,
    parent: int = rtnl.ROOT,
) -> list[rtnl.Message]:
    """Limit the rate at which an interface sends, and send datagrams to one UDP port first.

    A full queue drops its oldest packet. If it dropped the newest, the kernel would report the
    drop to the sender, and a user-space switch then discards the rest of its batch, of either
    queue.

    Args:
        index: Index of the interface.
        rate_bps: The rate in bit/s.
        burst_bytes: Number of bytes that may be sent at once.
        queue_packets: Length of each of the two queues in packets.
        first_udp_port: The UDP port whose datagrams go first.
        parent: Handle of the parent.
    """
    # struct tc_htb_glob: version 3, quantum 10, and the class of packets that no filter matches.
    htb_options = struct.pack("=5I", 3, 10, _REST_CLASS & 0xFFFF, 0, 0)
    htb_init = rtnl.attribute(_TCA_HTB_INIT, htb_options)
    messages = [rtnl.new_queue(index, "htb", htb_init, handle=_HTB, parent=parent)]

    # Handle, parent, guaranteed share of the rate, and priority.
    classes = (
        (_LINK_CLASS, _HTB, 1.0, 0),
        (_FIRST_CLASS, _LINK_CLASS, 1.0, 0),
        (_REST_CLASS, _LINK_CLASS, _REST_SHARE, 1),
    )
    for handle, class_parent, share, priority in classes:
        body = rtnl.tc_header(index, handle, class_parent) + rtnl.text(_TCA_KIND, "htb")
        body += _class_options(rate_bps, share, burst_bytes, priority)
        messages.append((RTM_NEWTCLASS, rtnl.NLM_F_CREATE, body))

    limit = struct.pack("=I", queue_packets)
    for handle in (_FIRST_CLASS, _REST_CLASS):
        messages.append(rtnl.new_queue(index, "pfifo_head_drop", limit, parent=handle, flags=0))
    class_of_matches = rtnl.attribute(_TCA_BPF_CLASSID, struct.pack("=I", _FIRST_CLASS))
    program = _datagrams_to(first_udp_port)
    messages.append(rtnl.bpf_rule(index, _HTB, 1, program, class_of_matches))
    return messages


def _class_options(rate_bps: float, share: float, burst_bytes: int, priority: int) -> bytes:
    """Return the options of an htb class, with the same burst duration for rate and ceiling.

    Args:
        rate_bps: Rate of the link in bit/s; the class never sends faster.
        share: Share of the rate that the class is guaranteed.
        burst_bytes: Number of bytes that may be sent at once.
        priority: Priority for what other classes leave; 0 is first.
    """
    ceiling = max(1, round(rate_bps / 8))
    rate = max(1, round(ceiling * share))
    ticks = _burst_ticks(burst_bytes, ceiling)
    parameters = rtnl.rate_spec(rate) + rtnl.rate_spec(ceiling)
    parameters += struct.pack("=5I", ticks, ticks, burst_bytes, 0, priority)
    options = rtnl.attribute(_TCA_HTB_PARMS, parameters)
    if ceiling > _MAX_UINT32:
        options += rtnl.attribute(_TCA_HTB_RATE64, struct.pack("=Q", rate))
        options += rtnl.attribute(_TCA_HTB_CEIL64, struct.pack("=Q", ceiling))
    return rtnl.attribute(_TCA_OPTIONS, options)


def _datagrams_to(port: int) -> tuple[rtnl.BpfStep, ...]:
    """Return a classic BPF program that matches Ethernet frames with UDP over IPv4 to a port.

    IPv4 headers with options do not match. The program returns 0 if the frame does not match, and
    -1 for "the class that the filter is configured with".
    """
    load_half = 0x28
    load_byte = 0x30
    jump_if_equal = 0x15
    return_constant = 0x06
    ethertype_ipv4 = 0x0800
    ip_protocol_udp = 17
    return (
        (load_half, 0, 0, 12),
        (jump_if_equal, 0, 5, ethertype_ipv4),
        (load_byte, 0, 0, 23),
        (jump_if_equal, 0, 3, ip_protocol_udp),
        (load_half, 0, 0, 36),
        (jump_if_equal, 0, 1, port),
        (return_constant, 0, 0, 0xFFFFFFFF),
        (return_constant, 0, 0, 0),
    )
