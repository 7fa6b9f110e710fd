"""Bulk transfers in virtual time: the same coordinator and arbiter over ideal links.

Circuit switching: a transfer that holds its links sends at the rate of the slowest one. Packet
switching: all transfers share the links max-min fairly, which is the best that senders with
congestion control approach. Events take no time.
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

# The size of packets, to count those that cross a link.
_PACKET_BYTES = 1500
# A run in virtual time cannot hang, so that no stall is detected.
_NO_STALL_S = 1e9
# A message has arrived if less than this remains, because of rounding.
_ROUNDING_BITS = 1e-3


@dataclass
class _Flow:
    """A message that is being sent."""

    path: Path
    attempt: int
    left_bits: float
    rate_bps: float = 0.0


class SimulatedBulkFabric:
    """Runs plans in virtual time. The same plan always gives the same measurements."""

    name = "simulator"

    def __init__(self, *, setup_s: float = 0.0, on_deadlock: OnDeadlock = "retreat") -> None:
        """Set what all runs have in common.

        Args:
            setup_s: The duration of a batch of circuit changes.
            on_deadlock: What happens when a cycle of waiting transfers closes.
        """
        self._setup_s = setup_s
        self._on_deadlock = on_deadlock

    def run(
        self, plan: BulkPlan, report_progress: ReportProgress | None = None
    ) -> BulkMeasurements:
        """Run a plan to its end.

        Raises:
            InputError: The plan has killed processes, or faults other than link failures.
        """
        if any(fault.kind != "down" for fault in plan.faults) or plan.killed:
            raise InputError(
                "simulated bulk transfers support only links that are down; leave other faults out"
            )
        self._plan = plan
        self._report_progress = report_progress
        self._coordinator = BulkCoordinator(
            plan, on_deadlock=self._on_deadlock, stall_s=_NO_STALL_S
        )
        self._capacity = plan.rates_bps
        self._flows: dict[int, _Flow] = {}
        self._now_s = 0.0
        # When the batches that have been started will be confirmed.
        self._confirmed_s: list[float] = []
        self._failures = sorted((fault.start_s, fault.link) for fault in plan.faults)
        self._changes = 0
        self._failure: str | None = None
        self._over = False
        self._bits: dict[LinkId, float] = {}
        return self._run_to_end()

    def _run_to_end(self) -> BulkMeasurements:
        """Process events in order.

        At the same time, a batch is confirmed before messages arrive, and these before links fail.
        """
        self._coordinator.start(0.0)
        self._execute_all()
        while not self._over:
            self._share()
            at_s = self._next_event_s()
            self._pass_until(at_s)
            if self._confirmed_s and self._confirmed_s[0] <= at_s:
                self._confirmed_s.pop(0)
                self._coordinator.circuits_changed(at_s)
            elif not self._arrive():
                _, link = self._failures.pop(0)
                self._coordinator.on_link_failed([link, reverse_of(link)], at_s)
            self._execute_all()
        rate_bps = self._plan.link_rate_bps
        lost = [fault.link for fault in self._plan.faults if fault.start_s <= self._now_s]
        return BulkMeasurements(
            fabric="simulator",
            seconds=self._now_s,
            transfers=self._coordinator.records(),
            frame_times_s=self._coordinator.frame_times(),
            goodput=Goodput(single_path_bps=rate_bps, concurrent_bps=rate_bps, concurrent_paths=1),
            failure=self._failure,
            deadlocks=tuple(self._coordinator.deadlocks),
            links=self._counts(),
            dropped={switch.id: 0 for switch in self._plan.network.switches},
            lost_links=tuple(lost),
            rule_changes=self._changes,
            slowest_change_s=self._setup_s,
        )

    def _next_event_s(self) -> float:
        times_s = list(self._confirmed_s)
        for flow in self._flows.values():
            times_s.append(self._now_s + flow.left_bits / flow.rate_bps)
        if self._failures:
            times_s.append(self._failures[0][0])
        return min(times_s)

    def _execute_all(self) -> None:
        """Execute the coordinator's actions, and report the progress."""
        for action in self._coordinator.actions():
            if isinstance(action, Send):
                for transfer, attempt in action.messages:
                    self._send(transfer, attempt)
            elif isinstance(action, ChangeCircuits):
                self._changes += 1
                for circuit in action.tear_down:
                    self._flows.pop(circuit.transfer, None)
                if not self._coordinator.over:
                    self._confirmed_s.append(self._now_s + self._setup_s)
            else:
                self._failure = action.failure
                self._over = True
        if self._report_progress is not None:
            self._report_progress(self._progress())

    def _send(self, transfer: int, attempt: int) -> None:
        path = self._plan.transfers[transfer].path
        if attempt > 1:
            path = self._coordinator.records()[transfer].path
        bits = self._plan.message_bytes * 8
        self._flows[transfer] = _Flow(path=path, attempt=attempt, left_bits=bits)

    def _progress(self) -> Progress:
        arrived = self._coordinator.done
        total = len(self._plan.transfers)
        reading = CounterReading(
            at_s=self._now_s,
            frame=self._coordinator.frames_open,
            frames=len(self._plan.frames),
            link_bytes={link: round(bits / 8) for link, bits in self._bits.items()},
        )
        doing = f"{arrived} of {total} messages, in virtual time"
        return Progress(done_s=arrived, total_s=total, doing=doing, reading=reading)

    def _share(self) -> None:
        """Set the rate of every flow."""
        if self._plan.switching == "circuit":
            for flow in self._flows.values():
                flow.rate_bps = self._plan.path_rate_bps(flow.path)
            return
        paths = {transfer: flow.path for transfer, flow in self._flows.items()}
        for transfer, rate_bps in max_min_shares(paths, self._capacity).items():
            self._flows[transfer].rate_bps = rate_bps

    def _pass_until(self, at_s: float) -> None:
        """Let all flows send until this time."""
        for flow in self._flows.values():
            sent_bits = min(flow.left_bits, flow.rate_bps * (at_s - self._now_s))
            flow.left_bits -= sent_bits
            for link in flow.path:
                self._bits[link] = self._bits.get(link, 0.0) + sent_bits
        self._now_s = at_s

    def _arrive(self) -> bool:
        """Report the messages that have arrived, and return whether there are any."""
        # The resolution of the clock is too coarse for the last bits of a fast flow.
        tick_s = 2 * math.ulp(self._now_s)
        arrived = []
        for transfer, flow in self._flows.items():
            if flow.left_bits < max(_ROUNDING_BITS, flow.rate_bps * tick_s):
                arrived.append(transfer)
        for transfer in arrived:
            flow = self._flows.pop(transfer)
            self._coordinator.message_done(transfer, flow.attempt, True, self._now_s)
        return bool(arrived)

    def _counts(self) -> dict[LinkId, LinkCount]:
        counts = {}
        for link, bits in self._bits.items():
            size_bytes = round(bits / 8)
            packets = -(-size_bytes // _PACKET_BYTES)
            counts[link] = LinkCount(packets=packets, bytes=size_bytes, queue_drops=0)
        return counts


def max_min_shares(
    paths: Mapping[int, Iterable[LinkId]], capacity: Mapping[LinkId, float]
) -> dict[int, float]:
    """Return the rates of flows that share links max-min fairly.

    Progressive filling takes time proportional to the number of bottlenecks times hops.

    Args:
        paths: The links of each flow.
        capacity: The rate of each link.

    Returns:
        The rate of each flow, in the units of the capacity.

    >>> max_min_shares({1: [("a", "b", 0)], 2: [("a", "b", 0)]}, {("a", "b", 0): 10.0})
    {1: 5.0, 2: 5.0}
    """
    users: dict[LinkId, set[int]] = {}
    for flow, path in paths.items():
        for link in path:
            users.setdefault(link, set()).add(flow)
    left = {link: Fraction(capacity[link]) for link in users}
    shares: dict[int, float] = {}
    while users:
        tightest = min(users, key=lambda link: left[link] / len(users[link]))
        share = left[tightest] / len(users[tightest])
        for flow in sorted(users[tightest]):
            shares[flow] = float(share)
            for link in paths[flow]:
                if link in users and flow in users[link]:
                    users[link].discard(flow)
                    left[link] -= share
                    if not users[link]:
                        del users[link]
    return shares
