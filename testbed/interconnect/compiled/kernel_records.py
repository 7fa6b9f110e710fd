"""The records that the compiled engine's steps read and write, and the numbers of kinds of things.

A comment behind or above a field describes it. NONE (-1) stands for no packet, queue, channel, link
or router. Fields called ``filler`` only extend records to whole words, or to whole cache lines.
"""

from __future__ import annotations

from testbed.arrays import i2, i4, i8, u1, u2, u4

# The release of a slot that a packet still holds.
NEVER = 1 << 62

# An event's key consists of its tick, its kind and a number: of a queue, link, router or packet.
KIND_BITS = 4
ID_BITS = 18
KEY_SHIFT = KIND_BITS + ID_BITS
ID_MASK = (1 << ID_BITS) - 1

# A key that is larger than those of all events.
NO_EVENT = (1 << 63) - 1

# Kinds of events. At one tick they happen in this order, and those of one kind by number.
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

# Kinds of packets.
DATA, LATENCY_ACK, FAILURE_ACK, LINK_UP_ACK, PROBE = range(5)

# The status of a run: running, or why it stopped.
RUNNING, FINISHED, NO_PROGRESS, OUT_OF_TIME, POOL_FULL, HEAP_FULL, RING_FULL = range(7)

# Counters of NAC: the events of its timeline, numbered as in ``results.NAC_EVENTS``; identification
# packets sent or repeated; repeated identifications; recovery signals.
(
    IDENTIFIED,
    MOVED,
    RECOVERED,
    RESERVED,
    ENDED,
    BLOCKED,
    PACKETS_SENT,
    RETRIES,
    SIGNALS_SENT,
) = range(9)

# Names of the counters in results.
NAC_COUNTERS = (
    "identified",
    "moved",
    "recovery_moved",
    "reserved",
    "normal",
    "blocked",
    "identification_packets",
    "retries",
    "signals",
)

# Largest rank of a queue among those of its router.
MAX_RANK = (1 << 16) - 1

# Holder of a freed slot while the router finds out which of its inputs is on the cycle.
THE_CYCLE = -2

# Largest number of recovery signals in transit.
SIGNALS = 4096

# Size of the ring of the next events. It is a power of two, and one entry stays empty.
SOON = 64

# Up to this number of events are stored in the ring alone, without the wheel.
FEW = 24

# Bits of a word.
WORD = 64

# Number of identification packets, or of notices, that are stored at once. The next one replaces
# the oldest. If that was still in transit, the run stops (RING_FULL).
IDENTIFICATIONS = 1 << ID_BITS


class Node:
    """An event in a bucket of the wheel, and the number of the next node there."""

    key: i8
    next: i8


class Run:
    """The position of a run and its sums."""

    now: i8  # tick
    last_move: i8  # tick of the last grant
    status: i8  # RUNNING, or why it stopped
    next_message: i8  # the message to be made next
    heap_size: i8  # events in the heap
    soon_first: i8  # position, modulo SOON, of the first event in soon
    soon_last: i8  # position behind the last of them
    wheel_size: i8  # events in the wheel
    wheel_shift: i8  # a bucket has 2^wheel_shift ticks
    bucket: i8  # the last bucket whose events are in soon
    free_node: i8  # first of the wheel's nodes that are free again; NONE: none
    used_nodes: i8  # nodes that have ever been in use
    arrived_identifications: i8  # identification packets that have arrived
    used_packets: i8  # packets of the pool that have ever been in use
    free_packets: i8  # those of them that are free
    acks: i8  # ACKs and notices generated
    identifications: i8  # identification packets generated
    signals: i8  # cycles for which recovery signals were generated
    deliveries: i8  # deliveries of messages
    packet_hops: i8  # routers crossed by messages
    livelocked: i8  # messages beyond the hop limit
    digest: i8  # digest of all grants, in order
    logged: i8  # rows of NAC's timeline
    traced: i8  # rows of the trace of grants
    token: i8  # the packet that recovers; NONE: none


class Packet:
    """A message or an ACK in the network; one cache line.

    The record is used again when the packet has left the network.
    """

    length: i8  # the index of its size in the transmission times
    tail: i8  # tick at which its tail arrives at the position of its head; 0: it is at its source
    number: i8  # number of the message or ACK
    next: i4  # next packet of its queue
    source: i4  # host; of a notice: router
    destination: i4  # host
    hops: i4  # routers crossed
    first: i4  # first intermediate router of its multistep path
    second: i4  # second intermediate router
    input_link: i4  # the cable of its last link
    escapes: i4  # escape paths that it was given
    failed_cable: i4  # cable that a notification names; for a message: its error flag
    kind: u1  # DATA, ...
    variant: u1  # of the routing tables
    # Header id: bound for the first intermediate (0), the second (1) or its destination (2).
    header: u1
    escaped: u1  # escape bit


class Report:
    """The further fields of a packet for FT-DRB."""

    latency: i8  # what a latency ACK reports, ticks
    sent_first: (
        i4  # intermediates that its source chose; for an ACK: those of the packet it answers
    )
    sent_second: i4
    notified: i4  # cable of which a router last notified its source
    filler: i4


class Queue:
    """A linked list of packets; one cache line."""

    since: i8  # tick since which the head requests its channel
    # For the first queue of a reader: it reads a packet from one of its queues until this tick.
    read_until: i8
    head: i4  # the first packet
    tail: i4  # the last packet
    arrived: i4  # packets whose heads have arrived
    occupied: i4  # packets, including those in transit to it
    want: i4  # channel that the head requests
    next_asker: i4  # next queue that requests it
    slots: i4  # slots, router and rank are as in network_model.QueueTable
    # Slots that packets have left, some of which may not be free yet, in the order of leaving.
    returning: i4
    returning_at: i4  # index of the first of these in ``release``
    # First queue of the reader: of all lanes of a buffer, of both queues of a host, or of it alone.
    reader: i4
    router: i4
    rank: u2
    lane_requested: i2  # lane behind the requested channel, with a relation; NONE: any


class Turn:
    """The turnaround of a queue and its last lane, for hop models that have them."""

    open_at: i8  # first tick at which the next packet may enter it
    ready: i8  # first tick at which its next head may leave
    last: i8  # lane that the last packet out of it took


class Channel:
    """A channel; one cache line."""

    busy: i8  # it is busy until this tick
    woken: i8  # tick of the last arbitration that was scheduled
    delay: i8  # delay, ranks and stores are as in network_model.ChannelTable
    carried: i8  # packets
    last: i4  # rank of the queue served last
    first_asker: i4  # first of the queues that request it, in no order; NONE: none does
    ranks: i4
    router: i4  # router where it begins; NONE: a host
    cable: i4  # cable of the link; NONE: a channel into an output buffer, or a link of a host
    stores: i4
    rate: i8  # index of the first of the transmission times at its rate


class Link:
    """A link as in network_model.LinkTable, and its position among the inputs of its end router."""

    entry: i4
    start: i4
    end: i4
    host: i4
    cable: i4
    place: i4


class Host:
    """A host as in network_model.HostTable."""

    uplink: i4
    downlink: i4
    target: i4
    filler: i4


class Router:
    """The first input and the first host of a router, as in network_model.RouterTable."""

    input_first: i4
    host_first: i4


class NacLink:
    """The state of NAC for a link: as the input of a router, and as an output."""

    # Output that its input requests while it meets the triggering conditions; NONE otherwise.
    waits_for: i4
    retry_pending: i4  # 1: the retry timer of its input runs
    # Input that slots behind it are reserved for, or THE_CYCLE while it is being identified.
    reserved_for: i4
    reserved: i4  # number of reserved slots
    first_asker: i4  # first blocked input that requests this output
    next_asker: i4  # next input, by number, that requests the same output as this input
    changed_at: i8  # tick at which waits_for last changed


class NacRouter:
    """The state of NAC for a router: its detection and its inputs."""

    detection_at: i8  # tick of the scheduled detection
    throttled: i4  # number of reasons to throttle injection from the router's hosts
    watched: i4  # inputs that are full, plus inputs that were blocked at the last detection
    full: i8  # one bit per input, by its position (modulo WORD): 1 if it is full
    blocked: i8  # likewise: 1 if it was blocked at the last detection


class IdentificationPacket:
    """A packet that searches for a routing cycle."""

    tick: i8  # tick of its arrival
    origin: i4  # blocked input that it is about
    out: i4  # output that this input requests
    parent: i4  # packet that it repeats
    at: i4  # input that it was sent from
    seen: u4  # bit k is 1 if it has visited an input whose number is k modulo 31
    length: i2  # number of inputs that it has visited
    recovery: i2  # 1: it was sent by a router that a recovery signal has reached


class RecoverySignal:
    """A signal that recovers the packets of a cycle, one after another."""

    slot: i8  # slot that the move freed
    length: i4  # number of inputs on the cycle
    place: i4  # index of the next of them
