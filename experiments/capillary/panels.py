"""How the figures of chapter 4's studies are set up: panels with a pale grid, a logarithmic axis with ticks that can be read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def panels(width: float, height: float, rows: int = 1, columns: int = 1, **shared: Any) -> tuple[Any, list[Any]]:
    """(figure of that size in inches, its axes row by row); ``shared``: ``sharex`` and ``sharey`` of matplotlib."""
    from matplotlib.figure import Figure  # imported when a figure is drawn, not when a study is listed

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False, **shared).flat)
    for each in axes:
        each.grid(alpha=0.3)
    return figure, axes


def log_ticks(axes: Any, values: Sequence[float]) -> None:
    """A logarithmic y axis with ticks at these values, written as they are."""
    axes.set_yscale("log")
    axes.set_yticks(values, [f"{value:g}" for value in values])
    axes.minorticks_off()
