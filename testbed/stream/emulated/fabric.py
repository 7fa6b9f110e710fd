"""The emulated fabric: runs a streaming plan on real switches, one process at each end of the stream, faults in between.

Nothing is decided here: rules come from testbed.openflow, packets from fec.protocol.sender, faults from the plan.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

from fec.protocol.wire import STREAM_UDP_PORT
from testbed.emulation.control.controller_link import ControllerLink, PortEvent
from testbed.emulation.control.fault_injection import CableBreaker, FaultSchedule
from testbed.emulation.machine.processor_load import busy_share, processor_times
from testbed.emulation.network.emulated_network import EmulatedNetwork
from testbed.emulation.network.links import LinkMeter
from testbed.errors import InvalidRunError
from testbed.faults.fault_times import ChangeTimes, FaultTimes
from testbed.model.progress import Progress, Reading, ReportProgress
from testbed.model.wiring import Wiring, wire
from testbed.openflow.rules import FlowRule, stream_rules
from testbed.stream.emulated.background_traffic import background_tcp
from testbed.stream.emulated.endpoints import (
    KEY_BYTES,
    EndpointProcess,
    ReceiverResult,
    SenderResult,
    receiver_process,
    sender_process,
)
from testbed.stream.emulated.mobile_routes import MobileRoutes
from testbed.stream.endpoints import strangers
from testbed.stream.judgement.recording import block_outcomes
from testbed.stream.measurements import RELAYED, RunHealth, StreamMeasurements
from testbed.stream.plan import StreamPlan
from testbed.stream.planning import check_together
from topologies.network import LinkId

_FIRST = -10
"""Nice value of everything that has to be in time."""
_LEAD_S = 0.15
"""Between the end points' being ready and the stream's time zero."""


def plan_rules(plan: StreamPlan, wiring: Wiring) -> tuple[FlowRule, ...]:
    """The rules of the stream there and of its loss reports back."""
    return (
        *stream_rules(wiring, plan.forward, udp_port=STREAM_UDP_PORT),
        *stream_rules(wiring, plan.backward, udp_port=STREAM_UDP_PORT),
    )


class EmulatedStreamFabric:
    """Builds the network, installs the rules, streams, breaks links, measures; inside the sandbox only.

    ``mtu`` in bytes; ``pcap``: files to record, one a link. ``background_bps``: TCP at this rate, on so many connections, between
    the (first) stream's end points, over the path of label 0; 0 for none. ``queues``: "priority" lets coded streams go before TCP on every link.
    """

    name = "emulation"

    def __init__(
        self,
        *,
        mtu: int = 1500,
        pcap: Mapping[LinkId, Path] | None = None,
        background_bps: float = 0.0,
        background_connections: int = 1,
        queues: Literal["fifo", "priority"] = "fifo",
    ) -> None:
        self.mtu = mtu
        self.queues = queues
        self.background_bps = background_bps
        self.background_connections = background_connections
        self.pcap = pcap or {}

    def run(self, plan: StreamPlan, progress: ReportProgress | None = None) -> StreamMeasurements:
        """One plan on a network of its own. Raises CapabilityError where this machine cannot do what the plan asks."""
        return self.run_together((plan,), progress)[0]

    def run_together(
        self, plans: Sequence[StreamPlan], progress: ReportProgress | None = None
    ) -> tuple[StreamMeasurements, ...]:
        """Several streams at once on one network under the same faults, background TCP beside them if asked for.

        InputError where the plans do not fit together. Route changes are played for a single stream only.
        """
        check_together(plans)
        plan, report_progress = plans[0], progress or (lambda _: None)
        report_progress(Progress(done_s=0, total_s=plan.duration_s, doing="building the network"))
        with running_network(*plans, mtu=self.mtu, priority=self.queues == "priority") as network:
            net, controller, wiring = network
            breaker = CableBreaker(net)
            movement = MobileRoutes(breaker, controller, wiring, plan) if plan.changes or plan.absent else None
            if movement is None:
                for number, one in enumerate(plans):
                    controller.install(plan_rules(one, wiring), plan_id=number + 1)
            else:
                movement.install_first()
            for link, path in self.pcap.items():
                net.start_capture(link, path)
            with background_tcp(net, wiring, plan, self.background_bps, self.background_connections) as carried:
                found = streams_over(network, plans, report_progress, breaker, movement)
            return tuple(replace(one, counters={**one.counters, **carried}) for one in found)


class RunningNetwork(NamedTuple):
    """A network that is up, its controller and how it is wired."""

    net: EmulatedNetwork
    controller: ControllerLink
    wiring: Wiring


@contextmanager
def running_network(*plans: StreamPlan, mtu: int = 1500, priority: bool = False) -> Iterator[RunningNetwork]:
    """The plans' network, up, with every switch connected to its controller. ``priority``: streams go before other traffic."""
    ends = [end for plan in plans for end in (plan.source, plan.sink)]
    wiring = wire(plans[0].network, ends)
    with ExitStack() as stack:
        controller = ControllerLink()
        controller.start()
        stack.callback(controller.stop)
        network = EmulatedNetwork(
            wiring,
            mtu=mtu,
            controller_port=controller.port,
            before_bridges=controller.wait_until_ready,
            first_udp_port=STREAM_UDP_PORT if priority else None,
            talking=ends,
        )
        network.impairment_seed = plans[0].seed
        net = stack.enter_context(network)
        controller.wait_for_switches([s.dpid for s in wiring.switches])
        yield RunningNetwork(net, controller, wiring)


def streams_over(
    network: RunningNetwork,
    plans: Sequence[StreamPlan],
    report_progress: ReportProgress,
    breaker: CableBreaker,
    movement: MobileRoutes | None = None,
) -> tuple[StreamMeasurements, ...]:
    """Run the plans' streams, their common faults and route changes on a network whose first rules are installed."""
    net, controller, wiring = network
    before, dropped, plan = processor_times(), net.switch_drops(), plans[0]
    net.prepare_impairments(plan.faults)
    with ExitStack() as stack:
        stack.enter_context(going_first(controller.pid))
        keyed = [(one, secrets.token_bytes(KEY_BYTES)) for one in plans]
        receivers = [stack.enter_context(receiver_process(net, wiring, *one)) for one in keyed]
        senders = [stack.enter_context(sender_process(net, wiring, *one)) for one in keyed]
        for end in (*receivers, *senders):
            end.wait_until_ready()
        look = partial(_look, net.link_meter(), senders, receivers)
        report_progress(Progress(done_s=0, total_s=plan.duration_s, doing="streaming", look=look))
        start = time.monotonic() + _LEAD_S
        for end in (*receivers, *senders):
            end.begin(start)
        schedule = FaultSchedule(net, plan.faults, start, breaker)
        stack.callback(schedule.stop)
        schedule.start()
        if movement is not None:
            stack.callback(movement.stop)
            movement.start(start)
        _watch(plan, start, (*senders, *receivers), schedule, report_progress)
        results = [(sender.result(), receiver.result()) for sender, receiver in zip(senders, receivers, strict=True)]
        schedule.join()
        if movement is not None:
            movement.join()
    port_events, busy = controller.port_events(), busy_share(before, processor_times())
    faults = tuple(with_port_status(t, port_events, wiring, start) for t in schedule.times())
    changes = movement.times() if movement is not None else ()
    impaired = {name: asdict(report) for name, report in net.impairment_reports().items()}
    conditions = _Conditions(faults, changes, busy, net.datapath, net.switch_drops() - dropped, impaired)
    return tuple(_measurements(one, *ends, conditions) for one, ends in zip(plans, results, strict=True))


class _Conditions(NamedTuple):
    """What all streams of a run have in common."""

    faults: tuple[FaultTimes, ...]
    changes: tuple[ChangeTimes, ...]
    busy: float
    datapath: str
    switch_drops: int
    impaired: dict[str, dict[str, float]]


@contextmanager
def going_first(controller_pid: int) -> Iterator[None]:
    """Meanwhile this process, which notes when faults and changes are in force, and the controller go before other programs."""
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    with suppress(PermissionError):  # an ordinary user's processes wait their turn
        for thread in (0, *(int(p.name) for p in Path(f"/proc/{controller_pid}/task").iterdir())):
            with suppress(ProcessLookupError):  # a thread of the controller that has ended since
                os.setpriority(os.PRIO_PROCESS, thread, _FIRST)  # of one thread; those that it starts inherit it
    try:
        yield
    finally:
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, usual)


def _measurements(
    plan: StreamPlan, sent: SenderResult, received: ReceiverResult, conditions: _Conditions
) -> StreamMeasurements:
    packets, arrivals = sent.log, received.log
    return StreamMeasurements(
        fabric="emulation",
        sent=packets,
        received=arrivals,
        blocks=block_outcomes(packets, arrivals, plan.stream.source_packets, plan.stream.playback_s),
        faults=conditions.faults,
        changes=conditions.changes,
        news=sent.news,
        health=RunHealth(
            sender_lag_s=sent.worst_lag_s,
            unplanned_drops=received.socket_drops + conditions.switch_drops,
            cpu_fraction=conditions.busy,
            notes=strangers({**sent.counters, **received.counters}),
        ),
        counters={
            **sent.counters,
            **received.counters,
            "datapath": conditions.datapath,
            **({RELAYED: conditions.impaired} if conditions.impaired else {}),
        },
    )


def _look(meter: LinkMeter, senders: Sequence[EndpointProcess], receivers: Sequence[EndpointProcess]) -> Reading:
    """What the links' counters and the end points' gauges say now: packets of all streams, N of the first one."""
    sent, received = ([end.gauge for end in ends if end.gauge is not None] for ends in (senders, receivers))
    return Reading(
        received=int(sum(gauge[0] for gauge in received)),
        sent=int(sum(gauge[0] for gauge in sent)),
        block_size=sent[0][1] or None,
        link_bytes=meter.carried_bytes(),
        down=meter.without_carrier(),
    )


def _watch(
    plan: StreamPlan,
    start: float,
    ends: tuple[EndpointProcess, ...],
    schedule: FaultSchedule,
    report_progress: ReportProgress,
) -> None:
    """Show progress until the stream's end; an end point that dies ends the run as invalid."""
    while (now := time.monotonic() - start) < plan.duration_s:
        for end in ends:
            if not end.alive and now < plan.duration_s - 0.05 and not end.finished:
                raise InvalidRunError(f"the {end.role} ended early, {now:.1f} s into the stream: {end.error()}")
        failing = schedule.in_force()
        reading = Reading(at_s=max(0.0, now), faults=failing)
        doing = failing[0] if failing else "streaming"
        report_progress(Progress(done_s=max(0.0, now), total_s=plan.duration_s, doing=doing, reading=reading))
        time.sleep(min(0.1, max(0.0, plan.duration_s - now)))


def with_port_status(times: FaultTimes, events: tuple[PortEvent, ...], wiring: Wiring, start: float) -> FaultTimes:
    """Add when a switch notified the controller of the failure (None: no port changed state)."""
    cable = wiring.cable_of(times.fault.link)
    ports = {
        (s.dpid, p)
        for s in wiring.switches
        for n, p in ((cable.a, cable.a_port), (cable.b, cable.b_port))
        if s.name == n
    }
    notified = [
        e.at_s - start
        for e in events
        if (e.dpid, e.port) in ports and not e.up and e.at_s - start >= times.start_s - 0.05
    ]
    first = min(notified, default=None)
    return times if first is None or first > times.stop_s else replace(times, port_status_s=first)
