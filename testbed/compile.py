"""The one place that prepares numba: compiled code is kept in the user's cache directory."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def use_cache_directory() -> None:
    """Have numba keep compiled code in the user's cache directory; the source tree may be read-only."""
    if "numba" not in sys.modules:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(base) / "parallel-communications-testbed" / "numba"))
