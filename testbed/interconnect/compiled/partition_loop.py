"""One run over two processors: each handles the events of half of the routers, window by window.

Theory of operation
------------------- What happens in one half takes effect in the other when a head arrives behind a channel of the
border, or when a slot there is free again: so many ticks later, at least, as ``Border.lookahead`` says. From the first
event that is to come both halves therefore go on for so long without each other (conservative windows, Chandy and Misra
1979). Then they meet, each hands over what has crossed the border, and the next window begins. Within a tick the halves
cannot disturb each other, so each handles its events in the order in which one processor would.

A half has a state of its own; what it does not simulate stays empty there. The buffer behind a channel of the border is
in both: the half that fills it counts its slots, the half that empties it has its packets. Both are found to have
changed by the number of packets in them, after each event of a router at the border; the steps are those of one
processor.

Towards the end, when the last messages are made, the halves take turns in one thread, event by event (``take_turns``):
whether something waited at the moment at which a slot became free, which is not known in windows, decides about an
event that moves nothing, and one of these may be the last of the run.
"""

from __future__ import annotations

from typing import NamedTuple

from testbed.arrays import IntArray, Records
from testbed.interconnect.compiled import kernel_events as events
from testbed.interconnect.compiled import kernel_records as kr
from testbed.interconnect.compiled.kernel_loop import (
    after_event,
    head_arrived,
    make_message,
    next_message,
)
from testbed.interconnect.compiled.kernel_state import State, Tables
from testbed.interconnect.engine_inputs import EngineOptions
from testbed.interconnect.static_paths import NONE
from testbed.jit import by_reference, fetch_add, inline

OTHER_HALF = -2
"""In place of a buffer's router: its packets are in the other half."""
WAITING, DONE = range(2)
"""What a call ends with: the other half has not come to the end of its window; the halves are to take turns."""
TRIES = 1 << 18
"""Looks at the other half before a call ends, and other programs may have the processor: 2 ms, several times what
the next call takes to begin, or the halves would never be at work at the same time."""
WINDOW, LIMIT, BUSY = range(3)
"""Numbers that only the half itself reads: the window that it is in, the key at which that ends, 1 where it is to take
turns since other programs need a processor."""
CROSSED, NEXT, STATUS = range(3)
"""Numbers of a window: what has crossed, the tick of the next event, not RUNNING: the last window."""
LINE = 16
"""Numbers apart are what two threads write, so that it lies in different lines of the cache."""


class Border(NamedTuple):
    """What the halves share. A **box** is twice the half, and the parity of its window."""

    lookahead: int
    """Ticks of a window."""
    until: int
    """The tick from which on the halves take turns."""
    room: int
    """Of a box: what may cross in a window."""
    following: IntArray
    """By message: the next of the same half."""
    first: IntArray
    """By router: where its part of ``queues`` begins."""
    queues: IntArray
    """Buffers behind channels of the border, by the routers at which they fill or empty."""
    noted: IntArray
    """[half, buffer]: packets in it when the other half last knew of it."""
    keys: IntArray
    """By box, as ``packets``: the arrival of a packet, or WAKE, tick and buffer of a credit."""
    packets: Records[kr.Packet]
    windows: IntArray
    """By half, LINE apart: windows that it is through with."""
    own: IntArray
    """[half, WINDOW, ...]"""
    boxes: IntArray
    """[box, CROSSED, ...]"""


def run_half(
    tables: Tables, options: EngineOptions, state: State, other: State, border: Border, half: int
) -> int:
    """Go through windows with the half (0 or 1) until the halves are to take turns; NONE: let them, until the run ends.

    Where the other half lets it wait the call ends, and the next goes on.
    """
    net, o, b = by_reference(tables), by_reference(options), by_reference(border)
    s, t, begin = by_reference(state), by_reference(other), 0
    if half == NONE:
        take_turns(net, o, s, t, b)
        begin = b.until
    while begin < b.until:
        window = b.own[half, WINDOW]
        box, others = half * 2 + (window & 1), (1 - half) * 2 + (window & 1)
        if b.windows[half * LINE] == window:
            b.boxes[box, CROSSED], b.boxes[box, NEXT] = 0, kr.NO_EVENT
            handle_events(net, o, s, b, box, b.own[half, LIMIT], False)
            b.boxes[box, NEXT] = min(b.boxes[box, NEXT], next_key(s) >> kr.KEY_SHIFT)
            b.boxes[box, STATUS] = s.run[0].status + b.own[half, BUSY]
            fetch_add(b.windows, half * LINE, 1)
        tries = 0
        while fetch_add(b.windows, (1 - half) * LINE, 0) <= window:
            tries += 1
            if tries == TRIES:
                return WAITING
        receive(net, s, b, others)
        begin = min(b.boxes[box, NEXT], b.boxes[others, NEXT])
        if b.boxes[box, STATUS] + b.boxes[others, STATUS] != kr.RUNNING:
            begin = b.until
        b.own[half, LIMIT] = min(begin + b.lookahead, b.until) << kr.KEY_SHIFT
        b.own[half, WINDOW] = window + 1
    return DONE


def take_turns(net: Tables, o: EngineOptions, s: State, t: State, b: Border) -> None:
    """Handle the events of both halves in the order of one processor, what crosses the border at once, until the run
    ends."""
    behind = (o.end + 1) << kr.KEY_SHIFT
    while s.run[0].status == kr.RUNNING and t.run[0].status == kr.RUNNING:
        one, two = next_key(s), next_key(t)
        b.boxes[0, CROSSED], b.boxes[2, CROSSED] = 0, 0
        if min(one, two) == kr.NO_EVENT:
            s.run[0].status = kr.FINISHED
        elif min(one, two) >= behind:
            s.run[0].status, s.run[0].now = kr.OUT_OF_TIME, min(one, two) >> kr.KEY_SHIFT
        elif one <= two:
            handle_events(net, o, s, b, 0, min(max(two, one + 1), behind), True)
            receive(net, t, b, 0)
        else:
            handle_events(net, o, t, b, 2, min(one, behind), True)
            receive(net, s, b, 2)


@inline
def next_key(s: State) -> int:
    """The key of the half's next event, messages that are made included."""
    return min(next_message(s, s.messages.born), events.next_event(s))


def handle_events(
    net: Tables, o: EngineOptions, s: State, b: Border, box: int, limit: int, turns: bool
) -> None:
    """Handle the half's events whose keys are below the limit; taking turns, until something crosses the border.

    Plain routing has three kinds: a message is made, a channel is arbitrated, a head arrives.
    """
    while s.run[0].status == kr.RUNNING:
        key = next_key(s)
        if key >= limit:
            return
        now, kind, number = key >> kr.KEY_SHIFT, (key >> kr.ID_BITS) & 15, key & kr.ID_MASK
        queue, channel, router = NONE, NONE, NONE
        s.run[0].now = now
        if kind == kr.INJECTION:
            message = s.run[0].next_message
            queue = make_message(net, s, None, now)
            s.run[0].next_message = b.following[message]
        else:
            events.pop_event(s, key)
            if kind == kr.WAKE:
                channel, router = number, int(s.channels[number].router)
                if s.channels[number].woken == now:
                    s.channels[number].woken = -1
            elif s.queues[number].router != OTHER_HALF:
                queue, router = head_arrived(net, o, s, None, number, now)
        after_event(net, o, s, None, queue, channel, NONE, False, now)
        if router >= 0:
            for i in range(b.first[router], b.first[router + 1]):
                if s.queues[b.queues[i]].occupied != b.noted[box >> 1, b.queues[i]]:
                    hand_over(net, s, b, box, b.queues[i])
            if turns and b.boxes[box, CROSSED] > 0:
                return


def hand_over(net: Tables, s: State, b: Border, box: int, queue: int) -> None:
    """A packet went into the buffer behind the border, or out of it: the other half is to know."""
    at, kind = box * b.room + b.boxes[box, CROSSED], kr.WAKE
    if s.queues[queue].occupied > b.noted[box >> 1, queue]:
        kind, packet = kr.ARRIVAL, s.queues[queue].tail
        b.packets[at] = s.packets[packet]
        channel = events.link_of(net, queue)
        head = s.run[0].now + s.channels[channel].delay
        tick = head + s.channels[channel].stores * (s.packets[packet].tail - head)
    else:
        last, room = s.queues[queue].returning - 1, s.queues[queue].slots * len(s.queues)
        place = s.queues[queue].returning_at + last * len(s.queues)
        tick = s.release[place if place < queue + room else place - room]
    b.keys[at] = (tick << kr.KEY_SHIFT) | (kind << kr.ID_BITS) | queue
    b.boxes[box, CROSSED] += 1
    b.boxes[box, NEXT] = min(b.boxes[box, NEXT], tick)
    b.noted[box >> 1, queue] = s.queues[queue].occupied


def receive(net: Tables, s: State, b: Border, box: int) -> None:
    """What is in the other half's box arrives later: packets, in the order in which they went, and credits."""
    for at in range(box * b.room, box * b.room + b.boxes[box, CROSSED]):
        tick, queue = b.keys[at] >> kr.KEY_SHIFT, b.keys[at] & kr.ID_MASK
        if (b.keys[at] >> kr.ID_BITS) & 15 == kr.ARRIVAL:
            packet = events.new_packet(s, kr.DATA, 0, 0, 0, 0)
            s.packets[packet] = b.packets[at]
            events.append(s, queue, packet)
            events.push(s, tick, kr.ARRIVAL, queue)
        else:
            first = s.queues[queue].head
            s.queues[queue].head = s.packets[first].next
            s.queues[queue].occupied -= 1
            events.drop_packet(s, first)
            s.release[events.leave_slot(s, queue, s.run[0].now)] = tick
            if s.channels[events.link_of(net, queue)].first_asker >= 0:
                events.wake(s, events.link_of(net, queue), tick)
        b.noted[1 - (box >> 1), queue] = s.queues[queue].occupied
