"""Values that several studies read from their rows."""

from collections.abc import Iterable, Sequence

from testbed.model.studies import Row, Rows


def column(rows: Iterable[Row], field: str) -> list[float]:
    """Return the numbers of a field, one per row."""
    return [row[field] for row in rows]


def ratios(rows: Rows, over: str, under: str) -> list[float]:
    """Return field ``over`` divided by field ``under``, one ratio per row.

    >>> ratios([{"measured": 3, "predicted": 4}], "measured", "predicted")
    [0.75]
    """
    return [row[over] / row[under] for row in rows]


def line(
    name: str, xs: Iterable[float], ys: Sequence[float]
) -> dict[tuple[str, float], tuple[float, float]]:
    """Return the samples of one line of a figure, without confidence intervals."""
    return {(name, x): (y, 0.0) for x, y in zip(xs, ys, strict=True)}
