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
    """cap(c) - size(c) of an output's logic buffer: free slots of its output buffer, and of the input buffer by credits
    (3)."""
    behind = link * net.lanes
    room, place = never_used(s, behind), s.queues[behind].returning_at
    for _ in range(s.queues[behind].returning):
        if s.release[place] > now:
            break
        room += 1
        place = slot_after(s, behind, place)
    if net.output_buffers:
        own = (net.links + link) * net.lanes
        room += s.queues[own].slots - s.queues[own].occupied
    return int(room)


@inline
def counts_credits(s: State, out: int) -> bool:
    """Whether an input was blocked for this output when last looked at, or a slot behind it is reserved."""
    return bool(s.links[out].first_asker >= 0 or s.links[out].reserved > 0)


@inline
def may_request(
    net: Tables, o: EngineOptions, s: State, channel: int, queue: int, now: int
) -> bool:
    """False where NAC holds the queue's head back: injection is throttled, or the free slot is reserved for another
    input."""
    link = channel if channel < net.links else channel - net.links
    if s.queues[queue].router < 0 or (net.output_buffers and channel < net.links):
        return True
    router = s.queues[queue].router
    if o.nac.stop_local and s.routers[router].throttled > 0 and is_injection_queue(net, queue):
        return False
    behind_avoided = not o.nac.own_request and queue < net.links * net.lanes
    if behind_avoided and s.queues[net.avoidance_queue + link_of(net, queue)].occupied > 0:
        return False
    if o.nac.stop_output and queue < net.avoidance_queue and s.links[link].first_asker >= 0:
        return False  # stop_st: an input of the router was blocked for this output when last looked at (21)
    if (
        s.links[link].reserved > 0
        and net.link[link].end >= 0
        and not slot_reserved_for(net, s, link, queue)
    ):
        return bool(free_slots_behind(net, s, link, now) > s.links[link].reserved)
    return True


@inline
def is_injection_queue(net: Tables, queue: int) -> bool:
    """Whether a router's queue holds packets of its own hosts, or its own notices that go into messages' buffers."""
    if queue < net.links * net.lanes:
        return bool(net.link[link_of(net, queue)].start < 0)
    return bool(net.lanes == net.data_lanes and net.notice_queue <= queue < net.avoidance_queue)


@inline
def slot_reserved_for(net: Tables, s: State, out: int, queue: int) -> bool:
    """Whether the slot that is reserved behind the output is for this queue: an input, or its avoidance buffer."""
    holder = s.links[out].reserved_for
    return bool(
        holder >= 0 and (queue == holder * net.lanes or queue == net.avoidance_queue + holder)
    )


@inline
def watch_if_full(net: Tables, s: State, queue: int, change: int) -> None:
    """Where the queue is the full input after a link between routers, its router has so many more inputs to watch."""
    if s.queues[queue].arrived == s.queues[queue].slots and queue < net.links * net.lanes:
        link = link_of(net, queue)
        if lane_of(net, queue) == 0 and net.link[link].start >= 0 and net.link[link].end >= 0:
            s.routers[net.link[link].end].watched += change
            s.routers[net.link[link].end].full ^= bit(net.link[link].place & (WORD - 1))


@inline
def avoidance_buffer_is_free(net: Tables, o: EngineOptions, s: State, link: int, now: int) -> bool:
    """Whether the avoidance buffer of the input after the link holds no packet; with ``strict_slot`` not even a tail
    (17)."""
    avoidance = net.avoidance_queue + link
    if s.queues[avoidance].occupied > 0:
        return False
    return not o.nac.strict_slot or bool(s.queues[avoidance].read_until <= now)


def resume_injection(net: Tables, s: State, router: int, now: int) -> None:
    """One reason less to throttle injection; with none left, messages and ACKs of the router's own hosts ask again."""
    s.routers[router].throttled -= 1
    if s.routers[router].throttled == 0:
        for i in range(net.router[router].host_first, net.router[router + 1].host_first):
            for lane in range(net.lanes):
                channel = s.queues[net.host[net.hosts_of[i]].uplink * net.lanes + lane].want
                if channel >= 0:
                    wake(s, channel, now)
        if s.queues[net.notice_queue + router].want >= 0:
            wake(s, s.queues[net.notice_queue + router].want, now)


def reserve_slot(net: Tables, o: EngineOptions, s: State, out: int, link: int, now: int) -> bool:
    """Reserve the free slot behind the output for this input (6); False where one is reserved for another."""
    if not o.nac.reserve or (s.links[out].reserved > 0 and s.links[out].reserved_for != link):
        return False
    s.links[out].reserved_for = link
    s.links[out].reserved = 1
    wake_for_credits(net, o, s, out, now)
    return True


@inline
def use_reserved_slot(net: Tables, s: State, channel: int, queue: int, now: int) -> None:
    """After a grant: a reserved slot is used up; an avoidance buffer that is empty again is a reason less to
    throttle."""
    if not net.output_buffers or channel >= net.links:
        link = channel if channel < net.links else channel - net.links
        if s.links[link].reserved > 0 and slot_reserved_for(net, s, link, queue):
            s.links[link].reserved -= 1
    if queue >= net.avoidance_queue:
        own = queue - net.avoidance_queue
        resume_injection(net, s, net.link[own].end, now)
        waiting = s.queues[own * net.lanes].want
        if waiting >= 0:
            wake(s, waiting, now)
