"""What impairments do to packet after packet of one link: a chain of small machines, handed times and seeds, never a
clock.

The simulated fabric asks it in virtual time, the relay of the emulated one in real time: the same packets in the same
order meet the same fate on both, but for what depends on their times.
"""

import bisect
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from topologies import LinkId
from topologies import impairments as kinds

Stage = Callable[[float, int], list[float]]
"""(when a packet comes, s; its bytes) -> when each copy of it leaves: none where it is lost, two where it is
duplicated."""
MIN_QUEUE_PACKETS = 20
QUEUE_S = 0.05
"""What waits for a trace at most: so much of the link's capacity, or 20 packets, as before any link
(docs/reference/impairments.md)."""
MAX_LATE_S, MIN_LATE_S, LATE_SHARE = 0.005, 0.002, 0.25
"""What the relay may be late by (``most_late_s``)."""


@dataclass(frozen=True, kw_only=True)
class ImpairmentCounts:
    """Packets of one link that came, were lost, are copies, and left (``came`` - ``lost`` + ``copies``)."""

    came: int
    lost: int
    copies: int


class ImpairedLink:
    """The impairments of one directed link, in force from time 0 of its own. ``seed``: of the run; each link draws a
    stream of its own.

    ``queue_bytes``: what may wait for a trace's opportunities; ``delay_s``: of the link itself, after all impairments.
    ``offer`` must be called in the order of times.

    >>> from topologies.impairments import parse_impairments
    >>> link = ImpairedLink(parse_impairments("delay:0.01 duplicate:1"), ("a", "b", 0), seed=1)
    >>> link.offer(2.0, 300)
    [2.01, 2.01]
    """

    def __init__(
        self,
        impairments: kinds.Impairments,
        link: LinkId,
        *,
        seed: int,
        queue_bytes: int = MIN_QUEUE_PACKETS * 1514,
        delay_s: float = 0.0,
    ) -> None:
        self._delay_s = delay_s
        self._stages: list[Stage] = []
        for place, one in enumerate(impairments):
            chance = random.Random(f"{seed}/{link[0]}/{link[1]}/{link[2]}/{place}")
            self._stages.append(_stage(one, chance, queue_bytes))
        self._arrived = self._lost = self._copies = 0

    def offer(self, now: float, size_bytes: int) -> list[float]:
        """When the copies of a packet leave that comes now, in seconds on the caller's clock; never before it came."""
        times = [now]
        for stage in self._stages:
            times = [later for at in times for later in stage(at, size_bytes)]
        self._arrived += 1
        self._lost += not times
        self._copies += max(0, len(times) - 1)
        return [at + self._delay_s for at in times]

    @property
    def counts(self) -> ImpairmentCounts:
        return ImpairmentCounts(came=self._arrived, lost=self._lost, copies=self._copies)


def most_late_s(delay_s: float) -> float:
    """What 99 of 100 packets of a link may be late by in a run that counts, in seconds, where a relay impairs it, or
    delays it by ``delay_s``: a quarter of that delay, 2 ms at least, 5 ms at most.

    >>> most_late_s(0.0), most_late_s(0.001), most_late_s(0.01), most_late_s(0.1)
    (0.005, 0.002, 0.0025, 0.005)
    """
    return min(MAX_LATE_S, max(MIN_LATE_S, LATE_SHARE * delay_s)) if delay_s else MAX_LATE_S


def queue_bytes(capacity_bps: float, mtu: int = 1500, packets: int | None = None) -> int:
    """What waits before a link of that capacity at most: so many packets of ``mtu`` bytes; None: 50 ms of the capacity,
    and 20 packets at least."""
    if packets is not None:
        return packets * (mtu + 14)
    return max(MIN_QUEUE_PACKETS * (mtu + 14), round(capacity_bps / 8 * QUEUE_S))


def _stage(one: kinds.Impairment, chance: random.Random, most_bytes: int) -> Stage:
    if isinstance(one, kinds.RandomLoss):
        return lambda now, _: [] if chance.random() < one.fraction else [now]
    if isinstance(one, kinds.GilbertElliott):
        return _Chain(one, chance).pass_on
    if isinstance(one, kinds.ExtraDelay):
        return lambda now, _: [
            now + one.mean_s + (one.jitter_s * (2 * chance.random() - 1) if one.jitter_s else 0.0)
        ]
    if isinstance(one, kinds.Reordering):
        return lambda now, _: [now if chance.random() < one.fraction else now + one.delay_s]
    if isinstance(one, kinds.Duplication):
        return lambda now, _: [now, now] if chance.random() < one.fraction else [now]
    return _Opportunities(one, most_bytes).pass_on


class _Chain:
    """Gilbert and Elliott's: it begins in its stationary state; each packet is lost by the state that it finds, then
    moves it."""

    def __init__(self, one: kinds.GilbertElliott, chance: random.Random) -> None:
        self._one, self._chance = one, chance
        self._bad = chance.random() < one.loss_in_bad_state

    def pass_on(self, now: float, _: int) -> list[float]:
        one, chance = self._one, self._chance
        lost = chance.random() < (one.bad_loss if self._bad else one.good_loss)
        if chance.random() < (one.r if self._bad else one.p):
            self._bad = not self._bad
        return [] if lost else [now]


class _Opportunities:
    """A first-in first-out queue before the opportunities of a trace, which begins with the first packet; what does not
    fit is lost."""

    def __init__(self, trace: kinds.RateTrace, most_bytes: int) -> None:
        self._times = [ms / 1000 for ms in trace.times_ms]
        self._period_s = trace.period_s
        self._most_bytes = most_bytes
        self._began_s: float | None = None
        self._next = 0
        self._left_bytes = 0
        self._waiting: deque[tuple[float, int]] = deque()
        self._waiting_bytes = 0

    def pass_on(self, now: float, frame_bytes: int) -> list[float]:
        """See ``Stage``; a frame's Ethernet header does not count."""
        size = max(1, frame_bytes - 14)
        if self._began_s is None:
            self._began_s = now
        while self._waiting and self._waiting[0][0] <= now:
            self._waiting_bytes -= self._waiting.popleft()[1]
        if self._waiting_bytes + size > self._most_bytes:
            return []
        if not self._waiting:  # what was left of an earlier opportunity found nobody waiting
            self._next = max(self._next, self._first_from(now - self._began_s))
            self._left_bytes = 0
        while self._left_bytes < size:
            self._left_bytes += kinds.OPPORTUNITY_BYTES
            self._next += 1
        self._left_bytes -= size
        before = (
            self._waiting[-1][0] if self._waiting else now
        )  # sums of rounded times must not turn the order
        leaves = max(before, self._began_s + self._time_of(self._next - 1))
        self._waiting.append((leaves, size))
        self._waiting_bytes += size
        return [leaves]

    def _time_of(self, number: int) -> float:
        rounds, place = divmod(number, len(self._times))
        return rounds * self._period_s + self._times[place]

    def _first_from(self, at_s: float) -> int:
        """Number of the first opportunity at that time or later."""
        rounds = int(at_s // self._period_s)
        place = bisect.bisect_left(self._times, at_s - rounds * self._period_s - 1e-9)
        return rounds * len(self._times) + place
