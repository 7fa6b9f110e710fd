"""How many packets a block needs against the loss, for several M, between the bounds of the thesis (Figure 59)."""

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

from fec.redundancy.block_size import decoding_failure_probability, fec_block_size
from testbed.model.studies import Check, Claim, Figures, Points, Results, Row, Rows
from testbed.report.drawing.charts import INK, ORANGE, panels, ticks

RATE = 1e-5
BLOCKS = (1, 2, 3, 5, 7, 10, 20, 50)
TABLE = {
    1: (3, 4, 4, 5, 8, 9, 11, 17),
    5: (8, 9, 10, 12, 16, 18, 22, 32),
    10: (13, 15, 16, 19, 24, 27, 32, 48),
    20: (24, 27, 28, 32, 40, 44, 52, 76),
}
"""FEC_p at DER 1e-5, worked out independently in exact arithmetic, for the losses of TABLE_LOSSES."""
TABLE_LOSSES = ("0.01", "0.036", "0.05", "0.1", "0.2", "0.25", "1/3", "0.5")


def points(quick: bool) -> Points:
    """A curve (losses from 1 % to 60 %) an M; exact."""
    return [{"m": m, "losses": 12 if quick else 60} for m in BLOCKS]


def measure(point: Row) -> Results:
    """FEC_p along the curve, FEC_p of the table's losses, and whether one packet fewer would fail too often."""
    m, count = point["m"], point["losses"]
    losses = [round(0.6 * (k + 1) / count, 4) for k in range(count)]
    sizes = [fec_block_size(m, p, RATE) for p in losses]
    least = all(
        decoding_failure_probability(m, n, p) <= RATE
        and (n == m or decoding_failure_probability(m, n - 1, p) > RATE)
        for p, n in zip(losses[:: max(1, count // 12)], sizes[:: max(1, count // 12)], strict=True)
    )
    table = [fec_block_size(m, p, "1e-5") for p in TABLE_LOSSES]
    return {"loss": losses, "size": sizes, "table": table, "least": least}


def size_checks(rows: Rows) -> list[Check]:
    """The table holds exactly; the curves lie between equations 27 and 28; a greater M needs less."""
    known = {row["m"]: row["table"] for row in rows if row["m"] in TABLE}
    mean = {m: [math.ceil(m / (1 - Fraction(p))) for p in TABLE_LOSSES] for m in known}
    losses = f"of the block sizes for losses of {', '.join(TABLE_LOSSES)}"
    checks = [
        Claim(f"M = {m}: {losses}, those as worked out independently")
        .equal(len(TABLE_LOSSES), _agreeing(table, m))
        .against(_agreeing(mean[m], m), "blocks that decode on average: equation 28 rounded up")
        for m, table in known.items()
    ]
    outside = sum(
        not (
            n / row["m"] >= 1 / (1 - p)
            and n <= row["m"] * math.ceil(math.log(RATE) / math.log(p) - 1e-12)
        )
        for row in rows
        for p, n in zip(row["loss"], row["size"], strict=True)
    )
    chosen = [row for row in rows if row["m"] in (1, 5, 20, 50)]
    rates = [
        (n / a["m"], m / b["m"])
        for a, b in pairwise(chosen)
        for n, m in zip(a["size"], b["size"], strict=True)
    ]
    checks += [
        Claim("points outside the bounds 1/(1-p) and the next whole number above log_p(DER)")
        .equal(0.0, outside)
        .against(sum(len(row["loss"]) for row in rows), "all of them"),
        Claim("curves of which a block one packet shorter would do")
        .equal(0.0, sum(not row["least"] for row in rows))
        .against(len(rows), "each of them: blocks longer than needed"),
        Claim("losses at which a greater M needs a greater rate (among M = 1, 5, 20, 50)")
        .equal(0.0, sum(greater > less for less, greater in rates))
        .against(sum(less > greater for less, greater in rates), "as many as need a smaller one"),
    ]
    return checks


def _agreeing(sizes: Sequence[int], m: int) -> int:
    return sum(a == b for a, b in zip(sizes, TABLE[m], strict=True))


def figures(rows: Rows) -> Figures:
    """FEC_p / M against the loss, a staircase an M, with both bounds."""
    from matplotlib import colormaps

    figure, (axes,) = panels(8.6, 5.4)
    colours = colormaps["viridis"]
    for at, row in enumerate(rows):
        percent, sizes = [100 * p for p in row["loss"]], [n / row["m"] for n in row["size"]]
        colour = colours(at / len(rows))
        axes.plot(percent, sizes, label=f"M = {row['m']}", color=colour, drawstyle="steps-mid")
    losses = rows[0]["loss"]
    percent = [100 * p for p in losses]
    axes.plot(
        percent,
        [math.log(RATE) / math.log(p) for p in losses],
        "--",
        color=ORANGE,
        label="log_p(DER), M = 1",
    )
    axes.plot(
        percent,
        [1 / (1 - p) for p in losses],
        "--",
        color=INK,
        label="1 / (1 - p), M without limit",
    )
    ticks(axes, [1, 1.5, 2, 3, 5, 10, 20], axis="y")
    axes.set(xlabel="random loss p (%)", ylabel="packets sent per source packet, FEC_p / M")
    axes.set_title("Transmission rate increase, decoding error rate 1e-5")
    axes.legend(ncol=2)
    return {"figure-59": figure}
