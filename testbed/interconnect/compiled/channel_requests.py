"""The requests of heads for channels, and their withdrawal, for cut-through and NAC."""

from __future__ import annotations

from testbed.interconnect.compiled import kernel_events as events
from testbed.interconnect.compiled import kernel_records as kr
from testbed.interconnect.compiled.ft_drb_hooks import route_packet
from testbed.interconnect.compiled.kernel_state import Hook, State, Tables
from testbed.interconnect.compiled.relation_steps import route_by_relation
from testbed.interconnect.engine_inputs import EngineOptions
from testbed.interconnect.static_paths import NONE, next_link
from testbed.jit import inline


@inline
def wanted_slots(net: Tables, o: EngineOptions) -> int:
    """Return for how many free slots behind a channel its requests wait.

    It is one with output buffers or without NAC. Otherwise one slot may be reserved, and the slack
    is added.
    """
    return int(o.nac.slack + 2 if o.nac.enabled and not net.output_buffers else 1)


@inline
def wake_for_credits(net: Tables, o: EngineOptions, s: State, out: int, now: int) -> None:
    """Arbitrate the output when slots in the input behind it become free, if that is known."""
    if net.output_buffers:
        events.wake_for_slots(net, s, out, 1, o.nac.slack + 2, now)


def request_channel(
    net: Tables, o: EngineOptions, s: State, hook: Hook, queue: int, now: int
) -> None:
    """Let the head of a queue request its channel; ``ask_for_channel`` as a call."""
    ask_for_channel(net, o, s, hook, queue, now)


@inline
def ask_for_channel(
    net: Tables, o: EngineOptions, s: State, hook: Hook, queue: int, now: int
) -> None:
    """Let the head of a queue request its channel.

    The channel is arbitrated when it, the queue's reader or a slot behind it becomes free.
    """
    packet = s.queues[queue].head
    router = s.queues[queue].router
    if router < 0:
        channel = net.host[s.packets[packet].source].uplink
    elif hook is not None:
        channel = route_packet(net, o, s, hook, queue, packet, router, now)
    elif net.output_buffers and net.links * net.lanes <= queue < net.source_queue:
        channel = events.link_of(net, queue) - net.links
    else:
        if net.adaptive:
            link = route_by_relation(net, s, queue, packet, router, now)
        else:
            target = net.host[s.packets[packet].destination].target
            link = next_link(net.routes, s.packets[packet].variant, router, target)
            if link < 0:
                link = net.host[s.packets[packet].destination].downlink
        channel = net.link[link].entry
    reader = s.queues[queue].reader
    s.queues[queue].want = channel
    s.queues[queue].since = now
    s.queues[queue].next_asker = s.channels[channel].first_asker
    s.channels[channel].first_asker = queue
    if s.channels[channel].busy > now:
        events.wake(s, channel, s.channels[channel].busy)
    read_until = s.queues[reader].read_until
    if read_until > now:
        events.wake(s, channel, read_until)
    lanes = net.lanes if hook is None or s.packets[packet].kind != kr.DATA else net.data_lanes
    events.wake_for_slots(net, s, channel, lanes, wanted_slots(net, o), now)
    if o.nac.enabled and channel >= net.links and s.links[channel - net.links].reserved > 0:
        wake_for_credits(net, o, s, channel - net.links, now)
    if (
        o.timeout > 0
        and router >= 0
        and queue < net.links * net.lanes
        and queue - reader < net.data_lanes
    ):
        events.push(s, now + o.timeout, kr.TIMEOUT, queue)
    if o.bubble:
        wake_for_bubble(net, s, channel, now)


def wake_for_bubble(net: Tables, s: State, channel: int, now: int) -> None:
    """Arbitrate the channel whenever a slot behind it becomes free."""
    behind = channel * net.lanes
    place = s.queues[behind].returning_at
    for _ in range(s.queues[behind].returning):
        if now < s.release[place] < kr.NEVER:
            events.wake(s, channel, s.release[place])
        place = events.slot_after(s, behind, place)


@inline
def withdraw_request(net: Tables, s: State, queue: int) -> None:
    """Withdraw the request of the queue's head."""
    channel = s.queues[queue].want
    before = NONE
    at = s.channels[channel].first_asker
    while at != queue:
        before = at
        at = s.queues[at].next_asker
    if before < 0:
        s.channels[channel].first_asker = s.queues[queue].next_asker
    else:
        s.queues[before].next_asker = s.queues[queue].next_asker
    s.queues[queue].want = NONE
