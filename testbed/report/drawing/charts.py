"""Charts of studies and commands: one palette, one style, and the usual shapes.

``chart`` and ``panels`` create axes with a pale grid. ``draw_lines`` and ``draw_bars`` draw samples
with the 95 % intervals of their means. ``svg_figures`` applies ``STYLE`` while it draws a figure.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Literal, TypeVar

from testbed.model.studies.samples import spread, whiskers
from topologies.text.json_types import Json, JsonObject

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure
else:  # matplotlib is imported when a figure is drawn, not when a study is listed
    Axes = Figure = object

# Number of colours for capillary layers. Colour 0 is that of layer 1, the most loaded bottleneck.
LAYER_STEPS = 7

# Name -> (colour on a light page, colour on a dark page).
_COLOURS = {
    "paper": ("#ffffff", "#14171a"),
    "wash": ("#f5f6f8", "#1d2125"),
    "ink": ("#16191d", "#eceef0"),
    "soft": ("#555d66", "#a9b1ba"),
    "rule": ("#d9dde2", "#333940"),
    "faint": ("#c3c9d0", "#4a525b"),
    "measured": ("#0b62a8", "#6cb6f5"),
    "predicted": ("#a3470a", "#f0a367"),
    "band": ("#e3a008", "#e3a008"),
    "good": ("#16693f", "#62c98f"),
    "bad": ("#b3261e", "#ff8a80"),
    "odd": ("#855a00", "#e6b450"),
    "plain-load": ("#5c6670", "#98a2ad"),
    "layer-0": ("#3a0853", "#fde34a"),
    "layer-1": ("#45327f", "#b8dc3c"),
    "layer-2": ("#35598c", "#6bcc60"),
    "layer-3": ("#25768c", "#35b67f"),
    "layer-4": ("#1a8576", "#2fa193"),
    "layer-5": ("#3a8c3f", "#4f8bb0"),
    "layer-6": ("#7a8b12", "#8276bd"),
}
LIGHT = {name: light for name, (light, _) in _COLOURS.items()}
DARK = {name: dark for name, (_, dark) in _COLOURS.items()}


def layer_colour(layer: int, layers: int) -> str:
    """Return the colour of a link on a light page by its capillary layer.

    Args:
        layer: The layer of the link from 1, or 0 if it belongs to none.
        layers: The number of layers.
    """
    if layer < 1:
        return LIGHT["plain-load"]
    step = layer - 1
    if layers > LAYER_STEPS:
        step = round((layer - 1) / (layers - 1) * (LAYER_STEPS - 1))
    return LIGHT[f"layer-{step}"]


def custom_properties(colours: Mapping[str, str]) -> str:
    """Return the colours as CSS custom properties."""
    return "".join(f"--{name}:{value};" for name, value in colours.items())


# Hues that colour-blind readers can distinguish (Okabe and Ito 2008).
BLUE = "#0072b2"
ORANGE = "#d55e00"
GREEN = "#009e73"
PURPLE = "#cc79a7"
AMBER = "#e69f00"
SKY = "#56b4e9"
# Text.
INK = "#16191d"
# Background elements.
GREY = "#5c6670"
HUES = (BLUE, ORANGE, GREEN, PURPLE, AMBER, SKY, INK, GREY)
# Failures, and results without meaning.
RED = "#b3261e"
# Settings of matplotlib for every figure.
STYLE: Json = {
    "axes.axisbelow": True,
    "axes.prop_cycle": f"cycler(color={list(HUES)})",
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10,
    "errorbar.capsize": 2,
    "figure.titlesize": 11,
    "grid.color": "#d9dde2",
    "grid.linewidth": 0.6,
    "legend.edgecolor": "none",
    "legend.fontsize": 8,
    "lines.linewidth": 1.4,
    "lines.markersize": 5,
}
# Positions of a legend that has no room among the curves: below the axes, or at their right.
BELOW: JsonObject = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.16), "ncols": 2}
COMPARED: JsonObject = {"loc": "center left", "bbox_to_anchor": (1.01, 0.5)}
# Markers of the first eight series, as matplotlib writes them.
MARKS = "osD^vP*X"
# The first eight series have the first dashes and hatches, the next eight the second ones.
_DASHES = ("-", "--", ":")
_HATCHES = ("", "////", "....")

# Position of a sample on the axis: a number, or the name of a group of bars.
Place = TypeVar("Place")
Number = TypeVar("Number", bound=float)
# Samples by series and position. A tuple is a mean with the half width of its interval.
Samples = Mapping[tuple[str, Place], Sequence[float] | tuple[float, float]]
# A value, and the text of the legend about the line that is drawn there.
Mark = tuple[float, str]


def panels(
    width: float,
    height: float,
    rows: int = 1,
    columns: int = 1,
    sharex: bool = False,
    sharey: bool = False,
) -> tuple[Figure, list[Axes]]:
    """Return a figure of this size in inches, and its axes row by row."""
    figure = bare(width, height, layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, sharex=sharex, sharey=sharey)
    panel: list[Axes] = list(grid.flat)
    for axes in panel:
        axes.grid(True)
    return figure, panel


def chart(
    title: str = "", *, size: tuple[float, float] = (7.6, 4.4), **named: object
) -> tuple[Figure, Axes]:
    """Return a figure with one pair of axes, whose size does not depend on a legend.

    Args:
        title: Title of the axes.
        size: Width and height of the figure in inches.
        **named: Properties of the axes, as for matplotlib's ``Axes.set``.
    """
    figure = bare(*size)
    axes = figure.add_subplot()
    axes.grid(True)
    axes.set(title=title, **named)
    return figure, axes


@contextmanager
def only_settings(settings: Json) -> Iterator[None]:
    """Apply these settings to matplotlib's defaults, and ignore the user's own settings."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(settings)
        yield


def bare(width: float, height: float, layout: Literal["constrained"] | None = None) -> Figure:
    """Return a figure of this size in inches, without axes."""
    from matplotlib.figure import Figure as MatplotlibFigure

    return MatplotlibFigure(figsize=(width, height), layout=layout)


def ticks(axes: Axes, values: Iterable[float], *, axis: str = "x") -> None:
    """Make an axis logarithmic, with ticks only at these values, and labels without exponents."""
    positions = sorted(set(values))
    labels = [f"{value:g}" for value in positions]
    axes.set(**{f"{axis}scale": "log"})
    axes.set(**{f"{axis}ticks": positions, f"{axis}ticklabels": labels})
    axes.minorticks_off()


def draw_dots(
    axes: Axes, position: float, values: Sequence[float], colour: str, *, width: float = 0.3
) -> None:
    """Draw values as dots in ascending order, spread over ``width`` around an x position."""
    xs = []
    for index in range(len(values)):
        xs.append(position + width * (index / max(1, len(values) - 1) - 0.5))
    axes.plot(xs, sorted(values), ".", color=colour, alpha=0.5)


def draw_lines(
    title: str,
    samples: Samples[Number],
    *,
    x: str,
    y: str,
    claim: Mark | None = None,
    upright: Mark | None = None,
    max_value: float = math.inf,
) -> Figure:
    """Return a figure with one line per series, with confidence intervals.

    Args:
        title: Title of the figure.
        samples: Samples by series and x.
        x: Label of the x axis.
        y: Label of the y axis.
        claim: Threshold of the claim, drawn as a dashed horizontal line.
        upright: An x with a meaning, such as saturation, drawn as a dotted vertical line.
        max_value: Largest possible value, 1 for shares. Intervals do not exceed it, and do not go
            below 0 unless the mean does.
    """
    figure, axes = chart(title, xlabel=x, ylabel=y)
    for index, (name, points) in enumerate(_by_series(samples).items()):
        xs = sorted(points)
        means, errors = _whiskers([points[x_value] for x_value in xs], max_value)
        style: JsonObject = {
            "marker": MARKS[index % len(MARKS)],
            "linestyle": _DASHES[index // len(HUES) % len(_DASHES)],
            "color": HUES[index % len(HUES)],
        }
        axes.errorbar(xs, means, yerr=errors, label=name, **style)
    if upright is not None:
        axes.axvline(upright[0], color=RED, linestyle=":", linewidth=1.2, label=upright[1])
    _finish(axes, claim)
    return figure


def draw_bars(
    title: str,
    samples: Samples[str],
    *,
    y: str,
    low: float | None = None,
    claim: Mark | None = None,
) -> Figure:
    """Return a figure with groups of bars, one bar per series.

    Args:
        title: Title of the figure.
        samples: Samples by series and group.
        y: Label of the y axis.
        low: Smallest y that is shown; by default 0.
        claim: Threshold of the claim, drawn as a dashed horizontal line.
    """
    figure, axes = chart(title, ylabel=y)
    series = _by_series(samples)
    groups = list(dict.fromkeys(chain.from_iterable(series.values())))
    width = 0.8 / max(len(series), 1)
    for index, (name, bars) in enumerate(series.items()):
        shift = (index - (len(series) - 1) / 2) * width
        xs = []
        points = []
        for group_index, group in enumerate(groups):
            if group in bars:
                xs.append(group_index + shift)
                points.append(bars[group])
        means, errors = _whiskers(points, math.inf)
        style: JsonObject = {
            "color": HUES[index % len(HUES)],
            "hatch": _HATCHES[index // len(HUES) % len(_HATCHES)],
        }
        axes.bar(xs, means, width * 0.92, yerr=errors, label=name, **style)
    label_style: JsonObject = {"rotation": 0, "ha": "center"}
    # Labels that do not fit side by side are written aslant.
    if len(groups) > 4 or sum(map(len, groups)) > 60:
        label_style = {"rotation": 20, "ha": "right"}
    axes.set_xticks(range(len(groups)), groups, **label_style)
    axes.set_ylim(bottom=low)
    _finish(axes, claim)
    return figure


def _by_series(samples: Samples[Place]) -> dict[str, dict[Place, tuple[float, float]]]:
    """Return for each series the means and half widths of their intervals by position."""
    series: dict[str, dict[Place, tuple[float, float]]] = {}
    for (name, position), values in samples.items():
        point = (values[0], values[1]) if isinstance(values, tuple) else spread(values)
        series.setdefault(name, {})[position] = point
    return series


def _whiskers(
    points: Sequence[tuple[float, float]], max_value: float
) -> tuple[list[float], list[list[float]]]:
    """Return the means, and the lengths of their intervals below and above the mean.

    Args:
        points: Means with the half widths of their intervals.
        max_value: Largest possible value, which intervals do not exceed.
    """
    lengths = [whiskers(mean, half, max_value) for mean, half in points]
    means = [mean for mean, _ in points]
    return means, [[below for below, _ in lengths], [above for _, above in lengths]]


def _finish(axes: Axes, claim: Mark | None) -> None:
    if claim is not None:
        axes.axhline(claim[0], color=INK, linestyle="--", linewidth=1.1, label=claim[1])
    axes.legend(**COMPARED)
