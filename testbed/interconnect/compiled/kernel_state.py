"""The tables that the compiled engine's steps read and write: packets, queues, channels, what NAC remembers, the history.

They are arrays of records, few in number, because compiled code is handed each of them in every call. ``Tables`` does not
change in a run, ``State`` does. A comment behind a field says what it holds; NONE (-1) is no packet, queue, channel, link or
router. Fields called ``filler`` only keep records to whole words.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from testbed.interconnect.engine_inputs import EngineInputs, Messages
from testbed.interconnect.ft_drb.source_state import SourceState
from testbed.interconnect.network_model import NetworkModel
from testbed.interconnect.parameters import MAX_CYCLE
from testbed.interconnect.static_paths import NONE, Paths

NEVER = 1 << 62
"""The release of a slot that a packet still holds."""

KIND_BITS, ID_BITS = 4, 18
KEY_SHIFT = KIND_BITS + ID_BITS
ID_MASK = (1 << ID_BITS) - 1
"""An event's key is its tick, its kind and the number of what it concerns, in so many bits."""
NO_EVENT = (1 << 63) - 1
"""A key behind those of all events."""

CABLE_EVENT, WAKE, ARRIVAL, INJECTION, DELIVERY, NOTICE, DETECTION, IDENTIFICATION, RECOVERY, RETRY, TIMEOUT = range(11)
"""Kinds of events; at one tick they happen in this order, and of one kind by number."""

DATA, LATENCY_ACK, FAILURE_ACK, LINK_UP_ACK, PROBE = range(5)
"""Kinds of packets."""

RUNNING, FINISHED, NO_PROGRESS, OUT_OF_TIME, POOL_FULL, HEAP_FULL = range(6)
"""Why an engine stopped."""

IDENTIFIED, MOVED, RECOVERED, RESERVED, ENDED, BLOCKED = range(6)
"""Events of NAC's timeline, numbered as ``results.NAC_EVENTS``."""

CACHE_LINE = 64
"""Bytes."""
THE_CYCLE = -2
"""Holder of a freed slot while the router finds out which of its inputs is on the cycle."""
SIGNALS = 4096
"""Recovery signals under way at once."""
SOON = 1024
"""Events of this tick that have a heap of their own."""
IDENTIFICATIONS = 1 << ID_BITS
"""Identification packets, or notices, under way at once."""

RUN = np.dtype(
    [
        ("now", "i8"),  # tick
        ("last_move", "i8"),  # tick of the last grant
        ("status", "i8"),  # RUNNING, or why it stopped
        ("next_message", "i8"),  # the message to be made next
        ("heap_size", "i8"),  # events in the heap
        ("soon_size", "i8"),  # events in the heap of this tick
        ("arrived_identifications", "i8"),  # identification packets that have arrived
        ("used_packets", "i8"),  # packets of the pool that have ever been in use
        ("free_packets", "i8"),  # those of them that are free
        ("acks", "i8"),  # ACKs and notices made
        ("identifications", "i8"),  # identification packets made
        ("signals", "i8"),  # cycles that recovery signals were made for
        ("deliveries", "i8"),  # of messages
        ("packet_hops", "i8"),  # routers crossed by messages
        ("livelocked", "i8"),  # messages beyond the hop cap
        ("digest", "i8"),  # of all grants, in order
        ("logged", "i8"),  # rows of NAC's timeline
        ("traced", "i8"),  # rows of the trace of grants
        ("token", "i8"),  # the packet that recovers; NONE: none
    ]
)
"""Where the run stands, and its sums."""

NAC_COUNTERS = np.dtype(
    [
        ("blocked", "i8"),  # inputs that met the triggering conditions
        ("identification_packets", "i8"),  # sent or repeated
        ("identified", "i8"),  # cycles
        ("moved", "i8"),  # packets, by routers that identified a cycle
        ("recovery_moved", "i8"),  # packets, by recovery signals
        ("reserved", "i8"),  # freed slots kept for the cycle
        ("normal", "i8"),  # recovery signals that met normal work
        ("retries", "i8"),  # of identification
        ("signals", "i8"),  # recovery signals
    ]
)
"""What NAC did; the names are those of results."""

PACKET = np.dtype(
    [
        ("ticks", "i8"),  # from head to tail
        ("tail", "i8"),  # tick at which its tail is where its head is
        ("number", "i8"),  # of the message or ACK
        ("next", "i4"),  # behind it in its queue
        ("source", "i4"),  # host; of a notice: router
        ("destination", "i4"),  # host
        ("hops", "i4"),  # routers crossed
        ("first", "i4"),  # first intermediate router of its multistep path
        ("second", "i4"),  # second intermediate router
        ("came_over", "i4"),  # the cable of its last link
        ("escapes", "i4"),  # escape paths that it was given
        ("failed_cable", "i4"),  # the cable that a notification names; of a message: its error flag
        ("kind", "u1"),  # DATA, ...
        ("variant", "u1"),  # of the routing tables
        ("header", "u1"),  # header id: bound for the first intermediate (0), the second (1), its destination (2)
        ("escaped", "u1"),  # escape bit
    ]
)
"""A message or an ACK that is somewhere: one line of the processor's cache, used again when it is nowhere any more."""

REPORT = np.dtype(
    [
        ("latency", "i8"),  # what a latency ACK reports, ticks
        ("sent_first", "i4"),  # the intermediates that its source chose; of an ACK: those that it answers
        ("sent_second", "i4"),
        ("notified", "i4"),  # the cable of which a router last notified its source
        ("filler", "i4"),
    ]
)
"""The rest of a packet, for FT-DRB."""

QUEUE = np.dtype(
    [
        ("since", "i8"),  # tick from which the head asks for its channel
        ("head", "i4"),  # the first packet
        ("tail", "i4"),  # the last packet
        ("arrived", "i4"),  # packets whose heads have arrived
        ("held", "i4"),  # packets, those under way to it included
        ("want", "i4"),  # the channel that the head asks for
        ("slots", "i4"),  # the rest as in network_model.QueueTable; slots are used in turn:
        ("slot_first", "i4"),
        ("fill_at", "i4"),  # the slot to fill next
        ("leave_at", "i4"),  # the slot to be left next
        ("router", "i4"),
        ("reader", "i4"),  # of a buffer it has the number of the channel that fills it
        ("rank", "i4"),
        ("lane", "i4"),
        ("lane_wanted", "i4"),  # behind the channel that the head asks for, under a relation; NONE: any
    ]
)
"""A linked list of packets; one line of the processor's cache."""

CHANNEL = np.dtype(
    [
        ("busy", "i8"),  # until this tick
        ("woken", "i8"),  # tick of the last arbitration that was asked for
        ("delay", "i8"),  # as in network_model.ChannelTable
        ("carried", "i8"),  # packets
        ("last", "i4"),  # rank of the queue served last
        ("waits", "i4"),  # how many queues ask: waiting[wait_first:][:waits]
        ("ranks", "i4"),
        ("wait_first", "i4"),
    ]
)
READER = np.dtype([("busy", "i8"), ("first", "i4"), ("count", "i4")])
"""``busy``: until this tick; its queues are ``count`` from ``first`` on."""
LINK = np.dtype([("entry", "i4"), ("start", "i4"), ("end", "i4"), ("host", "i4"), ("cable", "i4"), ("filler", "i4")])
"""As network_model.LinkTable."""
HOST = np.dtype([("uplink", "i4"), ("downlink", "i4"), ("target", "i4"), ("filler", "i4")])
"""As network_model.HostTable."""
ROUTER = np.dtype([("input_first", "i4"), ("host_first", "i4")])
"""As network_model.RouterTable."""

NAC_LINK = np.dtype(
    [
        ("waits_for", "i4"),  # the output that its input asks for while it meets the triggering conditions, else NONE
        ("retry_pending", "i4"),  # 1: its input's retry timer runs
        ("reserved_for", "i4"),  # the input that slots behind it are reserved for, or THE_CYCLE (being identified)
        ("reserved", "i4"),  # how many slots are reserved
        ("first_asker", "i4"),  # the first blocked input that asks for this output
        ("next_asker", "i4"),  # the next input, by number, that asks for what this input asks for
        ("changed_at", "i8"),  # tick at which waits_for last changed
    ]
)
"""NAC by link: as a router's input, and as an output."""
NAC_ROUTER = np.dtype(
    [
        ("detection_at", "i8"),  # tick of the detection that is due
        ("throttled", "i4"),  # reasons to throttle injection from the router's own hosts
        ("watched", "i4"),  # inputs that are full, and inputs that were blocked when last looked at
    ]
)
IDENTIFICATION_PACKET = np.dtype(
    [
        ("tick", "i8"),  # at which it arrives
        ("origin", "i4"),  # the blocked input that it is about
        ("out", "i4"),  # the output that this input asks for
        ("parent", "i4"),  # the packet that it repeats
        ("at", "i4"),  # the input that it was sent from
        ("length", "i4"),  # inputs that it has been at
        ("recovery", "i4"),  # 1: of a router that a recovery signal has reached
    ]
)
RECOVERY_SIGNAL = np.dtype(
    [
        ("slot", "i8"),  # the slot that the move freed
        ("length", "i4"),  # inputs on the cycle
        ("place", "i4"),  # the next of them
    ]
)


class Tables(NamedTuple):
    """What NetworkModel says, in records and the few numbers that the steps need."""

    links: int
    lanes: int
    data_lanes: int
    hosts: int
    output_buffers: bool
    source_queue: int
    notice_queue: int
    avoidance_queue: int
    classes: int
    link: Any
    host: Any
    router: Any
    inputs: Any
    hosts_of: Any
    next_link: Any
    lane_class: Any
    adaptive: bool
    base_lanes: int
    detour: int
    choices: Any
    hops: Any
    row: Any
    start_row: Any
    axis: Any


class State(NamedTuple):
    """Everything that changes, but for FT-DRB's sources."""

    run: Any
    """One RUN record."""
    counters: Any
    """One NAC_COUNTERS record."""
    heap: Any
    """Keys of events to come."""
    soon: Any
    """Keys of events of this tick, as many as have room; ``heap`` has the rest."""
    packets: Any
    """The pool of packets: as many as ever are somewhere at once. Where a message goes, few are, which stay in the cache."""
    reports: Any
    """By packet, with FT-DRB."""
    messages: Any
    """``engine_inputs.Messages``, read when a message is made."""
    entered: Any
    """By message: the tick at which its head left the source; -1: not yet."""
    delivered: Any
    """By message: the tick at which its tail arrived; -1: not yet."""
    hops: Any
    """By message that was delivered: routers crossed."""
    escapes: Any
    """By message that was delivered: the escape paths that it was given."""
    diverted: Any
    """By message: 1 where its source sent it over intermediate routers."""
    queues: Any
    channels: Any
    readers: Any
    links: Any
    """NAC_LINK records."""
    routers: Any
    """NAC_ROUTER records."""
    identifications: Any
    signals: Any
    path: Any
    """By signal: the inputs on its cycle."""
    release: Any
    """By slot: from when it is free."""
    waiting: Any
    """Queues that ask, by channel."""
    down: Any
    """By cable: 1 while it has failed."""
    free: Any
    """Packets of the pool that are free again; the last is taken first."""
    notices: Any
    """Notices about to set off."""
    notified_host: Any
    """[link, host]: 1 where the router at the link's start has notified the host of its failure."""
    log: Any
    """NAC's timeline: tick, event, router, input."""
    trace: Any
    """The first grants: tick, channel, packet."""


class FtDrbHook(NamedTuple):
    """FT-DRB for the engine's steps; where packets move otherwise there is None instead, and numba leaves its code out."""

    paths: Paths
    state: SourceState
    settings: Any


def records(kind: np.dtype[Any], count: int, /, **values: Any) -> Any:
    """So many records of a kind, the fields as given, else 0; the first where a line of the processor's cache begins."""
    size = max(count, 1) * kind.itemsize
    room = np.zeros(size + CACHE_LINE, dtype=np.uint8)
    start = -room.ctypes.data % CACHE_LINE
    made = room[start : start + size].view(kind)
    for name, value in values.items():
        made[name][: len(made)] = value
    return made


def build_tables(model: NetworkModel) -> Tables:
    """The network's tables in records."""
    layout, links, hosts, routers = model.layout, model.links, model.hosts, model.routers
    return Tables(
        links=layout.links,
        lanes=layout.lanes,
        data_lanes=layout.data_lanes,
        hosts=layout.hosts,
        output_buffers=layout.output_buffers,
        source_queue=layout.source_queue,
        notice_queue=layout.notice_queue,
        avoidance_queue=layout.avoidance_queue,
        classes=model.routes.classes,
        link=records(
            LINK, layout.links, entry=links.entry, start=links.start, end=links.end, host=links.host, cable=links.cable
        ),
        host=records(HOST, layout.hosts, uplink=hosts.uplink, downlink=hosts.downlink, target=hosts.target),
        router=records(ROUTER, layout.routers + 1, input_first=routers.input_first, host_first=routers.host_first),
        inputs=routers.inputs,
        hosts_of=routers.hosts,
        next_link=model.routes.next_link,
        lane_class=model.routes.lane_class,
        adaptive=model.relation.all_lanes > 0,
        base_lanes=model.relation.lanes,
        detour=model.relation.detour,
        choices=model.relation.choices,
        hops=model.relation.hops,
        row=model.relation.row,
        start_row=model.relation.start_row,
        axis=model.axes,
    )


def build_state(inputs: EngineInputs, *, ack_pool: int, heap: int) -> State:
    """All tables at their first values, for so many ACKs and events at once."""
    model, nac, drb = inputs.model, inputs.options.nac.enabled, inputs.drb
    layout, channels = model.layout, model.channels
    messages = len(inputs.messages.born)
    signals = SIGNALS if nac else 1
    run = records(RUN, 1, token=NONE)
    log = inputs.recording.nac_events if nac else 0
    notified = (layout.links, layout.hosts) if drb is not None and drb.link_up_by_router else (1, 1)
    return State(
        run=run,
        counters=records(NAC_COUNTERS, 1),
        heap=np.zeros(heap, dtype=np.int64),
        soon=np.zeros(SOON, dtype=np.int64),
        packets=records(PACKET, messages + ack_pool),
        reports=records(REPORT, messages + ack_pool if drb is not None else 1),
        messages=_same_types(inputs.messages),
        entered=np.full(messages, -1, dtype=np.int64),
        delivered=np.full(messages, -1, dtype=np.int64),
        hops=np.zeros(messages, dtype=np.int32),
        escapes=np.zeros(messages, dtype=np.int32),
        diverted=np.zeros(messages, dtype=np.uint8),
        queues=_queues(model),
        channels=records(
            CHANNEL, layout.channels, woken=-1, last=-1, delay=channels.delay, ranks=channels.ranks,
            wait_first=channels.wait_first[:-1],
        ),
        readers=records(READER, len(model.readers.first), first=model.readers.first, count=model.readers.count),
        links=records(NAC_LINK, layout.links, waits_for=NONE, reserved_for=NONE, first_asker=NONE, next_asker=NONE),
        routers=records(NAC_ROUTER, layout.routers, detection_at=-1),
        identifications=records(IDENTIFICATION_PACKET, IDENTIFICATIONS if nac else 1),
        signals=records(RECOVERY_SIGNAL, signals),
        path=np.zeros((signals, MAX_CYCLE if nac else 1), dtype=np.int32),
        release=np.zeros(max(int(model.queues.slot_first[-1]), 1), dtype=np.int64),
        waiting=np.zeros(int(channels.wait_first[-1]), dtype=np.int32),
        down=np.zeros(max(model.cables, 1), dtype=np.uint8),
        free=np.zeros(messages + ack_pool, dtype=np.int32),
        notices=np.zeros(IDENTIFICATIONS if drb is not None else 1, dtype=np.int32),
        notified_host=np.zeros(notified, dtype=np.uint8),
        log=np.zeros((max(log, 1), 4), dtype=np.int64),
        trace=np.zeros((max(inputs.recording.grants, 1), 3), dtype=np.int64),
    )  # fmt: skip


def _same_types(messages: Messages) -> Messages:
    """As writable, whole arrays: of others the steps would be compiled anew."""
    columns: list[Any] = [np.require(column, requirements=["C", "A", "W"]) for column in messages]
    return Messages(*columns)


def _queues(model: NetworkModel) -> Any:
    table, count = model.queues, model.layout.queues
    first = table.slot_first[:-1]
    return records(
        QUEUE, count, head=NONE, tail=NONE, want=NONE, lane_wanted=NONE, slots=table.slots, slot_first=first,
        fill_at=first, leave_at=first, router=table.router, reader=table.reader, rank=table.rank, lane=table.lane,
    )  # fmt: skip
