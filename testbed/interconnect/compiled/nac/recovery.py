"""NAC's gradual recovery of packet forwarding (Zarza 2011, 4.2.3).

It moves packets to avoidance buffers and passes the signal round the cycle. When a cable fails or
is repaired, heads that would continue to request a detour are routed again (``ask_anew``). Numbers
in brackets, such as (8), refer to the decisions listed in docs/workloads/nac_decisions.md.
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
    """Make the move ``move(a, d)``: move the head of the input into its avoidance buffer.

    The freed slot is announced up the link by the recovery signal (10), which knows the cycle and
    so names the next input.

    Args:
        net: The network's tables.
        o: The options of the run.
        s: The state.
        hook: FT-DRB, or None.
        signal: The recovery signal.
        link: The input.
        now: Present tick.
    """
    queue = link * net.lanes
    avoidance = net.avoidance_queue + link
    withdraw_request(net, s, queue)
    throttle.watch_if_full(net, s, queue, -1)
    packet = pop_head(s, queue)
    slot = leave_slot(s, queue, now)
    # Nothing can use the slot before the signal has arrived.
    s.release[slot] = kr.NEVER
    append(s, avoidance, packet)
    s.queues[avoidance].arrived += 1
    s.routers[net.link[link].end].throttled += 1
    for asker in (avoidance, queue):
        if s.queues[asker].arrived > 0:
            request_channel(net, o, s, hook, asker, now)
            wake(s, s.queues[asker].want, now)
    s.signals[signal].slot = slot
    s.signals[signal].place += 1
    s.counters[kr.SIGNALS_SENT] += 1
    push(s, now + o.nac.control, kr.RECOVERY, signal)


def new_signal(s: State, link: int, length: int) -> int:
    """Return a new recovery signal.

    Args:
        s: The state.
        link: First input of the cycle.
        length: Number of inputs on the cycle.
    """
    signal = s.run[0].signals % kr.SIGNALS
    s.run[0].signals += 1
    s.path[signal, 0] = link
    s.signals[signal].length = length
    s.signals[signal].place = 0
    return int(signal)


def receive_recovery_signal(
    net: Tables, o: EngineOptions, s: State, hook: Hook, signal: int, now: int
) -> None:
    """Process a recovery signal that arrives at the router before the link (10).

    The conditions of Zarza 2011 are: at most the freed slot is free behind the output (4.4); the
    input on the cycle requests this output (4.5) and is full (4.6); the signal has arrived (4.7).

    If all of them hold, the router moves a packet, provided that the avoidance buffer is free and
    the signal has not gone round the cycle. Whether or not it moves a packet, it reserves the slot
    for the cycle while a packet of the cycle requests the output. Otherwise it works normally.

    With the option ``identify_anew``, the cycle is identified again instead (``reidentify``).
    """
    index = s.signals[signal].place
    length = s.signals[signal].length
    out = s.path[signal, index - 1]
    link = s.path[signal, index % length]
    s.release[s.signals[signal].slot] = now
    if o.nac.identify_anew:
        reidentify(net, o, s, out, now)
        wake(s, out, now)
        return
    wants = recovery_conditions_hold(net, s, link, out, now)
    moves = (
        wants
        and s.packets[s.queues[link * net.lanes].head].tail <= now
        and index < length
        and o.nac.recovery_run
    )
    moves = moves and throttle.avoidance_buffer_is_free(net, o, s, link, now)
    requested = wants or avoidance_packet_requests(net, s, link, out)
    if requested and throttle.reserve_slot(net, o, s, out, link, now):
        detection.log_event(net, s, kr.RESERVED, link, now)
    elif not requested:
        detection.log_event(net, s, kr.ENDED, link, now)
    if moves:
        detection.log_event(net, s, kr.RECOVERED, link, now)
        move_to_avoidance_buffer(net, o, s, hook, signal, link, now)
    wake(s, out, now)


def recovery_conditions_hold(net: Tables, s: State, link: int, out: int, now: int) -> bool:
    """Return whether conditions 4.4 to 4.6 of Zarza 2011 hold at an input.

    The input requests the output and is full, and at most the freed slot is free behind the output.
    """
    if detection.requested_output(net, s, link) != out or not detection.is_full(net, s, link, now):
        return False
    return bool(throttle.free_slots_behind(net, s, out, now) <= 1)


def avoidance_packet_requests(net: Tables, s: State, link: int, out: int) -> bool:
    """Return whether the packet in the input's avoidance buffer requests the output."""
    avoidance = net.avoidance_queue + link
    return bool(
        s.queues[avoidance].occupied > 0 and s.queues[avoidance].want == net.link[out].entry
    )


def may_recover(net: Tables, s: State, link: int, out: int, now: int) -> bool:
    """Return whether the input may recover while the cycle behind the output is identified (22).

    Conditions 4.4 to 4.7 hold there, and the slot behind the output is reserved for the cycle.
    """
    if s.links[out].reserved == 0 or s.links[out].reserved_for != kr.THE_CYCLE:
        return False
    return bool(recovery_conditions_hold(net, s, link, out, now))


def recovers(net: Tables, s: State, link: int, out: int, now: int) -> bool:
    """Return whether the input recovers (22).

    Such an input is passed by identification packets, although it does not meet the triggering
    conditions.
    """
    return bool(may_recover(net, s, link, out, now) or avoidance_packet_requests(net, s, link, out))


def reidentify(net: Tables, o: EngineOptions, s: State, out: int, now: int) -> None:
    """Process a recovery signal for an output by identifying the cycle again (4.2.3; 22).

    If a packet in an avoidance buffer requests the output, the slot is reserved for it. Otherwise
    each input where conditions 4.4 to 4.7 hold sends an identification packet. The slot is reserved
    for the cycle until one of these packets returns, for at most the duration of a retry.

    If a slot is reserved already, or the option ``recovery_run`` is off, nothing is sent: the slot
    is reserved for the first such input. If there is no such input, normal operation begins again.
    """
    router = net.link[out].start
    with_avoidance_packet = NONE
    full = NONE
    for i in range(net.router[router].input_first, net.router[router + 1].input_first):
        link = net.inputs[i]
        if with_avoidance_packet == NONE and avoidance_packet_requests(net, s, link, out):
            with_avoidance_packet = link
        if full == NONE and recovery_conditions_hold(net, s, link, out, now):
            full = link
    holder = with_avoidance_packet if with_avoidance_packet != NONE else full
    cannot_identify = s.links[out].reserved > 0 or not o.nac.recovery_run
    if with_avoidance_packet != NONE or (full != NONE and cannot_identify):
        if throttle.reserve_slot(net, o, s, out, holder, now):
            detection.log_event(net, s, kr.RESERVED, holder, now)
    elif full != NONE:
        s.links[out].reserved_for = kr.THE_CYCLE
        s.links[out].reserved = 1
        wake_for_credits(net, o, s, out, now)
        push(s, now + o.nac.retry, kr.RETRY, net.links + out)
        for i in range(net.router[router].input_first, net.router[router + 1].input_first):
            link = net.inputs[i]
            if recovery_conditions_hold(net, s, link, out, now):
                detection.send_identification(net, o, s, link, out, detection.RECOVERING, link, now)
    else:
        detection.log_event(net, s, kr.ENDED, out, now)


def recover_input(
    net: Tables, o: EngineOptions, s: State, hook: Hook, link: int, out: int, now: int
) -> None:
    """Process the return of an identification packet to an input that recovers (22).

    The input is on the cycle, so the slot behind the output is reserved for it. Its head moves to
    the avoidance buffer if that is possible, and a recovery signal is sent up the link.
    """
    detection.log_event(net, s, kr.IDENTIFIED, link, now)
    s.links[out].reserved_for = link
    tail = s.packets[s.queues[link * net.lanes].head].tail
    if tail <= now and throttle.avoidance_buffer_is_free(net, o, s, link, now):
        detection.log_event(net, s, kr.RECOVERED, link, now)
        move_to_avoidance_buffer(net, o, s, hook, new_signal(s, link, 1), link, now)
    wake(s, net.link[out].entry, now)


def release_reserved_slot(net: Tables, s: State, out: int, now: int) -> int:
    """Release the slot behind an output if no identification packet has returned in time (22).

    Returns:
        The router of the output, or NONE if no slot was reserved for a cycle.
    """
    if s.links[out].reserved == 0 or s.links[out].reserved_for != kr.THE_CYCLE:
        return NONE
    s.links[out].reserved = 0
    detection.log_event(net, s, kr.ENDED, out, now)
    wake(s, net.link[out].entry, now)
    return int(net.link[out].start)


def reroute_all_heads(net: Tables, o: EngineOptions, s: State, hook: Hook, now: int) -> None:
    """Send escaped messages at the heads of inputs directly to their destinations (23).

    They omit the remaining routers of their escape paths. A slot that was reserved at an output
    which its holder no longer requests is released.
    """
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
        if detection.requested_output(net, s, holder) == out:
            continue
        if not avoidance_packet_requests(net, s, holder, out):
            s.links[out].reserved = 0
            wake(s, out, now)
            wake(s, net.link[out].entry, now)
