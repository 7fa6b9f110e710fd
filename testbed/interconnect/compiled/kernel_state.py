"""The tables that the compiled engine's steps read and write: packets, queues, channels, what NAC remembers, the
history.

They are arrays of records, few in number, because compiled code is handed each of them in every call. ``Tables`` does
not change in a run, ``State`` does. ``kernel_records.py`` has the records.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from testbed.arrays import IntArray, Record, Records, record_dtype
from testbed.errors import InputError
from testbed.interconnect.compiled import kernel_records as kr
from testbed.interconnect.engine_inputs import EngineInputs, Messages, copied
from testbed.interconnect.ft_drb.source_state import FtDrb
from testbed.interconnect.network_model import NetworkModel
from testbed.interconnect.parameters import MAX_CYCLE
from testbed.interconnect.route_tables import RelationTables
from testbed.interconnect.static_paths import NONE, CompactRoutes
from testbed.interconnect.transmission import Transmission

CACHE_LINE = 64
"""Bytes."""


class Tables(NamedTuple):
    """What NetworkModel says, in records and the few numbers that the steps need."""

    links: int
    lanes: int
    lane_share: int
    """Two to the power of 32 by ``lanes``, rounded up: to divide a queue's number by them (``link_of``)."""
    data_lanes: int
    hosts: int
    output_buffers: bool
    source_queue: int
    notice_queue: int
    avoidance_queue: int
    classes: int
    link: Records[kr.Link]
    host: Records[kr.Host]
    router: Records[kr.Router]
    inputs: IntArray
    hosts_of: IntArray
    routes: CompactRoutes
    lane_class: IntArray
    adaptive: bool
    relation: RelationTables
    axis: IntArray


class State(NamedTuple):
    """Everything that changes, but for FT-DRB's sources."""

    run: Records[kr.Run]
    """One record."""
    counters: IntArray
    """What NAC did, by NAC_COUNTERS."""
    heap: IntArray
    """Keys of events beyond the wheel's reach, and of those for which there is no room in ``soon``."""
    soon: IntArray
    """Keys of events that come first, in order, in a ring; NO_EVENT behind the last."""
    wheel: IntArray
    """By bucket, modulo their number: the first of its nodes plus 1; 0: none."""
    occupied: IntArray
    """A bit a bucket: 1 where it has nodes; 32 a word."""
    nodes: Records[kr.Node]
    packets: Records[kr.Packet]
    """The pool of packets: as many as ever are somewhere at once. Where a message goes, few are, which stay in the
    cache."""
    reports: Records[kr.Report]
    """By packet, with FT-DRB."""
    messages: Messages
    """Read when a message is made."""
    transmission: IntArray
    """Ticks from the head of a packet to its tail, at the sum of its channel's rate and its size."""
    entered: IntArray
    """By message: the tick at which its head left the source; -1: not yet."""
    delivered: IntArray
    """By message: the tick at which its tail arrived; -1: not yet."""
    hops: IntArray
    """By message that was delivered: routers crossed."""
    escapes: IntArray
    """By message that was delivered: the escape paths that it was given."""
    diverted: IntArray
    """By message: 1 where its source sent it over intermediate routers."""
    queues: Records[kr.Queue]
    turns: Records[kr.Turn]
    """By queue, where the options ask for any of it."""
    channels: Records[kr.Channel]
    links: Records[kr.NacLink]
    routers: Records[kr.NacRouter]
    identifications: Records[kr.IdentificationPacket]
    signals: Records[kr.RecoverySignal]
    path: IntArray
    """By signal: the inputs on its cycle."""
    release: IntArray
    """By slot k and queue q (at k Q + q of Q queues), for slots that a packet has left: from when it is free. First
    slots lie side by side, since a queue that runs empty begins with its first again: where few packets are in the
    network, no others are looked at."""
    down: IntArray
    """By cable: 1 while it has failed."""
    free: IntArray
    """Packets of the pool that are free again; the last is taken first."""
    notices: IntArray
    """Notices about to set off; NONE: no such."""
    notified_host: IntArray
    """[link, host]: 1 where the router at the link's start has notified the host of its failure."""
    log: IntArray
    """NAC's timeline: tick, event, router, input."""
    trace: IntArray
    """The first grants: tick, channel, packet."""


Hook = FtDrb | None
"""FT-DRB for the engine's steps; where packets move otherwise there is None instead, and numba leaves its code out."""


def words(kind: npt.DTypeLike, count: int) -> NDArray[Any]:
    """So many items of a kind, all 0; the first where a line of the processor's cache begins."""
    size = max(count, 1) * np.dtype(kind).itemsize
    room = np.zeros(size + CACHE_LINE, dtype=np.uint8)
    start = -room.ctypes.data % CACHE_LINE
    return room[start : start + size].view(kind)


def records(kind: type[Record], count: int, /, **values: int | IntArray) -> Records[Record]:
    """So many records of a kind, the fields as given, else 0; laid out as ``words``."""
    made = words(record_dtype(kind), count)
    for name, value in values.items():
        made[name][: len(made)] = value
    return cast(Records[Record], made)


def build_tables(model: NetworkModel) -> Tables:
    """The network's tables in records."""
    layout, links, hosts, routers = model.layout, model.links, model.hosts, model.routers
    return copied(
        Tables,
        layout,
        lane_share=-(-(1 << 32) // layout.lanes),
        classes=model.routes.classes,
        link=records(kr.Link, layout.links, place=_places(model), **vars(links)),
        host=records(kr.Host, layout.hosts, **vars(hosts)),
        router=records(
            kr.Router,
            layout.routers + 1,
            input_first=routers.input_first,
            host_first=routers.host_first,
        ),
        inputs=routers.inputs,
        hosts_of=routers.hosts,
        routes=model.routes.compact,
        lane_class=model.routes.lane_class,
        adaptive=model.relation.all_lanes > 0,
        relation=model.relation,
        axis=model.axes,
    )


def _places(model: NetworkModel) -> IntArray:
    """By link: its place among the inputs from other routers of the router where it ends; 0 where it ends at a host, or
    begins there."""
    place = np.zeros(model.layout.links, dtype=np.int32)
    first = model.routers.input_first
    place[model.routers.inputs] = np.arange(len(model.routers.inputs)) - np.repeat(
        first[:-1], np.diff(first)
    )
    return place


class Scratch:
    """Large tables that need no first values: a process keeps those of its last run, since fresh memory costs time."""

    def __init__(self) -> None:
        self._retained: dict[str, NDArray[Any]] = {}

    def words(self, name: str, kind: npt.DTypeLike, count: int) -> NDArray[Any]:
        """At least so many items of a kind, whatever is in them."""
        if name not in self._retained or len(self._retained[name]) < count:
            self._retained[name] = words(kind, count)
        return self._retained[name]

    def records(self, name: str, kind: type[Record], count: int) -> Records[Record]:
        """At least so many records of a kind, whatever is in them."""
        return cast(Records[Record], self.words(name, record_dtype(kind), count))


def build_state(
    inputs: EngineInputs, *, ack_pool: int, heap: int, scratch: Scratch | None = None
) -> State:
    """All tables at their first values, for so many ACKs and events at once."""
    scratch = scratch or Scratch()
    model, nac, drb = inputs.model, inputs.options.nac.enabled, inputs.drb
    layout = model.layout
    messages, takes_turns = (
        len(inputs.messages.born),
        inputs.options.turnaround > 0 or inputs.options.lanes_in_turn,
    )
    signals = kr.SIGNALS if nac else 1
    buckets = 1 << min(max((layout.channels * 4).bit_length(), 10), 16)
    times = inputs.transmission.ticks
    reach = max(int(np.max(times, initial=1)), inputs.options.nac.retry if nac else 1)
    run = records(
        kr.Run,
        1,
        token=NONE,
        free_node=NONE,
        wheel_shift=max((2 * reach // buckets).bit_length() - 1, 0),
    )
    log = inputs.recording.nac_events if nac else 0
    notified = (layout.links, layout.hosts) if drb is not None and drb.link_up_by_router else (1, 1)
    return State(
        run=run,
        counters=np.zeros(len(kr.NAC_COUNTERS), dtype=np.int64),
        heap=scratch.words("heap", np.int64, heap),
        soon=np.full(kr.SOON, kr.NO_EVENT),
        wheel=np.zeros(buckets, dtype=np.int32),
        occupied=np.zeros(buckets // 32, dtype=np.int64),
        nodes=scratch.records("nodes", kr.Node, heap),
        packets=scratch.records("packets", kr.Packet, messages + ack_pool),
        reports=scratch.records("reports", kr.Report, messages + ack_pool if drb is not None else 1),
        messages=_same_types(inputs.messages),
        transmission=np.ascontiguousarray(times).ravel(),
        entered=np.full(messages, -1, dtype=np.int64),
        delivered=np.full(messages, -1, dtype=np.int64),
        hops=np.zeros(messages, dtype=np.int32),
        escapes=np.zeros(messages, dtype=np.int32),
        diverted=np.zeros(messages, dtype=np.uint8),
        queues=_queues(model),
        turns=records(kr.Turn, layout.queues if takes_turns else 1, last=NONE),
        channels=_channels(model, inputs.transmission),
        links=records(kr.NacLink, layout.links, waits_for=NONE, reserved_for=NONE, first_asker=NONE, next_asker=NONE),
        routers=records(kr.NacRouter, layout.routers, detection_at=-1),
        identifications=scratch.records("identifications", kr.IdentificationPacket, kr.IDENTIFICATIONS if nac else 1),
        signals=scratch.records("signals", kr.RecoverySignal, signals),
        path=scratch.words("path", np.int32, signals * MAX_CYCLE).reshape(-1, MAX_CYCLE),
        release=np.zeros(max(layout.queues * int(np.max(model.queues.slots, initial=1)), 1), dtype=np.int64),
        down=np.zeros(max(model.cables, 1), dtype=np.uint8),
        free=scratch.words("free", np.int32, messages + ack_pool),
        notices=np.full(kr.IDENTIFICATIONS if drb is not None else 1, NONE, dtype=np.int32),
        notified_host=np.zeros(notified, dtype=np.uint8),
        log=np.zeros((max(log, 1), 4), dtype=np.int64),
        trace=np.zeros((max(inputs.recording.grants, 1), 3), dtype=np.int64),
    )  # fmt: skip


def _same_types(messages: Messages) -> Messages:
    """As writable, whole arrays: of others the steps would be compiled again."""
    return Messages(*(np.require(column, requirements=["C", "A", "W"]) for column in messages))


def _channels(model: NetworkModel, transmission: Transmission) -> Records[kr.Channel]:
    layout, links, paths = model.layout, model.links, model.channels
    none = np.full(layout.channels - layout.links, NONE)
    router = np.concatenate([links.start, links.start[: layout.channels - layout.links]])
    return records(
        kr.Channel, layout.channels, woken=-1, last=-1, first_asker=NONE, delay=paths.delay, ranks=paths.ranks,
        router=router, cable=np.concatenate([links.cable, none]), stores=paths.stores,
        rate=transmission.rate * transmission.ticks.shape[1],
    )  # fmt: skip


def _queues(model: NetworkModel) -> Records[kr.Queue]:
    table, layout, count = model.queues, model.layout, model.layout.queues
    if int(np.max(table.rank, initial=0)) > kr.MAX_RANK:
        raise InputError(
            f"{model.network.name}: a switch with more than {kr.MAX_RANK} buffers; take a smaller one"
        )
    queue = np.arange(count)
    among = np.where(
        queue < layout.source_queue, queue % layout.lanes, (queue - layout.source_queue) % 2
    )
    return records(
        kr.Queue, count, head=NONE, tail=NONE, want=NONE, next_asker=NONE, lane_requested=NONE, slots=table.slots,
        returning_at=queue, reader=np.where(queue < layout.notice_queue, queue - among, queue), router=table.router,
        rank=table.rank,
    )  # fmt: skip
