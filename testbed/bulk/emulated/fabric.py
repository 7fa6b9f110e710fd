"""Bulk transfers on real switches: the network that stays between runs."""

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

_QUIET_S, _MAX_UNREST_S = 0.1, 3.0
"""For the last acknowledgements to pass before counters are read; and how long that may take on a busy machine."""
Counters = Mapping[LinkId, tuple[int, int, int]]


def run_on(
    platform: Platform, plan: BulkPlan, report_progress: ReportProgress, options: RunOptions
) -> BulkMeasurements:
    """Run the plan on a network that is up and has its links and rates; no other rule may forward its hosts' packets.
    Errors as of ``EmulatedBulkFabric.run``."""
    last = Progress(doing="connecting")

    def reported(progress: Progress) -> None:
        nonlocal last
        last = progress
        report_progress(progress)

    def until_now() -> dict[str, object]:
        """What was going on when a machine died; messages that were whole by then."""
        return {
            "doing": last.doing,
            "messages": int(last.done_s) if last.reading is not None else 0,
        }

    with (
        platform.running(until_now),
        timely(platform),
        BulkRun(platform, plan, reported, options) as run,
    ):
        measured = _measured(platform, plan, run)
    found = platform.report(plan.link_rate_bps / 8 / platform.network.mtu)
    if found is not None:
        found.require_for(measured.seconds)
    return replace(measured, machines=found)


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
        transfers=tuple(
            replace(r, deliveries=deliveries.get(r.transfer, r.deliveries))
            for r in measured.transfers
        ),
        goodput=goodput,
        links=links,
        dropped=dropped_at_switches(platform.wiring, links),
        packet_payload_bytes=platform.network.mtu - INNER_HEADERS_BYTES,
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
        packets, octets, drops = (
            now - then for now, then in zip(counts, before[link], strict=True)
        )
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


_MOST_MTU_BYTES, _LEAST_MTU_BYTES, _PACKET_S = 9000, 576, 0.01
"""Large packets let a user-space switch carry a whole time frame; on a slow link one may not last so long that an
acknowledgement behind it outlasts TCP's first time-out, 0.2 s."""


def _mtu(rate_bps: float) -> int:
    """Of packets over links of that rate, bytes."""
    return round(min(_MOST_MTU_BYTES, max(_LEAST_MTU_BYTES, rate_bps / 8 * _PACKET_S)))


def _slowest_bps(plan: BulkPlan) -> float:
    """Return the rate of the slowest link that may carry packets, in either direction of its cable."""
    paths = [transfer.path for transfer in plan.transfers]
    paths += [transfer.alternative for transfer in plan.transfers if transfer.alternative]
    links = {link for path in paths for link in path}
    links |= {reverse_of(link) for link in links}
    return min(plan.rates_bps[link] for link in links & plan.rates_bps.keys())


class EmulatedBulkFabric(ExitStack):
    """Runs plans on switches, inside the sandbox only; a context manager: plans of the same network share one.

    ``store``: a directory that keeps every message that arrived whole, None for none. ``machines``: over those that are
    requested.
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
        self._network: Platform | None = None

    def run(
        self, plan: BulkPlan, report_progress: ReportProgress | None = None
    ) -> BulkMeasurements:
        """Run the plan. Raises InvalidRunError where this machine cannot carry as many paths at once as a frame holds,
        CapabilityError where it cannot build the network, MachineDiedError where one of several dies."""
        report = report_progress or (lambda _: None)
        try:
            return run_on(self._network_for(plan, report), plan, report, self._options)
        finally:
            if plan.faults or plan.killed:
                self._leave()  # what a fault did to the network is not for the next run

    def _leave(self) -> None:
        self._network = None
        self.close()

    def _network_for(self, plan: BulkPlan, report_progress: ReportProgress) -> Platform:
        if self._network is None or self._network.wiring.network.links != plan.network.links:
            self._leave()
            wiring, mtu = wire(plan.network), _mtu(_slowest_bps(plan))
            opened = network_up(self._requested, wiring, report_progress, mtu=mtu, controlled=False)
            self._network = self.enter_context(opened)
        return self._network
