"""The arrays that the engine's steps write: events, packets, queues, channels, what NAC remembers, and the history.

They are made in one place (``build_state``) and used by engine_steps.py, nac_steps.py and drb_hooks.py.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from testbed.simulator.network_model import NONE, Ports

NEVER = 1 << 62
KIND_BITS, ID_BITS = 4, 18
KEY_SHIFT = KIND_BITS + ID_BITS
ID_MASK = (1 << ID_BITS) - 1

CABLE_EVENT, WAKE, ARRIVAL, INJECTION, DELIVERY, NOTICE, IDENTIFICATION, RECOVERY, RETRY = range(9)
"""Kinds of events; at one tick they happen in this order, and of one kind by the number of what they concern."""

DATA, LATENCY_ACK, FAILURE_ACK, UP_NOTICE = range(4)

RUNNING, FINISHED, NO_PROGRESS, OUT_OF_TIME, POOL_FULL, HEAP_FULL, SIGNALS_FULL = range(7)
"""Why an engine stopped."""

IDENTIFIED, MOVED, RECOVERED, RESERVED, ENDED, BLOCKED = range(6)
"""What NAC's timeline tells: a cycle found, a move by the router that found it, one by a recovery signal, a slot kept, a normal end."""
NAC_EVENTS = ("identified", "moved", "recovery-moved", "reserved", "normal", "blocked")
NAC_COUNTERS = ("blocked", "identification_packets", "identified", "moved", "recovery_moved", "reserved", "normal", "retries", "signals")
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
LONGEST_CYCLE = 256
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


class Events(NamedTuple):
    """A binary heap of keys: ticks, kind, number. ``size[0]``: how many."""

    heap: Any
    size: Any


class Packets(NamedTuple):
    """One entry a packet: messages first, then a pool of ACKs (``free``, ``free_count[0]``)."""

    next: Any
    source: Any
    destination: Any
    born: Any
    entered: Any
    delivered: Any
    ticks: Any
    tail: Any
    kind: Any
    hops: Any
    variant: Any
    first: Any
    second: Any
    header: Any
    escaped: Any
    escapes: Any
    came: Any
    flag: Any
    sent_first: Any
    sent_second: Any
    latency: Any
    told: Any
    free: Any
    free_count: Any
    number: Any
    noticed: Any


class Queues(NamedTuple):
    """``head``, ``tail``: linked lists of packets. ``arrived``: how many of them are there (others are on their way), ``held``: all.
    ``sent``, ``removed``: ever; ``release[slot_first[q] + n % slots]``: when the n-th slot's packet has gone (NEVER: not yet).
    ``want``: the channel that the head asks for, NONE; ``since``: from when.
    """

    head: Any
    tail: Any
    arrived: Any
    held: Any
    sent: Any
    removed: Any
    release: Any
    want: Any
    since: Any
    lane: Any


class Channels(NamedTuple):
    """``busy``: until when. ``waiting[wait_first[c]:][:waits[c]]``: who asks for it. ``last``: rank served last. ``woken``: last wake.
    ``carried``: packets (links only: for loads). ``readers``: until when each reader is busy.
    """

    busy: Any
    waiting: Any
    waits: Any
    last: Any
    woken: Any
    carried: Any
    readers: Any
    down: Any


class Cycles(NamedTuple):
    """NAC. By link l (as a router's input): ``blocked``; as its output: ``holder`` (the input that a slot is kept for), ``kept``.
    ``stopped[r]``: reasons for which local injection at router r stops. Identification packets: ``origin``, ``out``, ``parent``, ``at``
    (a ring of entries). Signals: their path of inputs.
    """

    blocked: Any
    holder: Any
    kept: Any
    stopped: Any
    origin: Any
    out: Any
    parent: Any
    at: Any
    path: Any
    length: Any
    place: Any
    slot: Any
    pending: Any
    counters: Any
    log: Any
    logged: Any


class Run(NamedTuple):
    """``clock``: [now, last progress, delivered data, status, hops, digest, livelocks, next message, next probe, next signal, ACKs].
    ``told_host[l, h]``: whether the router at the start of link l has told host h that it failed. ``trace``: (ticks, channel, packet) of
    every grant if wanted, ``traced[0]`` of them.
    """

    clock: Any
    told_host: Any
    trace: Any
    traced: Any


NOW, LAST, DONE, STATUS, HOPS, DIGEST, LIVELOCKS, NEXT_MESSAGE, NEXT_PROBE, NEXT_SIGNAL, ACKS, EVENTS = range(12)


class State(NamedTuple):
    """Everything that changes."""

    events: Events
    packets: Packets
    queues: Queues
    channels: Channels
    cycles: Cycles
    run: Run


def build_state(
    ports: Ports, options: Options, *, messages: int, ack_pool: int, heap: int, cables: int, trace: int, log: int
) -> State:
    """All arrays at their first values, for so many messages and ACKs at once."""
    i64, i32, u8 = np.int64, np.int32, np.uint8
    total = messages + ack_pool

    def whole(count: int, value: int = 0, kind: type = i32) -> np.ndarray:
        return np.full(count, value, dtype=kind)

    drb = total if options.drb else 1
    packets = Packets(
        next=whole(total, NONE), source=whole(total), destination=whole(total), born=whole(total, 0, i64),
        entered=whole(total, -1, i64), delivered=whole(total, -1, i64), ticks=whole(total, 0, i64), tail=whole(total, 0, i64),
        kind=whole(total, 0, u8), hops=whole(total), variant=whole(total, 0, u8), first=whole(drb, NONE), second=whole(drb, NONE),
        header=whole(drb, 0, u8), escaped=whole(drb, 0, u8), escapes=whole(drb), came=whole(drb, NONE), flag=whole(drb, NONE),
        sent_first=whole(drb, NONE), sent_second=whole(drb, NONE), latency=whole(drb, 0, i64), told=whole(drb, NONE),
        free=np.arange(total - 1, messages - 1, -1, dtype=i32), free_count=whole(1, ack_pool), number=np.arange(total, dtype=i64),
        noticed=whole(PROBES if options.drb else 1),
    )  # fmt: skip
    release = whole(int(ports.slot_first[-1]), 0, i64)
    queues = Queues(
        head=whole(ports.queues, NONE), tail=whole(ports.queues, NONE), arrived=whole(ports.queues), held=whole(ports.queues),
        sent=whole(ports.queues, 0, i64), removed=whole(ports.queues, 0, i64), release=release, want=whole(ports.queues, NONE),
        since=whole(ports.queues, 0, i64), lane=_lanes(ports),
    )  # fmt: skip
    channels = Channels(
        busy=whole(ports.channels, 0, i64), waiting=whole(int(ports.wait_first[-1])), waits=whole(ports.channels),
        last=whole(ports.channels, -1), woken=whole(ports.channels, -1, i64), carried=whole(ports.channels, 0, i64),
        readers=whole(len(ports.reader_first), 0, i64), down=whole(max(cables, 1), 0, u8),
    )  # fmt: skip
    probes, signals = (PROBES, SIGNALS) if options.nac else (1, 1)
    cycles = Cycles(
        blocked=whole(ports.links, 0, u8), holder=whole(ports.links, NONE), kept=whole(ports.links), stopped=whole(ports.routers),
        origin=whole(probes), out=whole(probes), parent=whole(probes, NONE), at=whole(probes),
        path=np.zeros((signals, LONGEST_CYCLE if options.nac else 1), dtype=i32), length=whole(signals), place=whole(signals),
        slot=whole(signals, 0, i64), pending=whole(ports.links, 0, u8), counters=whole(len(NAC_COUNTERS), 0, i64), log=np.zeros((max(log, 1), 4), dtype=i64),
        logged=whole(1, 0, i64),
    )  # fmt: skip
    run = Run(
        clock=whole(12, 0, i64),
        told_host=np.zeros((ports.links, ports.hosts) if options.up_by_router else (1, 1), dtype=u8),
        trace=np.zeros((max(trace, 1), 3), dtype=i64),
        traced=whole(1, 0, i64),
    )
    events = Events(heap=whole(heap, 0, i64), size=whole(1, 0, i64))
    return State(events=events, packets=packets, queues=queues, channels=channels, cycles=cycles, run=run)


def _lanes(ports: Ports) -> np.ndarray:
    lane = np.zeros(ports.queues, dtype=np.int8)
    lane[: ports.source_queue] = np.arange(ports.source_queue) % ports.lanes
    ack = ports.lanes - 1 if ports.lanes > ports.data_lanes else 0
    lane[ports.source_queue : ports.notice_queue] = np.where(
        np.arange(ports.notice_queue - ports.source_queue) % 2 == 1, ack, 0
    )
    lane[ports.notice_queue : ports.spare_queue] = ack
    return lane
