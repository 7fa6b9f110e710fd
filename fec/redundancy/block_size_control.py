"""The interface through which a sender chooses N, its block size, and the simplest implementation.

A sender asks for N and passes on which of its packets were lost. ``fec.redundancy.adaptation``
estimates the loss; ``fec.redundancy.diagnosis`` finds out which links have failed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from fec.errors import FecError

# Symbols in one block over GF(2^8).
MAX_BLOCK = 255


class PacketReport(NamedTuple):
    """The fate of one packet.

    Attributes:
        label: The packet's label.
        lost: Whether it was lost.
        sent_s: When it was sent, in seconds of stream time.
    """

    label: int
    lost: bool
    sent_s: float


class BlockSizeControl(Protocol):
    """Chooses N, the number of packets of a block."""

    @property
    def largest(self) -> int:
        """The largest N that is ever chosen."""
        ...

    @property
    def late_parity(self) -> bool:
        """True if the sender sends more parity for blocks that lack packets."""
        ...

    @property
    def loss(self) -> float:
        """Present estimate of the loss, a fraction."""
        ...

    def block_size_at(self, begins_s: float) -> int:
        """Return N of a block that begins at this stream time (s)."""
        ...

    def on_packet_reports(
        self, reports: Sequence[PacketReport], now_s: float, round_trip_s: float = 0.0
    ) -> None:
        """Process the packets of one loss report.

        Args:
            reports: The packets in the order in which they were sent.
            now_s: Present stream time.
            round_trip_s: Time from the sending of the newest packet that arrived to the arrival of
                the report at the sender, in seconds.
        """
        ...

    def restart_estimate(self) -> None:
        """Forget the estimate, because packets reported as lost were only overtaken."""
        ...


@dataclass(frozen=True)
class FixedBlockSize:
    """A constant N without late parity; reports change nothing."""

    size: int
    largest: int = MAX_BLOCK
    late_parity: bool = False
    loss: float = 0.0

    def block_size_at(self, begins_s: float) -> int:
        """Return N."""
        return self.size

    def on_packet_reports(
        self, reports: Sequence[PacketReport], now_s: float, round_trip_s: float = 0.0
    ) -> None:
        """Ignore the report."""

    def restart_estimate(self) -> None:
        """Do nothing, because there is no estimate."""


def fixed_block_size(size: int) -> FixedBlockSize:
    """Return a control with a constant N.

    Raises:
        FecError: No block has this size.

    >>> fixed_block_size(25).block_size_at(3.0)
    25
    """
    if not 1 <= size <= MAX_BLOCK:
        raise FecError(f"block size {size}: give 1 to {MAX_BLOCK}")
    return FixedBlockSize(size)
