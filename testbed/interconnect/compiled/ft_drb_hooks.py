"""FT-DRB's packets in the engine: multistep paths, dead links, notifications and ACKs.

``testbed/interconnect/ft_drb`` makes the decisions of sources and routers; its docstring describes
the complete algorithm. Here they are applied to packets, hop by hop.
"""

from __future__ import annotations

from testbed.interconnect.compiled import kernel_records as kr
from testbed.interconnect.compiled.kernel_events import (
    drop_packet,
    link_of,
    new_packet,
    push,
    record_delivery,
)
from testbed.interconnect.compiled.kernel_state import State, Tables
from testbed.interconnect.engine_inputs import ACK_SIZE, EngineOptions
from testbed.interconnect.ft_drb.escape_steps import escape_path
from testbed.interconnect.ft_drb.source_state import FtDrb
from testbed.interconnect.ft_drb.source_steps import (
    clear_failure,
    record_failure,
    record_latency,
    select_path,
)
from testbed.interconnect.static_paths import NONE, next_link


def target_of(net: Tables, s: State, packet: int) -> int:
    """Return where a packet goes next: an intermediate router, or its host's node."""
    if s.packets[packet].header == 0 and s.packets[packet].first >= 0:
        return int(s.packets[packet].first)
    if s.packets[packet].header <= 1 and s.packets[packet].second >= 0:
        return int(s.packets[packet].second)
    return int(net.host[s.packets[packet].destination].target)


def advance_target(net: Tables, s: State, packet: int, router: int) -> int:
    """Return where a packet goes next from a router.

    The header id skips intermediates that the packet has reached or does not have.
    """
    while s.packets[packet].header < 2:
        middle = (
            s.packets[packet].first if s.packets[packet].header == 0 else s.packets[packet].second
        )
        if middle >= 0 and middle != router:
            break
        s.packets[packet].header += 1
    return target_of(net, s, packet)


def choose_path(s: State, hook: FtDrb, packet: int, message: int, now: int) -> None:
    """Let the source of a new message choose its path."""
    source = s.packets[packet].source
    destination = s.packets[packet].destination
    first, second = select_path(hook, source, destination, message, now)
    s.packets[packet].first = first
    s.packets[packet].second = second
    s.reports[packet].sent_first = first
    s.reports[packet].sent_second = second
    s.reports[packet].notified = NONE
    s.diverted[message] = first != NONE or second != NONE
    if hook.settings.synthetic_probes and hook.state.probe_due[source] != 0:
        hook.state.probe_due[source] = 0
        send_later(s, allocate_ack(s, hook, kr.PROBE, source, destination), now)


def link_towards(net: Tables, s: State, packet: int, router: int) -> int:
    """Return the link by which a packet leaves the router."""
    link = next_link(net.routes, 0, router, advance_target(net, s, packet, router))
    return link if link >= 0 else int(net.host[s.packets[packet].destination].downlink)


def route_packet(
    net: Tables,
    o: EngineOptions,
    s: State,
    hook: FtDrb,
    queue: int,
    packet: int,
    router: int,
    now: int,
) -> int:
    """Return the channel that a packet requests.

    If its link is dead, the source is notified and the packet gets an escape path (Zarza 2011, alg.
    3.1).
    """
    down = s.down
    buffered_link = NONE
    if net.output_buffers and net.links * net.lanes <= queue < net.source_queue:
        buffered_link = link_of(net, queue) - net.links
        if net.link[buffered_link].cable < 0 or down[net.link[buffered_link].cable] == 0:
            return int(buffered_link)
    link = buffered_link if buffered_link >= 0 else link_towards(net, s, packet, router)
    cable = net.link[link].cable
    if cable >= 0 and down[cable] != 0:
        notify_source(net, s, hook, packet, link, now)
        if reports_failures(
            s, packet
        ):  # its error flag; of a notification the failure that it is about
            s.packets[packet].failed_cable = cable
        first, second = escape_path(
            hook.paths,
            hook.state.counters,
            down,
            router,
            s.packets[packet].input_link,
            net.host[s.packets[packet].destination].target,
            s.packets[packet].number,
            int(s.packets[packet].escapes),
        )
        s.packets[packet].first = first
        s.packets[packet].second = second
        s.packets[packet].header = 0
        s.packets[packet].escaped = 1
        s.packets[packet].escapes += 1
        link = link_towards(net, s, packet, router)
    return int(net.link[link].entry)


def reports_failures(s: State, packet: int) -> bool:
    """Return whether the packet's source is notified: it is a message or a synthetic probe."""
    return bool(s.packets[packet].kind == kr.DATA or s.packets[packet].kind == kr.PROBE)


def notify_source(net: Tables, s: State, hook: FtDrb, packet: int, link: int, now: int) -> None:
    """Notify the source of a packet that meets a dead link, once for each message and cable.

    The router at the start of the link sends the notification.
    """
    cable = net.link[link].cable
    if (
        not hook.settings.notify_by_router
        or not reports_failures(s, packet)
        or s.reports[packet].notified == cable
    ):
        return
    s.reports[packet].notified = cable
    if hook.settings.link_up_by_router:
        s.notified_host[link, s.packets[packet].source] = 1
    send_notice(s, hook, kr.FAILURE_ACK, net.link[link].start, s.packets[packet].source, cable, now)


def send_notice(
    s: State, hook: FtDrb, kind: int, router: int, host: int, cable: int, now: int
) -> None:
    """Send a notice from a router to a host."""
    packet = allocate_ack(s, hook, kind, router, host)
    if packet >= 0:
        s.packets[packet].failed_cable = cable
    send_later(s, packet, now)


def send_later(s: State, packet: int, now: int) -> None:
    """Send a notice or probe, by an event after all others of this tick.

    The run stops if the event would take the place of another one.

    Args:
        s: The state.
        packet: The packet, or NONE.
        now: Present tick.
    """
    if packet >= 0:
        number = s.packets[packet].number & kr.ID_MASK
        if s.notices[number] != NONE:
            s.run[0].status = kr.RING_FULL
            return
        s.notices[number] = packet
        push(s, now, kr.NOTICE, number)


def allocate_ack(s: State, hook: FtDrb, kind: int, source: int, destination: int) -> int:
    """Return a new ACK; if the pool is empty, return NONE, and the run stops."""
    number = len(s.delivered) + s.run[0].acks
    packet = new_packet(s, kind, number, source, destination, ACK_SIZE)
    if packet >= 0:
        s.run[0].acks += 1
        s.reports[packet].sent_first = NONE
        s.reports[packet].sent_second = NONE
        s.reports[packet].notified = NONE
    return packet


def reuse_notification(
    net: Tables, s: State, hook: FtDrb, packet: int, router: int, now: int
) -> None:
    """Record a failure at the hosts of a router that a notification passes.

    This is the first improvement of Zarza 2011, section 3.6.1.
    """
    for i in range(net.router[router].host_first, net.router[router + 1].host_first):
        host = net.hosts_of[i]
        if host != s.packets[packet].destination:
            record_failure(hook, host, s.packets[packet].failed_cable, now)


def deliver(s: State, hook: FtDrb, packet: int, now: int) -> int:
    """Process a packet that has arrived completely at its host.

    Returns:
        The ACK that answers a message; NONE if there is none, or if the packet is itself an ACK.
    """
    kind = s.packets[packet].kind
    if kind == kr.DATA:
        record_delivery(s, packet, now)
    if kind in (kr.DATA, kr.PROBE):
        ack = acknowledge(s, hook, packet, now)
        drop_packet(s, packet)
        return ack
    host = s.packets[packet].destination
    if kind == kr.LATENCY_ACK:
        report = s.reports[packet]
        source = s.packets[packet].source
        record_latency(hook, host, source, report.sent_first, report.sent_second, report.latency)
    elif kind == kr.FAILURE_ACK:
        record_failure(hook, host, s.packets[packet].failed_cable, now)
    else:
        clear_failure(hook.state, host, s.packets[packet].failed_cable)
    drop_packet(s, packet)
    return NONE


def acknowledge(s: State, hook: FtDrb, packet: int, now: int) -> int:
    """Return the ACK that answers a message.

    It is a latency ACK if the message did not escape. If it did, and destinations notify, it is a
    failure ACK; otherwise there is none (NONE).
    """
    if s.packets[packet].escaped != 0 and hook.settings.notify_by_router:
        return NONE
    kind = kr.FAILURE_ACK if s.packets[packet].escaped != 0 else kr.LATENCY_ACK
    ack = allocate_ack(s, hook, kind, s.packets[packet].destination, s.packets[packet].source)
    if ack < 0:
        return NONE
    s.packets[ack].failed_cable = s.packets[packet].failed_cable
    s.reports[ack].sent_first = s.reports[packet].sent_first
    s.reports[ack].sent_second = s.reports[packet].sent_second
    s.reports[ack].latency = (
        now - s.entered[s.packets[packet].number] if s.packets[packet].kind == kr.DATA else 0
    )
    return ack


def notify_queued(net: Tables, s: State, hook: FtDrb, link: int, queue: int, now: int) -> None:
    """Notify the sources of all packets in a queue that wait for the link.

    This is the second improvement of Zarza 2011, section 3.6.1.
    """
    packet = s.queues[queue].head
    router = net.link[link].start
    first_buffer = (net.links + link) * net.lanes
    for _ in range(s.queues[queue].arrived):
        bound = net.output_buffers and first_buffer <= queue < first_buffer + net.lanes
        if not bound:
            bound = link_towards(net, s, packet, router) == link
        if bound:
            notify_source(net, s, hook, packet, link, now)
        packet = s.packets[packet].next


def notify_link_up(net: Tables, s: State, hook: FtDrb, link: int, now: int) -> None:
    """Notify hosts that a link works again: those to which its router sent the failure (3.6.2)."""
    for host in range(net.hosts):
        if s.notified_host[link, host] != 0:
            s.notified_host[link, host] = 0
            send_notice(
                s, hook, kr.LINK_UP_ACK, net.link[link].start, host, net.link[link].cable, now
            )
