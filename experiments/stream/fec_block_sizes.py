"""Figure 59: packets that a block needs by loss rate, between the bounds of the thesis.

The points are part of the study ``coding_blocks``.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

from fec.redundancy.block_size import decoding_failure_probability, fec_block_size
from testbed.model.studies import Check, Claim, Figures, Points, Results, Row, Rows, where
from testbed.report.drawing.charts import INK, ORANGE, Axes, panels, ticks

# Decoding error rate (DER).
ERROR_RATE = 1e-5

# Values of M, the number of source packets per block.
SOURCE_PACKETS = (1, 2, 3, 5, 7, 10, 20, 50)

# Values of M that are compared with each other. Sizes of blocks are integers, so that neighbouring
# values of M cannot be compared at all loss rates.
COMPARED = (1, 5, 20, 50)

TABLE_LOSSES = ("0.01", "0.036", "0.05", "0.1", "0.2", "0.25", "1/3", "0.5")

# FEC_p at DER 1e-5 by M, for the losses of TABLE_LOSSES. It was computed independently in exact
# arithmetic.
TABLE = {
    1: (3, 4, 4, 5, 8, 9, 11, 17),
    5: (8, 9, 10, 12, 16, 18, 22, 32),
    10: (13, 15, 16, 19, 24, 27, 32, 48),
    20: (24, 27, 28, 32, 40, 44, 52, 76),
}


def points(quick: bool) -> Points:
    """Return a curve for each M, with loss rates up to 60 %."""
    return [{"m": m, "losses": 12 if quick else 60} for m in SOURCE_PACKETS]


def measure(point: Row) -> Results:
    """Compute the block sizes of a curve and of the table.

    Returns:
        The loss rates of the curve, the block sizes, and those of the table; and whether every size
        that was tried is the smallest (``least``).
    """
    m = point["m"]
    count = point["losses"]
    losses = [round(0.6 * (k + 1) / count, 4) for k in range(count)]
    sizes = [fec_block_size(m, loss, ERROR_RATE) for loss in losses]
    return {
        "loss": losses,
        "size": sizes,
        "table": [fec_block_size(m, loss, "1e-5") for loss in TABLE_LOSSES],
        "least": _are_smallest(m, losses, sizes),
    }


def _are_smallest(m: int, losses: Sequence[float], sizes: Sequence[int]) -> bool:
    """Return whether some sizes of a curve are enough, and one packet fewer is not."""
    step = max(1, len(losses) // 12)
    for loss, size in zip(losses[::step], sizes[::step], strict=True):
        if decoding_failure_probability(m, size, loss) > ERROR_RATE:
            return False
        if size > m and decoding_failure_probability(m, size - 1, loss) <= ERROR_RATE:
            return False
    return True


def size_checks(rows: Rows) -> list[Check]:
    """Return the checks of Figure 59.

    The table must be exact, the curves must lie between equations 27 and 28, and a larger M must
    need a lower rate.
    """
    return [
        *_table_checks(rows),
        _check_bounds(rows),
        Claim("curves of which a block one packet shorter would do")
        .equal(0.0, len(where(rows, least=False)))
        .against(len(rows), "each of them: blocks longer than needed"),
        _check_rates(rows),
    ]


def _table_checks(rows: Rows) -> list[Check]:
    losses = f"of the block sizes for losses of {', '.join(TABLE_LOSSES)}"
    checks = []
    for row in rows:
        m = row["m"]
        if m not in TABLE:
            continue
        mean_sizes = [math.ceil(m / (1 - Fraction(loss))) for loss in TABLE_LOSSES]
        checks.append(
            Claim(f"M = {m}: {losses}, those as worked out independently")
            .equal(len(TABLE_LOSSES), _count_equal(row["table"], m))
            .against(
                _count_equal(mean_sizes, m),
                "blocks that decode on average: equation 28 rounded up",
            )
        )
    return checks


def _count_equal(sizes: Sequence[int], m: int) -> int:
    """Return how many sizes are those of the table."""
    return sum(size == exact for size, exact in zip(sizes, TABLE[m], strict=True))


def _check_bounds(rows: Rows) -> Check:
    """Check that each block size lies between equation 28 and equation 27 rounded up."""
    count = 0
    outside = 0
    for row in rows:
        for loss, size in zip(row["loss"], row["size"], strict=True):
            count += 1
            lower = 1 / (1 - loss)
            # An integer quotient must not be rounded up because of an error in its last digit.
            upper = row["m"] * math.ceil(math.log(ERROR_RATE) / math.log(loss) - 1e-12)
            if size / row["m"] < lower or size > upper:
                outside += 1
    return (
        Claim("points outside the bounds 1/(1-p) and the next whole number above log_p(DER)")
        .equal(0.0, outside)
        .against(count, "all of them")
    )


def _check_rates(rows: Rows) -> Check:
    """Check that N / M does not grow with M."""
    curves = [row for row in rows if row["m"] in COMPARED]
    higher = 0
    lower = 0
    for curve, next_curve in pairwise(curves):
        for size, next_size in zip(curve["size"], next_curve["size"], strict=True):
            rate = size / curve["m"]
            next_rate = next_size / next_curve["m"]
            if next_rate > rate:
                higher += 1
            elif next_rate < rate:
                lower += 1
    return (
        Claim("losses at which a greater M needs a greater rate (among M = 1, 5, 20, 50)")
        .equal(0.0, higher)
        .against(lower, "as many as need a smaller one")
    )


def figures(rows: Rows) -> Figures:
    """Draw FEC_p / M against the loss rate, a curve for each M, with both bounds."""
    from matplotlib import colormaps

    figure, (axes,) = panels(8.6, 5.4)
    for number, row in enumerate(rows):
        axes.plot(
            [100 * loss for loss in row["loss"]],
            [size / row["m"] for size in row["size"]],
            label=f"M = {row['m']}",
            color=colormaps["viridis"](number / len(rows)),
            drawstyle="steps-mid",
        )
    _draw_bounds(axes, rows[0]["loss"])
    ticks(axes, [1, 1.5, 2, 3, 5, 10, 20], axis="y")
    axes.set(xlabel="random loss p (%)", ylabel="packets sent per source packet, FEC_p / M")
    axes.set_title("Transmission rate increase, decoding error rate 1e-5")
    axes.legend(ncol=2)
    return {"figure-59": figure}


def _draw_bounds(axes: Axes, losses: Sequence[float]) -> None:
    percentages = []
    single_packet = []
    unlimited = []
    for loss in losses:
        percentages.append(100 * loss)
        single_packet.append(math.log(ERROR_RATE) / math.log(loss))
        unlimited.append(1 / (1 - loss))
    axes.plot(percentages, single_packet, "--", color=ORANGE, label="log_p(DER), M = 1")
    axes.plot(percentages, unlimited, "--", color=INK, label="1 / (1 - p), M without limit")
