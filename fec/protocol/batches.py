"""Both ends of a stream with their packets in the rows of an array, a batch at a time: here one by one, and compiled in
``fec.protocol.compiled``."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from fec.code.reed_solomon import ReedSolomonCode
from fec.protocol.receiver import StreamReceiver
from fec.protocol.receiver_types import Event, ReceiverParameters
from fec.protocol.row_seals import RowSeals
from fec.protocol.sender import SenderParameters, StreamSender
from fec.protocol.wire import HEADER_BYTES

MOST, MOST_SENT = 512, 1024
"""Packets of a batch that came, and of one that leaves: the kernel takes no more in a call."""
LABEL_BEFORE = 8
"""Bytes from the label, which begins the UDP header, to the packet."""


class BatchSender(StreamSender):
    """``fill`` makes packets in ``rows``, each behind as many bytes of its row as ``headers`` has (of a UDP datagram's
    frame, that get its label); ``log`` has due time, block, symbol, label and N of each."""

    def __init__(
        self, parameters: SenderParameters, *arguments: Any, headers: bytes = bytes(LABEL_BEFORE)
    ) -> None:
        super().__init__(parameters, *arguments)
        row = np.frombuffer(headers + bytes(HEADER_BYTES + parameters.symbol_bytes), np.uint8)
        self.rows, self.log, self._front = (
            np.tile(row, (MOST_SENT, 1)),
            np.zeros((MOST_SENT, 5)),
            len(headers),
        )
        self._row_seals = RowSeals(parameters.key, self._front)

    def fill(self, now_s: float) -> int:
        """Make packets due by now, in the order of their due times, as many as are sent at once; how many."""
        packets = self.packets_due(now_s, MOST_SENT)
        for row, log, (due_s, label, data, *numbers) in zip(
            self.rows, self.log, packets, strict=False
        ):
            row[self._front - LABEL_BEFORE], row[self._front - LABEL_BEFORE + 1] = divmod(
                label, 256
            )
            row[self._front :] = np.frombuffer(data, np.uint8)
            log[:] = due_s, *numbers[:2], label, numbers[2]
        return len(packets)


class BatchReceiver(StreamReceiver):
    """``receive_many`` takes packets from ``rows``, each one's ``lengths`` and ``times``. ``log`` has (time, block as
    the packet has it, symbol) of the first ``logged`` that are of the stream."""

    logged = 0

    def __init__(self, parameters: ReceiverParameters, code: ReedSolomonCode) -> None:
        self._lay_out(parameters)
        super().__init__(parameters, code)

    def _lay_out(self, parameters: ReceiverParameters) -> None:
        # One byte more than a packet: what is longer must not pass for one.
        self.rows = np.zeros((MOST, HEADER_BYTES + parameters.symbol_bytes + 1), np.uint8)
        self.lengths, self.times, self.log = (
            np.zeros(MOST, np.int64),
            np.zeros(MOST),
            np.zeros((MOST, 3)),
        )
        self._row_seals = RowSeals(parameters.key)

    def receive_many(self, count: int) -> Iterable[Event]:
        """The first so many rows, in their order; what happened."""
        events: list[Event] = []
        self.logged = 0
        for place in range(count):
            self._receive_row(place, events)
        return events

    def _receive_row(self, place: int, events: list[Event]) -> None:
        row, at_s, before = (
            self.rows[place, : self.lengths[place]].tobytes(),
            self.times[place].item(),
            self.received,
        )
        events += self.receive(row, at_s)
        if self.received > before:  # what the receiver refuses is no packet of the stream
            self.log[self.logged] = at_s, int.from_bytes(row[4:7], "big"), row[7]
            self.logged += 1
