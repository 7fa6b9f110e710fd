"""Code compiled by numba, made at first use and kept for the next time: the set-up that this package and the testbed share.

numba takes half a second to import, so modules with compiled code are imported when they are first needed.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

LOGGER = logging.getLogger(__name__)
"""Says at level INFO when a function begins to be compiled (``compiling NAME``) and when it is (``compiled NAME``); what is
read from the cache is not compiled. Nobody hears it who does not listen."""


def compiled(function: Callable[..., Any], *signature: str, **options: Any) -> Any:
    """``numba.njit(*signature, **options)`` of the function, kept in a cache directory of the user's.

    That is ``NUMBA_CACHE_DIR``, else ``parallel-communications-testbed/numba`` in ``XDG_CACHE_HOME``, else in ``~/.cache``: the
    source tree may be read-only. Where no directory can be written, the code is compiled anew in every process.
    """
    import numba

    _tell_of_compilations()
    if not numba.config.CACHE_DIR:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        numba.config.CACHE_DIR = str(base / "parallel-communications-testbed" / "numba")
    try:
        return numba.njit(*signature, cache=True, **options)(function)
    except RuntimeError:  # numba's "no locator available"
        return numba.njit(*signature, **options)(function)


@functools.cache
def _tell_of_compilations() -> None:
    """Pass numba's own events on to the logger: the outermost function of what is compiled together."""
    from numba.core import event

    class Teller(event.Listener):  # type: ignore[misc]
        def __init__(self) -> None:
            self.depth = 0

        def on_start(self, told: Any) -> None:
            self.depth += 1
            if self.depth == 1:
                LOGGER.info("compiling %s", _name(told))

        def on_end(self, told: Any) -> None:
            self.depth -= 1
            if self.depth == 0:
                LOGGER.info("compiled %s", _name(told))

    event.register("numba:compile", Teller())


def _name(told: Any) -> str:
    return str(told.data["dispatcher"].py_func.__name__).strip("_").replace("_", " ")
