"""The emulated fabric over several machines: the same plan, rules, ends and faults, each where its part of the network lies.

Theory of operation
-------------------
The coordinator keeps the one clock that measurements are told on: its own. Every machine's clock is compared with it throughout
the run; an end begins at its machine's equivalent of time zero, and its packet log, told in its machine's clock, is turned into
the coordinator's when the run is over and all exchanges of time stamps are known. A fault is ordered to both ends of its cable a
little ahead, for one moment. What crossing links carried is counted at both ends: what went in and never came out was lost by the
network between the machines, and a run in which more than a trace was says nothing.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from fec.protocol.wire import STREAM_UDP_PORT
from testbed.emulation.control.fault_injection import CableBreaker, FaultSchedule
from testbed.errors import InvalidRunError, MachineLostError
from testbed.faults.fault_times import FaultTimes
from testbed.machines.adapters.cluster import Machines, machines_up
from testbed.machines.adapters.on_machine import LANE_LIVE
from testbed.machines.adapters.spread import SpreadNetwork, placed, report_of, spread_network
from testbed.machines.asked import MachinesRequest
from testbed.machines.clocks.foreign_clock import FloatArray
from testbed.machines.clocks.report import require_clock
from testbed.machines.partition import parse_placement
from testbed.model.progress import Progress, Reading, ReportProgress
from testbed.model.wiring import wire
from testbed.stream.emulated.endpoints import KEY_BYTES
from testbed.stream.emulated.fabric import plan_rules, with_port_status
from testbed.stream.emulated.machine_ends import (
    RECEIVER,
    SENDER,
    begin_end,
    early_end,
    gauge_of,
    open_end,
    result_of,
)
from testbed.stream.emulated.mobile_routes import MobileRoutes
from testbed.stream.endpoints import strangers
from testbed.stream.judgement.recording import block_outcomes
from testbed.stream.measurements import RunHealth, SenderNews, StreamClocks, StreamMeasurements
from testbed.stream.plan import StreamPlan
from testbed.stream.planning import check_together
from topologies.network import label_of

LEAD_S = 0.3
"""Between the ends' being ready and time zero."""
CLOCKS_WITHIN_S = 0.005
"""A run is invalid whose clocks are known less well: a fault's packets are told apart with 20 ms of guard on each side."""
_WATCH_S = 0.2


class SeveralMachinesFabric:
    """``EmulatedStreamFabric`` over the machines that are asked for; within the sandbox where they are on this machine.

    ``during``: called with the machines when the streams have begun (tests turn loss up).
    """

    name = "emulation"

    def __init__(
        self,
        asked: MachinesRequest,
        *,
        mtu: int = 1500,
        queues: Literal["fifo", "priority"] = "fifo",
        during: Callable[[Machines], None] = lambda _: None,
    ) -> None:
        self._asked, self._mtu, self._queues, self._during = asked, mtu, queues, during

    def run(self, plan: StreamPlan, progress: ReportProgress | None = None) -> StreamMeasurements:
        """One plan. MachineLostError where a machine dies, InvalidRunError where the network between them was too poor."""
        return self.run_together((plan,), progress)[0]

    def run_together(
        self, plans: Sequence[StreamPlan], progress: ReportProgress | None = None
    ) -> tuple[StreamMeasurements, ...]:
        """Several streams at once under the same faults."""
        check_together(plans)
        plan, report_progress = plans[0], progress or (lambda _: None)
        if self._asked.place is not None:  # bad input is refused before anything is started
            parse_placement(self._asked.place, plan.network, "--place", machines=self._asked.count or None)
        report_progress(Progress(done_s=0, total_s=plan.duration_s, doing="starting the machines"))
        with machines_up(self._asked) as machines:
            ends = tuple(end for one in plans for end in (one.source, one.sink))
            wiring = wire(plan.network, ends)
            placement = placed(machines, wiring, self._asked)
            first = STREAM_UDP_PORT if self._queues == "priority" else None
            report_progress(Progress(done_s=0, total_s=plan.duration_s, doing="building the network"))
            with spread_network(
                machines, wiring, placement, mtu=self._mtu, first_udp_port=first, talking=ends
            ) as network:
                run = _Run(network, plans, report_progress)
                try:
                    return run.measured(self._during)
                except MachineLostError as error:
                    error.measured = run.until_now(error)
                    raise


@dataclass(frozen=True, kw_only=True)
class _Ends:
    """What the machines handed back of one stream, its times turned into seconds of our clock after the start."""

    sent: Any
    received: Any


class _Run:
    def __init__(self, network: SpreadNetwork, plans: Sequence[StreamPlan], report_progress: ReportProgress) -> None:
        self.network, self.machines, self.plans = network, network.machines, plans
        self.report_progress = report_progress
        self.start_s = 0.0
        self.starts: dict[int, float] = {}
        self.schedule: FaultSchedule | None = None
        self.crossed: Mapping[str, int] = {}
        self.dropped_before: tuple[int, ...] = ()

    def measured(self, during: Callable[[Machines], None]) -> tuple[StreamMeasurements, ...]:
        plan, network = self.plans[0], self.network
        breaker = CableBreaker(network)
        movement = None
        if plan.changes or plan.absent:
            movement = MobileRoutes(breaker, network, network.wiring, plan, network.forget)
            movement.install_first()
        else:
            for number, one in enumerate(self.plans):
                network.install(plan_rules(one, network.wiring), plan_id=number + 1)
        ends = self._open_ends()
        self.dropped_before = network.switch_drops()
        self._begin(ends)
        with ExitStack() as stack:
            self.schedule = FaultSchedule(network, plan.faults, self.start_s, breaker)
            stack.callback(self.schedule.stop)
            self.schedule.start()
            if movement is not None:
                stack.callback(movement.stop)
                movement.start(self.start_s)
            during(self.machines)
            self._watch(ends)
            results = {key: self.machines.call(key[0], result_of, *key[1:]).result(40) for key in ends}
            self.schedule.join()
            if movement is not None:
                movement.join()
        return self._measurements(results, self.schedule.times(), movement)

    def _open_ends(self) -> list[tuple[int, str, int]]:
        """(machine, role, stream) of all ends, receivers first; ready to begin."""
        place = self.network.machine_of
        ends = [(place(one.sink), RECEIVER, k) for k, one in enumerate(self.plans)]
        ends += [(place(one.source), SENDER, k) for k, one in enumerate(self.plans)]
        keys = [secrets.token_bytes(KEY_BYTES) for _ in self.plans]
        asked = [self.machines.call(m, open_end, role, k, self.plans[k], keys[k]) for m, role, k in ends]
        for one in asked:
            one.result(60)
        return ends

    def _begin(self, ends: Sequence[tuple[int, str, int]]) -> None:
        self.start_s = time.monotonic() + LEAD_S
        self.starts = {m: self.machines.theirs_s(m, self.start_s) for m, _, _ in ends}
        for one in [self.machines.call(m, begin_end, role, k, self.starts[m]) for m, role, k in ends]:
            one.result(10)

    def _watch(self, ends: Sequence[tuple[int, str, int]]) -> None:
        """Until the end: who died, whose process ended, what crossing links carried so far."""
        plan, ask = self.plans[0], partial(self._reading, ends)
        while (now := time.monotonic() - self.start_s) < plan.duration_s:
            self.machines.check()
            counts = self.network.counts()
            self.crossed = {label_of(link): counts.sent[link][0] for link in self.network.crossing}
            for m, role, k in ends:
                how = self.machines.call(m, early_end, role, k).result(10)
                if how is not None and now < plan.duration_s - 0.5:
                    raise InvalidRunError(
                        f"the {role} on {self.machines.names[m]} ended early, {now:.1f} s into the stream: {how}"
                    )
            failing = self.schedule.in_force() if self.schedule is not None else ()
            self.report_progress(
                Progress(
                    done_s=max(0.0, now),
                    total_s=plan.duration_s,
                    doing=failing[0] if failing else "streaming",
                    reading=Reading(at_s=max(0.0, now), faults=failing),
                    ask=ask,
                )
            )
            time.sleep(min(_WATCH_S, max(0.0, plan.duration_s - now)))

    def _reading(self, ends: Sequence[tuple[int, str, int]]) -> Reading:
        """What the machines' links and ends say now: packets of all streams, N of the first one."""
        told = {one: self.machines.call(one[0], gauge_of, *one[1:], lane=LANE_LIVE) for one in ends}
        gauges = {one: gauge for one, asked in told.items() if (gauge := asked.result(10))}
        sent, received = (
            [gauge for (_, role, _), gauge in gauges.items() if role == which] for which in (SENDER, RECEIVER)
        )
        return replace(
            self.network.reading(),
            sent=int(sum(gauge[0] for gauge in sent)),
            received=int(sum(gauge[0] for gauge in received)),
            block_size=(sent[0][1] or None) if sent else None,
        )

    def until_now(self, error: MachineLostError) -> dict[str, object]:
        """What was measured until a machine died: faults that were over, and packets sent onto crossing links."""
        at_s = None if error.at_s is None or not self.start_s else round(error.at_s - self.start_s, 3)
        faults = () if self.schedule is None else self.schedule.times()
        return {
            "machine": self.machines.names[error.number],
            "at_s": at_s,
            "faults": [{"link": label_of(f.fault.link), "start_s": f.start_s, "stop_s": f.stop_s} for f in faults],
            "crossing_packets": dict(self.crossed),
        }

    def _measurements(
        self, results: Mapping[tuple[int, str, int], Any], faults: Sequence[FaultTimes], movement: MobileRoutes | None
    ) -> tuple[StreamMeasurements, ...]:
        events, busy = self.network.port_events(), self.network.busy()
        dropped = {
            name: now - before
            for name, now, before in zip(
                self.machines.names, self.network.switch_drops(), self.dropped_before, strict=True
            )
        }
        told = tuple(with_port_status(t, events, self.network.wiring, self.start_s) for t in faults)
        report = report_of(self.network, self.start_s, sum(2 * one.stream.rate_pps for one in self.plans))
        clocks = report.clocks
        for clock in clocks:
            require_clock(clock, CLOCKS_WITHIN_S, "the stream's faults and playback")
        found = []
        for k, plan in enumerate(self.plans):
            sent = next(r for (_, role, n), r in results.items() if role == SENDER and n == k)
            received = next(r for (_, role, n), r in results.items() if role == RECEIVER and n == k)
            source, sink = self.network.machine_of(plan.source), self.network.machine_of(plan.sink)
            packets = replace(sent.log, time_s=self._ours(source, sent.log.time_s))
            arrivals = replace(received.log, time_s=self._ours(sink, received.log.time_s))
            found.append(
                StreamMeasurements(
                    fabric="emulation",
                    sent=packets,
                    received=arrivals,
                    blocks=block_outcomes(packets, arrivals, plan.stream.source_packets, plan.stream.playback_s),
                    faults=told,
                    changes=movement.times() if movement is not None else (),
                    news=self._news(source, sent.news),
                    clocks=StreamClocks(
                        sender_s=clocks[source].uncertainty_s,
                        receiver_s=clocks[sink].uncertainty_s,
                        faults_s=report.uncertainty_s,
                    ),
                    health=RunHealth(
                        sender_lag_s=sent.worst_lag_s,
                        unplanned_drops=received.socket_drops + sum(dropped.values()),
                        cpu_fraction=busy,
                        notes=strangers({**sent.counters, **received.counters}),
                    ),
                    counters={**sent.counters, **received.counters, **report.to_json(), "switch_drops": dropped},
                )
            )
        return tuple(found)

    def _ours(self, machine: int, times_s: FloatArray) -> FloatArray:
        """Seconds after the machine's start as seconds of our clock after ours."""
        if not len(times_s):
            return times_s
        ours = self.machines.clock(machine).ours(times_s + self.starts[machine])
        return np.asarray(ours.middle_s - self.start_s)

    def _news(self, machine: int, news: SenderNews) -> SenderNews:
        """On our clock; what never came is never."""
        names = ("told_s", "newest_s", "lost_s", "came_s")
        times = {name: getattr(news, name) for name in names}
        mapped = {
            n: np.where(np.isfinite(t), self._ours(machine, np.nan_to_num(t, posinf=0, neginf=0)), t)
            for n, t in times.items()
        }
        return replace(news, **mapped)
