"""The open blocks of a receiver, which are opened in order, and closed at their deadlines."""

import math
from collections import Counter

from fec.protocol.loss_report import MAX_BLOCKS
from fec.protocol.loss_reporting import LossReporter
from fec.protocol.receiver_types import (
    BlocksSkipped,
    BlockUndecodable,
    Event,
    OpenBlock,
    ReceiverParameters,
)

# Maximum number of blocks by which one packet may be ahead of all earlier ones, even if there was
# time for more. Several packets must agree on a larger number.
FARTHEST_AHEAD = 4096

S_PER_US = 1e-6


class BlockWindow:
    """Opens and closes blocks; the base class of ``StreamReceiver``, which sets the attributes."""

    parameters: ReceiverParameters
    _m: int
    _counts: Counter[str]
    _blocks: dict[int, OpenBlock]
    _highest: int
    _offset_s: float
    _closing_s: float
    _reporter: LossReporter

    @property
    def open_blocks(self) -> int:
        """Number of blocks whose deadline has not passed."""
        return len(self._blocks)

    def advance(self, now_s: float) -> list[Event]:
        """Close the blocks whose playback deadline has passed."""
        events: list[Event] = []
        while self._closing_s <= now_s:
            self._close(next(iter(self._blocks.values())), now_s, events)
        return events

    def _plan_closing(self) -> None:
        """Set the time at which the oldest block is closed."""
        block = next(iter(self._blocks.values()), None)
        if block is None:
            self._closing_s = math.inf
        else:
            self._closing_s = (
                block.start_us * S_PER_US + self._offset_s + self.parameters.playback_s
            )

    def _open_until(self, number: int, sent_us: int, now_s: float) -> list[Event]:
        """Open a block that is later than all earlier ones, and the blocks that were skipped.

        No packet of skipped blocks has arrived; their packets are lost or late.

        Args:
            number: Number of the block.
            sent_us: Time stamp of its packet.
            now_s: Time at the receiver.
        """
        events: list[Event] = []
        first = self._highest + 1
        if number > self._highest + FARTHEST_AHEAD:
            # There is no memory for all skipped blocks.
            for block in list(self._blocks.values()):
                self._close(block, now_s, events)
            if number > first:
                events.append(BlocksSkipped(first, number, now_s))
                self._counts["skipped_blocks"] += number - first
                self._counts["lost_sources"] += (number - first) * self._m
            first = number
        for n in range(first, number + 1):
            self._blocks[n] = OpenBlock(n, sent_us, self._m)
            if number - n < MAX_BLOCKS:
                self._reporter.note(n, 0, self._highest)
        earlier_block = self._blocks.get(number - 2)
        self._highest = number
        while len(self._blocks) > 2 * FARTHEST_AHEAD:
            self._close(next(iter(self._blocks.values())), now_s, events)
        self._began(first - 1, sent_us)
        # The parity of this block was due before the new one began.
        if earlier_block is not None and not earlier_block.complete:
            self._reporter.alarm(now_s)
        return events

    def _began(self, number: int, sent_us: int) -> None:
        """Correct the start of a block to the time stamp of its earliest packet.

        The blocks before it began no later than it did.
        """
        while (block := self._blocks.get(number)) is not None and block.start_us > sent_us:
            block.start_us = sent_us
            number -= 1
        self._plan_closing()

    def _close(self, block: OpenBlock, now_s: float, events: list[Event]) -> None:
        """Close a block, and count its losses if it is incomplete."""
        symbols = block.symbols
        del self._blocks[block.number]
        self._plan_closing()
        if block.complete:
            return
        parity = sum(symbol >= self._m for symbol in symbols)
        missing = self._m - (len(symbols) - parity)
        self._counts["undecodable_blocks"] += 1
        self._counts["unused_parity"] += parity
        self._counts["lost_sources"] += missing
        events.append(BlockUndecodable(block.number, len(symbols), missing, now_s))
