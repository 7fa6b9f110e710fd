"""Where a run is: what a fabric reports to whoever shows progress, whatever the workload.

A bar needs seconds and a few words. A live page also takes a ``CounterReading``: what the run knows anyway comes with
the report, and what counters of the machine say is read by whoever looks, when it looks, in a process of its own if it
likes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from topologies.network import LinkId


@dataclass(frozen=True, kw_only=True)
class CounterReading:
    """What is known of a run at one moment; sums since its start, None or empty where it has no such thing.

    ``at_s``: seconds on the run's own clock (that of its faults). ``link_bytes``: bytes put onto each link. ``down``:
    links without a carrier. ``faults``: those in force, in words. ``sent``, ``received``: packets of the stream;
    ``block_size``: N of the last one. ``frame`` of ``frames``: the time frame that is open, counted from 1.
    ``figures``: further numbers by what they are called.
    """

    at_s: float | None = None
    link_bytes: Mapping[LinkId, int] = field(default_factory=dict)
    down: tuple[LinkId, ...] | None = None
    faults: tuple[str, ...] | None = None
    sent: int | None = None
    received: int | None = None
    block_size: float | None = None
    frame: int | None = None
    frames: int | None = None
    figures: Mapping[str, float] = field(default_factory=dict)


ReadCounters = Callable[[], CounterReading]
"""Reads what a run's counters say now; may be called in a process that was forked after the counters were there."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Where a run is: ``done_s`` of ``total_s`` seconds (left out: nothing yet), and what happens now in a few words.

    ``reading``: what the reporter knows without looking; ``look``: how to read the rest (the same function in every
    report of a run); ``ask``: likewise, where only this process can, because it has to ask other machines.
    """

    doing: str
    done_s: float = 0.0
    total_s: float = 1.0
    reading: CounterReading | None = None
    read_local: ReadCounters | None = None
    read_remote: ReadCounters | None = None


ReportProgress = Callable[[Progress], None]
"""Called by a fabric whenever there is something new to show."""
