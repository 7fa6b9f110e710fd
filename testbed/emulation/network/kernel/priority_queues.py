"""A shaped link that lets one kind of packet go before all others, as a router with two queues does (htb, as rtnetlink
messages).

Two classes share the link's rate. Packets of one UDP port are always within their share, so that they go first; the
rest takes what they leave, and waits in a queue of its own.
"""

import struct

from testbed.emulation.network.kernel.rtnetlink import (
    NLM_F_CREATE,
    ROOT,
    BpfStep,
    Message,
    attribute,
    bpf_rule,
    new_queue,
    rate_spec,
    tc_header,
    text,
    tick_ns,
)

RTM_NEWTCLASS = 40
_QUEUE = 0x100000
_LINK, _FIRST, _REST = _QUEUE | 1, _QUEUE | 2, _QUEUE | 3
_REST_SHARE = 0.01
"""Of the rate, which the rest has for sure: the kernel wants some."""


def priority_buckets(
    index: int, *, rate_bps: float, burst_bytes: int, queue_packets: int, first_udp_port: int, parent: int = ROOT
) -> list[Message]:
    """Shape what the interface sends to ``rate_bps``; datagrams to ``first_udp_port`` go before everything else.

    Either kind has a queue of ``queue_packets``; where it is full the oldest goes. (A queue that turned the newest away
    would report it to the sender, and a user-space switch then throws away the rest of its batch, whatever kind that
    is.)
    """
    whole = struct.pack("=5I", 3, 10, _REST & 0xFFFF, 0, 0)
    messages = [new_queue(index, "htb", attribute(2, whole), handle=_QUEUE, parent=parent)]
    classes = ((_LINK, _QUEUE, 1.0, 0), (_FIRST, _LINK, 1.0, 0), (_REST, _LINK, _REST_SHARE, 1))
    for handle, above, share, priority in classes:
        body = tc_header(index, handle, above) + text(1, "htb")
        messages.append((RTM_NEWTCLASS, NLM_F_CREATE, body + _class_options(rate_bps, share, burst_bytes, priority)))
    for handle in (_FIRST, _REST):
        limit = struct.pack("=I", queue_packets)
        messages.append(new_queue(index, "pfifo_head_drop", limit, parent=handle, flags=0))
    messages.append(bpf_rule(index, _QUEUE, 1, _datagrams_to(first_udp_port), attribute(3, struct.pack("=I", _FIRST))))
    return messages


def _class_options(rate_bps: float, share: float, burst_bytes: int, priority: int) -> bytes:
    """Rate and ceiling of a class; what it may send at once is the same time at either."""
    ceiling = max(1, round(rate_bps / 8))
    rate = max(1, round(ceiling * share))
    ticks = min(0xFFFFFFFF, round(burst_bytes / ceiling * 1e9 / tick_ns()))
    parameters = rate_spec(rate) + rate_spec(ceiling) + struct.pack("=5I", ticks, ticks, burst_bytes, 0, priority)
    options = attribute(1, parameters)
    if ceiling > 0xFFFFFFFF:
        options += attribute(6, struct.pack("=Q", rate)) + attribute(7, struct.pack("=Q", ceiling))
    return attribute(2, options)


def _datagrams_to(port: int) -> tuple[BpfStep, ...]:
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
