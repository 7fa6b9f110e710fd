"""Parts of the figures about striped files: lines of throughput, and marks of invalid points."""

from collections.abc import Callable

from testbed.model.studies import Row, Rows
from testbed.report.drawing.charts import COMPARED, RED, Figure

TOGETHER = "throughput of all together, Mbit/s"


def throughputs(
    rows: Rows, field: str, label: Callable[[Row], str]
) -> dict[tuple[str, float], tuple[float, float]]:
    """Return throughputs in Mbit/s as samples of lines, without confidence intervals.

    Args:
        rows: The rows.
        field: Field of the rows with the position on the x axis.
        label: Returns the name of the line to which a row belongs.
    """
    samples = {}
    for row in rows:
        samples[label(row), row[field]] = (row["throughput_bps"] / 1e6, 0.0)
    return samples


def finish(figure: Figure, rows: Rows, field: str) -> Figure:
    """Mark the invalid points with a cross, and put a tick at each position.

    Args:
        figure: The figure. It is changed.
        rows: The rows that it shows.
        field: Field of the rows with the position on the x axis.
    """
    (axes,) = figure.axes
    invalid = [row for row in rows if row.get("invalid")]
    if invalid:
        axes.scatter(
            [row[field] for row in invalid],
            [row["throughput_bps"] / 1e6 for row in invalid],
            marker="x",
            s=60,
            color=RED,
            zorder=5,
            label="the machine did not keep up: says nothing",
        )
    axes.set(xticks=sorted({row[field] for row in rows}), ylim=(0, None))
    axes.legend(**COMPARED)
    return figure
