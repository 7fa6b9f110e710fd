"""The effect of impairments on each packet of a link, as a function of times and seeds.

The simulator calls it in virtual time, the relay of the emulated fabric in real time. If the same
packets are offered in the same order, the same ones are lost, duplicated or delayed on both
fabrics, except for what depends on their times.
"""

import bisect
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from topologies import LinkId
from topologies import impairments as kinds

# Called with the time at which a packet arrives, in seconds, and its bytes. Returns the time at
# which each copy of the packet leaves: none if it is lost, two if it is duplicated.
Stage = Callable[[float, int], list[float]]

# Limits of the queue of a link, also in front of a rate trace (docs/reference/impairments.md): what
# the link's capacity carries in QUEUE_S seconds, but at least MIN_QUEUE_PACKETS packets.
MIN_QUEUE_PACKETS = 20
QUEUE_S = 0.05

# Limits of the relay's delay (``most_late_s``).
MAX_LATE_S = 0.005
MIN_LATE_S = 0.002
LATE_SHARE = 0.25

_ETHERNET_HEADER_BYTES = 14


@dataclass(frozen=True, kw_only=True)
class ImpairmentCounts:
    """Counts of the packets of a link. The number of packets that left is came - lost + copies.

    Attributes:
        came: Packets that were offered.
        lost: Packets that were lost.
        copies: Additional copies that were created.
    """

    came: int
    lost: int
    copies: int


class ImpairedLink:
    """The impairments of a directed link, which begin at time 0 of the link's clock.

    Packets must be offered in the order of their times. Each link has its own random generator, so
    that it does not depend on the packets of others.

    Args:
        impairments: The impairments in the order in which they affect a packet.
        link: Id of the link.
        seed: Seed of the run.
        queue_bytes: Size of the queue in front of a rate trace.
        delay_s: Delay of the link itself in seconds, which follows all impairments.

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
        for index, impairment in enumerate(impairments):
            rng = random.Random(f"{seed}/{link[0]}/{link[1]}/{link[2]}/{index}")
            self._stages.append(_stage(impairment, rng, queue_bytes))
        self._arrived = 0
        self._lost = 0
        self._copies = 0

    def offer(self, now: float, size_bytes: int) -> list[float]:
        """Return when the copies of a packet leave the link, in seconds on the caller's clock.

        Args:
            now: When the packet arrives. No copy leaves before it.
            size_bytes: Bytes of the packet.
        """
        times = [now]
        for stage in self._stages:
            next_times: list[float] = []
            for time_s in times:
                next_times += stage(time_s, size_bytes)
            times = next_times
        self._arrived += 1
        if not times:
            self._lost += 1
        else:
            self._copies += len(times) - 1
        return [time_s + self._delay_s for time_s in times]

    @property
    def counts(self) -> ImpairmentCounts:
        """The counts of all packets until now."""
        return ImpairmentCounts(came=self._arrived, lost=self._lost, copies=self._copies)


def most_late_s(delay_s: float) -> float:
    """Return the delay in seconds that a relay may add to 99 of 100 packets in a valid run.

    It is a quarter of the delay that the relay is to cause, but at least 2 ms and at most 5 ms.

    Args:
        delay_s: Delay that the relay is to cause in seconds, or 0 if it only impairs the link.

    >>> most_late_s(0.0), most_late_s(0.001), most_late_s(0.01), most_late_s(0.1)
    (0.005, 0.002, 0.0025, 0.005)
    """
    if not delay_s:
        return MAX_LATE_S
    return min(MAX_LATE_S, max(MIN_LATE_S, LATE_SHARE * delay_s))


def queue_bytes(capacity_bps: float, mtu: int = 1500, packets: int | None = None) -> int:
    """Return the size of the queue of a link in bytes.

    Args:
        capacity_bps: Capacity of the link in bits per second.
        mtu: Largest packet in bytes, without its Ethernet header.
        packets: Number of packets of this size in the queue. None: 50 ms of the capacity, but at
            least 20 packets.
    """
    frame_bytes = mtu + _ETHERNET_HEADER_BYTES
    if packets is not None:
        return packets * frame_bytes
    return max(MIN_QUEUE_PACKETS * frame_bytes, round(capacity_bps / 8 * QUEUE_S))


def _stage(impairment: kinds.Impairment, rng: random.Random, queue_bytes: int) -> Stage:
    if isinstance(impairment, kinds.RandomLoss):
        return _RandomLoss(impairment, rng).forward
    if isinstance(impairment, kinds.GilbertElliott):
        return _GilbertElliott(impairment, rng).forward
    if isinstance(impairment, kinds.ExtraDelay):
        return _ExtraDelay(impairment, rng).forward
    if isinstance(impairment, kinds.Reordering):
        return _Reordering(impairment, rng).forward
    if isinstance(impairment, kinds.Duplication):
        return _Duplication(impairment, rng).forward
    return _Opportunities(impairment, queue_bytes).forward


# The stages below are called for every packet. They therefore keep the values that they need, and
# the method of the random generator, in attributes of their own.


class _RandomLoss:
    """Loses each packet with the same probability."""

    def __init__(self, loss: kinds.RandomLoss, rng: random.Random) -> None:
        self._fraction = loss.fraction
        self._random = rng.random

    def forward(self, now: float, _: int) -> list[float]:
        if self._random() < self._fraction:
            return []
        return [now]


class _GilbertElliott:
    """The loss model of Gilbert and Elliott, a Markov chain with a good and a bad state.

    It begins in its stationary distribution. Each packet is lost with the probability of the
    present state, and then the state may change.
    """

    def __init__(self, model: kinds.GilbertElliott, rng: random.Random) -> None:
        self._random = rng.random
        # The probabilities of a loss and of a change of the state, in the present state and in the
        # other one.
        self._state = (model.good_loss, model.p)
        self._other_state = (model.bad_loss, model.r)
        if self._random() < model.loss_in_bad_state:
            self._state, self._other_state = self._other_state, self._state

    def forward(self, now: float, _: int) -> list[float]:
        loss, change = self._state
        lost = self._random() < loss
        if self._random() < change:
            self._state, self._other_state = self._other_state, self._state
        return [] if lost else [now]


class _ExtraDelay:
    """Delays each packet by the mean, plus or minus a uniformly distributed jitter."""

    def __init__(self, delay: kinds.ExtraDelay, rng: random.Random) -> None:
        self._mean_s = delay.mean_s
        self._jitter_s = delay.jitter_s
        self._random = rng.random

    def forward(self, now: float, _: int) -> list[float]:
        if not self._jitter_s:
            return [now + self._mean_s]
        return [now + self._mean_s + self._jitter_s * (2 * self._random() - 1)]


class _Reordering:
    """Delays all packets except a random fraction, which overtake the delayed ones."""

    def __init__(self, reordering: kinds.Reordering, rng: random.Random) -> None:
        self._fraction = reordering.fraction
        self._delay_s = reordering.delay_s
        self._random = rng.random

    def forward(self, now: float, _: int) -> list[float]:
        if self._random() < self._fraction:
            return [now]
        return [now + self._delay_s]


class _Duplication:
    """Forwards a fraction of the packets twice."""

    def __init__(self, duplication: kinds.Duplication, rng: random.Random) -> None:
        self._fraction = duplication.fraction
        self._random = rng.random

    def forward(self, now: float, _: int) -> list[float]:
        if self._random() < self._fraction:
            return [now, now]
        return [now]


class _Opportunities:
    """A first-in first-out queue that is served at the delivery opportunities of a rate trace.

    An opportunity is a time in the trace at which the link can carry OPPORTUNITY_BYTES (Mahimahi's
    format). The trace begins with the first packet and is repeated. A packet that does not fit into
    the queue is lost.
    """

    def __init__(self, trace: kinds.RateTrace, queue_bytes: int) -> None:
        self._times_s = [ms / 1000 for ms in trace.times_ms]
        self._period_s = trace.period_s
        self._queue_bytes = queue_bytes
        self._began_s: float | None = None
        # Number of opportunities that have been used, and the unused bytes of the last one.
        self._used_opportunities = 0
        self._unused_bytes = 0
        # When each waiting packet leaves, and its bytes.
        self._waiting: deque[tuple[float, int]] = deque()
        self._waiting_bytes = 0

    def forward(self, now: float, frame_bytes: int) -> list[float]:
        """Return when the packet leaves; see ``Stage``. Its Ethernet header does not count."""
        size_bytes = max(1, frame_bytes - _ETHERNET_HEADER_BYTES)
        if self._began_s is None:
            self._began_s = now
        while self._waiting and self._waiting[0][0] <= now:
            self._waiting_bytes -= self._waiting.popleft()[1]
        if self._waiting_bytes + size_bytes > self._queue_bytes:
            return []
        if not self._waiting:
            # Opportunities that passed while no packet was waiting are lost.
            passed = self._first_opportunity(now - self._began_s)
            self._used_opportunities = max(self._used_opportunities, passed)
            self._unused_bytes = 0
        while self._unused_bytes < size_bytes:
            self._unused_bytes += kinds.OPPORTUNITY_BYTES
            self._used_opportunities += 1
        self._unused_bytes -= size_bytes
        # Rounding errors in sums of times must not change the order of packets.
        earliest_s = self._waiting[-1][0] if self._waiting else now
        opportunity_s = self._began_s + self._time_of(self._used_opportunities - 1)
        leaves_s = max(earliest_s, opportunity_s)
        self._waiting.append((leaves_s, size_bytes))
        self._waiting_bytes += size_bytes
        return [leaves_s]

    def _time_of(self, number: int) -> float:
        """Return the time of an opportunity in seconds since the beginning."""
        repetitions, index = divmod(number, len(self._times_s))
        return repetitions * self._period_s + self._times_s[index]

    def _first_opportunity(self, at_s: float) -> int:
        """Return the number of the first opportunity at this time or later."""
        repetitions = int(at_s // self._period_s)
        # The small difference accepts an opportunity at this time in spite of rounding errors.
        index = bisect.bisect_left(self._times_s, at_s - repetitions * self._period_s - 1e-9)
        return repetitions * len(self._times_s) + index
