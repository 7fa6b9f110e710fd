"""TinyMT32, the pseudorandom generator of RFC 8682, from which RFC 8681 draws coding coefficients."""

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

    def next_byte(self) -> int:
        """0 to 255: the lowest eight bits of the next number (RFC 8681, section 3.5)."""
        return self.next() & 0xFF

    def next_half_byte(self) -> int:
        """0 to 15."""
        return self.next() & 0xF

    def _step(self) -> None:
        first, second, third, last = self._state
        x = (first & 0x7FFFFFFF) ^ second ^ third
        x ^= (x << 1) & _MASK
        y = last ^ (last >> 1) ^ x
        odd = -(y & 1) & _MASK
        self._state = [second, third ^ (odd & _MAT1), x ^ (y << 10) & _MASK ^ (odd & _MAT2), y]
