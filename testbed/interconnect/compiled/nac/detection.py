"""NAC's detection of deadlock-prone situations (Zarza 2011, 4.2.1): inputs that meet conditions 4.1 to 4.3.

Numbers in brackets are the decisions listed in docs/workloads/nac.md.
"""

from __future__ import annotations

from testbed.interconnect.compiled import kernel_records as kr
from testbed.interconnect.compiled.channel_requests import wake_for_credits
from testbed.interconnect.compiled.kernel_events import bit, link_of, push, wake
from testbed.interconnect.compiled.kernel_state import State, Tables
from testbed.interconnect.compiled.nac.throttle import free_slots_behind, resume_injection
from testbed.interconnect.engine_inputs import EngineOptions
from testbed.interconnect.static_paths import NONE
from testbed.jit import first_bit, inline

RECOVERING = -2
"""In place of the identification packet that is repeated: none, after a recovery signal."""


def log_event(net: Tables, s: State, kind: int, link: int, now: int) -> None:
    """It is counted, and one line of the timeline: tick, kind, router, its input."""
    s.counters[kind] += 1
    if s.run[0].logged < len(s.log):
        at = s.run[0].logged
        s.log[at, 0], s.log[at, 1], s.log[at, 2], s.log[at, 3] = now, kind, net.link[link].end, link
        s.run[0].logged = at + 1


@inline
def requested_output(net: Tables, s: State, link: int) -> int:
    """The link between routers that the head of this input asks for; NONE: it asks for none, or for a host."""
    channel = s.queues[link * net.lanes].want
    if channel < 0:
        return NONE
    out = channel if channel < net.links else channel - net.links
    return int(out) if net.link[out].end >= 0 else NONE


@inline
def is_full(net: Tables, s: State, link: int, now: int) -> bool:
    """True when the heads of as many packets as the input has slots have arrived, and none is being transferred (2).

    Condition 4.3 of Zarza 2011: size(a) = cap(a).
    """
    queue = link * net.lanes
    if s.queues[queue].arrived != s.queues[queue].slots:
        return False
    return bool(s.queues[queue].read_until <= now)


@inline
def is_blocked(net: Tables, o: EngineOptions, s: State, link: int, now: int) -> bool:
    """True when the input is full (condition 4.3 of Zarza 2011), its head asks for a link between routers (4.2), and
    every slot behind that output is taken or promised (4.1), as known from the router's own occupancy and credits (3).
    """
    if not is_full(net, s, link, now):
        return False
    out = requested_output(net, s, link)
    return out >= 0 and free_slots_behind(net, s, out, now) <= o.nac.slack


@inline
def send_identification(
    net: Tables, o: EngineOptions, s: State, origin: int, out: int, parent: int, at: int, now: int
) -> None:
    """An identification packet (origin input, its output) goes up the link ``at``; ``parent``: the one it repeats (7),
    NONE: none, RECOVERING: none, and a recovery signal has reached its router (22). The run stops where it would take
    the place of one under way, or of the one that it repeats."""
    if s.run[0].identifications - s.run[0].arrived_identifications >= kr.ID_MASK:
        s.run[0].status = kr.RING_FULL
        return
    sent = s.identifications[s.run[0].identifications & kr.ID_MASK]
    s.run[0].identifications += 1
    sent.tick, sent.origin, sent.out, sent.parent, sent.at = now + o.nac.control, origin, out, parent, at
    sent.length, sent.recovery, sent.seen = 1, parent == RECOVERING, 1 << (at % 31)
    if parent >= 0:
        known = s.identifications[parent]
        sent.length, sent.recovery, sent.seen = known.length + 1, known.recovery, known.seen | sent.seen
    s.counters[kr.PACKETS_SENT] += 1


def set_requested_output(s: State, link: int, out: int, now: int) -> None:
    """The blocked input asks for that output from now on (NONE: it asks for none): it changes lists, each by number."""
    known = s.links[link].waits_for
    if known >= 0:
        if s.links[known].first_asker == link:
            s.links[known].first_asker = s.links[link].next_asker
        else:
            before = s.links[known].first_asker
            while s.links[before].next_asker != link:
                before = s.links[before].next_asker
            s.links[before].next_asker = s.links[link].next_asker
    s.links[link].waits_for = out
    s.links[link].changed_at = now
    if out >= 0:
        behind = s.links[out].first_asker
        if behind < 0 or behind > link:
            s.links[out].first_asker = link
        else:
            before = behind
            behind = s.links[before].next_asker
            while 0 <= behind < link:
                before = behind
                behind = s.links[before].next_asker
            s.links[before].next_asker = link
        s.links[link].next_asker = behind


@inline
def detect_later(s: State, router: int, now: int) -> None:
    """Let a look at the router's inputs follow when all that moves at this tick has moved, if one is full or was
    blocked."""
    if s.routers[router].watched > 0 and s.routers[router].detection_at != now:
        s.routers[router].detection_at = now
        push(s, now, kr.DETECTION, router)


@inline
def blocking_may_change(net: Tables, s: State, router: int) -> bool:
    """Whether an input of the router is full that was not blocked when last looked at, or the reverse; true of very
    many inputs.

    Where not, only a credit that is back (``counts_credits``) or a packet read from another lane (``check_on_read``)
    can change which inputs are blocked: a full input's head asks for the same output until it moves.
    """
    many = net.router[router + 1].input_first - net.router[router].input_first > kr.WORD
    return bool(many or s.routers[router].full != s.routers[router].blocked)


@inline
def check_on_read(net: Tables, s: State, queue: int, now: int) -> None:
    """A packet goes out of the queue: an input that was blocked is not blocked while one is read from another of its
    lanes."""
    if net.lanes > 1 and queue < net.links * net.lanes and s.links[link_of(net, queue)].waits_for >= 0:
        detect_later(s, s.queues[queue].router, now)


def detect_blocked_inputs(net: Tables, o: EngineOptions, s: State, router: int, now: int) -> None:
    """Which inputs of the router are blocked now (1), of those that are full or were blocked: others are not, and were
    not."""
    first, count = net.router[router].input_first, net.router[router + 1].input_first - net.router[router].input_first
    if count > kr.WORD:
        for i in range(count):
            check_input(net, o, s, router, net.inputs[first + i], now)
        return
    left = s.routers[router].full | s.routers[router].blocked
    while left != 0:
        check_input(net, o, s, router, net.inputs[first + first_bit(left)], now)
        left &= left - 1


@inline
def check_input(net: Tables, o: EngineOptions, s: State, router: int, link: int, now: int) -> None:
    """Whether the router's input is blocked now."""
    out = requested_output(net, s, link) if is_blocked(net, o, s, link, now) else NONE
    if out != s.links[link].waits_for:
        change_input(net, o, s, router, link, out, now)


def change_input(net: Tables, o: EngineOptions, s: State, router: int, link: int, out: int, now: int) -> None:
    """The input is blocked for another output than before (NONE: for none): newly so, it throttles hosts, and
    identifies itself."""
    known = s.links[link].waits_for
    set_requested_output(s, link, out, now)
    if out >= 0:
        wake_for_credits(net, o, s, out, now)
    if (known < 0) != (out < 0):
        s.routers[router].watched += 1 if out >= 0 else -1
        s.routers[router].blocked ^= bit(net.link[link].place % kr.WORD)
    if known < 0:
        s.routers[router].throttled += 1
        log_event(net, s, kr.BLOCKED, link, now)
        send_identification(net, o, s, link, out, NONE, link, now)
        if s.links[link].retry_pending == 0:
            s.links[link].retry_pending = 1
            push(s, now + o.nac.retry, kr.RETRY, link)
    elif out < 0:
        resume_injection(net, s, router, now)
    if o.nac.stop_output and known >= 0:
        wake(s, net.link[known].entry, now)


def retry_identification(net: Tables, o: EngineOptions, s: State, link: int, now: int) -> None:
    """The retry timer (8): an input that is still blocked identifies itself once more."""
    s.links[link].retry_pending = 0
    if s.links[link].waits_for >= 0:
        s.counters[kr.RETRIES] += 1
        send_identification(net, o, s, link, s.links[link].waits_for, NONE, link, now)
        s.links[link].retry_pending = 1
        push(s, now + o.nac.retry, kr.RETRY, link)
