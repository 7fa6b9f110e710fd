"""Simulates a tunnel over impaired links in virtual time, for several random draws of the losses.

No closed formula gives the response of an adaptive code to bursts of losses, or the drops of the
queue of a rate trace. The simulation uses the same ends and the same packets as the run on
switches, and draws the losses of the links anew. The spread of the draws says how far a measured
figure may lie from their mean.
"""

import heapq
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from fec.protocol.events.event_receiver import Delivered
from fec.protocol.framing import PacketType
from testbed.faults.fault import Fault
from testbed.model.label_split import LABELS, LabelSplit
from testbed.stream.impaired.paths import ImpairedPaths, PacketInTransit, breaks_by_faults
from testbed.stream.prediction.active_faults import impaired_spans
from testbed.tunnel.ends import build_receiver, build_sender
from testbed.tunnel.plan import FRAME_HEADERS_BYTES, Mode, TunnelPlan, report_labels, report_pairs
from testbed.tunnel.trial import TrialPlan
from topologies import Network
from topologies.impairments import Impairment, RateTrace, impairment_text

DRAWS = 5
# Limit on the packets of all draws together; a packet takes about 0.1 ms to simulate.
_MAX_PACKETS = 60_000
_MAX_PACKETS_PER_DRAW = 30_000
# How long the simulation goes on after the last packet can be delivered.
_LINGER_S = 1.0
_ETHERNET_BYTES = 14


@dataclass(frozen=True, kw_only=True)
class DirectionDraw:
    """The deliveries and losses of one direction in one draw.

    Attributes:
        delay_s: Shape (packets,): delay from program to program; infinite for a lost packet.
        disordered: Shape (packets,): whether a packet was delivered after a later one of its flow.
        originals_lost: Number of source packets that did not arrive in time, including those that
            the code recovered.
        wire_bytes: Bytes sent, with headers and parity.
    """

    delay_s: NDArray[np.float64]
    disordered: NDArray[np.bool_]
    originals_lost: int
    wire_bytes: int


Draw = tuple[DirectionDraw, DirectionDraw]


def is_impaired(plan: TrialPlan) -> bool:
    """Return whether the packets of a rival may meet an impairment of the network or of a fault."""
    splits = [plan.direct, plan.direct_back, plan.tunnel.there.forward, plan.tunnel.back.forward]
    crossed: set[int] = set()
    for split in splits:
        crossed.update(split.loaded)
    return any(span.link in crossed for span in impaired_spans(plan.network, plan.faults))


def draw_trial(plan: TrialPlan, mode: str, offered: Sequence[NDArray[np.void]]) -> list[Draw]:
    """Carry the packets offered at both ends through the tunnel, in several draws of the losses.

    Args:
        plan: The trial.
        mode: The mode of the tunnel.
        offered: The packets offered at the source and at the sink, as records of ``PACKETS``.

    Returns:
        The draws; empty if there are no packets, or so many that a draw would take minutes.
    """
    packets = sum(len(records) for records in offered)
    if not 0 < packets <= _MAX_PACKETS_PER_DRAW:
        return []
    # A spread needs three draws at least.
    draws = max(3, min(DRAWS, _MAX_PACKETS // packets))
    tunnel = replace(plan.tunnel, mode=cast(Mode, mode))
    return [VirtualTunnel(plan, tunnel, offered, seed).run() for seed in range(1, draws + 1)]


def draw_direct_losses(
    plan: TrialPlan, offered: Sequence[NDArray[np.void]], packet_bytes: int
) -> list[float]:
    """Return the share of packets that the direct path loses, for each of several draws.

    Only the source's packets of one size are counted. The other packets occupy queues as well.

    Args:
        plan: The trial.
        offered: The packets offered at the source and at the sink, as records of ``PACKETS``.
        packet_bytes: Size of the packets that are counted.
    """
    shares = []
    for seed in range(1, DRAWS + 1):
        arrived = _draw_direct_arrivals(plan, offered, seed)
        counted = arrived[offered[0]["bytes"] == packet_bytes]
        share = 0.0
        if len(counted):
            share = float(1 - counted.mean())
        shares.append(share)
    return shares


def _draw_direct_arrivals(
    plan: TrialPlan, offered: Sequence[NDArray[np.void]], seed: int
) -> NDArray[np.bool_]:
    """Return whether each of the source's packets arrives over the direct path, in one draw."""
    rng = random.Random(seed)
    network = _with_shifted_traces(plan.network, rng)
    breaks = breaks_by_faults(network, plan.faults)
    paths = ImpairedPaths(network, plan.faults, seed * 1000, breaks, rng)
    # Time (s), number of the event, end, index of the packet, the packet.
    events: list[tuple[float, int, int, int, PacketInTransit]] = []
    for end, split in enumerate((plan.direct, plan.direct_back)):
        links = split.paths[0].links
        for index, record in enumerate(offered[end]):
            frame_bytes = int(record["bytes"]) + _ETHERNET_BYTES
            packet = PacketInTransit(links, 0, frame_bytes)
            events.append((float(record["at_s"]), len(events), end, index, packet))
    heapq.heapify(events)
    count = len(events)
    arrived = np.zeros(len(offered[0]), dtype=np.bool_)
    while events:
        at_s, _, end, index, packet = heapq.heappop(events)
        if packet.arrived:
            if end == 0:
                arrived[index] = True
            continue
        for next_s, next_packet in paths.next_hop_times(packet, at_s, at_s):
            count += 1
            heapq.heappush(events, (next_s, count, end, index, next_packet))
    return arrived


# Time (s), number of the event, receiving end, payload, the packet on its path.
_Event = tuple[float, int, int, bytes, PacketInTransit]


class VirtualTunnel:
    """A simulation of both ends of a tunnel and the links between them.

    End 0 is the source, and end 1 is the sink.
    """

    def __init__(
        self,
        plan: TrialPlan,
        tunnel: TunnelPlan,
        offered: Sequence[NDArray[np.void]],
        seed: int,
    ) -> None:
        """Build the ends and the links.

        Args:
            plan: The trial.
            tunnel: The tunnel in the mode to simulate.
            offered: The packets offered at each end, as records of ``PACKETS``.
            seed: Seed of the losses and of the delays.
        """
        first_s = min(float(records["at_s"].min(initial=0.0)) for records in offered)
        # The ends accept no time before 0, but packets may be offered before time zero of the run.
        self.zero_s = -first_s
        self._offered = offered
        self._senders = []
        self.receivers = []
        self._links_of_label = []
        self._report_labels = []
        for tunnel_of_end in (tunnel, tunnel.reversed()):
            split = tunnel_of_end.there.forward
            self._senders.append(build_sender(tunnel_of_end, None))
            self.receivers.append(build_receiver(tunnel_of_end, None))
            self._links_of_label.append(_links_of_label(split))
            self._report_labels.append(report_pairs(report_labels(split)))
        self.delivered: list[list[Delivered]] = [[], []]
        self.wire_bytes = [0, 0]
        self._events: list[_Event] = []
        self._count = 0
        faults = [_delayed_fault(fault, self.zero_s) for fault in plan.faults]
        rng = random.Random(seed)
        network = _with_shifted_traces(plan.network, rng)
        breaks = breaks_by_faults(network, faults)
        self._paths = ImpairedPaths(network, faults, seed * 1000, breaks, rng)
        stream = tunnel.there.stream
        self._linger_s = stream.playback_s + tunnel.order_s + _LINGER_S

    def run(self) -> Draw:
        """Carry all packets, and wait until the last ones have arrived or expired."""
        at_source, at_sink = self._offered
        times_s = np.concatenate([at_source["at_s"], at_sink["at_s"]]) + self.zero_s
        for position in np.argsort(times_s, kind="stable").tolist():
            end = 0
            index = position
            if position >= len(at_source):
                end = 1
                index = position - len(at_source)
            at_s = float(times_s[position])
            self._run_until(at_s)
            record = self._offered[end][index]
            # Only the length of a payload matters.
            payload = bytes(int(record["bytes"]))
            for packet in self._senders[end].offer(payload, at_s, int(record["flow"])):
                self._send(end, packet.label, packet.data, at_s)
        self._run_until(float(times_s.max()) + self._linger_s)
        return self._direction(0), self._direction(1)

    def _run_until(self, until_s: float) -> None:
        while True:
            now_s = math.inf
            if self._events:
                now_s = self._events[0][0]
            for sender in self._senders:
                now_s = min(now_s, sender.next_due_s())
            for receiver in self.receivers:
                now_s = min(now_s, receiver.next_deadline_s())
            if now_s > until_s:
                return
            self._step(now_s)

    def _step(self, now_s: float) -> None:
        """Process everything that is due now: arrivals first, then the timers of both ends."""
        while self._events and self._events[0][0] <= now_s:
            at_s, _, end, data, packet_in_transit = heapq.heappop(self._events)
            if not packet_in_transit.arrived:
                self._forward(end, data, packet_in_transit, at_s)
            elif data[0] & 15 == PacketType.REPORT:
                self._senders[end].receive(data, at_s)
            else:
                self.delivered[end] += self.receivers[end].receive(data, at_s)
        for end in (0, 1):
            for packet in self._senders[end].due(now_s):
                self._send(end, packet.label, packet.data, now_s)
            self.delivered[end] += self.receivers[end].advance(now_s)
            for report in self.receivers[end].reports_due(now_s):
                for label in next(self._report_labels[end]):
                    self._transmit(end, label, report, now_s)

    def _send(self, end: int, label: int, data: bytes, now_s: float) -> None:
        """Send a source or parity packet; reports are not counted as wire bytes."""
        self.wire_bytes[end] += len(data) + FRAME_HEADERS_BYTES
        self._transmit(end, label, data, now_s)

    def _transmit(self, end: int, label: int, data: bytes, now_s: float) -> None:
        """Put a packet on the first link of its label's path to the other end."""
        links = self._links_of_label[end][label]
        packet = PacketInTransit(links, 0, len(data) + FRAME_HEADERS_BYTES)
        self._forward(1 - end, data, packet, now_s)

    def _forward(self, end: int, data: bytes, packet: PacketInTransit, at_s: float) -> None:
        """Schedule the packet's arrival after the next link, unless that link drops it."""
        for next_s, next_packet in self._paths.next_hop_times(packet, at_s, at_s):
            self._count += 1
            heapq.heappush(self._events, (next_s, self._count, end, data, next_packet))

    def _direction(self, end: int) -> DirectionDraw:
        """Return the deliveries and losses of the packets that were offered at this end."""
        receiver = self.receivers[1 - end]
        delivered = self.delivered[1 - end]
        records = self._offered[end]
        index_of = _index_by_flow_and_number(records["flow"])
        delay_s = np.full(len(records), math.inf)
        disordered = np.zeros(len(records), dtype=np.bool_)
        latest: dict[int, int] = {}
        for packet in delivered:
            index = index_of[packet.flow, packet.number]
            delay_s[index] = packet.at_s - self.zero_s - records["at_s"][index]
            disordered[index] = packet.number < latest.get(packet.flow, -1)
            latest[packet.flow] = max(packet.number, latest.get(packet.flow, -1))
        counts = receiver.counters
        never_arrived = len(records) - len(delivered) + counts["recovered"]
        return DirectionDraw(
            delay_s=delay_s,
            disordered=disordered,
            originals_lost=never_arrived - counts["unused_sources"],
            wire_bytes=self.wire_bytes[end],
        )


def _index_by_flow_and_number(flows: NDArray[Any]) -> dict[tuple[int, int], int]:
    """Return the index of each packet by its flow and its number in the flow."""
    counts: dict[int, int] = {}
    index_of: dict[tuple[int, int], int] = {}
    for index, flow in enumerate(flows.tolist()):
        number = counts.get(flow, 0)
        index_of[flow, number] = index
        counts[flow] = number + 1
    return index_of


def _links_of_label(split: LabelSplit) -> list[tuple[int, ...]]:
    """Return the links of the path of each label."""
    links: list[tuple[int, ...]] = []
    for path in split.paths:
        links += [path.links] * (path.stop - path.start)
    assert len(links) == LABELS
    return links


def _delayed_fault(fault: Fault, delay_s: float) -> Fault:
    return replace(fault, start_s=fault.start_s + delay_s, stop_s=fault.stop_s + delay_s)


def _with_shifted_traces(network: Network, rng: random.Random) -> Network:
    """Return the network with each rate trace started at a random position.

    The position at which the trace stood when a run began is unknown.
    """
    links = []
    for link in network.links:
        impairments: list[Impairment] = []
        for impairment in link.impaired_by:
            if isinstance(impairment, RateTrace):
                impairments.append(_shifted_trace(impairment, rng))
            else:
                impairments.append(impairment)
        links.append(replace(link, impairments=impairment_text(tuple(impairments))))
    return replace(network, links=tuple(links))


def _shifted_trace(trace: RateTrace, rng: random.Random) -> RateTrace:
    """Rotate a trace so that it begins at a random one of its times."""
    first = rng.randrange(len(trace.times_ms))
    begin_ms = trace.times_ms[first]
    later = [at_ms - begin_ms for at_ms in trace.times_ms[first + 1 :]]
    earlier = [at_ms + trace.times_ms[-1] - begin_ms for at_ms in trace.times_ms[: first + 1]]
    return replace(trace, times_ms=tuple(later + earlier))
