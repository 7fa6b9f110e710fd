"""What theory says that a bulk run will measure: liquid throughput, the same plan in virtual time, and the bytes on
every link."""

from dataclasses import replace

from testbed.bulk.measurements import Goodput
from testbed.bulk.messages import OVERHEAD_BYTES
from testbed.bulk.plan import BulkPlan
from testbed.bulk.simulated import SimulatedBulkFabric
from topologies.network import LinkId

HEADERS_BYTES = 66
"""Ethernet, IPv4 and TCP with time stamps, of a packet of data and of an acknowledgement alike."""


def liquid_throughput_bps(plan: BulkPlan, goodput: Goodput) -> float:
    """Bits of payload a second that no order of the transfers exceeds: the traffic's liquid throughput in links
    (Gabrielyan 2007, eq. 3) times the calibrated goodput of one link."""
    return float(plan.liquid_links) * goodput.single_path_bps


def predicted_ratio(plan: BulkPlan) -> float:
    """Throughput of the plan's own order over liquid throughput, 0 to 1, in virtual time and without faults."""
    virtual_s = SimulatedBulkFabric().run(replace(plan, faults=(), killed=(), injected=0)).seconds
    liquid_s = plan.total_bytes * 8 / (float(plan.liquid_links) * plan.link_rate_bps)
    return liquid_s / virtual_s if virtual_s > 0 else 0.0


def expected_bytes(plan: BulkPlan, packet_payload_bytes: int) -> dict[LinkId, float]:
    """Link -> bytes that the schedule puts on it: messages with their headers, and on the way back at most one
    acknowledgement for every two packets."""
    message = plan.message_bytes + OVERHEAD_BYTES
    packets = -(-message // packet_payload_bytes)
    forward, back = message + packets * HEADERS_BYTES, packets * HEADERS_BYTES / 2
    found: dict[LinkId, float] = {}
    for transfer in plan.transfers:
        for a, b, key in transfer.path:
            found[a, b, key] = found.get((a, b, key), 0.0) + forward
            found[b, a, key] = found.get((b, a, key), 0.0) + back
    return found
