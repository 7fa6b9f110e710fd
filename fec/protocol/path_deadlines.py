"""Decides which packets in transit are overdue, by the delays of their paths.

A packet is considered lost when a packet that was due later has arrived. Packets of one path arrive
in order, and the planned delays of different paths say which packet was due first. A gap in the
packet numbers of a path would not suffice: after a failure no packet of this path arrives, so no
later packet shows the gap before the repair.

Plans can be wrong. Packets of a path are therefore allowed as much additional delay as at least two
of its packets have recently had; a single one may be due to a machine that stalled. Without a plan,
packets are allowed the maximum at first, until delays have been observed.

The module has no clock: the caller gives the time.
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

# Additional delay that is always allowed, in seconds.
MIN_S = 0.005

# A packet may arrive earlier or later than planned by this share of its path's delay.
JITTER = 0.1

# Length of the window of the largest additional delays, in seconds. The previous window counts too.
WINDOW_S = 5.0

# Maximum number of packets in transit on a path.
_MAX_WAITING = 1 << 17

# Maximum number of blocks that a sender remembers.
_MAX_BLOCKS = 8192

# Size of the bitmap of a block's symbols: one bit for each possible symbol id.
_BITMAP_BYTES = 32
_BITMAP_BITS = 8 * _BITMAP_BYTES

# The columns of `Packets`.
_SENT, _BLOCK, _SYMBOL, _LABEL = range(4)

# A row for each packet: the time when it was sent (seconds), its block, symbol and label.
Packets = NDArray[np.float64]


@dataclass(slots=True)
class SentBlock:
    """A block at its sender.

    Attributes:
        number: Number of the block.
        wire_number: Number of the block as packet headers contain it: modulo 2^24, and shifted
            left by the 8 bits of the symbol id.
        first_label: Position of its first label in the order of labels.
        started_s: Time at which the block began.
        size: Block size N.
        sources: The source symbols.
        parity: The parity symbols that have been computed.
        sent: Number of packets sent, including late parity.
        judged: Number of these packets that have arrived or are considered lost by now.
        judged_lost: Bit e is set if symbol e is considered lost.
        complete: The receiver has enough symbols.
        known: Bit e is set if a short block lacks source symbol e. Both ends replace it by zeros.
    """

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
        """Number of source symbols that a short block does not have."""
        return self.known.bit_count()


def forget_older(blocks: dict[int, SentBlock], oldest_s: float) -> None:
    """Remove the blocks that began before ``oldest_s``, and the oldest ones if there are too many.

    At least one block must have begun at ``oldest_s`` or later.
    """
    while (first := next(iter(blocks.values()))).started_s < oldest_s or len(blocks) > _MAX_BLOCKS:
        del blocks[first.number]


class Arrived:
    """The packets that have arrived according to a loss report.

    Args:
        bitmaps: Bitmap of the symbols by block. Only the newest ``MAX_BLOCKS`` blocks count.

    Attributes:
        newest: The newest block.
    """

    def __init__(self, bitmaps: Mapping[int, int]) -> None:
        self.newest = max(bitmaps, default=0)
        first = max(min(bitmaps, default=0), self.newest - MAX_BLOCKS + 1)
        # Rows of zeros at both ends stand for all earlier and all later blocks.
        rows = [bytes(_BITMAP_BYTES)]
        for block in range(first, self.newest + 1):
            rows.append(bitmaps.get(block, 0).to_bytes(_BITMAP_BYTES, "little"))
        rows.append(bytes(_BITMAP_BYTES))
        packed = np.frombuffer(b"".join(rows), np.uint8)
        self._first_row_block = first - 1
        self._bits = np.unpackbits(packed, bitorder="little").view(np.bool_)

    def has(self, packets: Packets) -> NDArray[np.bool_]:
        """Return a mask of the packets that have arrived: bool of shape (packets,)."""
        rows = packets[:, _BLOCK] - self._first_row_block
        positions = rows * _BITMAP_BITS + packets[:, _SYMBOL]
        return self._bits.take(positions.astype(np.int64), mode="clip")


def _no_packets() -> Packets:
    return np.empty((0, 4))


@dataclass(slots=True)
class _Path:
    """All paths with the same planned delay, and their packets in transit.

    An *additional delay* is the time by which a packet exceeds the planned one.

    Attributes:
        delay_s: The planned delay, in seconds.
        waiting: Packets in transit.
        lost: Packets that were recently considered lost.
        largest_delays_s: The two largest additional delays in the current window.
        previous_delay_s: The second largest additional delay in the previous window.
        window_start_s: Start of the current window.
    """

    delay_s: float
    waiting: Packets = field(default_factory=_no_packets)
    lost: Packets = field(default_factory=_no_packets)
    largest_delays_s: tuple[float, float] = (0.0, 0.0)
    previous_delay_s: float = 0.0
    window_start_s: float = 0.0

    def due_s(self, sent_s: Any) -> Any:
        """Return the latest planned arrival of packets that were sent at these times."""
        return sent_s + (1 + JITTER) * self.delay_s

    def add_delay(self, delay_s: float) -> None:
        """Record the additional delay of a packet, in seconds, among the largest ones."""
        largest_s, second_s = self.largest_delays_s
        if delay_s > largest_s:
            self.largest_delays_s = (delay_s, largest_s)
        else:
            self.largest_delays_s = (largest_s, max(second_s, delay_s))

    def allowed_delay_s(self, now_s: float) -> float:
        """Return the additional delay that at least two packets have recently had."""
        _, second_s = self.largest_delays_s
        if now_s - self.window_start_s > WINDOW_S:
            self.previous_delay_s = second_s
            self.largest_delays_s = (0.0, 0.0)
            self.window_start_s = now_s
            return self.previous_delay_s
        return max(second_s, self.previous_delay_s)


class PathDeadlines:
    """Decides which packets in transit are overdue.

    Args:
        delay_of_label: Planned delay of the path of each of the 65,536 labels, in seconds; None if
            no delays are planned.
        most_s: Maximum additional delay that is allowed, in seconds. Without a plan, all packets
            are allowed this delay for the first ``most_s`` after the first report.

    >>> deadlines = PathDeadlines([0.01] * 32768 + [0.03] * 32768, most_s=0.2)
    >>> for symbol, label in enumerate((0, 40000, 1, 2)):
    ...     deadlines.add(1 + 0.02 * symbol, 0, symbol, label)
    >>> first = deadlines.known(Arrived({0: 0b0001}), 1.0, 1.01)
    >>> deadlines.known(Arrived({0: 0b1001}), 1.06, 2.0)[:, [2, 0]].tolist()
    [[0.0, 1.0], [1.0, 1.02], [2.0, 1.04]]
    """

    def __init__(self, delay_of_label: Sequence[float] | None, *, most_s: float) -> None:
        if delay_of_label is None:
            self._delay_of = np.zeros(LABELS)
        else:
            self._delay_of = np.array(list(delay_of_label), dtype=np.float64)
        if self._delay_of.shape != (LABELS,) or not np.all(
            np.isfinite(self._delay_of) & (self._delay_of >= 0)
        ):
            raise FecError(
                f"planned delays: give {LABELS:,} numbers of seconds from 0 on, one for each label"
            )
        self._most_s = most_s
        self._is_one_delay = bool((self._delay_of == self._delay_of[0]).all())
        self._paths: dict[float, _Path] = {}
        # Every packet that was due by this time should have arrived.
        self._heard_s = -math.inf
        # Time of the first report, and for how long after it delays are unknown.
        self._first_s = -math.inf
        self._unknown_s = most_s if delay_of_label is None else 0.0
        self._reported = Arrived({})
        # Packets that have not been assigned to a path, four numbers each.
        self._new = array("d")

    def add(self, *packet: float) -> None:
        """Add a packet that is sent now, as time (seconds), block, symbol and label."""
        self._new.extend(packet)
        self._limit_new_packets()

    def add_many(self, packets: Packets) -> None:
        """Add packets that are sent now."""
        self._new.frombytes(packets.tobytes())
        self._limit_new_packets()

    def _limit_new_packets(self) -> None:
        if len(self._new) > 4 * _MAX_WAITING:
            self._assign_to_paths()

    def _assign_to_paths(self) -> None:
        """Move the new packets to their paths."""
        # The columns are read, so they are contiguous.
        packets = np.array(self._new).reshape(-1, 4).copy(order="F")
        del self._new[:]
        if len(packets) == 0:
            return
        if self._is_one_delay:
            packets_by_delay = {float(self._delay_of[0]): packets}
        else:
            packets_by_delay = {}
            delays_s = self._delay_of[packets[:, _LABEL].astype(np.int64)]
            for delay_s in dict.fromkeys(delays_s.tolist()):
                packets_by_delay[delay_s] = packets[delays_s == delay_s]
        for delay_s, path_packets in packets_by_delay.items():
            path = self._paths.setdefault(delay_s, _Path(delay_s))
            path.waiting = np.concatenate((path.waiting, path_packets))[-_MAX_WAITING:]

    def known(self, arrived: Arrived, newest_s: float, now_s: float) -> Packets:
        """Return the packets that must have arrived by now, in the order of sending.

        Packets among them that have not arrived are considered lost. All are removed from the
        packets in transit. The time grows with their number.

        Args:
            arrived: The packets of the latest report.
            newest_s: Time at which the newest packet of those that have arrived was sent.
            now_s: Time at the sender.
        """
        if self._first_s == -math.inf:
            self._first_s = now_s
        self._assign_to_paths()
        for path in self._paths.values():
            self._learn_delays(path, arrived)
        self._reported = arrived
        self._heard_s = max(self._heard_s, self._heard_until_s(arrived, newest_s))
        parts = [_no_packets()]
        for path in self._paths.values():
            allowed_s = self._most_s
            if now_s >= self._first_s + self._unknown_s:
                allowed_s = min(path.allowed_delay_s(now_s), self._most_s)
            until_s = self._heard_s - path.due_s(0.0) - MIN_S - allowed_s
            stop = _first_true(path.waiting[:, _SENT] > until_s)
            due = path.waiting[:stop]
            parts.append(due)
            path.waiting = path.waiting[stop:]
            lost = np.concatenate((path.lost, due[~arrived.has(due)]))
            # A later report may say that these have arrived after all.
            is_recent = lost[:, _SENT] > self._heard_s - 2 * self._most_s
            is_reported = lost[:, _BLOCK] > arrived.newest - MAX_BLOCKS
            path.lost = lost[is_recent & is_reported]
        packets = np.concatenate(parts)
        if len(self._paths) > 1:
            packets = packets[np.argsort(packets[:, _SENT], kind="stable")]
        return packets

    def _heard_until_s(self, arrived: Arrived, newest_s: float) -> float:
        """Return a time at which the newest packets had arrived; packets due before it are overdue.

        It is the largest arrival time of the packets in the report, as planned. With several paths,
        it is assumed that each packet arrived as early as its path and jitter permit. With one
        path, jitter does not change the order of packets, and is ignored.
        """
        if len(self._paths) == 1:
            (path,) = self._paths.values()
            return newest_s + float(path.due_s(0.0))
        heard_s = -math.inf
        for path in self._paths.values():
            sent_s = path.waiting[arrived.has(path.waiting), _SENT]
            if len(sent_s):
                heard_s = max(heard_s, float(sent_s[-1]) + (1 - JITTER) * path.delay_s)
        return heard_s

    def _learn_delays(self, path: _Path, arrived: Arrived) -> None:
        """Observe the additional delays of packets that have arrived later than planned.

        These are overdue packets that this report contains and the previous one did not, and
        packets that were considered lost.
        """
        delays_s = self._heard_s - path.due_s(path.waiting[:, _SENT])
        overdue = path.waiting[: _first_true(delays_s <= 0)]
        newly_arrived = np.flatnonzero(arrived.has(overdue) & ~self._reported.has(overdue))
        if len(newly_arrived):
            # The packets behind the first one were sent later.
            path.add_delay(float(delays_s[newly_arrived[0]]))
        has_arrived = arrived.has(path.lost)
        for sent_s in path.lost[has_arrived, _SENT].tolist():
            path.add_delay(self._heard_s - path.due_s(sent_s))
        path.lost = path.lost[~has_arrived]


def _first_true(mask: NDArray[np.bool_]) -> int:
    """Return the position of the first true value, or the length if there is none."""
    return int(mask.argmax()) if mask.any() else len(mask)
