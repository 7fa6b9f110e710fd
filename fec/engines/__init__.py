"""The engines that a Reed-Solomon code can run on, fastest first; each module is loaded when first requested.

An engine applies interpolation rows to symbols (``Engine``); which one runs never changes a byte.
The package ``reedsolo`` is the reference: the generator matrix is by definition what it makes of unit vectors
(``tests/fec/code/test_erasure_engines.py`` holds the closed form of the others against it). It is a dependency, not
only a test's oracle, because it is also the engine of a machine on which no other works.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from fec.errors import EngineUnavailable, FecError

Symbols: TypeAlias = NDArray[np.uint8]
"""uint8 of shape (symbols, symbol_bytes), C-contiguous: one symbol a row."""
Interpolation: TypeAlias = Callable[[Symbols, Symbols], None]
"""Writes the requested symbols to the second from the known ones in the first (rows in those orders)."""


class Engine(Protocol):
    """Applies a matrix over GF(2^8) to symbols: the one costly operation of encoding and decoding."""

    name: str

    def prepare(self, known: tuple[int, ...], required: tuple[int, ...]) -> Interpolation:
        """What gives the ``required`` symbols from the ``known`` M (cached by the code)."""
        ...


_MAKERS = {
    "isal": ("fec.adapters.isal", "build_engine"),
    "numpy": ("fec.engines.tables", "NumpyEngine"),
    "reedsolo": ("fec.engines.reference", "ReedsoloEngine"),
}


@cache
def load_engine(name: str) -> Engine:
    """The engine called ``name``: FecError for an unknown name, EngineUnavailable where this machine is missing it."""
    if name not in _MAKERS:
        raise FecError(f"engine {name!r} is not known; choose one of {', '.join(_MAKERS)}")
    module_name, maker = _MAKERS[name]
    try:
        module = import_module(module_name)
    except ImportError as error:
        raise EngineUnavailable(f"engine {name!r}: {error}; install it with pip") from error
    return cast(Engine, getattr(module, maker)())


def _working() -> Iterator[Engine]:
    """Those that this machine has, fastest first; each is loaded when its turn comes."""
    for name in _MAKERS:
        with suppress(EngineUnavailable):
            yield load_engine(name)


@cache
def available_engines() -> tuple[str, ...]:
    """Names of the engines that work on this machine, fastest first.

    >>> "reedsolo" in available_engines()
    True
    """
    return tuple(engine.name for engine in _working())


@cache
def best_engine() -> Engine:
    """The fastest engine here, without loading slower ones."""
    return next(_working())
