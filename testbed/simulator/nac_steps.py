"""Non-Blocking Adaptive Cycles (document 003, 4.2) as steps over flat arrays: detection, identification, recovery.

The numbers in comments are the decisions listed in docs/interconnect.md.
"""

from __future__ import annotations

from typing import Any

from testbed.simulator.engine_steps import arbitrate, enlist, room_behind, start_local, withdraw
from testbed.simulator.kernel_events import append, push, take_head, wake
from testbed.simulator.kernel_state import (
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
    LONGEST_CYCLE,
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
    y = s.cycles
    if y.logged[0] < len(y.log):
        at = y.logged[0]
        y.log[at, 0], y.log[at, 1], y.log[at, 2], y.log[at, 3] = now, kind, ports.link_to[link], link
        y.logged[0] = at + 1


def wanted_link(ports: Any, s: Any, link: int) -> int:
    """The link between routers that the head of this input asks for; NONE: it asks for none, or for a host."""
    channel = s.queues.want[link * ports.lanes]
    if channel < 0:
        return NONE
    out = channel if channel < ports.links else channel - ports.links
    return int(out) if ports.link_to[out] >= 0 else NONE


def is_full(ports: Any, s: Any, link: int, now: int) -> bool:
    """4.3: every slot taken, packets still arriving included; one whose head is being transferred is not blocked (2)."""
    queue = link * ports.lanes
    if s.channels.readers[ports.reader[queue]] > now:
        return False
    return bool(s.queues.arrived[queue] > 0 and s.queues.arrived[queue] == ports.slots[queue])


def is_blocked(ports: Any, o: Any, s: Any, link: int, now: int) -> bool:
    """4.1, 4.2 and 4.3 of a router's input, by its own occupancy and credits (3)."""
    if not is_full(ports, s, link, now):
        return False
    out = wanted_link(ports, s, link)
    return out >= 0 and room_behind(ports, s, out, now) <= o.slack


def look_round(ports: Any, o: Any, s: Any, router: int, now: int) -> None:
    """After every change of a router's state: which of its inputs are blocked (1); those that are newly so identify themselves."""
    y = s.cycles
    for i in range(ports.input_first[router], ports.input_first[router + 1]):
        link = ports.inputs[i]
        blocked = is_blocked(ports, o, s, link, now)
        if blocked and y.blocked[link] == 0:
            y.blocked[link] = 1
            y.stopped[router] += 1
            y.counters[C_BLOCKED] += 1
            log_event(ports, s, BLOCKED, link, now)
            send_probe(ports, o, s, link, wanted_link(ports, s, link), NONE, link, now)
            if y.pending[link] == 0:
                y.pending[link] = 1
                push(s, now + o.retry, RETRY, link)
        elif not blocked and y.blocked[link] != 0:
            y.blocked[link] = 0
            start_local(ports, s, router, now)


def send_probe(ports: Any, o: Any, s: Any, origin: int, out: int, parent: int, at: int, now: int) -> None:
    """An identification packet (origin input, its output) goes up the link ``at``; ``parent``: the one it repeats (7)."""
    y = s.cycles
    probe = s.run.clock[NEXT_PROBE] & ID_MASK
    s.run.clock[NEXT_PROBE] += 1
    y.origin[probe], y.out[probe], y.parent[probe], y.at[probe] = origin, out, parent, at
    y.counters[C_PACKETS] += 1
    push(s, now + o.control, IDENTIFICATION, probe)


def hear_probe(ports: Any, o: Any, s: Any, hook: Any, probe: int, now: int) -> None:
    """An identification packet reaches the router before its link: the router's own closes the cycle, others are repeated (4)."""
    y = s.cycles
    origin, out, at = y.origin[probe], y.out[probe], y.at[probe]
    router = ports.link_from[at]
    if at == out and ports.link_to[origin] == router:
        if is_blocked(ports, o, s, origin, now) and wanted_link(ports, s, origin) == out:
            close_cycle(ports, o, s, hook, probe, now)
        return
    for i in range(ports.input_first[router], ports.input_first[router + 1]):
        link = ports.inputs[i]
        if wanted_link(ports, s, link) == at and is_blocked(ports, o, s, link, now):
            free = s.queues.held[ports.spare_queue + link] == 0
            if (free or o.repeat_when_full != 0) and not on_path(s, probe, link):
                send_probe(ports, o, s, origin, out, probe, link, now)


def on_path(s: Any, probe: int, link: int) -> bool:
    """Loop guard: whether the packet has been at this input (7); paths longer than a cycle may be count as loops."""
    length = 0
    while probe >= 0:
        if s.cycles.at[probe] == link:
            return True
        probe = s.cycles.parent[probe]
        length += 1
        if length >= LONGEST_CYCLE - 1:
            return True
    return False


def close_cycle(ports: Any, o: Any, s: Any, hook: Any, probe: int, now: int) -> None:
    """The cycle through this input is known: move its head aside (where the avoidance buffer is free, 9) and signal on."""
    y = s.cycles
    origin = y.origin[probe]
    y.counters[C_IDENTIFIED] += 1
    log_event(ports, s, IDENTIFIED, origin, now)
    if s.queues.held[ports.spare_queue + origin] > 0 or s.packets.tail[s.queues.head[origin * ports.lanes]] > now:
        return
    signal = s.run.clock[NEXT_SIGNAL] % SIGNALS
    s.run.clock[NEXT_SIGNAL] += 1
    length = 0
    walk = probe
    while walk >= 0:
        length += 1
        walk = y.parent[walk]
    y.length[signal] = length
    walk = probe
    for i in range(length - 1, -1, -1):
        y.path[signal, i] = y.at[walk]
        walk = y.parent[walk]
    y.place[signal] = 0
    y.counters[C_MOVED] += 1
    log_event(ports, s, MOVED, origin, now)
    move_aside(ports, o, s, hook, signal, origin, now)


def move_aside(ports: Any, o: Any, s: Any, hook: Any, signal: int, link: int, now: int) -> None:
    """move(a, d) at the input; its freed slot travels up the link with the recovery signal (10), which names the next input."""
    queue = link * ports.lanes
    spare = ports.spare_queue + link
    withdraw(ports, s, queue)
    packet = take_head(s, queue)
    place = ports.slot_first[queue] + s.queues.removed[queue] % ports.slots[queue]
    s.queues.release[place] = NEVER
    s.queues.removed[queue] += 1
    append(s, spare, packet)
    s.queues.arrived[spare] += 1
    s.cycles.stopped[ports.link_to[link]] += 1
    enlist(ports, o, s, hook, spare, now)
    wake(s, s.queues.want[spare], now)
    if s.queues.arrived[queue] > 0:
        enlist(ports, o, s, hook, queue, now)
        wake(s, s.queues.want[queue], now)
    y = s.cycles
    y.slot[signal] = place
    y.place[signal] += 1
    y.counters[C_SIGNALS] += 1
    push(s, now + o.control, RECOVERY, signal)


def hear_signal(ports: Any, o: Any, s: Any, hook: Any, signal: int, now: int) -> None:
    """A recovery signal reaches the router before the link: 4.4 to 4.7 decide on a move, a slot kept, or normal work (10)."""
    y, q = s.cycles, s.queues
    place, length = y.place[signal], y.length[signal]
    out, link = y.path[signal, place - 1], y.path[signal, place % length]
    q.release[y.slot[signal]] = now
    spare = ports.spare_queue + link
    wants = wanted_link(ports, s, link) == out and is_full(ports, s, link, now) and room_behind(ports, s, out, now) <= 1
    tail_here = wants and s.packets.tail[q.head[link * ports.lanes]] <= now
    spare_wants = q.held[spare] > 0 and q.want[spare] == ports.entry[out]
    moved = wants and tail_here and q.held[spare] == 0 and place < length and o.recovery_run != 0
    if (moved or wants or spare_wants) and keep_slot(s, o, out, link):
        y.counters[C_RESERVED] += 1
        log_event(ports, s, RESERVED, link, now)
    elif not (moved or wants or spare_wants):
        y.counters[C_NORMAL] += 1
        log_event(ports, s, ENDED, link, now)
    if moved:
        y.counters[C_RECOVERY_MOVED] += 1
        log_event(ports, s, RECOVERED, link, now)
        move_aside(ports, o, s, hook, signal, link, now)
    arbitrate(ports, o, s, hook, out, now)
    if ports.two_stages != 0:
        arbitrate(ports, o, s, hook, ports.entry[out], now)


def keep_slot(s: Any, o: Any, out: int, link: int) -> bool:
    """Keep the free slot behind the output for this input, unless one is kept for another (6)."""
    y = s.cycles
    if o.reserve == 0 or (y.kept[out] > 0 and y.holder[out] != link):
        return False
    y.holder[out] = link
    y.kept[out] = 1
    return True


def try_again(ports: Any, o: Any, s: Any, link: int, now: int) -> None:
    """The retry timer (8): an input that is still blocked identifies itself once more."""
    y = s.cycles
    y.pending[link] = 0
    if y.blocked[link] != 0 and is_blocked(ports, o, s, link, now):
        y.counters[C_RETRIES] += 1
        send_probe(ports, o, s, link, wanted_link(ports, s, link), NONE, link, now)
        y.pending[link] = 1
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
