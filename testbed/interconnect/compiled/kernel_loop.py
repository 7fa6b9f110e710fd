"""The loop over events, which calls the steps; it runs in Python or compiled.

Events of one tick happen by kind, then by number (kernel_records.py). A message is generated after
arrivals and before deliveries.
"""

from __future__ import annotations

from testbed.arrays import IntArray
from testbed.interconnect.compiled import ft_drb_hooks
from testbed.interconnect.compiled import kernel_events as events
from testbed.interconnect.compiled import kernel_records as kr
from testbed.interconnect.compiled.channel_requests import (
    ask_for_channel,
    request_channel,
    withdraw_request,
)
from testbed.interconnect.compiled.engine_steps import arbitrate, recover
from testbed.interconnect.compiled.kernel_state import Hook, State, Tables
from testbed.interconnect.compiled.nac import detection
from testbed.interconnect.compiled.nac.identification import pass_identifications
from testbed.interconnect.compiled.nac.recovery import (
    receive_recovery_signal,
    release_reserved_slot,
    reroute_all_heads,
)
from testbed.interconnect.compiled.nac.throttle import watch_if_full
from testbed.interconnect.engine_inputs import CableEvents, EngineOptions
from testbed.interconnect.ft_drb.source_state import FtDrb
from testbed.interconnect.static_paths import NONE
from testbed.jit import by_reference, inline


def run_events(
    tables: Tables,
    options: EngineOptions,
    state: State,
    sources: Hook,
    born: IntArray,
    cables: CableEvents,
) -> None:
    """Process events until none is left; ``state.run[0].status`` says why the run stopped.

    Args:
        tables: The network's tables.
        options: The options of the run.
        state: The state.
        sources: FT-DRB, or None.
        born: Tick at which each message is generated.
        cables: Failures and repairs of cables.
    """
    net = by_reference(tables)
    o = by_reference(options)
    s = by_reference(state)
    hook = by_reference(sources)
    for i in range(len(cables.tick)):
        events.push(s, cables.tick[i], kr.CABLE_EVENT, i)
    handle_events(net, o, s, hook, born, cables)


def handle_events(
    net: Tables, o: EngineOptions, s: State, hook: Hook, born: IntArray, cables: CableEvents
) -> None:
    """Process events; see ``run_events``.

    It is a function of its own, because a call costs more in a function that copies tables.
    """
    messages = len(born)
    generation = next_message(s, born)
    while s.run[0].status == kr.RUNNING:
        key = min(generation, events.next_event(s))
        identified = kr.NO_EVENT
        if o.nac.enabled:
            identified = events.next_identification(s)
        queue = NONE
        channel = NONE
        router = NONE
        looks = True
        if identified < key and identified >> kr.KEY_SHIFT <= o.end:
            router = pass_identifications(net, o, s, hook, min(key, (o.end + 1) << kr.KEY_SHIFT))
        elif key == kr.NO_EVENT and identified == kr.NO_EVENT:
            s.run[0].status = kr.FINISHED
        else:
            s.run[0].now = min(key, identified) >> kr.KEY_SHIFT
            if s.run[0].now > o.end:
                s.run[0].status = kr.OUT_OF_TIME
            elif key == generation:
                queue = make_message(net, s, hook, s.run[0].now)
                generation = next_message(s, born)
            else:
                events.pop_event(s, key)
                queue, channel, router, looks = process_event(
                    net, o, s, hook, messages, cables, key
                )
        after_event(net, o, s, hook, queue, channel, router, looks, s.run[0].now)


@inline
def process_event(
    net: Tables,
    o: EngineOptions,
    s: State,
    hook: Hook,
    messages: int,
    cables: CableEvents,
    key: int,
) -> tuple[int, int, int, bool]:
    """Process an event.

    Returns:
        A queue with a new head, a channel, and a router (NONE if there is none); and whether NAC
        must look at the router's inputs even if the full ones were blocked before. An output for
        which one of them was blocked may have room again.
    """
    now = key >> kr.KEY_SHIFT
    kind = (key >> kr.ID_BITS) & 15
    number = key & kr.ID_MASK
    queue = NONE
    channel = NONE
    router = NONE
    looks = True
    if kind == kr.ARRIVAL:
        queue, router = head_arrived(net, o, s, hook, number, now)
        looks = False
    elif kind == kr.WAKE:
        channel = number
        router = int(s.channels[number].router)
        looks = number < net.links and s.links[number].first_asker >= 0
        if s.channels[number].woken == now:
            s.channels[number].woken = -1
    elif kind == kr.TIMEOUT:
        queue = recover(net, o, s, number, messages, now)
    elif kind > kr.NOTICE:
        router = avoid_deadlock(net, o, s, hook, messages, kind, number, now)
    elif kind == kr.CABLE_EVENT:
        change_cable(net, o, s, hook, cables, number, now)
    elif hook is not None:
        queue, router = deliver_or_notify(net, s, hook, kind, number, now)
    return queue, channel, router, looks


@inline
def next_message(s: State, born: IntArray) -> int:
    """Return the key of the generation of the next message; NO_EVENT if all are generated."""
    message = s.run[0].next_message
    if message >= len(born):
        return kr.NO_EVENT
    return int((born[message] << kr.KEY_SHIFT) | (kr.INJECTION << kr.ID_BITS))


@inline
def make_message(net: Tables, s: State, hook: Hook, now: int) -> int:
    """Generate the next message; its source chooses a path.

    Returns:
        Its queue if the message is the head of it, else NONE.
    """
    sent = s.messages
    message = s.run[0].next_message
    packet = events.new_packet(
        s, kr.DATA, message, sent.source[message], sent.destination[message], sent.size[message]
    )
    if packet < 0:
        return NONE
    s.run[0].next_message = message + 1
    s.packets[packet].variant = sent.variant[message]
    s.packets[packet].first = sent.first[message]
    if hook is not None:
        ft_drb_hooks.choose_path(s, hook, packet, message, now)
    return enqueue(net, s, net.source_queue + 2 * sent.source[message], packet)


@inline
def after_event(
    net: Tables,
    o: EngineOptions,
    s: State,
    hook: Hook,
    queue: int,
    channel: int,
    router: int,
    looks: bool,
    now: int,
) -> None:
    """Serve what an event has changed.

    The new head of a queue requests a channel, its channel is arbitrated, and NAC's detection is
    scheduled at the router if it ``looks`` or if a blocked input may have changed. A reservation
    counts slots behind the link, so requests for the way into it are arbitrated, too.
    """
    if queue >= 0:
        ask_for_channel(net, o, s, hook, queue, now)
        channel = s.queues[queue].want
    elif o.nac.enabled and 0 <= channel < net.links:
        entry = net.link[channel].entry
        if (
            entry != channel
            and s.links[channel].reserved > 0
            and s.channels[entry].first_asker >= 0
        ):
            events.wake(s, entry, now)
    if channel >= 0:
        arbitrate(net, o, s, hook, channel, now)
    if o.nac.enabled and router >= 0 and (looks or detection.blocking_may_change(net, s, router)):
        detection.detect_later(s, router, now)


@inline
def avoid_deadlock(
    net: Tables,
    o: EngineOptions,
    s: State,
    hook: Hook,
    messages: int,
    kind: int,
    number: int,
    now: int,
) -> int:
    """Process a control packet or timer of NAC, and return the router that it concerns."""
    if kind == kr.DETECTION:
        s.routers[number].detection_at = -1
        detection.detect_blocked_inputs(net, o, s, number, now)
        return NONE
    if kind == kr.RECOVERY:
        link = s.path[number, s.signals[number].place - 1]
        receive_recovery_signal(net, o, s, hook, number, now)
        return int(net.link[link].start)
    if s.run[0].next_message == messages and now - s.run[0].last_move > o.watchdog:
        s.run[0].status = kr.NO_PROGRESS
    elif number >= net.links:
        return release_reserved_slot(net, s, number - net.links, now)
    else:
        detection.retry_identification(net, o, s, number, now)
    return NONE


@inline
def enqueue(net: Tables, s: State, queue: int, packet: int) -> int:
    """Append a packet that starts in this queue.

    Returns:
        The queue if the packet is its head, else NONE.
    """
    events.append(s, queue, packet)
    s.queues[queue].arrived += 1
    return queue if s.queues[queue].arrived == 1 else NONE


@inline
def head_arrived(
    net: Tables, o: EngineOptions, s: State, hook: Hook, queue: int, now: int
) -> tuple[int, int]:
    """Process the arrival of a packet's head in a buffer.

    Returns:
        The queue if the packet is at its head, else NONE; and the router of the queue.
    """
    s.queues[queue].arrived += 1
    router = s.queues[queue].router
    if o.nac.enabled:
        watch_if_full(net, s, queue, 1)
    if hook is not None and queue < net.links * net.lanes:
        packet = s.queues[queue].head
        for _ in range(s.queues[queue].arrived - 1):
            packet = s.packets[packet].next
        s.packets[packet].input_link = net.link[events.link_of(net, queue)].cable
        if hook.settings.reuse_notifications and s.packets[packet].kind == kr.FAILURE_ACK:
            ft_drb_hooks.reuse_notification(net, s, hook, packet, router, now)
    return (queue if s.queues[queue].arrived == 1 else NONE), int(router)


def deliver_or_notify(
    net: Tables, s: State, hook: FtDrb, kind: int, number: int, now: int
) -> tuple[int, int]:
    """Process a packet that has arrived at its host, or send a notice or probe.

    Returns:
        A queue with a new head, and its router; NONE if there is none.
    """
    if kind == kr.NOTICE:
        packet = s.notices[number]
        s.notices[number] = NONE
        if s.packets[packet].kind == kr.PROBE:
            return enqueue(
                net, s, net.source_queue + 2 * s.packets[packet].source + 1, packet
            ), NONE
        router = s.packets[packet].source
        return enqueue(net, s, net.notice_queue + router, packet), int(router)
    s.queues[number].arrived += 1
    ack = ft_drb_hooks.deliver(s, hook, events.pop_head(s, number), now)
    if ack >= 0:
        return enqueue(net, s, net.source_queue + 2 * s.packets[ack].source + 1, ack), NONE
    return NONE, NONE


def change_cable(
    net: Tables, o: EngineOptions, s: State, hook: Hook, cables: CableEvents, event: int, now: int
) -> None:
    """Process the failure or repair of a cable.

    Packets that wait for its links are routed again (with FT-DRB), or their channels are
    arbitrated.
    """
    cable = cables.cable[event]
    down = cables.down[event]
    s.down[cable] = down
    low = cables.first[cable]
    high = cables.first[cable + 1]
    if o.nac.enabled and o.nac.ask_anew:
        reroute_all_heads(net, o, s, hook, now)
    for i in range(low, high):
        link = cables.links[i]
        s.links[link].reserved = 0
        events.wake(s, link, now)
        events.wake(s, net.link[link].entry, now)
        if hook is not None:
            if down == 0:
                if hook.settings.link_up_by_router:
                    ft_drb_hooks.notify_link_up(net, s, hook, link, now)
                if net.link[link].entry != link:
                    return_to_link(net, o, s, hook, link, now)
            else:
                if hook.settings.notify_queued:
                    notify_waiting(net, s, hook, link, now)
                reroute_waiting(net, o, s, hook, net.link[link].entry, now)
                if net.link[link].entry != link:
                    reroute_waiting(net, o, s, hook, link, now)
    if o.nac.enabled:
        if o.nac.ask_anew:
            for router in range(len(s.routers)):
                detection.detect_later(s, router, now)
        for i in range(low, high):
            detection.detect_later(s, net.link[cables.links[i]].start, now)


def reroute_waiting(
    net: Tables, o: EngineOptions, s: State, hook: Hook, channel: int, now: int
) -> None:
    """Route heads that request a dead channel again, in the order of their ranks."""
    for place in range(s.channels[channel].ranks):
        queue = s.channels[channel].first_asker
        while queue >= 0 and (s.queues[queue].rank != place or s.queues[queue].since > now):
            queue = s.queues[queue].next_asker
        if queue >= 0:
            withdraw_request(net, s, queue)
            request_channel(net, o, s, hook, queue, now)
            events.wake(s, s.queues[queue].want, now)


def return_to_link(
    net: Tables, o: EngineOptions, s: State, hook: Hook, link: int, now: int
) -> None:
    """Let heads in the output buffer of a repaired link request it again.

    They had requested other outputs meanwhile. If they continued to do so, cycles could close that
    NAC does not detect, because it watches inputs.
    """
    for lane in range(net.lanes):
        queue = (net.links + link) * net.lanes + lane
        if s.queues[queue].want >= 0 and s.queues[queue].want != link:
            withdraw_request(net, s, queue)
            request_channel(net, o, s, hook, queue, now)


def notify_waiting(net: Tables, s: State, hook: FtDrb, link: int, now: int) -> None:
    """Notify the sources of all packets in data queues of a router that wait for a dead link."""
    router = net.link[link].start
    for i in range(net.router[router].input_first, net.router[router + 1].input_first):
        for lane in range(net.data_lanes):
            ft_drb_hooks.notify_queued(net, s, hook, link, net.inputs[i] * net.lanes + lane, now)
    for i in range(net.router[router].host_first, net.router[router + 1].host_first):
        for lane in range(net.data_lanes):
            ft_drb_hooks.notify_queued(
                net, s, hook, link, net.host[net.hosts_of[i]].uplink * net.lanes + lane, now
            )
    if net.output_buffers:
        for lane in range(net.data_lanes):
            ft_drb_hooks.notify_queued(
                net, s, hook, link, (net.links + link) * net.lanes + lane, now
            )
