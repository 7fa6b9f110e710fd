"""The numba engine: multiplication over GF(2^8) as XORs of 64-bit words, eight symbols' bytes at a time.

Loaded when first used: numba takes half a second to import, and the kernel is compiled then.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fec.engines.engine import Symbols
from fec.engines.galois_field import interpolation_rows
from fec.jit import compiled

_HIGH_BITS = np.uint64(0x8080808080808080)
_LOW_SEVEN = np.uint64(0x7F7F7F7F7F7F7F7F)
_REDUCTION = np.uint64(0x1D)
_ONE = np.uint64(1)
_SEVEN = np.uint64(7)
_WORD_BYTES = 8


def _multiply_words(
    source: NDArray[np.uint64], sources: NDArray[np.int32], starts: NDArray[np.int32], out: NDArray[np.uint64]
) -> None:
    """Each row of ``out`` by Horner over the bits 7..0 of its coefficients: double, then XOR the symbols with that bit.

    Doubling all eight bytes of a word: shift left within the bytes, and 0x1d where the top bit fell out. Symbols are
    XORed four at a time, so that the sum is read and written once for four.
    """
    words = source.shape[1]
    for row in range(out.shape[0]):
        total = out[row]
        for w in range(words):
            total[w] = 0
        for bit in range(8):
            at, stop = starts[row * 8 + bit], starts[row * 8 + bit + 1]
            if bit > 0:
                for w in range(words):
                    value = total[w]
                    top = (value & _HIGH_BITS) >> _SEVEN
                    total[w] = ((value & _LOW_SEVEN) << _ONE) ^ (top * _REDUCTION)
            while at + 4 <= stop:
                a, b, c, d = (
                    source[sources[at]],
                    source[sources[at + 1]],
                    source[sources[at + 2]],
                    source[sources[at + 3]],
                )
                for w in range(words):
                    total[w] ^= a[w] ^ b[w] ^ c[w] ^ d[w]
                at += 4
            while at < stop:
                a = source[sources[at]]
                for w in range(words):
                    total[w] ^= a[w]
                at += 1


multiply_words = compiled(_multiply_words, "void(uint64[:, ::1], int32[::1], int32[::1], uint64[:, ::1])", nogil=True)


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """For each wanted row and each bit 7..0 of its coefficients: which known symbols have that bit set.

    ``sources``: their indices one after another; ``starts``: int32 of shape (8 rows + 1,), where each list begins.
    """

    sources: NDArray[np.int32]
    starts: NDArray[np.int32]


class NumbaEngine:
    """About a fifth to half of ISA-L's speed, on any machine that numba runs on."""

    name = "numba"

    def prepare(self, known: tuple[int, ...], required: tuple[int, ...]) -> Schedule:
        rows = interpolation_rows(known, required)
        bits = (rows[:, None, :] >> np.arange(7, -1, -1, dtype=np.uint8)[None, :, None]) & 1
        lists = bits.reshape(-1, rows.shape[1])
        starts = np.zeros(len(lists) + 1, dtype=np.int32)
        np.cumsum(lists.sum(axis=1), out=starts[1:])
        return Schedule(sources=np.nonzero(lists)[1].astype(np.int32), starts=starts)

    def apply(self, prepared: Schedule, source: Symbols, out: Symbols) -> None:
        whole = _fits_words(source) and _fits_words(out)
        inputs = source if whole else _padded(source)
        outputs = out if whole else np.empty((len(out), inputs.shape[1]), dtype=np.uint8)
        multiply_words(inputs.view(np.uint64), prepared.sources, prepared.starts, outputs.view(np.uint64))
        if not whole:
            out[:] = outputs[:, : source.shape[1]]


def _fits_words(symbols: Symbols) -> bool:
    """Whole, aligned words."""
    return symbols.shape[1] % _WORD_BYTES == 0 and symbols.ctypes.data % _WORD_BYTES == 0


def _padded(symbols: Symbols) -> Symbols:
    """With zeros up to whole words."""
    count, length = symbols.shape
    padded = np.zeros((count, -(-length // _WORD_BYTES) * _WORD_BYTES), dtype=np.uint8)
    padded[:, :length] = symbols
    return padded


def build_engine() -> NumbaEngine:
    """The engine; ImportError of this module where numba is not installed."""
    return NumbaEngine()
