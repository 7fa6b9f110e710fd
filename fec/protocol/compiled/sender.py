"""``StreamSender`` with all that is done for every packet compiled: the same packets under the same labels.

Python fetches payloads, asks for block sizes and reads reports; ``fill`` begins blocks and makes packets, many a call.
"""

import math
from typing import Any

import numpy as np

from fec.code.reed_solomon import ReedSolomonCode
from fec.errors import EngineUnavailable
from fec.jit import bound
from fec.protocol.batches import MOST_SENT, BatchSender
from fec.protocol.compiled import sender_steps as steps
from fec.protocol.compiled.tables import Tabled, fields
from fec.protocol.framing import BLOCK_NUMBERS
from fec.protocol.path_deadlines import SentBlock, forget_older
from fec.protocol.sender import OutgoingPacket, SenderParameters
from fec.protocol.wire import HEADER, HEADER_BYTES, protect
from fec.redundancy.block_size_control import MAX_BLOCK
from fec.redundancy.labels import LABELS

_MOST_BYTES, _MOST_BLOCKS = 1 << 25, 8192
_ROOM = 2 * MAX_BLOCK
"""For the most parity of a block, in a row: what is left at the end of the table is passed over."""
_SIZES = 2 * MOST_SENT


class CompiledSender(Tabled, BatchSender):
    """EngineUnavailable where nothing was compiled ahead for this machine, without ISA-L, and for random labels."""

    _ended, _parity_sent, _late_sent = fields(steps.SENDER, "ended", "parity_sent", "late_sent")
    _block, _symbol, _ready, _laid = fields(steps.SENDER, "block", "symbol", "ready", "laid")
    _sized, _next_label = fields(steps.SENDER, "sized", "next_label")
    _now_s, _due_s, _limit, _made = fields(steps.SENDER, "now_s", "due_s", "limit", "made")

    def __init__(
        self,
        parameters: SenderParameters,
        code: ReedSolomonCode,
        labels: Any,
        *arguments: Any,
        **headers: bytes,
    ) -> None:
        self.keep_in(np.zeros(1, steps.SENDER))
        super().__init__(parameters, code, labels, *arguments, **headers)
        engine = code.engine_at_addresses
        if not hasattr(labels, "table"):
            raise EngineUnavailable(
                "packets are handled one by one: their labels are drawn at random"
            )
        length, m = parameters.symbol_bytes, self._m
        # Of blocks that are kept their sources are, as far as there is memory; always those that are fetched ahead.
        blocks = int(parameters.playback_s / (m * self._interval)) + 3
        slots = min(blocks, _MOST_BLOCKS - 1, _MOST_BYTES // length // m)
        slots = 1 << max(slots, MOST_SENT // m + 2).bit_length()
        own, parity = (
            slots * m,
            min(slots * (self.control.largest - m) + _ROOM, _MOST_BYTES // length),
        )
        places = own + (1 << max(11, parity.bit_length()))
        self._prepared, self._noted = dict[int, Any](), 0
        flags, stream, session = self._identity
        common = HEADER.pack(0, flags, stream, 0, session, m, 0, 0, 0, length, 0, 0)
        self.rows[:, self._front : self._front + HEADER_BYTES] = list(common)
        self._tables = t = steps.SenderTables(
            sender=self.table,
            runs=np.zeros((2, steps.RUNS), steps.RUN),
            ends=np.zeros((2, 2), np.int64),
            blocks=np.full(slots, -1, np.int64).repeat(steps.BLOCK.itemsize // 8).view(steps.BLOCK),
            sizes=np.zeros(_SIZES, np.int64),
            bodies=np.full(
                (places, length), 0, np.uint8
            ),  # written, so that no page is missing in mid-stream
            labels=np.array(labels.table, np.uint16),
            paths=np.frombuffer(
                bytearray(self._numbers.path_of if self._numbers else LABELS), np.uint8
            ),
            numbers=np.zeros(256, np.int64),
            multipliers=np.zeros(256, np.int64),
            rows=self.rows,
            log=self.log,
        )
        self._symbols: Any = memoryview(t.bodies.reshape(-1))  # type: ignore[arg-type]
        self._pointers = t.bodies.ctypes.data + np.arange(places, dtype=np.uint64) * np.uint64(
            length
        )
        self.write(
            interval_s=self._interval, playback_s=parameters.playback_s, m=m, symbol_bytes=length
        )
        self.write(
            own=own,
            front=self._front,
            flags=flags,
            crc_at=engine.crc_at,
            multiply_at=engine.multiply_at,
        )
        self.write(rows_at=self.rows.ctypes.data, pointers_at=self._pointers.ctypes.data)
        self._slots, self._own, self._places = slots, own, places - own
        self._fill = bound(steps.FILL, t)

    @property
    def _next_source(self) -> int:  # type: ignore[override]
        return int(self._block * self._m + self._symbol)

    @_next_source.setter
    def _next_source(self, value: int) -> None:
        self._block, self._symbol = divmod(value, self._m)

    def next_due_s(self) -> float:
        self._now_s, self._limit, self._made = -math.inf, 1, 0
        self._fill()
        return float(self._due_s)

    def fill(self, now_s: float, limit: int = MOST_SENT) -> int:
        self._now_s, self._limit, self._made, self._sized = now_s, min(limit, MOST_SENT), 0, 0
        while self._fill():
            self._look_ahead(now_s)
        made = int(self._made)
        if made:
            packets = self.log[:made, :4].copy()
            packets[:, 0] = now_s
            self._deadlines.add_many(packets)
            if self.parameters.key is not None:
                packet_bytes = HEADER_BYTES + self._symbol_bytes
                self._row_seals.write(self.rows[:made], packet_bytes)
        return made

    def packets_due(self, now_s: float, limit: int = MOST_SENT) -> list[OutgoingPacket]:
        made = zip(
            self.log[: self.fill(now_s, limit)].tolist(), self.rows[:, self._front :], strict=False
        )
        return [
            OutgoingPacket(due_s, int(label), row.tobytes(), int(block), int(symbol), int(size))
            for (due_s, block, symbol, label, size), row in made
        ]

    def _look_ahead(self, now_s: float) -> None:
        """Payloads of the source packets that leave by now, as many as there is room for, and N of the blocks that they
        begin."""
        m, length, interval, first, after = (
            self._m,
            self._symbol_bytes,
            self._interval,
            self._ready,
            self._next_source,
        )
        stop = max(after + 1, min(int(now_s / interval) + 1, after + self._limit - self._made))
        stop = min(
            stop, first - first % self._own + self._own, -(-after // m) * m if self._ended else stop
        )
        if stop > first:
            payloads = list(map(self._source, range(first, stop)))
            if {*map(type, payloads)} == {bytes} and {*map(len, payloads)} == {length - 2}:
                symbols = self._full_prefix.join((b"", *payloads))
            else:
                symbols = b"".join([protect(payload, length) for payload in payloads])
            at = first % self._own * length
            self._symbols[at : at + len(symbols)] = symbols
            self._ready = stop
        begins = range(-(-after // m), (stop - 1) // m + 1)
        sizes = [self._size_at(number * m * interval) for number in begins]
        self._tables.sizes[np.array(begins, np.int64) % _SIZES] = sizes
        self._sized = begins.stop
        for size in {*sizes}:
            self._prepare_parity(size)

    def receive(self, data: bytes, now_s: float) -> None:
        self._keep_begun()
        super().receive(data, now_s)

    def _keep_begun(self) -> None:
        """The blocks that ``fill`` has begun."""
        m, begun = self._m, -(-self._next_source // self._m)
        places = np.arange(max(self._noted, begun - self._slots), begun) % self._slots
        for number, first_label, size, _, started_s in self._tables.blocks[places].tolist():
            self._blocks[number] = SentBlock(
                number, (number % BLOCK_NUMBERS) << 8, first_label, started_s, size
            )
        if len(places):
            forget_older(
                self._blocks, started_s - self.parameters.playback_s - 2 * m * self._interval
            )
        self._noted = begun

    def _room(self, count: int) -> int:
        """Where so many symbols may lie in a row."""
        row = int(self._laid)
        if row % self._places + count > self._places:
            row += -row % self._places
        self._laid = row + count
        return row

    def _prepare_parity(self, size: int) -> None:
        if size > self._m and size not in self._prepared:
            self._prepared[size] = tables = self._code.parity_tables(self._m, size)
            self._tables.multipliers[size] = tables.address

    def _send_late_parity(self, block: SentBlock, arrived: int, now_s: float) -> None:
        row = self._tables.blocks[block.number % self._slots]
        if (
            row["number"] == block.number and self._ready <= block.number * self._m + self._own
        ):  # its sources are there
            block.sent = int(row["sent"])
            super()._send_late_parity(block, arrived, now_s)
            row["size"] = block.size
            self._prepare_parity(block.size)

    def _queue_late_parity(self, block: SentBlock, first: int, stop: int, now_s: float) -> None:
        row, step, start = self._room(stop - first), self._late_step_s, now_s
        places = block.number * self._m % self._own, self._own + row % self._places
        at = [self._pointers[place:].ctypes.data for place in places]
        self._code.parity_tables(first, stop).at(self.parameters.symbol_bytes, *at)
        runs, ends = self._tables.runs[steps.LATE], self._tables.ends[steps.LATE]
        if ends[0] < ends[1]:
            last = runs[(ends[1] - 1) % steps.RUNS]
            start = max(now_s, float(last["first_s"] + (last["stop"] - 1) * step) + step)
        if ends[1] - ends[0] < steps.RUNS:
            runs[ends[1] % steps.RUNS] = (
                start,
                step,
                0.0,
                0,
                stop - first,
                first,
                block.number,
                row,
            )
            ends[1] += 1
