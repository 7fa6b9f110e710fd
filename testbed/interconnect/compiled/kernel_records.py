"""The records that the compiled engine's steps read and write, and the numbers that stand for kinds of things.

A comment behind a field says what it holds; NONE (-1) is no packet, queue, channel, link or router. Fields called
``filler`` only keep records to whole words, or to whole lines of the processor's cache.
"""

from __future__ import annotations

from testbed.arrays import i2, i4, i8, u1, u2, u4

NEVER = 1 << 62
"""The release of a slot that a packet still holds."""

KIND_BITS, ID_BITS = 4, 18
KEY_SHIFT = KIND_BITS + ID_BITS
ID_MASK = (1 << ID_BITS) - 1
"""An event's key is its tick, its kind and the number of what it concerns, in so many bits."""
NO_EVENT = (1 << 63) - 1
"""A key behind those of all events."""

(
    CABLE_EVENT,
    WAKE,
    ARRIVAL,
    INJECTION,
    DELIVERY,
    NOTICE,
    DETECTION,
    IDENTIFICATION,
    RECOVERY,
    RETRY,
    TIMEOUT,
) = range(11)
"""Kinds of events; at one tick they happen in this order, and of one kind by number."""

DATA, LATENCY_ACK, FAILURE_ACK, LINK_UP_ACK, PROBE = range(5)
"""Kinds of packets."""

RUNNING, FINISHED, NO_PROGRESS, OUT_OF_TIME, POOL_FULL, HEAP_FULL, RING_FULL = range(7)
"""Why an engine stopped."""

IDENTIFIED, MOVED, RECOVERED, RESERVED, ENDED, BLOCKED, PACKETS_SENT, RETRIES, SIGNALS_SENT = range(
    9
)
"""What NAC does, counted under NAC_COUNTERS: events of its timeline, numbered as ``results.NAC_EVENTS``; then
identification packets sent or repeated, identifications tried again, recovery signals."""
NAC_COUNTERS = (
    *("identified", "moved", "recovery_moved", "reserved", "normal", "blocked"),
    *("identification_packets", "retries", "signals"),
)

MAX_RANK = (1 << 16) - 1
"""Of a queue among those of its router."""
THE_CYCLE = -2
"""Holder of a freed slot while the router finds out which of its inputs is on the cycle."""
SIGNALS = 4096
"""Recovery signals under way at once."""
SOON = 64
"""Places for events that come first, a power of two, one of which stays empty."""
FEW = 24
"""So many events need no wheel."""


WORD = 64
"""Bits."""
IDENTIFICATIONS = 1 << ID_BITS
"""Identification packets, or notices, that are kept at once: the next one takes the place of the oldest. A run in which
one is lost by that stops (RING_FULL)."""


class Node:
    """An event in a bucket of the wheel, and the next there."""

    key: i8
    next: i8


class Run:
    """Where the run stands, and its sums."""

    now: i8  # tick
    last_move: i8  # tick of the last grant
    status: i8  # RUNNING, or why it stopped
    next_message: i8  # the message to be made next
    heap_size: i8  # events in the heap
    soon_first: i8  # place, modulo SOON, of the first event in soon
    soon_last: i8  # place behind the last of them
    wheel_size: i8  # events in the wheel
    wheel_shift: i8  # a bucket is two to the so many ticks
    bucket: i8  # the last bucket whose events are in soon
    free_node: i8  # first of the wheel's nodes that are free again; NONE: none
    used_nodes: i8  # nodes that have ever been in use
    arrived_identifications: i8  # identification packets that have arrived
    used_packets: i8  # packets of the pool that have ever been in use
    free_packets: i8  # those of them that are free
    acks: i8  # ACKs and notices made
    identifications: i8  # identification packets made
    signals: i8  # cycles that recovery signals were made for
    deliveries: i8  # of messages
    packet_hops: i8  # routers crossed by messages
    livelocked: i8  # messages beyond the hop cap
    digest: i8  # of all grants, in order
    logged: i8  # rows of NAC's timeline
    traced: i8  # rows of the trace of grants
    token: i8  # the packet that recovers; NONE: none


class Packet:
    """A message or an ACK that is somewhere: one line of the processor's cache, used again when it is nowhere any
    more."""

    length: i8  # the index of its size in the transmission times
    tail: i8  # tick at which its tail is where its head is; 0: it is at its source
    number: i8  # of the message or ACK
    next: i4  # behind it in its queue
    source: i4  # host; of a notice: router
    destination: i4  # host
    hops: i4  # routers crossed
    first: i4  # first intermediate router of its multistep path
    second: i4  # second intermediate router
    input_link: i4  # the cable of its last link
    escapes: i4  # escape paths that it was given
    failed_cable: i4  # the cable that a notification names; of a message: its error flag
    kind: u1  # DATA, ...
    variant: u1  # of the routing tables
    header: (
        u1  # header id: bound for the first intermediate (0), the second (1), its destination (2)
    )
    escaped: u1  # escape bit


class Report:
    """The rest of a packet, for FT-DRB."""

    latency: i8  # what a latency ACK reports, ticks
    sent_first: i4  # the intermediates that its source chose; of an ACK: those that it answers
    sent_second: i4
    notified: i4  # the cable of which a router last notified its source
    filler: i4


class Queue:
    """A linked list of packets; one line of the processor's cache."""

    since: i8  # tick from which the head asks for its channel
    read_until: i8  # of the first queue of a reader: it takes a packet out of one of its queues until this tick
    head: i4  # the first packet
    tail: i4  # the last packet
    arrived: i4  # packets whose heads have arrived
    occupied: i4  # packets, those under way to it included
    want: i4  # the channel that the head asks for
    next_asker: i4  # the next queue that asks for it
    slots: i4  # as in network_model.QueueTable, as router and rank
    returning: i4  # slots that packets have left, some of which are not free yet: in the order of their being left
    returning_at: i4  # place of the first of these in ``release``
    reader: i4  # first queue of what takes packets out: all lanes of a buffer, both queues of a host, or it alone
    router: i4
    rank: u2
    lane_requested: i2  # behind the channel that the head asks for, under a relation; NONE: any


class Turn:
    """A queue's turnaround, and whose turn it is, in hop models that have them."""

    open_at: i8  # from this tick on the next packet may go into it
    ready: i8  # from this tick on its next head may leave
    last: i8  # the lane that the last packet out of it took


class Channel:
    """One line of the processor's cache."""

    busy: i8  # until this tick
    woken: i8  # tick of the last arbitration that was requested
    delay: i8  # as in network_model.ChannelTable
    carried: i8  # packets
    last: i4  # rank of the queue served last
    first_asker: i4  # the first of the queues that ask, in no order; NONE: none asks
    ranks: i4
    router: i4  # where it begins; NONE: at a host
    cable: i4  # of the link that it is; NONE: it is a way into an output buffer, or a host's link
    stores: i4  # as in network_model.ChannelTable
    rate: i8  # first of the transmission times at its rate


class Link:
    """As network_model.LinkTable, and its place among the inputs of the router where it ends."""

    entry: i4
    start: i4
    end: i4
    host: i4
    cable: i4
    place: i4


class Host:
    """As network_model.HostTable."""

    uplink: i4
    downlink: i4
    target: i4
    filler: i4


class Router:
    """As network_model.RouterTable."""

    input_first: i4
    host_first: i4


class NacLink:
    """NAC by link: as a router's input, and as an output."""

    waits_for: (
        i4  # the output that its input asks for while it meets the triggering conditions, else NONE
    )
    retry_pending: i4  # 1: its input's retry timer runs
    reserved_for: (
        i4  # the input that slots behind it are reserved for, or THE_CYCLE (being identified)
    )
    reserved: i4  # how many slots are reserved
    first_asker: i4  # the first blocked input that asks for this output
    next_asker: i4  # the next input, by number, that asks for what this input asks for
    changed_at: i8  # tick at which waits_for last changed


class NacRouter:
    """NAC by router: its detection, and its inputs."""

    detection_at: i8  # tick of the detection that is due
    throttled: i4  # reasons to throttle injection from the router's own hosts
    watched: i4  # inputs that are full, and inputs that were blocked when last looked at
    full: i8  # a bit an input, by its place (modulo WORD): 1 where it is full
    blocked: i8  # likewise: 1 where it was blocked when last looked at


class IdentificationPacket:
    """A packet that looks for a routing cycle."""

    tick: i8  # at which it arrives
    origin: i4  # the blocked input that it is about
    out: i4  # the output that this input asks for
    parent: i4  # the packet that it repeats
    at: i4  # the input that it was sent from
    seen: u4  # bit k is 1 where it has been at an input whose number is k modulo 31
    length: i2  # inputs that it has been at
    recovery: i2  # 1: of a router that a recovery signal has reached


class RecoverySignal:
    """A signal that recovers the packets of a cycle, one after another."""

    slot: i8  # the slot that the move freed
    length: i4  # inputs on the cycle
    place: i4  # the next of them
