"""Virtual cut-through, step by step, over flat arrays: asking for a channel, arbitration, the grant, and what it wakes.

Nothing that could move ever waits: whatever makes a move possible (a channel, reader or slot that frees, an arrival) has an
event at that very tick. So it does not matter how many events too many there are, and engines can differ in them.
``hook`` is None, or FT-DRB's (paths, state, settings); numba leaves the code behind it out where it is None.
"""

from __future__ import annotations

from typing import Any

from testbed.simulator.drb_hooks import leave_router, target_of
from testbed.simulator.kernel_events import append, push, take_head, wake
from testbed.simulator.kernel_state import (
    ARRIVAL,
    DATA,
    DELIVERY,
    DIGEST,
    DONE,
    HOPS,
    LAST,
    LIVELOCKS,
    NEVER,
    NONE,
)

FIRST_CHOICE = 1 << 58
SECOND_CHOICE = 1 << 57


def enlist(ports: Any, o: Any, s: Any, hook: Any, queue: int, now: int) -> None:
    """The head of the queue asks for its channel, and is woken when that, its reader or a slot frees."""
    packet = s.queues.head[queue]
    router = ports.router_of[queue]
    if router < 0:
        channel = ports.uplink[s.packets.source[packet]]
    elif hook is not None:
        channel = leave_router(ports, o, s, hook, queue, packet, router, now)
    elif ports.two_stages != 0 and ports.links * ports.lanes <= queue < ports.source_queue:
        channel = queue // ports.lanes - ports.links
    else:
        link = ports.next_link[s.packets.variant[packet], router, ports.goal[s.packets.destination[packet]]]
        if link < 0:
            link = ports.downlink[s.packets.destination[packet]]
        channel = ports.entry[link]
    s.queues.want[queue] = channel
    s.queues.since[queue] = now
    c = s.channels
    c.waiting[ports.wait_first[channel] + c.waits[channel]] = queue
    c.waits[channel] += 1
    if c.busy[channel] > now:
        wake(s, channel, c.busy[channel])
    readers = c.readers[ports.reader[queue]]
    if readers > now:
        wake(s, channel, readers)
    wake_for_slots(ports, s, channel, now)


def wake_for_slots(ports: Any, s: Any, channel: int, now: int) -> None:
    """At the ticks already known at which the buffers behind the channel have room."""
    for lane in range(ports.lanes):
        behind = channel * ports.lanes + lane
        slots = ports.slots[behind]
        if slots > 0:
            free = s.queues.release[ports.slot_first[behind] + s.queues.sent[behind] % slots]
            if now < free < NEVER:
                wake(s, channel, free)


def withdraw(ports: Any, s: Any, queue: int) -> None:
    """The head of the queue asks no more."""
    c = s.channels
    channel = s.queues.want[queue]
    first = ports.wait_first[channel]
    last = first + c.waits[channel] - 1
    for i in range(first, last + 1):
        if c.waiting[i] == queue:
            c.waiting[i] = c.waiting[last]
            c.waits[channel] -= 1
            break
    s.queues.want[queue] = NONE


def lane_for(ports: Any, s: Any, hook: Any, channel: int, queue: int, now: int) -> int:
    """The first lane behind the channel that the queue's head may use and that has room; NONE: there is none."""
    packet = s.queues.head[queue]
    low, high = 0, ports.data_lanes
    if s.packets.kind[packet] != DATA:
        low, high = ports.data_lanes, ports.data_lanes + 1
    elif channel < ports.links and ports.two_stages != 0 and ports.router_of[queue] >= 0:
        low = s.queues.lane[queue]
        high = low + 1
    elif ports.classes == 2 and ports.router_of[queue] >= 0:
        link = channel if channel < ports.links else channel - ports.links
        if ports.link_to[link] >= 0:
            target = ports.goal[s.packets.destination[packet]]
            if hook is not None:
                target = target_of(ports, s, packet)
            half = ports.data_lanes // 2
            if ports.lane_class[s.packets.variant[packet], ports.router_of[queue], target] == 0:
                high = half
            else:
                low = half
    for lane in range(low, high):
        behind = channel * ports.lanes + lane
        slots = ports.slots[behind]
        if slots == 0:
            return int(lane)
        if s.queues.release[ports.slot_first[behind] + s.queues.sent[behind] % slots] <= now:
            return int(lane)
    return NONE


def room_behind(ports: Any, s: Any, link: int, now: int) -> int:
    """Free slots of the logic buffer of an output: its output buffer and the input buffer after the link (by credits)."""
    behind = link * ports.lanes
    slots = ports.slots[behind]
    room = 0
    while room < slots and (
        s.queues.release[ports.slot_first[behind] + (s.queues.sent[behind] + room) % slots] <= now
    ):
        room += 1
    if ports.two_stages != 0:
        own = (ports.links + link) * ports.lanes
        room += ports.slots[own] - s.queues.held[own]
    return int(room)


def may_go(ports: Any, o: Any, s: Any, channel: int, queue: int, now: int) -> bool:
    """Whether NAC lets the queue's head ask for the channel: local injection stopped, a slot kept for another (4.2)."""
    link = channel if channel < ports.links else channel - ports.links
    if ports.router_of[queue] < 0 or (ports.two_stages != 0 and channel < ports.links):
        return True
    router = ports.router_of[queue]
    if queue < ports.links * ports.lanes:
        own = queue // ports.lanes
        if o.stop_local != 0 and ports.link_from[own] < 0 and s.cycles.stopped[router] > 0:
            return False
        if o.own_request == 0 and s.queues.held[ports.spare_queue + own] > 0:
            return False
    if s.cycles.kept[link] > 0 and ports.link_to[link] >= 0:
        holder = s.cycles.holder[link]
        if queue != holder * ports.lanes and queue != ports.spare_queue + holder:
            return room_behind(ports, s, link, now) > s.cycles.kept[link]
    return True


def arbitrate(ports: Any, o: Any, s: Any, hook: Any, channel: int, now: int) -> None:
    """Give the channel to one of those who ask for it, if it is idle: ACKs, then avoidance buffers, then round robin or FIFO."""
    c, q = s.channels, s.queues
    if c.busy[channel] > now or c.waits[channel] == 0:
        return
    if channel < ports.links:
        cable = ports.cable[channel]
        if cable >= 0 and c.down[cable] != 0:
            return
    first = ports.wait_first[channel]
    best, chosen, chosen_lane = NEVER, NONE, NONE
    for i in range(first, first + c.waits[channel]):
        queue = c.waiting[i]
        if c.readers[ports.reader[queue]] > now:
            continue
        if o.nac != 0 and not may_go(ports, o, s, channel, queue, now):
            continue
        lane = lane_for(ports, s, hook, channel, queue, now)
        if lane < 0:
            continue
        if o.fifo != 0:
            place = int(q.since[queue]) * 4096 + int(ports.rank[queue])
        else:
            place = int(ports.rank[queue] - c.last[channel] - 1) % int(ports.ranks[channel])
        if s.packets.kind[q.head[queue]] == DATA:
            place += SECOND_CHOICE if queue >= ports.spare_queue else FIRST_CHOICE
        if place < best:
            best, chosen, chosen_lane = place, queue, lane
    if chosen >= 0:
        grant(ports, o, s, hook, channel, chosen, chosen_lane, now)


def grant(ports: Any, o: Any, s: Any, hook: Any, channel: int, queue: int, lane: int, now: int) -> None:
    """The queue's head goes over the channel: what it leaves frees, where it goes fills, others are woken."""
    c, p = s.channels, s.packets
    withdraw(ports, s, queue)
    packet = take_head(s, queue)
    done = now + p.ticks[packet]
    free_slot(ports, o, s, queue, now if o.head_release != 0 else done)
    c.busy[channel] = done
    c.last[channel] = ports.rank[queue]
    c.carried[channel] += 1
    clock = s.run.clock
    clock[LAST] = now
    clock[DIGEST] = (clock[DIGEST] * 48271 + channel * 7919 + p.number[packet] * 31 + now) & 0x7FFFFFFF
    if s.run.traced[0] < len(s.run.trace):
        at = s.run.traced[0]
        s.run.trace[at, 0], s.run.trace[at, 1], s.run.trace[at, 2] = now, channel, p.number[packet]
        s.run.traced[0] = at + 1
    leave(ports, o, s, hook, channel, packet, lane, now)
    c.readers[ports.reader[queue]] = done
    reader = ports.reader[queue]
    for other in range(ports.reader_first[reader], ports.reader_first[reader] + ports.reader_count[reader]):
        if s.queues.want[other] >= 0:
            wake(s, s.queues.want[other], done)
    if c.waits[channel] > 0:
        wake(s, channel, done)
        wake_for_slots(ports, s, channel, now)
    if s.queues.arrived[queue] > 0:
        enlist(ports, o, s, hook, queue, now)
    if o.nac != 0:
        use_kept_slot(ports, s, channel, queue, now)


def leave(ports: Any, o: Any, s: Any, hook: Any, channel: int, packet: int, lane: int, now: int) -> None:
    """The packet is on its way over the channel: to the next buffer, or to its host."""
    p, clock = s.packets, s.run.clock
    head = now + ports.delay[channel]
    p.tail[packet] = head + p.ticks[packet]
    behind = channel * ports.lanes + lane
    if channel < ports.links:
        if ports.link_from[channel] < 0:
            p.entered[packet] = now
        else:
            p.hops[packet] += 1
            if p.kind[packet] == DATA:
                clock[HOPS] += 1
                if p.hops[packet] == o.hop_cap:
                    clock[LIVELOCKS] += 1
        if ports.host_at[channel] >= 0:
            if hook is None:
                p.delivered[packet] = p.tail[packet]
                clock[DONE] += 1
            else:
                append(s, behind, packet)
                push(s, p.tail[packet], DELIVERY, behind)
            return
    append(s, behind, packet)
    s.queues.sent[behind] += 1
    push(s, head, ARRIVAL, behind)


def free_slot(ports: Any, o: Any, s: Any, queue: int, gone: int) -> None:
    """The slot of the packet that leaves the queue is free when it has gone and the credit is back."""
    slots = ports.slots[queue]
    if slots == 0:
        return
    feeder = queue // ports.lanes
    free = gone if feeder >= ports.links else gone + o.credit_delay
    s.queues.release[ports.slot_first[queue] + s.queues.removed[queue] % slots] = free
    s.queues.removed[queue] += 1
    if s.channels.waits[feeder] > 0 or o.nac != 0:
        wake(s, feeder, free)


def use_kept_slot(ports: Any, s: Any, channel: int, queue: int, now: int) -> None:
    """After a grant: a slot that was kept is used; an avoidance buffer that is empty again lets its router go on."""
    y = s.cycles
    if ports.two_stages == 0 or channel >= ports.links:
        link = channel if channel < ports.links else channel - ports.links
        if y.kept[link] > 0:
            holder = y.holder[link]
            if queue == holder * ports.lanes or queue == ports.spare_queue + holder:
                y.kept[link] -= 1
    if queue >= ports.spare_queue:
        own = queue - ports.spare_queue
        start_local(ports, s, ports.link_to[own], now)
        waiting = s.queues.want[own * ports.lanes]
        if waiting >= 0:
            wake(s, waiting, now)


def start_local(ports: Any, s: Any, router: int, now: int) -> None:
    """One reason less to stop local injection; with none left, its hosts' packets ask again."""
    s.cycles.stopped[router] -= 1
    if s.cycles.stopped[router] == 0:
        for i in range(ports.hosts_first[router], ports.hosts_first[router + 1]):
            channel = s.queues.want[ports.uplink[ports.hosts_of[i]] * ports.lanes]
            if channel >= 0:
                wake(s, channel, now)


STEPS = (
    wake_for_slots,
    withdraw,
    lane_for,
    room_behind,
    may_go,
    start_local,
    free_slot,
    use_kept_slot,
    leave,
    enlist,
    grant,
    arbitrate,
)
"""For the compiled engine to register."""
