"""The reference engine: the reedsolo package encodes and decodes whole codewords, a byte column at a time.

It shares no arithmetic with the other engines, which is what makes it their judge: the generator matrix is by
definition what the package makes of unit vectors. About 0.1-1 MB/s.
"""

import reedsolo

from fec.engines import Interpolation, Symbols
from fec.engines.galois_field import ORDER, POLYNOMIAL


class ReedsoloEngine:
    """nsym = 255 - M and fcr = M: its first parity symbols are those of RFC 5510, whatever number of them is sent."""

    name = "reedsolo"

    def prepare(self, known: tuple[int, ...], required: tuple[int, ...]) -> Interpolation:
        m = len(known)
        code = reedsolo.RSCodec(
            ORDER - m, nsize=ORDER, fcr=m, prim=POLYNOMIAL, generator=2, c_exp=8
        )
        erased = sorted(set(range(ORDER)) - set(known))
        systematic = known == tuple(range(m))

        def apply(source: Symbols, out: Symbols) -> None:
            for column in range(source.shape[1]):
                values = source[:, column].tobytes()
                if systematic:
                    word = code.encode(values)
                else:
                    damaged = bytearray(ORDER)
                    for position, value in zip(known, values, strict=True):
                        damaged[position] = value
                    word = code.decode(damaged, erase_pos=erased, only_erasures=True)[1]
                out[:, column] = [word[i] for i in required]

        return apply
