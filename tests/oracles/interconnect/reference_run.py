"""One run of the reference engine: its parts put together, its result read off."""

from __future__ import annotations

import numpy as np

from testbed.interconnect.engine_inputs import EngineInputs
from testbed.interconnect.results import BlockedPackets, EngineResult
from testbed.interconnect.static_paths import NONE
from tests.oracles.interconnect.ft_drb_routing import FtDrbRouting
from tests.oracles.interconnect.nac import Nac
from tests.oracles.interconnect.reference_engine import ReferenceEngine
from tests.oracles.interconnect.relation_routing import Bubble, Disha, RelationRouting


def run_reference(inputs: EngineInputs) -> EngineResult:
    """The run's outcome, as the compiled engine must give it too."""
    engine = ReferenceEngine(inputs)
    nac = Nac(engine, inputs.recording.nac_events) if inputs.options.nac.enabled else None
    drb = FtDrbRouting(engine, inputs.drb) if inputs.drb is not None else None
    disha = Disha(engine, inputs.options.timeout) if inputs.options.timeout else None
    bubble = Bubble(engine) if inputs.options.bubble else None
    relation = RelationRouting(engine) if inputs.model.relation.all_lanes else None
    engine.avoidance = nac or disha or bubble or engine.avoidance
    engine.routing = drb or relation or engine.routing
    engine.run()
    messages = engine.messages
    return EngineResult(
        entered=np.array([m.entered for m in messages], dtype=np.int64),
        delivered=np.array([m.delivered for m in messages], dtype=np.int64),
        hops=np.array([m.hops for m in messages], dtype=np.int32),
        deliveries=engine.deliveries,
        made=engine.next_message,
        held=np.array(_held_messages(engine), dtype=np.int64),
        stopped=engine.stopped,
        stopped_tick=engine.now,
        packet_hops=engine.packet_hops,
        digest=engine.digest,
        livelocked=engine.livelocked,
        acks=engine.routing.acks,
        stuck=_stuck(engine),
        carried=np.array(
            [c.carried for c in engine.channels[: engine.layout.links]], dtype=np.int64
        ),
        nac_counters={} if nac is None else nac.counters,
        nac_timeline=np.array([] if nac is None else nac.timeline, dtype=np.int64).reshape(-1, 4),
        recovered=0 if disha is None else disha.recovered,
        drb_counters={} if drb is None else dict(drb.counters),
        escapes=np.array([m.escapes for m in messages], dtype=np.int32),
        diverted=np.array([m.sent_by != (NONE, NONE) for m in messages], dtype=bool),
        trace=np.array(engine.trace[: inputs.recording.grants], dtype=np.int64).reshape(-1, 3),
    )


def _held_messages(engine: ReferenceEngine) -> list[int]:
    """Numbers of the messages in buffers and on their way to one."""
    return [p.number for b in engine.buffers for p in (*b.here, *b.coming) if p.is_data]


def _stuck(engine: ReferenceEngine) -> BlockedPackets:
    """What lies in buffers of the network at the end, and since when its first head waits."""
    layout = engine.layout
    at_hosts = [b.held for b in engine.buffers[layout.source_queue : layout.notice_queue]]
    held = [
        b
        for b in engine.buffers
        if b.held and not layout.source_queue <= b.number < layout.notice_queue
    ]
    asking = [b.since for b in held if b.wants != NONE]
    buffers = [b for b in held if b.wants != NONE and b.number < layout.source_queue]
    waits = {(b.number // layout.lanes % layout.links, b.wants % layout.links) for b in buffers}
    return BlockedPackets(
        packets=sum(b.held for b in held),
        at_sources=sum(at_hosts),
        since_tick=min(asking, default=-1),
        waits=tuple(sorted(wait for wait in waits if wait[0] != wait[1])),
    )
