"""Bulk transfers on real switches: the network that stays between runs, and what its counters say of one."""

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from testbed.bulk.coordinator import OnDeadlock
from testbed.bulk.emulated.endpoints import StartAgents, agents_here
from testbed.bulk.emulated.run import BulkRun, RunOptions
from testbed.bulk.measurements import BulkMeasurements, LinkCount
from testbed.bulk.messages import MessageSet
from testbed.bulk.plan import BulkPlan
from testbed.machines.adapters.cluster import Machines, machines_up
from testbed.machines.adapters.platform import Here, Platform, here, timely
from testbed.machines.machines_request import MachinesRequest
from testbed.model.progress import Progress, ReportProgress
from testbed.model.wiring import Wiring, wire
from topologies.network import LinkId

MTU_BYTES = 9000
"""Large packets let a user-space switch carry a whole time frame."""
_QUIET_S, _MAX_UNREST_S = 0.1, 3.0
"""For the last acknowledgements to pass before counters are read; and how long that may take on a busy machine."""
_INNER_HEADERS_BYTES = 20 + 32
"""IPv4, and TCP with time stamps."""
Counters = Mapping[LinkId, tuple[int, int, int]]


class EmulatedBulkFabric(ExitStack):
    """Runs plans on switches, inside the sandbox only; a context manager: plans of the same network share one.

    ``store``: a directory that keeps every message that arrived whole, None for none. ``machines``: over those that are
    requested, which stay up between runs.
    """

    def __init__(
        self,
        *,
        on_deadlock: OnDeadlock = "retreat",
        store: Path | None = None,
        calibrate: bool = True,
        machines: MachinesRequest | None = None,
    ) -> None:
        super().__init__()
        self._options = RunOptions(on_deadlock=on_deadlock, store=store, calibrate=calibrate)
        self._requested = machines
        self._up: Machines | None = None
        self._network: Here | None = None

    def run(self, plan: BulkPlan, report_progress: ReportProgress | None = None) -> BulkMeasurements:
        """Run the plan. Raises InvalidRunError where this machine cannot carry as many paths at once as a frame holds,
        CapabilityError where it cannot build the network, MachineDiedError where one of several dies."""
        report = report_progress or (lambda _: None)
        if self._requested is not None:
            return self._run_over(self._requested, plan, report)
        try:
            return run_here(self._network_for(plan, report), plan, report, self._options)
        finally:
            if plan.faults or plan.killed:
                self._leave()  # what a fault did to the network is not for the next run

    def _run_over(
        self, requested: MachinesRequest, plan: BulkPlan, report_progress: ReportProgress
    ) -> BulkMeasurements:
        from testbed.bulk.emulated.several_machines import run_over

        if self._up is None:
            report_progress(Progress(done_s=0, total_s=1, doing="starting the machines"))
            self._up = self.enter_context(machines_up(requested))
        return run_over(self._up, requested, plan, report_progress, self._options)

    def _leave(self) -> None:
        self._network = None
        self.close()

    def _network_for(self, plan: BulkPlan, report_progress: ReportProgress) -> Here:
        if self._network is None or self._network.wiring.network.links != plan.network.links:
            self._leave()
            report_progress(Progress(done_s=0, total_s=1, doing="building the network"))
            self._network = self.enter_context(here(wire(plan.network), mtu=MTU_BYTES, controlled=False))
        return self._network


def run_here(platform: Here, plan: BulkPlan, report_progress: ReportProgress, options: RunOptions) -> BulkMeasurements:
    """As ``run_on``, with the end points' processes on this machine."""
    agents = partial(agents_here, platform.network, platform.wiring)
    return run_on(platform, plan, report_progress, options, agents)


def run_on(
    platform: Platform,
    plan: BulkPlan,
    report_progress: ReportProgress,
    options: RunOptions,
    agents: Callable[[MessageSet], StartAgents],
) -> BulkMeasurements:
    """Run the plan on a network that is up and has its links and rates; no other rule may forward its hosts' packets.

    ``agents``: starts the end points' processes.
    """
    with timely(platform), BulkRun(platform, plan, report_progress, options, agents) as run:
        return _measured(platform, plan, run)


def _measured(platform: Platform, plan: BulkPlan, run: BulkRun) -> BulkMeasurements:
    """Calibrate, run, read the counters, calibrate again."""
    first = run.calibrate()
    counted = _counters_at_rest(platform)
    measured = run.carry_out(first)
    links = _counted_since(counted, _counters_at_rest(platform))
    goodput = first if measured.failure is not None else run.calibrate_again(first)
    deliveries = run.deliveries()
    return replace(
        measured,
        transfers=tuple(replace(r, deliveries=deliveries.get(r.transfer, r.deliveries)) for r in measured.transfers),
        goodput=goodput,
        links=links,
        dropped=dropped_at_switches(platform.wiring, links),
        packet_payload_bytes=platform.network.mtu - _INNER_HEADERS_BYTES,
    )


def _counters_at_rest(platform: Platform) -> Counters:
    """The links' counters once no packet has moved for a while: a packet on its way has been counted where it left, but
    not where it will arrive."""
    net, until = platform.network, time.monotonic() + _MAX_UNREST_S
    time.sleep(_QUIET_S)
    counters, before = net.link_counters(), None
    while counters != before and time.monotonic() < until:
        time.sleep(_QUIET_S / 2)
        counters, before = net.link_counters(), counters
    return counters


def _counted_since(before: Counters, after: Counters) -> dict[LinkId, LinkCount]:
    found = {}
    for link, counts in after.items():
        packets, octets, drops = (now - then for now, then in zip(counts, before[link], strict=True))
        found[link] = LinkCount(packets=packets, bytes=octets, queue_drops=drops)
    return found


def dropped_at_switches(wiring: Wiring, links: Mapping[LinkId, LinkCount]) -> dict[str, int]:
    """Switch -> packets that came to it over its links and were put onto none: no rule let them through.

    Exact on every datapath once the network is quiet, because interfaces count each packet. A switch's own counters of
    rules are not: they lag behind, and a user-space switch books packets to the rules that stand when it counts them,
    not to those that let the packets through.
    """
    found = {}
    for switch in wiring.switches:
        arrived = sum(c.packets for link, c in links.items() if link[1] == switch.node)
        left = sum(c.packets + c.queue_drops for link, c in links.items() if link[0] == switch.node)
        found[switch.node] = arrived - left
    return found
