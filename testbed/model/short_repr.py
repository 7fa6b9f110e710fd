"""One-line representations of dataclasses with many fields."""

from collections.abc import Sized
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from topologies.network import Network
from topologies.text.shown import Shown

# Limits of the number of characters, so that a representation fits into a message.
MAX_LINE = 160
MAX_TEXT = 40


class ShortRepr(Shown):
    """Base class of dataclasses (``repr=False``) that leaves out fields with their default values.

    The values of the other fields are shortened.

    >>> from dataclasses import dataclass
    >>> @dataclass(repr=False)
    ... class Plan(ShortRepr):
    ...     transfers: tuple[int, ...]
    ...     seed: int = 1
    >>> Plan((3, 4, 5))
    Plan(transfers=[3 values])
    """

    def __repr__(self) -> str:
        dataclass_self: Any = self
        parts = []
        for field in fields(dataclass_self):
            value = getattr(self, field.name)
            is_default = field.default is not MISSING and value is field.default
            if field.repr and not is_default:
                parts.append(f"{field.name}={_short(value)}")
        line = f"{type(self).__name__}({', '.join(parts)})"
        return line if len(line) <= MAX_LINE else f"{line[: MAX_LINE - 2]}…)"


def _short(value: object) -> str:
    if isinstance(value, Network):
        return repr(value.name)
    if isinstance(value, str):
        if len(value) > MAX_TEXT:
            value = f"{value[: MAX_TEXT - 1]}…"
        return repr(value)
    if isinstance(value, ShortRepr) or value is None or isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, Sized) and not is_dataclass(value):
        return f"[{len(value)} values]"
    return f"{type(value).__name__}(…)"
