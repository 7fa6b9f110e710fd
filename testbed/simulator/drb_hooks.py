"""Where FT-DRB meets the routers: source routes by intermediates, dead links, notices and ACKs.

What is decided is in ft_drb_steps.py; here it is done with packets of the engine.
"""

from __future__ import annotations

from typing import Any

from testbed.simulator.ft_drb_steps import escape_path, forget_failure, hear_failure, hear_latency, select_path
from testbed.simulator.kernel_events import push
from testbed.simulator.kernel_state import (
    ACKS,
    DATA,
    DONE,
    FAILURE_ACK,
    ID_MASK,
    LATENCY_ACK,
    NONE,
    NOTICE,
    POOL_FULL,
    STATUS,
    UP_NOTICE,
)


def target_of(ports: Any, s: Any, packet: int) -> int:
    """Where the packet is bound next: an intermediate router or the goal of its host."""
    p = s.packets
    if p.header[packet] == 0 and p.first[packet] >= 0:
        return int(p.first[packet])
    if p.header[packet] <= 1 and p.second[packet] >= 0:
        return int(p.second[packet])
    return int(ports.goal[p.destination[packet]])


def next_target(ports: Any, s: Any, packet: int, router: int) -> int:
    """The same, once intermediates that are this router, or left out, have been passed by."""
    p = s.packets
    while p.header[packet] < 2:
        middle = p.first[packet] if p.header[packet] == 0 else p.second[packet]
        if middle >= 0 and middle != router:
            break
        p.header[packet] += 1
    return target_of(ports, s, packet)


def set_off(s: Any, hook: Any, packet: int, now: int) -> None:
    """A message is made: its source chooses a path."""
    paths, state, settings = hook
    p = s.packets
    first, second = select_path(paths, state, settings, p.source[packet], p.destination[packet], packet, now)
    p.first[packet], p.second[packet] = first, second
    p.sent_first[packet], p.sent_second[packet] = first, second


def link_towards(ports: Any, s: Any, packet: int, router: int) -> int:
    link = ports.next_link[0, router, next_target(ports, s, packet, router)]
    return int(link) if link >= 0 else int(ports.downlink[s.packets.destination[packet]])


def leave_router(ports: Any, o: Any, s: Any, hook: Any, queue: int, packet: int, router: int, now: int) -> int:
    """The channel that the packet asks for; round a dead link by an escape path, with a word to its source."""
    paths, state = hook[0], hook[1]
    p, down = s.packets, s.channels.down
    own = NONE
    if ports.two_stages != 0 and ports.links * ports.lanes <= queue < ports.source_queue:
        own = queue // ports.lanes - ports.links
        if ports.cable[own] < 0 or down[ports.cable[own]] == 0:
            return int(ports.entry[own])
    link = own if own >= 0 else link_towards(ports, s, packet, router)
    cable = ports.cable[link]
    if cable >= 0 and down[cable] != 0:
        report(ports, o, s, packet, link, now)
        p.flag[packet] = cable
        first, second = escape_path(
            paths, state.counters, down, router, p.came[packet], ports.goal[p.destination[packet]], p.number[packet], p.escapes[packet]
        )
        p.first[packet], p.second[packet], p.header[packet] = first, second, 0
        p.escaped[packet] = 1
        p.escapes[packet] += 1
        link = link_towards(ports, s, packet, router)
    return int(ports.entry[link])


def report(ports: Any, o: Any, s: Any, packet: int, link: int, now: int) -> None:
    """The router at the start of a dead link tells the source of a message that meets it (once a message and cable)."""
    p = s.packets
    cable = ports.cable[link]
    if o.notify_by_router == 0 or p.kind[packet] != DATA or p.told[packet] == cable:
        return
    p.told[packet] = cable
    if o.up_by_router != 0:
        s.run.told_host[link, p.source[packet]] = 1
    notice(s, o, FAILURE_ACK, ports.link_from[link], p.source[packet], cable, now)


def notice(s: Any, o: Any, kind: int, router: int, host: int, cable: int, now: int) -> None:
    """A notice from a router to a host sets off at once (as an event, after all that happens at this tick)."""
    packet = take_packet(s, o, kind, router, host)
    if packet >= 0:
        s.packets.flag[packet] = cable
        s.packets.born[packet] = now
        number = s.packets.number[packet] & ID_MASK
        s.packets.noticed[number] = packet
        push(s, now, NOTICE, number)


def take_packet(s: Any, o: Any, kind: int, source: int, destination: int) -> int:
    """An ACK out of the pool; NONE, and the run stops, where it is empty."""
    p = s.packets
    left = p.free_count[0] - 1
    if left < 0:
        s.run.clock[STATUS] = POOL_FULL
        return NONE
    packet = p.free[left]
    p.free_count[0] = left
    p.kind[packet] = kind
    p.source[packet] = source
    p.destination[packet] = destination
    p.ticks[packet] = o.ack_ticks
    p.hops[packet] = 0
    p.first[packet] = NONE
    p.second[packet] = NONE
    p.header[packet] = 0
    p.escaped[packet] = 0
    p.escapes[packet] = 0
    p.came[packet] = NONE
    p.told[packet] = NONE
    p.flag[packet] = NONE
    p.number[packet] = len(p.next) + s.run.clock[ACKS]
    s.run.clock[ACKS] += 1
    return int(packet)


def overhear(ports: Any, s: Any, hook: Any, packet: int, router: int, now: int) -> None:
    """Hosts of a router that a failure notification passes learn from it (the first improvement of 3.6.1)."""
    paths, state, settings = hook
    for i in range(ports.hosts_first[router], ports.hosts_first[router + 1]):
        host = ports.hosts_of[i]
        if host != s.packets.destination[packet]:
            hear_failure(state, settings, host, s.packets.flag[packet], now)


def deliver(ports: Any, o: Any, s: Any, hook: Any, packet: int, now: int) -> int:
    """A packet is whole at its host: a message is answered by an ACK (its packet is returned, else NONE), an ACK is read."""
    paths, state, settings = hook
    p = s.packets
    kind = p.kind[packet]
    if kind == DATA:
        p.delivered[packet] = now
        s.run.clock[DONE] += 1
        return answer(s, o, packet, now)
    host = p.destination[packet]
    if kind == LATENCY_ACK:
        hear_latency(
            paths, state, settings, host, p.source[packet], p.sent_first[packet], p.sent_second[packet], p.latency[packet]
        )
    elif kind == FAILURE_ACK:
        hear_failure(state, settings, host, p.flag[packet], now)
    else:
        forget_failure(state, host, p.flag[packet])
    p.free[p.free_count[0]] = packet
    p.free_count[0] += 1
    return NONE


def answer(s: Any, o: Any, packet: int, now: int) -> int:
    """A latency ACK for a message that came its own way; a failure ACK for one with an error flag, where destinations tell."""
    p = s.packets
    if p.escaped[packet] != 0 and o.notify_by_router != 0:
        return NONE
    kind = FAILURE_ACK if p.escaped[packet] != 0 else LATENCY_ACK
    ack = take_packet(s, o, kind, p.destination[packet], p.source[packet])
    if ack < 0:
        return NONE
    p.born[ack] = now
    p.flag[ack] = p.flag[packet]
    p.sent_first[ack], p.sent_second[ack] = p.sent_first[packet], p.sent_second[packet]
    p.latency[ack] = now - p.entered[packet]
    return ack


def tell_queued(ports: Any, o: Any, s: Any, link: int, queue: int, now: int) -> None:
    """A failure is told to the sources of all packets in the queue that wait for the link (the second improvement)."""
    packet = s.queues.head[queue]
    router = ports.link_from[link]
    own = (ports.links + link) * ports.lanes
    for _ in range(s.queues.arrived[queue]):
        bound = ports.two_stages != 0 and own <= queue < own + ports.lanes
        if not bound:
            bound = link_towards(ports, s, packet, router) == link
        if bound:
            report(ports, o, s, packet, link, now)
        packet = s.packets.next[packet]


def tell_up(ports: Any, o: Any, s: Any, link: int, now: int) -> None:
    """A link works again: its router says so to those it told that it had failed (3.6.2)."""
    for host in range(ports.hosts):
        if s.run.told_host[link, host] != 0:
            s.run.told_host[link, host] = 0
            notice(s, o, UP_NOTICE, ports.link_from[link], host, ports.cable[link], now)


STEPS = (
    target_of,
    next_target,
    set_off,
    link_towards,
    take_packet,
    notice,
    report,
    leave_router,
    overhear,
    answer,
    deliver,
    tell_queued,
    tell_up,
)
"""For the compiled engine to register."""
