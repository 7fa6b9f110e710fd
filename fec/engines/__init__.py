"""The engines that a Reed-Solomon code can run on, fastest first; each module is loaded when first requested.

An engine applies interpolation rows to symbols (``fec.engines.engine.Engine``); which one runs never changes a byte:
tests hold all against the package ``reedsolo``.
"""

from functools import cache
from importlib import import_module
from typing import cast

from fec.engines.engine import Engine
from fec.errors import EngineUnavailable, FecError

MODULES = {"isal": "fec.adapters.isal", "numba": "fec.engines.compiled"}


@cache
def load_engine(name: str) -> Engine:
    """The engine called ``name``: FecError for an unknown name, EngineUnavailable where this machine is missing it."""
    if name not in MODULES:
        raise FecError(f"engine {name!r} is not known; choose one of {', '.join(MODULES)}")
    try:
        module = import_module(MODULES[name])
    except ImportError as error:
        raise EngineUnavailable(f"engine {name!r}: {error}; install it with pip") from error
    return cast(Engine, module.build_engine())


@cache
def available_engines() -> tuple[str, ...]:
    """Names of the engines that work on this machine, fastest first.

    >>> "numba" in available_engines()
    True
    """
    found = []
    for name in MODULES:
        try:
            load_engine(name)
        except EngineUnavailable:
            continue
        found.append(name)
    return tuple(found)


@cache
def best_engine() -> Engine:
    """The fastest engine here, without loading slower ones."""
    for name in MODULES:
        try:
            return load_engine(name)
        except EngineUnavailable:
            continue
    raise EngineUnavailable("no Reed-Solomon engine works here: pip install numba")
