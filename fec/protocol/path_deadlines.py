"""Which packets under way are overdue, each by the time that its own path takes.

A packet is taken for lost when one that was due later has come: order is kept on a path, and between paths the planned
delays tell what was due. A gap in a path's own numbers is no use instead: a failure silences the path, and no later
packet shows the gap before the repair.

Plans err. So each path's packets are allowed as much more as they have come late by, twice in the last while: once may
be a machine that stalled. Without a plan all are allowed the most at first, before anything was learnt.

No clock: the time is handed in.
"""

import math
import operator
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

LEAST_S = 0.005
"""Allowed beyond the planned delay, always."""
JITTER = 0.1
"""By so much of its path's delay a packet may come earlier or later than planned."""
WINDOW_S = 5.0
"""Lateness is remembered for once to twice as long."""
_MAX_WAITING = 1 << 17


@dataclass(slots=True)
class SentBlock:
    """A block at its sender. ``first_label``: index of its first label in the order of labels; ``sent``: packets, late
    parity included; ``judged``: of those, the ones whose fate is known; ``judged_lost``: bit e where symbol e is taken
    for lost; ``known``: bit e for a source symbol that a short block does not have, zeros that both ends know."""

    number: int
    wire_number: int
    first_label: int
    started_s: float
    size: int
    sources: list[bytes] = field(default_factory=list)
    parity: list[bytes] = field(default_factory=list)
    sent: int = 0
    judged: int = 0
    judged_lost: int = 0
    complete: bool = False
    known: int = 0

    @property
    def absent(self) -> int:
        """How many source symbols it does not have."""
        return self.known.bit_count()


Sent = tuple[float, SentBlock, int]
"""When a packet was sent, its block and symbol."""
_when = operator.itemgetter(0)


@dataclass(slots=True)
class _Path:
    """Packets of one planned delay. ``late``: the two greatest latenesses of this while, ``before_s`` the lesser of the
    last while's."""

    delay_s: float
    waiting: deque[Sent] = field(default_factory=lambda: deque(maxlen=_MAX_WAITING))
    late: tuple[float, float] = (0.0, 0.0)
    before_s: float = 0.0
    since_s: float = 0.0

    def due_s(self, sent_s: float) -> float:
        return sent_s + (1 + JITTER) * self.delay_s

    def add_lateness(self, by_s: float) -> None:
        most_s, less_s = self.late
        self.late = (by_s, most_s) if by_s > most_s else (most_s, max(less_s, by_s))

    def lateness_s(self, now_s: float) -> float:
        """By which its packets have come late, twice at least."""
        if now_s - self.since_s > WINDOW_S:
            self.before_s, self.late, self.since_s = self.late[1], (0.0, 0.0), now_s
        return max(self.late[1], self.before_s)


class PathDeadlines:
    """``delay_of_label``: planned delay in seconds of each of the 65,536 labels' paths, None where nothing is
    planned. ``most_s``: allowed beyond it at most; without a plan also at first, for as long.

    >>> deadlines = PathDeadlines([0.01] * 32768 + [0.03] * 32768, most_s=0.2)
    >>> block = SentBlock(0, 0, 0, 0.0, 4)
    >>> for symbol, label in enumerate((0, 40000, 1, 2)):
    ...     deadlines.add(label, (1 + 0.02 * symbol, block, symbol))
    >>> known = deadlines.known({0: 0b0001}, 1.0, 1.01) or deadlines.known({0: 0b1001}, 1.06, 2.0)
    >>> [(symbol, at_s) for at_s, _, symbol in known]
    [(0, 1.0), (1, 1.02), (2, 1.04)]
    """

    def __init__(self, delay_of_label: Sequence[float] | None, *, most_s: float) -> None:
        self._delay_of, self._most_s = delay_of_label, most_s
        self._paths: dict[float, _Path] = {}
        self._heard_s = self._first_s = -math.inf
        self._unknown_s = most_s if delay_of_label is None else 0.0
        self._reported: Mapping[int, int] = {}
        self._lost: list[tuple[_Path, Sent]] = []

    def add(self, label: int, packet: Sent) -> None:
        """A packet that leaves now under this label."""
        delay_s = self._delay_of[label] if self._delay_of is not None else 0.0
        path = self._paths.get(delay_s)
        if path is None:
            path = self._paths[delay_s] = _Path(delay_s)
        path.waiting.append(packet)

    def known(self, arrived: Mapping[int, int], newest_s: float, now_s: float) -> list[Sent]:
        """Packets that have come or are overdue by a report, in the order of sending. ``arrived``: block -> bitmap of
        its symbols; ``newest_s``: when the newest packet that came was sent. Cost: what is under way at most."""
        if self._first_s == -math.inf:
            self._first_s = now_s
        self._learn(arrived)
        self._reported, self._heard_s = arrived, max(self._heard_s, self._hear(arrived, newest_s))
        found: list[Sent] = []
        for path in self._paths.values():
            late_s = path.lateness_s(now_s) if now_s >= self._first_s + self._unknown_s else math.inf
            until_s = self._heard_s - path.due_s(0.0) - LEAST_S - min(late_s, self._most_s)
            waiting = path.waiting
            while waiting and waiting[0][0] <= until_s:
                found.append(packet := waiting.popleft())
                if not _has_arrived(arrived, packet):
                    self._lost.append((path, packet))
        self._lost = [one for one in self._lost if one[1][0] > self._heard_s - 2 * self._most_s]
        return sorted(found, key=_when) if len(self._paths) > 1 else found

    def _hear(self, arrived: Mapping[int, int], newest_s: float) -> float:
        """What was due by then should be there: by the packets that came, each as early as it may have come."""
        if len(self._paths) == 1:
            (path,) = self._paths.values()
            return newest_s + path.due_s(0.0)
        heard_s = -math.inf
        for path in self._paths.values():
            arrivals = (packet[0] for packet in reversed(path.waiting) if _has_arrived(arrived, packet))
            heard_s = max(heard_s, next(arrivals, -math.inf) + (1 - JITTER) * path.delay_s)
        return heard_s

    def _learn(self, arrived: Mapping[int, int]) -> None:
        """From packets that the last report did not tell of, and should have."""
        for path in self._paths.values():
            for packet in path.waiting:
                if (late_s := self._heard_s - path.due_s(packet[0])) <= 0:
                    break
                if _has_arrived(arrived, packet) and not _has_arrived(self._reported, packet):
                    path.add_lateness(late_s)  # those behind it were sent later
                    break
        for path, packet in self._lost:
            if _has_arrived(arrived, packet):
                path.add_lateness(self._heard_s - path.due_s(packet[0]))
        self._lost = [one for one in self._lost if not _has_arrived(arrived, one[1])]


def _has_arrived(arrived: Mapping[int, int], packet: Sent) -> bool:
    return bool(arrived.get(packet[1].number, 0) >> packet[2] & 1)
