"""``StreamSender`` with all that is done for every packet compiled: the same packets under the same labels.

Python begins blocks, fetches payloads and reads reports; in between ``fill`` makes packets, many a call.
"""

import math
from typing import Any

import numpy as np

from fec.code.reed_solomon import ReedSolomonCode
from fec.errors import EngineUnavailable
from fec.jit import bound
from fec.protocol.batches import MOST, BatchSender
from fec.protocol.compiled import sender_steps as steps
from fec.protocol.compiled.tables import Tabled, fields
from fec.protocol.compiled.words import SEAL
from fec.protocol.framing import as_bytes
from fec.protocol.path_deadlines import SentBlock
from fec.protocol.sender import OutgoingPacket, SenderParameters
from fec.protocol.wire import HEADER, HEADER_BYTES, protect
from fec.redundancy.block_size_control import MAX_BLOCK
from fec.redundancy.labels import LABELS

_MOST_BYTES, _MOST_BLOCKS = 1 << 25, 8192
_ROOM = 2 * MAX_BLOCK
"""For the most parity of a block, in a row: what is left at the end of the table is passed over."""


class CompiledSender(Tabled, BatchSender):
    """EngineUnavailable where nothing was compiled ahead for this machine, without ISA-L, and for random labels."""

    _ended, _parity_sent, _late_sent = fields(steps.SENDER, "ended", "parity_sent", "late_sent")
    _block, _symbol, _ready, _laid = fields(steps.SENDER, "block", "symbol", "ready", "laid")
    _now_s, _due_s, _limit, _made = fields(steps.SENDER, "now_s", "due_s", "limit", "made")

    def __init__(
        self, parameters: SenderParameters, code: ReedSolomonCode, labels: Any, *arguments: Any, **headers: bytes
    ) -> None:
        self.keep_in(np.zeros(1, steps.SENDER))
        super().__init__(parameters, code, labels, *arguments, **headers)
        engine = code.engine_at_addresses
        if not hasattr(labels, "table"):
            raise EngineUnavailable("packets are handled one by one: their labels are drawn at random")
        length, m = parameters.symbol_bytes, self._m
        blocks = min(int(parameters.playback_s / (m * self._interval)) + 3, _MOST_BLOCKS - 1)
        slots = 1 << blocks.bit_length()
        places = 1 << max(11, min(slots * self.control.largest + _ROOM, _MOST_BYTES // length).bit_length())
        self._prepared = dict[int, Any]()
        flags, stream, session = self._identity
        common = HEADER.pack(0, flags, stream, 0, session, m, 0, 0, 0, length, 0, 0)
        self.rows[:, self._front : self._front + HEADER_BYTES] = list(common)
        self._tables = t = steps.SenderTables(
            sender=self.table,
            runs=np.zeros((2, steps.RUNS), steps.RUN),
            ends=np.zeros((2, 2), np.int64),
            blocks=np.full(slots, -1, np.int64).repeat(steps.BLOCK.itemsize // 8).view(steps.BLOCK),
            bodies=np.full((places, length), 0, np.uint8),  # written, so that no page is missing in mid-stream
            labels=np.array(labels.table, np.uint16),
            paths=np.frombuffer(bytearray(self._numbers.path_of if self._numbers else LABELS), np.uint8),
            numbers=np.zeros(256, np.int64),
            multipliers=np.zeros(256, np.int64),
            rows=self.rows,
            log=self.log,
        )
        self._symbols: Any = memoryview(t.bodies.reshape(-1))  # type: ignore[arg-type]
        self._pointers = t.bodies.ctypes.data + np.arange(places, dtype=np.uint64) * np.uint64(length)
        self.write(interval_s=self._interval, playback_s=parameters.playback_s, m=m, symbol_bytes=length)
        self.write(front=self._front, flags=flags, crc_at=engine.crc_at, multiply_at=engine.multiply_at)
        self.write(rows_at=self.rows.ctypes.data, pointers_at=self._pointers.ctypes.data)
        self._mask, self._places = slots - 1, places
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

    def fill(self, now_s: float, limit: int = MOST) -> int:
        self._now_s, self._limit, self._made = now_s, min(limit, MOST), 0
        while self._fill():
            self._take_sources(now_s)
        made = int(self._made)
        if made:
            packets = self.log[:made, :4].copy()
            packets[:, 0] = now_s
            self._deadlines.add_many(packets)
            if self.parameters.key is not None:
                self._seal_rows(made)
        return made

    def packets_due(self, now_s: float, limit: int = MOST) -> list[OutgoingPacket]:
        made = zip(self.log[: self.fill(now_s, limit)].tolist(), self.rows[:, self._front :], strict=False)
        return [
            OutgoingPacket(due_s, int(label), row.tobytes(), int(block), int(symbol), int(size))
            for (due_s, block, symbol, label, size), row in made
        ]

    def _take_sources(self, now_s: float) -> None:
        """The source packets of one block that are due."""
        number, symbol = self._block, self._symbol
        m, length = self._m, self._symbol_bytes
        first, slot = number * m + symbol, number & self._mask
        if symbol == 0:
            block = self._begin_block(number, first * self._interval)
            place = block.first_label % len(self._tables.labels)
            self._tables.blocks[slot] = (number, place, block.size, 0, self._room(m), block.started_s)
            self._prepare_parity(block.size)
        count = max(1, min(m - symbol, int(now_s / self._interval) + 1 - first))
        payloads, prefix = [as_bytes(self._source(i)) for i in range(first, first + count)], self._full_prefix
        if {*map(len, payloads)} == {length - 2}:
            symbols = prefix + prefix.join(payloads)
        else:
            symbols = b"".join([protect(payload, length) for payload in payloads])
        at = (self._place_of(number) + symbol) * length
        self._symbols[at : at + count * length] = symbols
        self._ready = symbol + count

    def _place_of(self, number: int) -> int:
        """Where the first symbol of a block lies."""
        return int(self._tables.blocks[number & self._mask]["row"]) % self._places

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

    def _seal_rows(self, made: int) -> None:
        for row in self.rows[:made, self._front :]:
            row[SEAL:HEADER_BYTES] = list(self._seal(row[:HEADER_BYTES].tobytes(), row[HEADER_BYTES:].tobytes()))

    def _send_late_parity(self, block: SentBlock, arrived: int, now_s: float) -> None:
        row = self._tables.blocks[block.number & self._mask]
        if row["number"] == block.number and self._laid - row["row"] <= self._places - _ROOM:
            block.sent = int(row["sent"])
            super()._send_late_parity(block, arrived, now_s)
            row["size"] = block.size
            self._prepare_parity(block.size)

    def _queue_late_parity(self, block: SentBlock, first: int, stop: int, now_s: float) -> None:
        row, step, start = self._room(stop - first), self._late_step_s, now_s
        at = [self._pointers[place:].ctypes.data for place in (self._place_of(block.number), row % self._places)]
        self._code.parity_tables(first, stop).at(self.parameters.symbol_bytes, *at)
        runs, ends = self._tables.runs[steps.LATE], self._tables.ends[steps.LATE]
        if ends[0] < ends[1]:
            last = runs[(ends[1] - 1) % steps.RUNS]
            start = max(now_s, float(last["first_s"] + (last["stop"] - 1) * step) + step)
        if ends[1] - ends[0] < steps.RUNS:
            runs[ends[1] % steps.RUNS] = (start, step, 0.0, 0, stop - first, first, block.number, row)
            ends[1] += 1
