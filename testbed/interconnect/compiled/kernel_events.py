"""Events, and the linked lists of queues, which all other steps use.

An event's key consists of tick, kind and number, so that only one order is possible. The smallest
key is the next event.

Time is divided into buckets of equally many ticks. Events of the bucket that the run has reached
are sorted in a small ring, ``soon``. Events of the current tick are inserted at its front and later
ones at its back, so few are moved. Events of later buckets are in a wheel of lists, one per bucket
(Brown's calendar queue, with buckets of fixed width). Events beyond its reach, or for which the
ring has no room, are in a heap. If there are few events, all are in the ring.

All identification packets take the same time, and so arrive in the order in which they were sent.
They have a ring of their own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from testbed.arrays import IntArray
from testbed.interconnect.compiled import kernel_records as kr
from testbed.interconnect.compiled.kernel_state import State, Tables
from testbed.interconnect.static_paths import NONE
from testbed.jit import first_bit, inline


def push(s: State, tick: int, kind: int, number: int) -> None:
    """Add an event.

    Args:
        s: The state.
        tick: When it happens.
        kind: Its kind (``kernel_records``).
        number: What it concerns; the meaning depends on the kind.
    """
    push_here(s, tick, kind, number)


@inline
def push_here(s: State, tick: int, kind: int, number: int) -> None:
    """Add an event; the code of ``push``, put where it is called."""
    run = s.run[0]
    key = (int(tick) << kr.KEY_SHIFT) | (kind << kr.ID_BITS) | int(number)
    if tick == run.now:
        into_soon(s, key)
        return
    bucket = tick >> run.wheel_shift
    size = run.soon_last - run.soon_first
    few = run.wheel_size == 0 and size < kr.FEW
    if few and bucket > run.bucket and bucket - (run.now >> run.wheel_shift) < len(s.wheel):
        run.bucket = bucket
    if bucket <= run.bucket and size < kr.SOON - 1:
        at = run.soon_last
        run.soon_last += 1
        s.soon[run.soon_last & (kr.SOON - 1)] = kr.NO_EVENT
        while at > run.soon_first and s.soon[(at - 1) & (kr.SOON - 1)] > key:
            s.soon[at & (kr.SOON - 1)] = s.soon[(at - 1) & (kr.SOON - 1)]
            at -= 1
        s.soon[at & (kr.SOON - 1)] = key
    elif 0 < bucket - run.bucket < len(s.wheel):
        into_wheel(s, bucket & (len(s.wheel) - 1), key)
    else:
        into_heap(s, key)


@inline
def bit(position: int) -> Any:
    """Return a word of 64 bits in which only this bit is 1.

    The conversion has the same result in Python for every kind of integer.
    """
    return np.int64(1) << np.int64(position)


@inline
def into_soon(s: State, key: int) -> None:
    """Insert a key into the ring of the next events, near its front."""
    run = s.run[0]
    if run.soon_last - run.soon_first == kr.SOON - 1:
        into_heap(s, key)
        return
    at = run.soon_first
    run.soon_first -= 1
    while s.soon[at & (kr.SOON - 1)] < key:
        s.soon[(at - 1) & (kr.SOON - 1)] = s.soon[at & (kr.SOON - 1)]
        at += 1
    s.soon[(at - 1) & (kr.SOON - 1)] = key


def into_heap(s: State, key: int) -> None:
    """Add a key to the heap; if it is full, the run starts again with a larger one."""
    if s.run[0].heap_size >= len(s.heap):
        s.run[0].status = kr.HEAP_FULL
    else:
        sift_up(s.heap, s.run[0].heap_size, key)
        s.run[0].heap_size += 1


def into_wheel(s: State, slot: int, key: int) -> None:
    """Add a key to a bucket of the wheel."""
    run = s.run[0]
    node = run.free_node
    if node >= 0:
        run.free_node = s.nodes[node].next
    elif run.used_nodes < len(s.nodes):
        node = run.used_nodes
        run.used_nodes += 1
    else:
        run.status = kr.HEAP_FULL
        return
    first = s.wheel[slot]
    if first == 0:
        s.occupied[slot >> 5] |= 1 << (slot & 31)
    s.nodes[node].key = key
    s.nodes[node].next = first - 1
    s.wheel[slot] = node + 1
    run.wheel_size += 1


def turn_wheel(s: State) -> None:
    """Move the events of the wheel's next bucket that has any into the ring."""
    run = s.run[0]
    run.bucket += distance_to_events(s, (run.bucket + 1) & (len(s.wheel) - 1)) + 1
    slot = run.bucket & (len(s.wheel) - 1)
    node = s.wheel[slot] - 1
    s.wheel[slot] = 0
    s.occupied[slot >> 5] &= ~(1 << (slot & 31))
    while node >= 0:
        into_soon(s, s.nodes[node].key)
        run.wheel_size -= 1
        behind = s.nodes[node].next
        s.nodes[node].next = run.free_node
        run.free_node = node
        node = behind


@inline
def distance_to_events(s: State, bucket: int) -> int:
    """Return how many buckets are empty from this one on; the wheel must hold an event."""
    word = bucket >> 5
    skipped = -(bucket & 31)
    bits = int(s.occupied[word]) >> (bucket & 31) << (bucket & 31)
    while bits == 0:
        skipped += 32
        word = (word + 1) & (len(s.occupied) - 1)
        bits = int(s.occupied[word])
    return skipped + first_bit(bits)


@inline
def sift_up(heap: IntArray, at: int, key: int) -> None:
    """Add a key to a heap of ``at`` keys."""
    while at > 0:
        above = (at - 1) >> 1
        if heap[above] <= key:
            break
        heap[at] = heap[above]
        at = above
    heap[at] = key


@inline
def sift_down(heap: IntArray, count: int) -> None:
    """Remove the first key of a heap, so that ``count`` keys remain."""
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


@inline
def next_identification(s: State) -> int:
    """Return the key of the identification packet that arrives next, or NO_EVENT."""
    first = s.run[0].arrived_identifications
    if first == s.run[0].identifications:
        return kr.NO_EVENT
    number = first & kr.ID_MASK
    return int(
        (s.identifications[number].tick << kr.KEY_SHIFT)
        | (kr.IDENTIFICATION << kr.ID_BITS)
        | number
    )


@inline
def next_event(s: State) -> int:
    """Return the key of the next event apart from identification packets, or NO_EVENT."""
    run = s.run[0]
    if run.soon_first == run.soon_last and run.wheel_size > 0:
        turn_wheel(s)
    key = s.soon[run.soon_first & (kr.SOON - 1)]
    return int(key if run.heap_size == 0 else min(key, s.heap[0]))


@inline
def pop_event(s: State, key: int) -> None:
    """Remove the next event, which has this key."""
    run = s.run[0]
    if s.soon[run.soon_first & (kr.SOON - 1)] != key:
        run.heap_size -= 1
        sift_down(s.heap, run.heap_size)
        return
    run.soon_first += 1


@inline
def wake(s: State, channel: int, tick: int) -> None:
    """Arbitrate the channel at this tick."""
    if s.channels[channel].woken != tick:
        s.channels[channel].woken = tick
        push(s, tick, kr.WAKE, channel)


def wake_for_slots(net: Tables, s: State, channel: int, lanes: int, slots: int, now: int) -> None:
    """Arbitrate the channel at the ticks at which slots behind it become free, if these are known.

    Args:
        net: The network's tables.
        s: The state.
        channel: The channel.
        lanes: Number of lanes behind it.
        slots: Number of free slots in a lane up to which the channel is arbitrated.
        now: Present tick.
    """
    for lane in range(lanes):
        behind = channel * net.lanes + lane
        seen = never_used(s, behind)
        if seen < slots and s.queues[behind].returning > 0:
            slot = s.queues[behind].returning_at
            for _ in range(min(s.queues[behind].returning, slots - seen)):
                free = s.release[slot]
                if now < free < kr.NEVER:
                    wake(s, channel, free)
                slot = slot_after(s, behind, slot)


@inline
def new_packet(s: State, kind: int, number: int, source: int, destination: int, size: int) -> int:
    """Return a packet of the pool with these fields.

    If all are in use, the result is NONE, and the run stops.
    """
    if s.run[0].free_packets > 0:
        s.run[0].free_packets -= 1
        packet = int(s.free[s.run[0].free_packets])
    elif s.run[0].used_packets < len(s.packets):
        packet = int(s.run[0].used_packets)
        s.run[0].used_packets += 1
    else:
        s.run[0].status = kr.POOL_FULL
        return NONE
    fields = s.packets[packet]
    fields.length = size
    fields.number = number
    fields.source = source
    fields.destination = destination
    fields.tail = 0
    fields.hops = 0
    fields.escapes = 0
    fields.input_link = NONE
    fields.failed_cable = NONE
    fields.first = NONE
    fields.second = NONE
    fields.kind = kind
    fields.variant = 0
    fields.header = 0
    fields.escaped = 0
    return packet


@inline
def drop_packet(s: State, packet: int) -> None:
    """Return a packet to the pool."""
    s.free[s.run[0].free_packets] = packet
    s.run[0].free_packets += 1


@inline
def record_delivery(s: State, packet: int, tick: int) -> None:
    """Record that a message is complete at its host at this tick."""
    done = s.packets[packet]
    s.delivered[done.number] = tick
    s.hops[done.number] = done.hops
    s.escapes[done.number] = done.escapes
    s.run[0].deliveries += 1


@inline
def append(s: State, queue: int, packet: int) -> None:
    """Append a packet to the queue. It need not have arrived yet."""
    s.packets[packet].next = NONE
    if s.queues[queue].occupied == 0:
        s.queues[queue].head = packet
    else:
        s.packets[s.queues[queue].tail].next = packet
    s.queues[queue].tail = packet
    s.queues[queue].occupied += 1


@inline
def pop_head(s: State, queue: int) -> int:
    """Remove the head of the queue, which has arrived."""
    packet = s.queues[queue].head
    s.queues[queue].head = s.packets[packet].next
    s.queues[queue].occupied -= 1
    s.queues[queue].arrived -= 1
    return int(packet)


@inline
def never_used(s: State, queue: int) -> int:
    """Return the number of free slots of the queue, without those that packets have left."""
    return int(s.queues[queue].slots - s.queues[queue].occupied - s.queues[queue].returning)


@inline
def has_free_slot(s: State, queue: int, now: int) -> bool:
    """Return whether a slot of the queue is free now."""
    if never_used(s, queue) > 0:
        return True
    return bool(s.queues[queue].returning > 0 and s.release[s.queues[queue].returning_at] <= now)


@inline
def occupy_slot(s: State, queue: int) -> None:
    """Take a free slot for a packet in transit into the queue, which counts it already."""
    if s.queues[queue].slots > 0 and never_used(s, queue) < 0:
        s.queues[queue].returning_at = slot_after(s, queue, s.queues[queue].returning_at)
        s.queues[queue].returning -= 1


@inline
def leave_slot(s: State, queue: int, now: int) -> int:
    """Return where to write the tick at which the slot of a leaving packet becomes free.

    Slots that are free by now are forgotten.
    """
    while s.queues[queue].returning > 0 and s.release[s.queues[queue].returning_at] <= now:
        s.queues[queue].returning_at = slot_after(s, queue, s.queues[queue].returning_at)
        s.queues[queue].returning -= 1
    if s.queues[queue].returning == 0:
        s.queues[queue].returning_at = queue
    place = s.queues[queue].returning_at + s.queues[queue].returning * len(s.queues)
    room = s.queues[queue].slots * len(s.queues)
    s.queues[queue].returning += 1
    return int(place if place < queue + room else place - room)


@inline
def link_of(net: Tables, queue: int) -> int:
    """Return the link or channel to which the queue belongs as a lane.

    This is a division by the number of lanes, computed by a multiplication.
    """
    return int((int(queue) * int(net.lane_share)) >> 32)


@inline
def lane_of(net: Tables, queue: int) -> int:
    """Return the lane of a queue."""
    return int(queue - link_of(net, queue) * net.lanes)


@inline
def queues_of_reader(net: Tables, queue: int) -> int:
    """Return how many queues have the same reader as this one."""
    if queue < net.source_queue:
        return int(net.lanes)
    return 2 if queue < net.notice_queue else 1


@inline
def slot_after(s: State, queue: int, place: int) -> int:
    """Return the slot that is used after this one."""
    after = place + len(s.queues)
    return int(after if after < queue + s.queues[queue].slots * len(s.queues) else queue)
