"""Imports matplotlib so that it reads no settings of the current directory or the environment.

Another user may have put a file ``matplotlibrc`` into the directory in which a command is run.
Commands do not need such settings: they choose the style and the backend of all their figures.
"""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

# Environment variable with the name of a backend. The import of matplotlib fails if the name is
# unknown.
_BACKEND = "MPLBACKEND"


class _MatplotlibFinder:
    """Finds matplotlib, and nothing else."""

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        if name != "matplotlib":
            return None
        spec = PathFinder.find_spec(name)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module
            spec.loader.exec_module = partial(_load_elsewhere, load)  # type: ignore[method-assign]
        return spec


def import_matplotlib_elsewhere() -> None:
    """Install an import hook, by which matplotlib reads nothing from the current directory."""
    sys.meta_path.insert(0, _MatplotlibFinder())  # type: ignore[arg-type]


def _load_elsewhere(load: Callable[[ModuleType], None], module: ModuleType) -> None:
    backend = os.environ.pop(_BACKEND, None)
    directory = _open_current_directory()
    os.chdir("/")
    try:
        load(module)
    finally:
        if directory is not None:
            os.fchdir(directory)
            os.close(directory)
        if backend is not None:
            os.environ[_BACKEND] = backend


def _open_current_directory() -> int | None:
    """Return a descriptor of the current directory, or None if it cannot be opened."""
    with suppress(OSError):
        return os.open(".", os.O_PATH | os.O_CLOEXEC)
    return None
