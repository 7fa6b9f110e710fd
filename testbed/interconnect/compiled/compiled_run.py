"""One run of the compiled engine: its tables made, its loop run (with larger ones where they were full), its result
read off.

A long run goes in stretches: an event's key has room for 21.9 s of ticks, so time is counted again from the end of each
stretch. Between two stretches every tick that is kept is put back by the length of one. No step of the loop is told of
it.
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
from testbed.interconnect.ft_drb.source_state import FtDrb, SourceState, count_events, most_entries
from testbed.interconnect.ft_drb.source_state import build_state as build_sources
from testbed.interconnect.results import BlockedPackets, EngineResult
from testbed.jit import compiled_entry

LOOP = compiled_entry(run_events, _nrt=False, error_model="numpy", nogil=True)
"""Nothing is allocated, so arrays need no counting of references (``_nrt``; it would cost most of the time); nothing
divides by zero. It leaves the interpreter to others: a command's sign of life is drawn meanwhile."""
MAX_POOL = 1 << 22
_SCRATCHES: list[Scratch] = []
"""Of runs that have ended, for the next; a run that is going on has taken its own out."""
REASONS = {
    kr.FINISHED: "finished", kr.NO_PROGRESS: "no-progress", kr.OUT_OF_TIME: "out-of-time",
    kr.POOL_FULL: "too many ACKs", kr.RING_FULL: "too many identification packets or notices",
}  # fmt: skip


def run_compiled(inputs: EngineInputs) -> EngineResult:
    """The run's outcome. The pool of ACKs and the heap of events grow fourfold, and the run begins again, until they
    suffice."""
    tables = build_tables(inputs.model)
    scratch = _SCRATCHES.pop() if _SCRATCHES else Scratch()
    pool, heap = (0 if inputs.drb is None else 4096), 1 << 14
    while True:
        state = build_state(inputs, ack_pool=pool, heap=heap, scratch=scratch)
        hook = None
        if inputs.drb is not None:
            hook = FtDrb(
                inputs.model.paths, build_sources(inputs.model.paths, inputs.drb), inputs.drb
            )
        run_in_segments(LOOP, tables, inputs, state, hook)
        status = int(state.run["status"][0])
        if status == kr.POOL_FULL and pool < MAX_POOL:
            pool *= 4
        elif status == kr.HEAP_FULL and heap < MAX_POOL * 8:
            heap *= 4
        else:
            outcome = read_outcome(inputs, state, None if hook is None else hook.state)
            _SCRATCHES.append(scratch)
            return outcome


def read_outcome(inputs: EngineInputs, state: State, sources: SourceState | None) -> EngineResult:
    """What the tables say at the end of a run."""
    run = {name: int(state.run[name][0]) for name in kr.Run.__annotations__}
    counted = {
        name: run[name] for name in ("deliveries", "packet_hops", "digest", "livelocked", "acks")
    }
    nac = inputs.options.nac.enabled
    occupied = _messages_in_network(state)
    numbers = state.packets["number"][occupied]
    state.hops[numbers], state.escapes[numbers] = (
        state.packets["hops"][occupied],
        state.packets["escapes"][occupied],
    )
    return EngineResult(
        entered=state.entered,
        delivered=state.delivered,
        hops=state.hops,
        **counted,
        made=run["next_message"],
        held=numbers,
        stopped=REASONS.get(run["status"], "out of memory for events"),
        stopped_tick=run["now"],
        stuck=_stuck(inputs, state),
        carried=np.asarray(state.channels["carried"][: inputs.model.layout.links]),
        nac_counters=dict(zip(kr.NAC_COUNTERS, state.counters.tolist(), strict=True))
        if nac
        else {},
        nac_timeline=np.asarray(state.log[: run["logged"]]) if nac else np.zeros((0, 4), np.int64),
        recovered=int(state.counters[kr.MOVED]) if inputs.options.timeout else 0,
        drb_counters={} if sources is None else dict(count_events(sources)),
        most_entries={} if sources is None else most_entries(sources),
        trace=np.asarray(state.trace[: run["traced"]]),
        escapes=state.escapes,
        diverted=state.diverted.astype(bool),
    )


def _messages_in_network(state: State) -> IntArray:
    """Packets of the messages in all queues, found by walking the queues from head to tail."""
    found = []
    for queue in np.nonzero(state.queues["occupied"] > 0)[0].tolist():
        packet = int(state.queues["head"][queue])
        for _ in range(int(state.queues["occupied"][queue])):
            if state.packets["kind"][packet] == kr.DATA:
                found.append(packet)
            packet = int(state.packets["next"][packet])
    return np.array(found, dtype=np.int64)


def _stuck(inputs: EngineInputs, state: State) -> BlockedPackets:
    """What is in buffers of the network at the end, and since when its first head waits."""
    layout, queues = inputs.model.layout, state.queues
    inside = np.ones(layout.queues, dtype=bool)
    inside[layout.source_queue : layout.notice_queue] = False
    occupied = np.where(inside, queues["occupied"], 0)
    waiting = np.nonzero((occupied > 0) & (queues["want"] >= 0))[0]
    since = int(queues["since"][waiting].min()) if len(waiting) else -1
    buffers = waiting[waiting < layout.source_queue]
    links = np.stack([buffers // layout.lanes, queues["want"][buffers]], axis=1) % layout.links
    waits = sorted({(int(a), int(b)) for a, b in links if a != b})
    at_sources = int(queues["occupied"][~inside].sum())
    return BlockedPackets(
        packets=int(occupied.sum()), at_sources=at_sources, since_tick=since, waits=tuple(waits)
    )


STRETCH = 1 << 39
"""Ticks: 5.5 s. What is due later than its end (timers of 10 s at most) has room in a key, too."""
DIGEST_BITS = 31
"""The digest of grants keeps so many bits: with stretches of a multiple of two to that it is that of a run in one
piece."""
LAST = (1 << (63 - kr.KEY_SHIFT)) - 1
"""The last tick that a key has room for."""


def run_in_segments(
    loop: Callable[..., None], tables: Tables, inputs: EngineInputs, state: State, hook: Hook
) -> None:
    """Run to the end, as one call of the loop would if its keys had room; ``state`` then tells all times since the
    run's beginning."""
    # whole turns of the wheel, so that events stay in their buckets
    length = max(STRETCH, 1 << DIGEST_BITS, len(state.wheel) << int(state.run["wheel_shift"][0]))
    if inputs.options.end < 2 * length:
        loop(
            tables,
            inputs.options,
            state,
            hook,
            inputs.messages.born,
            _part_of(inputs.cables, 0, 0, LAST),
        )
        return
    retained, born = _History(state), np.zeros_like(inputs.messages.born)
    for begin, end, last in _stretches(length, inputs.options.end):
        options = inputs.options._replace(end=end - begin)
        first, behind = (
            int(state.run["next_message"][0]),
            int(np.searchsorted(inputs.messages.born, end, side="right")),
        )
        born[first:behind] = inputs.messages.born[first:behind] - begin
        born[behind : behind + 1] = end - begin + 1  # the next is made in a later stretch
        state.run["status"][:] = kr.RUNNING
        loop(
            tables,
            options,
            state,
            hook,
            born,
            _part_of(inputs.cables, begin, end, LAST if last else 0),
        )
        retained.note(begin)
        done = state.run["status"][0] == kr.FINISHED and not np.any(inputs.cables.tick > end)
        if done or last or state.run["status"][0] not in (kr.FINISHED, kr.OUT_OF_TIME):
            _put_back(state, hook, -begin)
            retained.write_back()
            return
        state.run["now"][:] = end - begin
        retained.shift_times(length)
        _put_back(state, hook, length)
        _put_back_events(state, length)


def _stretches(length: int, end: int) -> Iterator[tuple[int, int, bool]]:
    """(the first tick, the last, whether it is the last stretch)."""
    for begin in range(0, end + 1, length):
        last = begin + length > end
        yield begin, end if last else begin + length - 1, last


def _part_of(cables: CableEvents, begin: int, end: int, upto: int) -> CableEvents:
    """The cable events of a stretch, their ticks since its beginning; those after its end too, at ``upto`` at the
    latest (0: none)."""
    some = cables.tick >= begin
    if not upto:
        some &= cables.tick <= end
    return cables._replace(
        tick=np.minimum(cables.tick[some] - begin, upto or end),
        cable=cables.cable[some],
        down=cables.down[some],
    )


class _History:
    """Ticks that the run has written for good, since its beginning. Of messages, those before ``first`` have both of
    theirs."""

    def __init__(self, state: State) -> None:
        self.state, self.first = state, 0
        self.entered, self.delivered = state.entered.copy(), state.delivered.copy()
        self.rows = {"log": 0, "trace": 0}

    def note(self, begin: int) -> None:
        """What the stretch that began then has written: messages' ticks of former stretches are below 0 by now."""
        made = slice(self.first, int(self.state.run["next_message"][0]))
        for times, written in (
            (self.entered[made], self.state.entered[made]),
            (self.delivered[made], self.state.delivered[made]),
        ):
            new = written >= 0
            times[new] = written[new] + begin
        under_way = np.nonzero((self.entered[made] < 0) | (self.delivered[made] < 0))[0]
        self.first = made.start + int(under_way[0]) if len(under_way) else made.stop
        for name, count in (("log", "logged"), ("trace", "traced")):
            upto = int(self.state.run[count][0])
            getattr(self.state, name)[self.rows[name] : upto, 0] += begin
            self.rows[name] = upto

    def shift_times(self, length: int) -> None:
        """Messages under way entered, and were delivered, so much earlier."""
        made = slice(self.first, int(self.state.run["next_message"][0]))
        for times in (self.state.entered[made], self.state.delivered[made]):
            times -= length

    def write_back(self) -> None:
        """Let the state have it."""
        self.state.entered[:], self.state.delivered[:] = self.entered, self.delivered


def _put_back(state: State, hook: Hook | None, length: int) -> None:
    """Count all ticks of the state but those of its events from so many later on."""
    for name in ("now", "last_move"):
        state.run[name] -= length
    state.packets["tail"][: int(state.run["used_packets"][0])] -= length
    for times in (
        *(state.queues["since"], state.queues["read_until"]),
        *(state.channels["busy"], state.channels["woken"], state.links["changed_at"]),
        *(state.turns["open_at"], state.turns["ready"]),
    ):
        times -= length
    state.release[state.release != kr.NEVER] -= length
    sent = min(int(state.run["identifications"][0]), kr.IDENTIFICATIONS)
    state.identifications["tick"][:sent] -= length
    if hook is not None:
        hook.state.notified_at[...] -= length
        hook.state.probed_at[...] -= length


def _put_back_events(state: State, length: int) -> None:
    """The same for the events to come, none of which is of a tick that is over."""
    keys, run = length << kr.KEY_SHIFT, state.run
    state.heap[: int(run["heap_size"][0])] -= keys
    state.soon[state.soon != kr.NO_EVENT] -= keys
    state.nodes["key"][: int(run["used_nodes"][0])] -= keys
    run["bucket"] -= length >> int(run["wheel_shift"][0])
