"""Who decides N, the block size: the port that a sender asks and hands the fates of its packets to, and the two
simplest answers.

``fec.redundancy.adaptation`` estimates a loss, ``fec.redundancy.diagnosis`` finds out which links failed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from fec.errors import FecError

MAX_BLOCK = 255
"""Symbols in one block over GF(2^8)."""


class PacketReport(NamedTuple):
    """What became of one packet: its label, whether it was lost, and when it was sent (seconds of stream time)."""

    label: int
    lost: bool
    sent_s: float


class BlockSizeControl(Protocol):
    """Decides N. ``largest``: N is never above it; ``late_parity``: whether blocks that lack packets are helped with
    more."""

    @property
    def largest(self) -> int: ...

    @property
    def late_parity(self) -> bool: ...

    @property
    def loss(self) -> float:
        """Present estimate of the loss, a fraction."""
        ...

    def block_size_at(self, begins_s: float) -> int:
        """N of a block that begins then."""
        ...

    def on_packet_reports(
        self, reports: Sequence[PacketReport], now_s: float, round_trip_s: float = 0.0
    ) -> None:
        """What a report told, in the order in which the packets were sent; ``round_trip_s``: of the newest that came,
        the report's own way included."""
        ...

    def restart_estimate(self) -> None:
        """Losses that were reported were none: packets had overtaken each other."""
        ...


@dataclass(frozen=True)
class FixedBlockSize:
    """N for good, without late parity; reports change nothing."""

    size: int
    largest: int = MAX_BLOCK
    late_parity: bool = False
    loss: float = 0.0

    def block_size_at(self, begins_s: float) -> int:
        return self.size

    def on_packet_reports(
        self, reports: Sequence[PacketReport], now_s: float, round_trip_s: float = 0.0
    ) -> None:
        """Nothing is learnt."""

    def restart_estimate(self) -> None:
        """There is no estimate."""


def fixed_block_size(size: int) -> FixedBlockSize:
    """N for good. FecError for one that no block has.

    >>> fixed_block_size(25).block_size_at(3.0)
    25
    """
    if not 1 <= size <= MAX_BLOCK:
        raise FecError(f"block size {size}: give 1 to {MAX_BLOCK}")
    return FixedBlockSize(size)
