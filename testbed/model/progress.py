"""Progress of a run, as a fabric reports it to a progress bar or a live page.

A progress bar needs seconds and a short text. A live page also shows counters. A report contains
the counters that the run has in memory. The page reads all others when it needs them. It may do so
in a separate process.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from topologies.network import LinkId


@dataclass(frozen=True, kw_only=True)
class CounterReading:
    """The counters of a run at one moment. Totals count from the start of the run.

    A value that the run does not have is None or empty.

    Attributes:
        at_s: Seconds on the run's clock, on which its faults begin and end too.
        link_bytes: Bytes transmitted on each link.
        down: Links without a carrier.
        faults: Descriptions of the active faults.
        sent: Packets that the stream has sent.
        received: Packets that the stream has received.
        block_size: Number of packets (N) of the last block.
        frame: Number of the current time frame, from 1.
        frames: Number of time frames of the run.
        figures: Further numbers by their name.
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


# Reads the current counters of a run. It may be called in a process that was forked after the
# counters had been created.
ReadCounters = Callable[[], CounterReading]


@dataclass(frozen=True, kw_only=True)
class Progress:
    """The progress of a run at one moment.

    Attributes:
        doing: Short text that says what the run does now.
        done_s: Seconds that have passed. With the default, nothing is done yet.
        total_s: Seconds that the run takes.
        reading: The counters that the reporter knows without reading any.
        read_local: Reads the remaining counters. It is the same function in every report of a run.
        read_remote: Likewise, but it has to ask other machines, so only this process can call it.
    """

    doing: str
    done_s: float = 0.0
    total_s: float = 1.0
    reading: CounterReading | None = None
    read_local: ReadCounters | None = None
    read_remote: ReadCounters | None = None


# A fabric calls it whenever there is something new to show.
ReportProgress = Callable[[Progress], None]
