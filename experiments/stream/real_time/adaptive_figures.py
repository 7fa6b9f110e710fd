"""Figures of the studies of adaptive redundancy: what each sender spends, wastes and loses, over how fast the loss
changes."""

from collections.abc import Callable, Mapping, Sequence
from itertools import product

from testbed.model.studies.study import Results, Row, Rows, where
from testbed.report.drawing.charts import AMBER, BLUE, GREEN, INK, ORANGE, PURPLE, SKY, Axes, panels, ticks

STYLES = {
    "clairvoyant": (INK, "--", "x"),
    "diagnosing": (PURPLE, "-", "D"),
    "estimating": (BLUE, "-", "o"),
    "estimating, short hold": (SKY, "-", "s"),
    "none": (AMBER, ":", "*"),
    "fixed, at rest": (ORANGE, ":", "v"),
    "fixed, for the worst": (GREEN, ":", "^"),
}
Value = Callable[[Row], float]
MEASURES: Mapping[str, Value] = {
    "parity sent,\n% of the source packets": lambda row: 100 * row["overhead"],
    "parity that came and was not\nneeded, % of the source packets": lambda row: 100 * row["wasted"],
    "late or lost,\n% of the source packets": lambda row: 100 * row["late"],
}


def outcome_figures(rows: Rows, patterns: Mapping[str, str], senders: Sequence[str]) -> Results:
    """``spent-and-lost``: a column a pattern with what stands below it, a row a measure, a line a sender."""
    named = {name: across for name, across in patterns.items() if any(row["pattern"] == name for row in rows)}
    figure, every = panels(4.6 * len(named), 9.2, len(MEASURES), len(named), sharey="row")
    for axes, ((words, value), pattern) in zip(every, product(MEASURES.items(), named), strict=True):
        for sender in senders:
            _line(axes, rows, pattern, sender, value)
        axes.set(ylabel=words if pattern == next(iter(named)) else "")
    for above, below, (pattern, across) in zip(every, every[-len(named) :], named.items(), strict=False):
        above.set_title(pattern)
        below.set_xlabel(across)
    for axes in every[:: len(named)]:
        axes.set_ylim(bottom=0)  # last: it ends the scaling of the whole row
    figure.legend(*every[0].get_legend_handles_labels(), loc="outside lower center", ncols=min(3, len(senders)))
    return {"spent-and-lost": figure}


def _line(axes: Axes, rows: Rows, pattern: str, sender: str, value: Value) -> None:
    own = sorted((row["at"], value(row)) for row in where(rows, pattern=pattern, sender=sender))
    colour, style, mark = STYLES[sender]
    look = {"color": colour, "linestyle": style, "marker": mark, "fillstyle": "none"}
    axes.plot([at for at, _ in own], [y for _, y in own], label=sender, **look)
    ticks(axes, (at for at, _ in own))
