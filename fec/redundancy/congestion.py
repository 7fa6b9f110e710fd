"""Whether the losses that a sender answers are of its own making: the circuit breaker of RFC 8083, section 4.3.

Packets that answer losses of a full queue fill the queue further. RFC 8083 ends a flow that has sent more than ten
times what TCP would get at its loss and round trip, over three report intervals. Here only the packets that the code
adds are given up: the source has its own rate. And only while a queue stands, which a loss without congestion does not
show: the least round trip of those intervals is longer by 5 ms, the target of RFC 8289 (section 3.2), than the least
ever was.
"""

import math
from collections import deque

_TIMES_TCP = 10
_INTERVALS = 3
_QUEUE_S = 0.005


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
    >>> breaker.add(0.0, round_trip_s=0.02, loss=0.0, sent_pps=1000)
    >>> for k in range(1, 6):
    ...     breaker.add(0.1 * k, round_trip_s=0.07, loss=0.1, sent_pps=1000)
    >>> breaker.open
    True
    """

    def __init__(self, *, interval_s: float, spread_s: float, hold_s: float) -> None:
        self._span_s, self._hold_s = _INTERVALS * interval_s, hold_s
        self._allowed_s = spread_s + _QUEUE_S
        self._least_s, self._until_s = math.inf, -math.inf
        self._latest: deque[tuple[float, float]] = deque()
        self.open, self.calm = False, True

    def add(self, now_s: float, *, round_trip_s: float, loss: float, sent_pps: float) -> None:
        """A report's news."""
        self._least_s = min(self._least_s, round_trip_s)
        self._latest.append((now_s, round_trip_s))
        while self._latest[0][0] < now_s - self._span_s:
            self._latest.popleft()
        trip_s, calm_s = min(one for _, one in self._latest), self._least_s + self._allowed_s
        if trip_s > calm_s and sent_pps > _TIMES_TCP * tcp_rate_pps(loss, trip_s):
            self._until_s = now_s + self._hold_s
        self.open, self.calm = now_s < self._until_s, round_trip_s <= calm_s
