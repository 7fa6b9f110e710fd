"""A subclass of ``StreamReceiver`` that receives ordinary packets in C.

Events and reports are the same as those of ``StreamReceiver``. The C module and the Python methods
work on the same tables. The Python methods receive every packet that is not ordinary: packets of
another session, of an unexpected block or time, and damaged ones.
"""

import functools
from collections.abc import Iterable, Iterator, MutableMapping
from itertools import chain, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fec.code.reed_solomon import ReedSolomonCode
from fec.engines.galois_field import LOGARITHMS, ORDER, POWERS
from fec.errors import EngineUnavailable
from fec.protocol.batches import MAX_RECEIVED, BatchReceiver
from fec.protocol.compiled.tables import (
    BLOCK,
    COUNTED,
    DECODABLE,
    PLACES,
    RECEIVER,
    SLOTS,
    ReceiverTables,
    Tabled,
    fields,
)
from fec.protocol.loss_report import MAX_BLOCKS, MAX_PATH
from fec.protocol.probation import Schedule
from fec.protocol.receiver_types import (
    BlockComplete,
    Event,
    OpenBlock,
    ReceiverParameters,
    SourceDelivered,
)
from fec.protocol.row_seals import SLOWER, c_module

# A block number above all others. As the field ``touched``, it says that no block has new symbols.
_FAR = 1 << 62
# Index of each field among the integers of a receiver.
_AT = {name: index for index, name in enumerate(RECEIVER.names or ())}
# Creates a named tuple in half the time that its class needs. It is called for every packet.
_new_tuple = tuple.__new__


class _Symbols(dict[int, bytes]):
    """The symbols of an open block that have arrived; changes are written to the tables too."""

    def __init__(self, tables: ReceiverTables, slot: int) -> None:
        self._tables = tables
        self._record = tables.blocks[slot]
        position = self._record["place"]
        count = int(self._record["arrived"])
        length = tables.bodies.shape[2]
        data = tables.bodies[position, :count].tobytes()
        order = tables.symbols[position, :count].tolist()
        super().__init__(
            (symbol, data[k * length : (k + 1) * length]) for k, symbol in enumerate(order)
        )

    def __setitem__(self, symbol: int, body: bytes) -> None:
        record = self._record
        tables = self._tables
        if record["place"] < 0:
            tables.receiver["free"] -= 1
            record["place"] = tables.free[tables.receiver["free"][0]]
        tables.symbols[record["place"], len(self)] = symbol
        tables.bodies[record["place"], len(self)] = np.frombuffer(body, np.uint8)
        super().__setitem__(symbol, body)
        record["arrived"] = len(self)

    def clear(self) -> None:
        super().clear()
        _release_place(self._tables, self._record)


def _release_place(tables: ReceiverTables, record: Any) -> None:
    """Release the rows of the tables that contain a block's symbols."""
    if record["place"] >= 0:
        tables.free[tables.receiver["free"][0]] = record["place"]
        tables.receiver["free"] += 1
    record["place"] = -1
    record["arrived"] = 0


class _Block(Tabled):
    """An ``OpenBlock`` whose fields are in the tables."""

    number, start_us, size, complete = fields(BLOCK, "number", "start_us", "size", "complete")

    def __init__(self, tables: ReceiverTables, number: int, spoilt: dict[int, int]) -> None:
        slot = number % SLOTS
        self.keep_in(tables.blocks[slot : slot + 1])
        self._tables = tables
        self._bits = tables.bits[slot]
        self._spoilt = spoilt

    @functools.cached_property
    def symbols(self) -> _Symbols:
        return _Symbols(self._tables, self.number % SLOTS)

    @property
    def bitmap(self) -> int:
        return int.from_bytes(self._bits.tobytes(), "little")

    @bitmap.setter
    def bitmap(self, value: int) -> None:
        self._bits[:] = np.frombuffer(value.to_bytes(32, "little"), np.int64)
        self.table["top"] = value.bit_length()

    @property
    def spoilt(self) -> int:
        return self._spoilt.get(self.number, 0)

    @spoilt.setter
    def spoilt(self, value: int) -> None:
        self._spoilt[self.number] = value
        self.table["spoilt"] = value != 0


class _OpenBlocks(Tabled, MutableMapping[int, Any]):
    """The open blocks of the tables, by number.

    The numbers are consecutive. Blocks are closed in order, the oldest first.
    """

    _oldest, _stop, _free = fields(RECEIVER, "oldest", "stop", "free")

    def __init__(self, tables: ReceiverTables) -> None:
        self.keep_in(tables.receiver)
        self._tables = tables
        self._spoilt: dict[int, int] = {}
        self._oldest = 0
        self._stop = 0
        tables.free[:] = np.arange(PLACES)
        self._free = PLACES

    def __len__(self) -> int:
        return int(self._stop - self._oldest)

    def __iter__(self) -> Iterator[int]:
        return iter(range(self._oldest, self._stop))

    def __getitem__(self, number: int) -> _Block:
        if not self._oldest <= number < self._stop:
            raise KeyError(number)
        return _Block(self._tables, number, self._spoilt)

    def __setitem__(self, number: int, block: OpenBlock) -> None:
        if not len(self):
            self._oldest = number
        self._stop = number + 1
        self._tables.blocks[number % SLOTS] = (number, block.start_us, block.size, 0, 0, 0, 0, -1)
        self._tables.bits[number % SLOTS] = 0

    def __delitem__(self, number: int) -> None:
        self._oldest = number + 1
        _release_place(self._tables, self._tables.blocks[number % SLOTS])
        self._spoilt.pop(number, None)


# Events in order, either as objects, or as rows of ``ReceiverTables.noted``.
_Part = list[Event] | NDArray[np.int64]


class BatchEvents:
    """The events of a batch, in order. They are created when they are iterated over."""

    def __init__(
        self, parts: list[_Part], times: NDArray[np.float64], *rows: NDArray[np.uint8]
    ) -> None:
        self._parts = parts
        self._times = times.copy()
        self._data = b"".join(part.data for part in rows)

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def __iter__(self) -> Iterator[Event]:
        return chain.from_iterable(map(self._events_of, self._parts))

    def _events_of(self, part: _Part) -> list[Event]:
        if isinstance(part, list):
            return part
        numbers, starts, stops, recovered = part[:, :4].transpose().tolist()
        data = self._data
        at_s = self._times[part[:, 4]].tolist()
        payloads = [data[start:stop] for start, stop in zip(starts, stops, strict=True)]
        was_recovered: Iterable[bool] = repeat(False)
        if any(recovered):
            was_recovered = map(bool, recovered)
        rows = zip(numbers, payloads, at_s, was_recovered, strict=False)
        events: list[Event] = list(map(_new_tuple, repeat(SourceDelivered), rows))
        # A row without a payload is a complete block.
        if min(starts) < 0:
            for k, start in enumerate(starts):
                if start < 0:
                    events[k] = BlockComplete(numbers[k], stops[k], recovered[k], at_s[k])
        return events

    def sources(self) -> tuple[NDArray[np.int64], bytes]:
        """Return all source packets at once.

        Returns:
            A row for each packet, and the bytes of all payloads. A row has the packet's index,
            where its payload begins and stops in the bytes, and 1 if it was recovered.
        """
        rows = [np.empty((0, 4), np.int64)]
        data = [self._data]
        start = len(self._data)
        for part in self._parts:
            if not isinstance(part, list):
                rows.append(part.compress(part[:, 1] >= 0, axis=0)[:, :4])
                continue
            for event in part:
                if isinstance(event, SourceDelivered):
                    stop = start + len(event.payload)
                    data.append(event.payload)
                    rows.append(np.array([(event.index, start, stop, event.recovered)]))
                    start = stop
        return np.concatenate(rows), b"".join(data)


class CompiledReceiver(Tabled, BatchReceiver):
    """Receives batches of packets with the C module.

    The tables have room for the symbols of 8193 blocks. The operating system provides their memory
    only when they are used.

    Raises:
        EngineUnavailable: The C module is missing.
    """

    _known, _newest, _highest, _session = fields(
        RECEIVER, "known", "newest_us", "highest", "session"
    )
    _newest_at_s, _alive_s, _window_s = fields(RECEIVER, "newest_at_s", "alive_s", "window_s")
    _offset_s, _least_s, _usual_s, _closing_s = fields(
        RECEIVER, "offset_s", "least_s", "usual_s", "closing_s"
    )
    worst_reordering_s, _accepted, logged = fields(
        RECEIVER, "worst_reordering_s", "accepted", "logged"
    )

    def __init__(self, parameters: ReceiverParameters, code: ReedSolomonCode) -> None:
        super().__init__(parameters, code)
        self.write(
            m=self._m,
            half=self._half,
            symbol_bytes=parameters.symbol_bytes,
            stream_id=parameters.stream_id,
        )
        self.write(
            playback_s=parameters.playback_s, quicker_s=self._quicker_s, latest_s=self._latest_s
        )
        prepare_at, multiply_at = code.engine_addresses
        self.write(flags=self._reader._flags, prepare_at=prepare_at, multiply_at=multiply_at)

    def _lay_out(self, parameters: ReceiverParameters) -> None:
        compiled = c_module()
        if compiled is None:
            raise EngineUnavailable(SLOWER)
        super()._lay_out(parameters)
        m = parameters.source_packets
        length = parameters.symbol_bytes
        # The second half is for restored symbols.
        rows = np.concatenate([self.rows, self.rows])
        max_coefficients = m * min(m, ORDER - m)
        self.rows = rows[:MAX_RECEIVED]
        tables = ReceiverTables(
            receiver=np.zeros(1, RECEIVER),
            blocks=np.zeros(SLOTS, BLOCK),
            bits=np.zeros((SLOTS, 4), np.int64),
            symbols=np.zeros((PLACES, m), np.uint8),
            free=np.arange(PLACES),
            bodies=np.empty((PLACES, m, length), np.uint8),
            paths=np.zeros((MAX_PATH + 1, 3), np.int64),
            schedule=np.zeros(6),
            rows=rows,
            lengths=self.lengths,
            times=self.times,
            good=np.zeros(MAX_RECEIVED, np.uint8),
            noted=np.zeros((3 * MAX_RECEIVED, 5), np.int64),
            log=self.log,
            coefficients=np.empty((1 + 32) * max_coefficients, np.uint8),
            powers=POWERS[:ORDER].copy(),
            logarithms=LOGARITHMS.copy(),
        )
        self._tables = tables
        self.keep_in(tables.receiver)
        self._take = functools.partial(compiled.receive, *tables)
        self._new_schedule = functools.partial(  # type: ignore[assignment]
            Schedule, tables.schedule
        )

    @property
    def _newest_us(self) -> int | None:  # type: ignore[override]
        return self._newest if self._known else None

    @_newest_us.setter
    def _newest_us(self, value: int | None) -> None:
        self._known = value is not None
        self._newest = value or 0

    def _follow(self, session: int) -> None:
        super()._follow(session)
        self._tables.blocks["number"] = -1
        self._blocks = _OpenBlocks(self._tables)  # type: ignore[assignment]
        self._tables.paths[:] = 0
        self._reporter.paths.table = self._tables.paths
        self.write(touched=_FAR, alarm_s=-np.inf, in_time=0)

    def receive(self, data: bytes, now_s: float) -> list[Event]:
        """Process a datagram; see ``StreamReceiver``."""
        self._note_symbols()
        return super().receive(data, now_s)

    def reports_due(self, now_s: float) -> list[bytes]:
        """Return the report that is due now, if any."""
        if self._reporter.due(now_s):
            self._note_symbols()
        return super().reports_due(now_s)

    def receive_many(self, count: int) -> BatchEvents:
        """Process the packets in the first ``count`` rows, and return the events in order."""
        parts: list[_Part] = []
        integers = self.integers
        tables = self._tables
        integers[_AT["next"]] = 0
        integers[_AT["count"]] = count
        integers[_AT["logged"]] = 0
        integers[_AT["restored"]] = 0
        tables.good[:count] = self._row_seals.hold(self.rows[:count], self.lengths[:count])
        stopped = True
        while stopped:
            integers[_AT["noted"]] = 0
            integers[_AT["urgent"]] = self._reporter.urgent
            stopped = self._take()
            self._take_over_counts()
            next_row = integers[_AT["next"]]
            events: list[Event] = []
            if noted := integers[_AT["noted"]]:
                parts.append(tables.noted[:noted].copy())
            if stopped == DECODABLE:
                block = self._blocks[integers[_AT["decodable"]]]
                self._delivery.complete(block, self.times[next_row - 1].item(), events)
            elif stopped:
                integers[_AT["next"]] = next_row + 1
                self._receive_row(next_row, events)
            if events:
                parts.append(events)
        restored = tables.rows[MAX_RECEIVED : MAX_RECEIVED + integers[_AT["restored"]]]
        return BatchEvents(parts, self.times[:count], self.rows[:count], restored)

    def _take_over_counts(self) -> None:
        """Add what the C module has counted to the counters of ``StreamReceiver``."""
        integers = self.integers
        reals = self.reals
        for name in COUNTED:
            if counted := integers[_AT[name]]:
                self._counts[name] += counted
                integers[_AT[name]] = 0
        self._delivery.delivered += integers[_AT["delivered"]]
        self._reporter.waiting += integers[_AT["waiting"]]
        integers[_AT["delivered"]] = 0
        integers[_AT["waiting"]] = 0
        if integers[_AT["in_time"]]:
            self._late_blocks.in_time()
            integers[_AT["in_time"]] = 0
        if reals[_AT["alarm_s"]] > -np.inf:
            self._reporter.alarm(reals[_AT["alarm_s"]])
            reals[_AT["alarm_s"]] = -np.inf

    def _note_symbols(self) -> None:
        """Tell the loss reporter which symbols have arrived since the last call."""
        highest = self._highest
        tables = self._tables
        first = max(self.table["touched"].item(), highest - MAX_BLOCKS + 1)
        numbers = np.arange(first, highest + 1)
        numbers = numbers[tables.blocks["number"][numbers % SLOTS] == numbers]
        bits = tables.bits[numbers % SLOTS].tobytes()
        for k, number in enumerate(numbers.tolist()):
            self._reporter.note(
                number, int.from_bytes(bits[32 * k : 32 * k + 32], "little"), highest
            )
        self.table["touched"] = _FAR
