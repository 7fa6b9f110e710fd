"""When each node makes a message, and for whom: Poisson, periodic and burst injection, as sorted arrays.

A traffic is fixed before a simulation starts, so that two engines, and two routings, meet the very same messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from testbed.arrays import FloatArray, IntArray
from testbed.errors import InputError
from testbed.interconnect.traffic.patterns import DestinationPattern

PROCESSES = ("poisson", "periodic", "burst")
PS_PER_S = 10**12


@dataclass(frozen=True, kw_only=True, eq=False)
class Injections:
    """Messages in order of time, ties by source. Arrays of one length: ``time_ps`` (int64, picoseconds), ``source`` and
    ``destination`` (int32, node numbers), ``size_bytes`` (int64; None: each as long as a packet).
    """

    time_ps: IntArray
    source: IntArray
    destination: IntArray
    size_bytes: IntArray | None = None

    def __post_init__(self) -> None:
        if not self.time_ps.shape == self.source.shape == self.destination.shape:
            raise InputError("injections: times, sources and destinations must be of one length")
        if self.size_bytes is not None and len(self.size_bytes) != len(self.time_ps):
            raise InputError(f"messages: {len(self.size_bytes)} sizes for {len(self.time_ps)} messages")
        if len(self.time_ps) and (self.time_ps[0] < 0 or bool((np.diff(self.time_ps) < 0).any())):
            raise InputError("injections: times must be sorted and none before 0")

    def __len__(self) -> int:
        return len(self.time_ps)


@dataclass(frozen=True, kw_only=True)
class InjectionProcess:
    """``kind`` poisson, periodic or burst; ``rate_per_s`` messages a second of every sender, on average.

    Periodic: the senders share the period evenly out of phase, or with ``in_phase`` all start at 0. Burst:
    ``burst_messages`` at one moment, then nothing until the mean is kept; ``in_phase`` all senders at once, else each
    at a moment of its own in the first period. Raises InputError for a rate below 0.
    """

    kind: str = "poisson"
    rate_per_s: float
    burst_messages: int = 1
    in_phase: bool = False

    def __post_init__(self) -> None:
        if self.kind not in PROCESSES:
            raise InputError(f"injection {self.kind!r} is unknown; give one of {', '.join(PROCESSES)}")
        if not 0 <= self.rate_per_s < PS_PER_S:
            raise InputError(f"injection: a rate of {self.rate_per_s} messages a second; give 0 or more")
        if self.burst_messages < 1:
            raise InputError(f"injection: a burst of {self.burst_messages} messages; give 1 or more")


def build_injections(
    pattern: DestinationPattern, process: InjectionProcess, *, duration_s: float, seed: int | Sequence[int]
) -> Injections:
    """Every message that the pattern's senders make before ``duration_s``; the same seed gives the same messages.

    Each sender draws from a generator of its own (seeded by seed and node), so that silencing one leaves the others'
    messages as they are. O(messages log messages).
    """
    if duration_s <= 0:
        raise InputError(f"injection: a duration of {duration_s} s; give one above 0")
    parts: list[Injections] = []
    seeds = [seed] if isinstance(seed, int) else list(seed)
    senders = pattern.senders
    for rank, source in enumerate(senders):
        chance = np.random.default_rng([*seeds, source])
        times = _times(process, duration_s, chance, rank / len(senders))
        there = np.asarray(pattern.choices[source], dtype=np.int32)
        picked = np.arange(len(times)) % len(there) if pattern.in_turn else chance.integers(len(there), size=len(times))
        own = np.full(len(times), source, dtype=np.int32)
        parts.append(Injections(time_ps=times, source=own, destination=there[picked]))
    return merge(parts)


def merge(parts: Iterable[Injections]) -> Injections:
    """Several traffics as one, sorted by time, then source; messages of one moment and source keep their order.

    Raises InputError for parts whose messages have sizes of their own.
    """
    listed = list(parts)
    if any(part.size_bytes is not None for part in listed):
        raise InputError("injections: messages with sizes of their own cannot be merged; give one traffic")
    if not listed:
        return Injections(
            time_ps=np.empty(0, np.int64), source=np.empty(0, np.int32), destination=np.empty(0, np.int32)
        )
    time = np.concatenate([part.time_ps for part in listed])
    source = np.concatenate([part.source for part in listed])
    order = np.lexsort((source, time))
    destination = np.concatenate([part.destination for part in listed])
    return Injections(time_ps=time[order], source=source[order], destination=destination[order])


def burst_at(pattern: DestinationPattern, *, time_s: float, messages: int) -> Injections:
    """One burst: every sender makes so many messages at that moment (a deadlock-prone situation, as in Zarza 2011,
    5.5.1)."""
    if time_s < 0 or messages < 1:
        raise InputError(f"burst: {messages} messages at {time_s} s; give 1 or more at 0 or later")
    source = np.repeat(np.asarray(pattern.senders, dtype=np.int32), messages)
    there = [pattern.choices[s][k % len(pattern.choices[s])] for s in pattern.senders for k in range(messages)]
    time = np.full(len(source), round(time_s * PS_PER_S), dtype=np.int64)
    return merge([Injections(time_ps=time, source=source, destination=np.asarray(there, dtype=np.int32))])


def _times(process: InjectionProcess, duration_s: float, chance: np.random.Generator, phase: float) -> IntArray:
    """Picoseconds, sorted, all below the duration; ``phase`` in 0..1 is the sender's share of a period."""
    end = round(duration_s * PS_PER_S)
    if process.rate_per_s == 0:
        return np.empty(0, dtype=np.int64)
    gap = PS_PER_S / process.rate_per_s
    if process.kind == "poisson":
        times = _poisson(gap, end, chance)
    else:
        period = gap * (process.burst_messages if process.kind == "burst" else 1)
        first = 0.0 if process.in_phase else period * (chance.random() if process.kind == "burst" else phase)
        times = np.arange(first, end, period)
        if process.kind == "burst":
            times = np.repeat(times, process.burst_messages)
    whole = times.astype(np.int64)
    return whole[whole < end]


def _poisson(gap: float, end: int, chance: np.random.Generator) -> FloatArray:
    drawn = np.empty(0)
    last = 0.0
    while last < end:
        more = last + np.cumsum(chance.exponential(gap, size=64 + int(1.1 * (end - last) / gap)))
        drawn = np.concatenate([drawn, more])
        last = float(more[-1])
    return drawn[drawn < end]
