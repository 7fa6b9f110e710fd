"""Runs one bulk plan on a network of switches that is up.

Standing rules let all connections be established. In circuit switching they are then removed, so
that data is forwarded only while its circuit exists. The coordinator (``testbed.bulk.coordinator``)
controls the run, and ``CircuitDriver`` executes its decisions.
"""

import random
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path

from testbed.bulk.calibration import (
    CalibrationJob,
    calibrate,
    calibration_ends,
    message_counts,
    recalibrate,
    uncalibrated,
)
from testbed.bulk.circuit_rules import packet_switching_rules, shared_return_rules
from testbed.bulk.coordinator import BulkCoordinator, Circuit, OnDeadlock
from testbed.bulk.emulated.agent_process import PipeEnd
from testbed.bulk.emulated.endpoints import BulkEndpoints, Retransmissions
from testbed.bulk.emulated.injection import InjectionChoice, inject
from testbed.bulk.emulated.switchboard import CircuitDriver, CircuitSwitchboard
from testbed.bulk.measurements import (
    ETHERNET_BYTES,
    HEADERS_BYTES,
    INNER_HEADERS_BYTES,
    BulkMeasurements,
    Goodput,
    TcpRetransmissions,
)
from testbed.bulk.messages import ConnectionBroke, MessageDone, MessageSet, Pacing, Payloads
from testbed.bulk.plan import BulkPlan, Ends, Pair
from testbed.bulk.plan import Path as LinkPath
from testbed.emulation.control.fault_injection import FaultSchedule
from testbed.emulation.machine.load_monitor import LoadMonitor
from testbed.errors import InputError, InvalidRunError
from testbed.machines.adapters.platform import FromParts, Platform
from testbed.machines.adapters.rpc_network import read_links
from testbed.model.progress import CounterReading, Progress, ReportProgress
from testbed.openflow.rules import FlowRule
from topologies import LinkId, label_of, reverse_of

# The block of pseudo-random content is longer than a message by this, so that messages differ.
_WINDOWS = 1 << 20
# How long a calibration may wait for a message, in addition to the duration of its messages.
_CALIBRATION_S = 10.0
_CALIBRATION_TIMES_MESSAGE = 3
# The run ends if nothing arrives for this time, or for the duration of this number of messages.
_MIN_STALL_S = 10.0
_STALL_MESSAGES = 25
# Acknowledgements may exceed what a link has left for them by this share of its rate. It is half of
# the tolerance of the check of the throughput of an order.
_ACKNOWLEDGEMENT_EXCESS = 0.05
# How long the injection of packets may take.
_INJECT_S = 30.0


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Options of runs, which apply to every plan.

    Attributes:
        on_deadlock: What happens when a cycle of waiting transfers closes.
        store: The directory in which complete messages are stored, or None.
        calibrate: Whether the goodput is measured. Otherwise it is the rate of the link.
    """

    on_deadlock: OnDeadlock = "retreat"
    store: Path | None = None
    calibrate: bool = True


class BulkRun(FromParts):
    """One run of a plan, as a context manager.

    Inside it, all connections are established. In circuit switching, no data is forwarded without a
    circuit.
    """

    def __init__(
        self,
        platform: Platform,
        plan: BulkPlan,
        report_progress: ReportProgress,
        options: RunOptions,
    ) -> None:
        """Prepare a run.

        Args:
            platform: The network.
            plan: The plan.
            report_progress: Called with the progress of the run.
            options: How the plan is run.
        """
        self._platform = platform
        self._plan = plan
        self._report_progress = report_progress
        self._options = options
        self._circuits = plan.switching == "circuit"
        stall_s = max(_MIN_STALL_S, _STALL_MESSAGES * plan.message_s)
        self._coordinator = BulkCoordinator(plan, on_deadlock=options.on_deadlock, stall_s=stall_s)
        self._messages = _messages(plan, options, platform.network.mtu)
        # Each message of a calibration is sent once.
        self._calibration_messages = iter(range(len(plan.transfers), len(self._messages.ends)))
        self._to_kill = sorted(plan.killed, key=attrgetter("at_s"))
        self._choice = InjectionChoice(plan)
        self._to_inject = plan.injected if self._circuits else 0
        self._injected = 0

    def _build(self, parts: ExitStack) -> None:
        plan = self._plan
        wiring = self._platform.wiring
        if self._circuits:
            require_room_for_acknowledgements(plan, self._platform.network.mtu)
        if wiring.routed and plan.parts > 1:
            raise InputError(
                "--parts: hosts with several cables, or that forward, send a pair's packets one way"
                " only"
            )
        self._switchboard = CircuitSwitchboard(
            self._platform, [(t.source, t.sink) for t in plan.transfers]
        )
        parts.callback(self._switchboard.close)
        paths_of_parts: list[dict[Pair, LinkPath]] = [{} for _ in range(plan.parts)]
        for transfer in plan.transfers:
            paths_of_parts[transfer.part][transfer.source, transfer.sink] = transfer.path
        self._switchboard.set_paths(paths_of_parts[0])
        # Data needs rules until all connections are established; in packet switching, until the
        # end.
        data_rules: list[FlowRule] = []
        standing_rules: list[FlowRule] = []
        for part, paths in enumerate(paths_of_parts):
            data_rules += packet_switching_rules(wiring, paths, part)
            standing_rules += shared_return_rules(wiring, paths, part)
        rules = (*standing_rules, *data_rules)
        self._switchboard.change_rules(rules, "add")
        # Switches must not drop this run's first packets because they dropped those of a previous
        # run.
        self._switchboard.flush_flow_cache()
        parts.callback(self._switchboard.change_rules, rules, "remove")
        self._report_progress(Progress(doing="connecting"))
        self._endpoints = BulkEndpoints(self._platform, plan, self._messages)
        parts.callback(self._endpoints.close)
        if self._circuits:
            self._switchboard.change_rules(data_rules, "remove")
            self._switchboard.flush_flow_cache()
            self._switchboard.prepare(map(self._circuit, range(len(plan.transfers))))

    def _circuit(self, transfer: int) -> Circuit:
        planned = self._plan.transfers[transfer]
        return Circuit(transfer=transfer, path=planned.path, part=planned.part)

    def calibrate(self) -> Goodput:
        """Measure the goodput before the run.

        Raises:
            InvalidRunError: The machine cannot carry a time frame.
        """
        if not self._options.calibrate:
            return uncalibrated(self._plan)
        self._report_progress(Progress(doing="calibrating"))
        return calibrate(self._plan, self._measure)

    def calibrate_again(self, first: Goodput) -> Goodput:
        """Measure the goodput after the run.

        Args:
            first: The goodput before the run.

        Returns:
            The slower one. It is ``first`` if faults have changed the network.
        """
        if not self._options.calibrate or self._plan.faults:
            return first
        return recalibrate(self._plan, self._measure, first)

    def _measure(self, job: CalibrationJob) -> float:
        """Carry out a job of the calibration.

        Returns:
            Payload bits a second of the path that falls shortest of its rate, as if it had the
            rate ``plan.link_rate_bps``.

        Raises:
            InvalidRunError: No message arrives for a long time.
        """
        plan = self._plan
        counts = message_counts(plan, job)
        circuits = [self._circuit(transfer) for transfer in job.transfers]
        if self._circuits:
            self._switchboard.start_change(circuits, ())
            self._switchboard.wait()
        limit_s = _CALIBRATION_S + job.count * _CALIBRATION_TIMES_MESSAGE * plan.message_s
        durations_s = self._send_calibration(counts, limit_s)
        if self._circuits:
            self._switchboard.start_change((), circuits)
            self._switchboard.wait()
        shares = []
        for transfer, count in counts.items():
            shares.append(count * plan.transfer_s[transfer] / durations_s[transfer])
        return min(shares) * plan.link_rate_bps

    def _send_calibration(self, counts: Mapping[int, int], limit_s: float) -> dict[int, float]:
        """Send the messages of a calibration, and wait until all have arrived.

        Args:
            counts: The number of messages over the path of each transfer.
            limit_s: How long to wait for a message.

        Returns:
            The seconds until the last message of each transfer arrived.

        Raises:
            InvalidRunError: No message arrives in time.
        """
        transfer_of_message: dict[int, int] = {}
        for transfer, count in counts.items():
            for _ in range(count):
                transfer_of_message[next(self._calibration_messages)] = transfer
        began_s = time.monotonic()
        durations_s = dict.fromkeys(counts, 0.0)
        self._endpoints.send([(number, 1) for number in sorted(transfer_of_message)])
        while transfer_of_message:
            completed = self._endpoints.completed(limit_s)
            if not completed:
                raise InvalidRunError(
                    f"the machine could not keep up: nothing arrived for {limit_s:.0f} s of"
                    " calibration"
                )
            for message in completed:
                arrived = transfer_of_message.pop(message.transfer, None)
                if arrived is not None:
                    duration_s = message.at_s - began_s
                    durations_s[arrived] = max(durations_s[arrived], duration_s)
        return durations_s

    def carry_out(self, goodput: Goodput) -> BulkMeasurements:
        """Carry out the run until the coordinator ends it.

        Args:
            goodput: The goodput before the run.

        Returns:
            The measurements, without the network's own counters.
        """
        retransmitted_before = self._endpoints.retransmitted()
        changes_before = self._switchboard.changes
        self._switchboard.slowest_change_s = 0.0
        self._switchboard.circuit_change_s = 0.0
        self._report_progress(self._platform.live(read_links, Progress(doing="sending")))
        with LoadMonitor() as monitor:
            self._drive()
        records = self._coordinator.records()
        done_s = [record.done_s for record in records if record.done_s is not None]
        retransmitted = retransmitted_since(retransmitted_before, self._endpoints.retransmitted())
        return BulkMeasurements(
            fabric="emulation",
            seconds=max(done_s, default=self._driver.ended_s),
            transfers=records,
            frame_times_s=self._coordinator.frame_times(),
            goodput=goodput,
            failure=self._driver.failure,
            deadlocks=tuple(self._coordinator.deadlocks),
            injected=self._injected,
            retransmitted=retransmitted,
            lost_links=tuple(dict.fromkeys(self._driver.lost_links)),
            rule_changes=self._switchboard.changes - changes_before,
            slowest_change_s=self._switchboard.slowest_change_s,
            circuit_change_s=self._switchboard.circuit_change_s,
            strain=monitor.strain,
        )

    def _drive(self) -> None:
        """Run the driver from the first to the last event."""
        self._start_s = time.monotonic()
        self._driver = CircuitDriver(
            self._coordinator, self._switchboard, self._endpoints.send, start_s=self._start_s
        )
        readers = {
            process.fileno(): partial(self._read, process) for process in self._endpoints.processes
        }
        with FaultSchedule(self._platform.network, self._plan.faults, self._start_s) as faults:
            self._driver.run(readers, partial(self._on_round, faults), self._next_kill_s)
        if self._driver.failure is None and not self._injected and self._to_inject:
            self._switchboard.flush_flow_cache()
            self._inject(ended=True)

    def _next_kill_s(self) -> float:
        return self._to_kill[0].at_s if self._to_kill else float("inf")

    def _on_round(self, faults: FaultSchedule) -> None:
        """Kill processes, inject packets, and report the progress."""
        while self._next_kill_s() <= self._driver.now_s:
            self._endpoints.kill(self._to_kill.pop(0).node)
        if not self._injected and self._to_inject:
            self._inject()
        arrived = self._coordinator.done
        total = len(self._plan.transfers)
        frame = self._coordinator.frames_open
        frames = len(self._plan.frames)
        reading = CounterReading(
            at_s=self._driver.now_s, frame=frame, frames=frames, faults=faults.in_force()
        )
        doing = f"{arrived} of {total} messages, time frame {frame} of {frames}"
        self._report_progress(Progress(done_s=arrived, total_s=total, doing=doing, reading=reading))

    def _read(self, process: PipeEnd) -> None:
        """Report the events of a process to the coordinator."""
        while process.has_report:
            try:
                report = process.receive()
            except EOFError:
                self._coordinator.on_endpoint_failed(process.nodes, self._driver.now_s)
                return
            if isinstance(report, MessageDone):
                self._choice.message_arrived(report.transfer)
                at_s = report.at_s - self._start_s
                self._coordinator.message_done(report.transfer, report.attempt, report.intact, at_s)
            elif isinstance(report, ConnectionBroke):
                self._coordinator.connection_broke(
                    report.transfer, report.attempt, self._driver.now_s
                )

    def _inject(self, *, ended: bool = False) -> None:
        """Inject packets without a circuit, if a pair of hosts is suitable now.

        Args:
            ended: Whether the run has ended.
        """
        pair = self._choice.pair(self._driver.now_s, self._coordinator.has_circuit, ended=ended)
        if pair is None:
            return
        machine = self._platform.machine_of(pair[0])
        path = next(t.path for t in self._plan.transfers if (t.source, t.sink) == pair)
        request = self._platform.call(machine, inject, pair, path, self._to_inject)
        self._injected = int(request.result(_INJECT_S))

    def deliveries(self) -> dict[int, int]:
        """Return how often each message was delivered; receivers that died are missing."""
        # The other messages are those of calibrations.
        count = len(self._plan.transfers)
        deliveries = self._endpoints.deliveries()
        return {number: times for number, times in deliveries.items() if number < count}


def circuit_share(mtu: int) -> float:
    """Return the share of a link's rate at which a circuit sends payload.

    At this rate, data fills a cable together with an acknowledgement of each packet of the other
    direction. If it were higher, the sender's queue would grow until it drops packets, or delays
    acknowledgements beyond TCP's time-out.

    Args:
        mtu: The size of a packet in bytes.
    """
    return (mtu - INNER_HEADERS_BYTES) / (mtu + ETHERNET_BYTES + HEADERS_BYTES)


def require_room_for_acknowledgements(plan: BulkPlan, mtu: int) -> None:
    """Raise InputError for a link that cannot carry the acknowledgements of the other direction.

    The receiver acknowledges every second packet. If a link is much slower than the other direction
    of its cable, these acknowledgements leave less room for data than the prediction assumes.
    """
    data_bps: dict[LinkId, float] = {}
    for transfer in plan.transfers:
        for link in transfer.path:
            circuit_bps = plan.path_rate_bps(transfer.path)
            data_bps[link] = max(data_bps.get(link, 0.0), circuit_bps)
    packet_bytes = mtu + ETHERNET_BYTES
    for forward, forward_bps in data_bps.items():
        link = reverse_of(forward)
        # A link without a reverse link is refused when the rules of acknowledgements are created.
        rate_bps = plan.rates_bps.get(link, forward_bps)
        acknowledged_bps = forward_bps * HEADERS_BYTES / 2 / packet_bytes
        own_bps = data_bps.get(link, 0.0) * packet_bytes / (packet_bytes + HEADERS_BYTES)
        if acknowledged_bps + own_bps > (1 + _ACKNOWLEDGEMENT_EXCESS) * rate_bps:
            raise InputError(
                f"{label_of(link)} is too slow for the acknowledgements of {label_of(forward)},"
                f" which is {forward_bps / rate_bps:.3g} times as fast; give both directions"
                " similar rates, or all links one rate with --link-rate"
            )


def pacing_of(plan: BulkPlan, mtu: int) -> dict[Ends, Pacing]:
    """Return the rates at which the connections of the plan send over their circuits."""
    share = circuit_share(mtu)
    pacing = {}
    for transfer in plan.transfers:
        first_bps = plan.path_rate_bps(transfer.path)
        # A message that is sent again may have to take the other path.
        again_bps = min(first_bps, plan.path_rate_bps(transfer.alternative or transfer.path))
        pacing[transfer.ends] = Pacing(first_bps=first_bps * share, again_bps=again_bps * share)
    return pacing


def _messages(plan: BulkPlan, options: RunOptions, mtu: int) -> MessageSet:
    """Return the plan's messages, then those of the calibrations."""
    ends = [transfer.ends for transfer in plan.transfers]
    if options.calibrate:
        ends += calibration_ends(plan)
    block = random.Random(plan.seed).randbytes(plan.message_bytes + _WINDOWS)
    return MessageSet(
        ends=tuple(ends),
        payloads=Payloads(block, plan.message_bytes),
        message_bytes=plan.message_bytes,
        pacing=pacing_of(plan, mtu) if plan.switching == "circuit" else {},
        store=options.store,
        stored=len(plan.transfers),
    )


def retransmitted_since(before: Retransmissions, after: Retransmissions) -> Retransmissions:
    """Return the retransmissions between two counts.

    A connection that was established again between the counts has been counted from its beginning.
    If its count is lower than before, its retransmissions are 0.
    """
    retransmitted = {}
    for number, counts in after.items():
        earlier = before.get(number, TcpRetransmissions())
        differences = [max(0, now - then) for now, then in zip(counts, earlier, strict=True)]
        retransmitted[number] = TcpRetransmissions(*differences)
    return retransmitted
