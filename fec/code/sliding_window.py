"""Random linear codes over a sliding window (RFC 8681, GF(2^8)): repair symbols of the last source symbols, solved as
they come.

A repair symbol is the sum over the encoding window of coefficient times source symbol. The coefficients follow from its
repair key alone (TinyMT32, RFC 8682), so that a packet carries key, first symbol and length of the window. The decoder
keeps the equations that still have unknown source symbols in them, in row echelon form, and gives every source symbol
as soon as one equation has it alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fec.code.checked import MOST_NUMBER, block, octets, symbol_bytes_of, whole
from fec.engines.galois_field import LOGARITHMS, ORDER, POWERS
from fec.errors import FecError

_MASK = 0xFFFFFFFF
_MAT1, _MAT2, _TMAT = 0x8F7011EE, 0xFC78FF1F, 0x3793FDFF
_LOOPS = 8
"""Steps with which a seed is mixed in, and as many that are thrown away."""


class TinyMT32:
    """32-bit numbers, the same for a seed (32 bits) on every machine.

    >>> draws = TinyMT32(1)
    >>> [draws.next() for _ in range(3)]  # RFC 8682, section 3
    [2545341989, 981918433, 3715302833]
    """

    def __init__(self, seed: int) -> None:
        state = [seed & _MASK, _MAT1, _MAT2, _TMAT]
        for i in range(1, _LOOPS):
            before = state[(i - 1) & 3]
            state[i & 3] ^= (i + 1812433253 * (before ^ (before >> 30))) & _MASK
        self._state = state
        for _ in range(_LOOPS):
            self._step()

    def next(self) -> int:
        """The next number, 0 to 2^32 - 1."""
        self._step()
        first, _, third, last = self._state
        mixed = (first + (third >> 8)) & _MASK
        drawn = last ^ mixed
        return drawn ^ _TMAT if mixed & 1 else drawn

    def _step(self) -> None:
        first, second, third, last = self._state
        x = (first & 0x7FFFFFFF) ^ second ^ third
        x ^= (x << 1) & _MASK
        y = last ^ (last >> 1) ^ x
        odd = -(y & 1) & _MASK
        self._state = [second, third ^ (odd & _MAT1), x ^ (y << 10) & _MASK ^ (odd & _MAT2), y]


Symbol = NDArray[np.uint8]
LONGEST = 4095
"""The longest encoding window in symbols: a packet has 12 bits for it (RFC 8681, section 4.1.3)."""
_MOST = 2**63 - 1
_PRODUCTS: Symbol = POWERS[LOGARITHMS[:, None] + LOGARITHMS].astype(np.uint8)
_PRODUCTS[0] = _PRODUCTS[:, 0] = 0
DENSEST = 15
"""Density threshold with which no coefficient is zero."""


def coding_coefficients(repair_key: int, count: int, density: int = DENSEST) -> Symbol:
    """Of ``count`` source symbols, in their order, uint8 of shape (count,) (RFC 8681, section 3.6, m = 8).

    ``density`` 0 to 15: 15 gives none that is zero, D about (D + 1)/16 that are not. FecError for another, or a key of
    more than 16 bits.

    >>> coding_coefficients(1, 4).tolist()  # the lowest bytes of TinyMT32's first numbers
    [37, 225, 177, 176]
    """
    whole(repair_key, "repair key", 0, 0xFFFF)
    whole(density, "density", 0, DENSEST)
    whole(count, "source symbols", 0, LONGEST)
    draws = TinyMT32(repair_key)
    found = np.zeros(count, dtype=np.uint8)
    for i in range(count):
        if density < DENSEST and draws.next() & 0xF > density:
            continue
        while not found[i]:
            found[i] = draws.next() & 0xFF  # the lowest eight bits of each number (RFC 8681, section 3.5)
    return found


def product(coefficient: int, symbol: Symbol) -> Symbol:
    """Coefficient times symbol in GF(2^8)."""
    found: Symbol = _PRODUCTS[coefficient].take(symbol)
    return found


def _combined(repair_key: int, sources: Sequence[Symbol] | Symbol) -> Symbol:
    """The repair symbol of these source symbols."""
    total = np.zeros_like(sources[0])
    for coefficient, source in zip(coding_coefficients(repair_key, len(sources)).tolist(), sources, strict=True):
        total ^= product(coefficient, source)
    return total


@dataclass(frozen=True, kw_only=True)
class Repair:
    """``first``: number of the oldest source symbol of its window, which is ``count`` long."""

    key: int
    first: int
    count: int
    symbol: Symbol


class SlidingWindowEncoder:
    """Repair symbols over the last ``window`` source symbols, all of one length."""

    def __init__(self, window: int) -> None:
        whole(window, "encoding window", 1, LONGEST)
        self._window, self._recent = window, list[Symbol]()
        self._sent, self._key = 0, 0

    def add(self, symbol: bytes) -> None:
        """The next source symbol, as long as those before."""
        octets(symbol, "source symbol", len(self._recent[-1]) if self._recent else None)
        self._recent = [*self._recent[-(self._window - 1) :], np.frombuffer(symbol, dtype=np.uint8)][-self._window :]
        self._sent += 1

    def repair(self) -> Repair:
        """A repair symbol of what the window holds now. FecError before the first source symbol."""
        if not self._recent:
            raise FecError("no source symbol yet: there is nothing to repair")
        key, count = self._key & 0xFFFF, len(self._recent)
        self._key += 1
        return Repair(key=key, first=self._sent - count, count=count, symbol=_combined(key, self._recent))


class SlidingWindowDecoder:
    """Source symbols by number; whatever is older than ``memory`` symbols before the newest is given up."""

    def __init__(self, memory: int) -> None:
        self._memory, self._newest = whole(memory, "memory", 1, MOST_NUMBER), -1
        self._symbol_bytes: int | None = None
        self._known: dict[int, Symbol] = {}
        self._rows: dict[int, tuple[dict[int, int], Symbol]] = {}

    def add_source(self, number: int, symbol: bytes) -> Mapping[int, bytes]:
        """Source symbols that are known now and were not before, this one included."""
        octets(symbol, f"source symbol {number!r}", self._symbol_bytes)
        self._symbol_bytes = len(symbol)
        return self._learn({whole(number, "source symbol", 0, _MOST): np.frombuffer(symbol, dtype=np.uint8)})

    def add_repair(self, repair: Repair) -> Mapping[int, bytes]:
        """Source symbols that this repair symbol makes known."""
        if (
            not isinstance(repair, Repair)
            or not isinstance(repair.symbol, np.ndarray)
            or repair.symbol.dtype != np.uint8
        ):
            raise FecError(f"repair symbol: got a {type(repair).__name__}; give a Repair with a symbol of uint8")
        whole(repair.first, "first symbol of the window", 0, _MOST)
        whole(repair.count, "symbols of the window", 1, LONGEST)
        if repair.symbol.ndim != 1 or len(repair.symbol) != (self._symbol_bytes or len(repair.symbol) or 1):
            raise FecError(f"repair symbol of shape {repair.symbol.shape}: give one as long as the source symbols")
        self._symbol_bytes = len(repair.symbol)
        row = dict(enumerate(coding_coefficients(repair.key, repair.count).tolist(), start=repair.first))
        self._forget(repair.first + repair.count - 1)
        if min(row) <= self._newest - self._memory:
            return {}
        return self._learn(self._insert(row, repair.symbol))

    def _learn(self, fresh: dict[int, Symbol]) -> Mapping[int, bytes]:
        found: dict[int, bytes] = {}
        while fresh:
            number, symbol = fresh.popitem()
            if number in self._known:
                continue
            self._known[number] = symbol
            self._forget(number)
            found[number] = symbol.tobytes()
            affected = [pivot for pivot, (row, _) in self._rows.items() if number in row]
            for row, right in [self._rows.pop(pivot) for pivot in affected]:
                fresh |= self._insert(row, right)
        return found

    def _insert(self, row: dict[int, int], right: Symbol) -> dict[int, Symbol]:
        """Reduce an equation by what is known and by the others, keep it, and reduce the others by it; what has one
        unknown is solved."""
        for number in [n for n in row if n in self._known]:
            right = right ^ product(row.pop(number), self._known[number])
        for pivot in sorted(set(row) & set(self._rows)):
            if pivot in row:
                own, value = self._rows[pivot]
                right = right ^ product(row[pivot], value)
                row = _less(row, row[pivot], own)
        if not row:
            return {}
        pivot = min(row)
        scale = _inverse(row[pivot])
        row = {n: _times(scale, c) for n, c in row.items()}
        right = product(scale, right)
        solved = {}
        for other, (own, value) in list(self._rows.items()):
            if pivot in own:
                value = value ^ product(own[pivot], right)
                own = _less(own, own[pivot], row)
                self._rows[other] = (own, value)
                if len(own) == 1:
                    solved[other] = self._rows.pop(other)[1]
        if len(row) == 1:
            return solved | {pivot: right}
        self._rows[pivot] = (row, right)
        return solved

    def _forget(self, number: int) -> None:
        if number <= self._newest:
            return
        self._newest = number
        oldest = number - self._memory
        self._known = {n: s for n, s in self._known.items() if n > oldest}
        self._rows = {pivot: retained for pivot, retained in self._rows.items() if pivot > oldest}


def _times(a: int, b: int) -> int:
    return int(_PRODUCTS[a, b])


def _inverse(a: int) -> int:
    return int(POWERS[(ORDER - int(LOGARITHMS[a])) % ORDER])


def _less(row: dict[int, int], factor: int, other: dict[int, int]) -> dict[int, int]:
    """``row`` minus ``factor`` times ``other``, without its zeros."""
    found = dict(row)
    for number, coefficient in other.items():
        value = found.pop(number, 0) ^ _times(factor, coefficient)
        if value:
            found[number] = value
    return found


class RlcBlocks:
    """``BlockCode`` of the same code with the whole block as window: symbol n of K and more has the repair key (n - K)
    mod 65536."""

    name = "rlc"
    most_symbols = 1000
    excess = 2

    def encoder(self, data: bytes, symbol_bytes: int) -> _BlockEncoder:
        block(data, symbol_bytes, self.most_symbols)
        return _BlockEncoder(data, symbol_bytes)

    def decoder(self, symbols: int, symbol_bytes: int) -> _BlockDecoder:
        return _BlockDecoder(whole(symbols, "symbols", 1, self.most_symbols), symbol_bytes_of(symbol_bytes))


class _BlockEncoder:
    def __init__(self, data: bytes, symbol_bytes: int) -> None:
        self._source = np.frombuffer(data, dtype=np.uint8).reshape(-1, symbol_bytes)

    def symbol(self, number: int) -> bytes:
        count = len(self._source)
        whole(number, "symbol", 0, MOST_NUMBER)
        if number < count:
            return bytes(self._source[number].tobytes())
        return _combined((number - count) & 0xFFFF, self._source).tobytes()


class _BlockDecoder:
    """Rows in reduced echelon form: coefficients and symbol side by side, one row a pivot."""

    def __init__(self, symbols: int, symbol_bytes: int) -> None:
        self._count, self._symbol_bytes = symbols, symbol_bytes
        self._rows: dict[int, Symbol] = {}

    def add(self, number: int, symbol: bytes) -> bytes | None:
        whole(number, "symbol", 0, MOST_NUMBER)
        octets(symbol, "symbol", self._symbol_bytes)
        row = np.zeros(self._count + len(symbol), dtype=np.uint8)
        if number < self._count:
            row[number] = 1
        else:
            row[: self._count] = coding_coefficients((number - self._count) & 0xFFFF, self._count)
        row[self._count :] = np.frombuffer(symbol, dtype=np.uint8)
        for pivot, own in self._rows.items():
            if row[pivot]:
                row = row ^ product(int(row[pivot]), own)
        left = np.flatnonzero(row[: self._count])
        if left.size:
            pivot = int(left[0])
            row = product(_inverse(int(row[pivot])), row)
            for other, own in self._rows.items():
                if own[pivot]:
                    self._rows[other] = own ^ product(int(own[pivot]), row)
            self._rows[pivot] = row
        if len(self._rows) < self._count:
            return None
        return b"".join(self._rows[i][self._count :].tobytes() for i in range(self._count))
