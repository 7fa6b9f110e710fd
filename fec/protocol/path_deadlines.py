"""Which packets under way are overdue, each by the time that its own path takes.

A packet is taken for lost when one that was due later has come: order is kept on a path, and between paths the planned
delays tell what was due. A gap in a path's own numbers is no use instead: a failure silences the path, and no later
packet shows the gap before the repair.

Plans err. So each path's packets are allowed as much more as they have come late by, twice in the last while: once may
be a machine that stalled. Without a plan all are allowed the most at first, before anything was learnt.

No clock: the time is handed in.
"""

import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fec.errors import FecError
from fec.protocol.loss_report import MAX_BLOCKS
from fec.redundancy.labels import LABELS

LEAST_S = 0.005
"""Allowed beyond the planned delay, always."""
JITTER = 0.1
"""By so much of its path's delay a packet may come earlier or later than planned."""
WINDOW_S = 5.0
"""Lateness is remembered for once to twice as long."""
_MAX_WAITING, _MAX_BLOCKS = 1 << 17, 8192
_BITMAP_BYTES = 32
_SENT, _BLOCK, _SYMBOL, _LABEL = range(4)

Packets = NDArray[np.float64]
"""A row a packet: when it was sent, block, symbol, label."""


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


def forget_older(blocks: dict[int, SentBlock], oldest_s: float) -> None:
    """Without those that began earlier, and those too many, before the newest."""
    while (first := next(iter(blocks.values()))).started_s < oldest_s or len(blocks) > _MAX_BLOCKS:
        del blocks[first.number]


class Arrived:
    """Of which packets a report tells: block -> bitmap of its symbols, of the newest ``MAX_BLOCKS`` blocks."""

    def __init__(self, bitmaps: Mapping[int, int]) -> None:
        self.newest, none = max(bitmaps, default=0), bytes(_BITMAP_BYTES)
        first = max(min(bitmaps, default=0), self.newest - MAX_BLOCKS + 1)
        listed = [
            bitmaps.get(block, 0).to_bytes(_BITMAP_BYTES, "little")
            for block in range(first, self.newest + 1)
        ]
        # Between rows of zeros, where what is earlier or later finds itself.
        packed = np.frombuffer(b"".join((none, *listed, none)), np.uint8)
        self._before, self._bits = (
            first - 1,
            np.unpackbits(packed, bitorder="little").view(np.bool_),
        )

    def has(self, packets: Packets) -> NDArray[np.bool_]:
        """Whether each of them has come."""
        places = (packets[:, _BLOCK] - self._before) * (8 * _BITMAP_BYTES) + packets[:, _SYMBOL]
        return self._bits.take(places.astype(np.int64), mode="clip")


def _none() -> Packets:
    return np.empty((0, 4))


@dataclass(slots=True)
class _Path:
    """Packets of one planned delay; ``lost`` are those taken for it in the last while. ``late``: the two greatest
    latenesses of this while, ``before_s`` the lesser of the last while's."""

    delay_s: float
    waiting: Packets = field(default_factory=_none)
    lost: Packets = field(default_factory=_none)
    late: tuple[float, float] = (0.0, 0.0)
    before_s: float = 0.0
    since_s: float = 0.0

    def due_s(self, sent_s: Any) -> Any:
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
    >>> for symbol, label in enumerate((0, 40000, 1, 2)):
    ...     deadlines.add(1 + 0.02 * symbol, 0, symbol, label)
    >>> first = deadlines.known(Arrived({0: 0b0001}), 1.0, 1.01)
    >>> deadlines.known(Arrived({0: 0b1001}), 1.06, 2.0)[:, [2, 0]].tolist()
    [[0.0, 1.0], [1.0, 1.02], [2.0, 1.04]]
    """

    def __init__(self, delay_of_label: Sequence[float] | None, *, most_s: float) -> None:
        self._delay_of = (
            np.zeros(LABELS)
            if delay_of_label is None
            else np.array(list(delay_of_label), dtype=np.float64)
        )
        if self._delay_of.shape != (LABELS,) or not np.all(
            np.isfinite(self._delay_of) & (self._delay_of >= 0)
        ):
            raise FecError(
                f"planned delays: give {LABELS:,} numbers of seconds from 0 on, one for each label"
            )
        self._most_s, self._alike = most_s, bool((self._delay_of == self._delay_of[0]).all())
        self._paths: dict[float, _Path] = {}
        self._heard_s = self._first_s = -math.inf
        self._unknown_s = most_s if delay_of_label is None else 0.0
        self._reported = Arrived({})
        self._new = array("d")

    def add(self, *packet: float) -> None:
        """A packet that leaves now: time, block, symbol, label."""
        self._new.extend(packet)
        self._bound()

    def add_many(self, packets: Packets) -> None:
        """The same for many."""
        self._new.frombytes(packets.tobytes())
        self._bound()

    def _bound(self) -> None:
        if len(self._new) > 4 * _MAX_WAITING:
            self._sort_in()

    def _sort_in(self) -> None:
        packets = np.array(self._new).reshape(-1, 4).copy(order="F")  # columns are read
        del self._new[:]
        if self._alike:
            chosen = {float(self._delay_of[0]): packets} if len(packets) else {}
        else:
            delays = self._delay_of[packets[:, _LABEL].astype(np.int64)]
            chosen = {
                delay_s: packets[delays == delay_s] for delay_s in dict.fromkeys(delays.tolist())
            }
        for delay_s, own in chosen.items():
            path = self._paths.setdefault(delay_s, _Path(delay_s))
            path.waiting = np.concatenate((path.waiting, own))[-_MAX_WAITING:]

    def known(self, arrived: Arrived, newest_s: float, now_s: float) -> Packets:
        """Packets that have come or are overdue by a report, in the order of sending. ``newest_s``: when the newest
        packet that came was sent. Cost: what is under way at most."""
        if self._first_s == -math.inf:
            self._first_s = now_s
        self._sort_in()
        for path in self._paths.values():
            self._learn(path, arrived)
        self._reported, self._heard_s = arrived, max(self._heard_s, self._hear(arrived, newest_s))
        found = [_none()]
        for path in self._paths.values():
            late_s = (
                path.lateness_s(now_s) if now_s >= self._first_s + self._unknown_s else math.inf
            )
            until_s = self._heard_s - path.due_s(0.0) - LEAST_S - min(late_s, self._most_s)
            stop = _first(path.waiting[:, _SENT] > until_s)
            found.append(over := path.waiting[:stop])
            path.waiting = path.waiting[stop:]
            lost = np.concatenate((path.lost, over[~arrived.has(over)]))
            listed = (lost[:, _SENT] > self._heard_s - 2 * self._most_s) & (
                lost[:, _BLOCK] > arrived.newest - MAX_BLOCKS
            )
            path.lost = lost[listed]
        packets = np.concatenate(found)
        return (
            packets[np.argsort(packets[:, _SENT], kind="stable")]
            if len(self._paths) > 1
            else packets
        )

    def _hear(self, arrived: Arrived, newest_s: float) -> float:
        """What was due by then should be there: by the packets that came, each as early as it may have come."""
        if len(self._paths) == 1:
            (path,) = self._paths.values()
            return newest_s + float(path.due_s(0.0))
        heard_s = -math.inf
        for path in self._paths.values():
            came = path.waiting[arrived.has(path.waiting), _SENT]
            if len(came):
                heard_s = max(heard_s, float(came[-1]) + (1 - JITTER) * path.delay_s)
        return heard_s

    def _learn(self, path: _Path, arrived: Arrived) -> None:
        """From packets that the last report did not tell of, and should have."""
        late_s = self._heard_s - path.due_s(path.waiting[:, _SENT])
        overdue = path.waiting[: _first(late_s <= 0)]
        fresh = np.flatnonzero(arrived.has(overdue) & ~self._reported.has(overdue))
        if len(fresh):
            path.add_lateness(float(late_s[fresh[0]]))  # those behind it were sent later
        came = arrived.has(path.lost)
        for sent_s in path.lost[came, _SENT].tolist():
            path.add_lateness(self._heard_s - path.due_s(sent_s))
        path.lost = path.lost[~came]


def _first(found: NDArray[np.bool_]) -> int:
    """The place of the first that is true; as many as there are, where none is."""
    return int(found.argmax()) if found.any() else len(found)
