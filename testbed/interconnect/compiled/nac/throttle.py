"""NAC's throttle (Zarza 2011, 4.2.1), which keeps packets out of a full cycle until it moves again.

There are two kinds of stops. ``stop_fw`` applies to the inputs from a router's own hosts: while any
of its inputs is blocked, or has a packet in its avoidance buffer, none of their packets is
forwarded (``Router.throttled``, ``resume_injection``). ``stop_st`` applies to an output: the slot
that a move has freed is reserved for the cycle, and every other input needs one more slot
(``reserve_slot``, ``use_reserved_slot``). Arbitration calls ``may_request``, which checks both.
"""

from __future__ import annotations

from testbed.interconnect.compiled.channel_requests import wake_for_credits
from testbed.interconnect.compiled.kernel_events import (
    bit,
    lane_of,
    link_of,
    never_used,
    slot_after,
    wake,
)
from testbed.interconnect.compiled.kernel_records import WORD
from testbed.interconnect.compiled.kernel_state import State, Tables
from testbed.interconnect.engine_inputs import EngineOptions
from testbed.jit import inline


@inline
def free_slots_behind(net: Tables, s: State, link: int, now: int) -> int:
    """Return the number of free slots of an output's logic buffer: cap(c) - size(c) (3).

    These are the free slots of its output buffer, and those of the input buffer behind the link as
    far as credits have announced them.
    """
    behind = link * net.lanes
    room = never_used(s, behind)
    slot = s.queues[behind].returning_at
    for _ in range(s.queues[behind].returning):
        if s.release[slot] > now:
            break
        room += 1
        slot = slot_after(s, behind, slot)
    if net.output_buffers:
        output_buffer = s.queues[(net.links + link) * net.lanes]
        room += output_buffer.slots - output_buffer.occupied
    return int(room)


@inline
def counts_credits(s: State, out: int) -> bool:
    """Return whether NAC must be told of each credit that returns to the output.

    This is so if an input was blocked for this output at the last detection, or if a slot behind
    the output is reserved.
    """
    return bool(s.links[out].first_asker >= 0 or s.links[out].reserved > 0)


@inline
def may_request(
    net: Tables, o: EngineOptions, s: State, channel: int, queue: int, now: int
) -> bool:
    """Return whether NAC lets the queue's head take part in the arbitration of the channel.

    It may not in these cases:

    - the queue belongs to a host of the router, and their injection is throttled;
    - without ``own_request``, the input's avoidance buffer has a packet, which must leave first;
    - with ``stop_output``, an input of the router is blocked for this output;
    - the only free slots behind the channel are reserved for another input.
    """
    link = channel if channel < net.links else channel - net.links
    if s.queues[queue].router < 0 or (net.output_buffers and channel < net.links):
        return True
    router = s.queues[queue].router
    if o.nac.stop_local and s.routers[router].throttled > 0 and is_injection_queue(net, queue):
        return False
    behind_avoided = not o.nac.own_request and queue < net.links * net.lanes
    if behind_avoided and s.queues[net.avoidance_queue + link_of(net, queue)].occupied > 0:
        return False
    # stop_st: at the last detection an input of the router was blocked for this output (21).
    if o.nac.stop_output and queue < net.avoidance_queue and s.links[link].first_asker >= 0:
        return False
    if (
        s.links[link].reserved > 0
        and net.link[link].end >= 0
        and not slot_reserved_for(net, s, link, queue)
    ):
        return bool(free_slots_behind(net, s, link, now) > s.links[link].reserved)
    return True


@inline
def is_injection_queue(net: Tables, queue: int) -> bool:
    """Return whether the queue has packets of the router's own hosts.

    Notices that the router itself sends are among them if they use the lanes of messages.
    """
    if queue < net.links * net.lanes:
        return bool(net.link[link_of(net, queue)].start < 0)
    return bool(net.lanes == net.data_lanes and net.notice_queue <= queue < net.avoidance_queue)


@inline
def slot_reserved_for(net: Tables, s: State, out: int, queue: int) -> bool:
    """Return whether the reserved slot behind the output is for this queue.

    It is for an input together with its avoidance buffer.
    """
    holder = s.links[out].reserved_for
    return bool(
        holder >= 0 and (queue == holder * net.lanes or queue == net.avoidance_queue + holder)
    )


@inline
def watch_if_full(net: Tables, s: State, queue: int, change: int) -> None:
    """Update the router's number of full inputs if the queue is a full input from another router.

    Args:
        net: The network's tables.
        s: The state.
        queue: The queue.
        change: 1 when the queue has become full, -1 when it is about to lose its head.
    """
    if s.queues[queue].arrived == s.queues[queue].slots and queue < net.links * net.lanes:
        link = link_of(net, queue)
        if lane_of(net, queue) == 0 and net.link[link].start >= 0 and net.link[link].end >= 0:
            router = s.routers[net.link[link].end]
            router.watched += change
            router.full ^= bit(net.link[link].place & (WORD - 1))


@inline
def avoidance_buffer_is_free(net: Tables, o: EngineOptions, s: State, link: int, now: int) -> bool:
    """Return whether the avoidance buffer of the input after the link is free (17).

    It is free as soon as the head of its packet has left; with ``strict_slot``, only when the tail
    has left, too.
    """
    avoidance = net.avoidance_queue + link
    if s.queues[avoidance].occupied > 0:
        return False
    return not o.nac.strict_slot or bool(s.queues[avoidance].read_until <= now)


def resume_injection(net: Tables, s: State, router: int, now: int) -> None:
    """Remove one reason to throttle the router's hosts.

    If it was the last one, all heads that were stopped take part in arbitration again: messages and
    ACKs of the hosts, and the router's notices.
    """
    s.routers[router].throttled -= 1
    if s.routers[router].throttled == 0:
        for i in range(net.router[router].host_first, net.router[router + 1].host_first):
            for lane in range(net.lanes):
                channel = s.queues[net.host[net.hosts_of[i]].uplink * net.lanes + lane].want
                if channel >= 0:
                    wake(s, channel, now)
        notice_channel = s.queues[net.notice_queue + router].want
        if notice_channel >= 0:
            wake(s, notice_channel, now)


def reserve_slot(net: Tables, o: EngineOptions, s: State, out: int, link: int, now: int) -> bool:
    """Reserve the free slot behind the output for an input (6).

    Returns:
        Whether it is reserved now. It is not if it is reserved for another input, or if the option
        ``reserve`` is off.
    """
    output = s.links[out]
    if not o.nac.reserve or (output.reserved > 0 and output.reserved_for != link):
        return False
    output.reserved_for = link
    output.reserved = 1
    wake_for_credits(net, o, s, out, now)
    return True


@inline
def use_reserved_slot(net: Tables, s: State, channel: int, queue: int, now: int) -> None:
    """Update NAC's state after the channel was granted to the queue.

    A slot that was reserved for the queue is now in use. If the queue is an avoidance buffer, it is
    now empty, which removes one reason to throttle the router's hosts.
    """
    if not net.output_buffers or channel >= net.links:
        link = channel if channel < net.links else channel - net.links
        if s.links[link].reserved > 0 and slot_reserved_for(net, s, link, queue):
            s.links[link].reserved -= 1
    if queue >= net.avoidance_queue:
        input_link = queue - net.avoidance_queue
        resume_injection(net, s, net.link[input_link].end, now)
        waiting = s.queues[input_link * net.lanes].want
        if waiting >= 0:
            wake(s, waiting, now)
