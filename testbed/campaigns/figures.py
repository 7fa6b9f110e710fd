"""Figures of a campaign: mean redundancy requirement against the tolerance, a line a method, drawn from the summary
alone."""

from collections.abc import Sequence

from testbed.campaigns.summary import Row
from testbed.model.code_description import describe_code
from testbed.model.studies.samples import grouped
from testbed.report.drawing.charts import MARKS, Figure, chart


def campaign_figures(summary: Sequence[Row]) -> dict[str, Figure]:
    """Name -> matplotlib figure, one for each M, DER and equation; methods that are never finite are named in the
    legend."""
    figures = {}
    for (m, der, large), rows in grouped(summary, ("m", "der", "large_blocks")).items():
        equation = describe_code(labels="random", m=m, tolerance=None, der=der, large_blocks=large)
        named = {"xlabel": "static tolerance, % of packets", "ylabel": "mean ROR"}
        figure, axes = chart(f"Mean ROR, {equation}", size=(7.5, 4.8), **named)
        for number, method in enumerate(dict.fromkeys(row["method"] for row in rows)):
            line = sorted(
                (r["tolerance"], r["mean_ror"]) for r in rows if r["method"] == method and r["mean_ror"] is not None
            )
            label = method if line else f"{method} (infinite)"
            mark = MARKS[number % len(MARKS)]
            axes.plot([100 * t for t, _ in line], [r for _, r in line], marker=mark, ms=4, label=label)
        axes.set_ylim(0, 1.05 * axes.get_ylim()[1])
        axes.legend(ncols=2, loc="lower left")
        figures[f"ror-m{m}-der{der:g}" + ("-large-blocks" if large else "")] = figure
    return figures
