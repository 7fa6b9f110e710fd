"""Runs uncoded streams on emulated switches, inside the sandbox."""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial

from testbed.emulation.control.controller_link import PortEvent, PortWatch
from testbed.emulation.control.fault_injection import FaultSchedule
from testbed.emulation.network.emulated_network import EmulatedNetwork
from testbed.emulation.network.kernel.link_meter import read_counters
from testbed.faults.fault import FaultTimes
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
from testbed.metapath.plan import BACKGROUND_AFTER_S, MetapathPlan, MetapathRun, Rerouting
from testbed.model.label_split import LABELS
from testbed.model.progress import Progress, ReportProgress
from testbed.model.wiring import Wiring, wire
from testbed.openflow.rules import stream_rules
from testbed.routing import route_by_name
from testbed.routing.label_split.spraying import spray
from testbed.stream.emulated.background_traffic import tcp_between
from testbed.stream.emulated.endpoints import EndpointProcess
from testbed.stream.emulated.fabric import with_port_status
from testbed.stream.emulated.watching import watch_run
from testbed.stream.endpoints import foreign_notes
from testbed.stream.measurements import RunHealth
from topologies import JsonObject

# How long an end may take to get ready, and to pass on its log.
_READY_S = 90.0
_RESULT_S = 60.0
# Distance of the labels under which packets are sent before the start.
_WARM_EVERY = 1024


def run_metapath_stream(
    plan: MetapathPlan, report_progress: ReportProgress | None = None
) -> MetapathRun:
    """Run one stream in a network of its own.

    Raises:
        CapabilityError: This machine cannot emulate networks.
        InvalidRunError: The process of an end died.
    """
    report_progress = report_progress or (lambda _: None)
    check_escapes(plan)
    paths = None
    if plan.routing == "ft-drb":
        paths = labelled_path_pair(plan.network, plan.source, plan.sink)
    report_progress(Progress(doing="building the network"))
    wiring = wire(plan.network, [plan.source, plan.sink])
    with here(wiring) as platform:
        controller = platform.controller
        routes = None
        warm = range(1)
        if paths is not None:
            there, back = escape_rules_together(wiring, paths)
            controller.install_groups([*there.groups, *back.groups])
            controller.install([*there.rules, *back.rules], plan_id=1)
        elif plan.routing == "single":
            forward = spray(route_by_name(plan.network, plan.source, plan.sink, "single"))
            backward = spray(route_by_name(plan.network, plan.sink, plan.source, "single"))
            controller.install(stream_rules(wiring, forward), plan_id=1)
            controller.install(stream_rules(wiring, backward), plan_id=2)
        else:
            routes = RecomputedRoutes(controller, wiring, plan)
            warm = range(0, LABELS, _WARM_EVERY)
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
    """Run the stream over rules that are installed. Faults that outlast the stream end with it.

    Args:
        platform: The network.
        plan: The stream.
        paths: The known paths of FT-DRB; None for another routing.
        report_progress: Receives the progress.
        routes: Recomputes the routes; None for another routing.
        warm: Labels of the packets that are sent before the start, so that switches look up flows.
            They are not used with FT-DRB, which has one label for each known path.
    """
    net = platform.network
    controller = platform.controller
    wiring = platform.wiring
    with ExitStack() as stack:
        stack.enter_context(timely(platform))
        stack.enter_context(platform.running(dict))
        sink = stack.enter_context(sink_process(net, wiring, plan, paths))
        if paths is not None:
            warm = [path_label(path) for path in range(len(paths.forward.paths))]
        source, notify = stack.enter_context(source_process(net, wiring, plan, paths, warm))
        ends = (sink, source)
        for end in ends:
            end.wait_until_ready(_READY_S)
        watch = PortWatch(controller, _port_listener(wiring, routes, notify))
        stack.callback(watch.stop)
        watch.start()
        report_progress(
            Progress(
                done_s=0,
                total_s=plan.duration_s,
                doing="streaming",
                read_local=partial(read_counters, net.link_meter()),
            )
        )
        start_s = platform.start()
        for end in ends:
            end.begin(start_s)
        schedule = stack.enter_context(FaultSchedule(net, plan.faults, start_s))
        check_ends = partial(_check_ends, ends)
        with _background_tcp(net, wiring, plan, start_s) as background_counters:
            watch_run(start_s, plan.duration_s, schedule, report_progress, check_ends)
        sent = source.result(_RESULT_S)
        received = sink.result(_RESULT_S)
        if any(fault.stop_s > plan.duration_s for fault in plan.faults):
            watch.stop()
            schedule.stop()
        schedule.join()
        watch.stop()
        watch.check()
    rerouted: tuple[Rerouting, ...] = ()
    if routes is not None:
        rerouted = routes.reroutings(start_s)
    return MetapathRun(
        sent=sent.log,
        received=received.log,
        faults=_fault_times(platform, schedule, start_s),
        events=sent.events,
        rerouted=rerouted,
        zero_load_s=sent.zero_load_s,
        health=health_of(sent, received, platform.busy()),
        counters={
            "refused": sent.refused,
            "reports": received.reports,
            "foreign": received.foreign,
            "sent_foreign": sent.foreign,
            "datapath": net.datapath,
            "built_by": net.built_by(),
            **background_counters,
        },
    )


def _port_listener(
    wiring: Wiring,
    routes: RecomputedRoutes | None,
    notify: Callable[[JsonObject], None],
) -> Callable[[PortEvent], None]:
    """Return the function that processes a port status of a switch.

    It recomputes the routes, and notifies FT-DRB's source of the cable.
    """
    cables = CableStates(wiring)

    def on_port(event: PortEvent) -> None:
        changed = cables.on_port(event.dpid, event.port, event.up)
        if changed is not None:
            if routes is not None:
                routes.avoid(cables.down, event.at_s)
            notify({"cable": cable_number(wiring.network, changed.links[0]), "up": changed.up})

    return on_port


def _background_tcp(
    net: EmulatedNetwork, wiring: Wiring, plan: MetapathPlan, start_s: float
) -> AbstractContextManager[JsonObject]:
    """Wait until background TCP may start, and return the context in which it runs."""
    if plan.background_bps:
        time.sleep(max(0.0, start_s + BACKGROUND_AFTER_S - time.monotonic()))
    return tcp_between(net, wiring, (plan.source, plan.sink), plan.background_bps)


def _fault_times(platform: Here, schedule: FaultSchedule, start_s: float) -> tuple[FaultTimes, ...]:
    """Return when each fault was active, and when the controller was notified of it."""
    events = platform.controller.port_events()
    faults = []
    for times in schedule.times():
        faults.append(with_port_status(times, events, platform.wiring, start_s))
    return tuple(faults)


def _check_ends(ends: Sequence[EndpointProcess], now_s: float) -> None:
    for end in ends:
        end.check(now_s)


def health_of(sent: SourceResult, received: SinkResult, busy: float) -> RunHealth:
    """Return how well the machine kept up.

    Args:
        sent: The result of the sending end.
        received: The result of the receiving end.
        busy: Share of the processors that was used.
    """
    return RunHealth(
        sender_lag_s=sent.worst_lag_s,
        unplanned_drops=received.socket_drops,
        cpu_fraction=busy,
        notes=foreign_notes({"foreign": received.foreign, "sent_foreign": sent.foreign}),
    )
