"""Errors of this package. Each message is one line: what is wrong, where, and how to fix it."""

import difflib
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


class TopologyError(ValueError):
    """A network, the name of a network, or a network file cannot be used."""


class LackingError(TopologyError):
    """A network cannot be read on this machine; the message says what to install or to allow."""


class NoPathError(TopologyError):
    """No path of links leads from one node to another."""


class prefix_errors:  # noqa: N801 - lower case, as the context managers of contextlib
    """Puts a location in front of the message of every TopologyError that is raised in the block.

    Args:
        where: The location, such as the name of a file or the path of a JSON value.
    """

    def __init__(self, where: str) -> None:
        self._where = where

    def __enter__(self) -> None: ...

    def __exit__(self, _: object, error: object, __: object) -> None:
        if isinstance(error, TopologyError):
            raise TopologyError(f"{self._where}: {error}") from None


def nearest(wrong: str, valid: Iterable[str], listing: str = "it has ", limit: int = 6) -> str:
    """Return advice on which name to give instead of a wrong one.

    Args:
        wrong: The name that does not exist.
        valid: The names that exist.
        listing: Text in front of these names, which are listed if none is similar.
        limit: Maximum number of names to list.

    >>> nearest("ECMP", ["ecmp", "single"])
    'did you mean ecmp?'
    >>> nearest("x", ["ecmp", "single"], "choose ", 1)
    'choose ecmp and 1 more'
    >>> nearest("x", [])
    'it has none'
    """
    names = list(valid)
    name_by_lower = {name.lower(): name for name in names}
    similar = difflib.get_close_matches(wrong.lower(), name_by_lower, n=3)
    if similar:
        return f"did you mean {' or '.join(name_by_lower[name] for name in similar)}?"
    if not names:
        return f"{listing}none"
    advice = listing + ", ".join(names[:limit])
    if len(names) > limit:
        advice += f" and {len(names) - limit} more"
    return advice


def python_number(value: T) -> T:
    """Convert a numpy scalar into the Python number of the same value.

    Any other value is returned unchanged. numpy is not imported: a scalar is recognised by its
    method ``item`` and its empty shape.
    """
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        number: T = value.item()
        return number
    return value
