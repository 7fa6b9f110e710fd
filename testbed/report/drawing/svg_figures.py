"""matplotlib figures as SVG documents that are the same bytes each time; without a screen."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Any


def rendered(salt: str, draw: Callable[[], Mapping[str, Any]]) -> dict[str, str]:
    """The figures that ``draw`` makes, by name, as SVG documents; each is closed afterwards. ``salt`` fixes the ids inside them."""
    import matplotlib
    import matplotlib.pyplot as plt

    matplotlib.use("Agg")
    drawings = {}
    with matplotlib.rc_context({"svg.hashsalt": salt, "svg.fonttype": "path"}):
        for name, figure in draw().items():
            out = io.StringIO()
            figure.savefig(out, format="svg", metadata={"Date": None}, bbox_inches="tight")
            drawings[name] = out.getvalue()
            plt.close(figure)
    return drawings
