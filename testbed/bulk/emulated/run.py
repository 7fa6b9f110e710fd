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
from testbed.bulk.messages import ConnectionBroke, MessageDone, MessageSet, Payloads
from testbed.bulk.plan import BulkPlan
from testbed.emulation.control.fault_injection import FaultSchedule
from testbed.emulation.machine.load_monitor import LoadMonitor
from testbed.errors import InputError, InvalidRunError
from testbed.machines.adapters.platform import FromParts, Platform
from testbed.machines.adapters.rpc_network import read_links
from testbed.model.progress import CounterReading, Progress, ReportProgress

_WINDOWS = 1 << 20
"""Bytes by which the block of pseudo-random content is longer than a message."""
_CALIBRATION_S = 10.0
_MIN_STALL_S, _STALL_MESSAGES = 10.0, 25


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
        """Bits of payload a second of the slowest path. InvalidRunError where nothing arrives for long."""
        left = {next(self._calibration_messages) for _ in range(len(job.transfers) * job.count)}
        circuits = [self._circuit(transfer) for transfer in job.transfers]
        if self._circuits:
            self._switchboard.start_change(circuits, ())
            self._switchboard.wait()
        limit_s = _CALIBRATION_S + job.count * 3 * self._plan.message_s
        began_s = last_s = time.monotonic()
        self._endpoints.send([(number, 1) for number in sorted(left)])
        while left:
            done = self._endpoints.completed(limit_s)
            if not done:
                raise InvalidRunError(
                    f"the machine could not keep up: nothing arrived for {limit_s:.0f} s of calibration"
                )
            left -= {message.transfer for message in done}
            last_s = max(last_s, *(message.at_s for message in done))
        if self._circuits:
            self._switchboard.start_change((), circuits)
            self._switchboard.wait()
        return job.count * self._plan.message_bytes * 8 / (last_s - began_s)

    def carry_out(self, goodput: Goodput) -> BulkMeasurements:
        """The run itself, until the coordinator ends it; what the network's own counters say of it is not in yet."""
        retransmitted, changes = self._endpoints.retransmitted(), self._switchboard.changes
        self._switchboard.slowest_change_s = self._switchboard.changing_s = 0.0
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
            changing_s=self._switchboard.changing_s,
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


def _messages(plan: BulkPlan, options: RunOptions, mtu: int) -> MessageSet:
    """The plan's messages, then those that calibrating may take."""
    own = [t.ends for t in plan.transfers]
    block = random.Random(plan.seed).randbytes(plan.message_bytes + _WINDOWS)
    return MessageSet(
        ends=(*own, *(calibration_ends(plan) if options.calibrate else ())),
        payloads=Payloads(block, plan.message_bytes),
        message_bytes=plan.message_bytes,
        pacing_bps=plan.link_rate_bps * circuit_share(mtu) if plan.switching == "circuit" else None,
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
