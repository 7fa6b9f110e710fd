"""One run of the interconnect simulator: network, messages, parameters and faults in; what became of every message out.

``simulate`` is the way in for commands and experiments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from testbed.errors import InputError
from testbed.faults.cable_faults import check_faults
from testbed.faults.fault import Fault
from testbed.interconnect.compiled.kernel_loop import Plan
from testbed.interconnect.compiled.kernel_state import (
    ACKS,
    DIGEST,
    EVENTS,
    FINISHED,
    HEAP_FULL,
    HOPS,
    LAST,
    LIVELOCKS,
    LOGGED,
    NAC_COUNTERS,
    NO_PROGRESS,
    NOW,
    OUT_OF_TIME,
    POOL_FULL,
    STATUS,
    TRACED,
    Options,
    State,
    build_fixed,
    build_state,
)
from testbed.interconnect.ft_drb.ft_drb import build_state as build_drb_state
from testbed.interconnect.ft_drb.ft_drb import count_events
from testbed.interconnect.injection import Injections
from testbed.interconnect.network_model import NONE, NetworkModel, build_model, zero_load_ticks
from testbed.interconnect.parameters import (
    ENGINES,
    MAX_S,
    PS_PER_TICK,
    TICKS_PER_S,
    SimulationParameters,
    ticks,
)
from testbed.interconnect.results import Simulation, Stuck
from topologies import Network

MAX_POOL = 1 << 22


def simulate(
    network: Network | NetworkModel,
    injections: Injections,
    parameters: SimulationParameters,
    faults: Sequence[Fault] = (),
    *,
    engine: str = "compiled",
    sizes_bytes: Sequence[int] | None = None,
    keep_trace: int = 0,
    keep_timeline: int = 100_000,
) -> Simulation:
    """Run until every message is delivered, nothing moves any more, or ``drain_s`` after the last message.

    ``engine``: "compiled" (numba) or "reference" (Python); both give the same history. ``sizes_bytes``: of each message
    (default: ``packet_bytes``; never more). ``keep_trace``: so many first grants (ticks, channel, packet) are kept;
    ``keep_timeline``: so many of NAC's events. A ``NetworkModel`` made before spares its making.
    Raises InputError for an unknown engine, messages of unknown hosts or too late, and what ``build_model`` refuses.
    """
    if engine not in ENGINES:
        raise InputError(f"engine {engine!r}; give {' or '.join(ENGINES)}")
    model = network if isinstance(network, NetworkModel) else build_model(network, parameters)
    _check_messages(model, injections, parameters, sizes_bytes)
    options = _options(model, parameters, injections)
    plan = build_plan(model, injections, check_faults(model.network, faults))
    if engine == "reference":
        return _simulate_reference(model, options, plan, injections, parameters, sizes_bytes, keep_trace, keep_timeline)
    pool, heap = (4096 if options.drb else 0), 1 << 14
    while True:
        state, drb = _build(model, options, injections, parameters, sizes_bytes, pool, heap, keep_trace, keep_timeline)
        hook = None if drb is None else (model.paths, drb, _settings(model, parameters))
        _run(model, options, state, hook, plan)
        status = int(state.clock[STATUS])
        if status == POOL_FULL and pool < MAX_POOL:
            pool *= 4
        elif status == HEAP_FULL and heap < MAX_POOL * 8:
            heap *= 4
        else:
            return _result(model, parameters, injections, state, drb)


def _simulate_reference(
    model: NetworkModel, options: Options, plan: Plan, injections: Injections, parameters: SimulationParameters,
    sizes_bytes: Sequence[int] | None, keep_trace: int, keep_timeline: int,
) -> Simulation:  # fmt: skip
    from testbed.interconnect.reference.reference_engine import run_reference
    from testbed.interconnect.reference.reference_parts import Packet

    count = len(injections)
    each = zip(
        injections.source.tolist(), injections.destination.tolist(), message_ticks(parameters, count, sizes_bytes).tolist(),
        plan.born.tolist(), variants_of(model, parameters, count).tolist(), strict=True,
    )  # fmt: skip
    messages = [Packet(i, a, b, size, born, variant=v) for i, (a, b, size, born, v) in enumerate(each)]
    drb = build_drb_state(model.paths, parameters.ft_drb) if options.drb else None
    hook = None if drb is None else (model.paths, drb, _settings(model, parameters))
    engine = run_reference(model, options, plan, messages, hook, keep_timeline)
    held = [b for b in engine.buffers if b.held and not model.ports.source_queue <= b.number < model.ports.notice_queue]
    asking = [b.since for b in held if b.wants != NONE]
    nac = engine.nac
    return Simulation(
        network_name=model.network.name,
        model=parameters.model,
        born=plan.born,
        entered=np.array([m.entered for m in messages], dtype=np.int64),
        delivered=np.array([m.delivered for m in messages], dtype=np.int64),
        hops=np.array([m.hops for m in messages], dtype=np.int32),
        source=np.asarray(injections.source),
        destination=np.asarray(injections.destination),
        stopped=engine.stopped,
        stopped_tick=engine.now,
        last_move_tick=engine.last_move,
        packet_hops=engine.packet_hops,
        digest=engine.digest,
        events=engine.handled,
        livelocked=engine.livelocked,
        acks=0 if engine.drb is None else engine.drb.acks,
        stuck=Stuck(
            packets=sum(b.held for b in held),
            at_sources=sum(b.held for b in engine.buffers) - sum(b.held for b in held),
            since_tick=min(asking, default=-1),
        ),
        carried=np.array([c.carried for c in engine.channels[: model.ports.links]], dtype=np.int64),
        nac_counters={} if nac is None else nac.counters,
        nac_timeline=np.array([] if nac is None else nac.timeline, dtype=np.int64).reshape(-1, 4),
        drb_counters={} if drb is None else dict(count_events(drb)),
        trace=np.array(engine.trace[:keep_trace], dtype=np.int64).reshape(-1, 3),
        ticks_per_s=TICKS_PER_S,
    )


def _run(model: NetworkModel, options: Options, state: State, hook: Any, plan: Plan) -> None:
    from testbed.interconnect.compiled.compiled_kernel import run_compiled

    run_compiled(build_fixed(model.ports), options, state, hook, plan)


def _check_messages(
    model: NetworkModel, injections: Injections, parameters: SimulationParameters, sizes_bytes: Sequence[int] | None
) -> None:
    hosts = model.ports.hosts
    for name, ends in (("source", injections.source), ("destination", injections.destination)):
        if len(ends) and not (ends.min() >= 0 and ends.max() < hosts):
            raise InputError(f"messages: a {name} that is none of the hosts 0..{hosts - 1} of {model.network.name}")
    if len(injections) and injections.time_ps[-1] / 1e12 + parameters.drain_s > MAX_S + 1:
        raise InputError(
            f"messages: the last at {injections.time_ps[-1] / 1e12:g} s; give at most {MAX_S:g} s with drain_s"
        )
    if sizes_bytes is not None and len(sizes_bytes) != len(injections):
        raise InputError(f"messages: {len(sizes_bytes)} sizes for {len(injections)} messages")
    if (
        sizes_bytes is not None
        and len(sizes_bytes)
        and not 1 <= min(sizes_bytes) <= max(sizes_bytes) <= parameters.packet_bytes
    ):
        raise InputError(f"messages: sizes must be 1 to packet_bytes ({parameters.packet_bytes}) bytes")


def _options(model: NetworkModel, parameters: SimulationParameters, injections: Injections) -> Options:
    nac, drb = parameters.nac, parameters.ft_drb
    is_drb = parameters.routing == "ft-drb"
    last = int(injections.time_ps[-1]) // PS_PER_TICK if len(injections) else 0
    retry_s = nac.retry_s
    if retry_s is None:
        retry_s = nac.control_s * (model.largest_side + 1 if model.is_ring else 4 * model.largest_side)
    return Options(
        nac=int(parameters.deadlock == "nac"),
        drb=int(is_drb),
        fifo=int(parameters.arbitration == "fifo"),
        head_release=int(parameters.hop.release == "head"),
        credit_delay=ticks(parameters.hop.credit_delay_s),
        end=last + ticks(parameters.drain_s),
        watchdog=ticks(parameters.watchdog_s),
        control=ticks(nac.control_s),
        retry=ticks(retry_s),
        repeat_when_full=int(nac.repeat_when_full),
        own_request=int(nac.own_request),
        reserve=int(nac.reserve),
        stop_local=int(nac.stop_local),
        recovery_run=int(nac.recovery_run),
        slack=nac.slack,
        notify_by_router=int(drb.notifier == "router"),
        tell_queued=int(is_drb and drb.notify_queued),
        overhear=int(is_drb and drb.reuse_notifications),
        up_by_router=int(is_drb and drb.link_up == "router"),
        hop_cap=drb.hop_cap_diameters * max(model.paths.diameter, 1),
        ack_ticks=parameters.serialization_ticks(drb.ack_bytes),
        seed=parameters.seed,
    )


def _settings(model: NetworkModel, parameters: SimulationParameters) -> Any:
    one = zero_load_ticks(parameters, 1, parameters.packet_bytes)
    two = zero_load_ticks(parameters, 2, parameters.packet_bytes)
    return parameters.ft_drb.settings(
        ticks_per_s=TICKS_PER_S, base_ticks=one, hop_ticks=two - one, seed=parameters.seed
    )


def build_plan(model: NetworkModel, injections: Injections, faults: Sequence[Fault]) -> Plan:
    """Messages and cable events in ticks, and the links of each cable."""
    index = {switch.id: i for i, switch in enumerate(model.network.switches)}
    cable = np.asarray(model.paths.cable)
    between = {
        frozenset((int(a), int(b))): int(c)
        for a, b, c in zip(model.paths.link_source, model.paths.link_target, cable, strict=True)
        if c >= 0
    }
    events = []
    for fault in faults:
        number = between[frozenset(index[end] for end in fault.ends)]
        events.append((ticks(fault.start_s), number, 1))
        if fault.stop_s < MAX_S:
            events.append((max(ticks(fault.stop_s), ticks(fault.start_s) + 1), number, 0))
    events.sort()
    cables = int(cable.max()) + 1 if len(cable) else 0
    order = [link for link in np.argsort(cable, kind="stable").tolist() if cable[link] >= 0]
    counts = np.bincount(cable[cable >= 0], minlength=cables)
    return Plan(
        born=(injections.time_ps // PS_PER_TICK).astype(np.int64),
        event_cable=np.array([e[1] for e in events], dtype=np.int32),
        event_tick=np.array([e[0] for e in events], dtype=np.int64),
        event_down=np.array([e[2] for e in events], dtype=np.uint8),
        cable_first=np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        cable_links=np.array(order, dtype=np.int32),
    )


def message_ticks(parameters: SimulationParameters, count: int, sizes_bytes: Sequence[int] | None) -> Any:
    """How long each message takes from head to tail."""
    if sizes_bytes is None:
        return np.full(count, parameters.serialization_ticks(parameters.packet_bytes), dtype=np.int64)
    return np.array([parameters.serialization_ticks(int(size)) for size in sizes_bytes], dtype=np.int64)


def variants_of(model: NetworkModel, parameters: SimulationParameters, count: int) -> Any:
    """Which way round each message takes where both are as long."""
    variants = model.ports.next_link.shape[0]
    if variants == 1:
        return np.zeros(count, dtype=np.uint8)
    return np.random.default_rng([parameters.seed, 7]).integers(variants, size=count).astype(np.uint8)


def _build(
    model: NetworkModel, options: Options, injections: Injections, parameters: SimulationParameters,
    sizes_bytes: Sequence[int] | None, pool: int, heap: int, keep_trace: int, keep_timeline: int,
) -> tuple[State, Any]:  # fmt: skip
    count = len(injections)
    state = build_state(
        model.ports, options, messages=count, ack_pool=pool, heap=heap, cables=int(model.ports.cable.max()) + 1,
        trace=keep_trace, log=keep_timeline if options.nac else 0,
    )  # fmt: skip
    state.packets["source"][:count] = injections.source
    state.packets["destination"][:count] = injections.destination
    state.packets["born"][:count] = injections.time_ps // PS_PER_TICK
    state.packets["ticks"][:count] = message_ticks(parameters, count, sizes_bytes)
    state.packets["variant"][:count] = variants_of(model, parameters, count)
    drb = build_drb_state(model.paths, parameters.ft_drb) if options.drb else None
    return state, drb


def _result(
    model: NetworkModel, parameters: SimulationParameters, injections: Injections, state: State, drb: Any
) -> Simulation:
    count = len(injections)
    clock, packets = state.clock, state.packets
    reasons = {FINISHED: "finished", NO_PROGRESS: "no-progress", OUT_OF_TIME: "out-of-time", POOL_FULL: "too many ACKs"}
    logged = int(clock[LOGGED])
    links = model.ports.links
    return Simulation(
        network_name=model.network.name,
        model=parameters.model,
        born=packets["born"][:count].copy(),
        entered=packets["entered"][:count].copy(),
        delivered=packets["delivered"][:count].copy(),
        hops=packets["hops"][:count].copy(),
        source=np.asarray(injections.source),
        destination=np.asarray(injections.destination),
        stopped=reasons.get(int(clock[STATUS]), "out of memory for events"),
        stopped_tick=int(clock[NOW]),
        last_move_tick=int(clock[LAST]),
        packet_hops=int(clock[HOPS]),
        digest=int(clock[DIGEST]),
        events=int(clock[EVENTS]),
        livelocked=int(clock[LIVELOCKS]),
        acks=int(clock[ACKS]),
        stuck=_stuck(model, state),
        carried=np.asarray(state.channels["carried"][:links]),
        nac_counters=dict(zip(NAC_COUNTERS, state.counters.tolist(), strict=True))
        if parameters.deadlock == "nac"
        else {},
        nac_timeline=np.asarray(state.log[:logged]) if parameters.deadlock == "nac" else np.zeros((0, 4), np.int64),
        drb_counters=dict(count_events(drb)) if drb is not None else {},
        trace=np.asarray(state.trace[: int(clock[TRACED])]),
        ticks_per_s=TICKS_PER_S,
    )


def _stuck(model: NetworkModel, state: State) -> Stuck:
    """What lies in buffers of the network at the end, and since when its first head waits."""
    ports, queues = model.ports, state.queues
    inside = np.ones(ports.queues, dtype=bool)
    inside[ports.source_queue : ports.notice_queue] = False
    held = np.where(inside, queues["held"], 0)
    waiting = np.nonzero((held > 0) & (queues["want"] >= 0))[0]
    since = int(queues["since"][waiting].min()) if len(waiting) else -1
    return Stuck(packets=int(held.sum()), at_sources=int(queues["held"][~inside].sum()), since_tick=since)
