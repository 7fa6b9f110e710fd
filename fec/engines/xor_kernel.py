"""The kernel of the numba engine, compiled when this module is imported."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fec.jit import compiled

_HIGH_BITS = np.uint64(0x8080808080808080)
_LOW_SEVEN = np.uint64(0x7F7F7F7F7F7F7F7F)
_REDUCTION = np.uint64(0x1D)
_ONE = np.uint64(1)
_SEVEN = np.uint64(7)


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
