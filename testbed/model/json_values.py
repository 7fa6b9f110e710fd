"""JSON to values and back: files and text are read here, and so are the dataclasses that runs, verdicts and plans are
stored as.

One place says what is wrong with a file of JSON and where: ``read_json`` and ``parse_json`` where there is no JSON in
it, and ``from_json`` where a key is missing or of the wrong kind. What a dataclass looks like in JSON follows from its
annotations alone: an object with a key for each field, fractions as text, tuples as lists. A whole number stays whole
and numbers that are not finite are refused, so that what is read and written again has the same bytes.
"""

import itertools
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import MISSING, dataclass, fields, is_dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from types import NoneType
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

from testbed.errors import InputError
from topologies import Json, JsonObject, TopologyError
from topologies.files import node_link
from topologies.text import text_file

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
T = TypeVar("T")
_ENTRIES_A_PIECE = 4096


def read_json(path: str | Path, where: str = "", *, hint: str = "name a JSON file") -> object:
    """The value of a JSON file. InputError, which begins with ``where`` (the path, if empty) and ends with ``mend``,
    for a file that cannot be read or is no JSON.
    """
    if path == "":
        raise InputError(f"{where.strip() or 'file'}: it is empty; {hint}")
    with located(where or str(path)):
        text = text_file.read_text(Path(path), hint)
    return parse_json(text, where or str(path), hint=hint)


def read_text(path: str | Path, where: str = "") -> str:
    """The text of a file in UTF-8, UTF-16 or UTF-32; InputError as ``read_json`` where it cannot be read."""
    with located(where or str(path)):
        return text_file.read_text(Path(path))


def is_file(text: str | Path) -> bool:
    """Whether there is a file of that name; what is too long for a name, or for none, is the name of no file."""
    with suppress(OSError, ValueError):
        return Path(text).exists()
    return False


def parse_json(text: str, where: str, *, hint: str = "") -> object:
    """The value of a JSON text; InputError begins with ``where`` and ends with ``mend``."""
    with located(where, hint):
        return node_link.parse_json(text)


@contextmanager
def located(
    where: str, hint: str = "", kinds: tuple[type[Exception], ...] = (TopologyError, InputError)
) -> Iterator[None]:
    """Errors of these kinds, by default of topologies and the testbed's own, with their place."""
    try:
        yield
    except kinds as error:
        raise InputError(f"{where}: {error}" + (f"; {hint}" if hint else "")) from None


@overload
def json_ready(
    value: "Json | DataclassInstance", *, without: type | tuple[type, ...] = ()
) -> JsonObject: ...
@overload
def json_ready(value: object, *, without: type | tuple[type, ...] = ()) -> object: ...
def json_ready(value: object, *, without: type | tuple[type, ...] = ()) -> object:
    """The value as JSON takes it: fractions as text, tuples as lists, dataclasses as objects, numbers that are not
    finite as None.

    Fields of dataclasses whose value is of the type ``without`` are left out; ``from_json`` is given them back.
    """
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, bool) or value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None  # numpy's own answers == as arrays do
    if isinstance(value, Mapping):
        return {str(k): json_ready(v, without=without) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [json_ready(v, without=without) for v in value]
    if is_dataclass(value):
        named = ((f.name, getattr(value, f.name)) for f in fields(value))
        return {
            name: json_ready(v, without=without) for name, v in named if not isinstance(v, without)
        }
    if hasattr(value, "tolist"):  # numpy scalars and arrays, without importing numpy
        return json_ready(value.tolist(), without=without)
    return str(value)


@dataclass(frozen=True)
class LazyList:
    """A list at the top of a document that is too long to be held: ``made`` gives its entries as often as it is
    written."""

    made: Callable[[], Iterable[object]]


def json_pieces(document: JsonObject) -> Iterator[str]:
    """The text of ``json.dumps``, of which no more is held than some thousand entries of a list.

    >>> "".join(json_pieces({"a": [1, [2]], "b": LazyList(lambda: range(3)), "c": None}))
    '{"a": [1, [2]], "b": [0, 1, 2], "c": null}'
    """
    first = "{"
    for name, value in document.items():
        yield f"{first}{json.dumps(name)}: "
        first = ", "
        if isinstance(value, (LazyList, list, tuple)):
            yield from _pieces_of_list(value.made() if isinstance(value, LazyList) else value)
        else:
            yield json.dumps(value)
    yield "{}" if first == "{" else "}"


def _pieces_of_list(values: Iterable[object]) -> Iterator[str]:
    entries, first = iter(values), "["
    while some := list(itertools.islice(entries, _ENTRIES_A_PIECE)):
        yield first + json.dumps(some)[1:-1]
        first = ", "
    yield "[]" if first == "[" else "]"


def from_json(
    kind: type[T], document: object, where: str, given: Mapping[type, object] | None = None
) -> T:
    """The dataclass that ``json_ready`` wrote. A field with a default may be absent; keys that it does not know are
    left out.

    ``given``: values of the types that the document does not hold. Raises InputError, which begins with ``where`` and
    the key, for a value that is missing or of the wrong kind.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Point:
    ...     x: float
    >>> from_json(Point, {"x": 1.5, "more": 2}, "here").x
    1.5
    """
    value: T = _read(kind, document, where, given or {})
    return value


def _read(kind: Any, value: Any, where: str, given: Mapping[type, object]) -> Any:
    """The value as the annotation ``kind`` says: X | None, X | Y | None, tuple, Literal, a dataclass, or one of the
    plain kinds."""
    origin, inside = get_origin(kind), get_args(kind)
    if NoneType in inside:
        if value is None:
            return None
        *others, last = (one for one in inside if one is not NoneType)
        for one in others:
            with suppress(InputError):
                return _read(one, value, where, given)
        return _read(last, value, where, given)
    if origin is tuple:
        many = inside[-1] is ...
        if not isinstance(value, (list, tuple)) or not (many or len(value) == len(inside)):
            raise _wrong(value, where, "a list" if many else f"a list of {len(inside)}")
        kinds = inside[:1] * len(value) if many else inside
        return tuple(
            _read(one, entry, f"{where}[{i}]", given)
            for i, (one, entry) in enumerate(zip(kinds, value, strict=True))
        )
    if origin is Literal:
        if value not in inside:
            raise _wrong(value, where, f"one of {', '.join(map(str, inside))}")
        return value
    if kind in given:
        return given[kind]
    if is_dataclass(kind):
        return _read_fields(kind, value, where, given)
    fits, expected = _PLAIN[origin or kind]
    if not fits(value):
        raise _wrong(value, where, expected)
    return _fraction(value, where) if kind is Fraction else value


def _read_fields(kind: Any, document: object, where: str, given: Mapping[type, object]) -> Any:
    if not isinstance(document, Mapping):
        raise InputError(f"{where}: not a JSON object")
    hints = _hints(kind)
    needed = {f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING}
    missing = sorted(name for name in needed - set(document) if hints[name] not in given)
    if missing:
        raise InputError(f"{where}: {missing[0]} is missing")
    values = {
        name: _read(hint, document.get(name), f"{where}: {name}", given)
        for name, hint in hints.items()
        if name in document or hint in given
    }
    with located(where):
        return kind(**values)


@lru_cache(maxsize=64)
def _hints(kind: Any) -> Json:
    hints = get_type_hints(kind)
    return {f.name: hints[f.name] for f in fields(kind)}


def bounded_fraction(value: str | float) -> Fraction:
    """The exact value of "1/3", "0.25" or a number. ValueError for other text, and for text of so many digits, or so
    great an exponent, that the fraction alone would take the machine's memory and time; ZeroDivisionError as
    Fraction."""
    if isinstance(value, str) and not _FRACTION.fullmatch(value):
        raise ValueError(f"{value[:40]!r} is no fraction")
    return Fraction(value)


_FRACTION = re.compile(
    r"\s*[-+]?(\d{1,4000}/\d{1,4000}|\d{1,400}(\.\d{0,400})?(e[-+]?\d{1,3})?|\d{1,4000})\s*",
    re.ASCII | re.IGNORECASE,
)


def _fraction(value: str | float, where: str) -> Fraction:
    try:
        return bounded_fraction(value)
    except (ValueError, ZeroDivisionError):
        raise _wrong(value, where, 'a fraction such as "1/3"') from None


def _is_number(value: object) -> bool:
    return (
        isinstance(value, (int, float)) and not isinstance(value, bool) and -1e300 < value < 1e300
    )


_PLAIN: Mapping[Any, tuple[Callable[[Any], bool], str]] = {
    str: (lambda value: isinstance(value, str), "a text"),
    bool: (lambda value: isinstance(value, bool), "true or false"),
    int: (lambda value: isinstance(value, int) and not isinstance(value, bool), "a whole number"),
    float: (_is_number, "a finite number"),
    Fraction: (lambda value: isinstance(value, str) or _is_number(value), "a finite number"),
    Mapping: (lambda value: isinstance(value, Mapping), "an object"),
}
"""How each plain kind of value is told, and what it is called."""


def _wrong(value: object, where: str, expected: str) -> InputError:
    shown = repr(value)
    return InputError(f"{where}: {shown[:40] + ('…' if len(shown) > 40 else '')} is not {expected}")
