"""Runs a plain stream over metapaths (or over one path, or over a route computed again) on real switches, inside the sandbox."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from fec.protocol.wire import STREAM_UDP_PORT
from testbed.emulation.control.controller_link import ControllerLink, PortEvent
from testbed.emulation.control.fault_injection import FaultSchedule
from testbed.emulation.control.port_watch import PortWatch
from testbed.emulation.machine.processor_load import busy_fraction, processor_times
from testbed.emulation.network.emulated_network import EmulatedNetwork
from testbed.emulation.network.links import read_counters
from testbed.errors import InvalidRunError
from testbed.faults.fault_times import FaultTimes
from testbed.machines.adapters.platform import going_first, here
from testbed.metapath.cable_states import CableStates
from testbed.metapath.emulated.endpoints import SinkResult, SourceResult, sink_process, source_process
from testbed.metapath.emulated.recomputed_routes import RecomputedRoutes
from testbed.metapath.escape_check import check_escapes
from testbed.metapath.escape_rules import escape_rules_together
from testbed.metapath.labelled_paths import LabelledPathPair, cable_number, labelled_path_pair, path_label
from testbed.metapath.plan import BACKGROUND_AFTER_S, MetapathPlan, MetapathRun, Rerouting
from testbed.model.progress import CounterReading, Progress, ReportProgress
from testbed.model.wiring import Wiring, wire
from testbed.openflow.rules import stream_rules
from testbed.routing import route_by_name
from testbed.routing.label_split.spraying import spray
from testbed.stream.emulated.background_traffic import tcp_between
from testbed.stream.emulated.endpoints import EndpointProcess
from testbed.stream.emulated.fabric import with_port_status
from testbed.stream.endpoints import strangers
from testbed.stream.measurements import RunHealth
from topologies.text.json_types import JsonObject

_LEAD_S = 0.15
_WARM_EVERY = 1024


@dataclass(frozen=True, kw_only=True)
class _Running:
    """A plan whose network stands and whose rules are installed. ``paths``: FT-DRB's; ``routes``: what computes the route again, where
    that is the routing; ``warm``: labels under which packets are sent before the start, so that switches have looked their flows up."""

    net: EmulatedNetwork
    controller: ControllerLink
    wiring: Wiring
    plan: MetapathPlan
    paths: LabelledPathPair | None
    routes: RecomputedRoutes | None
    warm: Sequence[int]
    report_progress: ReportProgress


def run_metapath_stream(plan: MetapathPlan, report_progress: ReportProgress | None = None) -> MetapathRun:
    """One plan on a network of its own. CapabilityError where this machine cannot, InvalidRunError where an end dies."""
    report_progress = report_progress or (lambda _: None)
    check_escapes(plan)
    paths = labelled_path_pair(plan.network, plan.source, plan.sink) if plan.routing == "ft-drb" else None
    report_progress(Progress(done_s=0, total_s=plan.duration_s, doing="building the network"))
    wiring = wire(plan.network, [plan.source, plan.sink])
    with here(wiring) as platform:
        net, controller = platform.network, platform.controller
        routes = None
        if paths is not None:
            parts = escape_rules_together(wiring, [paths])
            controller.install_groups([group for part in parts for group in part.groups])
            controller.install([rule for part in parts for rule in part.rules], plan_id=1)
            warm = [path_label(k) for k in range(len(paths.forward.paths))]
        elif plan.routing == "single":
            for plan_id, ends in enumerate(((plan.source, plan.sink), (plan.sink, plan.source)), start=1):
                split = spray(route_by_name(plan.network, *ends, "single"))
                controller.install(stream_rules(wiring, split, udp_port=STREAM_UDP_PORT), plan_id=plan_id)
            warm = [0]
        else:
            routes = RecomputedRoutes(controller, wiring, plan)
            routes.install_first()
            warm = list(range(0, 65536, _WARM_EVERY))
        return _stream(
            _Running(
                net=net,
                controller=controller,
                wiring=wiring,
                plan=plan,
                paths=paths,
                routes=routes,
                warm=warm,
                report_progress=report_progress,
            )
        )


def _stream(running: _Running) -> MetapathRun:
    net, wiring, plan = running.net, running.wiring, running.plan
    before = processor_times()
    with ExitStack() as stack:
        stack.enter_context(going_first(running.controller.pid))
        sink = stack.enter_context(sink_process(net, wiring, plan, running.paths))
        source, notify = stack.enter_context(source_process(net, wiring, plan, running.paths, running.warm))
        for end in (sink, source):
            end.wait_until_ready()
        watch = PortWatch(running.controller, _port_listener(running, notify))
        stack.callback(watch.stop)
        watch.start()
        look = partial(read_counters, net.link_meter())
        running.report_progress(Progress(done_s=0, total_s=plan.duration_s, doing="streaming", read_local=look))
        start = time.monotonic() + _LEAD_S
        for end in (sink, source):
            end.begin(start)
        schedule = FaultSchedule(net, plan.faults, start)
        stack.callback(schedule.stop)
        schedule.start()
        carried = _while_it_runs(running, start, (source, sink), schedule)
        sent, received = source.result(), sink.result()
        schedule.join()
        watch.stop()
        watch.check()
    events, busy = running.controller.port_events(), busy_fraction(before, processor_times())
    faults = tuple(with_port_status(t, events, wiring, start) for t in schedule.times())
    rerouted = running.routes.reroutings(start) if running.routes is not None else ()
    return _run_of(sent, received, faults, rerouted, busy, {"datapath": net.datapath, **carried})


def _port_listener(running: _Running, notify: Callable[[JsonObject], None]) -> Callable[[PortEvent], None]:
    """What happens when a switch reports a port: the route is computed again, or FT-DRB's source is notified of the cable."""
    cables = CableStates(running.wiring)

    def on_port(event: PortEvent) -> None:
        changed = cables.on_port(event.dpid, event.port, event.up)
        if changed is not None and running.routes is not None:
            running.routes.avoid(cables.down, event.at_s)
        elif changed is not None and running.paths is not None:
            notify({"cable": cable_number(running.wiring.network, changed.links[0]), "up": changed.up})

    return on_port


def _while_it_runs(
    running: _Running, start: float, ends: Sequence[EndpointProcess], schedule: FaultSchedule
) -> JsonObject:
    """Wait for the stream's end, TCP next to it if requested; what that carried."""
    plan = running.plan
    if plan.background_bps:
        time.sleep(max(0.0, start + BACKGROUND_AFTER_S - time.monotonic()))
    with tcp_between(running.net, running.wiring, (plan.source, plan.sink), plan.background_bps) as carried:
        while (now := time.monotonic() - start) < plan.duration_s:
            for end in ends:
                if not end.alive and not end.finished:
                    raise InvalidRunError(f"the {end.role} ended early, {now:.1f} s into the stream: {end.error()}")
            reading = CounterReading(at_s=max(0.0, now), faults=schedule.in_force())
            done = Progress(done_s=max(0.0, now), total_s=plan.duration_s, doing="streaming", reading=reading)
            running.report_progress(done)
            time.sleep(min(0.1, max(0.0, plan.duration_s - now)))
    return carried


def _run_of(
    sent: SourceResult,
    received: SinkResult,
    faults: tuple[FaultTimes, ...],
    rerouted: tuple[Rerouting, ...],
    busy: float,
    counters: JsonObject,
) -> MetapathRun:
    return MetapathRun(
        sent=sent.log,
        received=received.log,
        faults=faults,
        events=sent.events,
        rerouted=rerouted,
        zero_load_s=sent.zero_load_s,
        health=health_of(sent, received, busy),
        counters={
            "refused": sent.refused,
            "reports": received.reports,
            "foreign": received.foreign,
            "sent_foreign": sent.foreign,
            **counters,
        },
    )


def health_of(sent: SourceResult, received: SinkResult, busy: float) -> RunHealth:
    """What the two ends say of themselves; ``busy``: share of the processors."""
    return RunHealth(
        sender_lag_s=sent.worst_lag_s,
        unplanned_drops=received.socket_drops,
        cpu_fraction=busy,
        notes=strangers({"foreign": received.foreign, "sent_foreign": sent.foreign}),
    )
