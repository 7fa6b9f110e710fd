"""The field GF(2^8) of the code (polynomial 0x11d, generator 2) and interpolation over it.

The symbols of a block are values of a polynomial, and any M of them determine the others. Encoding,
late parity and decoding are therefore the same function.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

POLYNOMIAL = 0x11D

# Number of nonzero elements of the field, and therefore the maximum number of symbols of a block.
ORDER = 255


def _build_powers() -> NDArray[np.uint8]:
    powers = np.zeros(2 * ORDER, dtype=np.uint8)
    value = 1
    for exponent in range(ORDER):
        powers[exponent] = value
        powers[exponent + ORDER] = value
        value <<= 1
        if value & 0x100:
            value ^= POLYNOMIAL
    return powers


def _build_logarithms(powers: NDArray[np.uint8]) -> NDArray[np.int64]:
    logarithms = np.zeros(256, dtype=np.int64)
    logarithms[powers[:ORDER]] = np.arange(ORDER)
    return logarithms


# POWERS[e] = 2^e for 0 <= e < 510: two periods, so that a sum of two logarithms needs no reduction.
POWERS = _build_powers()

# LOGARITHMS[POWERS[e]] = e for 0 <= e < 255. LOGARITHMS[0] is 0 and has no meaning.
LOGARITHMS = _build_logarithms(POWERS)

# Logarithm of x_a - x_b for the points x_j = 2^j. It is 0 on the diagonal, so that a product may
# include it.
_DISTANCES = LOGARITHMS[POWERS[:ORDER, None] ^ POWERS[None, :ORDER]]


def interpolation_rows(available: Sequence[int], required: Sequence[int]) -> NDArray[np.uint8]:
    """Return the coefficients that give the required symbols of a block from M available ones.

    A polynomial of degree below M has the source symbols as its values at x_0 .. x_{M-1}, with
    x_j = 2^j. Its values at all x_j are the systematic code of RFC 5510. By Lagrange, row w and
    column r is the product over k != r of (x_w - x_k)/(x_r - x_k). No matrix is inverted, and no
    set of M symbols is singular. This takes O(M (M + len(required))) operations.

    Args:
        available: M distinct symbol ids, 0 <= id < 255.
        required: Ids of the symbols to compute.

    Returns:
        uint8 of shape (len(required), M).

    >>> interpolation_rows([0], [0, 7]).tolist()  # M = 1 repeats its packet
    [[1], [1]]
    """
    available_ids = np.asarray(available, dtype=np.int64)
    required_ids = np.asarray(required, dtype=np.int64)
    # Products of field elements are sums of their logarithms.
    to_available = _DISTANCES[required_ids[:, None], available_ids[None, :]]
    numerators = to_available.sum(axis=1)[:, None] - to_available
    denominators = _DISTANCES[available_ids[:, None], available_ids[None, :]].sum(axis=1)
    rows = POWERS[(numerators - denominators[None, :]) % ORDER]
    # A required symbol that is available is copied. The product contains log(0) for it.
    is_same = required_ids[:, None] == available_ids[None, :]
    is_copied = is_same.any(axis=1)
    rows[is_copied] = is_same[is_copied]
    return np.ascontiguousarray(rows)
