"""Sender and receiver of a stream for batches of packets, in the rows of an array."""

import math
from collections import deque
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fec.code.reed_solomon import ReedSolomonCode
from fec.protocol.framing import BLOCK_NUMBERS
from fec.protocol.path_deadlines import SentBlock
from fec.protocol.receiver import StreamReceiver
from fec.protocol.receiver_types import Event, ReceiverParameters
from fec.protocol.row_seals import RowSeals
from fec.protocol.sender import DATA, PARITY, STAMPS, SenderParameters, StreamSender
from fec.protocol.wire import HEADER, HEADER_BYTES

# Packets of a batch that is received, and of one that is sent. The kernel takes no more in one
# call.
MAX_RECEIVED = 512
MAX_SENT = 1024
# Bytes from the label, with which the UDP header begins, to the packet.
LABEL_BEFORE = 8
# Fewer packets than this are written one by one, which is faster than operations on columns.
FEW = 16
# The fields of ``fec.protocol.wire.HEADER``.
_HEADER_FIELDS = np.dtype(
    [
        ("kind", "u1"),
        ("flags", "u1"),
        ("stream", ">u2"),
        ("ids", ">u4"),
        ("session", ">u4"),
        ("source_packets", ">u2"),
        ("size", "u1"),
        ("path", "u1"),
        ("sequence", ">u2"),
        ("length", ">u2"),
        ("stamp", ">u4"),
        ("seal", ">u4"),
    ]
)
# A block, and the symbols of it that are sent now.
Taken = tuple[SentBlock, list[bytes]]
# When a parity packet is due, its block, and the number of its symbol.
Queued = tuple[float, SentBlock, int]


class BatchSender(StreamSender):
    """Makes packets in the rows of an array, many at a time by columns.

    Attributes:
        rows: A packet in each row, behind the bytes of ``headers``.
        log: Due time, block, symbol, label and N of each packet.
    """

    def __init__(
        self, parameters: SenderParameters, *arguments: Any, headers: bytes = bytes(LABEL_BEFORE)
    ) -> None:
        """Prepare the rows.

        Args:
            parameters: The parameters of the stream.
            arguments: The other arguments of ``StreamSender``.
            headers: The bytes before each packet. The last eight are a UDP header, which gets the
                label of the packet as its source port.
        """
        super().__init__(parameters, *arguments)
        flags, stream, session = self._identity
        length = parameters.symbol_bytes
        common = HEADER.pack(0, flags, stream, 0, session, self._m, 0, 0, 0, length, 0, 0)
        front = len(headers)
        row = np.frombuffer(headers + common + bytes(length), np.uint8)
        self.rows = np.tile(row, (MAX_SENT, 1))
        self.log = np.zeros((MAX_SENT, 5))
        self._packets = self.rows[:, front:]
        self._ports = self.rows[:, front - LABEL_BEFORE :][:, :2].view(">u2")[:, 0]
        headers_of_rows = self._packets[:, :HEADER_BYTES].view(_HEADER_FIELDS)[:, 0]
        self._fields = {name: headers_of_rows[name] for name in _HEADER_FIELDS.names or ()}
        self._seals = RowSeals(parameters.key, front)

    def fill(self, now_s: float) -> int:
        """Make packets due by now in the first rows, in the order of their due times.

        Returns:
            The number of packets. More may be due: the rows hold no more.
        """
        room = MAX_SENT - len(self._parity) - len(self._late)
        if self._filling is not None:
            room -= self._filling.size - len(self._filling.sources)
        if room < 0 or now_s < self.next_due_s() + FEW * self._interval:
            return self._fill_one_by_one(now_s)
        first = self._next_source
        taken, until_s = self._take_sources(now_s, room)
        late = [
            entry
            for entry in _take_due(self._late, until_s)
            if now_s <= entry[1].started_s + self.parameters.playback_s
        ]
        queued = late + _take_due(self._parity, until_s)
        self._late_sent += len(late)
        self._parity_sent += len(queued)
        for _, block, _ in queued:
            block.sent += 1
        symbols = [block.parity[symbol - self._m] for _, block, symbol in queued]
        for _, sources in taken:
            symbols += sources
        if not symbols:
            # Only late parity was due, after the deadline of its block. If queued packets leave no
            # room for a block that is due, its packets are made one by one.
            return self._fill_one_by_one(now_s) if until_s < now_s else 0
        # Late parity is before parity, and parity before source packets, if they are due at once.
        columns = np.concatenate((_columns_of(queued), self._source_columns(first, taken)))
        order = np.argsort(columns[:, 0], kind="stable")
        bodies = np.frombuffer(b"".join(symbols), np.uint8).reshape(len(symbols), -1)
        self._packets[: len(order), HEADER_BYTES:] = bodies[order]
        self._write_headers(columns[order], now_s)
        return len(order)

    def _fill_one_by_one(self, now_s: float) -> int:
        """Fill the rows packet by packet, which is faster if only a few packets are due."""
        packets = self.packets_due(now_s, MAX_SENT)
        for k, packet in enumerate(packets):
            self._ports[k] = packet.label
            self._packets[k] = np.frombuffer(packet.data, np.uint8)
            self.log[k] = packet.due_s, packet.block, packet.symbol, packet.label, packet.block_size
        return len(packets)

    def _take_sources(self, now_s: float, room: int) -> tuple[list[Taken], float]:
        """Begin and complete blocks with the source packets due by now.

        Args:
            now_s: The time.
            room: Number of free rows, without those for queued packets and for the rest of the
                current block. Another block begins only if all its packets fit.

        Returns:
            Blocks with their symbols that leave, and the time up to which queued packets leave.
        """
        m = self._m
        stop = self._sources_due(now_s)
        first_taken = self._next_source
        taken: list[Taken] = []
        parts: list[tuple[SentBlock, int, int]] = []
        complete: list[tuple[SentBlock, float]] = []
        until_s = now_s
        while (first := self._next_source) < stop:
            block = self._filling
            begins_s = first * self._interval
            if block is None or first % m == 0:
                if room < self.control.largest and room < self._size_at(begins_s):
                    until_s = math.nextafter(begins_s, -math.inf)
                    break
                block = self._begin_block(first // m, begins_s)
                room -= block.size
            last = min(stop, (block.number + 1) * m)
            parts.append((block, first, last))
            self._next_source = last
            if last % m == 0:
                complete.append((block, (last - 1) * self._interval))
        # One call for all blocks: a call for each block costs more than its symbols.
        symbols = self._source_symbols(first_taken, self._next_source)
        for block, first, last in parts:
            part = symbols[first - first_taken : last - first_taken]
            block.sources += part
            block.sent += len(part)
            taken.append((block, part))
        self._queue_parity(complete)
        return taken, until_s

    def _sources_due(self, now_s: float) -> int:
        """Return the index after the last source packet that is due by now."""
        first = self._next_source
        stop = max(first, int(now_s / self._interval) + 2)
        while stop > first and (stop - 1) * self._interval > now_s:
            stop -= 1
        return min(stop, -(-first // self._m) * self._m) if self._ended else stop

    def _source_columns(self, first: int, taken: list[Taken]) -> NDArray[np.float64]:
        """Return the columns of the source packets from ``first`` on that have just been taken."""
        indices = np.arange(first, self._next_source)
        columns = np.empty((len(indices), 5))
        columns[:, 0] = indices * self._interval
        columns[:, 1], columns[:, 2] = np.divmod(indices, self._m)
        labels_and_sizes = [(block.first_label, block.size) for block, _ in taken]
        counts = [len(symbols) for _, symbols in taken]
        columns[:, 3:] = np.repeat(np.array(labels_and_sizes).reshape(-1, 2), counts, axis=0)
        columns[:, 3] += columns[:, 2]
        return columns

    def _write_headers(self, columns: NDArray[np.float64], now_s: float) -> None:
        """Write labels, headers, seals and the log of packets.

        Args:
            columns: Due time, block, symbol, index of the label, and N of each packet. The label
                replaces its index.
            now_s: The time.
        """
        count = len(columns)
        _, numbers, symbols, label_indices, sizes = columns.astype(np.int64).transpose()
        labels = self._labels_of(label_indices)
        columns[:, 3] = labels
        self.log[:count] = columns
        self._ports[:count] = labels
        fields = self._fields
        fields["kind"][:count] = np.where(symbols < self._m, DATA, PARITY)
        fields["ids"][:count] = (numbers % BLOCK_NUMBERS) << 8 | symbols
        fields["size"][:count] = sizes
        fields["stamp"][:count] = int(now_s * 1e6) % STAMPS
        if self._numbers is not None:
            fields["path"][:count], fields["sequence"][:count] = self._numbers.next_many(labels)
        packet_bytes = HEADER_BYTES + self._symbol_bytes
        self._seals.write(self.rows[:count], packet_bytes)
        sent = columns[:, :4].copy()
        sent[:, 0] = now_s
        self._deadlines.add_many(sent)


def _take_due(queue: deque[Queued], until_s: float) -> list[Queued]:
    """Remove and return the packets that are due by this time."""
    due = []
    while queue and queue[0][0] <= until_s:
        due.append(queue.popleft())
    return due


def _columns_of(queued: list[Queued]) -> NDArray[np.float64]:
    """Return due time, block, symbol, index of its label, and N of each packet."""
    rows = [
        (due_s, block.number, symbol, block.first_label + symbol, block.size)
        for due_s, block, symbol in queued
    ]
    return np.array(rows, dtype=np.float64).reshape(-1, 5)


class BatchReceiver(StreamReceiver):
    """Receives packets from the rows of an array.

    Attributes:
        rows: A packet in each row.
        lengths: The bytes of each packet.
        times: When each packet arrived, in seconds.
        log: Time, block number as in the packet, and symbol of each packet of the stream.
        logged: The number of used rows of ``log``.
    """

    logged = 0

    def __init__(self, parameters: ReceiverParameters, code: ReedSolomonCode) -> None:
        self._lay_out(parameters)
        super().__init__(parameters, code)

    def _lay_out(self, parameters: ReceiverParameters) -> None:
        # One byte more than a packet, so that a longer datagram does not look like a packet.
        self.rows = np.zeros((MAX_RECEIVED, HEADER_BYTES + parameters.symbol_bytes + 1), np.uint8)
        self.lengths = np.zeros(MAX_RECEIVED, np.int64)
        self.times = np.zeros(MAX_RECEIVED)
        self.log = np.zeros((MAX_RECEIVED, 3))
        self._row_seals = RowSeals(parameters.key)

    def receive_many(self, count: int) -> Iterable[Event]:
        """Receive the packets of the first rows, and return the events in order."""
        events: list[Event] = []
        self.logged = 0
        for row in range(count):
            self._receive_row(row, events)
        return events

    def _receive_row(self, row: int, events: list[Event]) -> None:
        packet = self.rows[row, : self.lengths[row]].tobytes()
        at_s = self.times[row].item()
        received_before = self.received
        events += self.receive(packet, at_s)
        # A packet that the receiver refuses does not belong to the stream.
        if self.received > received_before:
            self.log[self.logged] = at_s, int.from_bytes(packet[4:7], "big"), packet[7]
            self.logged += 1
