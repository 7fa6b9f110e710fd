"""Adaptive routing by a relation (``route_tables.py``): a router takes the choice with most room.

This module also has bubble flow control, which requires two free slots for a packet that enters a
ring, and the routing of a packet in recovery.
"""

from __future__ import annotations

from testbed.interconnect.compiled.kernel_events import lane_of, link_of, never_used, slot_after
from testbed.interconnect.compiled.kernel_state import State, Tables
from testbed.interconnect.route_tables import (
    ANY_LANE,
    FINAL,
    FIRST,
    LANE_BITS,
    NO_DETOUR,
    RECOVERY,
    UNDECIDED,
)
from testbed.interconnect.static_paths import NONE
from testbed.jit import inline


@inline
def free_slots(s: State, queue: int, now: int) -> int:
    """Return the number of slots of a queue that are free for packets from upstream."""
    free = never_used(s, queue)
    place = s.queues[queue].returning_at
    for _ in range(s.queues[queue].returning):
        if s.release[place] <= now:
            free += 1
        place = slot_after(s, queue, place)
    return free


def free_slots_towards(net: Tables, s: State, code: int, shift: int, now: int) -> int:
    """Return the free slots behind a choice, in the next input and the output buffer, if any."""
    link = code >> LANE_BITS
    lane = code & ANY_LANE
    low, high = (0, net.data_lanes) if lane == ANY_LANE else (lane + shift, lane + shift + 1)
    room = 0
    for own in range(low, high):
        room += free_slots(s, link * net.lanes + own, now)
        if net.output_buffers:
            room += free_slots(s, (net.links + link) * net.lanes + own, now)
    return room


def best_choice(
    net: Tables, s: State, row: int, target: int, shift: int, number: int, now: int
) -> tuple[int, int]:
    """Return the choice with the most room, and that room.

    If several have the same room, the packet's number decides.
    """
    most_room = NONE
    best = NONE
    count = 0
    while count < net.relation.choices.shape[2] and net.relation.choices[row, target, count] >= 0:
        count += 1
    for k in range(count):
        code = net.relation.choices[row, target, (k + number) % count]
        room = free_slots_towards(net, s, code, shift, now)
        if room > most_room:
            most_room = room
            best = code
    return int(best), int(most_room)


def row_of(net: Tables, s: State, queue: int, packet: int, router: int) -> int:
    """Return the row of the relation for the way by which the packet has come.

    Behind the end of a detour the packet starts again.
    """
    link = queue - net.avoidance_queue if queue >= net.avoidance_queue else link_of(net, queue)
    lane = 0 if queue >= net.avoidance_queue else lane_of(net, queue)
    if net.link[link].start < 0 or lane >= net.data_lanes:
        return int(net.relation.start_row[router])
    if net.relation.detour != NO_DETOUR and (lane < net.relation.lanes) != (
        s.packets[packet].variant == FIRST
    ):
        return int(net.relation.start_row[router])
    return int(net.relation.row[link * net.relation.lanes + lane % net.relation.lanes])


def decide_detour(net: Tables, s: State, packet: int, router: int, target: int, now: int) -> None:
    """Decide at the source's router whether the packet takes its detour (UGAL-L).

    It goes straight if queue length times hops is not larger than over the detour's router. The
    queue is that of the whole link, or of the lane if both ways begin with the same link (UGAL-L
    VCH, Kim 2008).
    """
    middle = s.packets[packet].first
    number = s.packets[packet].number
    row = net.relation.start_row[router]
    s.packets[packet].variant = FINAL
    if middle in (router, target) or router == target:
        return
    straight, room = best_choice(net, s, row, target, net.relation.lanes, number, now)
    over, other_room = best_choice(net, s, row, middle, 0, number, now)
    slots = s.queues[(straight >> LANE_BITS) * net.lanes].slots * (2 if net.output_buffers else 1)
    if straight >> LANE_BITS != over >> LANE_BITS:
        slots *= net.data_lanes
        room = free_slots_towards(net, s, straight | ANY_LANE, 0, now)
        other_room = free_slots_towards(net, s, over | ANY_LANE, 0, now)
    hops = net.relation.hops[row, target]
    detour_hops = (
        net.relation.hops[row, middle] + net.relation.hops[net.relation.start_row[middle], target]
    )
    if (slots - room) * hops > (slots - other_room) * detour_hops:
        s.packets[packet].variant = FIRST


def route_by_relation(net: Tables, s: State, queue: int, packet: int, router: int, now: int) -> int:
    """Return the link that the head of a router's queue requests.

    The lane behind it is written to ``lane_requested``; NONE stands for any lane.
    """
    goal = net.host[s.packets[packet].destination].target
    s.queues[queue].lane_requested = NONE
    if queue >= net.avoidance_queue and s.packets[packet].second >= 0:
        return int(s.packets[packet].second)
    if s.packets[packet].variant == UNDECIDED:
        decide_detour(net, s, packet, router, goal, now)
    if s.packets[packet].variant == FIRST and s.packets[packet].first == router:
        s.packets[packet].variant = FINAL
    if goal == router and s.packets[packet].variant != FIRST:
        return int(net.host[s.packets[packet].destination].downlink)
    if s.packets[packet].variant == RECOVERY:
        s.queues[queue].lane_requested = net.data_lanes
        return int(net.relation.choices[net.relation.start_row[router], goal, 0] >> LANE_BITS)
    target = goal
    shift = 0
    if s.packets[packet].variant == FIRST:
        target = s.packets[packet].first
    elif net.relation.detour != NO_DETOUR:
        shift = net.relation.lanes
    row = row_of(net, s, queue, packet, router)
    code, _ = best_choice(net, s, row, target, shift, s.packets[packet].number, now)
    if code & ANY_LANE != ANY_LANE:
        s.queues[queue].lane_requested = (code & ANY_LANE) + shift
    s.packets[packet].second = code >> LANE_BITS
    return int(code >> LANE_BITS)


def bubble_missing(net: Tables, s: State, channel: int, queue: int, behind: int, now: int) -> bool:
    """Return whether a packet that enters a ring would take the last free slot there.

    It enters from a host, or from another dimension or direction.
    """
    link = channel if channel < net.links else channel - net.links
    if s.queues[queue].router < 0 or net.link[link].end < 0 or queue >= net.links * net.lanes:
        return False
    if net.axis[link_of(net, queue)] == net.axis[link]:
        return False
    return free_slots(s, behind, now) < 2
