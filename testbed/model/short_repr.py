"""What a value with many fields says of itself in one line."""

from collections.abc import Sized
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from topologies.network import Network
from topologies.text.shown import Shown

LONGEST = 160


class ShortRepr(Shown):
    """For dataclasses (``repr=False``): the fields that are not as by default, each cut short.

    >>> from dataclasses import dataclass
    >>> @dataclass(repr=False)
    ... class Plan(ShortRepr):
    ...     transfers: tuple[int, ...]
    ...     seed: int = 1
    >>> Plan((3, 4, 5))
    Plan(transfers=[3 values])
    """

    def __repr__(self) -> str:
        shown: Any = self
        words = [
            f"{field.name}={_short(value)}"
            for field in fields(shown)
            if field.repr
            and (
                (value := getattr(self, field.name)) is not field.default
                or field.default is MISSING
            )
        ]
        line = f"{type(self).__name__}({', '.join(words)})"
        return line if len(line) <= LONGEST else f"{line[: LONGEST - 2]}…)"


def _short(value: object) -> str:
    if isinstance(value, Network):
        return repr(value.name)
    if isinstance(value, str):
        return repr(value if len(value) <= 40 else f"{value[:39]}…")
    if isinstance(value, ShortRepr) or value is None or isinstance(value, (int, float)):
        return repr(value)
    if is_dataclass(value):
        return f"{type(value).__name__}(…)"
    return f"[{len(value)} values]" if isinstance(value, Sized) else f"{type(value).__name__}(…)"
