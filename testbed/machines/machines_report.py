"""What a run over several machines says of its machines, whatever ran: clocks, what crossed and, by the counters at
both ends, what was lost on the way; pure."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from testbed.errors import InvalidRunError
from testbed.machines.clocks.exchange import Exchange
from topologies import JsonObject, LinkId, label_of

if TYPE_CHECKING:  # numpy takes long to import
    from testbed.machines.clocks.remote_clock import RemoteClock

MAX_LOST = 0.01
"""Share of exchanges that may be lost on the way between machines; a cable of the model loses what its faults say and
nothing else."""
MIN_LOST = 3
"""Fewer lost exchanges than that say nothing of the link: one may have met a full socket."""
MAX_SLOWER_S = 0.01
"""How much longer the round trips of a second may all take than the run's quickest: half of it is added to every
crossing cable's delay."""
WINDOW_S = 1.0


@dataclass(frozen=True, kw_only=True)
class ClockReport:
    """One machine's clock over one run, as its figures carry it; times in seconds, drift in seconds a second.

    ``uncertainty_s``: the worst of any stamp of the run. ``asked`` exchanges, of which ``answered`` came back.
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
        return asdict(self) | {"drift": list(self.drift)}


def clock_report(
    clock: "RemoteClock", *, requested: int, from_s: float, to_s: float
) -> ClockReport:
    """The clock's figures for a run between two of its own stamps, in which ``asked`` exchanges were begun."""
    trips = [each.round_trip_s for each in clock.exchanges]
    return ClockReport(
        machine=clock.machine,
        offset_s=clock.offset((from_s + to_s) / 2)[0],
        uncertainty_s=clock.worst_uncertainty_s(from_s, to_s),
        drift=clock.drift(),
        asked=requested,
        replies_received=len(trips),
        quickest_s=min(trips),
        slowest_s=max(trips),
    )


def require_clock(report: ClockReport, most_s: float, what: str) -> None:
    """InvalidRunError (exit code 4) where a clock is known less well than ``what`` needs."""
    if report.uncertainty_s > most_s:
        raise InvalidRunError(
            f"the clock of {report.machine} is known to within {report.uncertainty_s * 1e3:.3g} ms only, and {what} "
            f"needs {most_s * 1e3:.3g} ms; quickest exchange {report.quickest_s * 1e3:.3g} ms, "
            f"{report.replies_received} of {report.asked} answered"
        )


def underlay_reason(machine: str, exchanges: Sequence[Exchange], requested: int) -> str | None:
    """Why the link to a machine was too poor for a run, or None: exchanges lost, or slower for a whole second than they
    were at best.

    ``asked``: exchanges begun, but for those that were still under way at the end.
    """
    lost = requested - len(exchanges)
    if lost >= MIN_LOST and lost > MAX_LOST * requested:
        many = f"{lost} of {requested} exchanges of time stamps (at most {MAX_LOST:.0%})"
        return f"the link to {machine} lost {many}: it loses packets of crossing cables too"
    if not exchanges:
        return None
    quickest: dict[int, float] = {}
    for each in exchanges:
        window = int((each.sent_ns - exchanges[0].sent_ns) / 1e9 // WINDOW_S)
        quickest[window] = min(quickest.get(window, math.inf), each.round_trip_s)
    slower_s = max(quickest.values()) - min(quickest.values())
    if slower_s > MAX_SLOWER_S:
        return (
            f"the link to {machine} was {slower_s * 1e3:.0f} ms slower for a second than at its best (at most "
            f"{MAX_SLOWER_S * 1e3:.0f} ms): it delays packets of crossing cables too"
        )
    return None


MAX_SHARE_OF_RUN = 0.01
"""Of a run's length, by which a clock may be wrong: a fifth of what the judgements of throughput allow at least."""


@dataclass(frozen=True, kw_only=True)
class MachinesReport:
    """``sent``: packets onto crossing links; ``lost`` of them on the way. ``cut_gaps_s``: between both ends of a cable
    that was cut or repaired, each time. ``encrypted_by``: what speaks WireGuard on each machine, empty where crossing
    cables are not encrypted."""

    clocks: tuple[ClockReport, ...]
    crossing_links: int
    sent: int
    lost: int
    cut_gaps_s: tuple[float, ...] = ()
    encrypted_by: tuple[str, ...] = ()

    @property
    def uncertainty_s(self) -> float:
        """Of the worst known clock: each time told by one machine is right to within it."""
        return max(one.uncertainty_s for one in self.clocks)

    def to_json(self) -> JsonObject:
        """As a run's figures carry it."""
        return {
            "machines": [one.to_json() for one in self.clocks],
            "clock_uncertainty_s": self.uncertainty_s,
            "crossing_links": self.crossing_links,
            "crossing_sent": self.sent,
            "crossing_lost_on_the_way": self.lost,
            "crossing_cut_gaps_s": [round(gap_s, 6) for gap_s in self.cut_gaps_s],
            "crossing_encrypted_by": list(self.encrypted_by),
        }

    def undecided(self, times_s: Iterable[float], moments_s: Sequence[float]) -> int:
        """How many of the times lie so near to one of the moments that the clocks cannot tell on which side.

        A time is notified by one machine and a moment by another: each is wrong by ``uncertainty_s`` at most.
        """
        near_s = 2 * self.uncertainty_s
        return sum(
            any(abs(at_s - moment_s) <= near_s for moment_s in moments_s) for at_s in times_s
        )

    def require_for(self, seconds: float) -> None:
        """InvalidRunError where a clock is known too badly to say how long a run of so many seconds took."""
        for one in self.clocks:
            require_clock(
                one, MAX_SHARE_OF_RUN * seconds, f"the length of a run of {seconds:.3g} s"
            )


LOST_ON_THE_WAY = 1e-3
"""Share of a crossing cable's packets that the underlay may lose: a tenth of what a verdict tells from none."""
MIN_LOST_ON_THE_WAY = 3
UNDER_WAY_S = 0.002
"""Of a packet, from being counted at one end to being counted at the other: two bridges of this machine, when it is
busy."""


@dataclass(frozen=True, kw_only=True)
class Counts:
    """``sent``: link -> (packets, bytes, drops) of the links that are sent onto here; ``arrived``: link -> packets that
    came over it."""

    sent: Mapping[LinkId, tuple[int, int, int]]
    arrived: Mapping[LinkId, int]


def merged(counts: Sequence[Counts]) -> Counts:
    """The counts of parts as those of the whole."""
    sent: dict[LinkId, tuple[int, int, int]] = {}
    arrived: dict[LinkId, int] = {}
    for one in counts:
        sent |= one.sent
        arrived |= one.arrived
    return Counts(sent=sent, arrived=arrived)


def lost_on_the_way(
    before: Counts,
    counts: Counts,
    crossing: Sequence[LinkId],
    gaps_s: Sequence[float],
    most_pps: float,
) -> tuple[int, int]:
    """Packets sent onto the crossing links between two counts, and those of them that did not come over.
    InvalidRunError where too many were lost.

    What a loss or a blackhole takes, it takes before the packet counts as sent; a cable that is cut loses what is under
    way, at ``most_pps`` packets a second, until both its ends are down: ``gaps_s``, each time.
    """
    onto = {link: counts.sent[link][0] - before.sent[link][0] for link in crossing}
    lost = {
        link: max(0, onto[link] - (counts.arrived[link] - before.arrived[link]))
        for link in crossing
    }
    sent, total = sum(onto.values()), sum(lost.values())
    unexpected = total - sum(math.ceil((gap_s + UNDER_WAY_S) * most_pps) for gap_s in gaps_s)
    if unexpected >= MIN_LOST_ON_THE_WAY and unexpected > LOST_ON_THE_WAY * sent:
        worst = max(lost, key=lambda link: lost[link])
        raise InvalidRunError(
            f"the network between the machines lost {total} of {sent} packets of crossing cables (at most "
            f"{LOST_ON_THE_WAY:.1%}), most on {label_of(worst)}: repair it, or send less"
        )
    return sent, total
