"""NAC's identification of routing cycles (Zarza 2011, 4.2.2): whether a blocked input is part of a full cycle, and which.

Numbers in brackets are the decisions listed in docs/workloads/interconnect.md.
"""

from __future__ import annotations

from typing import Any

from testbed.interconnect.compiled.kernel_state import IDENTIFIED, MOVED, SIGNALS
from testbed.interconnect.compiled.nac.detection import log_event, send_identification
from testbed.interconnect.compiled.nac.recovery import may_recover, move_to_avoidance_buffer, recover_input, recovers
from testbed.interconnect.compiled.nac.throttle import avoidance_buffer_is_free
from testbed.interconnect.parameters import MAX_CYCLE
from testbed.interconnect.static_paths import NONE


def receive_identification(net: Any, o: Any, s: Any, hook: Any, packet: int, now: int) -> int:
    """An identification packet reaches the router before its link: its own closes the cycle, others are repeated (4).

    It is the router's own if it comes in through the output that its blocked input asks for; there it only counts while that
    input is still blocked. Returns the router where something may have moved, or NONE: repeating a packet changes nothing.
    """
    origin, out, at = s.identifications[packet].origin, s.identifications[packet].out, s.identifications[packet].at
    router = net.link[at].start
    if at == out and net.link[origin].end == router:
        if s.identifications[packet].recovery != 0:
            if may_recover(net, s, origin, out, now):
                recover_input(net, o, s, hook, origin, out, now)
        elif s.links[origin].waits_for == out:
            close_cycle(net, o, s, hook, packet, now)
        return int(router)
    for i in range(net.router[router].input_first, net.router[router + 1].input_first):
        link = net.inputs[i]
        if s.links[link].waits_for == at or (o.nac.identify_anew and recovers(net, s, link, at, now)):
            free = o.nac.repeat_when_full or avoidance_buffer_is_free(net, o, s, link, now)
            if free and not was_at(s, packet, link):
                send_identification(net, o, s, origin, out, packet, link, now)
    return NONE


def was_at(s: Any, packet: int, link: int) -> bool:
    """Whether the packet has been at this input before (7); one that has been at MAX_CYCLE inputs counts as in a loop."""
    if s.identifications[packet].length >= MAX_CYCLE - 1:
        return True
    if s.identifications[packet].seen & (1 << (link % 63)) == 0:
        return False
    while packet >= 0:
        if s.identifications[packet].at == link:
            return True
        packet = s.identifications[packet].parent
    return False


def close_cycle(net: Any, o: Any, s: Any, hook: Any, packet: int, now: int) -> None:
    """The cycle through this input is known: move its head to the avoidance buffer, if that is free (9), and signal on.

    A head whose tail is still arriving cannot move (12): the retry timer tries again.
    """
    origin = s.identifications[packet].origin
    s.counters[0].identified += 1
    log_event(net, s, IDENTIFIED, origin, now)
    tail = s.packets[s.queues[origin * net.lanes].head].tail
    if tail > now or not avoidance_buffer_is_free(net, o, s, origin, now):
        return
    signal = s.run[0].signals % SIGNALS
    s.run[0].signals += 1
    length = 0
    walk = packet
    while walk >= 0:
        length += 1
        walk = s.identifications[walk].parent
    if o.nac.identify_anew:
        s.path[signal, 0], length, walk = origin, 1, NONE
    else:
        walk = packet
    s.signals[signal].length = length
    for i in range(length - 1, -1, -1):
        if walk >= 0:
            s.path[signal, i] = s.identifications[walk].at
            walk = s.identifications[walk].parent
    s.signals[signal].place = 0
    s.counters[0].moved += 1
    log_event(net, s, MOVED, origin, now)
    move_to_avoidance_buffer(net, o, s, hook, signal, origin, now)


INLINE = (was_at, receive_identification)
STEPS = (close_cycle,)
"""For the compiled engine to register; the former are put into their callers, since the tables cost much to hand over."""
