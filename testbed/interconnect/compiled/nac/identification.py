"""NAC's identification of routing cycles (Zarza 2011, 4.2.2).

It finds out whether a blocked input is part of a full cycle, and of which. Numbers in brackets, as
(8), refer to the decisions listed in docs/workloads/nac_decisions.md.
"""

from __future__ import annotations

from testbed.interconnect.compiled import kernel_records as kr
from testbed.interconnect.compiled.kernel_events import next_identification
from testbed.interconnect.compiled.kernel_state import Hook, State, Tables
from testbed.interconnect.compiled.nac import recovery
from testbed.interconnect.compiled.nac.detection import log_event, send_identification
from testbed.interconnect.compiled.nac.throttle import avoidance_buffer_is_free
from testbed.interconnect.engine_inputs import EngineOptions
from testbed.interconnect.parameters import MAX_CYCLE
from testbed.interconnect.static_paths import NONE
from testbed.jit import inline


def pass_identifications(net: Tables, o: EngineOptions, s: State, hook: Hook, limit: int) -> int:
    """Identification packets arrive one after another, until one closes a cycle (its router), or the next is due after
    the key ``limit`` of another event (NONE). To repeat a packet makes no event but its own.
    """
    while True:
        key = next_identification(s)
        if key >= limit:
            return NONE
        s.run[0].arrived_identifications += 1
        s.run[0].now = key >> kr.KEY_SHIFT
        router = receive_identification(net, o, s, hook, key & kr.ID_MASK, key >> kr.KEY_SHIFT)
        if router >= 0:
            return int(router)


@inline
def receive_identification(
    net: Tables, o: EngineOptions, s: State, hook: Hook, packet: int, now: int
) -> int:
    """An identification packet reaches the router before its link: its own closes the cycle, others are repeated (4).

    It is the router's own if it comes in through the output that its blocked input asks for; there it only counts while
    that input is still blocked. Returns the router where something may have moved, or NONE: repeating a packet changes
    nothing.
    """
    origin, out, at = (
        s.identifications[packet].origin,
        s.identifications[packet].out,
        s.identifications[packet].at,
    )
    if at == out and net.link[origin].end == net.link[at].start:
        if s.identifications[packet].recovery != 0:
            if recovery.may_recover(net, s, origin, out, now):
                recovery.recover_input(net, o, s, hook, origin, out, now)
        elif s.links[origin].waits_for == out:
            close_cycle(net, o, s, hook, packet, now)
        return int(net.link[at].start)
    if o.nac.identify_anew:
        forward_during_recovery(net, o, s, packet, now)
        return NONE
    link = s.links[at].first_asker
    while link >= 0:
        free = o.nac.repeat_when_full or avoidance_buffer_is_free(net, o, s, link, now)
        if free and not visited_input(o, s, packet, link, now):
            send_identification(net, o, s, origin, out, packet, link, now)
        link = s.links[link].next_asker
    return NONE


def forward_during_recovery(net: Tables, o: EngineOptions, s: State, packet: int, now: int) -> None:
    """Repeat an identification packet where inputs that recover pass it, too (22)."""
    origin, out, at = (
        s.identifications[packet].origin,
        s.identifications[packet].out,
        s.identifications[packet].at,
    )
    router = net.link[at].start
    for i in range(net.router[router].input_first, net.router[router + 1].input_first):
        link = net.inputs[i]
        if s.links[link].waits_for == at or recovery.recovers(net, s, link, at, now):
            free = o.nac.repeat_when_full or avoidance_buffer_is_free(net, o, s, link, now)
            if free and not visited_input(o, s, packet, link, now):
                send_identification(net, o, s, origin, out, packet, link, now)


@inline
def visited_input(o: EngineOptions, s: State, packet: int, link: int, now: int) -> bool:
    """Whether the packet has been at this input before (7); one that has been at MAX_CYCLE inputs counts as in a loop.

    Only where the input has changed what it asks for since the packet set out: else it would have come here over the
    same output before, which so on back to its origin is the output where a cycle closes.
    """
    length = int(s.identifications[packet].length)
    if length >= MAX_CYCLE - 1:
        return True
    if s.identifications[packet].seen & (1 << (link % 31)) == 0:
        return False
    if not o.nac.identify_anew and s.links[link].changed_at < now - length * o.nac.control:
        return False
    number = s.run[0].arrived_identifications - 1
    while packet >= 0:
        if s.identifications[packet].at == link:
            return True
        packet, number = repeated_by(s, packet, number)
    return False


def repeated_by(s: State, packet: int, number: int) -> tuple[int, int]:
    """The packet that this one repeats (NONE: none), with its number in order of sending; ``number``: this one's.

    Where another has taken its place the run stops: nobody knows any more where the packet has been.
    """
    before = int(s.identifications[packet].parent)
    if before < 0:
        return NONE, number
    number -= (number - before) & kr.ID_MASK
    if s.run[0].identifications - number > kr.ID_MASK + 1:
        s.run[0].status = kr.RING_FULL
        return NONE, number
    return before, number


def close_cycle(net: Tables, o: EngineOptions, s: State, hook: Hook, packet: int, now: int) -> None:
    """The cycle through this input is known: move its head to the avoidance buffer, if that is free (9), and signal on.

    A head whose tail is still arriving cannot move (12): the retry timer tries again.
    """
    origin = s.identifications[packet].origin
    log_event(net, s, kr.IDENTIFIED, origin, now)
    tail = s.packets[s.queues[origin * net.lanes].head].tail
    if tail > now or not avoidance_buffer_is_free(net, o, s, origin, now):
        return
    length = 1 if o.nac.identify_anew else int(s.identifications[packet].length)
    signal = recovery.new_signal(s, origin, length)
    walk, number = packet, s.run[0].arrived_identifications - 1
    for i in range(length - 1, 0, -1):
        if walk >= 0:
            s.path[signal, i] = s.identifications[walk].at
            walk, number = repeated_by(s, walk, number)
    log_event(net, s, kr.MOVED, origin, now)
    recovery.move_to_avoidance_buffer(net, o, s, hook, signal, origin, now)
