"""The ISA-L engine: Intel's storage acceleration library through ctypes, vector instructions chosen at run time.

Its matrices are not used (isa-l issue 40: not MDS); it only multiplies, by tables that are kept for each set of rows.
"""

import ctypes
import ctypes.util

import numpy as np
from numpy.typing import NDArray

from fec.engines import Symbols
from fec.engines.galois_field import interpolation_rows
from fec.errors import EngineUnavailable

_TABLE_BYTES = 32


class Multiplication:
    """Multiplies by one set of rows."""

    def __init__(self, library: ctypes.CDLL, rows: NDArray[np.uint8]) -> None:
        self._required, self._known = rows.shape
        self._multiply = library.ec_encode_data
        self._buffer = np.empty(self._required * self._known * _TABLE_BYTES, dtype=np.uint8)
        self._address = self._buffer.ctypes.data
        library.ec_init_tables(
            self._known, self._required, ctypes.c_void_p(rows.ctypes.data), self._address
        )

    def __call__(self, source: Symbols, out: Symbols) -> None:
        pointers = _row_addresses(source), _row_addresses(out)
        self._multiply(source.shape[1], self._known, self._required, self._address, *pointers)


class IsalEngine:
    """A call costs one foreign call and the addresses of the rows.

    Attributes:
        addresses: Where the library's functions are, for the C module of ``fec.protocol``.
    """

    name = "isal"

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        library.ec_encode_data.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int] + [
            ctypes.c_void_p
        ] * 3
        library.ec_encode_data.restype = None
        library.ec_init_tables.argtypes = [
            ctypes.c_int,
            ctypes.c_int,
            ctypes.c_void_p,
            ctypes.c_void_p,
        ]
        library.ec_init_tables.restype = None
        functions = (library.ec_init_tables, library.ec_encode_data)
        prepare_at, multiply_at = (ctypes.cast(f, ctypes.c_void_p).value or 0 for f in functions)
        self.addresses = prepare_at, multiply_at

    def prepare(self, known: tuple[int, ...], required: tuple[int, ...]) -> Multiplication:
        return Multiplication(self._library, interpolation_rows(known, required))


def _row_addresses(symbols: Symbols) -> bytes:
    """C array of pointers to the rows."""
    count, length = symbols.shape
    start = symbols.ctypes.data
    return np.arange(start, start + count * length, length, dtype=np.uintp).tobytes()


def build_engine() -> IsalEngine:
    """The engine; EngineUnavailable where the shared library is not installed."""
    for name in ("libisal.so.2", ctypes.util.find_library("isal")):
        if name is None:
            continue
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        if all(hasattr(library, name) for name in ("ec_encode_data", "ec_init_tables")):
            return IsalEngine(library)
    raise EngineUnavailable(
        "engine 'isal': no libisal.so.2 on this machine; install it (Debian, Ubuntu: libisal2)"
    )
