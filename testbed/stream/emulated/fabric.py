"""The emulated fabric: runs streams on real switches, with one process at each end of a stream.

The fabric decides nothing. The rules come from ``testbed.openflow``, the packets from
``fec.protocol.sender``, and the faults from the plan.

If the network is spread over several machines, all times are converted to the clock of the
coordinator. Each machine's clock is compared with it throughout the run. An end point starts at its
machine's equivalent of time zero. Its packet log is converted after the run, when all exchanges of
time stamps are known. A fault is ordered a little ahead, for the same moment at both ends of its
cable. Links between machines are counted at both ends: the network between the machines lost the
packets that entered and never left. A run that lost more than a trace of them is invalid.
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
from testbed.stream.endpoints import foreign_notes
from testbed.stream.judgement.packet_logs import block_outcomes
from testbed.stream.measurements import (
    ONE_CLOCK,
    FloatArray,
    LossReportLog,
    RunHealth,
    StreamClocks,
    StreamMeasurements,
)
from testbed.stream.plan import StreamPlan
from testbed.stream.planning import check_concurrent
from topologies import Json, JsonObject, LinkId, label_of

# Largest uncertainty of a machine's clock in a valid run. It is a quarter of the 20 ms by which the
# clocks of the sender and of the faults may differ (``FAULT_GUARD_S``).
CLOCKS_WITHIN_S = 0.005

# Time limits of the answers of an end point: when it is prepared, while the stream runs, and when
# the stream has ended.
_PREPARE_LIMIT_S = 60.0
_REQUEST_LIMIT_S = 10.0
_RESULT_LIMIT_S = 40.0


@dataclass(kw_only=True)
class EmulatedStreamFabric:
    """Builds the network, installs the rules, streams, injects the faults and measures.

    If the network is on this machine, the fabric must be used inside the sandbox.

    Attributes:
        mtu: Maximum size of an IP packet on every link, in bytes.
        pcap: Files in which the packets of links are recorded.
        background_bps: Rate of TCP traffic between the end points of the first stream, over the
            path of label 0; 0 for none.
        background_connections: Number of TCP connections.
        queues: "priority" sends coded streams before TCP on every link.
        machines: The machines over which the network is spread; there are no recordings and no TCP
            then. None for this machine.
        on_start: Called when the streams have started. Tests disturb the network with it.
    """

    name = "emulation"
    mtu: int = 1500
    pcap: Mapping[LinkId, Path] = field(default_factory=dict)
    background_bps: float = 0.0
    background_connections: int = 1
    queues: Literal["fifo", "priority"] = "fifo"
    machines: MachinesRequest | None = None
    on_start: Callable[[Platform], object] | None = None

    def run(self, plan: StreamPlan, progress: ReportProgress | None = None) -> StreamMeasurements:
        """Run one plan on a network of its own.

        Raises:
            CapabilityError: This machine cannot do what the plan requires.
            MachineDiedError: One of several machines has died.
            InvalidRunError: An end point failed, or the network between the machines lost too much.
        """
        return self.run_concurrently((plan,), progress)[0]

    def run_concurrently(
        self, plans: Sequence[StreamPlan], progress: ReportProgress | None = None
    ) -> tuple[StreamMeasurements, ...]:
        """Run several streams at the same time on one network, under the same faults.

        Route changes are possible for a single stream only. The errors are those of ``run``.

        Raises:
            InputError: The plans cannot run at the same time.
        """
        check_concurrent(plans)
        plan = plans[0]
        report_progress = progress or _ignore_progress
        with self._network(plans, report_progress) as platform:
            injector = FaultInjector(platform.network)
            movement = None
            if plan.changes or plan.absent:
                movement = MobileRoutes(injector, platform, plan)
                movement.install_first()
            else:
                _install_routes(platform, plans)
            with self._recordings_and_tcp(platform, plan) as traffic:
                runs = streams_over(
                    platform, plans, report_progress, injector, movement, self.on_start
                )
            return tuple(replace(run, counters={**run.counters, **traffic}) for run in runs)

    def _network(
        self, plans: Sequence[StreamPlan], report_progress: ReportProgress
    ) -> AbstractContextManager[Platform]:
        """Build the network of the plans."""
        priority = self.queues == "priority"
        if self.machines is None:
            report_progress(Progress(doing="building the network"))
            return here_for(*plans, mtu=self.mtu, priority=priority)
        from testbed.machines.adapters.distributed_network import over_machines

        options = _network_options(plans, self.mtu, priority)
        return over_machines(self.machines, report_progress=report_progress, **options)

    def _recordings_and_tcp(
        self, platform: Platform, plan: StreamPlan
    ) -> AbstractContextManager[JsonObject]:
        """Start the recordings, and send TCP traffic while the context is active.

        The value of the context is the dictionary of ``tcp_between``.
        """
        if not isinstance(platform, Here):
            return nullcontext({})
        net = platform.network
        for link, path in self.pcap.items():
            net.start_capture(link, path)
        if plan.changes and self.background_bps > 0:
            raise InputError(
                "background traffic: not while nodes move, only the stream's own rules follow them"
            )
        ends = (plan.source, plan.sink)
        return tcp_between(
            net, platform.wiring, ends, self.background_bps, self.background_connections
        )


def _ignore_progress(progress: Progress) -> None:
    pass


def _install_routes(platform: Platform, plans: Sequence[StreamPlan]) -> None:
    """Install the rules of streams whose nodes do not move."""
    for plan_id, plan in enumerate(plans, start=1):
        rules, routes = split_rules(platform.wiring, plan.forward, plan.backward)
        platform.install(rules, plan_id=plan_id)
        platform.route(routes)


def here_for(
    *plans: StreamPlan, mtu: int = 1500, priority: bool = False
) -> AbstractContextManager[Here]:
    """Build the network of the plans on this machine (see ``here``).

    Args:
        plans: The plans, all on one network.
        mtu: Maximum size of an IP packet on every link, in bytes.
        priority: Streams are sent before other traffic.
    """
    return here(**_network_options(plans, mtu, priority), seed=plans[0].seed)


def _network_options(plans: Sequence[StreamPlan], mtu: int, priority: bool) -> JsonObject:
    """Return the fields of ``PartitionSpec`` for the network of the plans."""
    ends: list[str] = []
    for plan in plans:
        ends += [plan.source, plan.sink]
    return {
        "wiring": wire(plans[0].network, tuple(ends)),
        "mtu": mtu,
        "first_udp_port": STREAM_UDP_PORT if priority else None,
        "talking": tuple(ends),
    }


def streams_over(
    platform: Platform,
    plans: Sequence[StreamPlan],
    report_progress: ReportProgress,
    injector: FaultInjector,
    movement: MobileRoutes | None = None,
    on_start: Callable[[Platform], object] | None = None,
) -> tuple[StreamMeasurements, ...]:
    """Run streams on a network whose first rules are installed.

    Args:
        platform: The network.
        plans: The plans of the streams. Their faults and route changes are those of the first one.
        report_progress: Receives the progress.
        injector: Injects the faults.
        movement: Makes the route changes; None if there are none.
        on_start: Called when the streams have started.
    """
    run = _Run(platform, plans, report_progress)
    with platform.running(run.until_now):
        return run.measure(injector, movement, on_start)


class _End(NamedTuple):
    """One end point of a stream.

    Attributes:
        machine: The number of its machine.
        role: SENDER or RECEIVER.
        number: The number of the stream.
    """

    machine: int
    role: str
    number: int


class _Conditions(NamedTuple):
    """The measurements that all streams of a run have in common.

    Attributes:
        faults: When the faults happened.
        changes: When the routes changed.
        busy: Share of the processors that was in use.
        switch_drops: Number of packets that the switches dropped.
        machines: Report on the machines; None if there is only one.
        facts: Properties of the network and its machines, which are added to the counters.
    """

    faults: tuple[FaultTimes, ...]
    changes: tuple[ChangeTimes, ...]
    busy: float
    switch_drops: int
    machines: MachinesReport | None
    facts: Json


class _Run:
    """One run of the streams of the plans on a network."""

    def __init__(
        self, platform: Platform, plans: Sequence[StreamPlan], report_progress: ReportProgress
    ) -> None:
        self._platform = platform
        self._plans = plans
        self._report_progress = report_progress
        self._schedule: FaultSchedule | None = None
        # Receivers come first, so that they are prepared and started before the senders.
        self._ends: list[_End] = []
        for number, plan in enumerate(plans):
            self._ends.append(_End(platform.machine_of(plan.sink), RECEIVER, number))
        for number, plan in enumerate(plans):
            self._ends.append(_End(platform.machine_of(plan.source), SENDER, number))

    def measure(
        self,
        injector: FaultInjector,
        movement: MobileRoutes | None,
        on_start: Callable[[Platform], object] | None,
    ) -> tuple[StreamMeasurements, ...]:
        """Run the streams and return one measurement for each."""
        platform = self._platform
        plan = self._plans[0]
        drops_before = platform.switch_drops()
        platform.network.prepare_impairments(plan.faults)
        self._prepare_ends()
        self._report_progress(platform.live(read_ends, Progress(doing="streaming")))
        start_s = platform.start()
        starts = [("begin", platform.start_on(end.machine)) for end in self._ends]
        self._request(_REQUEST_LIMIT_S, ask_end, starts)
        with ExitStack() as stack:
            self._schedule = FaultSchedule(platform.network, plan.faults, start_s, injector)
            schedule = stack.enter_context(self._schedule)
            if movement is not None:
                stack.callback(movement.stop)
                movement.start(start_s)
            if on_start is not None:
                on_start(platform)
            watch_run(start_s, plan.duration_s, schedule, self._report_progress, self._check)
            answers = self._ask(_RESULT_LIMIT_S, "result")
            if any(fault.stop_s > plan.duration_s for fault in plan.faults):
                # These faults end with the stream.
                schedule.stop()
            schedule.join()
            if movement is not None:
                movement.join()
        results = dict(zip(self._ends, answers, strict=True))
        changes = () if movement is None else movement.times()
        conditions = self._conditions(start_s, schedule, changes, drops_before)
        measurements = []
        for number in range(len(self._plans)):
            measurements.append(self._measurements(number, results, conditions))
        return tuple(measurements)

    def _prepare_ends(self) -> None:
        """Start the processes of all end points, and wait until they are prepared."""
        keys = [secrets.token_bytes(KEY_BYTES) for _ in self._plans]
        arguments = [(self._plans[end.number], keys[end.number]) for end in self._ends]
        self._request(_PREPARE_LIMIT_S, open_end, arguments)
        self._ask(_PREPARE_LIMIT_S, "wait_until_ready")

    def _conditions(
        self,
        start_s: float,
        schedule: FaultSchedule,
        changes: tuple[ChangeTimes, ...],
        drops_before: Sequence[int],
    ) -> _Conditions:
        """Return what all streams have in common, after the run.

        Args:
            start_s: The start of the streams on the monotonic clock.
            schedule: The faults, which are over.
            changes: When the routes changed.
            drops_before: Packets that each machine's switches had dropped before the run.

        Raises:
            InvalidRunError: The machines' clocks were not known well enough, or the network between
                the machines lost too much.
        """
        platform = self._platform
        events = platform.port_events()
        busy = platform.busy()
        faults = []
        for times in schedule.times():
            faults.append(with_port_status(times, events, platform.wiring, start_s))
        drops = []
        for after, before in zip(platform.switch_drops(), drops_before, strict=True):
            drops.append(after - before)
        report = platform.report(sum(2 * plan.stream.rate_pps for plan in self._plans))
        facts: JsonObject
        if report is None:
            (facts,) = platform.all(network_facts)
        else:
            for clock in report.clocks:
                require_clock(clock, CLOCKS_WITHIN_S, "the stream's faults and playback")
            facts = {
                **report.to_json(),
                "switch_drops": dict(zip(platform.names, drops, strict=True)),
            }
        return _Conditions(
            faults=tuple(faults),
            changes=changes,
            busy=busy,
            switch_drops=sum(drops),
            machines=report,
            facts=facts,
        )

    def _ask(self, limit_s: float, method: str, *arguments: object) -> list[Any]:
        """Call a method of all ``EndpointProcess`` at once, and return the results."""
        return self._request(limit_s, ask_end, [(method, *arguments)] * len(self._ends))

    def _request(
        self, limit_s: float, request: Callable[..., Any], arguments: Sequence[tuple[object, ...]]
    ) -> list[Any]:
        """Send a request to all end points at once, and return their answers.

        The requests to one machine are carried out in order.

        Args:
            limit_s: Time limit of each answer.
            request: A function of ``testbed.stream.emulated.endpoints``.
            arguments: The further arguments for each end point.
        """
        answers = []
        for end, further in zip(self._ends, arguments, strict=True):
            answer = self._platform.call(end.machine, request, end.role, end.number, *further)
            answers.append(answer)
        return [answer.result(limit_s) for answer in answers]

    def _check(self, now_s: float) -> None:
        """Check that the machines and the end points are alive."""
        self._platform.check()
        self._ask(_REQUEST_LIMIT_S, "check", now_s)

    def until_now(self) -> dict[str, object]:
        """Return the measurements of a run that a machine's death ended: the faults until then."""
        faults = []
        if self._schedule is not None:
            for times in self._schedule.times():
                faults.append(
                    {
                        "link": label_of(times.fault.link),
                        "start_s": times.start_s,
                        "stop_s": times.stop_s,
                    }
                )
        return {"faults": faults}

    def _measurements(
        self,
        number: int,
        results: Mapping[_End, SenderResult | ReceiverResult],
        conditions: _Conditions,
    ) -> StreamMeasurements:
        """Return the measurements of one stream."""
        plan = self._plans[number]
        platform = self._platform
        source = platform.machine_of(plan.source)
        sink = platform.machine_of(plan.sink)
        sent = results[_End(source, SENDER, number)]
        received = results[_End(sink, RECEIVER, number)]
        assert isinstance(sent, SenderResult)
        assert isinstance(received, ReceiverResult)
        packets = replace(sent.log, time_s=platform.after_start(source, sent.log.time_s))
        arrivals = replace(received.log, time_s=platform.after_start(sink, received.log.time_s))
        clocks = ONE_CLOCK
        if conditions.machines is not None:
            machine_clocks = conditions.machines.clocks
            clocks = StreamClocks(
                sender_s=machine_clocks[source].uncertainty_s,
                receiver_s=machine_clocks[sink].uncertainty_s,
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
            news=_on_common_clock(platform, source, sent.news),
            health=RunHealth(
                sender_lag_s=sent.worst_lag_s,
                unplanned_drops=received.socket_drops + conditions.switch_drops,
                cpu_fraction=conditions.busy,
                notes=foreign_notes({**sent.counters, **received.counters}),
            ),
            counters={**sent.counters, **received.counters, **conditions.facts},
        )


def _on_common_clock(platform: Platform, machine: int, log: LossReportLog) -> LossReportLog:
    """Convert the times of a log to the coordinator's clock."""

    def convert(times_s: FloatArray) -> FloatArray:
        # Infinity means that something never happened, and stays.
        finite_s = np.nan_to_num(times_s, posinf=0, neginf=0)
        return np.where(np.isfinite(times_s), platform.after_start(machine, finite_s), times_s)

    return replace(
        log,
        told_s=convert(log.told_s),
        newest_s=convert(log.newest_s),
        lost_s=convert(log.lost_s),
        came_s=convert(log.came_s),
    )


def with_port_status(
    times: FaultTimes, events: tuple[PortEvent, ...], wiring: Wiring, start: float
) -> FaultTimes:
    """Add the time at which a switch first notified the controller of the failure.

    Args:
        times: When the fault happened.
        events: The notifications of all switches.
        wiring: The network's hosts and cables.
        start: The start of the stream on the monotonic clock, in seconds.

    Returns:
        The times unchanged if no port of the cable went down during the fault.
    """
    failed_cable = wiring.cable_of(times.fault.link)
    ports = set()
    for port, cable in wiring.cables_by_port().items():
        if cable is failed_cable:
            ports.add(port)
    first_s = None
    for event in events:
        at_s = event.at_s - start
        if event.up or (event.dpid, event.port) not in ports:
            continue
        if at_s >= times.start_s - MAX_EARLY_S and (first_s is None or at_s < first_s):
            first_s = at_s
    if first_s is None or first_s > times.stop_s:
        return times
    return replace(times, port_status_s=first_s)
