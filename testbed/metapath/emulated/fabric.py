"""Runs plain streams over metapaths (or over one path, or over routes computed again) on real switches, inside the
sandbox."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial

from testbed.emulation.control.controller_link import PortEvent, PortWatch
from testbed.emulation.control.fault_injection import FaultSchedule
from testbed.emulation.network.kernel.link_meter import read_counters
from testbed.machines.adapters.platform import Here, here, timely
from testbed.metapath.cable_states import CableStates
from testbed.metapath.emulated.endpoints import (
    SinkResult,
    SourceResult,
    sink_process,
    source_process,
)
from testbed.metapath.emulated.recomputed_routes import RecomputedRoutes
from testbed.metapath.escape_check import check_escapes
from testbed.metapath.escape_rules import escape_rules_together
from testbed.metapath.labelled_paths import (
    LabelledPathPair,
    cable_number,
    labelled_path_pair,
    path_label,
)
from testbed.metapath.plan import BACKGROUND_AFTER_S, MetapathPlan, MetapathRun
from testbed.model.progress import Progress, ReportProgress
from testbed.model.wiring import Wiring, wire
from testbed.openflow.rules import stream_rules
from testbed.routing import route_by_name
from testbed.routing.label_split.spraying import spray
from testbed.stream.emulated.background_traffic import tcp_between
from testbed.stream.emulated.endpoints import EndpointProcess
from testbed.stream.emulated.fabric import with_port_status
from testbed.stream.emulated.watching import watch_run
from testbed.stream.endpoints import strangers
from testbed.stream.measurements import RunHealth
from topologies import JsonObject

_READY_S, _RESULT_S = 90.0, 60.0
"""How long an end may take to be ready, and to hand its log over."""
_WARM_EVERY = 1024


def run_metapath_stream(
    plan: MetapathPlan, report_progress: ReportProgress | None = None
) -> MetapathRun:
    """One plan on a network of its own. CapabilityError where this machine cannot, InvalidRunError where an end
    dies."""
    report_progress = report_progress or (lambda _: None)
    check_escapes(plan)
    paths = (
        labelled_path_pair(plan.network, plan.source, plan.sink)
        if plan.routing == "ft-drb"
        else None
    )
    report_progress(Progress(doing="building the network"))
    wiring = wire(plan.network, [plan.source, plan.sink])
    with here(wiring) as platform:
        controller, routes, warm = platform.controller, None, range(1)
        if paths is not None:
            parts = escape_rules_together(wiring, paths)
            controller.install_groups([group for part in parts for group in part.groups])
            controller.install([rule for part in parts for rule in part.rules], plan_id=1)
        elif plan.routing == "single":
            for plan_id, ends in enumerate(
                ((plan.source, plan.sink), (plan.sink, plan.source)), start=1
            ):
                split = spray(route_by_name(plan.network, *ends, "single"))
                controller.install(stream_rules(wiring, split), plan_id=plan_id)
        else:
            routes, warm = RecomputedRoutes(controller, wiring, plan), range(0, 65536, _WARM_EVERY)
        return _stream(platform, plan, paths, report_progress, routes=routes, warm=warm)


def _stream(
    platform: Here,
    plan: MetapathPlan,
    paths: LabelledPathPair | None,
    report_progress: ReportProgress,
    *,
    routes: RecomputedRoutes | None,
    warm: Sequence[int],
) -> MetapathRun:
    """The stream over rules that are installed, with FT-DRB's ``paths`` where that is its routing.

    Faults that outlast it end with it. ``routes``: what computes routes again. ``warm``: labels under which a source
    without such paths sends before the start, so that switches have looked flows up.
    """
    net, controller, wiring = platform.network, platform.controller, platform.wiring
    with ExitStack() as stack:
        stack.enter_context(timely(platform))
        stack.enter_context(platform.running(dict))
        sink = stack.enter_context(sink_process(net, wiring, plan, paths))
        labels = warm if paths is None else [path_label(k) for k in range(len(paths.forward.paths))]
        source, tell = stack.enter_context(source_process(net, wiring, plan, paths, labels))
        ends = (sink, source)
        for end in ends:
            end.wait_until_ready(_READY_S)
        watch = PortWatch(controller, _port_listener(wiring, routes, tell))
        stack.callback(watch.stop)
        watch.start()
        look = partial(read_counters, net.link_meter())
        report_progress(
            Progress(done_s=0, total_s=plan.duration_s, doing="streaming", read_local=look)
        )
        start = platform.start()
        for end in ends:
            end.begin(start)
        schedule = stack.enter_context(FaultSchedule(net, plan.faults, start))
        with tcp_between(
            net, wiring, (plan.source, plan.sink), _background(plan, start)
        ) as carried:
            watch_run(start, plan.duration_s, schedule, report_progress, partial(_check_ends, ends))
        sent, received = source.result(_RESULT_S), sink.result(_RESULT_S)
        if any(fault.stop_s > plan.duration_s for fault in plan.faults):
            watch.stop()
            schedule.stop()
        schedule.join()
        watch.stop()
        watch.check()
    events, busy = controller.port_events(), platform.busy()
    return MetapathRun(
        sent=sent.log,
        received=received.log,
        faults=tuple(with_port_status(t, events, wiring, start) for t in schedule.times()),
        events=sent.events,
        rerouted=() if routes is None else routes.reroutings(start),
        zero_load_s=sent.zero_load_s,
        health=health_of(sent, received, busy),
        counters={
            "refused": sent.refused,
            "reports": received.reports,
            "foreign": received.foreign,
            "sent_foreign": sent.foreign,
            "datapath": net.datapath,
            "built_by": net.built_by(),
            **carried,
        },
    )


def _port_listener(
    wiring: Wiring, routes: RecomputedRoutes | None, tell: Callable[[JsonObject], None]
) -> Callable[[PortEvent], None]:
    """What happens when a switch reports a port: routes are computed again, and FT-DRB's source is notified of the
    cable."""
    cables = CableStates(wiring)

    def on_port(event: PortEvent) -> None:
        changed = cables.on_port(event.dpid, event.port, event.up)
        if changed is not None:
            if routes is not None:
                routes.avoid(cables.down, event.at_s)
            tell({"cable": cable_number(wiring.network, changed.links[0]), "up": changed.up})

    return on_port


def _background(plan: MetapathPlan, start: float) -> float:
    """The rate of the TCP next to the stream, when it is time for it."""
    if plan.background_bps:
        time.sleep(max(0.0, start + BACKGROUND_AFTER_S - time.monotonic()))
    return plan.background_bps


def _check_ends(ends: Sequence[EndpointProcess], now_s: float) -> None:
    for end in ends:
        end.check(now_s)


def health_of(sent: SourceResult, received: SinkResult, busy: float) -> RunHealth:
    """What the two ends say of themselves; ``busy``: share of the processors."""
    return RunHealth(
        sender_lag_s=sent.worst_lag_s,
        unplanned_drops=received.socket_drops,
        cpu_fraction=busy,
        notes=strangers({"foreign": received.foreign, "sent_foreign": sent.foreign}),
    )
