"""What a run over several machines says of its machines, whatever ran: clocks, what crossed and, by the counters at
both ends, what was lost on the way; pure."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from testbed.errors import InvalidRunError
from testbed.machines.clocks.report import ClockReport, require_clock
from topologies.network import LinkId, label_of
from topologies.text.json_types import JsonObject

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
        return sum(any(abs(at_s - moment_s) <= near_s for moment_s in moments_s) for at_s in times_s)

    def require_for(self, seconds: float) -> None:
        """InvalidRunError where a clock is known too badly to say how long a run of so many seconds took."""
        for one in self.clocks:
            require_clock(one, MAX_SHARE_OF_RUN * seconds, f"the length of a run of {seconds:.3g} s")


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
    counts: Counts, crossing: Sequence[LinkId], gaps_s: Sequence[float], most_pps: float
) -> tuple[int, int]:
    """Packets sent onto the crossing links, and those of them that did not come over. InvalidRunError where too many
    were lost.

    What a loss or a blackhole takes, it takes before the packet counts as sent; a cable that is cut loses what is under
    way, at ``most_pps`` packets a second, until both its ends are down: ``gaps_s``, each time.
    """
    sent = sum(counts.sent[link][0] for link in crossing)
    lost = {link: max(0, counts.sent[link][0] - counts.arrived[link]) for link in crossing}
    total = sum(lost.values())
    unexpected = total - sum(math.ceil((gap_s + UNDER_WAY_S) * most_pps) for gap_s in gaps_s)
    if unexpected >= MIN_LOST_ON_THE_WAY and unexpected > LOST_ON_THE_WAY * sent:
        worst = max(lost, key=lambda link: lost[link])
        raise InvalidRunError(
            f"the network between the machines lost {total} of {sent} packets of crossing cables (at most "
            f"{LOST_ON_THE_WAY:.1%}), most on {label_of(worst)}: repair it, or send less"
        )
    return sent, total
