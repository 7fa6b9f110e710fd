"""Code compiled by numba, made at first use and kept for the next time: the set-up that this package and the testbed
share.

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
"""Says at level INFO when a function begins to be compiled (``compiling NAME``) and when it is (``compiled NAME``);
what is read from the cache is not compiled. Nobody hears it who does not listen."""


def compiled(function: Callable[..., Any], *signature: str, **options: Any) -> Any:
    """``numba.njit(*signature, **options)`` of the function, kept in a cache directory of the user's.

    That is ``NUMBA_CACHE_DIR``, else ``parallel-communications-testbed/numba`` in ``XDG_CACHE_HOME``, else in
    ``~/.cache``: the source tree may be read-only. Where no directory can be written, or it is another user's (who
    could put code of his there), the code is compiled again in every process.
    """
    import numba

    _tell_of_compilations()
    if not numba.config.CACHE_DIR:
        numba.config.CACHE_DIR = own_cache()
    try:
        return numba.njit(*signature, cache=bool(numba.config.CACHE_DIR), **options)(function)
    except RuntimeError:  # numba's "no locator available"
        return numba.njit(*signature, **options)(function)


@functools.cache
def own_cache() -> str:
    """The cache directory of the user's, made where there is none; others may write neither into it nor next to it. ""
    where it is another user's, as under sudo that keeps HOME, or cannot be made."""
    place = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in ("parallel-communications-testbed", "numba"):
            place /= name
            place.mkdir(mode=0o700, exist_ok=True)
            found = place.stat()
            if found.st_uid != os.geteuid():
                return ""
            if found.st_mode & 0o022:
                place.chmod(found.st_mode & 0o755)
    except OSError:
        return ""
    return str(place)


@functools.cache
def _tell_of_compilations() -> None:
    """Pass numba's own events on to the logger: the outermost function of what is compiled together."""
    from numba.core import event

    class Teller(event.Listener):  # type: ignore[misc]
        def __init__(self) -> None:
            self.depth = 0

        def on_start(self, reported: Any) -> None:
            self.depth += 1
            if self.depth == 1:
                LOGGER.info("compiling %s", _name(reported))

        def on_end(self, reported: Any) -> None:
            self.depth -= 1
            if self.depth == 0:
                LOGGER.info("compiled %s", _name(reported))

    event.register("numba:compile", Teller())


def _name(reported: Any) -> str:
    return str(reported.data["dispatcher"].py_func.__name__).strip("_").replace("_", " ")
