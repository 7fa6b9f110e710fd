"""Compiled code of the checkout for programs that do not find it: other users', and those of files in another place."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from fec.cache_directory import own_cache
from tests.helpers.paths import ROOT

PACKAGES = ("topologies", "fec", "sfio_emu", "testbed", "experiments")


def hand_over_compiled_code(site: Path, cache: Path) -> None:
    """Copy compiled code of the checkout into the cache of another user or of a copy of the files.

    Compiling takes half a minute, and is not tested there.

    Args:
        site: The folder with the same files.
        cache: The cache directory of the user.
    """
    from numba.core.caching import _CacheLocator

    cache.mkdir(parents=True, exist_ok=True)
    kept = Path(os.environ.get("NUMBA_CACHE_DIR") or own_cache())
    for package in PACKAGES:
        for folder in {path.parent for path in (site / package).rglob("*.py")}:
            here = ROOT / folder.relative_to(site)
            compiled = kept / _CacheLocator.get_suitable_cache_subpath(str(here / "module.py"))
            if not compiled.is_dir():
                continue
            shutil.copytree(
                compiled,
                cache / _CacheLocator.get_suitable_cache_subpath(str(folder / "module.py")),
            )
            for path in folder.glob(
                "*.py"
            ):  # numba asks for the time and the size of what it has compiled
                if path.read_bytes() == (here / path.name).read_bytes():
                    shutil.copystat(here / path.name, path)
