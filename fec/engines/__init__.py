"""The engines that compute a Reed-Solomon code, fastest first.

An engine multiplies symbols by interpolation rows (``Engine``). It is loaded when it is first used.
All engines compute the same bytes. The package ``reedsolo`` is the reference: it defines the
generator matrix, as the parity of unit vectors. ``tests/fec/code/test_erasure_engines.py`` compares
the other engines with it. It is a dependency because it is also the engine of machines on which no
other engine works.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from fec.errors import EngineUnavailable, FecError

# uint8 of shape (symbols, symbol_bytes), C-contiguous: one symbol per row.
Symbols: TypeAlias = NDArray[np.uint8]

# A function that computes the required symbols from the available ones, its first argument, and
# writes them to its second argument.
Interpolation: TypeAlias = Callable[[Symbols, Symbols], None]


class Engine(Protocol):
    """Multiplies symbols by a matrix over GF(2^8), the costly part of encoding and decoding."""

    name: str

    def prepare(self, available: tuple[int, ...], required: tuple[int, ...]) -> Interpolation:
        """Return the function that computes the required symbols from the M available ones.

        The caller caches it.

        Args:
            available: Ids of M symbols.
            required: Ids of the symbols to compute.
        """
        ...


# The module of each engine, and the function or class that builds it.
_BUILDERS = {
    "isal": ("fec.adapters.isal", "build_engine"),
    "numpy": ("fec.engines.tables", "NumpyEngine"),
    "reedsolo": ("fec.engines.reference", "ReedsoloEngine"),
}


@cache
def load_engine(name: str) -> Engine:
    """Return the engine of this name.

    Raises:
        FecError: There is no such engine.
        EngineUnavailable: It does not work on this machine.
    """
    if name not in _BUILDERS:
        raise FecError(f"engine {name!r} is not known; choose one of {', '.join(_BUILDERS)}")
    module_name, builder = _BUILDERS[name]
    try:
        module = import_module(module_name)
    except ImportError as error:
        raise EngineUnavailable(f"engine {name!r}: {error}; install it with pip") from error
    return cast(Engine, getattr(module, builder)())


def _working_engines() -> Iterator[Engine]:
    """Load and yield the engines that work on this machine one after another, fastest first."""
    for name in _BUILDERS:
        with suppress(EngineUnavailable):
            yield load_engine(name)


@cache
def available_engines() -> tuple[str, ...]:
    """Return the names of the engines that work on this machine, fastest first.

    >>> "reedsolo" in available_engines()
    True
    """
    return tuple(engine.name for engine in _working_engines())


@cache
def best_engine() -> Engine:
    """Return the fastest engine on this machine, without loading slower ones."""
    return next(_working_engines())
