"""``StreamReceiver`` with what is done for every ordinary packet in C: the same events, reports and counters.

Both work on the same tables, so that any packet out of the ordinary is received by ``StreamReceiver`` itself.
"""

import functools
from collections.abc import Iterator, MutableMapping
from itertools import chain, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fec.code.reed_solomon import ReedSolomonCode
from fec.engines.galois_field import LOGARITHMS, ORDER, POWERS
from fec.errors import EngineUnavailable
from fec.protocol.batches import MOST, BatchReceiver
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

_FAR = 1 << 62
_AT = {name: place for place, name in enumerate(RECEIVER.names or ())}
"""Where each field is among the words of a receiver."""
_new_tuple = tuple.__new__


class _Symbols(dict[int, bytes]):
    """What came of an open block, written to the tables too."""

    def __init__(self, tables: ReceiverTables, slot: int) -> None:
        self._tables, self._own = tables, tables.blocks[slot]
        place, count, length = self._own["place"], int(self._own["arrived"]), tables.bodies.shape[2]
        data, order = tables.bodies[place, :count].tobytes(), tables.symbols[place, :count].tolist()
        super().__init__(
            (symbol, data[k * length : (k + 1) * length]) for k, symbol in enumerate(order)
        )

    def __setitem__(self, symbol: int, body: bytes) -> None:
        own, t = self._own, self._tables
        if own["place"] < 0:
            t.receiver["free"] -= 1
            own["place"] = t.free[t.receiver["free"][0]]
        t.symbols[own["place"], len(self)], t.bodies[own["place"], len(self)] = (
            symbol,
            np.frombuffer(body, np.uint8),
        )
        super().__setitem__(symbol, body)
        own["arrived"] = len(self)

    def clear(self) -> None:
        super().clear()
        _give_back(self._tables, self._own)


def _give_back(tables: ReceiverTables, block: Any) -> None:
    """Where a block's symbols lay is free again."""
    if block["place"] >= 0:
        tables.free[tables.receiver["free"][0]] = block["place"]
        tables.receiver["free"] += 1
    block["place"], block["arrived"] = -1, 0


class _Block(Tabled):
    """An ``OpenBlock`` in the tables."""

    number, start_us, size, complete = fields(BLOCK, "number", "start_us", "size", "complete")

    def __init__(self, tables: ReceiverTables, number: int, spoilt: dict[int, int]) -> None:
        slot = number % SLOTS
        self.keep_in(tables.blocks[slot : slot + 1])
        self._tables, self._bits, self._spoilt = tables, tables.bits[slot], spoilt

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
    """The open blocks of the tables, which follow each other and are closed from the oldest on."""

    _oldest, _stop, _free = fields(RECEIVER, "oldest", "stop", "free")

    def __init__(self, tables: ReceiverTables) -> None:
        self.keep_in(tables.receiver)
        self._tables, self._spoilt = tables, dict[int, int]()
        self._oldest = self._stop = 0
        tables.free[:], self._free = np.arange(PLACES), PLACES

    def __len__(self) -> int:
        return int(self._stop - self._oldest)

    def __iter__(self) -> Iterator[int]:
        return iter(range(self._oldest, self._stop))

    def __getitem__(self, number: int) -> _Block:
        if not self._oldest <= number < self._stop:
            raise KeyError(number)
        return _Block(self._tables, number, self._spoilt)

    def __setitem__(self, number: int, block: OpenBlock) -> None:
        self._oldest, self._stop = self._oldest if len(self) else number, number + 1
        self._tables.blocks[number % SLOTS] = (number, block.start_us, block.size, 0, 0, 0, 0, -1)
        self._tables.bits[number % SLOTS] = 0

    def __delitem__(self, number: int) -> None:
        self._oldest = number + 1
        _give_back(self._tables, self._tables.blocks[number % SLOTS])
        self._spoilt.pop(number, None)


_Part = list[Event] | NDArray[np.int64]
"""Of what happened: events, or rows as the compiled steps note them."""


class BatchEvents:
    """What happened in a batch, in order. An event is made when it is asked for; ``sources`` has all source packets at
    once."""

    def __init__(
        self, parts: list[_Part], times: NDArray[np.float64], *rows: NDArray[np.uint8]
    ) -> None:
        self._parts, self._times, self._data = (
            parts,
            times.copy(),
            b"".join(part.data for part in rows),
        )

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def __iter__(self) -> Iterator[Event]:
        return chain.from_iterable(map(self._made_of, self._parts))

    def _made_of(self, part: _Part) -> list[Event]:
        if isinstance(part, list):
            return part
        what, starts, stops, recovered = part[:, :4].transpose().tolist()
        data, at_s = self._data, self._times[part[:, 4]].tolist()
        payloads = [data[start:stop] for start, stop in zip(starts, stops, strict=True)]
        again = map(bool, recovered) if any(recovered) else repeat(False)
        fields_of = zip(what, payloads, at_s, again, strict=False)
        found: list[Event] = list(map(_new_tuple, repeat(SourceDelivered), fields_of))
        for k in [k for k, start in enumerate(starts) if start < 0] if min(starts) < 0 else ():
            found[k] = BlockComplete(what[k], stops[k], recovered[k], at_s[k])
        return found

    def sources(self) -> tuple[NDArray[np.int64], bytes]:
        """All source packets, a row each: index, where the payload begins and stops in the bytes, 1 where recovered."""
        rows, data, at = [np.empty((0, 4), np.int64)], [self._data], len(self._data)
        for part in self._parts:
            if isinstance(part, list):
                for event in part:
                    if isinstance(event, SourceDelivered):
                        data.append(event.payload)
                        rows.append(
                            np.array(
                                [(event.index, at, at := at + len(event.payload), event.recovered)]
                            )
                        )
            else:
                rows.append(part.compress(part[:, 1] >= 0, axis=0)[:, :4])
        return np.concatenate(rows), b"".join(data)


class CompiledReceiver(Tabled, BatchReceiver):
    """EngineUnavailable without the C module. Its tables take memory for 8193 blocks, as far as they are used."""

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
        m, length = parameters.source_packets, parameters.symbol_bytes
        rows, most = np.concatenate([self.rows, self.rows]), m * min(m, ORDER - m)
        self.rows = rows[:MOST]
        self._tables = t = ReceiverTables(
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
            good=np.zeros(MOST, np.uint8),
            noted=np.zeros((3 * MOST, 5), np.int64),
            log=self.log,
            coefficients=np.empty((1 + 32) * most, np.uint8),
            powers=POWERS[:ORDER].copy(),
            logarithms=LOGARITHMS.copy(),
        )
        self.keep_in(t.receiver)
        self._take = functools.partial(compiled.receive, *t)
        self._new_schedule = functools.partial(Schedule, t.schedule)  # type: ignore[assignment]

    @property
    def _newest_us(self) -> int | None:  # type: ignore[override]
        return self._newest if self._known else None

    @_newest_us.setter
    def _newest_us(self, value: int | None) -> None:
        self._known, self._newest = value is not None, value or 0

    def _follow(self, session: int) -> None:
        super()._follow(session)
        self._tables.blocks["number"] = -1
        self._blocks = _OpenBlocks(self._tables)  # type: ignore[assignment]
        self._tables.paths[:] = 0
        self._reporter.paths.table = self._tables.paths
        self.write(touched=_FAR, alarm_s=-np.inf, in_time=0)

    def receive(self, data: bytes, now_s: float) -> list[Event]:
        self._note_symbols()
        return super().receive(data, now_s)

    def reports_due(self, now_s: float) -> list[bytes]:
        if self._reporter.due(now_s):
            self._note_symbols()
        return super().reports_due(now_s)

    def receive_many(self, count: int) -> BatchEvents:
        parts, words, tables = list[_Part](), self.words, self._tables
        words[_AT["next"]], words[_AT["count"]], words[_AT["logged"]], words[_AT["restored"]] = (
            0,
            count,
            0,
            0,
        )
        tables.good[:count] = self._row_seals.hold(self.rows[:count], self.lengths[:count])
        stopped = True
        while stopped:
            words[_AT["noted"]], words[_AT["urgent"]] = 0, self._reporter.urgent
            stopped = self._take()
            self._settle()
            place, events = words[_AT["next"]], list[Event]()
            if noted := words[_AT["noted"]]:
                parts.append(tables.noted[:noted].copy())
            if stopped == DECODABLE:
                block = self._blocks[words[_AT["decodable"]]]
                self._delivery.complete(block, self.times[place - 1].item(), events)
            elif stopped:
                words[_AT["next"]] = place + 1
                self._receive_row(place, events)
            if events:
                parts.append(events)
        restored = tables.rows[MOST : MOST + words[_AT["restored"]]]
        return BatchEvents(parts, self.times[:count], self.rows[:count], restored)

    def _settle(self) -> None:
        """Have what was counted in the table where ``StreamReceiver`` looks for it."""
        words, reals = self.words, self.reals
        for name in COUNTED:
            if counted := words[_AT[name]]:
                self._counts[name] += counted
                words[_AT[name]] = 0
        self._delivery.delivered += words[_AT["delivered"]]
        self._reporter.waiting += words[_AT["waiting"]]
        words[_AT["delivered"]] = words[_AT["waiting"]] = 0
        if words[_AT["in_time"]]:
            self._late_blocks.in_time()
            words[_AT["in_time"]] = 0
        if reals[_AT["alarm_s"]] > -np.inf:
            self._reporter.alarm(reals[_AT["alarm_s"]])
            reals[_AT["alarm_s"]] = -np.inf

    def _note_symbols(self) -> None:
        """For the next report, the symbols of blocks since the last one."""
        highest, tables = self._highest, self._tables
        numbers = np.arange(
            max(self.table["touched"].item(), highest - MAX_BLOCKS + 1), highest + 1
        )
        numbers = numbers[tables.blocks["number"][numbers % SLOTS] == numbers]
        bits = tables.bits[numbers % SLOTS].tobytes()
        for k, number in enumerate(numbers.tolist()):
            self._reporter.note(
                number, int.from_bytes(bits[32 * k : 32 * k + 32], "little"), highest
            )
        self.table["touched"] = _FAR
