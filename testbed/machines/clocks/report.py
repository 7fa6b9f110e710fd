"""What a run says of its clocks: the bound of each, what it leaves undecided, and when it is too wide or the link too
poor.

A figure that rests on two machines' stamps is known to within both their uncertainties; nothing here guesses.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from testbed.errors import InvalidRunError
from testbed.machines.clocks.exchange import Exchange

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


def clock_report(clock: "RemoteClock", *, requested: int, from_s: float, to_s: float) -> ClockReport:
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
