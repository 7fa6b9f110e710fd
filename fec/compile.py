"""Code compiled by numba, made at first use and kept for the next time: the set-up that this package and the testbed share.

numba takes half a second to import, so modules with compiled code are imported when they are first needed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


def compiled(function: Callable[..., Any], *signature: str, **options: Any) -> Any:
    """``numba.njit(*signature, **options)`` of the function, kept in a cache directory of the user's.

    That is ``NUMBA_CACHE_DIR``, else ``parallel-communications-testbed/numba`` in ``XDG_CACHE_HOME``, else in ``~/.cache``: the
    source tree may be read-only. Where no directory can be written, the code is compiled anew in every process.
    """
    import numba

    if not numba.config.CACHE_DIR:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        numba.config.CACHE_DIR = str(base / "parallel-communications-testbed" / "numba")
    try:
        return numba.njit(*signature, cache=True, **options)(function)
    except RuntimeError:  # numba's "no locator available"
        return numba.njit(*signature, **options)(function)
