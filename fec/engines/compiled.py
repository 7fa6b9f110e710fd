"""The numba engine: multiplication over GF(2^8) as XORs of 64-bit words, eight symbols' bytes at a time.

Loaded when first used (numba takes half a second to import); the kernel is in ``fec.engines.xor_kernel``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fec.engines.engine import Symbols
from fec.engines.galois_field import interpolation_rows
from fec.engines.xor_kernel import multiply_words

_WORD_BYTES = 8


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

    def bind(self, prepared: Schedule, source: Symbols, out: Symbols) -> Callable[[], None]:
        lists, starts = prepared.sources, prepared.starts
        if _fits_words(source) and _fits_words(out):
            return partial(multiply_words, source.view(np.uint64), lists, starts, out.view(np.uint64))
        return partial(_multiply_padded, prepared, source, out)


def _multiply_padded(schedule: Schedule, source: Symbols, out: Symbols) -> None:
    """For lengths that are no whole number of words, through zero-padded copies."""
    inputs = _padded(source)
    outputs = np.empty((len(out), inputs.shape[1]), dtype=np.uint8)
    multiply_words(inputs.view(np.uint64), schedule.sources, schedule.starts, outputs.view(np.uint64))
    out[:] = outputs[:, : source.shape[1]]


def _fits_words(symbols: Symbols) -> bool:
    """Whole, aligned words in an array that the kernel was compiled for (writable ones)."""
    return symbols.shape[1] % _WORD_BYTES == 0 and symbols.ctypes.data % _WORD_BYTES == 0 and symbols.flags.writeable


def _padded(symbols: Symbols) -> Symbols:
    count, length = symbols.shape
    padded = np.zeros((count, -(-length // _WORD_BYTES) * _WORD_BYTES), dtype=np.uint8)
    padded[:, :length] = symbols
    return padded


def build_engine() -> NumbaEngine:
    """The engine; ImportError of this module where numba is not installed."""
    return NumbaEngine()
