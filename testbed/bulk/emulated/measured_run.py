"""A plan on a network that is up: calibrated, run, and what the links' counters say of it."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from testbed.bulk.emulated.endpoints import StartAgents
from testbed.bulk.emulated.run import BulkRun, RunOptions
from testbed.bulk.measurements import BulkMeasurements, LinkCount
from testbed.bulk.messages import MessageSet
from testbed.bulk.plan import BulkPlan
from testbed.machines.adapters.platform import Platform, timely
from testbed.model.progress import ReportProgress
from testbed.model.wiring import Wiring
from topologies.network import LinkId

MTU_BYTES = 9000
"""Large packets let a user-space switch carry a whole time frame."""
_QUIET_S, _MAX_UNREST_S = 0.1, 3.0
"""For the last acknowledgements to pass before counters are read; and how long that may take on a busy machine."""
_INNER_HEADERS_BYTES = 20 + 32
"""IPv4, and TCP with time stamps."""
Counters = Mapping[LinkId, tuple[int, int, int]]


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
