"""NAC's gradual recovery of packet forwarding (Zarza 2011, 4.2.3).

It moves packets to avoidance buffers and passes the signal round the cycle. When a cable fails or
is repaired, heads that would continue to request a detour are routed again (``ask_anew``). Numbers
in brackets, as (8), refer to the decisions listed in docs/workloads/nac_decisions.md.
"""

from __future__ import annotations

from testbed.interconnect.compiled import kernel_records as kr
from testbed.interconnect.compiled.channel_requests import (
    request_channel,
    wake_for_credits,
    withdraw_request,
)
from testbed.interconnect.compiled.kernel_events import append, leave_slot, pop_head, push, wake
from testbed.interconnect.compiled.kernel_state import Hook, State, Tables
from testbed.interconnect.compiled.nac import detection, throttle
from testbed.interconnect.engine_inputs import EngineOptions
from testbed.interconnect.static_paths import NONE

# Header of a packet that has passed its intermediate routers and is bound for its destination.
DIRECT = 2


def move_to_avoidance_buffer(
    net: Tables, o: EngineOptions, s: State, hook: Hook, signal: int, link: int, now: int
) -> None:
    """move(a, d) at the input: its head goes to the avoidance buffer; the freed slot goes up the link with the signal
    (10).

    The signal knows the cycle, so it names the next input.
    """
    queue = link * net.lanes
    avoidance = net.avoidance_queue + link
    withdraw_request(net, s, queue)
    throttle.watch_if_full(net, s, queue, -1)
    packet = pop_head(s, queue)
    place = leave_slot(s, queue, now)
    s.release[place] = kr.NEVER
    append(s, avoidance, packet)
    s.queues[avoidance].arrived += 1
    s.routers[net.link[link].end].throttled += 1
    for asker in (avoidance, queue):
        if s.queues[asker].arrived > 0:
            request_channel(net, o, s, hook, asker, now)
            wake(s, s.queues[asker].want, now)
    s.signals[signal].slot = place
    s.signals[signal].place += 1
    s.counters[kr.SIGNALS_SENT] += 1
    push(s, now + o.nac.control, kr.RECOVERY, signal)


def new_signal(s: State, link: int, length: int) -> int:
    """A recovery signal for a cycle of so many inputs, of which this is the first."""
    signal = s.run[0].signals % kr.SIGNALS
    s.run[0].signals += 1
    s.path[signal, 0] = link
    s.signals[signal].length, s.signals[signal].place = length, 0
    return int(signal)


def receive_recovery_signal(
    net: Tables, o: EngineOptions, s: State, hook: Hook, signal: int, now: int
) -> None:
    """A recovery signal reaches the router before the link: it moves in its turn, reserves the slot, or works normally
    (10).

    Conditions of Zarza 2011: at most the freed slot is free behind the output (4.4), the input on the cycle asks for
    that output (4.5) and is full (4.6), the signal is there (4.7). Where all hold and the avoidance buffer is free, the
    router moves; where it is not free, or the signal has been round, the slot is reserved for the cycle.
    """
    place, length = s.signals[signal].place, s.signals[signal].length
    out, link = s.path[signal, place - 1], s.path[signal, place % length]
    s.release[s.signals[signal].slot] = now
    if o.nac.identify_anew:
        reidentify(net, o, s, out, now)
        wake(s, out, now)
        return
    wants = recovery_conditions_hold(net, s, link, out, now)
    moved = (
        wants
        and s.packets[s.queues[link * net.lanes].head].tail <= now
        and place < length
        and o.nac.recovery_run
    )
    moved = moved and throttle.avoidance_buffer_is_free(net, o, s, link, now)
    requested = wants or avoidance_packet_requests(net, s, link, out)
    if requested and throttle.reserve_slot(net, o, s, out, link, now):
        detection.log_event(net, s, kr.RESERVED, link, now)
    elif not requested:
        detection.log_event(net, s, kr.ENDED, link, now)
    if moved:
        detection.log_event(net, s, kr.RECOVERED, link, now)
        move_to_avoidance_buffer(net, o, s, hook, signal, link, now)
    wake(s, out, now)


def recovery_conditions_hold(net: Tables, s: State, link: int, out: int, now: int) -> bool:
    """Conditions 4.4 to 4.6 of Zarza 2011: the input asks for the output and is full, and at most the freed slot is
    free behind."""
    if detection.requested_output(net, s, link) != out or not detection.is_full(net, s, link, now):
        return False
    return bool(throttle.free_slots_behind(net, s, out, now) <= 1)


def avoidance_packet_requests(net: Tables, s: State, link: int, out: int) -> bool:
    """The input's avoidance buffer holds a packet that asks for the output."""
    avoidance = net.avoidance_queue + link
    return bool(
        s.queues[avoidance].occupied > 0 and s.queues[avoidance].want == net.link[out].entry
    )


def may_recover(net: Tables, s: State, link: int, out: int, now: int) -> bool:
    """Conditions 4.4 to 4.7 at an input, where the cycle behind the output is being identified again (22)."""
    if s.links[out].reserved == 0 or s.links[out].reserved_for != kr.THE_CYCLE:
        return False
    return bool(recovery_conditions_hold(net, s, link, out, now))


def recovers(net: Tables, s: State, link: int, out: int, now: int) -> bool:
    """Whether identification packets pass this input, though it does not meet the triggering conditions: it recovers
    (22)."""
    return bool(may_recover(net, s, link, out, now) or avoidance_packet_requests(net, s, link, out))


def reidentify(net: Tables, o: EngineOptions, s: State, out: int, now: int) -> None:
    """A recovery signal for the output: a packet put aside there uses the slot; else each input at which conditions 4.4
    to 4.7 hold sends an identification packet, and the slot waits for the cycle until one is back, or a retry time long
    (4.2.3; 22)."""
    router = net.link[out].start
    waiting, full = NONE, NONE
    for i in range(net.router[router].input_first, net.router[router + 1].input_first):
        link = net.inputs[i]
        if waiting == NONE and avoidance_packet_requests(net, s, link, out):
            waiting = link
        if full == NONE and recovery_conditions_hold(net, s, link, out, now):
            full = link
    holder = waiting if waiting != NONE else full
    if waiting != NONE or (full != NONE and (s.links[out].reserved > 0 or not o.nac.recovery_run)):
        if throttle.reserve_slot(net, o, s, out, holder, now):
            detection.log_event(net, s, kr.RESERVED, holder, now)
    elif full != NONE:
        s.links[out].reserved_for = kr.THE_CYCLE
        s.links[out].reserved = 1
        wake_for_credits(net, o, s, out, now)
        push(s, now + o.nac.retry, kr.RETRY, net.links + out)
        for i in range(net.router[router].input_first, net.router[router + 1].input_first):
            if recovery_conditions_hold(net, s, net.inputs[i], out, now):
                detection.send_identification(
                    net, o, s, net.inputs[i], out, detection.RECOVERING, net.inputs[i], now
                )
    else:
        detection.log_event(net, s, kr.ENDED, out, now)


def recover_input(
    net: Tables, o: EngineOptions, s: State, hook: Hook, link: int, out: int, now: int
) -> None:
    """The input is on the cycle: the slot is its own from now on; its head goes to the avoidance buffer, and the signal
    on (22)."""
    detection.log_event(net, s, kr.IDENTIFIED, link, now)
    s.links[out].reserved_for = link
    tail = s.packets[s.queues[link * net.lanes].head].tail
    if tail <= now and throttle.avoidance_buffer_is_free(net, o, s, link, now):
        detection.log_event(net, s, kr.RECOVERED, link, now)
        move_to_avoidance_buffer(net, o, s, hook, new_signal(s, link, 1), link, now)
    wake(s, net.link[out].entry, now)


def release_reserved_slot(net: Tables, s: State, out: int, now: int) -> int:
    """No identification packet has come back: normal work begins again (22). The router, or NONE where nothing
    changes."""
    if s.links[out].reserved == 0 or s.links[out].reserved_for != kr.THE_CYCLE:
        return NONE
    s.links[out].reserved = 0
    detection.log_event(net, s, kr.ENDED, out, now)
    wake(s, net.link[out].entry, now)
    return int(net.link[out].start)


def reroute_all_heads(net: Tables, o: EngineOptions, s: State, hook: Hook, now: int) -> None:
    """Escaped messages at the heads of inputs leave out what is left of their escape paths; slots kept for them
    elsewhere are free (23)."""
    for link in range(net.links):
        queue = link * net.lanes
        if s.queues[queue].router < 0 or s.queues[queue].want < 0:
            continue
        head = s.packets[s.queues[queue].head]
        if head.kind == kr.DATA and head.escapes > 0 and head.header < DIRECT:
            withdraw_request(net, s, queue)
            head.header = DIRECT
            request_channel(net, o, s, hook, queue, now)
            wake(s, s.queues[queue].want, now)
    for out in range(net.links):
        holder = s.links[out].reserved_for
        if s.links[out].reserved == 0 or holder < 0:
            continue
        if detection.requested_output(net, s, holder) != out and not avoidance_packet_requests(
            net, s, holder, out
        ):
            s.links[out].reserved = 0
            wake(s, out, now)
            wake(s, net.link[out].entry, now)
