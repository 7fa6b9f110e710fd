"""Errors for wrong keyword arguments, which name the most similar argument."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import ParamSpec, TypeVar

from testbed.errors import UsageError

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type)

# Arguments that have one of the other names in another function or on the command line.
_SYNONYMS = {
    "routing": ("method", "scheduling"),
    "method": ("routing", "scheduling"),
    "scheduling": ("method",),
    "labels": ("label_order",),
    "label_order": ("labels",),
    "rate_pps": ("packet_rate_pps",),
    "links": ("most",),
    "max_faults": ("most",),
}

# Largest number of arguments that a message lists.
_MAX_LISTED = 8


def wrong_argument(function: str, name: str, spellings: Mapping[str, str]) -> UsageError:
    """Return the error for an argument that a function does not have.

    Args:
        function: Name of the function.
        name: The argument that it does not have.
        spellings: Every spelling of its arguments, such as those of the command line, with the
            argument that each stands for.
    """
    return UsageError(
        f"{function}: there is no argument {name!r}; {_nearest(function, name, spellings)}"
    )


def _nearest(function: str, name: str, spellings: Mapping[str, str]) -> str:
    """Return the part of the message that suggests similar arguments, or lists all."""
    candidates = [spellings[synonym] for synonym in _SYNONYMS.get(name, ()) if synonym in spellings]
    if name in spellings:
        candidates = [spellings[name]]
    if not candidates:
        # A misspelt name of the library is more likely than one of the command line.
        names = [spelling for spelling, argument in spellings.items() if spelling == argument]
        close = difflib.get_close_matches(name, names, n=3, cutoff=0.65)
        close = close or difflib.get_close_matches(name, spellings, n=1, cutoff=0.85)
        candidates = [spellings[spelling] for spelling in close]
    if candidates:
        shown = " or ".join(repr(candidate) for candidate in dict.fromkeys(candidates))
        return f"did you mean {shown}? (help(testbed.{function}) gives all)"
    arguments = list(dict.fromkeys(spellings.values()))
    if not arguments:
        return "it takes none"
    listed = ", ".join(arguments[:_MAX_LISTED])
    if len(arguments) > _MAX_LISTED:
        listed += f" and {len(arguments) - _MAX_LISTED} more"
    return f"there are {listed}"


def with_checked_arguments(function: Callable[P, R], name: str = "") -> Callable[P, R]:
    """Return the function with a UsageError for arguments that it does not have.

    Args:
        function: Any function. A call that succeeds is not slowed down.
        name: The name in the error.
    """

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            if isinstance(error, UsageError):
                raise
            wrong = _wrong_call(name or function.__name__, function, args, kwargs)
            if wrong is None:
                raise
            raise wrong from None

    return checked


def _wrong_call(
    name: str, function: Callable[..., object], args: Iterable[object], kwargs: Mapping[str, object]
) -> UsageError | None:
    """Return the error if the arguments do not fit the function's signature."""
    signature = inspect.signature(function)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        parameters = [parameter for parameter in signature.parameters if parameter != "self"]
        for argument in kwargs:
            if argument not in parameters:
                spellings = {parameter: parameter for parameter in parameters}
                return wrong_argument(name, argument, spellings)
        return UsageError(f"{name}: {error}; its arguments are {', '.join(parameters)}")
    return None


def with_checked_methods(cls: C) -> C:
    """Return the class, whose constructor and public methods check their arguments."""
    for name, value in list(vars(cls).items()):
        is_public = name == "__init__" or not name.startswith("_")
        if is_public and inspect.isfunction(value):
            shown = cls.__name__ if name == "__init__" else f"{cls.__name__}.{name}"
            setattr(cls, name, with_checked_arguments(value, shown))
    return cls
