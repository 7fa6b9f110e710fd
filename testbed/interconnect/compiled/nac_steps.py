"""Non-Blocking Adaptive Cycles (document 003, 4.2) as steps over flat arrays: detection, identification, recovery.

The numbers in comments are the decisions listed in docs/workloads/interconnect.md.
"""

from __future__ import annotations

from typing import Any

from testbed.interconnect.compiled.engine_steps import enlist, room_behind, start_local, withdraw
from testbed.interconnect.compiled.kernel_events import append, pass_slot, push, take_head, wake
from testbed.interconnect.compiled.kernel_state import (
    BLOCKED,
    C_BLOCKED,
    C_IDENTIFIED,
    C_MOVED,
    C_NORMAL,
    C_PACKETS,
    C_RECOVERY_MOVED,
    C_RESERVED,
    C_RETRIES,
    C_SIGNALS,
    ENDED,
    ID_MASK,
    IDENTIFICATION,
    IDENTIFIED,
    LOGGED,
    MAX_CYCLE,
    MOVED,
    NEVER,
    NEXT_PROBE,
    NEXT_SIGNAL,
    NONE,
    RECOVERED,
    RECOVERY,
    RESERVED,
    RETRY,
    SIGNALS,
)


def log_event(ports: Any, s: Any, kind: int, link: int, now: int) -> None:
    """One line of the timeline: tick, kind, router, its input."""
    if s.clock[LOGGED] < len(s.log):
        at = s.clock[LOGGED]
        s.log[at, 0], s.log[at, 1], s.log[at, 2], s.log[at, 3] = now, kind, ports.link[link].end, link
        s.clock[LOGGED] = at + 1


def wanted_link(ports: Any, s: Any, link: int) -> int:
    """The link between routers that the head of this input asks for; NONE: it asks for none, or for a host."""
    channel = s.queues[link * ports.lanes].want
    if channel < 0:
        return NONE
    out = channel if channel < ports.links else channel - ports.links
    return int(out) if ports.link[out].end >= 0 else NONE


def is_full(ports: Any, s: Any, link: int, now: int) -> bool:
    """4.3: every slot taken, packets still arriving included; one whose head is being transferred is not blocked (2)."""
    queue = link * ports.lanes
    if s.readers[s.queues[queue].reader].busy > now:
        return False
    return bool(s.queues[queue].arrived > 0 and s.queues[queue].arrived == s.queues[queue].slots)


def is_blocked(ports: Any, o: Any, s: Any, link: int, now: int) -> bool:
    """4.1, 4.2 and 4.3 of a router's input, by its own occupancy and credits (3)."""
    if not is_full(ports, s, link, now):
        return False
    out = wanted_link(ports, s, link)
    return out >= 0 and room_behind(ports, s, out, now) <= o.slack


def look_round(ports: Any, o: Any, s: Any, router: int, now: int) -> None:
    """After every change of a router's state: which of its inputs are blocked (1); those that are newly so identify themselves."""
    for i in range(ports.router[router].input_first, ports.router[router + 1].input_first):
        link = ports.inputs[i]
        blocked = is_blocked(ports, o, s, link, now)
        if blocked and s.links[link].blocked == 0:
            s.links[link].blocked = 1
            s.routers[router].stopped += 1
            s.counters[C_BLOCKED] += 1
            log_event(ports, s, BLOCKED, link, now)
            send_probe(ports, o, s, link, wanted_link(ports, s, link), NONE, link, now)
            if s.links[link].pending == 0:
                s.links[link].pending = 1
                push(s, now + o.retry, RETRY, link)
        elif not blocked and s.links[link].blocked != 0:
            s.links[link].blocked = 0
            start_local(ports, s, router, now)


def send_probe(ports: Any, o: Any, s: Any, origin: int, out: int, parent: int, at: int, now: int) -> None:
    """An identification packet (origin input, its output) goes up the link ``at``; ``parent``: the one it repeats (7)."""
    probe = s.clock[NEXT_PROBE] & ID_MASK
    s.clock[NEXT_PROBE] += 1
    s.probes[probe].origin, s.probes[probe].out, s.probes[probe].parent, s.probes[probe].at = origin, out, parent, at
    s.counters[C_PACKETS] += 1
    push(s, now + o.control, IDENTIFICATION, probe)


def hear_probe(ports: Any, o: Any, s: Any, hook: Any, probe: int, now: int) -> None:
    """An identification packet reaches the router before its link: the router's own closes the cycle, others are repeated (4)."""
    origin, out, at = s.probes[probe].origin, s.probes[probe].out, s.probes[probe].at
    router = ports.link[at].start
    if at == out and ports.link[origin].end == router:
        if is_blocked(ports, o, s, origin, now) and wanted_link(ports, s, origin) == out:
            close_cycle(ports, o, s, hook, probe, now)
        return
    for i in range(ports.router[router].input_first, ports.router[router + 1].input_first):
        link = ports.inputs[i]
        if wanted_link(ports, s, link) == at and is_blocked(ports, o, s, link, now):
            free = s.queues[ports.spare_queue + link].held == 0
            if (free or o.repeat_when_full != 0) and not on_path(s, probe, link):
                send_probe(ports, o, s, origin, out, probe, link, now)


def on_path(s: Any, probe: int, link: int) -> bool:
    """Loop guard: whether the packet has been at this input (7); paths longer than a cycle may be count as loops."""
    length = 0
    while probe >= 0:
        if s.probes[probe].at == link:
            return True
        probe = s.probes[probe].parent
        length += 1
        if length >= MAX_CYCLE - 1:
            return True
    return False


def close_cycle(ports: Any, o: Any, s: Any, hook: Any, probe: int, now: int) -> None:
    """The cycle through this input is known: move its head aside (where the avoidance buffer is free, 9) and signal on."""
    origin = s.probes[probe].origin
    s.counters[C_IDENTIFIED] += 1
    log_event(ports, s, IDENTIFIED, origin, now)
    if s.queues[ports.spare_queue + origin].held > 0 or s.packets[s.queues[origin * ports.lanes].head].tail > now:
        return
    signal = s.clock[NEXT_SIGNAL] % SIGNALS
    s.clock[NEXT_SIGNAL] += 1
    length = 0
    walk = probe
    while walk >= 0:
        length += 1
        walk = s.probes[walk].parent
    s.signals[signal].length = length
    walk = probe
    for i in range(length - 1, -1, -1):
        s.path[signal, i] = s.probes[walk].at
        walk = s.probes[walk].parent
    s.signals[signal].place = 0
    s.counters[C_MOVED] += 1
    log_event(ports, s, MOVED, origin, now)
    move_aside(ports, o, s, hook, signal, origin, now)


def move_aside(ports: Any, o: Any, s: Any, hook: Any, signal: int, link: int, now: int) -> None:
    """move(a, d) at the input; its freed slot travels up the link with the recovery signal (10), which names the next input."""
    queue = link * ports.lanes
    spare = ports.spare_queue + link
    withdraw(ports, s, queue)
    packet = take_head(s, queue)
    place = pass_slot(s, queue)
    s.release[place] = NEVER
    append(s, spare, packet)
    s.queues[spare].arrived += 1
    s.routers[ports.link[link].end].stopped += 1
    for asker in (spare, queue):
        if s.queues[asker].arrived > 0:
            enlist(ports, o, s, hook, asker, now)
            wake(s, s.queues[asker].want, now)
    s.signals[signal].slot = place
    s.signals[signal].place += 1
    s.counters[C_SIGNALS] += 1
    push(s, now + o.control, RECOVERY, signal)


def hear_signal(ports: Any, o: Any, s: Any, hook: Any, signal: int, now: int) -> None:
    """A recovery signal reaches the router before the link: 4.4 to 4.7 decide on a move, a slot kept, or normal work (10)."""
    place, length = s.signals[signal].place, s.signals[signal].length
    out, link = s.path[signal, place - 1], s.path[signal, place % length]
    s.release[s.signals[signal].slot] = now
    spare = ports.spare_queue + link
    wants = wanted_link(ports, s, link) == out and is_full(ports, s, link, now) and room_behind(ports, s, out, now) <= 1
    tail_here = wants and s.packets[s.queues[link * ports.lanes].head].tail <= now
    spare_wants = s.queues[spare].held > 0 and s.queues[spare].want == ports.link[out].entry
    moved = wants and tail_here and s.queues[spare].held == 0 and place < length and o.recovery_run != 0
    if (moved or wants or spare_wants) and keep_slot(s, o, out, link):
        s.counters[C_RESERVED] += 1
        log_event(ports, s, RESERVED, link, now)
    elif not (moved or wants or spare_wants):
        s.counters[C_NORMAL] += 1
        log_event(ports, s, ENDED, link, now)
    if moved:
        s.counters[C_RECOVERY_MOVED] += 1
        log_event(ports, s, RECOVERED, link, now)
        move_aside(ports, o, s, hook, signal, link, now)
    wake(s, out, now)


def keep_slot(s: Any, o: Any, out: int, link: int) -> bool:
    """Keep the free slot behind the output for this input, unless one is kept for another (6)."""
    if o.reserve == 0 or (s.links[out].kept > 0 and s.links[out].holder != link):
        return False
    s.links[out].holder = link
    s.links[out].kept = 1
    return True


def try_again(ports: Any, o: Any, s: Any, link: int, now: int) -> None:
    """The retry timer (8): an input that is still blocked identifies itself once more."""
    s.links[link].pending = 0
    if s.links[link].blocked != 0 and is_blocked(ports, o, s, link, now):
        s.counters[C_RETRIES] += 1
        send_probe(ports, o, s, link, wanted_link(ports, s, link), NONE, link, now)
        s.links[link].pending = 1
        push(s, now + o.retry, RETRY, link)


STEPS = (
    log_event,
    wanted_link,
    is_full,
    is_blocked,
    send_probe,
    look_round,
    on_path,
    move_aside,
    close_cycle,
    hear_probe,
    keep_slot,
    hear_signal,
    try_again,
)
"""For the compiled engine to register."""
