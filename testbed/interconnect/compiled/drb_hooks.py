"""Where FT-DRB meets the routers: source routes by intermediates, dead links, notices and ACKs.

What is decided is in ft_drb_steps.py; here it is done with packets of the engine.
"""

from __future__ import annotations

from typing import Any

from testbed.interconnect.compiled.kernel_events import push
from testbed.interconnect.compiled.kernel_state import (
    ACKS,
    DATA,
    DONE,
    FAILURE_ACK,
    FREE,
    ID_MASK,
    LATENCY_ACK,
    NONE,
    NOTICE,
    POOL_FULL,
    STATUS,
    UP_NOTICE,
)
from testbed.interconnect.ft_drb.escape_steps import escape_path
from testbed.interconnect.ft_drb.ft_drb_steps import forget_failure, hear_failure, hear_latency, select_path


def target_of(ports: Any, s: Any, packet: int) -> int:
    """Where the packet is bound next: an intermediate router or the goal of its host."""
    if s.packets[packet].header == 0 and s.packets[packet].first >= 0:
        return int(s.packets[packet].first)
    if s.packets[packet].header <= 1 and s.packets[packet].second >= 0:
        return int(s.packets[packet].second)
    return int(ports.host[s.packets[packet].destination].goal)


def next_target(ports: Any, s: Any, packet: int, router: int) -> int:
    """The same, once intermediates that are this router, or left out, have been passed by."""
    while s.packets[packet].header < 2:
        middle = s.packets[packet].first if s.packets[packet].header == 0 else s.packets[packet].second
        if middle >= 0 and middle != router:
            break
        s.packets[packet].header += 1
    return target_of(ports, s, packet)


def set_off(s: Any, hook: Any, packet: int, now: int) -> None:
    """A message is made: its source chooses a path."""
    paths, state, settings = hook
    first, second = select_path(
        paths, state, settings, s.packets[packet].source, s.packets[packet].destination, packet, now
    )
    s.packets[packet].first, s.packets[packet].second = first, second
    s.packets[packet].sent_first, s.packets[packet].sent_second = first, second


def link_towards(ports: Any, s: Any, packet: int, router: int) -> int:
    link = ports.next_link[0, router, next_target(ports, s, packet, router)]
    return int(link) if link >= 0 else int(ports.host[s.packets[packet].destination].downlink)


def leave_router(ports: Any, o: Any, s: Any, hook: Any, queue: int, packet: int, router: int, now: int) -> int:
    """The channel that the packet asks for; round a dead link by an escape path, with a word to its source."""
    paths, state = hook[0], hook[1]
    down = s.down
    own = NONE
    if ports.two_stages != 0 and ports.links * ports.lanes <= queue < ports.source_queue:
        own = queue // ports.lanes - ports.links
        if ports.link[own].cable < 0 or down[ports.link[own].cable] == 0:
            return int(own)
    link = own if own >= 0 else link_towards(ports, s, packet, router)
    cable = ports.link[link].cable
    if cable >= 0 and down[cable] != 0:
        report(ports, o, s, packet, link, now)
        s.packets[packet].flag = cable
        first, second = escape_path(
            paths,
            state.counters,
            down,
            router,
            s.packets[packet].came,
            ports.host[s.packets[packet].destination].goal,
            s.packets[packet].number,
            s.packets[packet].escapes,
        )
        s.packets[packet].first, s.packets[packet].second, s.packets[packet].header = first, second, 0
        s.packets[packet].escaped = 1
        s.packets[packet].escapes += 1
        link = link_towards(ports, s, packet, router)
    return int(ports.link[link].entry)


def report(ports: Any, o: Any, s: Any, packet: int, link: int, now: int) -> None:
    """The router at the start of a dead link tells the source of a message that meets it (once a message and cable)."""
    cable = ports.link[link].cable
    if o.notify_by_router == 0 or s.packets[packet].kind != DATA or s.packets[packet].told == cable:
        return
    s.packets[packet].told = cable
    if o.up_by_router != 0:
        s.told_host[link, s.packets[packet].source] = 1
    notice(s, o, FAILURE_ACK, ports.link[link].start, s.packets[packet].source, cable, now)


def notice(s: Any, o: Any, kind: int, router: int, host: int, cable: int, now: int) -> None:
    """A notice from a router to a host sets off at once (as an event, after all that happens at this tick)."""
    packet = take_packet(s, o, kind, router, host)
    if packet >= 0:
        s.packets[packet].flag = cable
        s.packets[packet].born = now
        number = s.packets[packet].number & ID_MASK
        s.noticed[number] = packet
        push(s, now, NOTICE, number)


def take_packet(s: Any, o: Any, kind: int, source: int, destination: int) -> int:
    """An ACK out of the pool; NONE, and the run stops, where it is empty."""
    left = s.clock[FREE] - 1
    if left < 0:
        s.clock[STATUS] = POOL_FULL
        return NONE
    packet = s.free[left]
    s.clock[FREE] = left
    s.packets[packet].kind = kind
    s.packets[packet].source = source
    s.packets[packet].destination = destination
    s.packets[packet].ticks = o.ack_ticks
    s.packets[packet].hops = 0
    s.packets[packet].first = NONE
    s.packets[packet].second = NONE
    s.packets[packet].header = 0
    s.packets[packet].escaped = 0
    s.packets[packet].escapes = 0
    s.packets[packet].came = NONE
    s.packets[packet].told = NONE
    s.packets[packet].flag = NONE
    s.packets[packet].number = len(s.packets) - len(s.free) + s.clock[ACKS]
    s.clock[ACKS] += 1
    return int(packet)


def overhear(ports: Any, s: Any, hook: Any, packet: int, router: int, now: int) -> None:
    """Hosts of a router that a failure notification passes learn from it (the first improvement of 3.6.1)."""
    state, settings = hook[1], hook[2]
    for i in range(ports.router[router].hosts_first, ports.router[router + 1].hosts_first):
        host = ports.hosts_of[i]
        if host != s.packets[packet].destination:
            hear_failure(state, settings, host, s.packets[packet].flag, now)


def deliver(ports: Any, o: Any, s: Any, hook: Any, packet: int, now: int) -> int:
    """A packet is whole at its host: a message is answered by an ACK (its packet is returned, else NONE), an ACK is read."""
    paths, state, settings = hook
    kind = s.packets[packet].kind
    if kind == DATA:
        s.packets[packet].delivered = now
        s.clock[DONE] += 1
        return answer(s, o, packet, now)
    host = s.packets[packet].destination
    if kind == LATENCY_ACK:
        hear_latency(
            paths,
            state,
            settings,
            host,
            s.packets[packet].source,
            s.packets[packet].sent_first,
            s.packets[packet].sent_second,
            s.packets[packet].latency,
        )
    elif kind == FAILURE_ACK:
        hear_failure(state, settings, host, s.packets[packet].flag, now)
    else:
        forget_failure(state, host, s.packets[packet].flag)
    s.free[s.clock[FREE]] = packet
    s.clock[FREE] += 1
    return NONE


def answer(s: Any, o: Any, packet: int, now: int) -> int:
    """A latency ACK for a message that came its own way; a failure ACK for one with an error flag, where destinations tell."""
    if s.packets[packet].escaped != 0 and o.notify_by_router != 0:
        return NONE
    kind = FAILURE_ACK if s.packets[packet].escaped != 0 else LATENCY_ACK
    ack = take_packet(s, o, kind, s.packets[packet].destination, s.packets[packet].source)
    if ack < 0:
        return NONE
    s.packets[ack].born = now
    s.packets[ack].flag = s.packets[packet].flag
    s.packets[ack].sent_first, s.packets[ack].sent_second = s.packets[packet].sent_first, s.packets[packet].sent_second
    s.packets[ack].latency = now - s.packets[packet].entered
    return ack


def tell_queued(ports: Any, o: Any, s: Any, link: int, queue: int, now: int) -> None:
    """A failure is told to the sources of all packets in the queue that wait for the link (the second improvement)."""
    packet = s.queues[queue].head
    router = ports.link[link].start
    own = (ports.links + link) * ports.lanes
    for _ in range(s.queues[queue].arrived):
        bound = ports.two_stages != 0 and own <= queue < own + ports.lanes
        if not bound:
            bound = link_towards(ports, s, packet, router) == link
        if bound:
            report(ports, o, s, packet, link, now)
        packet = s.packets[packet].next


def tell_up(ports: Any, o: Any, s: Any, link: int, now: int) -> None:
    """A link works again: its router says so to those it told that it had failed (3.6.2)."""
    for host in range(ports.hosts):
        if s.told_host[link, host] != 0:
            s.told_host[link, host] = 0
            notice(s, o, UP_NOTICE, ports.link[link].start, host, ports.link[link].cable, now)


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
