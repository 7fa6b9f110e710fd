"""One bulk plan on a network of switches that is up: rules and processes made ready, calibrated, carried out.

Standing rules let every connection be made; in circuit switching they are then removed, so that data finds a way only
while its circuit stands. The run itself is the coordinator's (``testbed.bulk.coordinator``), driven by
``CircuitDriver``.
"""

import random
import time
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
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
from testbed.bulk.plan import BulkPlan, Ends
from testbed.emulation.control.fault_injection import FaultSchedule
from testbed.emulation.machine.load_monitor import LoadMonitor
from testbed.errors import InputError, InvalidRunError
from testbed.machines.adapters.platform import FromParts, Platform
from testbed.machines.adapters.rpc_network import read_links
from testbed.model.progress import CounterReading, Progress, ReportProgress
from topologies import LinkId, label_of, reverse_of

_WINDOWS = 1 << 20
"""Bytes by which the block of pseudo-random content is longer than a message."""
_CALIBRATION_S = 10.0
_MIN_STALL_S, _STALL_MESSAGES = 10.0, 25
# Acknowledgements may exceed what a link has left for them by this share of its rate. It is half of the tolerance of
# the check of the throughput of an order.
_ACKNOWLEDGEMENT_EXCESS = 0.05


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How to run a plan, whatever it says. ``calibrate`` false: goodput is taken to be the link's rate."""

    on_deadlock: OnDeadlock = "retreat"
    store: Path | None = None
    calibrate: bool = True


class BulkRun(FromParts):
    """A context manager: entered, all connections stand, and in circuit switching no data finds a way."""

    def __init__(
        self,
        platform: Platform,
        plan: BulkPlan,
        report_progress: ReportProgress,
        options: RunOptions,
    ) -> None:
        self._platform, self._plan = platform, plan
        self._report_progress, self._options = report_progress, options
        self._circuits = plan.switching == "circuit"
        stall_s = max(_MIN_STALL_S, _STALL_MESSAGES * plan.message_s)
        self._coordinator = BulkCoordinator(plan, on_deadlock=options.on_deadlock, stall_s=stall_s)
        self._messages = _messages(plan, options, platform.network.mtu)
        self._calibration_messages = iter(range(len(plan.transfers), len(self._messages.ends)))
        self._to_kill = sorted(plan.killed, key=lambda k: k.at_s)
        self._choice = InjectionChoice(plan)
        self._to_inject = plan.injected if self._circuits else 0
        self._injected = 0

    def _build(self, parts: ExitStack) -> None:
        plan, wiring = self._plan, self._platform.wiring
        if self._circuits:
            require_room_for_acknowledgements(plan, self._platform.network.mtu)
        if wiring.routed and plan.parts > 1:
            raise InputError(
                "--parts: hosts with several cables, or that forward, send a pair's packets one way only"
            )
        self._switchboard = CircuitSwitchboard(
            self._platform, [(t.source, t.sink) for t in plan.transfers]
        )
        parts.callback(self._switchboard.close)
        paths = [
            {(t.source, t.sink): t.path for t in plan.transfers if t.part == part}
            for part in range(plan.parts)
        ]
        # Ways back for acknowledgements; and for data while connections are made (packet switching: until the end).
        self._switchboard.set_paths(paths[0])
        data = [
            rule
            for part, own in enumerate(paths)
            for rule in packet_switching_rules(wiring, own, part)
        ]
        back = (
            rule
            for part, own in enumerate(paths)
            for rule in shared_return_rules(wiring, own, part)
        )
        rules = (*back, *data)
        self._switchboard.change_rules(rules, "add")
        self._switchboard.flush_flow_cache()  # drops of the run before are not for this one's first packets
        parts.callback(self._switchboard.change_rules, rules, "remove")
        self._report_progress(Progress(doing="connecting"))
        self._endpoints = BulkEndpoints(self._platform, plan, self._messages)
        parts.callback(self._endpoints.close)
        if self._circuits:
            self._switchboard.change_rules(data, "remove")
            self._switchboard.flush_flow_cache()
            self._switchboard.prepare(map(self._circuit, range(len(plan.transfers))))

    def _circuit(self, transfer: int) -> Circuit:
        planned = self._plan.transfers[transfer]
        return Circuit(transfer=transfer, path=planned.path, part=planned.part)

    def calibrate(self) -> Goodput:
        """Goodput before the run. Raises InvalidRunError where the machine cannot carry a time frame."""
        if not self._options.calibrate:
            return uncalibrated(self._plan)
        self._report_progress(Progress(doing="calibrating"))
        return calibrate(self._plan, self._measure)

    def calibrate_again(self, first: Goodput) -> Goodput:
        """Goodput after the run, the slower of both; ``first`` where the network is not what it was."""
        if not self._options.calibrate or self._plan.faults:
            return first
        return recalibrate(self._plan, self._measure, first)

    def _measure(self, job: CalibrationJob) -> float:
        """Carry a job of the calibration out.

        Returns:
            Payload bits a second of the path that falls shortest of its rate, as if it had the
            rate ``plan.link_rate_bps``.

        Raises:
            InvalidRunError: No message arrives for a long time.
        """
        plan = self._plan
        counts = message_counts(plan, job)
        path_of_message = {
            next(self._calibration_messages): transfer
            for transfer, count in counts.items()
            for _ in range(count)
        }
        circuits = [self._circuit(transfer) for transfer in job.transfers]
        if self._circuits:
            self._switchboard.start_change(circuits, ())
            self._switchboard.wait()
        limit_s = _CALIBRATION_S + job.count * 3 * plan.message_s
        began_s = time.monotonic()
        ended_s = dict.fromkeys(job.transfers, began_s)
        self._endpoints.send([(number, 1) for number in sorted(path_of_message)])
        while path_of_message:
            done = self._endpoints.completed(limit_s)
            if not done:
                raise InvalidRunError(
                    f"the machine could not keep up: nothing arrived for {limit_s:.0f} s of calibration"
                )
            for message in done:
                transfer = path_of_message.pop(message.transfer, None)
                if transfer is not None:
                    ended_s[transfer] = max(ended_s[transfer], message.at_s)
        if self._circuits:
            self._switchboard.start_change((), circuits)
            self._switchboard.wait()
        shares = [
            count * plan.transfer_s[transfer] / (ended_s[transfer] - began_s)
            for transfer, count in counts.items()
        ]
        return min(shares) * plan.link_rate_bps

    def carry_out(self, goodput: Goodput) -> BulkMeasurements:
        """The run itself, until the coordinator ends it; what the network's own counters say of it is not in yet."""
        retransmitted, changes = self._endpoints.retransmitted(), self._switchboard.changes
        self._switchboard.slowest_change_s = self._switchboard.circuit_change_s = 0.0
        self._report_progress(self._platform.live(read_links, Progress(doing="sending")))
        with LoadMonitor() as gauge:
            self._drive()
        driver, records = self._driver, self._coordinator.records()
        return BulkMeasurements(
            fabric="emulation",
            seconds=max(
                (r.done_s for r in records if r.done_s is not None), default=driver.ended_s
            ),
            transfers=records,
            frame_times_s=self._coordinator.frame_times(),
            goodput=goodput,
            failure=driver.failure,
            deadlocks=tuple(self._coordinator.deadlocks),
            injected=self._injected,
            retransmitted=retransmitted_since(retransmitted, self._endpoints.retransmitted()),
            lost_links=tuple(dict.fromkeys(driver.lost_links)),
            rule_changes=self._switchboard.changes - changes,
            slowest_change_s=self._switchboard.slowest_change_s,
            circuit_change_s=self._switchboard.circuit_change_s,
            strain=gauge.strain,
        )

    def _drive(self) -> None:
        """The run between its first and its last event."""
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
        while self._next_kill_s() <= self._driver.now_s:
            self._endpoints.kill(self._to_kill.pop(0).node)
        if not self._injected and self._to_inject:
            self._inject()
        done, total = self._coordinator.done, len(self._plan.transfers)
        frame, frames = self._coordinator.frames_open, len(self._plan.frames)
        reading = CounterReading(
            at_s=self._driver.now_s, frame=frame, frames=frames, faults=faults.in_force()
        )
        words = f"{done} of {total} messages, time frame {frame} of {frames}"
        self._report_progress(Progress(done_s=done, total_s=total, doing=words, reading=reading))

    def _read(self, process: PipeEnd) -> None:
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
        pair = self._choice.pair(self._driver.now_s, self._coordinator.has_circuit, ended=ended)
        if pair is not None:
            where = self._platform.machine_of(pair[0])
            path = next(t.path for t in self._plan.transfers if (t.source, t.sink) == pair)
            self._injected = int(
                self._platform.call(where, inject, pair, path, self._to_inject).result(30)
            )

    def deliveries(self) -> dict[int, int]:
        """Transfer -> how often its receiver delivered a whole and verified message; of receivers that live."""
        count = len(self._plan.transfers)
        return {
            number: times
            for number, times in self._endpoints.deliveries().items()
            if number < count
        }


def circuit_share(mtu: int) -> float:
    """Of a cable, payload that fills it together with an acknowledgement of each packet that comes the other way:
    faster, and the sender's own queue would grow until it drops, or delays acknowledgements beyond TCP's time-out."""
    return (mtu - INNER_HEADERS_BYTES) / (mtu + ETHERNET_BYTES + HEADERS_BYTES)


def require_room_for_acknowledgements(plan: BulkPlan, mtu: int) -> None:
    """Raise InputError for a link that cannot carry the acknowledgements of its cable's other direction.

    The receiver acknowledges every second packet. If a link is much slower than the other direction of its cable,
    these acknowledgements leave less room for data than the prediction assumes.
    """
    data_bps: dict[LinkId, float] = {}
    for transfer in plan.transfers:
        for link in transfer.path:
            circuit_bps = plan.path_rate_bps(transfer.path)
            data_bps[link] = max(data_bps.get(link, 0.0), circuit_bps)
    packet_bytes = mtu + ETHERNET_BYTES
    for forward, forward_bps in data_bps.items():
        link = reverse_of(forward)
        # A link without a way back is refused when the rules of acknowledgements are made.
        rate_bps = plan.rates_bps.get(link, forward_bps)
        acknowledged_bps = forward_bps * HEADERS_BYTES / 2 / packet_bytes
        own_bps = data_bps.get(link, 0.0) * packet_bytes / (packet_bytes + HEADERS_BYTES)
        if acknowledged_bps + own_bps > (1 + _ACKNOWLEDGEMENT_EXCESS) * rate_bps:
            raise InputError(
                f"{label_of(link)} is too slow for the acknowledgements of {label_of(forward)}, which is"
                f" {forward_bps / rate_bps:.3g} times as fast; give both directions similar rates, or all links one"
                " rate with --link-rate"
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
    """The plan's messages, then those that calibrating may take."""
    own = [t.ends for t in plan.transfers]
    block = random.Random(plan.seed).randbytes(plan.message_bytes + _WINDOWS)
    return MessageSet(
        ends=(*own, *(calibration_ends(plan) if options.calibrate else ())),
        payloads=Payloads(block, plan.message_bytes),
        message_bytes=plan.message_bytes,
        pacing=pacing_of(plan, mtu) if plan.switching == "circuit" else {},
        store=options.store,
        stored=len(own),
    )


def retransmitted_since(before: Retransmissions, after: Retransmissions) -> Retransmissions:
    """What was retransmitted between two counts; a connection that was made again in between counts from its beginning,
    or not at all where its count is lower now."""
    return {
        number: TcpRetransmissions(
            *(
                max(0, now - then)
                for now, then in zip(counts, before.get(number, TcpRetransmissions()), strict=True)
            )
        )
        for number, counts in after.items()
    }
