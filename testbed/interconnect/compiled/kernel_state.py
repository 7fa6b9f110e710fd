"""The tables that the compiled engine's steps read and write.

They hold packets, queues, channels, the state of NAC and the history. ``Tables`` does not change
during a run, ``State`` does. The tables are few arrays of records, because each array is an
argument of every call in compiled code. ``kernel_records.py`` has the records.
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

# Size of a line of the processor's cache, in bytes.
CACHE_LINE = 64


class Tables(NamedTuple):
    """The network as records, and the numbers that the steps need.

    The fields are as in ``NetworkModel`` and its tables, with these exceptions.

    Attributes:
        lane_share: 2^32 / ``lanes``, rounded up, by which the number of a queue is divided by
            ``lanes`` (``link_of``).
        inputs: Inputs of all routers.
        hosts_of: Hosts of all routers.
        adaptive: Whether packets follow a routing relation.
    """

    links: int
    lanes: int
    lane_share: int
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
    """The state of a run, except for FT-DRB's sources.

    Attributes:
        run: One record.
        counters: Number of NAC's events, by NAC_COUNTERS.
        heap: Keys of events beyond the reach of the wheel, and of those for which ``soon`` has no
            room.
        soon: Keys of the next events, in order, in a ring; NO_EVENT behind the last.
        wheel: By bucket, modulo their number: the first of its nodes plus 1; 0: none.
        occupied: One bit per bucket, which is 1 if it has nodes; 32 bits in a word.
        nodes: Events in the wheel.
        packets: The pool of packets, as many as are in the network at once. If messages arrive
            quickly, few are used, which stay in the processor's cache.
        reports: Further fields of each packet, with FT-DRB.
        messages: The messages, which are read when a message is generated.
        transmission: Ticks from the head of a packet to its tail, at the sum of the index of its
            channel's rate and its size.
        entered: By message: tick at which its head left the source; -1: not yet.
        delivered: By message: tick at which its tail arrived; -1: not yet.
        hops: By delivered message: number of routers that it crossed.
        escapes: By delivered message: number of escape paths that it was given.
        diverted: By message: 1 if its source sent it over intermediate routers.
        queues: The queues.
        turns: By queue, if an option needs turnaround times or the last lane.
        channels: The channels.
        links: State of NAC by link.
        routers: State of NAC by router.
        identifications: NAC's identification packets, in a ring.
        signals: NAC's recovery signals.
        path: By signal: the inputs on its cycle.
        release: When a slot that a packet has left becomes free. Slot k of queue q is at k Q + q of
            Q queues. So the first slots of all queues are adjacent, and a queue that becomes empty
            begins with its first slot again: with few packets in the network no other slots are
            read.
        down: By cable: 1 while it has failed.
        free: Packets of the pool that are free again; the last is used first.
        notices: Notices that are about to be sent; NONE: none.
        notified_host: [link, host] 1 if the router at the start of the link has notified the host
            of its failure.
        log: NAC's timeline: tick, event, router, input.
        trace: The first grants: tick, channel, packet.
    """

    run: Records[kr.Run]
    counters: IntArray
    heap: IntArray
    soon: IntArray
    wheel: IntArray
    occupied: IntArray
    nodes: Records[kr.Node]
    packets: Records[kr.Packet]
    reports: Records[kr.Report]
    messages: Messages
    transmission: IntArray
    entered: IntArray
    delivered: IntArray
    hops: IntArray
    escapes: IntArray
    diverted: IntArray
    queues: Records[kr.Queue]
    turns: Records[kr.Turn]
    channels: Records[kr.Channel]
    links: Records[kr.NacLink]
    routers: Records[kr.NacRouter]
    identifications: Records[kr.IdentificationPacket]
    signals: Records[kr.RecoverySignal]
    path: IntArray
    release: IntArray
    down: IntArray
    free: IntArray
    notices: IntArray
    notified_host: IntArray
    log: IntArray
    trace: IntArray


# FT-DRB for the engine's steps. It is None for other routings, and numba then leaves out its code.
Hook = FtDrb | None


def words(kind: npt.DTypeLike, count: int) -> NDArray[Any]:
    """Return zeros of a kind, of which the first begins a cache line.

    Args:
        kind: Type of the items.
        count: Number of items.
    """
    size = max(count, 1) * np.dtype(kind).itemsize
    room = np.zeros(size + CACHE_LINE, dtype=np.uint8)
    start = -room.ctypes.data % CACHE_LINE
    return room[start : start + size].view(kind)


def records(kind: type[Record], count: int, /, **values: int | IntArray) -> Records[Record]:
    """Return records of a kind, of which the first begins a cache line.

    Args:
        kind: Class of the records.
        count: Number of records.
        values: Values of fields. The other fields are 0.
    """
    array = words(record_dtype(kind), count)
    for name, value in values.items():
        array[name][: len(array)] = value
    return cast(Records[Record], array)


def build_tables(model: NetworkModel) -> Tables:
    """Return the tables of a network."""
    layout = model.layout
    routers = model.routers
    return copied(
        Tables,
        layout,
        lane_share=-(-(1 << 32) // layout.lanes),
        classes=model.routes.classes,
        link=records(kr.Link, layout.links, place=_input_positions(model), **vars(model.links)),
        host=records(kr.Host, layout.hosts, **vars(model.hosts)),
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


def _input_positions(model: NetworkModel) -> IntArray:
    """Return the position of each link among the inputs from other routers of its end router.

    It is 0 for links of hosts.
    """
    position = np.zeros(model.layout.links, dtype=np.int32)
    inputs = model.routers.inputs
    first = model.routers.input_first
    first_of_router = np.repeat(first[:-1], np.diff(first))
    position[inputs] = np.arange(len(inputs)) - first_of_router
    return position


class Scratch:
    """Large tables that need no initial values.

    A process keeps those of its last run, because the kernel takes time to provide fresh memory.
    """

    def __init__(self) -> None:
        self._retained: dict[str, NDArray[Any]] = {}

    def words(self, name: str, kind: npt.DTypeLike, count: int) -> NDArray[Any]:
        """Return at least this number of items of a kind, with arbitrary values."""
        if name not in self._retained or len(self._retained[name]) < count:
            self._retained[name] = words(kind, count)
        return self._retained[name]

    def records(self, name: str, kind: type[Record], count: int) -> Records[Record]:
        """Return at least this number of records of a kind, with arbitrary values."""
        return cast(Records[Record], self.words(name, record_dtype(kind), count))


def build_state(
    inputs: EngineInputs, *, ack_pool: int, heap: int, scratch: Scratch | None = None
) -> State:
    """Return the tables at the beginning of a run.

    Args:
        inputs: The inputs of the run.
        ack_pool: Largest number of ACKs at once.
        heap: Largest number of events at once, in the heap and in the wheel each.
        scratch: Tables of a former run that may be used again.
    """
    scratch = scratch or Scratch()
    model = inputs.model
    layout = model.layout
    messages = len(inputs.messages.born)
    packets = messages + ack_pool
    takes_turns = inputs.options.turnaround > 0 or inputs.options.lanes_in_turn
    # Tables that the run does not need have one item.
    reports = 1
    notices = 1
    notified_shape = (1, 1)
    if inputs.drb is not None:
        reports = packets
        notices = kr.IDENTIFICATIONS
        if inputs.drb.link_up_by_router:
            notified_shape = (layout.links, layout.hosts)
    signals = 1
    identifications = 1
    log_rows = 1
    if inputs.options.nac.enabled:
        signals = kr.SIGNALS
        identifications = kr.IDENTIFICATIONS
        log_rows = max(inputs.recording.nac_events, 1)
    buckets = _buckets(inputs)
    slots = int(np.max(model.queues.slots, initial=1))
    return State(
        run=records(
            kr.Run,
            1,
            token=NONE,
            free_node=NONE,
            wheel_shift=_wheel_shift(inputs, buckets),
        ),
        counters=np.zeros(len(kr.NAC_COUNTERS), dtype=np.int64),
        heap=scratch.words("heap", np.int64, heap),
        soon=np.full(kr.SOON, kr.NO_EVENT),
        wheel=np.zeros(buckets, dtype=np.int32),
        occupied=np.zeros(buckets // 32, dtype=np.int64),
        nodes=scratch.records("nodes", kr.Node, heap),
        packets=scratch.records("packets", kr.Packet, packets),
        reports=scratch.records("reports", kr.Report, reports),
        messages=_same_types(inputs.messages),
        transmission=np.ascontiguousarray(inputs.transmission.ticks).ravel(),
        entered=np.full(messages, -1, dtype=np.int64),
        delivered=np.full(messages, -1, dtype=np.int64),
        hops=np.zeros(messages, dtype=np.int32),
        escapes=np.zeros(messages, dtype=np.int32),
        diverted=np.zeros(messages, dtype=np.uint8),
        queues=_queues(model),
        turns=records(kr.Turn, layout.queues if takes_turns else 1, last=NONE),
        channels=_channels(model, inputs.transmission),
        links=records(
            kr.NacLink,
            layout.links,
            waits_for=NONE,
            reserved_for=NONE,
            first_asker=NONE,
            next_asker=NONE,
        ),
        routers=records(kr.NacRouter, layout.routers, detection_at=-1),
        identifications=scratch.records(
            "identifications", kr.IdentificationPacket, identifications
        ),
        signals=scratch.records("signals", kr.RecoverySignal, signals),
        path=scratch.words("path", np.int32, signals * MAX_CYCLE).reshape(-1, MAX_CYCLE),
        release=np.zeros(max(layout.queues * slots, 1), dtype=np.int64),
        down=np.zeros(max(model.cables, 1), dtype=np.uint8),
        free=scratch.words("free", np.int32, packets),
        notices=np.full(notices, NONE, dtype=np.int32),
        notified_host=np.zeros(notified_shape, dtype=np.uint8),
        log=np.zeros((log_rows, 4), dtype=np.int64),
        trace=np.zeros((max(inputs.recording.grants, 1), 3), dtype=np.int64),
    )


def _buckets(inputs: EngineInputs) -> int:
    """Return the number of the wheel's buckets: a power of two, some four to eight per channel."""
    bits = (inputs.model.layout.channels * 4).bit_length()
    return 1 << min(max(bits, 10), 16)


def _wheel_shift(inputs: EngineInputs, buckets: int) -> int:
    """Return the binary logarithm of a bucket's ticks.

    The wheel then reaches as far as most events: the longest transmission, or NAC's retry time.
    """
    reach = int(np.max(inputs.transmission.ticks, initial=1))
    if inputs.options.nac.enabled:
        reach = max(reach, inputs.options.nac.retry)
    return max((2 * reach // buckets).bit_length() - 1, 0)


def _same_types(messages: Messages) -> Messages:
    """Return the messages as writable, contiguous arrays.

    For other arrays numba would compile the steps again.
    """
    return Messages(*(np.require(column, requirements=["C", "A", "W"]) for column in messages))


def _channels(model: NetworkModel, transmission: Transmission) -> Records[kr.Channel]:
    """Return the channels: those of the links, then those into output buffers."""
    layout = model.layout
    table = model.channels
    into_buffers = layout.channels - layout.links
    start = model.links.start
    return records(
        kr.Channel,
        layout.channels,
        woken=-1,
        last=-1,
        first_asker=NONE,
        delay=table.delay,
        ranks=table.ranks,
        router=np.concatenate([start, start[:into_buffers]]),
        cable=np.concatenate([model.links.cable, np.full(into_buffers, NONE)]),
        stores=table.stores,
        rate=transmission.rate * transmission.ticks.shape[1],
    )


def _queues(model: NetworkModel) -> Records[kr.Queue]:
    """Return the queues.

    Raises:
        InputError: A router has more queues than a rank has room for.
    """
    table = model.queues
    layout = model.layout
    if int(np.max(table.rank, initial=0)) > kr.MAX_RANK:
        raise InputError(
            f"{model.network.name}: a switch with more than {kr.MAX_RANK} buffers; "
            "take a smaller one"
        )
    queue = np.arange(layout.queues)
    # The reader of a buffer has all its lanes, and the reader of a host has both its queues.
    index_in_buffer = queue % layout.lanes
    index_in_host = (queue - layout.source_queue) % 2
    index = np.where(queue < layout.source_queue, index_in_buffer, index_in_host)
    return records(
        kr.Queue,
        layout.queues,
        head=NONE,
        tail=NONE,
        want=NONE,
        next_asker=NONE,
        lane_requested=NONE,
        slots=table.slots,
        returning_at=queue,
        reader=np.where(queue < layout.notice_queue, queue - index, queue),
        router=table.router,
        rank=table.rank,
    )
