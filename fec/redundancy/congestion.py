"""Whether the losses that a sender answers are of its own making: the circuit breaker of RFC 8083, section 4.3.

Packets that answer losses of a full queue fill the queue further. RFC 8083 ends a flow that has sent more than ten
times what TCP would get at its loss and round trip, over three report intervals. Here only the packets that the code
adds are given up: the source has its own rate. And only while a queue stands, which a loss without congestion does not
show: the least round trip of those intervals is longer by 5 ms, the target of RFC 8289 (section 3.2), than round trips
were before N was raised, jitter included. Where fewer packets then change neither the round trip nor the loss, and
no queue grows, both are the network's own, and N answers them, as long as that makes the loss no greater.
"""

import math
from collections import deque

_TIMES_TCP = 10
_INTERVALS = 3
_QUEUE_S = 0.005
_SAME = 0.8
"""Of the loss with more packets: a loss that stays above is not theirs."""


def tcp_rate_pps(loss: float, round_trip_s: float) -> float:
    """Packets a second of a TCP flow, by the simplified equation of RFC 8083, section 4.3 (Mathis et al. 1997).

    >>> round(tcp_rate_pps(0.015, 0.1))
    100
    """
    return 1 / (round_trip_s * math.sqrt(2 * loss / 3)) if loss and round_trip_s else math.inf


class CongestionBreaker:
    """``interval_s``: of reports; ``spread_s``: by which round trips differ without any queue; ``hold_s``: for which it
    stays ``open`` after the last sign. ``calm``: the last packet met no queue.

    >>> breaker = CongestionBreaker(interval_s=0.1, spread_s=0.0, hold_s=2.0)
    >>> breaker.add(0.0, round_trip_s=0.02, loss=0.0, sent_pps=1000, raised=False)
    >>> for k in range(1, 6):
    ...     breaker.add(0.1 * k, round_trip_s=0.07, loss=0.1, sent_pps=1000, raised=True)
    >>> breaker.open
    True
    """

    def __init__(self, *, interval_s: float, spread_s: float, hold_s: float) -> None:
        self._span_s, self._hold_s = _INTERVALS * interval_s, hold_s
        self._allowed_s = spread_s + _QUEUE_S
        self._calm_s, self._until_s = math.inf, -math.inf
        self._since_s = self._steady_s = self._worst = 0.0
        self._own, self._patience_s = math.inf, hold_s
        self._trips: deque[tuple[float, float]] = deque()
        self.open, self.calm = False, True

    def add(
        self, now_s: float, *, round_trip_s: float, loss: float, sent_pps: float, raised: bool
    ) -> None:
        """A report's news; ``raised``: N answers losses."""
        self._trips.append((now_s, round_trip_s))
        while self._trips[0][0] < now_s - self._hold_s:
            self._trips.popleft()
        trip_s = min(one for at_s, one in self._trips if at_s >= now_s - self._span_s)
        queued = trip_s > self._calm_s or loss > self._own
        if queued and sent_pps > _TIMES_TCP * tcp_rate_pps(loss, trip_s):
            if not self.open or trip_s > self._steady_s + _QUEUE_S:
                self._since_s, self._steady_s, self._worst = now_s, trip_s, loss
            self._until_s = now_s + self._hold_s
        self._worst = max(self._worst, loss)
        self.open, self.calm = now_s < self._until_s, round_trip_s <= self._calm_s
        if self.open and now_s >= self._since_s + self._patience_s and loss > _SAME * self._worst:
            self._own, self._patience_s = loss / _SAME, 2 * self._patience_s
            self._take_for_usual()
        elif not (self.open or raised):
            self._own, self._patience_s = math.inf, self._hold_s
            self._take_for_usual()

    def _take_for_usual(self) -> None:
        """Round trips of late have no queue of the sender's making. Twice their mean above the least is where those of
        an even jitter end."""
        trips = [one for _, one in self._trips]
        self._calm_s = 2 * sum(trips) / len(trips) - min(trips) + self._allowed_s
        self._until_s, self.open = -math.inf, False
