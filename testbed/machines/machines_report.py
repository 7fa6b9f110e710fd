"""Report on the machines of a run: clocks, crossing links, and packets lost between the machines.

The report is the same for all workloads. The functions here are pure.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from testbed.errors import InvalidRunError
from testbed.machines.clocks.exchange import Exchange
from topologies import JsonObject, LinkId, label_of

if TYPE_CHECKING:  # numpy takes long to import
    from testbed.machines.clocks.remote_clock import RemoteClock

# Share of the clock exchanges that may be lost between machines. A cable of the model must lose
# only what its faults say.
MAX_EXCHANGE_LOSS = 0.01
# Fewer lost exchanges say nothing about the link: a single one may have met a full socket.
MIN_LOST_EXCHANGES = 3
# How much longer all round trips of one second may take than the quickest one of the run, in
# seconds. Half of it is added to the delay of every crossing cable.
MAX_SLOWER_S = 0.01
# Length of the periods whose quickest round trips are compared, in seconds.
WINDOW_S = 1.0

# Limit on the error of a clock, as a share of the run's length. It is a fifth of the smallest
# tolerance on a throughput.
MAX_SHARE_OF_RUN = 0.01

# Share of the packets of crossing cables that the underlay may lose: a tenth of the smallest loss
# that a verdict can distinguish from none.
MAX_PACKET_LOSS = 1e-3
# Fewer lost packets do not make a run invalid.
MIN_LOST_PACKETS = 3
# Longest time between the counting of a packet at one end and at the other, in seconds: it passes
# two bridges of a busy machine.
MAX_IN_TRANSIT_S = 0.002


@dataclass(frozen=True, kw_only=True)
class ClockReport:
    """The clock of one machine over one run. The fields are the keys of its JSON.

    Attributes:
        machine: Name of the machine.
        offset_s: How far its clock is ahead of ours in the middle of the run, in seconds.
        uncertainty_s: Largest uncertainty of any time stamp of the run, in seconds.
        drift: Lowest and highest mean drift that the exchanges allow, in seconds per second.
        asked: Number of questions for the time that were answered or lost.
        replies_received: Number of questions that were answered.
        quickest_s: Shortest round trip, in seconds.
        slowest_s: Longest round trip, in seconds.
    """

    machine: str
    offset_s: float
    uncertainty_s: float
    drift: tuple[float, float]
    asked: int
    replies_received: int
    quickest_s: float
    slowest_s: float

    def to_json(self) -> dict[str, object]:
        """Return the fields as a JSON object."""
        return asdict(self) | {"drift": list(self.drift)}


def clock_report(
    clock: "RemoteClock", *, requested: int, from_s: float, to_s: float
) -> ClockReport:
    """Summarize a machine's clock for one run.

    Args:
        clock: The clock, with all exchanges of the run.
        requested: Number of questions that were answered or lost.
        from_s: Start of the run on the machine's clock, in seconds.
        to_s: End of the run on the machine's clock, in seconds.
    """
    round_trips_s = [exchange.round_trip_s for exchange in clock.exchanges]
    offset_s, _ = clock.offset((from_s + to_s) / 2)
    return ClockReport(
        machine=clock.machine,
        offset_s=offset_s,
        uncertainty_s=clock.worst_uncertainty_s(from_s, to_s),
        drift=clock.drift(),
        asked=requested,
        replies_received=len(round_trips_s),
        quickest_s=min(round_trips_s),
        slowest_s=max(round_trips_s),
    )


def require_clock(report: ClockReport, max_uncertainty_s: float, purpose: str) -> None:
    """Refuse a clock whose uncertainty is above a limit.

    Args:
        report: The clock.
        max_uncertainty_s: The limit, in seconds.
        purpose: What needs the clock, for the message.

    Raises:
        InvalidRunError: The uncertainty is above the limit (exit code 4).
    """
    if report.uncertainty_s > max_uncertainty_s:
        raise InvalidRunError(
            f"the clock of {report.machine} is known to within "
            f"{report.uncertainty_s * 1e3:.3g} ms only, and {purpose} "
            f"requires {max_uncertainty_s * 1e3:.3g} ms; "
            f"quickest exchange {report.quickest_s * 1e3:.3g} ms, "
            f"{report.replies_received} of {report.asked} answered"
        )


def underlay_reason(machine: str, exchanges: Sequence[Exchange], requested: int) -> str | None:
    """Return why the link to a machine was too poor for a run, or None.

    A link is too poor if it lost too many exchanges, or if all exchanges of some second were much
    slower than the quickest one.

    Args:
        machine: Name of the machine.
        exchanges: The exchanges that were answered.
        requested: Number of exchanges, without those that were in transit at the end.
    """
    lost = requested - len(exchanges)
    if lost >= MIN_LOST_EXCHANGES and lost > MAX_EXCHANGE_LOSS * requested:
        return (
            f"the link to {machine} lost {lost} of {requested} exchanges of time stamps "
            f"(at most {MAX_EXCHANGE_LOSS:.0%}): it loses packets of crossing cables too"
        )
    if not exchanges:
        return None
    quickest_s: dict[int, float] = {}
    first_ns = exchanges[0].sent_ns
    for exchange in exchanges:
        window = int((exchange.sent_ns - first_ns) / 1e9 // WINDOW_S)
        quickest_s[window] = min(quickest_s.get(window, math.inf), exchange.round_trip_s)
    slower_s = max(quickest_s.values()) - min(quickest_s.values())
    if slower_s > MAX_SLOWER_S:
        return (
            f"the link to {machine} was {slower_s * 1e3:.0f} ms slower for a second than at its "
            f"best (at most {MAX_SLOWER_S * 1e3:.0f} ms): it delays packets of crossing cables too"
        )
    return None


@dataclass(frozen=True, kw_only=True)
class MachinesReport:
    """The machines of one run, their clocks, and the links between them.

    Attributes:
        clocks: One report for each machine.
        crossing_links: Number of links whose ends are on two machines.
        sent: Number of packets sent onto crossing links.
        lost: Number of these packets that did not arrive.
        cut_gaps_s: For each cut or repair of a crossing cable, the time between the changes at its
            two ends, in seconds.
        encrypted_by: The WireGuard implementation on each machine; empty if crossing cables are
            not encrypted.
    """

    clocks: tuple[ClockReport, ...]
    crossing_links: int
    sent: int
    lost: int
    cut_gaps_s: tuple[float, ...] = ()
    encrypted_by: tuple[str, ...] = ()

    @property
    def uncertainty_s(self) -> float:
        """Largest uncertainty of all clocks: every reported time is right to within it."""
        return max(clock.uncertainty_s for clock in self.clocks)

    def to_json(self) -> JsonObject:
        """Return the report as it is stored in the results of a run."""
        return {
            "machines": [clock.to_json() for clock in self.clocks],
            "clock_uncertainty_s": self.uncertainty_s,
            "crossing_links": self.crossing_links,
            "crossing_sent": self.sent,
            "crossing_lost_on_the_way": self.lost,
            "crossing_cut_gaps_s": [round(gap_s, 6) for gap_s in self.cut_gaps_s],
            "crossing_encrypted_by": list(self.encrypted_by),
        }

    def undecided(self, times_s: Iterable[float], moments_s: Sequence[float]) -> int:
        """Count the times that may be before or after a moment, as far as the clocks can tell.

        Args:
            times_s: Times, each reported by one machine, in seconds.
            moments_s: Moments, each reported by another machine, in seconds.
        """
        # A time and a moment are each wrong by the uncertainty at most.
        near_s = 2 * self.uncertainty_s
        count = 0
        for time_s in times_s:
            if any(abs(time_s - moment_s) <= near_s for moment_s in moments_s):
                count += 1
        return count

    def require_for(self, seconds: float) -> None:
        """Refuse clocks that are too uncertain to measure a run of this length, in seconds.

        Raises:
            InvalidRunError: The uncertainty of a clock is above its limit.
        """
        for clock in self.clocks:
            limit_s = MAX_SHARE_OF_RUN * seconds
            require_clock(clock, limit_s, f"the length of a run of {seconds:.3g} s")


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Packet counts of links at one moment.

    Attributes:
        sent: Packets, bytes and drops of each link whose sending end is counted.
        arrived: Packets that arrived over each link whose receiving end is counted.
    """

    sent: Mapping[LinkId, tuple[int, int, int]]
    arrived: Mapping[LinkId, int]


def merge_counts(counts: Sequence[Counts]) -> Counts:
    """Merge the counts of several machines."""
    sent: dict[LinkId, tuple[int, int, int]] = {}
    arrived: dict[LinkId, int] = {}
    for part in counts:
        sent |= part.sent
        arrived |= part.arrived
    return Counts(sent=sent, arrived=arrived)


def count_crossing_packets(
    before: Counts,
    counts: Counts,
    crossing: Sequence[LinkId],
    gaps_s: Sequence[float],
    max_pps: float,
) -> tuple[int, int]:
    """Return the packets sent onto crossing links between two counts, and those that were lost.

    A faulty link that loses packets drops them before they count as sent. A cable that is cut
    loses the packets in transit until both its ends are down.

    Args:
        before: The counts at the start.
        counts: The counts at the end.
        crossing: The links whose ends are on two machines.
        gaps_s: Time between the changes at both ends, for each cut or repair, in seconds.
        max_pps: Highest rate of a link, in packets per second.

    Raises:
        InvalidRunError: More packets were lost than the cuts explain.
    """
    sent = 0
    lost: dict[LinkId, int] = {}
    for link in crossing:
        sent_on_link = counts.sent[link][0] - before.sent[link][0]
        arrived_on_link = counts.arrived[link] - before.arrived[link]
        lost[link] = max(0, sent_on_link - arrived_on_link)
        sent += sent_on_link
    total_lost = sum(lost.values())
    lost_by_cuts = sum(math.ceil((gap_s + MAX_IN_TRANSIT_S) * max_pps) for gap_s in gaps_s)
    unexplained = total_lost - lost_by_cuts
    if unexplained >= MIN_LOST_PACKETS and unexplained > MAX_PACKET_LOSS * sent:
        worst = max(lost, key=lost.__getitem__)
        raise InvalidRunError(
            f"the network between the machines lost {total_lost} of {sent} packets of crossing "
            f"cables (at most {MAX_PACKET_LOSS:.1%}), most on {label_of(worst)}: "
            "repair it, or send less"
        )
    return sent, total_lost
