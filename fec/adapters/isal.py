"""The ISA-L engine: Intel's storage acceleration library through ctypes, vector instructions chosen at run time.

Its matrices are not used (isa-l issue 40: not MDS); it only multiplies, by tables that are kept for each set of rows.
"""

import ctypes
import ctypes.util
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fec.engines import Interpolation, Symbols
from fec.engines.galois_field import interpolation_rows
from fec.errors import EngineUnavailable

_TABLE_BYTES = 32


class _Tables:
    """Expanded multiplication tables of one set of rows."""

    def __init__(self, library: Any, rows: NDArray[np.uint8]) -> None:
        self.required, self.known = rows.shape
        self._buffer = np.empty(self.required * self.known * _TABLE_BYTES, dtype=np.uint8)
        self.address = ctypes.c_void_p(self._buffer.ctypes.data)
        library.ec_init_tables(self.known, self.required, ctypes.c_void_p(rows.ctypes.data), self.address)


class IsalEngine:
    """A call costs one foreign call and the addresses of the rows."""

    name = "isal"

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self._multiply = library.ec_encode_data
        self._multiply.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int] + [ctypes.c_void_p] * 3
        self._multiply.restype = None
        library.ec_init_tables.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
        library.ec_init_tables.restype = None

    def prepare(self, known: tuple[int, ...], required: tuple[int, ...]) -> Interpolation:
        return partial(self._apply, _Tables(self._library, interpolation_rows(known, required)))

    def _apply(self, tables: _Tables, source: Symbols, out: Symbols) -> None:
        rows_in, rows_out = _row_addresses(source), _row_addresses(out)
        self._multiply(source.shape[1], tables.known, tables.required, tables.address, rows_in, rows_out)


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
        if hasattr(library, "ec_encode_data") and hasattr(library, "ec_init_tables"):
            return IsalEngine(library)
    raise EngineUnavailable("engine 'isal': no libisal.so.2 on this machine; install it (Debian, Ubuntu: libisal2)")
