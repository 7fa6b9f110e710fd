"""What the network between machines lost of the packets of crossing cables, by the counters at both their ends;
pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from topologies.network import LinkId, label_of

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


@dataclass(frozen=True, kw_only=True)
class LostOnTheWay:
    """Packets of the crossing links that went into the underlay, and those that never came out of it; the worst link.

    ``allowed``: what may be lost while one end of a cable is cut or repaired and the other is not yet.
    """

    sent: int
    lost: int
    worst: str
    allowed: int = 0

    def reason(self) -> str | None:
        """Why a run says nothing, or None."""
        lost = self.lost - self.allowed
        if lost < MIN_LOST_ON_THE_WAY or lost <= LOST_ON_THE_WAY * self.sent:
            return None
        return (
            f"the network between the machines lost {self.lost} of {self.sent} packets of crossing cables (at most "
            f"{LOST_ON_THE_WAY:.1%}), most on {self.worst}: mend it, or send less"
        )


def lost_on_the_way(
    counts: Counts, crossing: Sequence[LinkId], gaps_s: Sequence[float], most_pps: float
) -> LostOnTheWay:
    """Sent onto each crossing link less what came over it. What a loss or a blackhole takes, it takes before the packet
    counts as sent; a cable that is cut loses what is under way, at ``most_pps`` packets a second, until both its ends
    are down: ``gaps_s``, each time."""
    sent = sum(counts.sent[link][0] for link in crossing)
    lost = {link: max(0, counts.sent[link][0] - counts.arrived[link]) for link in crossing}
    worst = max(lost, key=lambda link: lost[link], default=None)
    allowed = sum(math.ceil((gap_s + UNDER_WAY_S) * most_pps) for gap_s in gaps_s)
    return LostOnTheWay(sent=sent, lost=sum(lost.values()), worst=label_of(worst) if worst else "none", allowed=allowed)
