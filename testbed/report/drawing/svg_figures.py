"""matplotlib figures as SVG documents that are the same bytes each time; without a screen."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Any

from testbed.extras import installed, pip_command


def rendered(salt: str, draw: Callable[[], Mapping[str, Any]]) -> dict[str, str]:
    """The figures that ``draw`` makes, by name, as SVG documents; each is closed afterwards. ``salt`` fixes the ids inside them.

    Where matplotlib is not installed, one picture in their place says so: the run itself needs no figures.
    """
    if not installed("matplotlib"):
        return {"missing": _in_place_of_figures()}
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


def _in_place_of_figures() -> str:
    """An SVG document of two lines of text."""
    lines = (
        "Figures are drawn by matplotlib, which is not installed here.",
        f"{pip_command('figures')}; then testbed report draws this page anew.",
    )
    rows = "".join(f'<text x="10" y="{24 * n + 24}">{line}</text>' for n, line in enumerate(lines))
    size = 'width="760" height="64" viewBox="0 0 760 64"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="14">{rows}</svg>\n'
