"""DataFrames with plain columns: numbers, text and booleans."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from testbed.errors import CapabilityError
from testbed.extras import pip_command
from topologies import Json, JsonObject

if TYPE_CHECKING:
    import pandas


def plain_frame(rows: Iterable[Json]) -> pandas.DataFrame:
    """Return rows as a DataFrame with plain columns. CapabilityError if there is no pandas."""
    try:
        import pandas
    except ImportError:
        raise CapabilityError(f"pandas is not installed; {pip_command('notebooks')}") from None
    frame = pandas.DataFrame([plain_row(row) for row in rows])
    for name in frame.columns:
        if frame[name].dtype == object:
            values = frame[name].dropna()
            if all(isinstance(value, bool) for value in values) and len(values):
                frame[name] = frame[name].astype("boolean")
            elif not any(isinstance(value, (str, bool)) for value in values):
                frame[name] = pandas.to_numeric(frame[name])
    return frame


def plain_row(row: Json) -> JsonObject:
    """Return a row whose values are numbers, text, booleans or None.

    >>> plain_row({"interval": [0.1, 0.2], "diagnosis": {"right": True, "cables": ["a-b"]}})
    {'interval_low': 0.1, 'interval_high': 0.2, 'diagnosis_right': True, 'diagnosis_cables': 'a-b'}
    """
    plain: JsonObject = {}
    for name, value in row.items():
        plain.update(_plain_columns(str(name), value))
    return plain


def _plain_columns(name: str, value: Any) -> JsonObject:
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, Mapping):
        columns: JsonObject = {}
        for key, inner in value.items():
            columns.update(_plain_columns(f"{name}_{key}", inner))
        return columns
    if isinstance(value, Fraction):
        return {name: str(value)}
    if isinstance(value, (list, tuple)):
        if len(value) == 2 and all(_is_number(each) for each in value):
            ends = ("x", "y") if name == "position" else ("low", "high")
            return {f"{name}_{end}": each for end, each in zip(ends, value, strict=True)}
        if all(isinstance(each, str) for each in value):
            return {name: ", ".join(value)}
        return {name: json.dumps(value, default=str)}
    is_plain = value is None or isinstance(value, (str, int, float))
    return {name: value if is_plain else str(value)}


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
