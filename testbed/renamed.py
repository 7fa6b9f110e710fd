"""Names that other packages import, under the names that they had before: for one version, each with a
DeprecationWarning."""

import warnings
from collections.abc import Callable
from importlib import import_module

RENAMED = {
    "testbed.errors": {
        "SessionError": "SessionClosedError",
        "MachineLostError": "MachineDiedError",
        "require": "require_type",
    },
    "testbed.model.workload": dict.fromkeys(("Outcome", "RunResult"), "testbed.api.runs.RunResult"),
}
"""By module: what a name was, and what it is; with the module where that is another."""


def former_names(module: str) -> Callable[[str], object]:
    """A module's ``__getattr__`` (PEP 562): what has another name now, under the one that it had."""

    def renamed(name: str) -> object:
        new = RENAMED[module].get(name)
        if new is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warnings.warn(f"{module}.{name} is now {new}; the old name goes in 0.4", DeprecationWarning, stacklevel=2)
        home, _, attribute = new.rpartition(".")
        return getattr(import_module(home or module), attribute)

    return renamed
