"""Source packets handed on at a receiver: as they come, and the missing ones of a block as soon as it decodes."""

from collections import Counter

from fec.code.reed_solomon import ReedSolomonCode
from fec.errors import MalformedPacket
from fec.protocol.receiver_types import BlockComplete, Event, OpenBlock, SourceDelivered
from fec.protocol.wire import unprotect

_new_tuple = tuple.__new__  # a named tuple's own constructor takes twice the time


class SourceDelivery:
    """``counts``: of the receiver, kept up here for decoded_blocks, recovered and unreadable; ``delivered``: source
    packets handed on."""

    def __init__(self, code: ReedSolomonCode, symbol_bytes: int, counts: Counter[str]) -> None:
        self._code, self._m, self._counts = code, code.source_packets, counts
        self._full_prefix = (symbol_bytes - 2).to_bytes(2, "big")
        self._all_sources = (1 << self._m) - 1
        self.delivered = 0

    def complete(self, block: OpenBlock, now_s: float, events: list[Event]) -> None:
        """M symbols of the block are there."""
        block.complete = True
        self._counts["decoded_blocks"] += 1
        missing: list[int] = []
        if block.bitmap & self._all_sources != self._all_sources:
            missing = [i for i in range(self._m) if not block.bitmap >> i & 1]
            sources = self._code.decode(block.symbols)
            for i in missing:
                if not self.deliver(block.number, i, sources[i], now_s, True, events):
                    block.spoilt |= 1 << i  # by a forged symbol: the packet itself may still come
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
        """One source packet; False where it cannot be read."""
        if body[:2] == self._full_prefix:
            payload = body[2:]
        else:
            try:
                payload = unprotect(body)
            except MalformedPacket:
                self._counts["unreadable"] += 1  # the sender itself protected it wrongly
                return False
        self.delivered += 1
        events.append(
            _new_tuple(SourceDelivered, (number * self._m + symbol, payload, now_s, recovered))
        )
        return True
