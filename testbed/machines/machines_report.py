"""What a run over several machines says of its machines, whatever ran: clocks, what crossed and what was lost on the
way; pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from testbed.machines.clocks.report import ClockReport, require_clock
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
