"""Facts of a bulk run: what follows from the plan and the measurements together; pure.

``BulkFacts`` computes each fact once, when it is first needed. None of them is a verdict:
``judgement`` compares them.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise

from testbed.bulk.calibration import AT_ONCE_BYTES
from testbed.bulk.measurements import HEADERS_BYTES, BulkMeasurements
from testbed.bulk.messages import OVERHEAD_BYTES
from testbed.bulk.plan import BulkPlan
from testbed.bulk.planning import ROUNDS
from testbed.bulk.simulated import SimulatedBulkFabric
from topologies import LinkId

# The share of the predicted liquid throughput that the run of a liquid schedule must reach.
LIQUID_RATIO = 0.95
# How far the ratio of any other order may be from that of its run in virtual time.
ORDER_TOLERANCE = 0.1
# TCP waits at least this long before it repeats unacknowledged data (Linux: TCP_RTO_MIN).
TIMEOUT_S = 0.2
# Data in a packet of the largest size on the emulated links. Slow links have smaller packets, for
# which the bounds are stricter.
SEGMENT_BYTES = 8948
# Switches may drop this share of the messages' packets, or this number per message if it is larger.
_STRAY_SHARE = 0.03
_STRAY_PACKETS = 2


def expected_bytes(plan: BulkPlan, packet_payload_bytes: int) -> dict[LinkId, float]:
    """Return the bytes that the schedule puts on each link.

    These are the messages with their headers, and one acknowledgement for every two packets in the
    reverse direction.

    Args:
        plan: The plan.
        packet_payload_bytes: The payload of a full packet.
    """
    message = plan.message_bytes + OVERHEAD_BYTES
    packets = -(-message // packet_payload_bytes)
    forward = message + packets * HEADERS_BYTES
    back = packets * HEADERS_BYTES / 2
    bytes_of_link: dict[LinkId, float] = {}
    for transfer in plan.transfers:
        for a, b, key in transfer.path:
            bytes_of_link[a, b, key] = bytes_of_link.get((a, b, key), 0.0) + forward
            bytes_of_link[b, a, key] = bytes_of_link.get((b, a, key), 0.0) + back
    return bytes_of_link


class BulkFacts:
    """Facts of one run of one plan."""

    def __init__(self, plan: BulkPlan, run: BulkMeasurements) -> None:
        self.plan = plan
        self.run = run

    # The kind of run.

    @cached_property
    def undisturbed(self) -> bool:
        """True if the run came to its end, and the plan breaks nothing."""
        return self.run.failure is None and not self.plan.faults and not self.plan.killed

    @cached_property
    def circuits(self) -> bool:
        """True if a transfer has all links of its path for itself while it sends."""
        return self.plan.switching == "circuit"

    @cached_property
    def liquid_order(self) -> bool:
        """True if the order is a liquid schedule with a barrier between time frames."""
        plan = self.plan
        ordered = plan.barrier and plan.method not in ROUNDS
        return ordered and len(plan.frames) == plan.bottleneck_load

    # Throughput.

    @cached_property
    def liquid_throughput_bps(self) -> float:
        """Payload bits a second that no order of the transfers exceeds.

        This is the liquid throughput of the traffic in links (Gabrielyan 2007, eq. 3) times the
        calibrated goodput of one link. If links differ in rate, both count links of the fastest
        rate.
        """
        return float(self.plan.liquid_links) * self.run.goodput.single_path_bps

    @cached_property
    def throughput_bps(self) -> float:
        """Payload bits a second that arrived."""
        if self.run.seconds <= 0:
            return 0.0
        return self.run.delivered * self.plan.message_bytes * 8 / self.run.seconds

    @cached_property
    def ratio(self) -> float:
        """Measured throughput over liquid throughput."""
        return self.throughput_bps / self.liquid_throughput_bps

    @cached_property
    def predicted_ratio(self) -> float:
        """Throughput over liquid throughput of the same order in virtual time, without faults."""
        plan = self.plan
        undisturbed = replace(plan, faults=(), killed=(), injected=0)
        virtual_s = SimulatedBulkFabric().run(undisturbed).seconds
        liquid_s = plan.total_bytes * 8 / (float(plan.liquid_links) * plan.link_rate_bps)
        return liquid_s / virtual_s if virtual_s > 0 else 0.0

    @cached_property
    def claimed_ratio(self) -> float:
        """The ratio that the verdict compares.

        If links differ in rate, a time frame of a liquid schedule waits for its slowest circuit.
        """
        if self.liquid_order and self.plan.equal_rates:
            return 1.0
        return self.predicted_ratio

    @cached_property
    def predicted_s(self) -> float:
        """The time that the run takes at the claimed throughput."""
        claimed_bps = self.liquid_throughput_bps * (self.claimed_ratio or 1.0)
        return self.plan.total_bytes * 8 / claimed_bps

    @cached_property
    def spare_s(self) -> float:
        """The time by which the run may be longer than predicted."""
        share = 1 - LIQUID_RATIO if self.liquid_order else ORDER_TOLERANCE
        return self.predicted_s * share

    # Messages.

    @cached_property
    def messages_verified(self) -> int:
        """Messages that were delivered exactly once and verified."""
        deliveries = Counter[int]()
        for record in self.run.transfers:
            deliveries[record.transfer] += record.deliveries
        return sum(times == 1 for times in deliveries.values())

    @cached_property
    def misplaced(self) -> int:
        """Messages that were not sent over the links and in the time of their circuit.

        Such a message was faster than its links. In a run with circuits and without faults, it may
        also have taken another path, or a link that another circuit held. If the run did not end
        with its last message, all messages are counted.
        """
        run = self.run
        if run.failure is not None:
            return 0
        clocks_s = 0.0 if run.machines is None else run.machines.uncertainty_s
        ended_s = [record.done_s for record in run.transfers if record.done_s is not None]
        if ended_s and abs(run.seconds - max(ended_s)) > 2 * clocks_s:
            return len(run.transfers)
        wrong = self._too_fast(2 * clocks_s)
        if self.undisturbed and self.circuits:
            for record in run.transfers:
                sent = record.started_s is not None and record.done_s is not None
                if sent and record.path != self.plan.transfers[record.transfer].path:
                    wrong.add(record.transfer)
            wrong |= self._overlapping(clocks_s)
        return len(wrong)

    def _too_fast(self, clocks_s: float) -> set[int]:
        """Return the messages that took less time than their links need.

        Args:
            clocks_s: The largest error of the duration, because of different clocks.
        """
        share = max(0.0, 1 - AT_ONCE_BYTES / self.plan.message_bytes) / (2 - LIQUID_RATIO)
        wrong = set()
        for record in self.run.transfers:
            if record.started_s is None or record.done_s is None:
                continue
            min_s = self.plan.transfer_s[record.transfer] * share
            too_fast = record.done_s - record.started_s <= min_s - clocks_s
            if record.started_s < 0 or too_fast:
                wrong.add(record.transfer)
        return wrong

    def _overlapping(self, clocks_s: float) -> set[int]:
        """Return the messages that began on a link before its previous circuit was released.

        Args:
            clocks_s: The largest error of the difference, because of different clocks.
        """
        spans_of_link: dict[LinkId, list[tuple[float, float, int]]] = {}
        for record in self.run.transfers:
            if record.started_s is None or record.done_s is None:
                continue
            for link in record.path:
                span = (record.started_s, record.done_s, record.transfer)
                spans_of_link.setdefault(link, []).append(span)
        wrong = set()
        for spans in spans_of_link.values():
            for (_, done_s, _), (start_s, _, transfer) in pairwise(sorted(spans)):
                if start_s < done_s - clocks_s:
                    wrong.add(transfer)
        return wrong

    # Links.

    @cached_property
    def message_bytes_of_link(self) -> Mapping[LinkId, float]:
        """Bytes of messages, without headers, that the plan puts on each link."""
        return {link: load * self.plan.message_bytes for link, load in self.plan.loads.items()}

    @cached_property
    def expected_bytes(self) -> Mapping[LinkId, float]:
        """Bytes that each link carries in a run without faults; virtual time has no headers."""
        if self.run.fabric == "emulation":
            return expected_bytes(self.plan, self.run.packet_payload_bytes)
        return self.message_bytes_of_link

    @cached_property
    def retransmitted_bytes(self) -> Mapping[LinkId, int]:
        """The maximum of the bytes that retransmissions of TCP have put on each link."""
        bytes_of_link = Counter[LinkId]()
        for number, again in self.run.retransmitted.items():
            for link in self.plan.transfers[number].path:
                bytes_of_link[link] += again.bytes + again.packets * HEADERS_BYTES
        return bytes_of_link

    @cached_property
    def counter_error(self) -> tuple[float, LinkId]:
        """The largest relative difference between counted and expected bytes, and its link.

        Retransmitted bytes are not counted. If packets share links, the number of acknowledgements
        is not known exactly. Bytes on a link of no path are compared with the size of a message.
        """
        strange = [link for link in self.run.links if link not in self.expected_bytes]
        errors = {link: self._counter_error_of(link) for link in (*self.plan.loads, *strange)}
        worst = max(errors, key=lambda link: errors[link])
        return errors[worst], worst

    def _counter_error_of(self, link: LinkId) -> float:
        expected = self.expected_bytes.get(link, 0.0)
        counted = self.run.links[link].bytes if link in self.run.links else 0
        headers = 0.0
        if not self.circuits:
            headers = expected - self.message_bytes_of_link.get(link, 0.0)
        missing = expected - counted - headers
        excess = counted - expected - 2 * headers - self.retransmitted_bytes.get(link, 0)
        return max(missing, excess, 0.0) / max(expected, self.plan.message_bytes)

    def busy_fractions(self, links: Sequence[LinkId]) -> dict[LinkId, tuple[float, ...]]:
        """Return the fraction of each time frame in which a transfer was sending over each link."""
        times_s = self.run.frame_times_s
        busy: dict[LinkId, list[float]] = {link: [0.0] * len(times_s) for link in links}
        for record in self.run.transfers:
            if record.started_s is None or record.done_s is None:
                continue
            number = self.plan.frame_of[record.transfer]
            if number >= len(times_s):
                continue
            begin_s, end_s = times_s[number]
            if end_s <= begin_s:
                continue
            sending_s = min(end_s, record.done_s) - max(begin_s, record.started_s)
            for link in busy.keys() & set(record.path):
                busy[link][number] += max(0.0, sending_s / (end_s - begin_s))
        fractions = {}
        for link, shares in busy.items():
            fractions[link] = tuple(min(1.0, share) for share in shares)
        return fractions

    # Packets.

    @cached_property
    def data_packets(self) -> int:
        """Packets that the messages themselves take."""
        return max(1, len(self.plan.transfers) * self.plan.message_bytes // SEGMENT_BYTES)

    @cached_property
    def max_stray_share(self) -> float:
        """The share of these packets that switches may drop."""
        return max(_STRAY_SHARE, _STRAY_PACKETS * len(self.plan.transfers) / self.data_packets)

    @cached_property
    def dropped_packets(self) -> int:
        """Packets that switches dropped."""
        return sum(self.run.dropped.values())

    # Delays.

    @cached_property
    def retransmission_s(self) -> float:
        """The longest time by which retransmissions of TCP can have lengthened the run.

        Of each time frame, the transfer with the longest retransmissions counts.
        """
        plan = self.plan
        longest_s = [0.0] * len(plan.frames)
        for number, again in self.run.retransmitted.items():
            octets = again.bytes + again.packets * HEADERS_BYTES
            rate_bps = plan.path_rate_bps(plan.transfers[number].path)
            took_s = octets * 8 / rate_bps + again.timeouts * TIMEOUT_S
            frame = plan.frame_of[number]
            longest_s[frame] = max(longest_s[frame], took_s)
        return sum(longest_s)

    @cached_property
    def circuit_change_delay_s(self) -> float:
        """The longest time by which changes of circuits can have lengthened the run.

        A time frame waits for all changes between it and the frame before. Without a barrier, other
        transfers continue during a change. A chain of transfers that wait for one another has at
        most as many as fit into the predicted time. Each of them waits for its own change, and for
        another one if that is in progress.
        """
        plan = self.plan
        run = self.run
        if plan.barrier or not run.rule_changes:
            return run.circuit_change_s
        busy_share = run.circuit_change_s / self.predicted_s
        each_s = run.circuit_change_s / run.rule_changes * (1 + busy_share)
        return min(run.circuit_change_s, each_s * self.predicted_s / min(plan.transfer_s))
