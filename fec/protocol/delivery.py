"""Delivers source packets at a receiver.

Packets are delivered when they arrive, and missing ones when their block can be decoded.
"""

from collections import Counter

from fec.code.reed_solomon import ReedSolomonCode
from fec.errors import MalformedPacket
from fec.protocol.receiver_types import BlockComplete, Event, OpenBlock, SourceDelivered
from fec.protocol.wire import unprotect

# The constructor of a named tuple takes twice the time of this one.
_new_tuple = tuple.__new__


class SourceDelivery:
    """Delivers the source packets of a stream as events.

    Args:
        code: The code of the stream.
        symbol_bytes: Length of a symbol.
        counts: The counters of the receiver; decoded_blocks, recovered and unreadable are counted
            here.

    Attributes:
        delivered: Number of source packets that were delivered.
    """

    def __init__(self, code: ReedSolomonCode, symbol_bytes: int, counts: Counter[str]) -> None:
        self._code = code
        self._m = code.source_packets
        self._counts = counts
        # The length prefix of a payload that fills its symbol.
        self._full_prefix = (symbol_bytes - 2).to_bytes(2, "big")
        self._all_sources = (1 << self._m) - 1
        self.delivered = 0

    def complete(self, block: OpenBlock, now_s: float, events: list[Event]) -> None:
        """Decode a block of which M symbols have arrived, and deliver its missing source packets.

        Args:
            block: The block.
            now_s: Time at the receiver.
            events: Receives the deliveries, and that the block is complete.
        """
        block.complete = True
        self._counts["decoded_blocks"] += 1
        missing: list[int] = []
        if block.bitmap & self._all_sources != self._all_sources:
            missing = [i for i in range(self._m) if not block.bitmap >> i & 1]
            sources = self._code.decode(block.symbols)
            for i in missing:
                if not self.deliver(block.number, i, sources[i], now_s, True, events):
                    # A forged symbol corrupted it. The packet itself may still arrive.
                    block.spoilt |= 1 << i
            self._counts["recovered"] += len(missing)
        block.symbols.clear()
        events.append(BlockComplete(block.number, block.bitmap.bit_count(), len(missing), now_s))

    def deliver(
        self,
        number: int,
        symbol: int,
        body: bytes,
        now_s: float,
        recovered: bool,
        events: list[Event],
    ) -> bool:
        """Deliver one source packet, and return whether it can be read.

        Args:
            number: Number of the block.
            symbol: Number of the symbol.
            body: The symbol.
            now_s: Time at the receiver.
            recovered: The code recovered the packet.
            events: Receives the delivery.
        """
        if body[:2] == self._full_prefix:
            payload = body[2:]
        else:
            try:
                payload = unprotect(body)
            except MalformedPacket:
                # The length prefix, which the sender writes, is wrong.
                self._counts["unreadable"] += 1
                return False
        self.delivered += 1
        index = number * self._m + symbol
        events.append(_new_tuple(SourceDelivered, (index, payload, now_s, recovered)))
        return True
