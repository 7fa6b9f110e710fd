"""Detection of losses that the sender itself causes: the circuit breaker of RFC 8083, section 4.3.

Packets that answer the losses of a full queue fill that queue further. RFC 8083 ends a flow that
has sent more than ten times what TCP would get at the same loss and round trip, over three report
intervals. There are two differences here.

- Only the packets that the code adds are given up, because the source has its own rate.
- The breaker opens only if a queue has built up. It has if the shortest round trip of those
  intervals exceeds the round trips before N was raised, with their jitter, by 5 ms (the target of
  RFC 8289, section 3.2). Losses without congestion do not lengthen the round trip.

If fewer packets change neither the round trip nor the loss, and no queue grows, both belong to the
network. N answers them then, as long as that does not increase the loss.
"""

import math
from collections import deque

# The flow's rate, as a multiple of TCP's, above which RFC 8083 opens the breaker.
_MAX_TCP_RATES = 10
# Report intervals over which RFC 8083 judges a flow.
_INTERVALS = 3
# Standing delay that shows a queue: the target of RFC 8289.
_QUEUE_S = 0.005
# If the loss stays above this fraction of what it was with more packets, these did not cause it.
_UNCHANGED = 0.8


def tcp_rate_pps(loss: float, round_trip_s: float) -> float:
    """Return the packets per second of a TCP flow; infinity without loss or round trip.

    This is the simplified equation of RFC 8083, section 4.3 (Mathis et al. 1997).

    >>> round(tcp_rate_pps(0.015, 0.1))
    100
    """
    return 1 / (round_trip_s * math.sqrt(2 * loss / 3)) if loss and round_trip_s else math.inf


class CongestionBreaker:
    """Opens while the sender's own packets seem to cause the losses.

    Attributes:
        open: Whether losses are treated as those of a queue that the sender fills.
        calm: Whether the newest packet met no queue.

    >>> breaker = CongestionBreaker(interval_s=0.1, spread_s=0.0, hold_s=2.0)
    >>> breaker.add(0.0, round_trip_s=0.02, loss=0.0, sent_pps=1000, raised=False)
    >>> for k in range(1, 6):
    ...     breaker.add(0.1 * k, round_trip_s=0.07, loss=0.1, sent_pps=1000, raised=True)
    >>> breaker.open
    True
    """

    def __init__(self, *, interval_s: float, spread_s: float, hold_s: float) -> None:
        """Start closed.

        Args:
            interval_s: Time between two loss reports.
            spread_s: Difference between round trips that occurs without any queue.
            hold_s: How long the breaker stays open after the last sign of congestion.
        """
        self._judged_s = _INTERVALS * interval_s
        self._hold_s = hold_s
        self._allowed_s = spread_s + _QUEUE_S
        # The longest round trip without a queue.
        self._max_calm_s = math.inf
        self._open_until_s = -math.inf
        # When the breaker opened, and the shortest round trip then.
        self._opened_s = 0.0
        self._opened_trip_s = 0.0
        # The largest loss since then.
        self._worst_loss = 0.0
        # A loss up to this belongs to the network.
        self._network_loss = math.inf
        # How long fewer packets must have changed nothing.
        self._patience_s = hold_s
        # Time and length of the round trips within the hold time.
        self._trips: deque[tuple[float, float]] = deque()
        self.open = False
        self.calm = True

    def add(
        self, now_s: float, *, round_trip_s: float, loss: float, sent_pps: float, raised: bool
    ) -> None:
        """Process one loss report.

        Args:
            now_s: Present time.
            round_trip_s: Round trip of the newest packet that arrived.
            loss: Estimated loss, a fraction.
            sent_pps: Packets sent per second.
            raised: Whether N is above its normal value, to answer losses.
        """
        self._trips.append((now_s, round_trip_s))
        while self._trips[0][0] < now_s - self._hold_s:
            self._trips.popleft()
        trip_s = min(trip for at_s, trip in self._trips if at_s >= now_s - self._judged_s)
        queued = trip_s > self._max_calm_s or loss > self._network_loss
        if queued and sent_pps > _MAX_TCP_RATES * tcp_rate_pps(loss, trip_s):
            queue_grows = trip_s > self._opened_trip_s + _QUEUE_S
            if not self.open or queue_grows:
                self._opened_s = now_s
                self._opened_trip_s = trip_s
                self._worst_loss = loss
            self._open_until_s = now_s + self._hold_s
        self._worst_loss = max(self._worst_loss, loss)
        self.open = now_s < self._open_until_s
        self.calm = round_trip_s <= self._max_calm_s
        patience_over = now_s >= self._opened_s + self._patience_s
        if self.open and patience_over and loss > _UNCHANGED * self._worst_loss:
            self._network_loss = loss / _UNCHANGED
            self._patience_s = 2 * self._patience_s
            self._accept_round_trips()
        elif not (self.open or raised):
            self._network_loss = math.inf
            self._patience_s = self._hold_s
            self._accept_round_trips()

    def _accept_round_trips(self) -> None:
        """Close, and treat the latest round trips as those without a queue.

        Evenly distributed jitter ends at twice the mean round trip less the shortest one.
        """
        trips = [trip for _, trip in self._trips]
        self._max_calm_s = 2 * sum(trips) / len(trips) - min(trips) + self._allowed_s
        self._open_until_s = -math.inf
        self.open = False
