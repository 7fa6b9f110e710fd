"""Figures of a campaign: mean redundancy requirement against the tolerance, a line a method, drawn from the summary
alone."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from testbed.campaigns.summary import Row
from testbed.model.code_description import describe_code

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARKS = "osD^vP*Xh<>d"


def campaign_figures(summary: Sequence[Row]) -> "dict[str, Figure]":
    """Name -> matplotlib figure, one for each M, DER and equation; methods that are never finite are named in the
    legend."""
    import matplotlib.pyplot as plt

    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in summary:
        groups.setdefault((row["m"], row["der"], row["large_blocks"]), []).append(row)
    figures = {}
    for (m, der, large), rows in groups.items():
        figure, axes = plt.subplots(figsize=(7.5, 4.8))
        for number, method in enumerate(dict.fromkeys(row["method"] for row in rows)):
            line = sorted(
                (r["tolerance"], r["mean_ror"]) for r in rows if r["method"] == method and r["mean_ror"] is not None
            )
            label = method if line else f"{method} (infinite)"
            axes.plot(
                [100 * t for t, _ in line], [r for _, r in line], marker=MARKS[number % len(MARKS)], ms=4, label=label
            )
        equation = describe_code(labels="random", m=m, tolerance=None, der=der, large_blocks=large)
        axes.set(xlabel="static tolerance, % of packets", ylabel="mean ROR", title=f"Mean ROR, {equation}")
        axes.set_ylim(0, 1.05 * axes.get_ylim()[1])
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small", ncols=2, loc="lower left")
        figures[f"ror-m{m}-der{der:g}" + ("-large-blocks" if large else "")] = figure
    return figures
