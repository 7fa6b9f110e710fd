"""The result of a run: the history of every message, and the figures derived from it.

Times are stored in ticks and reported in seconds. Latencies by destination follow Zarza 2011,
equations 5.1 and 5.2.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from testbed.arrays import BoolArray, FloatArray, IntArray
from testbed.interconnect.parameters import TICKS_PER_S

# Events of NAC's timeline, by number.
NAC_EVENTS = (
    "identified",  # A cycle has been identified.
    "moved",  # The router that identified the cycle has moved a packet to its avoidance buffer.
    "recovery-moved",  # A recovery signal has caused such a move.
    "reserved",  # A slot has been reserved.
    "normal",  # A recovery signal has found that normal operation has resumed.
    "blocked",  # An input has become blocked.
)


@dataclass(frozen=True, kw_only=True)
class BlockedPackets:
    """The packets in the network and at sources when the run stopped.

    Attributes:
        packets: Number of packets in buffers of the network.
        at_sources: Number of packets at sources.
        since_tick: Tick since which the head of a buffer that has waited longest has waited; -1 if
            none waits.
        waits: Sorted pairs of links. The head of a buffer behind the first link, or of the output
            buffer in front of it, waits for the second.
    """

    packets: int
    at_sources: int
    since_tick: int
    waits: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class EngineResult:
    """The measurements of an engine. The arrays by message are indexed by its number.

    Attributes:
        entered: By message: tick at which its head left the source; -1: never.
        delivered: By message: tick at which its tail arrived; -1: never.
        hops: By message: number of routers that it crossed.
        deliveries: Number of arrivals of messages at their hosts, counted when they happened.
        made: Number of messages that had been generated at the end; they have the lowest numbers.
        held: Numbers of the messages that were in queues and buffers, or on links, at the end. If a
            message is in two of them, which is an error, its number is listed twice.
        stopped: Reason why the run stopped.
        stopped_tick: Tick at which it stopped.
        packet_hops: Number of routers crossed by all messages.
        digest: A digest of every grant, in order.
        livelocked: Number of packets that reached the hop limit.
        acks: Number of FT-DRB's ACKs.
        stuck: Packets that had not arrived when the run stopped.
        carried: Number of packets over each link, including ACKs.
        nac_counters: Number of NAC's events by name.
        nac_timeline: Rows (tick, index in NAC_EVENTS, router, input link).
        recovered: Number of packets that took the token of recovery ("disha").
        drb_counters: Number of FT-DRB's events by name.
        max_entries: Largest number of paths, and of cables listed as failed, that a source of
            FT-DRB had at the end, by name.
        trace: Rows (tick, channel, packet) of the first grants.
        escapes: By message: number of escape paths that it was given; empty without FT-DRB.
        diverted: By message: whether its source sent it over intermediate routers.
    """

    entered: IntArray
    delivered: IntArray
    hops: IntArray
    deliveries: int
    made: int
    held: IntArray
    stopped: str
    stopped_tick: int
    packet_hops: int
    digest: int
    livelocked: int
    acks: int
    stuck: BlockedPackets
    carried: IntArray
    nac_counters: Mapping[str, int]
    nac_timeline: IntArray
    recovered: int
    drb_counters: Mapping[str, int]
    max_entries: Mapping[str, int] = field(default_factory=dict)
    trace: IntArray
    escapes: IntArray
    diverted: BoolArray


@dataclass(frozen=True, kw_only=True, eq=False)
class SimulationResult(EngineResult):
    """The result of an engine, with the messages of the run.

    Attributes:
        born: Tick at which each message was generated.
        source: Number of its source host.
        destination: Number of its destination host.
    """

    born: IntArray
    source: IntArray
    destination: IntArray

    @property
    def ticks_per_s(self) -> int:
        """Number of ticks per second, the resolution of the times."""
        return TICKS_PER_S

    @property
    def sent(self) -> int:
        """Number of messages."""
        return len(self.born)

    @property
    def received(self) -> int:
        """Number of messages that were delivered."""
        return int((self.delivered >= 0).sum())

    @property
    def deadlocked(self) -> bool:
        """True if messages remain and nothing moves any more."""
        return self.received < self.sent and self.stopped in ("finished", "no-progress")

    @property
    def conserved(self) -> bool:
        """True if every message is in exactly one place.

        It was delivered once, or is in a queue, buffer or link, or was not generated.
        """
        locations = np.bincount(self.held, minlength=self.sent) + (self.delivered >= 0)
        locations[self.made :] += 1
        return self.deliveries == self.received and bool((locations == 1).all())

    @property
    def deadlocked_at_s(self) -> float | None:
        """Time since which the first blocked packet has waited; None if there is no deadlock."""
        if not self.deadlocked or self.stuck.since_tick < 0:
            return None
        return self.stuck.since_tick / self.ticks_per_s

    def latencies_s(self) -> FloatArray:
        """Return the latency of each message; nan if it was never delivered.

        A latency lasts from the generation of the message until the arrival of its tail, and
        includes the time in the source queue.
        """
        return np.where(
            self.delivered >= 0, (self.delivered - self.born) / self.ticks_per_s, np.nan
        )


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Means over the messages that were generated within the window.

    Attributes:
        mean_latency_s: Mean latency, including the time in the source queue.
        network_latency_s: Mean latency without the time in the source queue.
        destination_mean_latency_s: Mean over destinations of the mean latency of each destination.
        throughput: Messages delivered within the window over those offered within it.
        accepted_packets_per_s: Messages delivered within the window, per second.
        measured_messages: Number of messages generated within the window.
    """

    mean_latency_s: float | None
    network_latency_s: float | None
    destination_mean_latency_s: float | None
    throughput: float
    accepted_packets_per_s: float
    measured_messages: int


def summarize(run: SimulationResult, *, start_s: float, end_s: float) -> Summary:
    """Return figures of the messages generated from ``start_s`` until ``end_s``.

    The window is the steady state after a warm-up. The mean by destination follows Zarza 2011,
    equations 5.1 and 5.2.
    """
    start = round(start_s * run.ticks_per_s)
    end = round(end_s * run.ticks_per_s)
    inside = (run.born >= start) & (run.born < end)
    measured = inside & (run.delivered >= 0)
    offered = int(inside.sum())
    arrived = int(((run.delivered >= start) & (run.delivered < end)).sum())
    latency = (run.delivered[measured] - run.born[measured]) / run.ticks_per_s
    network = (run.delivered[measured] - run.entered[measured]) / run.ticks_per_s
    throughput = 0.0
    if offered:
        throughput = arrived / offered
    accepted_packets_per_s = 0.0
    if end_s > start_s:
        accepted_packets_per_s = arrived / (end_s - start_s)
    return Summary(
        mean_latency_s=_mean(latency),
        network_latency_s=_mean(network),
        destination_mean_latency_s=_mean_by_destination(latency, run.destination[measured]),
        throughput=throughput,
        accepted_packets_per_s=accepted_packets_per_s,
        measured_messages=offered,
    )


def _mean(values: FloatArray) -> float | None:
    """Return the mean, or None if there is no value."""
    return float(values.mean()) if len(values) else None


def _mean_by_destination(latency: FloatArray, destination: IntArray) -> float | None:
    """Return the mean over destinations of their mean latencies, or None if there is no message."""
    if not len(latency):
        return None
    counts = np.bincount(destination)
    sums = np.bincount(destination, weights=latency)
    return float((sums[counts > 0] / counts[counts > 0]).mean())
