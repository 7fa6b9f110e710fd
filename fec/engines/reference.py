"""The reference engine, which codes one column of bytes at a time with the reedsolo package.

It shares no arithmetic with the other engines, so that they can be compared with it. The package
defines the generator matrix, as the parity of unit vectors. Its speed is about 0.1 to 1 MB/s.
"""

import reedsolo

from fec.engines import Interpolation, Symbols
from fec.engines.galois_field import ORDER, POLYNOMIAL


class ReedsoloEngine:
    """Encodes and decodes with the reedsolo package.

    With nsym = 255 - M and fcr = M, its first parity symbols are those of RFC 5510, for any number
    of parity symbols.
    """

    name = "reedsolo"

    def prepare(self, available: tuple[int, ...], required: tuple[int, ...]) -> Interpolation:
        """Return the function that computes the required symbols from the M available ones."""
        m = len(available)
        code = reedsolo.RSCodec(
            ORDER - m, nsize=ORDER, fcr=m, prim=POLYNOMIAL, generator=2, c_exp=8
        )
        erased = sorted(set(range(ORDER)) - set(available))
        is_encoding = available == tuple(range(m))

        def apply(source: Symbols, out: Symbols) -> None:
            for column in range(source.shape[1]):
                values = source[:, column].tobytes()
                if is_encoding:
                    codeword = code.encode(values)
                else:
                    damaged = bytearray(ORDER)
                    for symbol_id, value in zip(available, values, strict=True):
                        damaged[symbol_id] = value
                    _, codeword, _ = code.decode(damaged, erase_pos=erased, only_erasures=True)
                out[:, column] = [codeword[symbol_id] for symbol_id in required]

        return apply
