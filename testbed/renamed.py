"""Names of options, arguments, keys of JSON and of what other packages import, under those that they had before: for
one version, each said, or with a DeprecationWarning."""

import warnings
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Literal

Heading = Literal["Options", "Keyword arguments", "Keys of JSON"]

RENAMED = {
    "testbed.errors": {
        "SessionError": "SessionClosedError",
        "MachineLostError": "MachineDiedError",
        "require": "require_type",
    },
    "testbed.model.workload": dict.fromkeys(("Outcome", "RunResult"), "testbed.api.runs.RunResult"),
}
"""By module: what a name was, and what it is; with the module where that is another."""


@cache
def _rows(heading: Heading) -> list[list[str]]:
    """(who has it, what it was, what it is) of each row below the heading in ``renames.tsv``."""
    table = Path(__file__).with_name("renames.tsv").read_text(encoding="utf-8")
    return [
        row.split("\t")
        for row in table.partition(f"# {heading}\n")[2].partition("# ")[0].splitlines()
    ]


def renames(heading: Heading, owner: str) -> dict[str, str]:
    """Names of 0.2 -> the present ones, of a command or a function of the library.

    >>> renames("Keys of JSON", "doctor")
    {'carried': 'capacity'}
    """
    return {was: now for who, was, now in _rows(heading) if who == owner}


def former_names(module: str) -> Callable[[str], object]:
    """A module's ``__getattr__`` (PEP 562): what has another name now, under the one that it had."""

    def renamed(name: str) -> object:
        new = RENAMED[module].get(name)
        if new is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warnings.warn(
            f"{module}.{name} is now {new}; the old name goes in 0.4",
            DeprecationWarning,
            stacklevel=2,
        )
        home, _, attribute = new.rpartition(".")
        return getattr(import_module(home or module), attribute)

    return renamed
