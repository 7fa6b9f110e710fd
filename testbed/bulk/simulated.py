"""Bulk transfers in virtual time: the same coordinator and arbiter over links that behave like pipes.

Circuit switching: a transfer that holds its links sends at the slowest one's rate, as worms do. Packet switching: all
share the links max-min fairly, which is what senders that adapt to congestion approach at best. Events cost nothing.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from testbed.bulk.coordinator import BulkCoordinator, ChangeCircuits, OnDeadlock, Send
from testbed.bulk.measurements import BulkMeasurements, Goodput, LinkCount
from testbed.bulk.plan import BulkPlan, Path
from testbed.errors import InputError
from testbed.model.progress import CounterReading, Progress, ReportProgress
from topologies import LinkId, reverse_of

_PACKET_BYTES = 1500


@dataclass
class _Flow:
    path: Path
    attempt: int
    left_bits: float
    rate_bps: float = 0.0


class SimulatedBulkFabric:
    """``setup_s``: how long a batch of circuit changes takes. The same plan gives the same measurements, always."""

    name = "simulator"

    def __init__(self, *, setup_s: float = 0.0, on_deadlock: OnDeadlock = "retreat") -> None:
        self._setup_s, self._on_deadlock = setup_s, on_deadlock

    def run(
        self, plan: BulkPlan, report_progress: ReportProgress | None = None
    ) -> BulkMeasurements:
        """Run the plan to its end. InputError where it asks for what this fabric cannot do (a fault other than a
        cut)."""
        if any(f.kind != "down" for f in plan.faults) or plan.killed:
            raise InputError(
                "simulated bulk transfers support only links that are down; leave other faults out"
            )
        self._plan, self._report_progress = plan, report_progress
        self._coordinator = BulkCoordinator(plan, on_deadlock=self._on_deadlock, stall_s=1e9)
        self._capacity = plan.rates_bps
        self._flows: dict[int, _Flow] = {}
        self._now = 0.0
        self._confirmed: list[float] = []
        self._cuts = sorted((f.start_s, f.link) for f in plan.faults)
        self._changes = 0
        self._failure: str | None = None
        self._over = False
        self._bits: dict[LinkId, float] = {}
        return self._to_the_end()

    def _to_the_end(self) -> BulkMeasurements:
        """Events in their order; at one moment a batch is confirmed before messages arrive, and these before links are
        cut."""
        self._coordinator.start(0.0)
        self._execute_all()
        while not self._over:
            self._share()
            arrivals = (self._now + flow.left_bits / flow.rate_bps for flow in self._flows.values())
            at = min((*self._confirmed, *arrivals, *(at for at, _ in self._cuts[:1])))
            self._pass_until(at)
            if self._confirmed and self._confirmed[0] <= at:
                self._confirmed.pop(0)
                self._coordinator.circuits_changed(at)
            elif not self._arrive():
                _, link = self._cuts.pop(0)
                self._coordinator.on_link_failed([link, reverse_of(link)], at)
            self._execute_all()
        rate = self._plan.link_rate_bps
        return BulkMeasurements(
            fabric="simulator",
            seconds=self._now,
            transfers=self._coordinator.records(),
            frame_times_s=self._coordinator.frame_times(),
            goodput=Goodput(single_path_bps=rate, concurrent_bps=rate, concurrent_paths=1),
            failure=self._failure,
            deadlocks=tuple(self._coordinator.deadlocks),
            links=self._counts(),
            dropped={s.id: 0 for s in self._plan.network.switches},
            lost_links=tuple(f.link for f in self._plan.faults if f.start_s <= self._now),
            rule_changes=self._changes,
            slowest_change_s=self._setup_s,
        )

    def _execute_all(self) -> None:
        for action in self._coordinator.actions():
            if isinstance(action, Send):
                for transfer, attempt in action.messages:
                    planned = self._plan.transfers[transfer]
                    path = (
                        self._coordinator.records()[transfer].path if attempt > 1 else planned.path
                    )
                    self._flows[transfer] = _Flow(
                        path=path, attempt=attempt, left_bits=self._plan.message_bytes * 8
                    )
            elif isinstance(action, ChangeCircuits):
                self._changes += 1
                for circuit in action.tear_down:
                    self._flows.pop(circuit.transfer, None)
                if not self._coordinator.over:
                    self._confirmed.append(self._now + self._setup_s)
            else:
                self._failure, self._over = action.failure, True
        if self._report_progress is not None:
            done, total = self._coordinator.done, len(self._plan.transfers)
            open_, frames = self._coordinator.frames_open, len(self._plan.frames)
            carried = {link: round(bits / 8) for link, bits in self._bits.items()}
            reading = CounterReading(at_s=self._now, frame=open_, frames=frames, link_bytes=carried)
            words = f"{done} of {total} messages, in virtual time"
            self._report_progress(
                Progress(done_s=done, total_s=total, doing=words, reading=reading)
            )

    def _share(self) -> None:
        if self._plan.switching == "circuit":
            for flow in self._flows.values():
                flow.rate_bps = self._plan.path_rate_bps(flow.path)
            return
        for key, rate in max_min_shares(
            {k: f.path for k, f in self._flows.items()}, self._capacity
        ).items():
            self._flows[key].rate_bps = rate

    def _pass_until(self, at: float) -> None:
        for flow in self._flows.values():
            sent = min(flow.left_bits, flow.rate_bps * (at - self._now))
            flow.left_bits -= sent
            for link in flow.path:
                self._bits[link] = self._bits.get(link, 0.0) + sent
        self._now = at

    def _arrive(self) -> bool:
        # The clock of a fast flow is too coarse for the last bits.
        tick_s = 2 * math.ulp(self._now)
        whole = [
            key
            for key, flow in self._flows.items()
            if flow.left_bits < max(1e-3, flow.rate_bps * tick_s)
        ]
        for key in whole:
            flow = self._flows.pop(key)
            self._coordinator.message_done(key, flow.attempt, True, self._now)
        return bool(whole)

    def _counts(self) -> dict[LinkId, LinkCount]:
        return {
            link: LinkCount(
                packets=-(-round(bits / 8) // _PACKET_BYTES), bytes=round(bits / 8), queue_drops=0
            )
            for link, bits in self._bits.items()
        }


def max_min_shares(
    paths: Mapping[int, Iterable[LinkId]], capacity: Mapping[LinkId, float]
) -> dict[int, float]:
    """Flow -> bits a second when all share their links max-min fairly (progressive filling); O(bottlenecks x hops).

    >>> max_min_shares({1: [("a", "b", 0)], 2: [("a", "b", 0)]}, {("a", "b", 0): 10.0})
    {1: 5.0, 2: 5.0}
    """
    users: dict[LinkId, set[int]] = {}
    for key, path in paths.items():
        for link in path:
            users.setdefault(link, set()).add(key)
    left = {link: Fraction(capacity[link]) for link in users}
    shares: dict[int, float] = {}
    while users:
        tightest = min(users, key=lambda link: left[link] / len(users[link]))
        share = left[tightest] / len(users[tightest])
        for key in sorted(users[tightest]):
            shares[key] = float(share)
            for link in paths[key]:
                if link in users and key in users[link]:
                    users[link].discard(key)
                    left[link] -= share
                    if not users[link]:
                        del users[link]
    return shares
