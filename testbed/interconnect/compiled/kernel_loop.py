"""The loop over events that puts the steps together: one function, run in Python or compiled.

Events of one tick happen by kind, then by number (kernel_state.py); a message is made between arrivals and deliveries.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from testbed.interconnect.compiled.drb_hooks import deliver, overhear, set_off, tell_queued, tell_up
from testbed.interconnect.compiled.engine_steps import arbitrate, enlist, withdraw
from testbed.interconnect.compiled.kernel_events import append, pop, push, take_head, wake
from testbed.interconnect.compiled.kernel_state import (
    ARRIVAL,
    CABLE_EVENT,
    EVENTS,
    FAILURE_ACK,
    FINISHED,
    HEAPED,
    ID_BITS,
    ID_MASK,
    IDENTIFICATION,
    INJECTION,
    KEY_SHIFT,
    LAST,
    LOOK,
    NEXT_MESSAGE,
    NO_PROGRESS,
    NONE,
    NOTICE,
    NOW,
    OUT_OF_TIME,
    RECOVERY,
    RUNNING,
    STATUS,
    WAKE,
)
from testbed.interconnect.compiled.nac_steps import hear_probe, hear_signal, look_round, try_again


class Plan(NamedTuple):
    """What happens from outside: ``born`` (ticks) of the messages; cable events: which, when, 1 down or 0 up; links by cable."""

    born: Any
    event_cable: Any
    event_tick: Any
    event_down: Any
    cable_first: Any
    cable_links: Any


def run_events(ports: Any, o: Any, s: Any, hook: Any, plan: Plan) -> None:
    """Until nothing happens any more; why it stopped is in the clock."""
    clock = s.clock
    messages = len(plan.born)
    for i in range(len(plan.event_tick)):
        push(s, plan.event_tick[i], CABLE_EVENT, i)
    while clock[STATUS] == RUNNING:
        message = clock[NEXT_MESSAGE]
        pending = s.clock[HEAPED] > 0
        if message < messages and (
            not pending or s.heap[0] > (plan.born[message] << KEY_SHIFT) | (INJECTION << ID_BITS)
        ):
            clock[NEXT_MESSAGE] = message + 1
            if hook is not None:
                set_off(s, hook, message, plan.born[message])
            queue = join(ports, s, ports.source_queue + 2 * s.packets[message].source, message)
            clock[NOW] = plan.born[message]
            serve(ports, o, s, hook, queue, NONE, NONE, clock[NOW])
            continue
        if not pending:
            clock[STATUS] = FINISHED
            break
        key = pop(s)
        now = key >> KEY_SHIFT
        clock[NOW] = now
        clock[EVENTS] += 1
        if now > o.end:
            clock[STATUS] = OUT_OF_TIME
            break
        kind, number = (key >> ID_BITS) & 15, key & ID_MASK
        queue, channel, router = NONE, NONE, NONE
        if kind == ARRIVAL:
            queue, router = arrive(ports, o, s, hook, number, now)
        elif kind == WAKE:
            channel = number
            router = ports.link[number if number < ports.links else number - ports.links].start
            if s.channels[number].woken == now:
                s.channels[number].woken = -1
        elif kind > NOTICE:
            router = avoid_deadlock(ports, o, s, hook, messages, kind, number, now)
        elif kind == CABLE_EVENT:
            change_cable(ports, o, s, hook, plan, plan.event_cable[number], plan.event_down[number], now)
        elif hook is not None:
            queue, router = answer_or_notice(ports, o, s, hook, kind, number, now)
        serve(ports, o, s, hook, queue, channel, router, now)


def serve(ports: Any, o: Any, s: Any, hook: Any, queue: int, channel: int, router: int, now: int) -> None:
    """After an event: a queue with a new head asks, its channel is arbitrated, the router looks round."""
    if queue >= 0:
        enlist(ports, o, s, hook, queue, now)
        channel = s.queues[queue].want
    elif o.nac != 0 and 0 <= channel < ports.links and ports.link[channel].entry != channel:
        wake(s, ports.link[channel].entry, now)
    if channel >= 0:
        arbitrate(ports, o, s, hook, channel, now)
    if o.nac != 0 and router >= 0:
        look_later(ports, s, router, now)


def look_later(ports: Any, s: Any, router: int, now: int) -> None:
    """The router looks round when all that moves at this tick has moved, if an input is full or was blocked."""
    if s.routers[router].looked == now:
        return
    for i in range(ports.router[router].input_first, ports.router[router + 1].input_first):
        link = ports.inputs[i]
        queue = link * ports.lanes
        if s.links[link].blocked != 0 or s.queues[queue].arrived == s.queues[queue].slots:
            s.routers[router].looked = now
            push(s, now, LOOK, router)
            return


def avoid_deadlock(ports: Any, o: Any, s: Any, hook: Any, messages: int, kind: int, number: int, now: int) -> int:
    """NAC's control packets and timers; the router concerned."""
    if kind == LOOK:
        s.routers[number].looked = -1
        look_round(ports, o, s, number, now)
        return NONE
    if kind == IDENTIFICATION:
        link = s.probes[number].at
        hear_probe(ports, o, s, hook, number, now)
        return int(ports.link[link].start)
    if kind == RECOVERY:
        link = s.path[number, s.signals[number].place - 1]
        hear_signal(ports, o, s, hook, number, now)
        return int(ports.link[link].start)
    if s.clock[NEXT_MESSAGE] == messages and now - s.clock[LAST] > o.watchdog:
        s.clock[STATUS] = NO_PROGRESS
    else:
        try_again(ports, o, s, number, now)
    return NONE


def join(ports: Any, s: Any, queue: int, packet: int) -> int:
    """A packet begins in this queue; the queue, if the packet is its head."""
    append(s, queue, packet)
    s.queues[queue].arrived += 1
    return queue if s.queues[queue].arrived == 1 else NONE


def arrive(ports: Any, o: Any, s: Any, hook: Any, queue: int, now: int) -> tuple[int, int]:
    """The head of a packet reaches a buffer: (the queue, if it is at its head; the router where that is)."""
    s.queues[queue].arrived += 1
    router = s.queues[queue].router
    if hook is not None and queue < ports.links * ports.lanes:
        packet = s.queues[queue].head
        for _ in range(s.queues[queue].arrived - 1):
            packet = s.packets[packet].next
        s.packets[packet].came = ports.link[queue // ports.lanes].cable
        if o.overhear != 0 and s.packets[packet].kind == FAILURE_ACK:
            overhear(ports, s, hook, packet, router, now)
    return (queue if s.queues[queue].arrived == 1 else NONE), int(router)


def answer_or_notice(ports: Any, o: Any, s: Any, hook: Any, kind: int, number: int, now: int) -> tuple[int, int]:
    """A packet is whole at its host and its ACK sets off; or a notice sets off. As ``arrive``."""
    if kind == NOTICE:
        packet = s.noticed[number]
        router = s.packets[packet].source
        return join(ports, s, ports.notice_queue + router, packet), int(router)
    s.queues[number].arrived += 1
    ack = deliver(ports, o, s, hook, take_head(s, number), now)
    if ack >= 0:
        return join(ports, s, ports.source_queue + 2 * s.packets[ack].source + 1, ack), NONE
    return NONE, NONE


def change_cable(ports: Any, o: Any, s: Any, hook: Any, plan: Plan, cable: int, down: int, now: int) -> None:
    """A cable fails or works again: what waits for its links chooses anew (with FT-DRB), or is woken."""
    s.down[cable] = down
    low, high = plan.cable_first[cable], plan.cable_first[cable + 1]
    for i in range(low, high):
        link = plan.cable_links[i]
        s.links[link].kept = 0
        wake(s, link, now)
        wake(s, ports.link[link].entry, now)
        if hook is not None:
            if down == 0:
                if o.up_by_router != 0:
                    tell_up(ports, o, s, link, now)
            else:
                if o.tell_queued != 0:
                    tell_waiting(ports, o, s, link, now)
                ask_anew(ports, o, s, hook, ports.link[link].entry, now)
                if ports.link[link].entry != link:
                    ask_anew(ports, o, s, hook, link, now)
    if o.nac != 0:
        for i in range(low, high):
            look_later(ports, s, ports.link[plan.cable_links[i]].start, now)


def ask_anew(ports: Any, o: Any, s: Any, hook: Any, channel: int, now: int) -> None:
    """Those who ask for a channel that leads nowhere choose anew."""
    first = s.channels[channel].wait_first
    count = s.channels[channel].waits
    for place in range(s.channels[channel].ranks):
        for i in range(count):
            queue = s.waiting[first + i]
            if i < s.channels[channel].waits and s.queues[queue].rank == place and s.queues[queue].since <= now:
                withdraw(ports, s, queue)
                enlist(ports, o, s, hook, queue, now)
                wake(s, s.queues[queue].want, now)
                break


def tell_waiting(ports: Any, o: Any, s: Any, link: int, now: int) -> None:
    """In all data queues of the router before the dead link."""
    router = ports.link[link].start
    for i in range(ports.router[router].input_first, ports.router[router + 1].input_first):
        for lane in range(ports.data_lanes):
            tell_queued(ports, o, s, link, ports.inputs[i] * ports.lanes + lane, now)
    for i in range(ports.router[router].hosts_first, ports.router[router + 1].hosts_first):
        for lane in range(ports.data_lanes):
            tell_queued(ports, o, s, link, ports.host[ports.hosts_of[i]].uplink * ports.lanes + lane, now)
    if ports.two_stages != 0:
        for lane in range(ports.data_lanes):
            tell_queued(ports, o, s, link, (ports.links + link) * ports.lanes + lane, now)


INLINE = (join, arrive, look_later, serve)
STEPS = (answer_or_notice, avoid_deadlock, ask_anew, tell_waiting, change_cable)
"""For the compiled engine to register."""
