"""Charts of studies and commands: one palette, one style, and the shapes that most of them have.

``chart`` and ``panels`` make axes with a pale grid; ``draw_lines`` and ``draw_bars`` draw samples with the 95 %
intervals of their means. ``STYLE`` holds while a figure is drawn by ``svg_figures``.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, TypeVar

from testbed.model.studies.samples import spread, whiskers
from topologies.text.json_types import Json, JsonObject

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure
else:  # matplotlib is imported when a figure is drawn, not when a study is listed
    Axes = Figure = object

LAYER_STEPS = 7
"""Steps of the ramp for capillary layers: step 0 is layer 1, the most loaded bottleneck."""

_BOTH = {
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
"""Name -> on a light and on a dark page."""
LIGHT, DARK = ({name: both[theme] for name, both in _BOTH.items()} for theme in (0, 1))


def layer_colour(layer: int, layers: int) -> str:
    """The colour, on a light page, of a link by its 1-based capillary layer of ``layers``; of one that belongs to
    none."""
    if layer < 1:
        return LIGHT["plain-load"]
    step = (
        layer - 1
        if layers <= LAYER_STEPS
        else round((layer - 1) / (layers - 1) * (LAYER_STEPS - 1))
    )
    return LIGHT[f"layer-{step}"]


def custom_properties(colours: Mapping[str, str]) -> str:
    """The colours as CSS custom properties."""
    return "".join(f"--{name}:{value};" for name, value in colours.items())


BLUE, ORANGE, GREEN, PURPLE, AMBER, SKY, INK, GREY = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#16191d", "#5c6670",
)  # fmt: skip
"""Hues that colour-blind readers tell apart (Okabe and Ito 2008), the colour of text, and that of what stands
behind."""
HUES = (BLUE, ORANGE, GREEN, PURPLE, AMBER, SKY, INK, GREY)
RED = "#b3261e"
"""What fails, or says nothing."""
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
"""matplotlib's settings for every figure."""
BELOW: JsonObject = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.16), "ncols": 2}
COMPARED: JsonObject = {"loc": "center left", "bbox_to_anchor": (1.01, 0.5)}
"""Where a legend stands that has no room among the curves."""
MARKS = "osD^vP*X"
_DASHES, _HATCHES = ("-", "--", ":"), ("", "////", "....")
"""Of the first eight series, of the next, and of those after: hues come again."""

Place = TypeVar("Place")
Number = TypeVar("Number", bound=float)
Samples = Mapping[tuple[str, Place], Sequence[float] | tuple[float, float]]
"""Samples by series and place; a tuple is their mean and the half width of its interval."""
Mark = tuple[float, str]
"""A value, and what the legend says of the line there."""


def panels(
    width: float,
    height: float,
    rows: int = 1,
    columns: int = 1,
    sharex: bool = False,
    sharey: bool = False,
) -> tuple[Figure, list[Axes]]:
    """(figure of that size in inches, its axes row by row)."""
    figure = bare(width, height, layout="constrained")
    axes: list[Axes] = list(
        figure.subplots(rows, columns, squeeze=False, sharex=sharex, sharey=sharey).flat
    )
    for each in axes:
        each.grid(True)
    return figure, axes


def chart(
    title: str = "", *, size: tuple[float, float] = (7.6, 4.4), **named: object
) -> tuple[Figure, Axes]:
    """(figure, its only axes, which keep their size whatever stands next to them); ``named``: what matplotlib's
    ``Axes.set`` takes."""
    figure = bare(*size)
    axes = figure.add_subplot()
    axes.grid(True)
    axes.set(title=title, **named)
    return figure, axes


@contextmanager
def only_settings(settings: Json) -> Iterator[None]:
    """Draw with matplotlib's defaults and these settings; a user's own settings do not count."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(settings)
        yield


def bare(width: float, height: float, layout: Literal["constrained"] | None = None) -> Figure:
    """A figure of that size in inches, without axes."""
    from matplotlib.figure import Figure as Drawn

    return Drawn(figsize=(width, height), layout=layout)


def ticks(axes: Axes, values: Iterable[float], *, axis: str = "x") -> None:
    """Ticks at these values alone, written as they are, on a logarithmic axis."""
    places = sorted(set(values))
    axes.set(**{f"{axis}scale": "log"})
    axes.set(**{f"{axis}ticks": places, f"{axis}ticklabels": [f"{value:g}" for value in places]})
    axes.minorticks_off()


def draw_dots(
    axes: Axes, place: float, values: Sequence[float], colour: str, *, width: float = 0.3
) -> None:
    """Values as dots in their order, spread over ``width`` round their place."""
    shifts = [width * (k / max(1, len(values) - 1) - 0.5) for k in range(len(values))]
    axes.plot([place + shift for shift in shifts], sorted(values), ".", color=colour, alpha=0.5)


def draw_lines(
    title: str, samples: Samples[Number], *, x: str, y: str, claim: Mark | None = None, upright: Mark | None = None,
    most: float = math.inf,
) -> Figure:  # fmt: skip
    """One line a series with its confidence intervals, which never reach below 0 where the mean does not, nor above
    ``most`` (1 of shares); the claim's threshold dashed, what happens at an x (saturation) as a dotted upright."""
    figure, axes = chart(title, xlabel=x, ylabel=y)
    for k, (name, points) in enumerate(_by_series(samples).items()):
        xs = sorted(points)
        style: JsonObject = {
            "marker": MARKS[k % len(MARKS)],
            "linestyle": _DASHES[k // len(HUES) % len(_DASHES)],
        }
        means, reach = _whiskers([points[x] for x in xs], most)
        axes.errorbar(xs, means, yerr=reach, label=name, color=HUES[k % len(HUES)], **style)
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
    """Groups of bars, one a series. ``low``: where the axis begins (0 where None)."""
    figure, axes = chart(title, ylabel=y)
    series = _by_series(samples)
    groups = list(dict.fromkeys(group for bars in series.values() for group in bars))
    width = 0.8 / max(len(series), 1)
    for k, (name, bars) in enumerate(series.items()):
        places = [
            i + (k - (len(series) - 1) / 2) * width
            for i, group in enumerate(groups)
            if group in bars
        ]
        means, reach = _whiskers([bars[group] for group in groups if group in bars], math.inf)
        style: JsonObject = {
            "color": HUES[k % len(HUES)],
            "hatch": _HATCHES[k // len(HUES) % len(_HATCHES)],
        }
        axes.bar(places, means, width * 0.92, yerr=reach, label=name, **style)
    many = len(groups) > 4 or sum(map(len, groups)) > 60
    axes.set_xticks(
        range(len(groups)), groups, rotation=20 if many else 0, ha="right" if many else "center"
    )
    axes.set_ylim(bottom=low)
    _finish(axes, claim)
    return figure


def _by_series(samples: Samples[Place]) -> dict[str, dict[Place, tuple[float, float]]]:
    """Series -> place -> (mean, half width of its interval)."""
    found: dict[str, dict[Place, tuple[float, float]]] = {}
    for (name, place), values in samples.items():
        found.setdefault(name, {})[place] = (
            (values[0], values[1]) if isinstance(values, tuple) else spread(values)
        )
    return found


def _whiskers(
    points: Sequence[tuple[float, float]], most: float
) -> tuple[list[float], list[list[float]]]:
    """Means, and how far their intervals reach below and above."""
    reach = [whiskers(mean, half, most) for mean, half in points]
    return [mean for mean, _ in points], [
        [below for below, _ in reach],
        [above for _, above in reach],
    ]


def _finish(axes: Axes, claim: Mark | None) -> None:
    if claim is not None:
        axes.axhline(claim[0], color=INK, linestyle="--", linewidth=1.1, label=claim[1])
    axes.legend(**COMPARED)
