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
    """Let an event happen at the tick."""
    push_here(s, tick, kind, number)


@inline
def push_here(s: State, tick: int, kind: int, number: int) -> None:
    """``push``, put where it is called."""
    run = s.run[0]
    key = (int(tick) << kr.KEY_SHIFT) | (kind << kr.ID_BITS) | int(number)
    if tick == run.now:
        into_soon(s, key)
        return
    bucket, size = tick >> run.wheel_shift, run.soon_last - run.soon_first
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
def bit(place: int) -> Any:
    """A word of 64 bits of which that one is 1; in Python, too, whatever kind of number the place is."""
    return np.int64(1) << np.int64(place)


@inline
def into_soon(s: State, key: int) -> None:
    """Keep the key among those that come first, most of which it comes before."""
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
    """Keep the key in the heap; where there is no room the run stops, and begins again with more."""
    if s.run[0].heap_size >= len(s.heap):
        s.run[0].status = kr.HEAP_FULL
    else:
        sift_up(s.heap, s.run[0].heap_size, key)
        s.run[0].heap_size += 1


def into_wheel(s: State, place: int, key: int) -> None:
    """Keep the key in that bucket of the wheel."""
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
    first = s.wheel[place]
    if first == 0:
        s.occupied[place >> 5] |= 1 << (place & 31)
    s.nodes[node].key = key
    s.nodes[node].next = first - 1
    s.wheel[place] = node + 1
    run.wheel_size += 1


def turn_wheel(s: State) -> None:
    """The wheel, which holds events, goes on to the next bucket that has some: they are ``soon``."""
    run = s.run[0]
    run.bucket += distance_to_events(s, (run.bucket + 1) & (len(s.wheel) - 1)) + 1
    place = run.bucket & (len(s.wheel) - 1)
    node = s.wheel[place] - 1
    s.wheel[place] = 0
    s.occupied[place >> 5] &= ~(1 << (place & 31))
    while node >= 0:
        into_soon(s, s.nodes[node].key)
        run.wheel_size -= 1
        behind = s.nodes[node].next
        s.nodes[node].next = run.free_node
        run.free_node = node
        node = behind


@inline
def distance_to_events(s: State, place: int) -> int:
    """How many buckets of the wheel, which holds events, are empty from this one on."""
    word, skipped = place >> 5, -(place & 31)
    bits = int(s.occupied[word]) >> (place & 31) << (place & 31)
    while bits == 0:
        skipped += 32
        word = (word + 1) & (len(s.occupied) - 1)
        bits = int(s.occupied[word])
    return skipped + first_bit(bits)


@inline
def sift_up(heap: IntArray, at: int, key: int) -> None:
    """Put the key into a heap of ``at`` keys."""
    while at > 0:
        above = (at - 1) >> 1
        if heap[above] <= key:
            break
        heap[at] = heap[above]
        at = above
    heap[at] = key


@inline
def sift_down(heap: IntArray, count: int) -> None:
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


@inline
def next_identification(s: State) -> int:
    """The key of the identification packet that arrives next; NO_EVENT: none is under way."""
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
    """The key of the event that happens next, identification packets aside; NO_EVENT: there is none."""
    run = s.run[0]
    if run.soon_first == run.soon_last and run.wheel_size > 0:
        turn_wheel(s)
    key = s.soon[run.soon_first & (kr.SOON - 1)]
    return int(key if run.heap_size == 0 else min(key, s.heap[0]))


@inline
def pop_event(s: State, key: int) -> None:
    """Take the next event out of where it is kept."""
    run = s.run[0]
    if s.soon[run.soon_first & (kr.SOON - 1)] != key:
        run.heap_size -= 1
        sift_down(s.heap, run.heap_size)
        return
    run.soon_first += 1


@inline
def wake(s: State, channel: int, tick: int) -> None:
    """Arbitrate the channel at that tick."""
    if s.channels[channel].woken != tick:
        s.channels[channel].woken = tick
        push(s, tick, kr.WAKE, channel)


def wake_for_slots(net: Tables, s: State, channel: int, lanes: int, slots: int, now: int) -> None:
    """Let the channel be arbitrated at the ticks, already known, at which one slot to so many are free behind it, on
    the first lanes."""
    for lane in range(lanes):
        behind = channel * net.lanes + lane
        seen = never_used(s, behind)
        if seen < slots and s.queues[behind].returning > 0:
            place = s.queues[behind].returning_at
            for _ in range(min(s.queues[behind].returning, slots - seen)):
                free = s.release[place]
                if now < free < kr.NEVER:
                    wake(s, channel, free)
                place = slot_after(s, behind, place)


@inline
def new_packet(s: State, kind: int, number: int, source: int, destination: int, size: int) -> int:
    """A packet out of the pool, the one that was used last; NONE, and the run stops, where all are in use."""
    if s.run[0].free_packets > 0:
        s.run[0].free_packets -= 1
        packet = int(s.free[s.run[0].free_packets])
    elif s.run[0].used_packets < len(s.packets):
        packet = int(s.run[0].used_packets)
        s.run[0].used_packets += 1
    else:
        s.run[0].status = kr.POOL_FULL
        return NONE
    made = s.packets[packet]
    made.length, made.number, made.source, made.destination = size, number, source, destination
    made.tail = 0
    made.hops, made.escapes, made.input_link, made.failed_cable = 0, 0, NONE, NONE
    made.first, made.second = NONE, NONE
    made.kind, made.variant, made.header, made.escaped = kind, 0, 0, 0
    return packet


@inline
def drop_packet(s: State, packet: int) -> None:
    """The packet is nowhere any more."""
    s.free[s.run[0].free_packets] = packet
    s.run[0].free_packets += 1


@inline
def record_delivery(s: State, packet: int, tick: int) -> None:
    """A message is whole at its host at that tick."""
    done = s.packets[packet]
    s.delivered[done.number] = tick
    s.hops[done.number] = done.hops
    s.escapes[done.number] = done.escapes
    s.run[0].deliveries += 1


@inline
def append(s: State, queue: int, packet: int) -> None:
    """Behind the last of the queue; whether it has arrived is another matter."""
    s.packets[packet].next = NONE
    if s.queues[queue].occupied == 0:
        s.queues[queue].head = packet
    else:
        s.packets[s.queues[queue].tail].next = packet
    s.queues[queue].tail = packet
    s.queues[queue].occupied += 1


@inline
def pop_head(s: State, queue: int) -> int:
    """Remove the head, which has arrived."""
    packet = s.queues[queue].head
    s.queues[queue].head = s.packets[packet].next
    s.queues[queue].occupied -= 1
    s.queues[queue].arrived -= 1
    return int(packet)


@inline
def never_used(s: State, queue: int) -> int:
    """Slots of the queue that are free, those aside that packets have left."""
    return int(s.queues[queue].slots - s.queues[queue].occupied - s.queues[queue].returning)


@inline
def has_free_slot(s: State, queue: int, now: int) -> bool:
    """Whether a slot of the queue is free now, in the order in which they are left."""
    if never_used(s, queue) > 0:
        return True
    return bool(s.queues[queue].returning > 0 and s.release[s.queues[queue].returning_at] <= now)


@inline
def occupy_slot(s: State, queue: int) -> None:
    """A packet is in transit into the queue, where it counts already: it takes a slot, which must be free."""
    if s.queues[queue].slots > 0 and never_used(s, queue) < 0:
        s.queues[queue].returning_at = slot_after(s, queue, s.queues[queue].returning_at)
        s.queues[queue].returning -= 1


@inline
def leave_slot(s: State, queue: int, now: int) -> int:
    """A packet leaves the queue: where the release of its slot is to be written. Those that are free by now are
    forgotten."""
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
    """The link, or channel, whose lane the queue is: a division by the lanes, done by a multiplication."""
    return int((int(queue) * int(net.lane_share)) >> 32)


@inline
def lane_of(net: Tables, queue: int) -> int:
    """Which lane the queue is."""
    return int(queue - link_of(net, queue) * net.lanes)


@inline
def queues_of_reader(net: Tables, queue: int) -> int:
    """How many queues that takes packets out of which takes them out of this one."""
    if queue < net.source_queue:
        return int(net.lanes)
    return 2 if queue < net.notice_queue else 1


@inline
def slot_after(s: State, queue: int, place: int) -> int:
    """The slot that is used after this one."""
    after = place + len(s.queues)
    return int(after if after < queue + s.queues[queue].slots * len(s.queues) else queue)
