"""What a run of the interconnect simulator gives: a history of every message, and the figures that are read from it.

Times are kept in ticks and reported in seconds. Latencies by destination follow Zarza 2011, eqs. 5.1 and 5.2.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from testbed.arrays import BoolArray, FloatArray, IntArray
from testbed.interconnect.parameters import TICKS_PER_S

NAC_EVENTS = ("identified", "moved", "recovery-moved", "reserved", "normal", "blocked")
"""Events of NAC's timeline, by number: a cycle identified, a move by the router that identified it, one by a recovery
signal, a slot reserved, a recovery signal that met normal work, an input newly blocked."""


@dataclass(frozen=True, kw_only=True)
class BlockedPackets:
    """Packets in buffers of the network and at sources when the run stopped; since when (ticks; -1) the first of them
    waits.

    ``waits``: pairs of links; the head of a buffer behind the first (or on the way into it) waits for the second.
    Sorted.
    """

    packets: int
    at_sources: int
    since_tick: int
    waits: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class EngineResult:
    """What an engine measured. The first arrays have one entry a message, by number."""

    entered: IntArray
    """Tick at which its head left the source; -1: never."""
    delivered: IntArray
    """Tick at which its tail arrived; -1: never."""
    hops: IntArray
    """Routers that it crossed."""
    deliveries: int
    """Arrivals of messages at their hosts, as they were counted when they happened."""
    made: int
    """Messages that had been made at the end: those with numbers below."""
    held: IntArray
    """Numbers of the messages that lay in queues and buffers, or were on links, at the end, each as often as it was
    found."""
    stopped: str
    stopped_tick: int
    packet_hops: int
    """Routers crossed by messages."""
    digest: int
    """Of every grant, in order."""
    livelocked: int
    acks: int
    stuck: BlockedPackets
    carried: IntArray
    """Packets over each link, ACKs included."""
    nac_counters: Mapping[str, int]
    nac_timeline: IntArray
    """Rows (tick, place in NAC_EVENTS, router, input link)."""
    recovered: int
    """Packets that took the token of recovery ("disha")."""
    drb_counters: Mapping[str, int]
    most_entries: Mapping[str, int] = field(default_factory=dict)
    """Paths and cables that a source of FT-DRB holds at the end, of the source that holds the most."""
    trace: IntArray
    """Rows (tick, channel, packet) of the first grants."""
    escapes: IntArray
    """Escape paths that each message was given; none where packets do not move by FT-DRB."""
    diverted: BoolArray
    """Messages that their source sent over intermediate routers."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SimulationResult(EngineResult):
    """An outcome next to the messages that it is about: when each was born (ticks), from which host to which."""

    born: IntArray
    source: IntArray
    destination: IntArray

    @property
    def ticks_per_s(self) -> int:
        return TICKS_PER_S

    @property
    def sent(self) -> int:
        return len(self.born)

    @property
    def received(self) -> int:
        return int((self.delivered >= 0).sum())

    @property
    def deadlocked(self) -> bool:
        """Messages are left, and nothing moves any more."""
        return self.received < self.sent and self.stopped in ("finished", "no-progress")

    @property
    def conserved(self) -> bool:
        """Every message is in exactly one place: delivered (once), found in a queue, buffer or link, or not yet
        made."""
        places = np.bincount(self.held, minlength=self.sent) + (self.delivered >= 0)
        places[self.made :] += 1
        return self.deliveries == self.received and bool((places == 1).all())

    @property
    def deadlocked_at_s(self) -> float | None:
        """Since when the first packet that never moved again waits; None: nothing is stuck."""
        return (
            self.stuck.since_tick / self.ticks_per_s
            if self.deadlocked and self.stuck.since_tick >= 0
            else None
        )

    def latencies_s(self) -> FloatArray:
        """From making to the tail's arrival, source queue included; nan: never delivered."""
        return np.where(
            self.delivered >= 0, (self.delivered - self.born) / self.ticks_per_s, np.nan
        )


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Means over the messages made within the window. ``throughput``: delivered over offered within it (accepted
    load)."""

    mean_latency_s: float | None
    network_latency_s: float | None
    destination_mean_latency_s: float | None
    throughput: float
    accepted_packets_per_s: float
    measured_messages: int


def summarize(run: SimulationResult, *, start_s: float, end_s: float) -> Summary:
    """Figures of the messages made from ``start_s`` until ``end_s``: the steady state after a warm-up.

    ``destination_mean_latency_s``: a mean for every destination, then over destinations (Zarza 2011, eqs. 5.1 and 5.2).
    """
    start, end = round(start_s * run.ticks_per_s), round(end_s * run.ticks_per_s)
    inside = (run.born >= start) & (run.born < end)
    done = inside & (run.delivered >= 0)
    offered = int(inside.sum())
    arrived = int(((run.delivered >= start) & (run.delivered < end)).sum())
    latency = (run.delivered[done] - run.born[done]) / run.ticks_per_s
    network = (run.delivered[done] - run.entered[done]) / run.ticks_per_s
    return Summary(
        mean_latency_s=float(latency.mean()) if len(latency) else None,
        network_latency_s=float(network.mean()) if len(network) else None,
        destination_mean_latency_s=_by_destination(latency, run.destination[done]),
        throughput=arrived / offered if offered else 0.0,
        accepted_packets_per_s=arrived / (end_s - start_s) if end_s > start_s else 0.0,
        measured_messages=offered,
    )


def _by_destination(latency: FloatArray, destination: IntArray) -> float | None:
    if not len(latency):
        return None
    counts = np.bincount(destination)
    sums = np.bincount(destination, weights=latency)
    return float((sums[counts > 0] / counts[counts > 0]).mean())
