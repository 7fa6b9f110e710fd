"""Figures of the studies of adaptive redundancy: what each sender spends, wastes and loses, over how fast the loss
changes."""

import statistics
from collections.abc import Callable, Mapping, Sequence

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
MEASURES = (
    ("overhead", "parity sent,\n% of the source packets"),
    ("wasted", "parity that came and was not\nneeded, % of the source packets"),
    ("late", "late or lost,\n% of the source packets"),
)


def outcome_figures(rows: Rows, patterns: Mapping[str, str], senders: Sequence[str]) -> Results:
    """``spent-and-lost``: a column a pattern, a row a measure. ``first-decode``: from a failure to the first block that
    decodes."""
    named = [pattern for pattern in patterns if any(row["pattern"] == pattern for row in rows)]
    figure, every = panels(4.6 * len(named), 9.2, len(MEASURES), len(named), sharey="row")
    for number, axes in enumerate(every):
        (line, column), (key, words) = divmod(number, len(named)), MEASURES[number // len(named)]
        for sender in senders:
            _line(axes, rows, named[column], sender, _percent(key))
        across = patterns[named[column]] if line == len(MEASURES) - 1 else ""
        axes.set(title="" if line else named[column], xlabel=across, ylabel="" if column else words)
    for axes in every[:: len(named)]:
        axes.set_ylim(bottom=0)  # last: it ends the scaling of the whole row
    _legend(figure, every[0], senders)
    return {"spent-and-lost": figure, "first-decode": _decode_figure(rows, patterns, senders)}


def _decode_figure(rows: Rows, patterns: Mapping[str, str], senders: Sequence[str]) -> Figure:
    named = [pattern for pattern in patterns if any(row["pattern"] == pattern for row in rows) and pattern != "ramps"]
    figure, every = panels(5.2 * len(named), 6.4, 2, len(named), sharey="row")
    for number, axes in enumerate(every):
        line, column = divmod(number, len(named))
        for sender in senders:
            _line(axes, rows, named[column], sender, (_median_ms, _none_share)[line])
        words = (
            "median time from a failure to the\nfirst block that decodes, ms",
            "failures during which\nno block decodes, %",
        )
        across = patterns[named[column]] if line else ""
        axes.set(title="" if line else named[column], xlabel=across, ylabel="" if column else words[line])
    every[0].set_ylim(bottom=0)
    every[-1].set_ylim(-4, 104)
    _legend(figure, every[0], senders)
    return figure


def _legend(figure: Figure, axes: Axes, senders: Sequence[str]) -> None:
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=min(3, len(senders)))


def _median_ms(row: Row) -> float | None:
    times = [t for t in row["first_decode_s"] if t is not None]
    return 1000 * statistics.median(times) if times else None


def _none_share(row: Row) -> float | None:
    times = row["first_decode_s"]
    return 100 * sum(t is None for t in times) / len(times) if times else None


def _line(axes: Axes, rows: Rows, pattern: str, sender: str, value: Callable[[Row], float | None]) -> None:
    own = sorted((row["at"], value(row)) for row in where(rows, pattern=pattern, sender=sender))
    shown = [(at, y) for at, y in own if y is not None]
    colour, style, mark = STYLES[sender]
    look = {"color": colour, "linestyle": style, "marker": mark, "fillstyle": "none"}
    axes.plot([at for at, _ in shown], [y for _, y in shown], label=sender, **look)
    ticks(axes, (at for at, _ in own))


def _percent(key: str) -> Callable[[Row], float]:
    return lambda row: float(100 * row[key])
