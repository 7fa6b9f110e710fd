"""The events and the queues' linked lists: what every other step stands on.

An event's key holds tick, kind and number, so that no two orders are possible. Three places hold what is to come, and the smallest
key of all is next: a small heap of events of this very tick, which are half of all; a heap of later ones; and identification
packets, which all take as long and so arrive in the order in which they were sent.
"""

from __future__ import annotations

from typing import Any

from testbed.interconnect.compiled.kernel_state import (
    HEAP_FULL,
    ID_BITS,
    ID_MASK,
    IDENTIFICATION,
    KEY_SHIFT,
    NEVER,
    NO_EVENT,
    POOL_FULL,
    WAKE,
)
from testbed.interconnect.static_paths import NONE


def push(s: Any, tick: int, kind: int, number: int) -> None:
    """Let an event happen at the tick."""
    key = (tick << KEY_SHIFT) | (kind << ID_BITS) | number
    if tick == s.run[0].now and s.run[0].soon_size < len(s.soon):
        rise(s.soon, s.run[0].soon_size, key)
        s.run[0].soon_size += 1
        return
    if s.run[0].heap_size >= len(s.heap):
        s.run[0].status = HEAP_FULL
        return
    rise(s.heap, s.run[0].heap_size, key)
    s.run[0].heap_size += 1


def rise(heap: Any, at: int, key: int) -> None:
    """Put the key into a heap of ``at`` keys."""
    while at > 0:
        above = (at - 1) >> 1
        if heap[above] <= key:
            break
        heap[at] = heap[above]
        at = above
    heap[at] = key


def sink(heap: Any, count: int) -> None:
    """Take the first key out of a heap, of which ``count`` are left."""
    key = heap[count]
    at = 0
    below = 1
    while below < count:
        if below + 1 < count and heap[below + 1] < heap[below]:
            below += 1
        if heap[below] >= key:
            break
        heap[at] = heap[below]
        at = below
        below = 2 * at + 1
    heap[at] = key


def next_identification(s: Any) -> int:
    """The key of the identification packet that arrives next; NO_EVENT: none is under way."""
    first = s.run[0].arrived_identifications
    if first == s.run[0].identifications:
        return NO_EVENT
    number = first & ID_MASK
    return int((s.identifications[number].tick << KEY_SHIFT) | (IDENTIFICATION << ID_BITS) | number)


def next_event(s: Any) -> int:
    """The key of the event that happens next, identification packets aside; NO_EVENT: there is none."""
    key = NO_EVENT
    if s.run[0].heap_size > 0:
        key = s.heap[0]
    if s.run[0].soon_size > 0:
        key = min(key, s.soon[0])
    return key


def take_event(s: Any, key: int) -> None:
    """Take the next event, whose key this is, out of where it is kept."""
    if s.run[0].soon_size > 0 and s.soon[0] == key:
        s.run[0].soon_size -= 1
        sink(s.soon, s.run[0].soon_size)
    else:
        s.run[0].heap_size -= 1
        sink(s.heap, s.run[0].heap_size)


def wake(s: Any, channel: int, tick: int) -> None:
    """Arbitrate the channel at that tick."""
    if s.channels[channel].woken != tick:
        s.channels[channel].woken = tick
        push(s, tick, WAKE, channel)


def new_packet(s: Any, kind: int, number: int, source: int, destination: int, ticks: int) -> int:
    """A packet out of the pool, the one that was used last; NONE, and the run stops, where all are in use."""
    if s.run[0].free_packets > 0:
        s.run[0].free_packets -= 1
        packet = int(s.free[s.run[0].free_packets])
    elif s.run[0].used_packets < len(s.packets):
        packet = int(s.run[0].used_packets)
        s.run[0].used_packets += 1
    else:
        s.run[0].status = POOL_FULL
        return NONE
    made = s.packets[packet]
    made.ticks, made.number, made.source, made.destination = ticks, number, source, destination
    made.hops, made.escapes, made.came_over, made.failed_cable = 0, 0, NONE, NONE
    made.first, made.second = NONE, NONE
    made.kind, made.variant, made.header, made.escaped = kind, 0, 0, 0
    return packet


def drop_packet(s: Any, packet: int) -> None:
    """The packet is nowhere any more."""
    s.free[s.run[0].free_packets] = packet
    s.run[0].free_packets += 1


def record_delivery(s: Any, packet: int, tick: int) -> None:
    """A message is whole at its host at that tick."""
    done = s.packets[packet]
    s.delivered[done.number] = tick
    s.hops[done.number] = done.hops
    s.escapes[done.number] = done.escapes
    s.run[0].deliveries += 1


def append(s: Any, queue: int, packet: int) -> None:
    """Behind the last of the queue; whether it has arrived is another matter."""
    s.packets[packet].next = NONE
    if s.queues[queue].held == 0:
        s.queues[queue].head = packet
    else:
        s.packets[s.queues[queue].tail].next = packet
    s.queues[queue].tail = packet
    s.queues[queue].held += 1


def take_head(s: Any, queue: int) -> int:
    """Remove the head, which has arrived."""
    packet = s.queues[queue].head
    s.queues[queue].head = s.packets[packet].next
    s.queues[queue].held -= 1
    s.queues[queue].arrived -= 1
    return int(packet)


def take_slot(s: Any, queue: int) -> None:
    """A packet is under way into the queue: its next slot is taken."""
    if s.queues[queue].slots > 0:
        s.release[s.queues[queue].fill_at] = NEVER
        s.queues[queue].fill_at = slot_after(s, queue, s.queues[queue].fill_at)


def leave_slot(s: Any, queue: int) -> int:
    """A packet leaves the queue: where the release of its slot is to be written."""
    place = s.queues[queue].leave_at
    s.queues[queue].leave_at = slot_after(s, queue, place)
    return int(place)


def slot_after(s: Any, queue: int, place: int) -> int:
    """The slot that is used after this one."""
    first = s.queues[queue].slot_first
    return int(place + 1 if place + 1 < first + s.queues[queue].slots else first)


INLINE = (
    slot_after,
    rise,
    sink,
    push,
    next_identification,
    next_event,
    take_event,
    wake,
    new_packet,
    drop_packet,
    record_delivery,
    append,
    take_head,
    take_slot,
    leave_slot,
)
"""For the compiled engine to register, put into their callers."""
