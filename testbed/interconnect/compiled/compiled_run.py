"""A run of the compiled engine: builds the tables, runs the loop, and reads the result.

A long run is divided into segments, because an event's key has room for 21.9 s of ticks. Time is
counted from the end of each segment again: between two segments every stored tick is reduced by the
length of a segment. The steps of the loop do not notice.
"""

from collections.abc import Callable, Iterator

import numpy as np

from testbed.arrays import IntArray
from testbed.interconnect.compiled import kernel_records as kr
from testbed.interconnect.compiled.kernel_loop import run_events
from testbed.interconnect.compiled.kernel_state import (
    Hook,
    Scratch,
    State,
    Tables,
    build_state,
    build_tables,
)
from testbed.interconnect.engine_inputs import CableEvents, EngineInputs
from testbed.interconnect.ft_drb.source_state import FtDrb, SourceState, count_events, max_entries
from testbed.interconnect.ft_drb.source_state import build_state as build_sources
from testbed.interconnect.results import BlockedPackets, EngineResult
from testbed.interconnect.static_paths import NONE
from testbed.jit import compiled_entry

# The loop allocates nothing, so arrays need no reference counts (``_nrt``), which would take most
# of the time. It never divides by zero (``error_model``). It releases the interpreter's lock, so
# that a command can show its progress meanwhile.
LOOP = compiled_entry(run_events, _nrt=False, error_model="numpy", nogil=True)

# Largest pool of ACKs.
MAX_POOL = 1 << 22

# Largest heap of events.
_MAX_HEAP = 8 * MAX_POOL

# If the pool or the heap was too small, it becomes larger by this factor.
_GROWTH = 4

_FIRST_POOL = 1 << 12
_FIRST_HEAP = 1 << 14

# Tables of finished runs, for the next runs. A current run has removed its own.
_SCRATCHES: list[Scratch] = []

REASONS = {
    kr.FINISHED: "finished",
    kr.NO_PROGRESS: "no-progress",
    kr.OUT_OF_TIME: "out-of-time",
    kr.POOL_FULL: "too many ACKs",
    kr.RING_FULL: "too many identification packets or notices",
}

# Length of a segment in ticks: 5.5 s. Events that are due after its end (timers take 10 s at most)
# have room in a key, too.
STRETCH = 1 << 39

# Number of bits of the digest of grants. If the length of a segment is a multiple of 2^31, the
# digest does not depend on the division into segments.
DIGEST_BITS = 31

# The last tick that a key has room for.
LAST = (1 << (63 - kr.KEY_SHIFT)) - 1

# Figures of a run that the result has under the same names.
_COUNTS = ("deliveries", "packet_hops", "digest", "livelocked", "acks")

# Ticks of the history: NAC's timeline and the trace of grants, with their numbers of rows.
_TIMELINES = (("log", "logged"), ("trace", "traced"))


def run_compiled(inputs: EngineInputs) -> EngineResult:
    """Run the engine and return the result.

    If the pool of ACKs or the heap of events is too small, it is enlarged and the run begins again.
    """
    tables = build_tables(inputs.model)
    scratch = _SCRATCHES.pop() if _SCRATCHES else Scratch()
    pool = 0 if inputs.drb is None else _FIRST_POOL
    heap = _FIRST_HEAP
    while True:
        state = build_state(inputs, ack_pool=pool, heap=heap, scratch=scratch)
        hook = None
        if inputs.drb is not None:
            sources = build_sources(inputs.model.paths, inputs.drb)
            hook = FtDrb(inputs.model.paths, sources, inputs.drb)
        run_in_segments(LOOP, tables, inputs, state, hook)
        status = int(state.run["status"][0])
        if status == kr.POOL_FULL and pool < MAX_POOL:
            pool *= _GROWTH
        elif status == kr.HEAP_FULL and heap < _MAX_HEAP:
            heap *= _GROWTH
        else:
            break
    result = read_outcome(inputs, state, None if hook is None else hook.state)
    _SCRATCHES.append(scratch)
    return result


def read_outcome(inputs: EngineInputs, state: State, sources: SourceState | None) -> EngineResult:
    """Return the result from the tables at the end of a run.

    Args:
        inputs: The inputs of the run.
        state: Its tables.
        sources: The state of FT-DRB's sources, if it was used.
    """
    run = {name: int(state.run[name][0]) for name in kr.Run.__annotations__}
    # Delivered messages have written their hops and escapes. The others are still packets.
    packets = _messages_in_network(state)
    numbers = state.packets["number"][packets]
    state.hops[numbers] = state.packets["hops"][packets]
    state.escapes[numbers] = state.packets["escapes"][packets]
    nac_counters: dict[str, int] = {}
    nac_timeline: IntArray = np.zeros((0, 4), np.int64)
    if inputs.options.nac.enabled:
        nac_counters = dict(zip(kr.NAC_COUNTERS, state.counters.tolist(), strict=True))
        nac_timeline = np.asarray(state.log[: run["logged"]])
    recovered = 0
    if inputs.options.timeout:
        recovered = int(state.counters[kr.MOVED])
    return EngineResult(
        entered=state.entered,
        delivered=state.delivered,
        hops=state.hops,
        **{name: run[name] for name in _COUNTS},
        made=run["next_message"],
        held=numbers,
        stopped=REASONS.get(run["status"], "out of memory for events"),
        stopped_tick=run["now"],
        stuck=_stuck(inputs, state),
        carried=np.asarray(state.channels["carried"][: inputs.model.layout.links]),
        nac_counters=nac_counters,
        nac_timeline=nac_timeline,
        recovered=recovered,
        drb_counters={} if sources is None else dict(count_events(sources)),
        max_entries={} if sources is None else max_entries(sources),
        trace=np.asarray(state.trace[: run["traced"]]),
        escapes=state.escapes,
        diverted=state.diverted.astype(bool),
    )


def _messages_in_network(state: State) -> IntArray:
    """Return the packets of messages in all queues, from the heads to the tails."""
    messages = []
    for queue in np.nonzero(state.queues["occupied"] > 0)[0].tolist():
        packet = int(state.queues["head"][queue])
        for _ in range(int(state.queues["occupied"][queue])):
            if state.packets["kind"][packet] == kr.DATA:
                messages.append(packet)
            packet = int(state.packets["next"][packet])
    return np.array(messages, dtype=np.int64)


def _stuck(inputs: EngineInputs, state: State) -> BlockedPackets:
    """Return the packets in buffers and at sources at the end, and who waits for whom."""
    layout = inputs.model.layout
    queues = state.queues
    in_network = np.ones(layout.queues, dtype=bool)
    in_network[layout.source_queue : layout.notice_queue] = False
    occupied = np.where(in_network, queues["occupied"], 0)
    waiting = np.nonzero((occupied > 0) & (queues["want"] >= 0))[0]
    since = NONE
    if len(waiting):
        since = int(queues["since"][waiting].min())
    buffers = waiting[waiting < layout.source_queue]
    # A channel into an output buffer is represented by the link behind it.
    links = np.stack([buffers // layout.lanes, queues["want"][buffers]], axis=1) % layout.links
    waits = sorted({(int(a), int(b)) for a, b in links if a != b})
    at_sources = int(queues["occupied"][~in_network].sum())
    return BlockedPackets(
        packets=int(occupied.sum()), at_sources=at_sources, since_tick=since, waits=tuple(waits)
    )


def run_in_segments(
    loop: Callable[..., None], tables: Tables, inputs: EngineInputs, state: State, hook: Hook
) -> None:
    """Run to the end, as one call of the loop would if its keys had room.

    Afterwards the ticks of the state are counted from the beginning of the run.

    Args:
        loop: ``run_events``, compiled or in Python.
        tables: Tables of the network.
        inputs: Inputs of the run.
        state: Tables of the run.
        hook: FT-DRB, or None.
    """
    born = inputs.messages.born
    # Whole turns of the wheel, so that events stay in their buckets.
    turn = len(state.wheel) << int(state.run["wheel_shift"][0])
    length = max(STRETCH, 1 << DIGEST_BITS, turn)
    if inputs.options.end < 2 * length:
        all_cables = _cables_of_segment(inputs.cables, 0, 0, LAST)
        loop(tables, inputs.options, state, hook, born, all_cables)
        return
    history = _History(state)
    born_in_segment = np.zeros_like(born)
    for begin, end, is_last in _segments(length, inputs.options.end):
        options = inputs.options._replace(end=end - begin)
        first = int(state.run["next_message"][0])
        behind = int(np.searchsorted(born, end, side="right"))
        born_in_segment[first:behind] = born[first:behind] - begin
        # The next message is generated in a later segment.
        born_in_segment[behind : behind + 1] = end - begin + 1
        state.run["status"][:] = kr.RUNNING
        cables = _cables_of_segment(inputs.cables, begin, end, LAST if is_last else 0)
        loop(tables, options, state, hook, born_in_segment, cables)
        history.note(begin)
        status = state.run["status"][0]
        has_failed = status not in (kr.FINISHED, kr.OUT_OF_TIME)
        is_finished = status == kr.FINISHED and not np.any(inputs.cables.tick > end)
        if is_last or is_finished or has_failed:
            _shift_times(state, hook, -begin)
            history.write_back()
            return
        state.run["now"][:] = end - begin
        history.shift_times(length)
        _shift_times(state, hook, length)
        _shift_events(state, length)


def _segments(length: int, end: int) -> Iterator[tuple[int, int, bool]]:
    """Yield the first tick of each segment, its last tick, and whether it is the last segment."""
    for begin in range(0, end + 1, length):
        is_last = begin + length > end
        yield begin, end if is_last else begin + length - 1, is_last


def _cables_of_segment(cables: CableEvents, begin: int, end: int, latest: int) -> CableEvents:
    """Return the cable events of a segment, with ticks since its beginning.

    Args:
        cables: All cable events.
        begin: First tick of the segment.
        end: Its last tick.
        latest: 0 for the events of the segment alone. Otherwise later events are included, at this
            tick at the latest.
    """
    included = cables.tick >= begin
    if not latest:
        included &= cables.tick <= end
    return cables._replace(
        tick=np.minimum(cables.tick[included] - begin, latest or end),
        cable=cables.cable[included],
        down=cables.down[included],
    )


class _History:
    """The ticks that a run has written permanently, counted from its beginning.

    Attributes:
        state: Tables of the run.
        first: All messages before this number have been delivered.
        entered: Tick at which each message left its source; -1: not yet.
        delivered: Tick at which each message arrived; -1: not yet.
        rows: Number of rows of each timeline whose ticks count from the beginning.
    """

    def __init__(self, state: State) -> None:
        self.state = state
        self.first = 0
        self.entered = state.entered.copy()
        self.delivered = state.delivered.copy()
        self.rows = {"log": 0, "trace": 0}

    def note(self, begin: int) -> None:
        """Add the ticks that the segment has written which began at the tick ``begin``.

        Ticks of messages from former segments have become negative.
        """
        generated = slice(self.first, int(self.state.run["next_message"][0]))
        for times, written in (
            (self.entered[generated], self.state.entered[generated]),
            (self.delivered[generated], self.state.delivered[generated]),
        ):
            new = written >= 0
            times[new] = written[new] + begin
        undelivered = (self.entered[generated] < 0) | (self.delivered[generated] < 0)
        in_transit = np.nonzero(undelivered)[0]
        if len(in_transit):
            self.first = generated.start + int(in_transit[0])
        else:
            self.first = generated.stop
        for name, count in _TIMELINES:
            rows = int(self.state.run[count][0])
            getattr(self.state, name)[self.rows[name] : rows, 0] += begin
            self.rows[name] = rows

    def shift_times(self, length: int) -> None:
        """Reduce the ticks of messages in transit by the length of a segment."""
        generated = slice(self.first, int(self.state.run["next_message"][0]))
        for times in (self.state.entered[generated], self.state.delivered[generated]):
            np.subtract(times, length, out=times)

    def write_back(self) -> None:
        """Copy the ticks to the state."""
        self.state.entered[:] = self.entered
        self.state.delivered[:] = self.delivered


def _shift_times(state: State, hook: Hook | None, length: int) -> None:
    """Reduce all ticks of the state, except for those of its events, by this number."""
    for name in ("now", "last_move"):
        state.run[name] -= length
    state.packets["tail"][: int(state.run["used_packets"][0])] -= length
    for times in (
        state.queues["since"],
        state.queues["read_until"],
        state.channels["busy"],
        state.channels["woken"],
        state.links["changed_at"],
        state.turns["open_at"],
        state.turns["ready"],
    ):
        np.subtract(times, length, out=times)
    state.release[state.release != kr.NEVER] -= length
    sent = min(int(state.run["identifications"][0]), kr.IDENTIFICATIONS)
    state.identifications["tick"][:sent] -= length
    if hook is not None:
        hook.state.notified_at[...] -= length
        hook.state.probed_at[...] -= length


def _shift_events(state: State, length: int) -> None:
    """Reduce the ticks of the events by this number; none of them has happened."""
    run = state.run
    keys = length << kr.KEY_SHIFT
    state.heap[: int(run["heap_size"][0])] -= keys
    state.soon[state.soon != kr.NO_EVENT] -= keys
    state.nodes["key"][: int(run["used_nodes"][0])] -= keys
    run["bucket"] -= length >> int(run["wheel_shift"][0])
