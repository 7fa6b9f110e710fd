"""The ISA-L engine, which calls Intel's storage acceleration library through ctypes.

The library chooses vector instructions at run time. Only its multiplication is used, with tables
for each set of rows. Its matrices are not, because they are not MDS (isa-l issue 40).
"""

import ctypes
import ctypes.util
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fec.engines import Symbols
from fec.engines.galois_field import interpolation_rows
from fec.errors import EngineUnavailable

# Size of the library's table of one coefficient.
_TABLE_BYTES = 32


class Multiplication:
    """Multiplies symbols by one set of rows."""

    def __init__(self, library: ctypes.CDLL, rows: NDArray[np.uint8]) -> None:
        self._required, self._available = rows.shape
        self._multiply = library.ec_encode_data
        # The buffer must live as long as its address is used.
        self._tables = np.empty(self._required * self._available * _TABLE_BYTES, dtype=np.uint8)
        self._tables_address = self._tables.ctypes.data
        library.ec_init_tables(
            self._available, self._required, ctypes.c_void_p(rows.ctypes.data), self._tables_address
        )

    def __call__(self, source: Symbols, out: Symbols) -> None:
        """Compute the required symbols from the available ones, and write them to ``out``."""
        self._multiply(
            source.shape[1],
            self._available,
            self._required,
            self._tables_address,
            _row_addresses(source),
            _row_addresses(out),
        )


class IsalEngine:
    """Multiplies with one foreign call.

    Attributes:
        addresses: Addresses of ``ec_init_tables`` and ``ec_encode_data``, for the C module of
            ``fec.protocol``.
    """

    name = "isal"

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        library.ec_encode_data.argtypes = [
            ctypes.c_int,
            ctypes.c_int,
            ctypes.c_int,
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_void_p,
        ]
        library.ec_encode_data.restype = None
        library.ec_init_tables.argtypes = [
            ctypes.c_int,
            ctypes.c_int,
            ctypes.c_void_p,
            ctypes.c_void_p,
        ]
        library.ec_init_tables.restype = None
        self.addresses = (_address_of(library.ec_init_tables), _address_of(library.ec_encode_data))

    def prepare(self, available: tuple[int, ...], required: tuple[int, ...]) -> Multiplication:
        """Return the function that computes the required symbols from the M available ones."""
        return Multiplication(self._library, interpolation_rows(available, required))


def _address_of(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _row_addresses(symbols: Symbols) -> bytes:
    """Return a C array of pointers to the rows."""
    count, length = symbols.shape
    start = symbols.ctypes.data
    return np.arange(start, start + count * length, length, dtype=np.uintp).tobytes()


def build_engine() -> IsalEngine:
    """Load the shared library and return the engine.

    Raises:
        EngineUnavailable: The shared library is not installed.
    """
    for name in ("libisal.so.2", ctypes.util.find_library("isal")):
        if name is None:
            continue
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        if hasattr(library, "ec_encode_data") and hasattr(library, "ec_init_tables"):
            return IsalEngine(library)
    raise EngineUnavailable(
        "engine 'isal': no libisal.so.2 on this machine; install it (Debian, Ubuntu: libisal2)"
    )
