"""Errors of topologies: what is wrong, where, and how to fix it, in one line."""

import difflib
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


class TopologyError(ValueError):
    """A network, a name of one, or a file of one that cannot be used."""


class LackingError(TopologyError):
    """A network that this machine cannot read: what it is missing, and what to install or allow."""


class NoPathError(TopologyError):
    """Two nodes between which no path of links leads."""


class located:  # noqa: N801 - as contextlib's
    """Within it, an error of networks begins with its place."""

    def __init__(self, where: str) -> None:
        self._where = where

    def __enter__(self) -> None: ...

    def __exit__(self, _: object, error: object, __: object) -> None:
        if isinstance(error, TopologyError):
            raise TopologyError(f"{self._where}: {error}") from None


def nearest(wrong: str, known: Iterable[str], listing: str = "it has ", most: int = 6) -> str:
    """What to give instead of a wrong name: the nearest names or, behind ``listing``, the first ``most`` that are
    known.

    >>> nearest("ECMP", ["ecmp", "single"]), nearest("x", ["ecmp", "single"], "choose ", 1), nearest("x", [])
    ('did you mean ecmp?', 'choose ecmp and 1 more', 'it has none')
    """
    named = list(known)
    of_lower = {name.lower(): name for name in named}
    near = difflib.get_close_matches(wrong.lower(), of_lower, n=3)
    if near:
        return f"did you mean {' or '.join(of_lower[name] for name in near)}?"
    more = f" and {len(named) - most} more" if len(named) > most else ""
    return listing + (", ".join(named[:most]) + more if named else "none")


def python_number(value: T) -> T:
    """A number of numpy, or of what has such, as Python's; any other value as it is."""
    number: T = (
        value.item() if hasattr(value, "item") and getattr(value, "shape", None) == () else value
    )
    return number
