"""The tables that the compiled engine's steps read and write: events, packets, queues, channels, what NAC remembers, the history.

They are arrays of records, few in number, because compiled code is handed each of them in every call.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from testbed.interconnect.network_model import NONE as NONE
from testbed.interconnect.network_model import Ports

NEVER = 1 << 62
KIND_BITS, ID_BITS = 4, 18
KEY_SHIFT = KIND_BITS + ID_BITS
ID_MASK = (1 << ID_BITS) - 1

CABLE_EVENT, WAKE, ARRIVAL, INJECTION, DELIVERY, NOTICE, LOOK, IDENTIFICATION, RECOVERY, RETRY = range(10)
"""Kinds of events; at one tick they happen in this order, and of one kind by the number of what they concern."""

DATA, LATENCY_ACK, FAILURE_ACK, UP_NOTICE = range(4)

RUNNING, FINISHED, NO_PROGRESS, OUT_OF_TIME, POOL_FULL, HEAP_FULL, SIGNALS_FULL = range(7)
"""Why an engine stopped."""

IDENTIFIED, MOVED, RECOVERED, RESERVED, ENDED, BLOCKED = range(6)
"""What NAC's timeline tells: a cycle found, a move by the router that found it, one by a recovery signal, a slot kept, a normal end."""
NAC_EVENTS = ("identified", "moved", "recovery-moved", "reserved", "normal", "blocked")
NAC_COUNTERS = (
    "blocked",
    "identification_packets",
    "identified",
    "moved",
    "recovery_moved",
    "reserved",
    "normal",
    "retries",
    "signals",
)
(
    C_BLOCKED,
    C_PACKETS,
    C_IDENTIFIED,
    C_MOVED,
    C_RECOVERY_MOVED,
    C_RESERVED,
    C_NORMAL,
    C_RETRIES,
    C_SIGNALS,
) = range(9)
MAX_CYCLE = 256
SIGNALS = 4096
PROBES = 1 << ID_BITS


class Options(NamedTuple):
    """Whole numbers that the steps read: sizes of the run, and options as 0 or 1."""

    nac: int
    drb: int
    fifo: int
    head_release: int
    credit_delay: int
    end: int
    watchdog: int
    control: int
    retry: int
    repeat_when_full: int
    own_request: int
    reserve: int
    stop_local: int
    recovery_run: int
    slack: int
    notify_by_router: int
    tell_queued: int
    overhear: int
    up_by_router: int
    hop_cap: int
    ack_ticks: int
    seed: int


(
    NOW,
    LAST,
    DONE,
    STATUS,
    HOPS,
    DIGEST,
    LIVELOCKS,
    NEXT_MESSAGE,
    NEXT_PROBE,
    NEXT_SIGNAL,
    ACKS,
    EVENTS,
    HEAPED,
    FREE,
    LOGGED,
    TRACED,
) = range(16)
"""Entries of the clock: the tick, that of the last move, messages delivered, why it stopped, routers crossed, digest of all grants, ...;
HEAPED events are in the heap, FREE packets in the pool of ACKs."""

PACKET = np.dtype(
    [
        ("born", "i8"), ("entered", "i8"), ("delivered", "i8"), ("ticks", "i8"), ("tail", "i8"), ("number", "i8"), ("latency", "i8"),
        ("next", "i4"), ("source", "i4"), ("destination", "i4"), ("hops", "i4"), ("first", "i4"), ("second", "i4"),
        ("escapes", "i4"), ("came", "i4"), ("flag", "i4"), ("sent_first", "i4"), ("sent_second", "i4"), ("told", "i4"),
        ("kind", "u1"), ("variant", "u1"), ("header", "u1"), ("escaped", "u1"), ("filler", "u4"),
    ]
)  # fmt: skip
"""A message or an ACK. ``next``: behind it in its queue; ``tail``: when its tail is where its head is."""
QUEUE = np.dtype(
    [
        ("since", "i8"), ("head", "i4"), ("tail", "i4"), ("arrived", "i4"), ("held", "i4"),
        ("want", "i4"), ("slots", "i4"), ("slot_first", "i4"), ("slot_end", "i4"), ("fill_at", "i4"), ("leave_at", "i4"), ("feeder", "i4"), ("router", "i4"), ("reader", "i4"), ("rank", "i4"), ("lane", "i4"),
        ("filler", "i4"),
    ]
)  # fmt: skip
"""A linked list of packets: ``held`` of them, ``arrived`` are there. Its slots are used in turn: the next one to fill is
``fill_at``, the next to leave ``leave_at``; ``release``: when a slot's packet has gone (NEVER: not yet). The head wants channel ``want`` (NONE) ``since`` a tick. The rest: Ports."""
CHANNEL = np.dtype(
    [
        ("busy", "i8"),
        ("woken", "i8"),
        ("delay", "i8"),
        ("carried", "i8"),
        ("last", "i4"),
        ("waits", "i4"),
        ("ranks", "i4"),
        ("wait_first", "i4"),
    ]
)
"""``busy``: until when; ``woken``: the tick of the last wake; ``last``: rank served last; asked for by ``waiting[wait_first:][:waits]``."""
READER = np.dtype([("busy", "i8"), ("first", "i4"), ("count", "i4")])
LINK = np.dtype([("entry", "i4"), ("start", "i4"), ("end", "i4"), ("host", "i4"), ("cable", "i4"), ("filler", "i4")])
"""``start``, ``end``: routers (NONE: a host)."""
HOST = np.dtype([("uplink", "i4"), ("downlink", "i4"), ("goal", "i4"), ("filler", "i4")])
ROUTER = np.dtype([("input_first", "i4"), ("hosts_first", "i4")])
CYCLE_LINK = np.dtype([("blocked", "i4"), ("pending", "i4"), ("holder", "i4"), ("kept", "i4")])
"""NAC, by link: as an input: ``blocked``, ``pending`` (a retry timer); as an output: a slot is ``kept`` for the input ``holder``."""
CYCLE_ROUTER = np.dtype([("looked", "i8"), ("stopped", "i4"), ("filler", "i4")])
"""``stopped``: reasons for which local injection stops; ``looked``: the tick of the look round that is due."""
PROBE = np.dtype([("origin", "i4"), ("out", "i4"), ("parent", "i4"), ("at", "i4")])
SIGNAL = np.dtype([("slot", "i8"), ("length", "i4"), ("place", "i4")])


class Fixed(NamedTuple):
    """What Ports says, in records."""

    links: int
    lanes: int
    data_lanes: int
    hosts: int
    two_stages: int
    source_queue: int
    notice_queue: int
    spare_queue: int
    classes: int
    link: Any
    host: Any
    router: Any
    inputs: Any
    hosts_of: Any
    next_link: Any
    lane_class: Any


class State(NamedTuple):
    """Everything that changes. ``free``: the pool of ACKs; ``noticed``: notices about to set off; ``told_host[l, h]``: whether the router
    at the start of link l has told host h that it failed; ``trace``: (tick, channel, packet) of the first grants; ``log``: NAC's timeline.
    """

    clock: Any
    heap: Any
    packets: Any
    queues: Any
    channels: Any
    readers: Any
    links: Any
    routers: Any
    probes: Any
    signals: Any
    release: Any
    waiting: Any
    down: Any
    free: Any
    noticed: Any
    path: Any
    counters: Any
    log: Any
    told_host: Any
    trace: Any


def records(kind: np.dtype[Any], count: int, /, **values: Any) -> Any:
    """So many records of a kind, the fields as given, else 0."""
    made = np.zeros(max(count, 1), dtype=kind)
    for name, value in values.items():
        made[name][: len(made)] = value
    return made


def build_fixed(ports: Ports) -> Fixed:
    """The numbers of a network in records."""
    return Fixed(
        links=ports.links, lanes=ports.lanes, data_lanes=ports.data_lanes, hosts=ports.hosts, two_stages=ports.two_stages,
        source_queue=ports.source_queue, notice_queue=ports.notice_queue, spare_queue=ports.spare_queue, classes=ports.classes,
        link=records(
            LINK, ports.links, entry=ports.entry, start=ports.link_from, end=ports.link_to, host=ports.host_at, cable=ports.cable
        ),
        host=records(HOST, ports.hosts, uplink=ports.uplink, downlink=ports.downlink, goal=ports.goal),
        router=records(ROUTER, ports.routers + 1, input_first=ports.input_first, hosts_first=ports.hosts_first),
        inputs=ports.inputs, hosts_of=ports.hosts_of, next_link=ports.next_link, lane_class=ports.lane_class,
    )  # fmt: skip


def build_state(
    ports: Ports, options: Options, *, messages: int, ack_pool: int, heap: int, cables: int, trace: int, log: int
) -> State:
    """All tables at their first values, for so many messages and ACKs at once."""
    total = messages + ack_pool
    probes, signals = (PROBES, SIGNALS) if options.nac else (1, 1)
    packets = records(
        PACKET, total, next=NONE, entered=-1, delivered=-1, first=NONE, second=NONE, came=NONE, flag=NONE, sent_first=NONE,
        sent_second=NONE, told=NONE,
    )  # fmt: skip
    packets["number"] = np.arange(len(packets))
    clock = np.zeros(16, dtype=np.int64)
    clock[FREE] = ack_pool
    told = (ports.links, ports.hosts) if options.up_by_router else (1, 1)
    return State(
        clock=clock,
        heap=np.zeros(heap, dtype=np.int64),
        packets=packets,
        queues=records(
            QUEUE, ports.queues, head=NONE, tail=NONE, want=NONE, slots=ports.slots, slot_first=ports.slot_first[:-1],
            slot_end=ports.slot_first[1:], fill_at=ports.slot_first[:-1], leave_at=ports.slot_first[:-1],
            feeder=np.arange(ports.queues) // ports.lanes,
            router=ports.router_of, reader=ports.reader, rank=ports.rank, lane=_lanes(ports),
        ),
        channels=records(
            CHANNEL, ports.channels, woken=-1, last=-1, delay=ports.delay, ranks=ports.ranks, wait_first=ports.wait_first[:-1]
        ),
        readers=records(READER, len(ports.reader_first), first=ports.reader_first, count=ports.reader_count),
        links=records(CYCLE_LINK, ports.links, holder=NONE),
        routers=records(CYCLE_ROUTER, ports.routers, looked=-1),
        probes=records(PROBE, probes),
        signals=records(SIGNAL, signals),
        release=np.zeros(max(int(ports.slot_first[-1]), 1), dtype=np.int64),
        waiting=np.zeros(int(ports.wait_first[-1]), dtype=np.int32),
        down=np.zeros(max(cables, 1), dtype=np.uint8),
        free=np.arange(total - 1, messages - 1, -1, dtype=np.int32),
        noticed=np.zeros(PROBES if options.drb else 1, dtype=np.int32),
        path=np.zeros((signals, MAX_CYCLE if options.nac else 1), dtype=np.int32),
        counters=np.zeros(len(NAC_COUNTERS), dtype=np.int64),
        log=np.zeros((max(log, 1), 4), dtype=np.int64),
        told_host=np.zeros(told, dtype=np.uint8),
        trace=np.zeros((max(trace, 1), 3), dtype=np.int64),
    )  # fmt: skip


def _lanes(ports: Ports) -> np.ndarray:
    lane = np.zeros(ports.queues, dtype=np.int8)
    lane[: ports.source_queue] = np.arange(ports.source_queue) % ports.lanes
    ack = ports.lanes - 1 if ports.lanes > ports.data_lanes else 0
    lane[ports.source_queue : ports.notice_queue] = np.where(
        np.arange(ports.notice_queue - ports.source_queue) % 2 == 1, ack, 0
    )
    lane[ports.notice_queue : ports.spare_queue] = ack
    return lane
