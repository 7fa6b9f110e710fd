"""The reference engine: the reedsolo package codes one byte column at a time.

It shares no arithmetic with the other engines, so that they can be checked against it. The package
defines the generator matrix, as the parity of unit vectors. Its speed is about 0.1 to 1 MB/s.
"""

import reedsolo

from fec.engines import Interpolation, Symbols
from fec.engines.galois_field import ORDER, POLYNOMIAL


class ReedsoloEngine:
    """Encodes and decodes with the reedsolo package.

    With nsym = 255 - M and fcr = M its first parity symbols are those of RFC 5510, however many of
    them are sent.
    """

    name = "reedsolo"

    def prepare(self, known: tuple[int, ...], required: tuple[int, ...]) -> Interpolation:
        """Return the function that computes the required symbols from the M known ones."""
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
