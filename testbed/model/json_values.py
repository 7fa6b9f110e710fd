"""Conversion between JSON and Python values.

Files and texts are parsed here, and the dataclasses in which runs, verdicts and plans are stored
are written and read here.

Errors say what is wrong with a file and where: ``read_json`` and ``parse_json`` report invalid
JSON, ``from_json`` a key that is missing or has a value of the wrong kind. The JSON form of a
dataclass follows from its annotations alone: an object with a key for each field, fractions as
text, tuples as lists. Integers stay integers and numbers must be finite, so that a document that
is read and written again has the same bytes.
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

# Entries of a long list that are converted to text at a time. It bounds the memory in use.
_ENTRIES_PER_PIECE = 4096

# Texts that are accepted as a fraction. The number of digits and the exponent are bounded, because
# a fraction such as 1e999999999 would exhaust the machine's memory and time.
_FRACTION = re.compile(
    r"\s*[-+]?(\d{1,4000}/\d{1,4000}|\d{1,400}(\.\d{0,400})?(e[-+]?\d{1,3})?|\d{1,4000})\s*",
    re.ASCII | re.IGNORECASE,
)


def read_json(path: str | Path, where: str = "", *, hint: str = "name a JSON file") -> object:
    """Return the value in a JSON file.

    Args:
        path: The file.
        where: How errors begin. If it is empty, they begin with the path.
        hint: How errors end.

    Raises:
        InputError: The file cannot be read or is not JSON.
    """
    if path == "":
        raise InputError(f"{where.strip() or 'file'}: it is empty; {hint}")
    with prefix_errors(where or str(path)):
        text = text_file.read_text(Path(path), hint)
    return parse_json(text, where or str(path), hint=hint)


def read_text(path: str | Path, where: str = "") -> str:
    """Return the text of a file in UTF-8, UTF-16 or UTF-32.

    Args:
        path: The file.
        where: How errors begin. If it is empty, they begin with the path.

    Raises:
        InputError: The file cannot be read.
    """
    with prefix_errors(where or str(path)):
        return text_file.read_text(Path(path))


def is_file(text: str | Path) -> bool:
    """Return whether a file or folder of this name exists.

    Any text is accepted, also if it cannot be the name of a file.
    """
    # A text that is too long for a name, or contains a null character, raises an error.
    with suppress(OSError, ValueError):
        return Path(text).exists()
    return False


def parse_json(text: str, where: str, *, hint: str = "") -> object:
    """Return the value of a JSON text.

    Args:
        text: The JSON text.
        where: How errors begin.
        hint: How errors end.

    Raises:
        InputError: The text is not JSON.
    """
    with prefix_errors(where, hint):
        return node_link.parse_json(text)


@contextmanager
def prefix_errors(
    where: str, hint: str = "", kinds: tuple[type[Exception], ...] = (TopologyError, InputError)
) -> Iterator[None]:
    """Raise errors within the block as InputError with the place where they occurred.

    Args:
        where: How errors begin.
        hint: How errors end, if it is not empty.
        kinds: The classes of errors that are replaced.
    """
    try:
        yield
    except kinds as error:
        message = f"{where}: {error}"
        if hint:
            message += f"; {hint}"
        raise InputError(message) from None


@overload
def json_ready(
    value: "Json | DataclassInstance", *, without: type | tuple[type, ...] = ()
) -> JsonObject: ...
@overload
def json_ready(value: object, *, without: type | tuple[type, ...] = ()) -> object: ...
def json_ready(value: object, *, without: type | tuple[type, ...] = ()) -> object:
    """Return a value that the json module accepts.

    Fractions become text, tuples, sets and numpy arrays become lists, dataclasses become objects,
    and numbers that are not finite become None. Values of any other type become their text.

    Args:
        value: Any value, also with numpy arrays inside.
        without: Fields of dataclasses are left out if their value has this type. ``from_json``
            takes such values as an argument.
    """
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, bool) or value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, float):
        # numpy.float64 is a float too, but compares as an array does.
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): json_ready(item, without=without) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [json_ready(item, without=without) for item in value]
    if is_dataclass(value):
        document: JsonObject = {}
        for dataclass_field in fields(value):
            item = getattr(value, dataclass_field.name)
            if not isinstance(item, without):
                document[dataclass_field.name] = json_ready(item, without=without)
        return document
    # Recognizes numpy scalars and arrays without importing numpy.
    if hasattr(value, "tolist"):
        return json_ready(value.tolist(), without=without)
    return str(value)


@dataclass(frozen=True)
class LazyList:
    """A list at the top level of a document that is too long to be held in memory.

    Attributes:
        made: Returns the entries of the list. It is called each time the list is written.
    """

    made: Callable[[], Iterable[object]]


def json_pieces(document: JsonObject) -> Iterator[str]:
    """Yield the text of ``json.dumps`` in pieces of at most some thousand entries of a list.

    >>> "".join(json_pieces({"a": [1, [2]], "b": LazyList(lambda: range(3)), "c": None}))
    '{"a": [1, [2]], "b": [0, 1, 2], "c": null}'
    """
    opening = "{"
    for name, value in document.items():
        yield f"{opening}{json.dumps(name)}: "
        opening = ", "
        if isinstance(value, LazyList):
            yield from _list_pieces(value.made())
        elif isinstance(value, (list, tuple)):
            yield from _list_pieces(value)
        else:
            yield json.dumps(value)
    yield "{}" if opening == "{" else "}"


def _list_pieces(values: Iterable[object]) -> Iterator[str]:
    entries = iter(values)
    opening = "["
    while batch := list(itertools.islice(entries, _ENTRIES_PER_PIECE)):
        yield opening + json.dumps(batch)[1:-1]
        opening = ", "
    yield "[]" if opening == "[" else "]"


def from_json(
    kind: type[T], document: object, where: str, supplied: Mapping[type, object] | None = None
) -> T:
    """Return the dataclass that ``json_ready`` converted to a document.

    A field with a default may be absent from the document. Keys without a field are ignored.

    Args:
        kind: The dataclass.
        document: The document.
        where: How errors begin.
        supplied: Values of types that the document does not contain, by their type.

    Raises:
        InputError: A value is missing or of the wrong kind. The message names its key.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Point:
    ...     x: float
    >>> from_json(Point, {"x": 1.5, "more": 2}, "here").x
    1.5
    """
    value: T = _read(kind, document, where, supplied or {})
    return value


def _read(annotation: Any, value: Any, where: str, supplied: Mapping[type, object]) -> Any:
    """Convert a JSON value to the type of an annotation.

    Args:
        annotation: X | None, X | Y | None, tuple, Literal, a dataclass, or a plain type.
        value: The JSON value.
        where: How errors begin.
        supplied: Values of types that the document does not contain.
    """
    origin = get_origin(annotation)
    arguments = get_args(annotation)
    if NoneType in arguments:
        if value is None:
            return None
        return _read_union(arguments, value, where, supplied)
    if origin is tuple:
        return _read_tuple(arguments, value, where, supplied)
    if origin is Literal:
        if value not in arguments:
            raise _wrong(value, where, f"one of {', '.join(map(str, arguments))}")
        return value
    if annotation in supplied:
        return supplied[annotation]
    if is_dataclass(annotation):
        return _read_fields(annotation, value, where, supplied)
    is_valid, expected = _PLAIN[origin or annotation]
    if not is_valid(value):
        raise _wrong(value, where, expected)
    if annotation is Fraction:
        return _fraction(value, where)
    return value


def _read_union(
    arguments: tuple[Any, ...], value: Any, where: str, supplied: Mapping[type, object]
) -> Any:
    """Convert a value that is not None to the first type of a union that accepts it."""
    *others, last = (argument for argument in arguments if argument is not NoneType)
    for argument in others:
        # The next type of the union may accept the value.
        with suppress(InputError):
            return _read(argument, value, where, supplied)
    return _read(last, value, where, supplied)


def _read_tuple(
    arguments: tuple[Any, ...], value: Any, where: str, supplied: Mapping[type, object]
) -> tuple[Any, ...]:
    """Convert a JSON list to a tuple, of any length if the last argument is an ellipsis."""
    if arguments[-1] is ...:
        if not isinstance(value, (list, tuple)):
            raise _wrong(value, where, "a list")
        annotations = arguments[:1] * len(value)
    else:
        if not isinstance(value, (list, tuple)) or len(value) != len(arguments):
            raise _wrong(value, where, f"a list of {len(arguments)}")
        annotations = arguments
    items = []
    for i, (annotation, entry) in enumerate(zip(annotations, value, strict=True)):
        items.append(_read(annotation, entry, f"{where}[{i}]", supplied))
    return tuple(items)


def _read_fields(kind: Any, document: object, where: str, supplied: Mapping[type, object]) -> Any:
    if not isinstance(document, Mapping):
        raise InputError(f"{where}: not a JSON object")
    hints = _hints(kind)
    required = set()
    for dataclass_field in fields(kind):
        has_default = dataclass_field.default is not MISSING
        if not has_default and dataclass_field.default_factory is MISSING:
            required.add(dataclass_field.name)
    missing = sorted(name for name in required - set(document) if hints[name] not in supplied)
    if missing:
        raise InputError(f"{where}: {missing[0]} is missing")
    values = {}
    for name, hint in hints.items():
        if name in document or hint in supplied:
            values[name] = _read(hint, document.get(name), f"{where}: {name}", supplied)
    with prefix_errors(where):
        return kind(**values)


@lru_cache(maxsize=64)
def _hints(kind: Any) -> Json:
    """Return the type of each field. Resolving annotations is slow, so results are cached."""
    hints = get_type_hints(kind)
    return {f.name: hints[f.name] for f in fields(kind)}


def bounded_fraction(value: str | float) -> Fraction:
    """Return the exact value of "1/3", "0.25" or a number.

    Raises:
        ValueError: The text is not a fraction, or has so many digits or so large an exponent that
            the fraction would exhaust the machine's memory or time.
        ZeroDivisionError: The denominator is 0.
    """
    if isinstance(value, str) and not _FRACTION.fullmatch(value):
        raise ValueError(f"{value[:40]!r} is no fraction")
    return Fraction(value)


def _fraction(value: str | float, where: str) -> Fraction:
    try:
        return bounded_fraction(value)
    except (ValueError, ZeroDivisionError):
        raise _wrong(value, where, 'a fraction such as "1/3"') from None


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_truth_value(value: object) -> bool:
    return isinstance(value, bool)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    """Return whether the value is a number well within the range of a float, so also finite."""
    return (
        isinstance(value, (int, float)) and not isinstance(value, bool) and -1e300 < value < 1e300
    )


def _is_text_or_number(value: object) -> bool:
    return isinstance(value, str) or _is_number(value)


def _is_object(value: object) -> bool:
    return isinstance(value, Mapping)


# How each plain type is recognized in JSON, and what error messages call it.
_PLAIN: Mapping[Any, tuple[Callable[[Any], bool], str]] = {
    str: (_is_text, "a text"),
    bool: (_is_truth_value, "true or false"),
    int: (_is_integer, "a whole number"),
    float: (_is_number, "a finite number"),
    Fraction: (_is_text_or_number, "a finite number"),
    Mapping: (_is_object, "an object"),
}


def _wrong(value: object, where: str, expected: str) -> InputError:
    shown = repr(value)
    if len(shown) > 40:
        shown = shown[:40] + "…"
    return InputError(f"{where}: {shown} is not {expected}")
