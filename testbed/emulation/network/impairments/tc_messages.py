"""What the kernel is told of a link's delay and impairments: a netem queue, and the rule that sends a link's packets on
a detour (rtnetlink messages)."""

import struct
from typing import Literal

from testbed.emulation.network.kernel.rtnetlink import (
    CLSACT_EGRESS,
    Message,
    Netlink,
    NetlinkError,
    attribute,
    bpf_rule,
    delete_queue,
    new_queue,
    remove_bpf_rule,
    text,
    tick_ns,
)

NETEM_CHILD = 0x10001
"""The queue behind a netem queue."""
DETOUR_PRIORITY = 1
"""Before the rule that drops packets (2): a packet that comes back from its detour may still be dropped, once."""
_WHOLE = 0xFFFFFFFF
_NESTED = 0x8000
_LIMIT_PACKETS = 100_000
_LOOPBACK = 1


def has_netem(netlink: Netlink) -> bool:
    """Tried on the loopback interface: a queue that does nothing, taken away again."""
    try:
        netlink.apply([netem_line(_LOOPBACK), delete_queue(_LOOPBACK)])
    except NetlinkError:
        return False
    return True


def netem_line(index: int, *, delay_s: float = 0.0, jitter_s: float = 0.0, loss: float = 0.0) -> Message:
    """The netem queue, as the interface's root queue 1:; a shaper may follow at parent 1:1. One that is there is
    changed in place."""
    ticks, jitter_ticks = (min(_WHOLE, round(s * 1e9 / tick_ns())) for s in (delay_s, jitter_s))
    body = struct.pack("=6I", ticks, _LIMIT_PACKETS, round(loss * _WHOLE), 0, 0, jitter_ticks)
    body += attribute(10, struct.pack("=q", round(delay_s * 1e9)))
    body += attribute(11, struct.pack("=q", round(jitter_s * 1e9)))
    return new_queue(index, "netem", body, handle=0x10000)


def detour_rule(index: int, *, mark: int, through: int, action: Literal["add", "remove"] = "add") -> Message:
    """Send what the interface sends out of the interface ``through`` instead, but for packets with that mark: those
    have been there.

    A classic BPF classifier and a redirecting action, at the interface's hook before its queues (clsact); ordinary
    users may set both in namespaces of their own, which they may not do with extended BPF programs.
    """
    if action == "remove":
        return remove_bpf_rule(index, CLSACT_EGRESS, DETOUR_PRIORITY)
    load_word, jump_if_equal, answer = 0x20, 0x15, 0x06
    ancillary_mark, no_match, match = 0xFFFFF000 + 20, 0, 0xFFFFFFFF
    steps = (
        (load_word, 0, 0, ancillary_mark),
        (jump_if_equal, 0, 1, mark),
        (answer, 0, 0, no_match),
        (answer, 0, 0, match),
    )
    stolen, redirect = 4, 1
    target = struct.pack("=IIiiiiI", 0, 0, stolen, 0, 0, redirect, through)
    mirred = attribute(1, text(1, "mirred") + attribute(2 | _NESTED, attribute(2, target)))
    return bpf_rule(index, CLSACT_EGRESS, DETOUR_PRIORITY, steps, attribute(1 | _NESTED, mirred))
