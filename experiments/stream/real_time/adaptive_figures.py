"""Figures of the studies of adaptive redundancy: what each sender spends, wastes and loses, over how fast the loss
changes."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from itertools import product

from testbed.model.studies.study import Results, Row, Rows, where
from testbed.report.drawing.charts import AMBER, BLUE, GREEN, INK, ORANGE, PURPLE, SKY, Axes, Figure, panels, ticks

STYLES = {
    "clairvoyant": (INK, "--", "x"),
    "diagnosing": (PURPLE, "-", "D"),
    "estimating": (BLUE, "-", "o"),
    "estimating, short hold": (SKY, "-", "s"),
    "none": (AMBER, ":", "*"),
    "fixed, at rest": (ORANGE, ":", "v"),
    "fixed, for the worst": (GREEN, ":", "^"),
}
Value = Callable[[Row], float | None]
MEASURES: Mapping[str, Value] = {
    "parity sent,\n% of the source packets": lambda row: 100 * row["overhead"],
    "parity that came and was not\nneeded, % of the source packets": lambda row: 100 * row["wasted"],
    "late or lost,\n% of the source packets": lambda row: 100 * row["late"],
}


def outcome_figures(rows: Rows, patterns: Mapping[str, str], senders: Sequence[str]) -> Results:
    """``spent-and-lost``: a column a pattern, a row a measure. ``first-decode``: from a failure to the first block that
    decodes."""
    named = {name: across for name, across in patterns.items() if any(row["pattern"] == name for row in rows)}
    spent, every = _by_pattern(rows, named, senders, MEASURES, (4.6, 9.2))
    for axes in every[:: len(named)]:
        axes.set_ylim(bottom=0)  # last: it ends the scaling of the whole row
    named.pop("ramps", None)
    decode, every = _by_pattern(rows, named, senders, OF_DECODING, (5.2, 6.4))
    every[0].set_ylim(bottom=0)
    every[-1].set_ylim(-4, 104)
    return {"spent-and-lost": spent, "first-decode": decode}


def _by_pattern(
    rows: Rows,
    named: Mapping[str, str],
    senders: Sequence[str],
    measures: Mapping[str, Value],
    size: tuple[float, float],
) -> tuple[Figure, list[Axes]]:
    """A column a pattern with what stands below it, as wide as ``size`` says; a row a measure, a line a sender."""
    figure, every = panels(size[0] * len(named), size[1], len(measures), len(named), sharey="row")
    for axes, ((words, value), pattern) in zip(every, product(measures.items(), named), strict=True):
        for sender in senders:
            _line(axes, rows, pattern, sender, value)
        axes.set(ylabel=words if pattern == next(iter(named)) else "")
    for above, below, (pattern, across) in zip(every, every[-len(named) :], named.items(), strict=False):
        above.set_title(pattern)
        below.set_xlabel(across)
    figure.legend(*every[0].get_legend_handles_labels(), loc="outside lower center", ncols=min(3, len(senders)))
    return figure, every


def _median_ms(row: Row) -> float | None:
    times = [t for t in row["first_decode_s"] if t is not None]
    return 1000 * statistics.median(times) if times else None


def _none_share(row: Row) -> float | None:
    times = row["first_decode_s"]
    return 100 * sum(t is None for t in times) / len(times) if times else None


OF_DECODING: Mapping[str, Value] = {
    "median time from a failure to the\nfirst block that decodes, ms": _median_ms,
    "failures during which\nno block decodes, %": _none_share,
}


def _line(axes: Axes, rows: Rows, pattern: str, sender: str, value: Value) -> None:
    own = sorted((row["at"], value(row)) for row in where(rows, pattern=pattern, sender=sender))
    shown = [(at, y) for at, y in own if y is not None]
    colour, style, mark = STYLES[sender]
    look = {"color": colour, "linestyle": style, "marker": mark, "fillstyle": "none"}
    axes.plot([at for at, _ in shown], [y for _, y in shown], label=sender, **look)
    ticks(axes, (at for at, _ in own))
