"""The event heap and the queues' linked lists: what every other step stands on.

An event's key holds tick, kind and number, so that no two orders are possible.
"""

from __future__ import annotations

from typing import Any

from testbed.simulator.kernel_state import HEAP_FULL, ID_BITS, KEY_SHIFT, NONE, STATUS, WAKE


def push(s: Any, tick: int, kind: int, number: int) -> None:
    """Put an event into the heap."""
    heap, size = s.events.heap, s.events.size
    at = size[0]
    if at >= len(heap):
        s.run.clock[STATUS] = HEAP_FULL
        return
    key = (tick << KEY_SHIFT) | (kind << ID_BITS) | number
    size[0] = at + 1
    while at > 0:
        above = (at - 1) >> 1
        if heap[above] <= key:
            break
        heap[at] = heap[above]
        at = above
    heap[at] = key


def pop(s: Any) -> int:
    """Take the first event's key out of the heap (which is not empty)."""
    heap, size = s.events.heap, s.events.size
    first = heap[0]
    count = size[0] - 1
    size[0] = count
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
    if s.channels.woken[channel] != tick:
        s.channels.woken[channel] = tick
        push(s, tick, WAKE, channel)


def append(s: Any, queue: int, packet: int) -> None:
    """Behind the last of the queue; whether it has arrived is another matter."""
    q = s.queues
    s.packets.next[packet] = NONE
    if q.held[queue] == 0:
        q.head[queue] = packet
    else:
        s.packets.next[q.tail[queue]] = packet
    q.tail[queue] = packet
    q.held[queue] += 1


def take_head(s: Any, queue: int) -> int:
    """Remove the head, which has arrived."""
    q = s.queues
    packet = q.head[queue]
    q.head[queue] = s.packets.next[packet]
    q.held[queue] -= 1
    q.arrived[queue] -= 1
    return int(packet)


STEPS = (push, pop, wake, append, take_head)
"""For the compiled engine to register."""
