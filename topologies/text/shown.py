"""The base class of values that a notebook displays."""

from collections.abc import Callable
from typing import ClassVar


class Shown:
    """A value that Jupyter displays as HTML.

    The code that draws the values is in a higher layer (``testbed.api.displays``), which sets
    ``html`` when it is imported.

    Attributes:
        html: Returns the HTML of a value. If it is None, Jupyter shows the value's ``repr``.
    """

    html: ClassVar[Callable[[object], str] | None] = None

    def _repr_html_(self) -> str | None:
        if Shown.html is None:
            return None
        return Shown.html(self)
