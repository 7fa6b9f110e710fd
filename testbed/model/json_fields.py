"""Reads JSON values into typed fields and says which key of which record is wrong; knows no record itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from fractions import Fraction
from typing import Any, Generic, TypeVar

from testbed.errors import InputError

T = TypeVar("T")
Reader = Callable[[Any, str], T]
"""(value, where) -> typed value; raises InputError that starts with ``where``."""


def json_ready(value: Any) -> Any:
    """The value as JSON takes it: fractions as text, tuples as lists, numbers that are not finite as None."""
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, bool) or value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(k): json_ready(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [json_ready(v) for v in value]
    if hasattr(value, "__dataclass_fields__"):
        return {f.name: json_ready(getattr(value, f.name)) for f in fields(value)}
    if hasattr(value, "tolist"):  # numpy scalars and arrays, without importing numpy
        return json_ready(value.tolist())
    return str(value)


class RecordReader(Generic[T]):
    """Builds one dataclass from a JSON object; a field with a default may be absent, every other key must be there.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Point:
    ...     x: float
    >>> RecordReader(Point, x=number).read({"x": 1.5, "more": 2}, "here").x
    1.5
    """

    def __init__(self, made: type[T], **readers: Reader[Any]) -> None:
        self._made = made
        self._readers = readers
        described: Any = made
        self._needed = frozenset(
            f.name for f in fields(described) if f.default is MISSING and f.default_factory is MISSING
        )

    def read(self, document: Any, where: str) -> T:
        if not isinstance(document, Mapping):
            raise InputError(f"{where}: not a JSON object")
        missing = sorted(name for name in self._needed if name not in document)
        if missing:
            raise InputError(f"{where}: {missing[0]} is missing")
        values = {
            name: reader(document[name], f"{where}: {name}")
            for name, reader in self._readers.items()
            if name in document
        }
        try:
            return self._made(**values)
        except InputError as error:
            raise InputError(f"{where}: {error}") from None


def text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise _wrong(value, where, "a text")
    return value


def boolean(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise _wrong(value, where, "true or false")
    return value


def integer(value: Any, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong(value, where, "a whole number")
    return value


def number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -1e300 < value < 1e300:
        raise _wrong(value, where, "a finite number")
    return value  # a whole number stays one, so that what is written again is the same


def fraction(value: Any, where: str) -> Fraction:
    """A number, or an exact fraction as text ("1/3")."""
    if isinstance(value, str):
        try:
            return Fraction(value)
        except (ValueError, ZeroDivisionError):
            raise _wrong(value, where, 'a fraction such as "1/3"') from None
    return Fraction(number(value, where))


def mapping(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _wrong(value, where, "an object")
    return dict(value)


def optional(reader: Reader[T]) -> Reader[T | None]:
    """The same, or null."""
    return lambda value, where: None if value is None else reader(value, where)


def sequence_of(reader: Reader[T]) -> Reader[tuple[T, ...]]:
    """A list of such values."""

    def read(value: Any, where: str) -> tuple[T, ...]:
        if not isinstance(value, (list, tuple)):
            raise _wrong(value, where, "a list")
        return tuple(reader(entry, f"{where}[{i}]") for i, entry in enumerate(value))

    return read


def pair(reader: Reader[T]) -> Reader[tuple[T, T]]:
    """A list of two such values."""

    def read(value: Any, where: str) -> tuple[T, T]:
        if not isinstance(value, (list, tuple)) or len(value) != 2:
            raise _wrong(value, where, "a list of two")
        return (reader(value[0], where), reader(value[1], where))

    return read


def _wrong(value: Any, where: str, wanted: str) -> InputError:
    shown = repr(value)
    return InputError(f"{where}: {shown[:40] + ('…' if len(shown) > 40 else '')} is not {wanted}")
