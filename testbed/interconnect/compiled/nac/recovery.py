"""NAC's gradual recovery of packet forwarding (Zarza 2011, 4.2.3): moves to avoidance buffers, and the signal round the cycle.

Numbers in brackets are the decisions listed in docs/workloads/interconnect.md.
"""

from __future__ import annotations

from typing import Any

from testbed.interconnect.compiled.engine_steps import request_channel, withdraw_request
from testbed.interconnect.compiled.kernel_events import append, leave_slot, push, take_head, wake
from testbed.interconnect.compiled.kernel_state import ENDED, NEVER, RECOVERED, RECOVERY, RESERVED
from testbed.interconnect.compiled.nac.detection import is_full, log_event, wanted_link
from testbed.interconnect.compiled.nac.throttle import (
    avoidance_buffer_is_free,
    free_slots_behind,
    reserve_slot,
    throttle_injection,
    watch_if_full,
)


def move_to_avoidance_buffer(net: Any, o: Any, s: Any, hook: Any, signal: int, link: int, now: int) -> None:
    """move(a, d) at the input: its head goes to the avoidance buffer; the freed slot goes up the link with the signal (10).

    The signal knows the cycle, so it names the next input.
    """
    queue = link * net.lanes
    avoidance = net.avoidance_queue + link
    withdraw_request(net, s, queue)
    watch_if_full(net, s, queue, -1)
    packet = take_head(s, queue)
    place = leave_slot(s, queue)
    s.release[place] = NEVER
    append(s, avoidance, packet)
    s.queues[avoidance].arrived += 1
    throttle_injection(s, net.link[link].end)
    for asker in (avoidance, queue):
        if s.queues[asker].arrived > 0:
            request_channel(net, o, s, hook, asker, now)
            wake(s, s.queues[asker].want, now)
    s.signals[signal].slot = place
    s.signals[signal].place += 1
    s.counters[0].signals += 1
    push(s, now + o.nac.control, RECOVERY, signal)


def receive_recovery_signal(net: Any, o: Any, s: Any, hook: Any, signal: int, now: int) -> None:
    """A recovery signal reaches the router before the link: it moves in its turn, reserves the slot, or works normally (10).

    Conditions of Zarza 2011: at most the freed slot is free behind the output (4.4), the input on the cycle asks for that
    output (4.5) and is full (4.6), the signal is there (4.7). Where all hold and the avoidance buffer is free, the router
    moves; where it is not free, or the signal has been round, the slot is reserved for the cycle.
    """
    place, length = s.signals[signal].place, s.signals[signal].length
    out, link = s.path[signal, place - 1], s.path[signal, place % length]
    s.release[s.signals[signal].slot] = now
    avoidance = net.avoidance_queue + link
    wants = wanted_link(net, s, link) == out and is_full(net, s, link, now) and free_slots_behind(net, s, out, now) <= 1
    tail_here = wants and s.packets[s.queues[link * net.lanes].head].tail <= now
    avoided_wants = s.queues[avoidance].held > 0 and s.queues[avoidance].want == net.link[out].entry
    moved = (
        wants and tail_here and avoidance_buffer_is_free(net, o, s, link, now) and place < length and o.nac.recovery_run
    )
    if (moved or wants or avoided_wants) and reserve_slot(s, o, out, link):
        s.counters[0].reserved += 1
        log_event(net, s, RESERVED, link, now)
    elif not (moved or wants or avoided_wants):
        s.counters[0].normal += 1
        log_event(net, s, ENDED, link, now)
    if moved:
        s.counters[0].recovery_moved += 1
        log_event(net, s, RECOVERED, link, now)
        move_to_avoidance_buffer(net, o, s, hook, signal, link, now)
    wake(s, out, now)


STEPS = (move_to_avoidance_buffer, receive_recovery_signal)
"""For the compiled engine to register."""
