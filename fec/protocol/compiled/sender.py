"""``StreamSender`` with all that is done for every packet compiled: the same packets under the same labels.

Python begins blocks, fetches payloads and reads reports; in between ``fill`` makes packets, many a call.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fec.code.reed_solomon import ReedSolomonCode
from fec.errors import EngineUnavailable
from fec.protocol.batches import MOST, BatchSender
from fec.protocol.compiled import sender_steps as steps
from fec.protocol.compiled.tables import Tabled, field, place
from fec.protocol.compiled.words import HEADER, SEAL
from fec.protocol.path_deadlines import SentBlock
from fec.protocol.sender import OutgoingPacket, SenderParameters
from fec.protocol.wire import protect
from fec.redundancy.block_size_control import MAX_BLOCK, BlockSizeControl
from fec.redundancy.labels import LabelOrder

_MOST_BYTES, _MOST_BLOCKS = 1 << 25, 8192
_POINTER_BYTES = 8
_BLOCK, _SYMBOL, _READY, _LAID = (place(steps.SENDER, name) for name in ("block", "symbol", "ready", "laid"))
_NOW, _DUE, _LIMIT, _MADE = (place(steps.SENDER, name) for name in ("now_s", "due_s", "limit", "made"))


class CompiledSender(Tabled, BatchSender):
    """EngineUnavailable where nothing was compiled ahead for this machine, without ISA-L, and for random labels."""

    _ended, _parity_sent, _late_sent = (field(steps.SENDER, n) for n in ("ended", "parity_sent", "late_sent"))

    def __init__(
        self,
        parameters: SenderParameters,
        code: ReedSolomonCode,
        labels: LabelOrder,
        control: BlockSizeControl,
        source: Callable[[int], bytes],
        path_of_label: bytes | None = None,
        *,
        headers: bytes = b"",
    ) -> None:
        self.keep_in(np.zeros(1, steps.SENDER))
        super().__init__(parameters, code, labels, control, source, path_of_label, headers=headers)
        table = getattr(labels, "table", None)
        engine = code.engine_at_addresses
        if table is None or engine is None:
            raise EngineUnavailable("packets are made one by one: no ISA-L here, or labels drawn at random")
        length, m = parameters.symbol_bytes, self._m
        blocks = min(int(parameters.playback_s / (m * self._interval)) + 3, _MOST_BLOCKS - 1)
        slots = 1 << blocks.bit_length()
        places = 1 << max(11, min(slots * control.largest, _MOST_BYTES // length).bit_length())
        flags, stream, session = self._identity
        self._engine, self._prepared = engine, dict[int, Any]()
        fixed = {"interval_s": self._interval, "playback_s": parameters.playback_s, "m": m, "symbol_bytes": length}
        fixed |= {"front": len(headers), "flags": flags, "stream_id": stream, "session": session}
        for name, value in fixed.items():
            self.table[name] = value
        self._tables = t = steps.SenderTables(
            sender=self.table,
            runs=np.zeros((2, steps.RUNS), steps.RUN),
            ends=np.zeros((2, 2), np.int64),
            blocks=np.full(slots, -1, np.int64).repeat(steps.BLOCK.itemsize // 8).view(steps.BLOCK),
            bodies=np.full((places, length), 0, np.uint8),  # written, so that no page is missing in mid-stream
            labels=np.array(table, np.uint16),
            paths=np.frombuffer(bytearray(path_of_label or b""), np.uint8),
            numbers=np.zeros(256, np.int64),
            multipliers=np.zeros(256, np.int64),
            rows=self.rows,
            log=self.log,
        )
        self._symbols = memoryview(t.bodies.reshape(-1))  # type: ignore[arg-type]
        pointers = t.bodies.ctypes.data + np.arange(places, dtype=np.uint64) * np.uint64(length)
        self._pointers = pointers
        self.table["rows_at"], self.table["pointers_at"] = self.rows.ctypes.data, pointers.ctypes.data
        self.table["crc_at"], self.table["multiply_at"] = engine.crc_at, engine.multiply_at
        self._mask, self._places = slots - 1, places
        self._row_of = [0] * slots
        fill = steps.FILL.bound(t) if hasattr(steps.FILL, "bound") else None
        if fill is None:
            raise EngineUnavailable("packets are made one by one: nothing is compiled ahead for this machine")
        self._fill = fill

    @property
    def _next_source(self) -> int:  # type: ignore[override]
        return int(self.words[_BLOCK] * self._m + self.words[_SYMBOL])

    @_next_source.setter
    def _next_source(self, value: int) -> None:
        self.words[_BLOCK], self.words[_SYMBOL] = divmod(value, self._m)

    def finish_source(self) -> None:
        self._ended = 1

    def next_due_s(self) -> float:
        self.reals[_NOW], self.words[_LIMIT], self.words[_MADE] = -math.inf, 1, 0
        self._fill()
        return float(self.reals[_DUE])

    def fill(self, now_s: float, limit: int = MOST) -> int:
        self.reals[_NOW], self.words[_LIMIT], self.words[_MADE] = now_s, min(limit, MOST), 0
        while self._fill():
            self._take_sources(now_s)
        made = int(self.words[_MADE])
        if made:
            packets = self.log[:made, :4].copy()
            packets[:, 0] = now_s
            self._deadlines.add_many(packets)
            if self.parameters.key is not None:
                self._seal_rows(made)
        return made

    def packets_due(self, now_s: float, limit: int = MOST) -> list[OutgoingPacket]:
        out: list[OutgoingPacket] = []
        while len(out) < limit and (made := self.fill(now_s, limit - len(out))):
            for (due_s, *whole), row in zip(self.log[:made].tolist(), self.rows[:, self._front :], strict=False):
                block, symbol, label, size = map(int, whole)
                out.append(OutgoingPacket(due_s, label, row.tobytes(), block, symbol, size))
        return out

    def _take_sources(self, now_s: float) -> None:
        """The source packets of one block that are due."""
        number, symbol = self.words[_BLOCK], self.words[_SYMBOL]
        m, length = self._m, self._symbol_bytes
        first, slot = number * m + symbol, number & self._mask
        if symbol == 0:
            block = self._begin_block(number, first * self._interval)
            place = block.first_label % len(self._tables.labels)
            self._row_of[slot] = row = self._room(m)
            self._tables.blocks[slot] = (number, place, block.size, 0, row, block.started_s)
            self._prepare_parity(block.size)
        count = max(1, min(m - symbol, int(now_s / self._interval) + 1 - first))
        payloads, prefix = list(map(self._source, range(first, first + count))), self._full_prefix
        if {*map(len, payloads)} == {length - 2}:
            symbols = prefix + prefix.join(payloads)
        else:
            symbols = b"".join([protect(payload, length) for payload in payloads])
        at = (self._row_of[slot] % self._places + symbol) * length
        self._symbols[at : at + count * length] = symbols
        self.words[_READY] = symbol + count

    def _room(self, count: int) -> int:
        """Where so many symbols may lie in a row."""
        row = int(self.words[_LAID])
        if row % self._places + count > self._places:
            row += -row % self._places
        self.words[_LAID] = row + count
        return row

    def _prepare_parity(self, size: int) -> None:
        if size > self._m and size not in self._prepared:
            self._prepared[size] = tables = self._code.parity_tables(self._m, size)
            self._tables.multipliers[size] = tables.address.value

    def _seal_rows(self, made: int) -> None:
        for row in self.rows[:made, self._front :]:
            row[SEAL:HEADER] = list(self._seal(row[:HEADER].tobytes(), row[HEADER:].tobytes()))

    def _send_late_parity(self, block: SentBlock, arrived: int, now_s: float) -> None:
        row = self._tables.blocks[block.number & self._mask]
        if row["number"] == block.number and self.words[_LAID] - row["row"] <= self._places - MAX_BLOCK:
            block.sent = int(row["sent"])
            super()._send_late_parity(block, arrived, now_s)
            row["size"] = block.size
            self._prepare_parity(block.size)

    def _queue_late_parity(self, block: SentBlock, first: int, stop: int, now_s: float) -> None:
        row, step, start = self._room(stop - first), self._late_step_s, now_s
        sources, parity = self._row_of[block.number & self._mask] % self._places, row % self._places
        at = [int(self.table["pointers_at"][0]) + place * _POINTER_BYTES for place in (sources, parity)]
        self._engine.apply_at(self._code.parity_tables(first, stop), self.parameters.symbol_bytes, *at)
        runs, ends = self._tables.runs[steps.LATE], self._tables.ends[steps.LATE]
        if ends[0] < ends[1]:
            last = runs[(ends[1] - 1) % steps.RUNS]
            start = max(now_s, float(last["first_s"] + (last["stop"] - 1) * step) + step)
        if ends[1] - ends[0] < steps.RUNS:
            runs[ends[1] % steps.RUNS] = (start, step, 0.0, 0, stop - first, first, block.number, row)
            ends[1] += 1
