"""The loop over events that puts the steps together: one function, run in Python or compiled.

Events of one tick happen by kind, then by number (kernel_state.py); a message is made between arrivals and deliveries.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from testbed.simulator.drb_hooks import deliver, overhear, set_off, tell_queued, tell_up
from testbed.simulator.engine_steps import arbitrate, enlist, withdraw
from testbed.simulator.kernel_events import append, pop, push, take_head, wake
from testbed.simulator.kernel_state import (
    ARRIVAL,
    CABLE_EVENT,
    DELIVERY,
    EVENTS,
    FAILURE_ACK,
    FINISHED,
    ID_BITS,
    ID_MASK,
    IDENTIFICATION,
    INJECTION,
    KEY_SHIFT,
    LAST,
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
from testbed.simulator.nac_steps import hear_probe, hear_signal, look_round, try_again


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
    clock = s.run.clock
    messages = len(plan.born)
    for i in range(len(plan.event_tick)):
        push(s, plan.event_tick[i], CABLE_EVENT, i)
    while clock[STATUS] == RUNNING:
        message = clock[NEXT_MESSAGE]
        pending = s.events.size[0] > 0
        if message < messages and (
            not pending or s.events.heap[0] > (plan.born[message] << KEY_SHIFT) | (INJECTION << ID_BITS)
        ):
            clock[NEXT_MESSAGE] = message + 1
            inject(ports, o, s, hook, message, plan.born[message])
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
        happen(ports, o, s, hook, plan, (key >> ID_BITS) & 15, key & ID_MASK, now)


def happen(ports: Any, o: Any, s: Any, hook: Any, plan: Plan, kind: int, number: int, now: int) -> None:
    """One event."""
    router = NONE
    if kind == ARRIVAL:
        router = arrive(ports, o, s, hook, number, now)
    elif kind == WAKE:
        if s.channels.woken[number] == now:
            s.channels.woken[number] = -1
        arbitrate(ports, o, s, hook, number, now)
        link = number if number < ports.links else number - ports.links
        router = ports.link_from[link]
        if o.nac != 0 and number < ports.links and ports.entry[number] != number:
            arbitrate(ports, o, s, hook, ports.entry[number], now)
    elif kind == IDENTIFICATION:
        link = s.cycles.at[number]
        hear_probe(ports, o, s, hook, number, now)
        router = ports.link_from[link]
    elif kind == RECOVERY:
        link = s.cycles.path[number, s.cycles.place[number] - 1]
        hear_signal(ports, o, s, hook, number, now)
        router = ports.link_from[link]
    elif kind > RECOVERY:
        if s.run.clock[NEXT_MESSAGE] == len(plan.born) and now - s.run.clock[LAST] > o.watchdog:
            s.run.clock[STATUS] = NO_PROGRESS
        else:
            try_again(ports, o, s, number, now)
    elif kind == CABLE_EVENT:
        change_cable(ports, o, s, hook, plan, plan.event_cable[number], plan.event_down[number], now)
    elif hook is not None:
        if kind == DELIVERY:
            finish(ports, o, s, hook, number, now)
        elif kind == NOTICE:
            packet = s.packets.noticed[number]
            router = s.packets.source[packet]
            join(ports, o, s, hook, ports.notice_queue + router, packet, now)
    if o.nac != 0 and router >= 0:
        look_round(ports, o, s, router, now)


def join(ports: Any, o: Any, s: Any, hook: Any, queue: int, packet: int, now: int) -> None:
    """A packet that begins in this queue."""
    append(s, queue, packet)
    s.queues.arrived[queue] += 1
    if s.queues.arrived[queue] == 1:
        enlist(ports, o, s, hook, queue, now)
        arbitrate(ports, o, s, hook, s.queues.want[queue], now)


def inject(ports: Any, o: Any, s: Any, hook: Any, message: int, now: int) -> None:
    """A message is made."""
    if hook is not None:
        set_off(s, hook, message, now)
    join(ports, o, s, hook, ports.source_queue + 2 * s.packets.source[message], message, now)


def arrive(ports: Any, o: Any, s: Any, hook: Any, queue: int, now: int) -> int:
    """The head of a packet reaches a buffer; the router where that is."""
    s.queues.arrived[queue] += 1
    router = ports.router_of[queue]
    if hook is not None:
        packet = s.queues.head[queue]
        for _ in range(s.queues.arrived[queue] - 1):
            packet = s.packets.next[packet]
        if queue < ports.links * ports.lanes:
            s.packets.came[packet] = ports.cable[queue // ports.lanes]
            if o.overhear != 0 and s.packets.kind[packet] == FAILURE_ACK:
                overhear(ports, s, hook, packet, router, now)
    if s.queues.arrived[queue] == 1:
        enlist(ports, o, s, hook, queue, now)
        arbitrate(ports, o, s, hook, s.queues.want[queue], now)
    return int(router)


def finish(ports: Any, o: Any, s: Any, hook: Any, queue: int, now: int) -> None:
    """A packet is whole at its host; its ACK sets off."""
    s.queues.arrived[queue] += 1
    packet = take_head(s, queue)
    ack = deliver(ports, o, s, hook, packet, now)
    if ack >= 0:
        join(ports, o, s, hook, ports.source_queue + 2 * s.packets.source[ack] + 1, ack, now)


def change_cable(ports: Any, o: Any, s: Any, hook: Any, plan: Plan, cable: int, down: int, now: int) -> None:
    """A cable fails or works again: what waits for its links chooses anew (with FT-DRB), or is woken."""
    s.channels.down[cable] = down
    low, high = plan.cable_first[cable], plan.cable_first[cable + 1]
    for i in range(low, high):
        link = plan.cable_links[i]
        s.cycles.kept[link] = 0
        wake(s, link, now)
        wake(s, ports.entry[link], now)
        if hook is not None:
            if down == 0:
                if o.up_by_router != 0:
                    tell_up(ports, o, s, link, now)
            else:
                if o.tell_queued != 0:
                    tell_waiting(ports, o, s, link, now)
                ask_anew(ports, o, s, hook, ports.entry[link], now)
                if ports.entry[link] != link:
                    ask_anew(ports, o, s, hook, link, now)


def ask_anew(ports: Any, o: Any, s: Any, hook: Any, channel: int, now: int) -> None:
    """Those who ask for a channel that leads nowhere choose anew."""
    first = ports.wait_first[channel]
    count = s.channels.waits[channel]
    for place in range(ports.ranks[channel]):
        for i in range(count):
            queue = s.channels.waiting[first + i]
            if i < s.channels.waits[channel] and ports.rank[queue] == place and s.queues.since[queue] <= now:
                withdraw(ports, s, queue)
                enlist(ports, o, s, hook, queue, now)
                arbitrate(ports, o, s, hook, s.queues.want[queue], now)
                break


def tell_waiting(ports: Any, o: Any, s: Any, link: int, now: int) -> None:
    """In all data queues of the router before the dead link."""
    router = ports.link_from[link]
    for i in range(ports.input_first[router], ports.input_first[router + 1]):
        for lane in range(ports.data_lanes):
            tell_queued(ports, o, s, link, ports.inputs[i] * ports.lanes + lane, now)
    for i in range(ports.hosts_first[router], ports.hosts_first[router + 1]):
        for lane in range(ports.data_lanes):
            tell_queued(ports, o, s, link, ports.uplink[ports.hosts_of[i]] * ports.lanes + lane, now)
    if ports.two_stages != 0:
        for lane in range(ports.data_lanes):
            tell_queued(ports, o, s, link, (ports.links + link) * ports.lanes + lane, now)


STEPS = (join, arrive, inject, finish, ask_anew, tell_waiting, change_cable, happen)
"""For the compiled engine to register."""
