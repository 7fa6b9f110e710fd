"""Values that a notebook shows: what draws them lies above the packages in which they lie, and is set from there."""

from collections.abc import Callable
from typing import ClassVar


class Shown:
    """``html``: from a value to the HTML that a notebook shows of it; None: it shows the line that ``repr`` gives."""

    html: ClassVar[Callable[[object], str] | None] = None

    def _repr_html_(self) -> str | None:
        return None if Shown.html is None else Shown.html(self)
