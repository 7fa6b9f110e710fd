"""The event heap and the queues' linked lists: what every other step stands on.

An event's key holds tick, kind and number, so that no two orders are possible.
"""

from __future__ import annotations

from typing import Any

from testbed.interconnect.compiled.kernel_state import (
    HEAP_FULL,
    ID_BITS,
    KEY_SHIFT,
    NEVER,
    WAKE,
)
from testbed.interconnect.static_paths import NONE


def push(s: Any, tick: int, kind: int, number: int) -> None:
    """Put an event into the heap."""
    heap = s.heap
    at = s.run[0].heap_size
    if at >= len(heap):
        s.run[0].status = HEAP_FULL
        return
    key = (tick << KEY_SHIFT) | (kind << ID_BITS) | number
    s.run[0].heap_size = at + 1
    while at > 0:
        above = (at - 1) >> 1
        if heap[above] <= key:
            break
        heap[at] = heap[above]
        at = above
    heap[at] = key


def pop(s: Any) -> int:
    """Take the first event's key out of the heap (which is not empty)."""
    heap = s.heap
    first = heap[0]
    count = s.run[0].heap_size - 1
    s.run[0].heap_size = count
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
    return int(first)


def wake(s: Any, channel: int, tick: int) -> None:
    """Arbitrate the channel at that tick."""
    if s.channels[channel].woken != tick:
        s.channels[channel].woken = tick
        push(s, tick, WAKE, channel)


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
        place = s.queues[queue].fill_at + 1
        s.queues[queue].fill_at = place if place < s.queues[queue].slot_end else s.queues[queue].slot_first


def leave_slot(s: Any, queue: int) -> int:
    """A packet leaves the queue: where the release of its slot is to be written."""
    place = s.queues[queue].leave_at
    s.queues[queue].leave_at = place + 1 if place + 1 < s.queues[queue].slot_end else s.queues[queue].slot_first
    return int(place)


INLINE = (push, pop, wake, append, take_head, take_slot, leave_slot)
"""For the compiled engine to register, put into their callers."""
