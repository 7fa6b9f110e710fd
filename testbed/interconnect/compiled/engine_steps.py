"""Virtual cut-through, step by step, over flat arrays: asking for a channel, arbitration, the grant, and what it wakes.

Nothing that could move ever waits: whatever makes a move possible (a channel, reader or slot that frees, an arrival) has an
event at that very tick. So it does not matter how many events too many there are, and engines can differ in them.
``hook`` is None, or FT-DRB's (paths, state, settings); numba leaves the code behind it out where it is None.
"""

from __future__ import annotations

from typing import Any

from testbed.interconnect.compiled.drb_hooks import leave_router, target_of
from testbed.interconnect.compiled.kernel_events import append, pass_slot, push, take_head, take_slot, wake
from testbed.interconnect.compiled.kernel_state import (
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
    TRACED,
)

FIRST_CHOICE = 1 << 58
SECOND_CHOICE = 1 << 57


def enlist(ports: Any, o: Any, s: Any, hook: Any, queue: int, now: int) -> None:
    """The head of the queue asks for its channel, and is woken when that, its reader or a slot frees."""
    packet = s.queues[queue].head
    router = s.queues[queue].router
    if router < 0:
        channel = ports.host[s.packets[packet].source].uplink
    elif hook is not None:
        channel = leave_router(ports, o, s, hook, queue, packet, router, now)
    elif ports.two_stages != 0 and ports.links * ports.lanes <= queue < ports.source_queue:
        channel = queue // ports.lanes - ports.links
    else:
        link = ports.next_link[s.packets[packet].variant, router, ports.host[s.packets[packet].destination].goal]
        if link < 0:
            link = ports.host[s.packets[packet].destination].downlink
        channel = ports.link[link].entry
    s.queues[queue].want = channel
    s.queues[queue].since = now
    s.waiting[s.channels[channel].wait_first + s.channels[channel].waits] = queue
    s.channels[channel].waits += 1
    if s.channels[channel].busy > now:
        wake(s, channel, s.channels[channel].busy)
    readers = s.readers[s.queues[queue].reader].busy
    if readers > now:
        wake(s, channel, readers)
    wake_for_slots(ports, s, channel, now)
    if o.nac != 0 and channel >= ports.links:
        wake_for_slots(ports, s, channel - ports.links, now)


def wake_for_slots(ports: Any, s: Any, channel: int, now: int) -> None:
    """At the ticks already known at which the buffers behind the channel have room."""
    for lane in range(ports.lanes):
        behind = channel * ports.lanes + lane
        slots = s.queues[behind].slots
        if slots > 0:
            free = s.release[s.queues[behind].fill_at]
            if now < free < NEVER:
                wake(s, channel, free)


def withdraw(ports: Any, s: Any, queue: int) -> None:
    """The head of the queue asks no more."""
    channel = s.queues[queue].want
    first = s.channels[channel].wait_first
    last = first + s.channels[channel].waits - 1
    for i in range(first, last + 1):
        if s.waiting[i] == queue:
            s.waiting[i] = s.waiting[last]
            s.channels[channel].waits -= 1
            break
    s.queues[queue].want = NONE


def lane_for(ports: Any, s: Any, hook: Any, channel: int, queue: int, now: int) -> int:
    """The first lane behind the channel that the queue's head may use and that has room; NONE: there is none."""
    packet = s.queues[queue].head
    low, high = 0, ports.data_lanes
    if s.packets[packet].kind != DATA:
        low, high = ports.data_lanes, ports.data_lanes + 1
    elif channel < ports.links and ports.two_stages != 0 and s.queues[queue].router >= 0:
        low = s.queues[queue].lane
        high = low + 1
    elif ports.classes == 2 and s.queues[queue].router >= 0:
        link = channel if channel < ports.links else channel - ports.links
        if ports.link[link].end >= 0:
            target = ports.host[s.packets[packet].destination].goal
            if hook is not None:
                target = target_of(ports, s, packet)
            half = ports.data_lanes // 2
            if ports.lane_class[s.packets[packet].variant, s.queues[queue].router, target] == 0:
                high = half
            else:
                low = half
    for lane in range(low, high):
        behind = channel * ports.lanes + lane
        slots = s.queues[behind].slots
        if slots == 0:
            return int(lane)
        if s.release[s.queues[behind].fill_at] <= now:
            return int(lane)
    return NONE


def room_behind(ports: Any, s: Any, link: int, now: int) -> int:
    """Free slots of the logic buffer of an output: its output buffer and the input buffer after the link (by credits)."""
    behind = link * ports.lanes
    slots = s.queues[behind].slots
    room, place = 0, s.queues[behind].fill_at
    while room < slots and s.release[place] <= now:
        room += 1
        place += 1
        if place == s.queues[behind].slot_first + slots:
            place = s.queues[behind].slot_first
    if ports.two_stages != 0:
        own = (ports.links + link) * ports.lanes
        room += s.queues[own].slots - s.queues[own].held
    return int(room)


def may_go(ports: Any, o: Any, s: Any, channel: int, queue: int, now: int) -> bool:
    """Whether NAC lets the queue's head ask for the channel: local injection stopped, a slot kept for another (4.2)."""
    link = channel if channel < ports.links else channel - ports.links
    if s.queues[queue].router < 0 or (ports.two_stages != 0 and channel < ports.links):
        return True
    router = s.queues[queue].router
    if queue < ports.links * ports.lanes:
        own = queue // ports.lanes
        if o.stop_local != 0 and ports.link[own].start < 0 and s.routers[router].stopped > 0:
            return False
        if o.own_request == 0 and s.queues[ports.spare_queue + own].held > 0:
            return False
    if s.links[link].kept > 0 and ports.link[link].end >= 0:
        holder = s.links[link].holder
        if queue != holder * ports.lanes and queue != ports.spare_queue + holder:
            return bool(room_behind(ports, s, link, now) > s.links[link].kept)
    return True


def arbitrate(ports: Any, o: Any, s: Any, hook: Any, channel: int, now: int) -> None:
    """Give the channel to one of those who ask for it, if it is idle: ACKs, then avoidance buffers, then round robin or FIFO."""
    if s.channels[channel].busy > now or s.channels[channel].waits == 0:
        return
    if channel < ports.links:
        cable = ports.link[channel].cable
        if cable >= 0 and s.down[cable] != 0:
            return
    first = s.channels[channel].wait_first
    best, chosen, chosen_lane = NEVER, NONE, NONE
    for i in range(first, first + s.channels[channel].waits):
        queue = s.waiting[i]
        if s.readers[s.queues[queue].reader].busy > now:
            continue
        if o.nac != 0 and not may_go(ports, o, s, channel, queue, now):
            continue
        lane = lane_for(ports, s, hook, channel, queue, now)
        if lane < 0:
            continue
        if o.fifo != 0:
            place = int(s.queues[queue].since) * 4096 + int(s.queues[queue].rank)
        else:
            place = int(s.queues[queue].rank) - int(s.channels[channel].last) - 1
            if place < 0:
                place += int(s.channels[channel].ranks)
        if s.packets[s.queues[queue].head].kind == DATA:
            place += SECOND_CHOICE if queue >= ports.spare_queue else FIRST_CHOICE
        if place < best:
            best, chosen, chosen_lane = place, queue, lane
    if chosen >= 0:
        grant(ports, o, s, hook, channel, chosen, chosen_lane, now)


def grant(ports: Any, o: Any, s: Any, hook: Any, channel: int, queue: int, lane: int, now: int) -> None:
    """The queue's head goes over the channel: what it leaves frees, where it goes fills, others are woken."""
    withdraw(ports, s, queue)
    packet = take_head(s, queue)
    done = now + s.packets[packet].ticks
    free_slot(ports, o, s, queue, now if o.head_release != 0 else done)
    s.channels[channel].busy = done
    s.channels[channel].last = s.queues[queue].rank
    s.channels[channel].carried += 1
    clock = s.clock
    clock[LAST] = now
    clock[DIGEST] = (clock[DIGEST] * 48271 + channel * 7919 + s.packets[packet].number * 31 + now) & 0x7FFFFFFF
    if s.clock[TRACED] < len(s.trace):
        at = s.clock[TRACED]
        s.trace[at, 0], s.trace[at, 1], s.trace[at, 2] = now, channel, s.packets[packet].number
        s.clock[TRACED] = at + 1
    leave(ports, o, s, hook, channel, packet, lane, now)
    s.readers[s.queues[queue].reader].busy = done
    reader = s.queues[queue].reader
    for other in range(s.readers[reader].first, s.readers[reader].first + s.readers[reader].count):
        if s.queues[other].want >= 0:
            wake(s, s.queues[other].want, done)
    if s.channels[channel].waits > 0:
        wake(s, channel, done)
        wake_for_slots(ports, s, channel, now)
    if s.queues[queue].arrived > 0:
        enlist(ports, o, s, hook, queue, now)
    if o.nac != 0:
        use_kept_slot(ports, s, channel, queue, now)


def leave(ports: Any, o: Any, s: Any, hook: Any, channel: int, packet: int, lane: int, now: int) -> None:
    """The packet is on its way over the channel: to the next buffer, or to its host."""
    clock = s.clock
    head = now + s.channels[channel].delay
    s.packets[packet].tail = head + s.packets[packet].ticks
    behind = channel * ports.lanes + lane
    if channel < ports.links:
        if ports.link[channel].start < 0:
            s.packets[packet].entered = now
        else:
            s.packets[packet].hops += 1
            if s.packets[packet].kind == DATA:
                clock[HOPS] += 1
                if s.packets[packet].hops == o.hop_cap:
                    clock[LIVELOCKS] += 1
        if ports.link[channel].host >= 0:
            if hook is None:
                s.packets[packet].delivered = s.packets[packet].tail
                clock[DONE] += 1
            else:
                append(s, behind, packet)
                push(s, s.packets[packet].tail, DELIVERY, behind)
            return
    append(s, behind, packet)
    take_slot(s, behind)
    push(s, head, ARRIVAL, behind)


def free_slot(ports: Any, o: Any, s: Any, queue: int, gone: int) -> None:
    """The slot of the packet that leaves the queue is free when it has gone and the credit is back."""
    slots = s.queues[queue].slots
    if slots == 0:
        return
    feeder = s.queues[queue].feeder
    free = gone if feeder >= ports.links else gone + o.credit_delay
    s.release[pass_slot(s, queue)] = free
    asked = s.channels[feeder].waits
    if o.nac != 0 and feeder < ports.links:
        asked += s.channels[ports.link[feeder].entry].waits
    if asked > 0:
        wake(s, feeder, free)


def use_kept_slot(ports: Any, s: Any, channel: int, queue: int, now: int) -> None:
    """After a grant: a slot that was kept is used; an avoidance buffer that is empty again lets its router go on."""
    if ports.two_stages == 0 or channel >= ports.links:
        link = channel if channel < ports.links else channel - ports.links
        if s.links[link].kept > 0:
            holder = s.links[link].holder
            if queue == holder * ports.lanes or queue == ports.spare_queue + holder:
                s.links[link].kept -= 1
    if queue >= ports.spare_queue:
        own = queue - ports.spare_queue
        start_local(ports, s, ports.link[own].end, now)
        waiting = s.queues[own * ports.lanes].want
        if waiting >= 0:
            wake(s, waiting, now)


def start_local(ports: Any, s: Any, router: int, now: int) -> None:
    """One reason less to stop local injection; with none left, its hosts' packets ask again."""
    s.routers[router].stopped -= 1
    if s.routers[router].stopped == 0:
        for i in range(ports.router[router].hosts_first, ports.router[router + 1].hosts_first):
            channel = s.queues[ports.host[ports.hosts_of[i]].uplink * ports.lanes].want
            if channel >= 0:
                wake(s, channel, now)


INLINE = (wake_for_slots, withdraw, lane_for, free_slot, leave, enlist, grant, arbitrate)
STEPS = (room_behind, may_go, start_local, use_kept_slot)
"""For the compiled engine to register; the former are put into their callers, since the tables cost much to hand over."""
