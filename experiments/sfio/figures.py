"""What the figures of striped files have in common: lines of throughput, and the mark of a point that says nothing."""

from collections.abc import Callable

from testbed.model.studies import Row, Rows
from testbed.report.drawing.charts import COMPARED, RED, Figure

TOGETHER = "throughput of all together, Mbit/s"


def throughputs(
    rows: Rows, key: str, name: Callable[[Row], str]
) -> dict[tuple[str, float], tuple[float, float]]:
    """Throughput in Mbit/s by what the rows have under ``key``, a line a name."""
    return {(name(row), row[key]): (row["throughput_bps"] / 1e6, 0.0) for row in rows}


def finish(figure: Figure, rows: Rows, key: str) -> Figure:
    """Put a cross over every point of which the machine did not keep up, and a tick at each ``key``."""
    (axes,) = figure.axes
    if places := [(row[key], row["throughput_bps"] / 1e6) for row in rows if row.get("invalid")]:
        label = "the machine did not keep up: says nothing"
        axes.scatter(
            [x for x, _ in places],
            [y for _, y in places],
            marker="x",
            s=60,
            color=RED,
            zorder=5,
            label=label,
        )
    axes.set(xticks=sorted({row[key] for row in rows}), ylim=(0, None))
    axes.legend(**COMPARED)
    return figure
