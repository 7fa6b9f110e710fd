"""Figures of the studies of adaptive redundancy: what each sender spends, wastes and loses, over how fast the loss changes."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
STYLES = {
    "clairvoyant": ("#000000", "--", "x"),
    "diagnosing": ("#cc79a7", "-", "D"),
    "estimating": ("#0072b2", "-", "o"),
    "estimating, short hold": ("#56b4e9", "-", "s"),
    "none": ("#e69f00", ":", "*"),
    "fixed, at rest": ("#d55e00", ":", "v"),
    "fixed, for the worst": ("#009e73", ":", "^"),
}
MEASURES = (
    ("overhead", "parity sent,\n% of the source packets"),
    ("wasted", "parity that came and was not\nneeded, % of the source packets"),
    ("late", "late or lost,\n% of the source packets"),
)


def outcome_figures(rows: Sequence[Row], patterns: Mapping[str, str], senders: Sequence[str]) -> dict[str, Any]:
    """``spent-and-lost``: a column a pattern, a row a measure. ``first-decode``: from a failure to the first block that decodes."""
    from matplotlib.figure import Figure

    named = [pattern for pattern in patterns if any(row["pattern"] == pattern for row in rows)]
    figure = Figure(figsize=(4.6 * len(named), 9.2), layout="constrained")
    grid = figure.subplots(len(MEASURES), len(named), squeeze=False, sharey="row")
    for column, pattern in enumerate(named):
        for line, (key, words) in enumerate(MEASURES):
            axes = grid[line][column]
            for sender in senders:
                _line(axes, rows, pattern, sender, lambda row, key=key: 100 * row[key])
            axes.set_ylabel(words if column == 0 else "")
        grid[0][column].set_title(pattern)
        grid[-1][column].set_xlabel(patterns[pattern])
    for line in grid:
        line[0].set_ylim(bottom=0)  # last: it ends the scaling of the whole row
    _legend(figure, grid[0][0], senders)
    return {"spent-and-lost": figure, "first-decode": _decode_figure(rows, patterns, senders)}


def _decode_figure(rows: Sequence[Row], patterns: Mapping[str, str], senders: Sequence[str]) -> Any:
    from matplotlib.figure import Figure

    named = [pattern for pattern in patterns if any(row["pattern"] == pattern for row in rows) and pattern != "ramps"]
    figure = Figure(figsize=(5.2 * len(named), 6.4), layout="constrained")
    grid = figure.subplots(2, len(named), squeeze=False, sharey="row")
    for column, pattern in enumerate(named):
        upper, lower = grid[0][column], grid[1][column]
        for sender in senders:
            _line(upper, rows, pattern, sender, _median_ms)
            _line(lower, rows, pattern, sender, _none_share)
        upper.set_ylabel("median time from a failure to the\nfirst block that decodes, ms" if column == 0 else "")
        lower.set_ylabel("failures during which\nno block decodes, %" if column == 0 else "")
        lower.set_ylim(-4, 104)
        upper.set_title(pattern)
        lower.set_xlabel(patterns[pattern])
    grid[0][0].set_ylim(bottom=0)
    _legend(figure, grid[0][0], senders)
    return figure


def _legend(figure: Any, axes: Any, senders: Sequence[str]) -> None:
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=min(3, len(senders)))


def _median_ms(row: Row) -> float | None:
    times = [t for t in row["first_decode_s"] if t is not None]
    return 1000 * statistics.median(times) if times else None


def _none_share(row: Row) -> float | None:
    times = row["first_decode_s"]
    return 100 * sum(t is None for t in times) / len(times) if times else None


def _line(axes: Any, rows: Sequence[Row], pattern: str, sender: str, value: Any) -> None:
    own = sorted((row["at"], value(row)) for row in rows if (row["pattern"], row["sender"]) == (pattern, sender))
    shown = [(at, y) for at, y in own if y is not None]
    colour, style, mark = STYLES[sender]
    axes.plot(
        [at for at, _ in shown],
        [y for _, y in shown],
        color=colour,
        linestyle=style,
        marker=mark,
        fillstyle="none",
        label=sender,
    )
    axes.set_xscale("log")
    ticks = [at for at, _ in own]
    axes.set_xticks(ticks, [f"{at:g}" for at in ticks])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
