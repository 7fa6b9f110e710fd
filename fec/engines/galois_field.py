"""The field GF(2^8) of the code (polynomial 0x11d, generator 2) and interpolation over it.

A block is a polynomial's values: any M of them give all others. Encoding, late parity and decoding are one function.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

POLYNOMIAL = 0x11D
ORDER = 255
"""Nonzero elements of the field, and so the most symbols a block can have."""


def _build_powers() -> NDArray[np.uint8]:
    powers = np.zeros(2 * ORDER, dtype=np.uint8)
    value = 1
    for exponent in range(ORDER):
        powers[exponent] = powers[exponent + ORDER] = value
        value <<= 1
        if value & 0x100:
            value ^= POLYNOMIAL
    return powers


def _build_logarithms(powers: NDArray[np.uint8]) -> NDArray[np.int64]:
    logarithms = np.zeros(256, dtype=np.int64)
    logarithms[powers[:ORDER]] = np.arange(ORDER)
    return logarithms


POWERS = _build_powers()
"""POWERS[e] = 2^e for 0 <= e < 510 (twice around, so that a sum of two logarithms needs no reduction)."""

LOGARITHMS = _build_logarithms(POWERS)
"""LOGARITHMS[POWERS[e]] = e for 0 <= e < 255; LOGARITHMS[0] is 0 and means nothing."""

_DISTANCES = LOGARITHMS[POWERS[:ORDER, None] ^ POWERS[None, :ORDER]]
"""Logarithm of x_a - x_b for the points x_j = 2^j; 0 on the diagonal, so that products may run over it."""


def interpolation_rows(known: Sequence[int], required: Sequence[int]) -> NDArray[np.uint8]:
    """Coefficients that give the block's ``wanted`` symbols from its ``known`` ones (M distinct ids, 0 <= id < 255).

    The systematic code of RFC 5510 is the values at x_j = 2^j of the polynomial of degree below M that takes the source
    symbols at x_0 .. x_{M-1}. Lagrange: row w, column r is the product over k != r of (x_w - x_k)/(x_r - x_k). No
    matrix is inverted and no set of M symbols is singular. Returns uint8 of shape (len(wanted), M); O(M (M + wanted)).

    >>> interpolation_rows([0], [0, 7]).tolist()  # M = 1 repeats its packet
    [[1], [1]]
    """
    at = np.asarray(known, dtype=np.int64)
    to = np.asarray(required, dtype=np.int64)
    towards = _DISTANCES[to[:, None], at[None, :]]
    between = _DISTANCES[at[:, None], at[None, :]].sum(axis=1)
    rows = POWERS[(towards.sum(axis=1)[:, None] - towards - between[None, :]) % ORDER]
    same = to[:, None] == at[None, :]
    copied = same.any(axis=1)
    rows[copied] = same[copied]
    return np.ascontiguousarray(rows)
