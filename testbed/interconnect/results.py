"""What a run of the interconnect simulator gives: a history of every message, and the figures that are read from it.

Latencies follow equations 5.1 and 5.2 of document 003 where said so; times are kept in ticks and told in seconds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Stuck:
    """Packets in buffers of the network and at sources when the run stopped; since when (ticks; -1) the first of them waits."""

    packets: int
    at_sources: int
    since_tick: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Simulation:
    """History: one entry a message of ``born``, ``entered`` (its head leaves the source), ``delivered`` (its tail arrives; -1:
    never), ``hops`` (routers), ``source``, ``destination``. ``packet_hops``: routers crossed by messages; ``carried``:
    packets over each link, ACKs included. ``digest``: of every grant, in order. ``nac_timeline``: rows (tick, event of
    kernel_state.NAC_EVENTS, router, input link).
    """

    network_name: str
    model: str
    born: NDArray[np.int64]
    entered: NDArray[np.int64]
    delivered: NDArray[np.int64]
    hops: NDArray[np.int32]
    source: NDArray[np.int32]
    destination: NDArray[np.int32]
    stopped: str
    stopped_tick: int
    last_move_tick: int
    packet_hops: int
    digest: int
    events: int
    livelocked: int
    acks: int
    stuck: Stuck
    carried: NDArray[np.int64]
    nac_counters: Mapping[str, int]
    nac_timeline: NDArray[np.int64]
    drb_counters: Mapping[str, int]
    trace: NDArray[np.int64]
    ticks_per_s: int

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
        """Every message is delivered, or is in a buffer, at a source, or not yet made (never twice, never lost)."""
        return self.sent == self.received + self.left

    @property
    def left(self) -> int:
        return self.sent - self.received

    @property
    def deadlocked_at_s(self) -> float | None:
        """Since when the first packet that never moved again waits; None: nothing is stuck."""
        return self.stuck.since_tick / self.ticks_per_s if self.deadlocked and self.stuck.since_tick >= 0 else None

    def born_s(self) -> NDArray[np.float64]:
        return self.born / self.ticks_per_s

    def latencies_s(self) -> NDArray[np.float64]:
        """From making to the tail's arrival, source queue included; nan: never delivered."""
        return np.where(self.delivered >= 0, (self.delivered - self.born) / self.ticks_per_s, np.nan)

    def network_latencies_s(self) -> NDArray[np.float64]:
        """From the head leaving the source's queue to the tail's arrival."""
        return np.where(self.delivered >= 0, (self.delivered - self.entered) / self.ticks_per_s, np.nan)


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Means over the messages made within the window. ``throughput``: delivered over offered within it (accepted load)."""

    mean_latency_s: float | None
    network_latency_s: float | None
    destination_mean_latency_s: float | None
    throughput: float
    accepted_packets_per_s: float
    measured: int
    undelivered: int


def summarize(run: Simulation, *, start_s: float, end_s: float) -> Summary:
    """Figures of the messages made from ``start_s`` until ``end_s``: the steady state after a warm-up.

    ``destination_mean_latency_s``: equations 5.1 and 5.2, a mean for every destination, then over destinations.
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
        measured=offered,
        undelivered=offered - int(done.sum()),
    )


def _by_destination(latency: NDArray[np.float64], destination: NDArray[np.int32]) -> float | None:
    if not len(latency):
        return None
    counts = np.bincount(destination)
    sums = np.bincount(destination, weights=latency)
    return float((sums[counts > 0] / counts[counts > 0]).mean())


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Mean and half the width of the 95 % confidence interval over seeds (Student's t; infinite for one value).

    >>> interval([1.0, 1.0, 1.0])
    (1.0, 0.0)
    """
    if len(values) < 2:
        return (float(values[0]) if values else math.nan), math.inf
    from scipy.stats import t

    array = np.asarray(values)
    half = float(t.ppf(0.975, len(array) - 1) * array.std(ddof=1) / math.sqrt(len(array)))
    return float(array.mean()), half


def by_slots(run: Simulation, *, slot_s: float, end_s: float) -> list[dict[str, Any]]:
    """Time series: messages made and received, and the mean latency of those received, in every slot."""
    count = math.ceil(end_s / slot_s - 1e-9)
    rows: list[dict[str, Any]] = []
    done = run.delivered >= 0
    arrival = np.floor(run.delivered[done] / run.ticks_per_s / slot_s).astype(np.int64)
    making = np.floor(run.born / run.ticks_per_s / slot_s).astype(np.int64)
    latency = (run.delivered[done] - run.born[done]) / run.ticks_per_s
    received = np.bincount(arrival[arrival < count], minlength=count)
    total = np.bincount(arrival[arrival < count], weights=latency[arrival < count], minlength=count)
    made = np.bincount(making[making < count], minlength=count)
    for k in range(count):
        mean = float(total[k] / received[k]) if received[k] else None
        rows.append({"start_s": k * slot_s, "made": int(made[k]), "received": int(received[k]), "mean_latency_s": mean})
    return rows
