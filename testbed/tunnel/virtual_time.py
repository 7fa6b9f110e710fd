"""A tunnel over impaired links in virtual time: the packets that its ends were offered, drawn again and again.

No closed formula says how an adaptive code answers losses in bursts, or what the queue of a rate trace
drops. The same ends as on the switches carry the same packets over links that draw their losses anew; the
spread of the draws says how far a measured figure may lie from their mean.
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
from topologies.impairments import RateTrace, impairment_text

DRAWS = 5
# Packets of all draws together: about a tenth of a millisecond each.
_MOST_PACKETS = 60_000
_MOST_PACKETS_OF_A_DRAW = 30_000
_LINGER_S = 1.0
_ETHERNET_BYTES = 14


@dataclass(frozen=True, kw_only=True)
class DirectionDraw:
    """The deliveries and losses of one direction in one draw.

    Attributes:
        delay_s: Shape (packets,): from the program that sent a packet to the one that gets it; infinite
            for a lost packet.
        disordered: Shape (packets,): whether a packet was delivered after a later one of its flow.
        originals_lost: Packets that never arrived, or too late, except through the code.
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
    crossed = {link for split in splits for link in split.loaded}
    return any(span.link in crossed for span in impaired_spans(plan.network, plan.faults))


def draw_trial(plan: TrialPlan, mode: str, offered: Sequence[NDArray[np.void]]) -> list[Draw]:
    """Carry the packets offered at both ends through the tunnel, in several draws of the losses.

    Returns:
        The draws; none if there are so many packets that they would take minutes.
    """
    packets = sum(len(records) for records in offered)
    if not 0 < packets <= _MOST_PACKETS_OF_A_DRAW:
        return []
    draws = max(3, min(DRAWS, _MOST_PACKETS // packets))
    tunnel = replace(plan.tunnel, mode=cast(Mode, mode))
    return [VirtualTunnel(plan, tunnel, offered, seed).run() for seed in range(1, draws + 1)]


def draw_direct_losses(
    plan: TrialPlan, offered: Sequence[NDArray[np.void]], packet_bytes: int
) -> list[float]:
    """Return the share of the source's packets of one size that the direct path loses, in several draws.

    Packets of other sizes, and those of the other direction, take their places in queues.
    """
    splits = (plan.direct, plan.direct_back)
    shares = []
    for seed in range(1, DRAWS + 1):
        chance = random.Random(seed)
        network = _with_shifted_traces(plan.network, chance)
        breaks = breaks_by_faults(network, plan.faults)
        paths = ImpairedPaths(network, plan.faults, seed * 1000, breaks, chance)
        events: list[tuple[float, int, int, int, PacketInTransit]] = []
        for end, records in enumerate(offered):
            links = splits[end].paths[0].links
            for index, record in enumerate(records):
                frame_bytes = int(record["bytes"]) + _ETHERNET_BYTES
                journey = PacketInTransit(links, 0, frame_bytes)
                events.append((float(record["at_s"]), len(events), end, index, journey))
        heapq.heapify(events)
        count = len(events)
        arrived = np.zeros(len(offered[0]), dtype=np.bool_)
        while events:
            at_s, _, end, index, journey = heapq.heappop(events)
            if journey.arrived:
                if end == 0:
                    arrived[index] = True
                continue
            for later_s, further in paths.next_hop_times(journey, at_s, at_s):
                count += 1
                heapq.heappush(events, (later_s, count, end, index, further))
        counted = arrived[offered[0]["bytes"] == packet_bytes]
        shares.append(float(1 - counted.mean()) if len(counted) else 0.0)
    return shares


_Event = tuple[float, int, int, bytes, PacketInTransit]


class VirtualTunnel:
    """Both ends of a tunnel, and the links between them; numbers 0 and 1 stand for source and sink."""

    def __init__(
        self,
        plan: TrialPlan,
        tunnel: TunnelPlan,
        offered: Sequence[NDArray[np.void]],
        seed: int,
    ) -> None:
        tunnels = (tunnel, tunnel.reversed())
        first_s = min(float(records["at_s"].min(initial=0.0)) for records in offered)
        # Nothing may happen before time 0.
        self.zero_s = -first_s
        self._offered = offered
        self._senders = [build_sender(one, None) for one in tunnels]
        self.receivers = [build_receiver(one, None) for one in tunnels]
        self._links_of_label = [_links_of_label(one.there.forward) for one in tunnels]
        self._report_labels = [report_pairs(report_labels(one.there.forward)) for one in tunnels]
        self.delivered: list[list[Delivered]] = [[], []]
        self.wire_bytes = [0, 0]
        self._events: list[_Event] = []
        self._count = 0
        faults = [_later(fault, self.zero_s) for fault in plan.faults]
        chance = random.Random(seed)
        network = _with_shifted_traces(plan.network, chance)
        breaks = breaks_by_faults(network, faults)
        self._paths = ImpairedPaths(network, faults, seed * 1000, breaks, chance)
        stream = tunnel.there.stream
        self._linger_s = stream.playback_s + tunnel.order_s + _LINGER_S

    def run(self) -> Draw:
        """Carry all packets, and wait until the last ones have arrived or are given up."""
        times = np.concatenate([records["at_s"] for records in self._offered]) + self.zero_s
        ends = np.repeat([0, 1], [len(records) for records in self._offered])
        indices = np.concatenate([np.arange(len(records)) for records in self._offered])
        order = np.argsort(times, kind="stable")
        for at_s, end, index in zip(
            times[order].tolist(), ends[order].tolist(), indices[order].tolist(), strict=True
        ):
            self._run_until(at_s)
            record = self._offered[end][index]
            payload = bytes(int(record["bytes"]))
            for packet in self._senders[end].offer(payload, at_s, int(record["flow"])):
                self._send(end, packet.label, packet.data, at_s)
        self._run_until(float(times.max()) + self._linger_s)
        return self._direction(0), self._direction(1)

    def _run_until(self, until_s: float) -> None:
        while True:
            now = min(
                self._events[0][0] if self._events else math.inf,
                *(sender.next_due_s() for sender in self._senders),
                *(receiver.next_deadline_s() for receiver in self.receivers),
            )
            if now > until_s:
                return
            self._step(now)

    def _step(self, now: float) -> None:
        while self._events and self._events[0][0] <= now:
            at_s, _, end, data, journey = heapq.heappop(self._events)
            if not journey.arrived:
                self._travel(end, data, journey, at_s)
            elif data[0] & 15 == PacketType.REPORT:
                self._senders[end].receive(data, at_s)
            else:
                self.delivered[end] += self.receivers[end].receive(data, at_s)
        for end in (0, 1):
            for packet in self._senders[end].due(now):
                self._send(end, packet.label, packet.data, now)
            self.delivered[end] += self.receivers[end].advance(now)
            for report in self.receivers[end].reports_due(now):
                for label in next(self._report_labels[end]):
                    self._carry(end, label, report, now)

    def _send(self, end: int, label: int, data: bytes, now: float) -> None:
        self.wire_bytes[end] += len(data) + FRAME_HEADERS_BYTES
        self._carry(end, label, data, now)

    def _carry(self, end: int, label: int, data: bytes, now: float) -> None:
        links = self._links_of_label[end][label]
        journey = PacketInTransit(links, 0, len(data) + FRAME_HEADERS_BYTES)
        self._travel(1 - end, data, journey, now)

    def _travel(self, end: int, data: bytes, journey: PacketInTransit, at_s: float) -> None:
        for later_s, further in self._paths.next_hop_times(journey, at_s, at_s):
            self._count += 1
            heapq.heappush(self._events, (later_s, self._count, end, data, further))

    def _direction(self, end: int) -> DirectionDraw:
        """Return what became of the packets that were offered at this end."""
        receiver = self.receivers[1 - end]
        delivered = self.delivered[1 - end]
        records = self._offered[end]
        index_of = _numbered(records["flow"])
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


def _numbered(flows: NDArray[Any]) -> dict[tuple[int, int], int]:
    """Return the index of each packet by its flow and its number in the flow."""
    counts: dict[int, int] = {}
    index_of: dict[tuple[int, int], int] = {}
    for index, flow in enumerate(flows.tolist()):
        number = counts.get(flow, 0)
        index_of[flow, number] = index
        counts[flow] = number + 1
    return index_of


def _links_of_label(split: LabelSplit) -> list[tuple[int, ...]]:
    links: list[tuple[int, ...]] = []
    for path in split.paths:
        links += [path.links] * (path.stop - path.start)
    assert len(links) == LABELS
    return links


def _later(fault: Fault, by_s: float) -> Fault:
    return replace(fault, start_s=fault.start_s + by_s, stop_s=fault.stop_s + by_s)


def _with_shifted_traces(network: Network, chance: random.Random) -> Network:
    """Return the network with each rate trace begun at another moment: nobody knows the one of a run."""
    links = []
    for link in network.links:
        impairments = tuple(
            _shifted(one, chance) if isinstance(one, RateTrace) else one for one in link.impaired_by
        )
        links.append(replace(link, impairments=impairment_text(impairments)))
    return replace(network, links=tuple(links))


def _shifted(trace: RateTrace, chance: random.Random) -> RateTrace:
    first = chance.randrange(len(trace.times_ms))
    begin_ms = trace.times_ms[first]
    later = [at_ms - begin_ms for at_ms in trace.times_ms[first + 1 :]]
    earlier = [at_ms + trace.times_ms[-1] - begin_ms for at_ms in trace.times_ms[: first + 1]]
    return replace(trace, times_ms=tuple(later + earlier))
