"""One run of the compiled engine: its tables made, its loop run (with larger ones where they were full), its result
read off."""

from __future__ import annotations

import numpy as np

from testbed.arrays import IntArray
from testbed.interconnect.compiled.kernel_loop import run_events
from testbed.interconnect.compiled.kernel_records import (
    DATA,
    FINISHED,
    HEAP_FULL,
    NO_PROGRESS,
    OUT_OF_TIME,
    POOL_FULL,
    RING_FULL,
    NacCounters,
    Run,
)
from testbed.interconnect.compiled.kernel_state import FtDrbHook, Scratch, State, build_state, build_tables
from testbed.interconnect.compiled.time_segments import run_in_segments
from testbed.interconnect.engine_inputs import EngineInputs
from testbed.interconnect.ft_drb.source_state import SourceState, count_events, most_entries
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
    FINISHED: "finished", NO_PROGRESS: "no-progress", OUT_OF_TIME: "out-of-time", POOL_FULL: "too many ACKs",
    RING_FULL: "too many identification packets or notices",
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
            hook = FtDrbHook(inputs.model.paths, build_sources(inputs.model.paths, inputs.drb), inputs.drb)
        run_in_segments(LOOP, tables, inputs, state, hook)
        status = int(state.run["status"][0])
        if status == POOL_FULL and pool < MAX_POOL:
            pool *= 4
        elif status == HEAP_FULL and heap < MAX_POOL * 8:
            heap *= 4
        else:
            outcome = read_outcome(inputs, state, None if hook is None else hook.state)
            _SCRATCHES.append(scratch)
            return outcome


def read_outcome(inputs: EngineInputs, state: State, sources: SourceState | None) -> EngineResult:
    """What the tables say at the end of a run."""
    run = {name: int(state.run[name][0]) for name in Run.__annotations__}
    counted = {name: run[name] for name in ("deliveries", "packet_hops", "digest", "livelocked", "acks")}
    nac = inputs.options.nac.enabled
    occupied = _messages_in_network(state)
    numbers = state.packets["number"][occupied]
    state.hops[numbers], state.escapes[numbers] = state.packets["hops"][occupied], state.packets["escapes"][occupied]
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
        nac_counters={name: int(state.counters[name][0]) for name in NacCounters.__annotations__} if nac else {},
        nac_timeline=np.asarray(state.log[: run["logged"]]) if nac else np.zeros((0, 4), np.int64),
        recovered=int(state.counters["moved"][0]) if inputs.options.timeout else 0,
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
            if state.packets["kind"][packet] == DATA:
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
    return BlockedPackets(packets=int(occupied.sum()), at_sources=at_sources, since_tick=since, waits=tuple(waits))
