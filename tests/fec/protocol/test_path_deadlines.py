"""Which packets are overdue: by arrays, and packet by packet, which is how the rule reads."""

from __future__ import annotations

import math
import operator
import random
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from fec.protocol.path_deadlines import (
    _MAX_WAITING,
    JITTER,
    MIN_S,
    WINDOW_S,
    Arrived,
    PathDeadlines,
)
from fec.redundancy.labels import LABELS

Sent = tuple[float, int, int]
"""When a packet was sent, its block and symbol."""
_when = operator.itemgetter(0)


@dataclass(slots=True)
class _Path:
    """Packets of one planned delay. ``late``: the two greatest latenesses of this while, ``before_s`` the lesser of the
    last while's."""

    delay_s: float
    waiting: deque[Sent] = field(default_factory=deque)
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


class OneByOne:
    """``delay_of_label``: planned delay in seconds of each of the 65,536 labels' paths, None where nothing is
    planned. ``most_s``: allowed beyond it at most; without a plan also at first, for as long.
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
            late_s = (
                path.lateness_s(now_s) if now_s >= self._first_s + self._unknown_s else math.inf
            )
            until_s = self._heard_s - path.due_s(0.0) - MIN_S - min(late_s, self._most_s)
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
            arrivals = (
                packet[0] for packet in reversed(path.waiting) if _has_arrived(arrived, packet)
            )
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
    return bool(arrived.get(packet[1], 0) >> packet[2] & 1)


@given(st.integers(0, 1 << 32))
def test_arrays_tell_what_is_known_packet_by_packet(seed: int) -> None:
    chance = random.Random(seed)
    delays = chance.choice([None, [0.01] * LABELS, [0.002] * 30_000 + [0.03] * (LABELS - 30_000)])
    most_s = chance.choice([0.01, 0.2])
    by_arrays, one_by_one = PathDeadlines(delays, most_s=most_s), OneByOne(delays, most_s=most_s)
    sent: list[tuple[float, int, int, int]] = []
    came: dict[int, int] = {}
    now = 0.0
    for number in range(chance.choice([20, 400])):
        now += chance.choice([0.0, 0.001, 0.02])
        label = chance.randrange(LABELS)
        sent.append((now, number // 5, number % 5, label))
        by_arrays.add(*sent[-1])
        one_by_one.add(label, sent[-1][:3])
        if chance.random() < 0.1:
            for _, block, symbol, _ in chance.sample(
                sent[-60:], min(len(sent), chance.randrange(40))
            ):
                came[block] = came.get(block, 0) | 1 << symbol
            listed = {block: bits for block, bits in came.items() if block > max(came) - 8}
            newest_s, told_s = (
                sent[-chance.randrange(1, 5) if len(sent) > 5 else -1][0],
                now + chance.random() / 50,
            )
            known = by_arrays.known(Arrived(listed), newest_s, told_s)
            expected = one_by_one.known(listed, newest_s, told_s)
            assert [
                (at_s, int(block), int(symbol)) for at_s, block, symbol, _ in known.tolist()
            ] == expected


def test_packets_of_which_no_report_tells_are_bounded() -> None:
    deadlines = PathDeadlines(None, most_s=0.05)
    for k in range(2 * _MAX_WAITING):
        deadlines.add(0.001 * k, k // 20, k % 20, k % 255)
    assert len(deadlines._new) <= 4 * _MAX_WAITING
