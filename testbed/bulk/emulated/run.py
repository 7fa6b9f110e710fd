"""One bulk plan on a network that stands: agents, switchboard and coordinator around one loop that decides nothing."""

from __future__ import annotations

import random
import select
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.bulk.calibration import ATTEMPTS, MIN_TOGETHER, CalibrationJob, alone, together
from testbed.bulk.circuit_rules import Pair, shared_return_rules, standing_rules
from testbed.bulk.coordinator import Action, BulkCoordinator, ChangeCircuits, Circuit, OnDeadlock, Send
from testbed.bulk.emulated.agents import AgentProcess, Jobs, ReceivingAgent, SendingAgent
from testbed.bulk.emulated.injection import inject
from testbed.bulk.emulated.switchboard import CircuitSwitchboard
from testbed.bulk.messages import Payloads
from testbed.bulk.plan import BulkPlan, Goodput
from testbed.emulation.control.fault_injection import FaultSchedule
from testbed.emulation.machine.machine_strain import StrainGauge
from testbed.emulation.network.emulated_network import EmulatedNetwork
from testbed.errors import InvalidRunError
from testbed.model.progress import Progress
from testbed.model.strain import Strain
from testbed.model.wiring import Wiring
from topologies.network import LinkId

_FORGOTTEN_S = 1.5
"""How long a switch may go by a rule that is gone, on a busy machine."""
_CIRCUIT_SEND_BUFFER = 80 << 10
_WINDOWS = 1 << 20
"""Bytes by which the block of pseudo-random content is longer than a message."""
_MAX_WAIT_S = 0.1
_CALIBRATION_S = 10.0
_MIN_STALL_S, _STALL_MESSAGES = 10.0, 25


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How to run a plan, whatever it says. ``calibrate`` false: goodput is taken to be the link's rate."""

    on_deadlock: OnDeadlock = "retreat"
    store: Path | None = None
    calibrate: bool = True


class BulkRun:
    """A context manager: entered, all connections stand, and in circuit switching no data finds a way."""

    def __init__(
        self,
        net: EmulatedNetwork,
        wiring: Wiring,
        plan: BulkPlan,
        tell: Callable[[Progress], None],
        options: RunOptions,
    ) -> None:
        self._net, self._wiring, self._plan, self._tell, self._options = net, wiring, plan, tell, options
        self._alone, self._together = alone(plan), together(plan)
        own = [(t.source, t.sink) for t in plan.transfers]
        extra = [own[t] for job in self._jobs_of_calibration() for t in job.transfers for _ in range(job.count)]
        self._spare = iter(range(len(own), len(own) + len(extra)))
        block = random.Random(plan.seed).randbytes(plan.message_bytes + _WINDOWS)
        self._jobs = Jobs(
            pairs=(*own, *extra),
            payloads=Payloads(block, plan.message_bytes),
            message_bytes=plan.message_bytes,
            send_buffer_bytes=_CIRCUIT_SEND_BUFFER if plan.switching == "circuit" else None,
            store=options.store,
            stored=len(own),
        )
        self._message_s = plan.message_bytes * 8 / plan.link_rate_bps
        stall_s = max(_MIN_STALL_S, _STALL_MESSAGES * self._message_s)
        self.coordinator = BulkCoordinator(plan, on_deadlock=options.on_deadlock, stall_s=stall_s)
        self._paths = {(t.source, t.sink): t.path for t in plan.transfers}
        self._stack = ExitStack()
        self._start = time.monotonic()
        self._to_kill = sorted(plan.killed, key=lambda k: k.at_s)
        self.injected = 0
        self._numbers: dict[Pair, list[int]] = {}
        for number, transfer in enumerate(plan.transfers):
            self._numbers.setdefault((transfer.source, transfer.sink), []).append(number)
        self._arrived: set[int] = set()
        self._gone_s: dict[Pair, float] = {}
        self.repeated: dict[int, tuple[int, int]] = {}
        self.lost_links: list[LinkId] = []
        self.failure: str | None = None
        self.ended_s = 0.0
        self.strain: Strain | None = None
        self.rule_changes = 0
        self.slowest_change_s = 0.0

    def _jobs_of_calibration(self) -> list[CalibrationJob]:
        return [self._alone, *[self._together] * (2 * ATTEMPTS + 1)] if self._options.calibrate else []

    def __enter__(self) -> BulkRun:
        try:
            self._board = CircuitSwitchboard(self._wiring, self._jobs.pairs)
            self._stack.callback(self._board.close)
            self._raise_rules()
            self._start_agents()
            if self._plan.switching == "circuit":
                self._board.change_rules(standing_rules(self._wiring, self._paths), "remove")
                self._board.forget_flows()
                self._prepare_circuits()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _raise_rules(self) -> None:
        """Ways back for acknowledgements, and for data too while connections are made (packet switching: until the end)."""
        rules = (*shared_return_rules(self._wiring, self._paths), *standing_rules(self._wiring, self._paths))
        self._board.change_rules(rules, "add")
        self._board.forget_flows()  # drops of the run before are not for this one's first packets
        self._stack.callback(self._board.change_rules, rules, "remove")

    def _start_agents(self) -> None:
        plan, net, wiring, jobs = self._plan, self._net, self._wiring, self._jobs
        self._tell(Progress(done_s=0, total_s=1, doing="connecting"))
        doomed = tuple(dict.fromkeys(k.node for k in plan.killed))
        groups = [tuple(n for n in plan.receivers if n not in doomed), *((n,) for n in doomed)]
        self._receiving = [
            AgentProcess("receiver", group, ReceivingAgent(net, wiring, group, jobs).run) for group in groups if group
        ]
        for agent in self._receiving:
            self._stack.callback(agent.close)
        self._sending = AgentProcess("sender", plan.senders, SendingAgent(net, wiring, jobs).run)
        self._stack.callback(self._sending.close)
        for agent in self._receiving:
            agent.hear()
        self._sending.tell("connect")
        self._sending.hear()

    def _prepare_circuits(self) -> None:
        self._board.prepare(Circuit(transfer=i, path=t.path) for i, t in enumerate(self._plan.transfers))

    def calibrate(self) -> Goodput:
        """Goodput of one path alone, then of many disjoint ones at once. InvalidRunError where these are much slower, again
        and again."""
        rate = self._plan.link_rate_bps
        if not self._options.calibrate:
            return Goodput(alone_bps=rate, together_bps=rate, paths_together=1)
        self._tell(Progress(done_s=0, total_s=1, doing="calibrating"))
        one = self._calibrate(self._alone)
        for _ in range(ATTEMPTS):
            found = self._together_beside(one)
            if found.together_bps >= MIN_TOGETHER * one:
                return found
        raise InvalidRunError(
            f"the machine could not keep up: {found.paths_together} disjoint paths at once got "
            f"{found.together_bps / 1e6:.2f} Mbit/s each, one alone {one / 1e6:.2f}; lower --link-rate, or leave the machine "
            "to this run"
        )

    def calibrate_again(self, first: Goodput) -> Goodput:
        """Many paths at once after the run: a machine that lags now may have lagged in the run. The slower of both counts."""
        if not self._options.calibrate or self.failure is not None or self._plan.faults:
            return first
        found = (self._together_beside(first.alone_bps) for _ in range(ATTEMPTS))
        now = next((g for g in found if g.together_bps >= MIN_TOGETHER * g.alone_bps), None)
        return first if now is not None else self._together_beside(first.alone_bps)

    def _together_beside(self, alone_bps: float) -> Goodput:
        measured = self._calibrate(self._together)
        return Goodput(alone_bps=alone_bps, together_bps=measured, paths_together=len(self._together.transfers))

    def _calibrate(self, job: CalibrationJob) -> float:
        """Bits of payload a second of the slowest path."""
        numbers = [next(self._spare) for _ in range(len(job.transfers) * job.count)]
        circuits = [Circuit(transfer=t, path=self._plan.transfers[t].path) for t in job.transfers]
        if self._plan.switching == "circuit":
            self._board.start_change(circuits, ())
            self._board.wait()
        began = time.monotonic()
        self._sending.tell("send", [(n, 1) for n in numbers])
        last = began
        left = set(numbers)
        while left:
            for words in self._heard(_CALIBRATION_S + job.count * 3 * self._message_s):
                left.discard(words[1])
                last = max(last, words[4])
        if self._plan.switching == "circuit":
            self._board.start_change((), circuits)
            self._board.wait()
        return job.count * self._plan.message_bytes * 8 / (last - began)

    def _heard(self, limit_s: float) -> Iterator[tuple[Any, ...]]:
        """What receivers tell next. InvalidRunError where they are silent."""
        files = {agent.pipe.fileno(): agent for agent in self._receiving}
        ready = select.select(list(files), (), (), limit_s)[0]
        if not ready:
            raise InvalidRunError(f"the machine could not keep up: nothing arrived for {limit_s:.0f} s of calibration")
        for file in ready:
            yield files[file].hear()

    def carry_out(self) -> None:
        """The run itself, until the coordinator ends it."""
        repeated, changes = self._sent_again(), self._board.changes
        with StrainGauge() as gauge:
            self._until_over()
        self.strain = gauge.strain
        self.rule_changes, self.slowest_change_s = self._board.changes - changes, self._board.slowest_change_s
        again = self._sent_again()
        pairs = {(t.source, t.sink): number for number, t in enumerate(self._plan.transfers)}
        for pair, number in pairs.items():
            counts = zip(again.get(pair, (0, 0)), repeated.get(pair, (0, 0)), strict=True)
            octets, packets = (max(0, now - then) for now, then in counts)  # less where a connection was made anew
            self.repeated[number] = (octets, packets)

    def _until_over(self) -> None:
        self._board.slowest_change_s = 0.0
        poll = select.epoll()
        agents = {agent.pipe.fileno(): agent for agent in (self._sending, *self._receiving)}
        for file in (*agents, *self._board.files):
            poll.register(file, select.EPOLLIN)
        self._start = time.monotonic()
        faults = FaultSchedule(self._net, self._plan.faults, self._start)
        self._stack.callback(faults.stop)
        faults.start()
        self.coordinator.begin(0.0)
        self._obey()
        while not self.coordinator.over:
            for file, _ in poll.poll(self._wait_s()):
                if file in agents:
                    self._hear(agents[file])
                else:
                    self._hear_switch(self._board.files[file])
            self._keep_time()
            self._obey()
        poll.close()
        self.ended_s = self._now()
        faults.stop()
        self._board.wait()
        if self.failure is None and not self.injected and self._plan.injected and self._plan.switching == "circuit":
            self._board.forget_flows()
            self._inject_once(ended=True)

    def _sent_again(self) -> dict[Pair, tuple[int, int]]:
        """Pair -> (bytes, packets) that TCP has repeated so far."""
        self._sending.tell("count")
        while (words := self._sending.hear())[0] != "repeated":
            pass  # a connection that broke after the end
        found: dict[Pair, tuple[int, int]] = words[1]
        return found

    def _now(self) -> float:
        return time.monotonic() - self._start

    def _wait_s(self) -> float:
        due = [self.coordinator.deadline_s(), *(k.at_s for k in self._to_kill[:1])]
        return min(_MAX_WAIT_S, max(0.0, min(due) - self._now()))

    def _keep_time(self) -> None:
        now = self._now()
        while self._to_kill and self._to_kill[0].at_s <= now:
            node = self._to_kill.pop(0).node
            next(a for a in self._receiving if node in a.nodes).kill()
        self.coordinator.advance(now)
        self._inject_once()

    def _hear(self, agent: AgentProcess) -> None:
        while agent.pipe.poll():
            try:
                words = agent.hear()
            except EOFError:
                self.coordinator.endpoint_lost(agent.nodes, self._now())
                return
            if words[0] == "done":
                self._arrived.add(words[1])
                self.coordinator.message_done(words[1], words[2], words[3], words[4] - self._start)
            elif words[0] == "broke":
                self.coordinator.connection_broke(words[1], words[2], self._now())

    def _hear_switch(self, dpid: int) -> None:
        confirmed, lost = self._board.receive(dpid)
        if confirmed:
            self.coordinator.circuits_changed(self._now())
        if lost:
            self.lost_links += lost
            self.coordinator.link_lost(lost, self._now())

    def _obey(self) -> None:
        while actions := self.coordinator.actions():
            for action in actions:
                self._do(action)
        done, total = self.coordinator.done, len(self._plan.transfers)
        frames = f"time frame {self.coordinator.frames_open} of {len(self._plan.frames)}"
        self._tell(Progress(done_s=done, total_s=total, doing=f"{done} of {total} messages, {frames}"))

    def _do(self, action: Action) -> None:
        if isinstance(action, Send):
            self._sending.tell("send", action.messages)
        elif isinstance(action, ChangeCircuits):
            if self._board.changing:
                self._board.wait()  # only where the run ends in the middle of a change
            self._board.start_change(action.set_up, action.tear_down)
            if not self._board.changing:
                self.coordinator.circuits_changed(self._now())
        else:
            self.failure = action.failure

    def _inject_once(self, *, ended: bool = False) -> None:
        """In mid-run (at its end where it is short), packets of a pair whose transfers are over: its circuit is gone.

        It must have been gone for a while: a switch forgets a rule some time after it has confirmed its end, and what is
        injected waits at the host behind other data.
        """
        if self.injected or not self._plan.injected or self._plan.switching != "circuit":
            return
        now = self._now()
        for pair, numbers in self._numbers.items():
            if all(n in self._arrived and not self.coordinator.has_circuit(n) for n in numbers):
                since = self._gone_s.setdefault(pair, now)
                if ended or now - since >= _FORGOTTEN_S:
                    self.injected = inject(self._net, self._wiring, pair, self._plan.injected)
                    return

    def deliveries(self) -> dict[int, int]:
        """Transfer -> how often its receiver delivered a whole and verified message; of receivers that live."""
        found: dict[int, int] = {}
        for agent in self._receiving:
            agent.tell("stop")
            try:
                while (words := agent.hear())[0] != "stopped":
                    pass
            except EOFError:
                continue
            found.update(words[1])
        return {number: count for number, count in found.items() if number < len(self._plan.transfers)}
