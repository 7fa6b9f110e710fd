"""NAC's identification of routing cycles (Zarza 2011, 4.2.2).

It finds out whether a blocked input is on a cycle of full buffers, and on which. Numbers in
brackets, such as (8), refer to the decisions listed in docs/workloads/nac_decisions.md.
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
    """Process identification packets in the order of their arrival.

    It ends when a packet returns to its origin, or when the next packet arrives after another
    event. All these packets are processed in one call, because a router that repeats a packet
    causes no event except for the packet itself.

    Args:
        net: The network's tables.
        o: The options of the run.
        s: The state.
        hook: FT-DRB, or None.
        limit: The key of the other event.

    Returns:
        The router to which a packet has returned, or NONE.
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
    """Process an identification packet that arrives at the router at the start of its link.

    A packet that arrives at its own router, through the output that its blocked input requests, has
    gone round a cycle. It is ignored if that input is no longer blocked for this output. Any other
    packet is repeated on every blocked input that requests the output where it arrived (4).

    Returns:
        The router if something may have moved there, or NONE: repeating a packet changes nothing.
    """
    origin = s.identifications[packet].origin
    out = s.identifications[packet].out
    at = s.identifications[packet].at
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
        may_repeat = o.nac.repeat_when_full or avoidance_buffer_is_free(net, o, s, link, now)
        if may_repeat and not visited_input(o, s, packet, link, now):
            send_identification(net, o, s, origin, out, packet, link, now)
        link = s.links[link].next_asker
    return NONE


def forward_during_recovery(net: Tables, o: EngineOptions, s: State, packet: int, now: int) -> None:
    """Repeat an identification packet on each input that requests the output where it arrived (22).

    Such an input is blocked, or it recovers.
    """
    origin = s.identifications[packet].origin
    out = s.identifications[packet].out
    at = s.identifications[packet].at
    router = net.link[at].start
    for i in range(net.router[router].input_first, net.router[router + 1].input_first):
        link = net.inputs[i]
        if s.links[link].waits_for == at or recovery.recovers(net, s, link, at, now):
            may_repeat = o.nac.repeat_when_full or avoidance_buffer_is_free(net, o, s, link, now)
            if may_repeat and not visited_input(o, s, packet, link, now):
                send_identification(net, o, s, origin, out, packet, link, now)


@inline
def visited_input(o: EngineOptions, s: State, packet: int, link: int, now: int) -> bool:
    """Return whether the packet has visited this input before (7).

    A packet that has visited MAX_CYCLE - 1 inputs is treated as one in a loop.

    The packet's path is searched only if the input has changed the output that it requests since
    the packet was sent. Otherwise the packet's earlier visit would have come through the same
    output. The same holds for each input before this one, back to the packet's origin, where the
    packet would have closed a cycle.
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
    """Return the packet that this one repeats.

    If a later packet has replaced it in the ring, the run stops, because the path of this packet is
    lost.

    Args:
        s: The state.
        packet: Index of this packet in the ring.
        number: Number of this packet in the order of sending.

    Returns:
        The index of the repeated packet, or NONE, and its number in the order of sending.
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
    """Start the recovery of the cycle that an identification packet has found.

    The head of the packet's origin moves to the avoidance buffer if that is free (9), and a
    recovery signal is sent. A head whose tail is still arriving cannot move (12); the retry timer
    tries again.
    """
    origin = s.identifications[packet].origin
    log_event(net, s, kr.IDENTIFIED, origin, now)
    tail = s.packets[s.queues[origin * net.lanes].head].tail
    if tail > now or not avoidance_buffer_is_free(net, o, s, origin, now):
        return
    length = 1 if o.nac.identify_anew else int(s.identifications[packet].length)
    signal = recovery.new_signal(s, origin, length)
    # Each packet names the one that it repeats, so the path is read from its end.
    walk = packet
    number = s.run[0].arrived_identifications - 1
    for i in range(length - 1, 0, -1):
        if walk >= 0:
            s.path[signal, i] = s.identifications[walk].at
            walk, number = repeated_by(s, walk, number)
    log_event(net, s, kr.MOVED, origin, now)
    recovery.move_to_avoidance_buffer(net, o, s, hook, signal, origin, now)
