"""The emulated fabric: runs a streaming plan on real switches, one process at each end of the stream, faults in
between.

Nothing is decided here: rules come from testbed.openflow, packets from fec.protocol.sender, faults from the plan.

Over several machines the coordinator keeps the one clock that measurements are told on: its own. Every machine's clock
is compared with it throughout the run; an end begins at its machine's equivalent of time zero, and its packet log, told
in its machine's clock, is turned into the coordinator's when the run is over and all exchanges of time stamps are
known. A fault is ordered to both ends of its cable a little ahead, for one moment. What crossing links carried is
counted at both ends: what went in and never came out was lost by the network between the machines, and a run in which
more than a trace was says nothing.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from fec.protocol.wire import STREAM_UDP_PORT
from testbed.emulation.control.controller_link import PortEvent
from testbed.emulation.control.fault_injection import FaultInjector, FaultSchedule
from testbed.errors import InputError
from testbed.faults.fault import MAX_EARLY_S, ChangeTimes, FaultTimes
from testbed.machines.adapters.platform import Here, Platform, here
from testbed.machines.machines_report import MachinesReport, require_clock
from testbed.machines.machines_request import MachinesRequest
from testbed.model.progress import Progress, ReportProgress
from testbed.model.wiring import Wiring, wire
from testbed.openflow.rules import split_rules
from testbed.stream.emulated.background_traffic import tcp_between
from testbed.stream.emulated.endpoints import (
    KEY_BYTES,
    RECEIVER,
    SENDER,
    ask_end,
    network_facts,
    open_end,
    read_ends,
)
from testbed.stream.emulated.ends import ReceiverResult, SenderResult
from testbed.stream.emulated.mobile_routes import MobileRoutes
from testbed.stream.emulated.watching import watch_run
from testbed.stream.endpoints import strangers
from testbed.stream.judgement.packet_logs import block_outcomes
from testbed.stream.measurements import (
    ONE_CLOCK,
    LossReportLog,
    RunHealth,
    StreamClocks,
    StreamMeasurements,
)
from testbed.stream.plan import StreamPlan
from testbed.stream.planning import check_concurrent
from topologies import Json, JsonObject, LinkId, label_of

CLOCKS_WITHIN_S = 0.005
"""A run is invalid whose clocks are known less well: a fault's packets are distinguished with 20 ms of guard on each
side."""
_READY_S, _BEGUN_S, _RESULT_S = 60.0, 10.0, 40.0


@dataclass(kw_only=True)
class EmulatedStreamFabric:
    """Builds the network, installs the rules, streams, breaks links, measures; inside the sandbox where the network is
    on this machine.

    ``mtu`` in bytes; ``pcap``: files to record, one a link. ``background_bps``: TCP at this rate, on so many
    connections, between the (first) stream's end points, over the path of label 0; 0 for none. ``queues``: "priority"
    lets coded streams go before TCP on every link. ``machines``: over which the network is spread, without recordings
    and TCP; None for this one.
    """

    name = "emulation"
    mtu: int = 1500
    pcap: Mapping[LinkId, Path] = field(default_factory=dict)
    background_bps: float = 0.0
    background_connections: int = 1
    queues: Literal["fifo", "priority"] = "fifo"
    machines: MachinesRequest | None = None
    begun: Callable[[Platform], object] = lambda _: None
    """Called when the streams have begun (tests turn loss up)."""

    def run(self, plan: StreamPlan, progress: ReportProgress | None = None) -> StreamMeasurements:
        """One plan on a network of its own. Raises CapabilityError where this machine cannot do what the plan asks,
        MachineDiedError where one of several dies, InvalidRunError where an end fails or the network between machines
        was too poor."""
        return self.run_concurrently((plan,), progress)[0]

    def run_concurrently(
        self, plans: Sequence[StreamPlan], progress: ReportProgress | None = None
    ) -> tuple[StreamMeasurements, ...]:
        """Several streams at once on one network under the same faults, background TCP next to them if requested.

        InputError where the plans do not fit together. Route changes are played for a single stream only.
        """
        check_concurrent(plans)
        plan, report_progress = plans[0], progress or (lambda _: None)
        with self._network(plans, report_progress) as platform:
            breaker = FaultInjector(platform.network)
            movement = (
                MobileRoutes(breaker, platform, plan) if plan.changes or plan.absent else None
            )
            if movement is None:
                for number, one in enumerate(plans):
                    rules, routes = split_rules(platform.wiring, one.forward, one.backward)
                    platform.install(rules, plan_id=number + 1)
                    platform.route(routes)
            else:
                movement.install_first()
            with self._compared(platform, plan) as carried:
                found = streams_over(
                    platform, plans, report_progress, breaker, movement, self.begun
                )
            return tuple(replace(one, counters={**one.counters, **carried}) for one in found)

    def _network(
        self, plans: Sequence[StreamPlan], show: ReportProgress
    ) -> AbstractContextManager[Platform]:
        if self.machines is None:
            show(Progress(doing="building the network"))
            return here_for(*plans, mtu=self.mtu, priority=self.queues == "priority")
        from testbed.machines.adapters.distributed_network import over_machines

        required = _required(plans, self.mtu, self.queues == "priority")
        return over_machines(self.machines, report_progress=show, **required)

    def _compared(self, platform: Platform, plan: StreamPlan) -> AbstractContextManager[JsonObject]:
        """Recordings begun, and TCP while the block lasts; afterwards what that carried."""
        if not isinstance(platform, Here):
            return nullcontext({})
        net = platform.network
        for link, path in self.pcap.items():
            net.start_capture(link, path)
        if plan.changes and self.background_bps > 0:
            raise InputError(
                "background traffic: not while nodes move, only the stream's own rules follow them"
            )
        ends = plan.source, plan.sink
        return tcp_between(
            net, platform.wiring, ends, self.background_bps, self.background_connections
        )


def here_for(
    *plans: StreamPlan, mtu: int = 1500, priority: bool = False
) -> AbstractContextManager[Here]:
    """The plans' network on this machine, as of ``here``. ``priority``: streams go before other traffic."""
    return here(**_required(plans, mtu, priority), seed=plans[0].seed)


def _required(plans: Sequence[StreamPlan], mtu: int, priority: bool) -> JsonObject:
    """The plans' network, as of ``PartitionSpec``."""
    ends = tuple(end for plan in plans for end in (plan.source, plan.sink))
    first = STREAM_UDP_PORT if priority else None
    return {
        "wiring": wire(plans[0].network, ends),
        "mtu": mtu,
        "first_udp_port": first,
        "talking": ends,
    }


def streams_over(
    platform: Platform,
    plans: Sequence[StreamPlan],
    report_progress: ReportProgress,
    breaker: FaultInjector,
    movement: MobileRoutes | None = None,
    begun: Callable[[Platform], object] = lambda _: None,
) -> tuple[StreamMeasurements, ...]:
    """Run the plans' streams, their common faults and route changes on a network whose first rules are installed.
    ``begun``: is called when the streams have begun."""
    run = _Run(platform, plans, report_progress)
    with platform.running(run.until_now):
        return run.measured(breaker, movement, begun)


class _End(NamedTuple):
    """Of stream ``number``, on that machine."""

    machine: int
    role: str
    number: int


class _Conditions(NamedTuple):
    """What all streams of a run have in common. ``facts``: of the network, for the counters."""

    faults: tuple[FaultTimes, ...]
    changes: tuple[ChangeTimes, ...]
    busy: float
    switch_drops: int
    machines: MachinesReport | None
    facts: Json


class _Run:
    def __init__(
        self, platform: Platform, plans: Sequence[StreamPlan], report_progress: ReportProgress
    ) -> None:
        self._platform, self._plans, self._report_progress = platform, plans, report_progress
        place = platform.machine_of
        self._ends = [_End(place(one.sink), RECEIVER, k) for k, one in enumerate(plans)]
        self._ends += [_End(place(one.source), SENDER, k) for k, one in enumerate(plans)]
        self._schedule: FaultSchedule | None = None

    def measured(
        self,
        breaker: FaultInjector,
        movement: MobileRoutes | None,
        begun: Callable[[Platform], object],
    ) -> tuple[StreamMeasurements, ...]:
        platform, plan = self._platform, self._plans[0]
        dropped = platform.switch_drops()
        platform.network.prepare_impairments(plan.faults)
        keys = [secrets.token_bytes(KEY_BYTES) for _ in self._plans]
        self._ask(_READY_S, open_end, each=lambda end: (self._plans[end.number], keys[end.number]))
        self._ask(_READY_S, ask_end, "wait_until_ready")
        self._report_progress(platform.live(read_ends, Progress(doing="streaming")))
        start = platform.start()
        self._ask(_BEGUN_S, ask_end, each=lambda end: ("begin", platform.start_on(end.machine)))
        with ExitStack() as stack:
            self._schedule = FaultSchedule(platform.network, plan.faults, start, breaker)
            schedule = stack.enter_context(self._schedule)
            if movement is not None:
                stack.callback(movement.stop)
                movement.start(start)
            begun(platform)
            watch_run(start, plan.duration_s, schedule, self._report_progress, self._check)
            results = dict(zip(self._ends, self._ask(_RESULT_S, ask_end, "result"), strict=True))
            if any(fault.stop_s > plan.duration_s for fault in plan.faults):
                schedule.stop()  # what outlasts the stream ends with it
            schedule.join()
            if movement is not None:
                movement.join()
        events, busy = platform.port_events(), platform.busy()
        faults = tuple(
            with_port_status(t, events, platform.wiring, start) for t in schedule.times()
        )
        drops = [now - before for now, before in zip(platform.switch_drops(), dropped, strict=True)]
        report = platform.report(sum(2 * one.stream.rate_pps for one in self._plans))
        if report is None:
            (facts,) = platform.all(network_facts)
        else:
            for clock in report.clocks:
                require_clock(clock, CLOCKS_WITHIN_S, "the stream's faults and playback")
            facts = {
                **report.to_json(),
                "switch_drops": dict(zip(platform.names, drops, strict=True)),
            }
        changes = movement.times() if movement is not None else ()
        conditions = _Conditions(faults, changes, busy, sum(drops), report, facts)
        return tuple(
            self._measurements(number, results, conditions) for number in range(len(self._plans))
        )

    def _ask(
        self,
        limit_s: float,
        request: Callable[..., Any],
        *args: Any,
        each: Callable[[_End], tuple[Any, ...]] = lambda _: (),
    ) -> list[Any]:
        """All ends at once, those of one machine in order; their answers."""
        requested = [
            self._platform.call(end.machine, request, end.role, end.number, *each(end), *args)
            for end in self._ends
        ]
        return [one.result(limit_s) for one in requested]

    def _check(self, now_s: float) -> None:
        """An end point or a machine that dies ends the run."""
        self._platform.check()
        self._ask(_BEGUN_S, ask_end, "check", now_s)

    def until_now(self) -> dict[str, object]:
        """What was measured until a machine died: faults that were over."""
        faults = () if self._schedule is None else self._schedule.times()
        return {
            "faults": [
                {"link": label_of(f.fault.link), "start_s": f.start_s, "stop_s": f.stop_s}
                for f in faults
            ]
        }

    def _measurements(
        self,
        number: int,
        results: Mapping[_End, SenderResult | ReceiverResult],
        conditions: _Conditions,
    ) -> StreamMeasurements:
        plan, platform, clocks = self._plans[number], self._platform, ONE_CLOCK
        source, sink = platform.machine_of(plan.source), platform.machine_of(plan.sink)
        sent, received = (
            results[_End(source, SENDER, number)],
            results[_End(sink, RECEIVER, number)],
        )
        assert isinstance(sent, SenderResult) and isinstance(received, ReceiverResult)
        packets = replace(sent.log, time_s=platform.after_start(source, sent.log.time_s))
        arrivals = replace(received.log, time_s=platform.after_start(sink, received.log.time_s))
        if conditions.machines is not None:
            known = conditions.machines.clocks
            clocks = StreamClocks(
                sender_s=known[source].uncertainty_s,
                receiver_s=known[sink].uncertainty_s,
                faults_s=conditions.machines.uncertainty_s,
            )
        return StreamMeasurements(
            fabric="emulation",
            sent=packets,
            received=arrivals,
            blocks=block_outcomes(
                packets, arrivals, plan.stream.source_packets, plan.stream.playback_s
            ),
            faults=conditions.faults,
            changes=conditions.changes,
            clocks=clocks,
            news=_on_our_clock(platform, source, sent.news),
            health=RunHealth(
                sender_lag_s=sent.worst_lag_s,
                unplanned_drops=received.socket_drops + conditions.switch_drops,
                cpu_fraction=conditions.busy,
                notes=strangers({**sent.counters, **received.counters}),
            ),
            counters={**sent.counters, **received.counters, **conditions.facts},
        )


def _on_our_clock(platform: Platform, machine: int, loss_reports: LossReportLog) -> LossReportLog:
    """What never came is never."""
    reported = {
        name: getattr(loss_reports, name) for name in ("told_s", "newest_s", "lost_s", "came_s")
    }
    ours = {
        name: np.where(
            np.isfinite(at),
            platform.after_start(machine, np.nan_to_num(at, posinf=0, neginf=0)),
            at,
        )
        for name, at in reported.items()
    }
    return replace(loss_reports, **ours)


def with_port_status(
    times: FaultTimes, events: tuple[PortEvent, ...], wiring: Wiring, start: float
) -> FaultTimes:
    """Add when a switch notified the controller of the failure (None: no port changed state)."""
    cable = wiring.cable_of(times.fault.link)
    ports = {place for place, one in wiring.cables_by_port().items() if one is cable}
    notified = [
        e.at_s - start
        for e in events
        if (e.dpid, e.port) in ports and not e.up and e.at_s - start >= times.start_s - MAX_EARLY_S
    ]
    first = min(notified, default=None)
    return times if first is None or first > times.stop_s else replace(times, port_status_s=first)
