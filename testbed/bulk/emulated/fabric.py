"""Runs bulk transfers on switches; the network remains between runs."""

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from testbed.bulk.coordinator import OnDeadlock
from testbed.bulk.emulated.run import BulkRun, RunOptions
from testbed.bulk.measurements import INNER_HEADERS_BYTES, BulkMeasurements, LinkCount
from testbed.bulk.plan import BulkPlan
from testbed.machines.adapters.platform import Platform, network_up, timely
from testbed.machines.machines_request import MachinesRequest
from testbed.model.progress import Progress, ReportProgress
from testbed.model.wiring import Wiring, wire
from topologies import LinkId, reverse_of

# Before counters are read, the last acknowledgements need this time to arrive. On a busy machine
# they need longer; after the second time, counters are read in any case.
_QUIET_S = 0.1
_MAX_SETTLING_S = 3.0
# Large packets let a user-space switch carry a complete time frame. On a slow link, a packet must
# not take so long that an acknowledgement behind it exceeds TCP's first time-out, 0.2 s.
_MAX_MTU_BYTES = 9000
_MIN_MTU_BYTES = 576
_MAX_PACKET_S = 0.01
# The packets, bytes and queue drops of each link.
Counters = Mapping[LinkId, tuple[int, int, int]]


def run_on(
    platform: Platform, plan: BulkPlan, report_progress: ReportProgress, options: RunOptions
) -> BulkMeasurements:
    """Run a plan on a network that is up and has its links and rates.

    No other rule may forward packets of its hosts. Errors are those of ``EmulatedBulkFabric.run``.

    Args:
        platform: The network.
        plan: The plan.
        report_progress: Called with the progress of the run.
        options: How the plan is run.
    """
    last = Progress(doing="connecting")

    def reported(progress: Progress) -> None:
        nonlocal last
        last = progress
        report_progress(progress)

    def until_now() -> dict[str, object]:
        """Return what a machine interrupted when it died, and the messages before it."""
        messages = int(last.done_s) if last.reading is not None else 0
        return {"doing": last.doing, "messages": messages}

    with (
        platform.running(until_now),
        timely(platform),
        BulkRun(platform, plan, reported, options) as run,
    ):
        measured = _measured(platform, plan, run)
    machines = platform.report(plan.link_rate_bps / 8 / platform.network.mtu)
    if machines is not None:
        machines.require_for(measured.seconds)
    return replace(measured, machines=machines)


def _measured(platform: Platform, plan: BulkPlan, run: BulkRun) -> BulkMeasurements:
    """Calibrate, run, read the counters, and calibrate again."""
    first_goodput = run.calibrate()
    counters_before = _counters_without_traffic(platform)
    measured = run.carry_out(first_goodput)
    links = _counted_since(counters_before, _counters_without_traffic(platform))
    goodput = first_goodput
    if measured.failure is None:
        goodput = run.calibrate_again(first_goodput)
    deliveries = run.deliveries()
    transfers = []
    for record in measured.transfers:
        counted = deliveries.get(record.transfer, record.deliveries)
        transfers.append(replace(record, deliveries=counted))
    return replace(
        measured,
        transfers=tuple(transfers),
        goodput=goodput,
        links=links,
        dropped=dropped_at_switches(platform.wiring, links),
        packet_payload_bytes=platform.network.mtu - INNER_HEADERS_BYTES,
    )


def _counters_without_traffic(platform: Platform) -> Counters:
    """Return the links' counters as soon as they have stopped changing.

    A packet in transit has been counted where it left, but not where it will arrive.
    """
    until_s = time.monotonic() + _MAX_SETTLING_S
    time.sleep(_QUIET_S)
    counters = platform.network.link_counters()
    before = None
    while counters != before and time.monotonic() < until_s:
        time.sleep(_QUIET_S / 2)
        before = counters
        counters = platform.network.link_counters()
    return counters


def _counted_since(before: Counters, after: Counters) -> dict[LinkId, LinkCount]:
    counts = {}
    for link, (packets, size_bytes, queue_drops) in after.items():
        packets_before, bytes_before, drops_before = before[link]
        counts[link] = LinkCount(
            packets=packets - packets_before,
            bytes=size_bytes - bytes_before,
            queue_drops=queue_drops - drops_before,
        )
    return counts


def dropped_at_switches(wiring: Wiring, links: Mapping[LinkId, LinkCount]) -> dict[str, int]:
    """Return the packets that each switch dropped because no rule forwarded them.

    The numbers are exact for every switch when the network is quiet, because interfaces count each
    packet. A switch's own counters of rules are not exact. They lag behind, and a user-space switch
    counts packets for the rules that exist at the time of counting, instead of those that forwarded
    the packets.

    Args:
        wiring: The switches.
        links: The counted traffic of every link.
    """
    dropped = {}
    for switch in wiring.switches:
        packets = 0
        for (source, sink, _), count in links.items():
            if sink == switch.node:
                packets += count.packets
            if source == switch.node:
                packets -= count.packets + count.queue_drops
        dropped[switch.node] = packets
    return dropped


def _mtu_bytes(rate_bps: float) -> int:
    """Return the size of packets over links of this rate."""
    return round(min(_MAX_MTU_BYTES, max(_MIN_MTU_BYTES, rate_bps / 8 * _MAX_PACKET_S)))


def _slowest_bps(plan: BulkPlan) -> float:
    """Return the rate of the slowest link that may carry packets, in either direction."""
    links: set[LinkId] = set()
    for transfer in plan.transfers:
        links.update(transfer.path)
        links.update(transfer.alternative or ())
    links |= {reverse_of(link) for link in links}
    return min(plan.rates_bps[link] for link in links & plan.rates_bps.keys())


class EmulatedBulkFabric(ExitStack):
    """Runs plans on switches inside the sandbox, as a context manager.

    Plans with the same network share one emulated network.
    """

    def __init__(
        self,
        *,
        on_deadlock: OnDeadlock = "retreat",
        store: Path | None = None,
        calibrate: bool = True,
        machines: MachinesRequest | None = None,
    ) -> None:
        """Set how all plans are run.

        Args:
            on_deadlock: What happens when a cycle of waiting transfers closes.
            store: The directory in which complete messages are stored, or None.
            calibrate: Whether the goodput is measured. Otherwise it is the rate of the link.
            machines: The machines. None: this machine alone.
        """
        super().__init__()
        self._options = RunOptions(on_deadlock=on_deadlock, store=store, calibrate=calibrate)
        self._requested = machines
        self._network: Platform | None = None

    def run(
        self, plan: BulkPlan, report_progress: ReportProgress | None = None
    ) -> BulkMeasurements:
        """Run a plan.

        Raises:
            InvalidRunError: This machine cannot carry all paths of a time frame at the same time.
            CapabilityError: The network cannot be built.
            MachineDiedError: One of several machines died.
        """
        report = report_progress or (lambda _: None)
        try:
            return run_on(self._network_for(plan, report), plan, report, self._options)
        finally:
            if plan.faults or plan.killed:
                # The next run needs a network without effects of these faults.
                self._leave()

    def _leave(self) -> None:
        self._network = None
        self.close()

    def _network_for(self, plan: BulkPlan, report_progress: ReportProgress) -> Platform:
        """Return the network of the previous run if it has the plan's links, or a new one."""
        if self._network is None or self._network.wiring.network.links != plan.network.links:
            self._leave()
            mtu_bytes = _mtu_bytes(_slowest_bps(plan))
            opened = network_up(
                self._requested,
                wire(plan.network),
                report_progress,
                mtu=mtu_bytes,
                controlled=False,
            )
            self._network = self.enter_context(opened)
        return self._network
