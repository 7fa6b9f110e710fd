"""Virtual cut-through over flat arrays: arbitration, the grant of a channel, and its consequences.

``net`` contains the network's tables, ``o`` the run's options and ``s`` the state. ``hook`` is
FT-DRB, or None, for which numba leaves out the code behind it. The docstring of the package
describes how the engine works.
"""

from __future__ import annotations

from testbed.interconnect.compiled import kernel_events as events
from testbed.interconnect.compiled import kernel_records as kr
from testbed.interconnect.compiled.channel_requests import (
    request_channel,
    wanted_slots,
    withdraw_request,
)
from testbed.interconnect.compiled.ft_drb_hooks import target_of
from testbed.interconnect.compiled.kernel_state import Hook, State, Tables
from testbed.interconnect.compiled.nac.detection import check_on_read
from testbed.interconnect.compiled.nac.throttle import (
    counts_credits,
    may_request,
    use_reserved_slot,
    watch_if_full,
)
from testbed.interconnect.compiled.relation_steps import bubble_missing
from testbed.interconnect.engine_inputs import EngineOptions
from testbed.interconnect.route_tables import RECOVERY as RECOVERY_LANE
from testbed.interconnect.static_paths import NONE
from testbed.jit import inline

# Priorities in arbitration, of which the lowest wins: ACKs have 0, then come packets in NAC's
# avoidance buffers, then all others. The order within a priority is added.
AVOIDANCE_GRADE = 1 << 57
DATA_GRADE = 1 << 58


@inline
def open_lane(
    net: Tables, o: EngineOptions, s: State, hook: Hook, channel: int, queue: int, now: int
) -> int:
    """Return the first lane with room behind the channel that the queue's head may use, or NONE.

    If packets take lanes in turn, the search begins after the lane of the queue's last packet.
    """
    packet = s.queues[queue].head
    low = 0
    high = net.data_lanes
    if hook is not None and s.packets[packet].kind != kr.DATA and net.lanes > net.data_lanes:
        low = net.data_lanes
        high = net.data_lanes + 1
    elif channel < net.links and net.output_buffers and s.queues[queue].router >= 0:
        low = events.lane_of(net, queue)
        high = low + 1
    elif net.adaptive:
        if s.queues[queue].router >= 0 and s.queues[queue].lane_requested >= 0:
            low = s.queues[queue].lane_requested
            high = low + 1
    elif net.classes == 2 and s.queues[queue].router >= 0:
        link = channel if channel < net.links else channel - net.links
        if net.link[link].end >= 0:
            target = net.host[s.packets[packet].destination].target
            if hook is not None:
                target = target_of(net, s, packet)
            half = net.data_lanes // 2
            feeder = events.link_of(net, queue)
            in_first = (
                net.lane_class[s.packets[packet].variant, s.queues[queue].router, target] == 0
            )
            if o.keep_class and feeder < net.links and net.axis[feeder] == net.axis[link]:
                in_first = events.lane_of(net, queue) < half
            if in_first:
                high = half
            else:
                low = half
    turn = 0
    if o.lanes_in_turn and high - low > 1:
        turn = int((s.turns[queue].last + 1 - low) % (high - low))
    for k in range(high - low):
        lane = low + k + turn
        if lane >= high:
            lane -= high - low
        behind = channel * net.lanes + lane
        if o.turnaround > 0 and s.turns[behind].open_at > now:
            events.wake(s, channel, s.turns[behind].open_at)
            continue
        if s.queues[behind].slots == 0:
            return int(lane)
        if events.has_free_slot(s, behind, now):
            if o.bubble and bubble_missing(net, s, channel, queue, behind, now):
                continue
            return int(lane)
    return NONE


@inline
def arbitrate(net: Tables, o: EngineOptions, s: State, hook: Hook, channel: int, now: int) -> None:
    """Grant an idle channel to one of the queues that request it.

    ACKs come first, then avoidance buffers, then round robin or the oldest request.
    """
    behind = s.channels[channel].first_asker
    if behind < 0 or s.channels[channel].busy > now:
        return
    cable = s.channels[channel].cable
    if cable >= 0 and s.down[cable] != 0:
        return
    simple = (
        net.lanes == 1 and o.turnaround == 0 and not o.bubble
    )  # room is there for all who ask, or for none
    if simple and s.queues[channel].slots > 0 and not events.has_free_slot(s, channel, now):
        return
    best = kr.NEVER
    chosen = NONE
    chosen_lane = NONE
    while behind >= 0:
        queue = behind
        behind = s.queues[behind].next_asker
        if s.queues[s.queues[queue].reader].read_until > now:
            continue
        if o.nac.enabled and not may_request(net, o, s, channel, queue, now):
            continue
        if o.turnaround > 0 and s.turns[queue].ready > now:
            events.wake(s, channel, s.turns[queue].ready)
            continue
        lane = 0 if simple else open_lane(net, o, s, hook, channel, queue, now)
        if lane < 0:
            continue
        if chosen < 0 and behind < 0:  # nobody else may go
            chosen = queue
            chosen_lane = lane
            break
        if o.fifo:
            priority = int(s.queues[queue].since) * 4096 + int(s.queues[queue].rank)
        else:
            priority = int(s.queues[queue].rank) - int(s.channels[channel].last) - 1
            if priority < 0:
                priority += int(s.channels[channel].ranks)
        if hook is None or s.packets[s.queues[queue].head].kind == kr.DATA:
            priority += AVOIDANCE_GRADE if queue >= net.avoidance_queue else DATA_GRADE
        if priority < best:
            best = priority
            chosen = queue
            chosen_lane = lane
    if chosen >= 0:
        grant(net, o, s, hook, channel, chosen, chosen_lane, now)


@inline
def grant(
    net: Tables,
    o: EngineOptions,
    s: State,
    hook: Hook,
    channel: int,
    queue: int,
    lane: int,
    now: int,
) -> None:
    """Send the head of a queue over a channel.

    The slot that it leaves becomes free, a slot behind the channel is taken, and waiting queues are
    woken.
    """
    withdraw_request(net, s, queue)
    if o.nac.enabled:
        watch_if_full(net, s, queue, -1)
        check_on_read(net, s, queue, now)
    packet = events.pop_head(s, queue)
    # The tail cannot leave before it is there, over a faster channel than that by which it comes.
    tail_leaves = max(
        now + s.transmission[s.channels[channel].rate + s.packets[packet].length],
        s.packets[packet].tail,
    )
    free_slot(net, o, s, queue, now if o.head_release else tail_leaves, now)
    s.channels[channel].busy = tail_leaves
    if o.lanes_in_turn:
        s.turns[queue].last = lane
    if o.turnaround > 0 and s.queues[queue].router >= 0:
        s.turns[channel * net.lanes + lane].open_at = tail_leaves + o.turnaround
        s.turns[queue].ready = tail_leaves + o.turnaround
    s.channels[channel].last = s.queues[queue].rank
    s.channels[channel].carried += 1
    s.run[0].last_move = now
    s.run[0].digest = (
        s.run[0].digest * 48271 + channel * 7919 + s.packets[packet].number * 31 + now
    ) & 0x7FFFFFFF
    if s.run[0].traced < len(s.trace):
        at = s.run[0].traced
        s.trace[at, 0] = now
        s.trace[at, 1] = channel
        s.trace[at, 2] = s.packets[packet].number
        s.run[0].traced = at + 1
    send_over(net, o, s, hook, channel, packet, lane, now, tail_leaves)
    first = s.queues[queue].reader
    s.queues[first].read_until = tail_leaves
    if net.lanes > 1 or queue >= net.source_queue:
        for other in range(first, first + events.queues_of_reader(net, queue)):
            if s.queues[other].want >= 0:
                events.wake(s, s.queues[other].want, tail_leaves)
    if s.channels[channel].first_asker >= 0:
        events.wake(s, channel, tail_leaves)
        events.wake_for_slots(net, s, channel, net.lanes, wanted_slots(net, o), now)
    if s.queues[queue].arrived > 0:
        request_channel(net, o, s, hook, queue, now)
    if o.nac.enabled:
        use_reserved_slot(net, s, channel, queue, now)


@inline
def send_over(
    net: Tables,
    o: EngineOptions,
    s: State,
    hook: Hook,
    channel: int,
    packet: int,
    lane: int,
    now: int,
    tail_leaves: int,
) -> None:
    """Put a packet in transit to the next buffer or its host.

    Its tail leaves at tick ``tail_leaves``.
    """
    head = now + s.channels[channel].delay
    s.packets[packet].tail = tail_leaves + s.channels[channel].delay
    behind = channel * net.lanes + lane
    if channel < net.links:
        if net.link[channel].start < 0:
            if s.packets[packet].kind == kr.DATA:
                s.entered[s.packets[packet].number] = now
        else:
            s.packets[packet].hops += 1
            if s.packets[packet].kind == kr.DATA:
                s.run[0].packet_hops += 1
                if s.packets[packet].hops == o.hop_cap:
                    s.run[0].livelocked += 1
        if net.link[channel].host >= 0:
            if s.run[0].token == packet:
                s.run[0].token = NONE
            if hook is None:
                events.record_delivery(s, packet, s.packets[packet].tail)
                events.drop_packet(s, packet)
            else:
                events.append(s, behind, packet)
                events.push(s, s.packets[packet].tail, kr.DELIVERY, behind)
            return
    events.append(s, behind, packet)
    events.occupy_slot(s, behind)
    events.push_here(s, head + s.channels[channel].stores * (tail_leaves - now), kr.ARRIVAL, behind)


def recover(net: Tables, o: EngineOptions, s: State, queue: int, messages: int, now: int) -> int:
    """Move a head that may be deadlocked to the recovery lane if it gets the token (Disha).

    Such a head has waited for the timeout. The run stops if nothing has moved for too long.

    Returns:
        The queue if its head must request a channel again, else NONE.
    """
    if s.run[0].next_message == messages and now - s.run[0].last_move > o.watchdog:
        s.run[0].status = kr.NO_PROGRESS
        return NONE
    channel = s.queues[queue].want
    if (
        channel < 0
        or now - s.queues[queue].since < o.timeout
        or s.run[0].token == s.queues[queue].head
    ):
        return NONE
    link = channel if channel < net.links else channel - net.links
    if net.link[link].end < 0:
        return NONE
    if s.run[0].token >= 0:
        events.push(s, now + o.timeout, kr.TIMEOUT, queue)
        return NONE
    s.run[0].token = s.queues[queue].head
    s.packets[s.queues[queue].head].variant = RECOVERY_LANE
    s.counters[kr.MOVED] += 1
    withdraw_request(net, s, queue)
    return queue


@inline
def free_slot(net: Tables, o: EngineOptions, s: State, queue: int, gone: int, now: int) -> None:
    """Schedule when the slot of a leaving packet becomes free.

    That is when its tail has gone and the credit has returned.
    """
    if s.queues[queue].slots == 0:
        return
    feeder = events.link_of(net, queue)
    free = gone if feeder >= net.links else gone + o.credit_delay
    s.release[events.leave_slot(s, queue, now)] = free
    requested = s.channels[feeder].first_asker >= 0
    if requested or (o.nac.enabled and feeder < net.links and counts_credits(s, feeder)):
        events.wake(s, feeder, free)
