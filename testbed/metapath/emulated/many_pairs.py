"""Runs the plain streams of many pairs at once on real switches, inside the sandbox; cables die under all of them together."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from fec.protocol.wire import STREAM_UDP_PORT
from testbed.emulation.control.controller_link import ControllerLink
from testbed.emulation.control.fault_injection import FaultSchedule
from testbed.emulation.machine.processor_load import busy_fraction, processor_times
from testbed.emulation.network.emulated_network import EmulatedNetwork
from testbed.emulation.network.open_vswitch.switches import flush_flow_cache
from testbed.errors import InvalidRunError
from testbed.machines.adapters.platform import going_first, here
from testbed.metapath.cable_states import CableStates, without_links
from testbed.metapath.emulated.endpoints import sink_process, source_process
from testbed.metapath.emulated.fabric import health_of
from testbed.metapath.escape_rules import escape_rules_together
from testbed.metapath.labelled_paths import LabelledPathPair, cable_number, labelled_path_pair, path_label
from testbed.metapath.many_pairs import KNOWN_PATHS, ManyPairsPlan, ManyPairsRun
from testbed.metapath.plan import MetapathRun
from testbed.model.progress import Progress, ReportProgress
from testbed.model.wiring import Wiring, wire
from testbed.openflow.rules import FlowRule, stream_rules
from testbed.routing import route_by_name
from testbed.routing.label_split.spraying import spray
from testbed.stream.emulated.endpoints import EndpointProcess
from testbed.stream.mobility import on_network
from topologies.network import LinkId, Network
from topologies.text.json_types import JsonObject

_LEAD_S, _QUIET_S = 1.0, 0.03
"""Between ready and time zero; port changes that follow each other so closely are routed round together."""
_WARM_EVERY = 4096
Notify = Callable[[JsonObject], None]


@dataclass
class _Installed:
    """Rules of all pairs, and what FT-DRB's sources know; ``plan_id``: the next one of the controller's."""

    paths: list[LabelledPathPair | None] = field(default_factory=list)
    rules: int = 0
    groups: int = 0
    plan_id: int = 1


def run_many_pairs(plan: ManyPairsPlan, report_progress: ReportProgress | None = None) -> ManyPairsRun:
    """The plan on a network of its own. CapabilityError where this machine cannot, InvalidRunError where an end dies."""
    report_progress = report_progress or (lambda _: None)
    wiring = wire(plan.network)
    report_progress(Progress(done_s=0, total_s=plan.duration_s, doing="building the network"))
    with here(wiring) as platform:
        net, controller = platform.network, platform.controller
        installed = _install(plan, wiring, controller)
        return _stream(plan, (net, controller, wiring), installed, report_progress)


def _install(plan: ManyPairsPlan, wiring: Wiring, controller: ControllerLink) -> _Installed:
    done = _Installed()
    if plan.routing == "ft-drb":
        known = [labelled_path_pair(plan.network, *ends, most=KNOWN_PATHS) for ends in plan.pairs]
        done.paths += known
        parts = escape_rules_together(wiring, known, dead=plan.dead)
        groups = [group for part in parts for group in part.groups]
        rules = [rule for part in parts for rule in part.rules]
        controller.install_groups(groups)
        done.groups = len(groups)
    else:
        done.paths += [None for _ in plan.pairs]
        method = "capillary" if plan.routing == "capillary" else "single"
        rules = _route_all(plan, wiring, plan.network, method)
    controller.install(rules, plan_id=done.plan_id)
    done.rules, done.plan_id = len(rules), done.plan_id + 1
    return done


def _route_all(plan: ManyPairsPlan, wiring: Wiring, network: Network, method: str) -> list[FlowRule]:
    """Every pair's stream by that method over that network (all links of the whole, or those that are left)."""
    rules: list[FlowRule] = []
    for source, sink in plan.pairs:
        split = spray(route_by_name(network, source, sink, method))
        rules += stream_rules(wiring, on_network(split, plan.network), udp_port=STREAM_UDP_PORT)
    return rules


def _stream(
    plan: ManyPairsPlan,
    built: tuple[EmulatedNetwork, ControllerLink, Wiring],
    installed: _Installed,
    report_progress: ReportProgress,
) -> ManyPairsRun:
    net, controller, wiring = built
    warm = list(range(0, 65536, _WARM_EVERY)) if plan.routing == "capillary" else [0]
    with ExitStack() as stack:
        stack.enter_context(going_first(controller.pid))
        sinks, sources, notify = list[EndpointProcess](), list[EndpointProcess](), list[Notify]()
        for number, paths in enumerate(installed.paths):
            pair = plan.pair_plan(number)
            sinks.append(stack.enter_context(sink_process(net, wiring, pair, paths)))
            labels = warm if paths is None else [path_label(k) for k in range(len(paths.forward.paths))]
            source, tell = stack.enter_context(source_process(net, wiring, pair, paths, labels))
            sources.append(source)
            notify.append(tell)
        for end in (*sinks, *sources):
            end.wait_until_ready(90.0)
        before, known = processor_times(), len(controller.port_events())
        start = time.monotonic() + _LEAD_S
        for end in (*sinks, *sources):
            end.begin(start)
        schedule = FaultSchedule(net, plan.faults, start)
        stack.callback(schedule.stop)
        schedule.start()
        watch = _Watch(plan, wiring, controller, installed, notify, known)
        while (now := time.monotonic() - start) < plan.duration_s:
            watch.look(start)
            report_progress(Progress(done_s=max(0.0, now), total_s=plan.duration_s, doing="streaming"))
        _check_alive((*sinks, *sources))
        sent, received = [each.result(60.0) for each in sources], [each.result(60.0) for each in sinks]
        schedule.stop()
        schedule.join()
        busy = busy_fraction(before, processor_times())
    return ManyPairsRun(
        pairs=tuple(
            MetapathRun(
                sent=s.log,
                received=r.log,
                faults=(),
                events=s.events,
                zero_load_s=s.zero_load_s,
                health=health_of(s, r, busy),
            )
            for s, r in zip(sent, received, strict=True)
        ),
        rules=installed.rules,
        groups=installed.groups,
        cables_down_s=max((times.start_s for times in schedule.times()), default=plan.duration_s),
        rerouted_s=watch.rerouted_s,
        worst_lag_s=max(s.worst_lag_s for s in sent),
        cpu_fraction=busy,
    )


def _check_alive(ends: Sequence[EndpointProcess]) -> None:
    for end in ends:
        if not end.alive and not end.finished:
            raise InvalidRunError(f"a {end.role} ended early: {end.error()}")


class _Watch:
    """What the controller does with port changes: notify FT-DRB's sources, or compute the routes of all pairs again."""

    def __init__(
        self,
        plan: ManyPairsPlan,
        wiring: Wiring,
        controller: ControllerLink,
        installed: _Installed,
        notify: Sequence[Notify],
        known: int,
    ) -> None:
        self._plan, self._wiring, self._controller = plan, wiring, controller
        self._installed, self._notify, self._known = installed, notify, known
        self._cables = CableStates(wiring)
        self._routed: frozenset[LinkId] = frozenset()
        self.rerouted_s: float | None = None

    def look(self, start: float) -> None:
        """Take what ports have reported; returns after ``_QUIET_S`` at the latest, unless routes are computed."""
        events = self._controller.port_events_after(self._known, _QUIET_S)
        self._known += len(events)
        for event in events:
            changed = self._cables.on_port(event.dpid, event.port, event.up)
            if changed is not None and self._plan.routing == "ft-drb":
                number = cable_number(self._plan.network, changed.links[0])
                for tell in self._notify:
                    tell({"cable": number, "up": changed.up})
        if not events and self._plan.routing == "recomputed" and self._cables.down != self._routed:
            self._reroute(start)

    def _reroute(self, start: float) -> None:
        self._routed = self._cables.down
        left = without_links(self._plan.network, self._routed)
        self._controller.install(_route_all(self._plan, self._wiring, left, "single"), plan_id=self._installed.plan_id)
        self._installed.plan_id += 1
        flush_flow_cache()
        self.rerouted_s = time.monotonic() - start
