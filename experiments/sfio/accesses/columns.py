"""Columns of an out-of-core matrix: in one call, in a message a fragment, and in a liquid schedule (Gabrielyan 2007,
section 2.9)."""

from experiments.sfio.figures import TOGETHER, finish, plot_throughput
from experiments.sfio.runs import accessed, judged
from testbed.model.studies import Claim, Figures, Points, Results, Row, Rows, Study, Verdict, grid, where
from testbed.report.drawing.charts import AMBER, BLUE, GREEN, GREY, chart, ticks

LINK_RATE_BPS = 10e6
NODES, STRIPE_UNIT = 4, 200
SIDES, QUICK_SIDES, SMALL = (128, 256, 512, 1024), (128, 512), 128
"""Rows and columns of 8-byte elements; fragments one by one are sent of the smallest matrix alone."""
DIRECTIONS = {
    "one call": ("one call, all at once", BLUE, "o"),
    "liquid": ("one call, in turns over circuits", GREEN, "^"),
    "fragments": ("a message a fragment", AMBER, "s"),
}
MIN_GAIN, MIN_OF_LINKS = 5.0, 0.5


def points(quick: bool, seed: int) -> Points:
    """Each process has a band of a quarter of the columns, written and read."""
    sides = QUICK_SIDES if quick else SIDES
    every = grid(side=sides, operation=("write", "read"), way=DIRECTIONS, seed=seed)
    return [point for point in every if point["way"] != "fragments" or point["side"] == SMALL]


def measure(point: Row) -> Results:
    """One operation on all columns."""
    liquid = point["way"] == "liquid"
    way = {"scheduling": "liquid", "switching": "circuit"} if liquid else {"optimise": point["way"] != "fragments"}
    file = {"stripe_unit": STRIPE_UNIT, "file_bytes": point["side"] ** 2 * 8, "access": "matrix-columns"}
    return accessed(f"crossbar:{NODES}", point, nodes=NODES, link_rate_bps=LINK_RATE_BPS, **file, **way)


def judge(rows: Rows) -> Verdict:
    """What one call for all rows of a band is worth, and what of the links it fills."""
    found = {(row["operation"], row["way"], row["side"]): row["throughput_bps"] for row in rows}
    largest = max(row["side"] for row in rows)
    checks = []
    for operation in ("write", "read"):
        checks += [
            Claim(f"{operation}, {SMALL} x {SMALL}: one call over a message a fragment")
            .at_least(MIN_GAIN, found[operation, "one call", SMALL] / found[operation, "fragments", SMALL])
            .cites("a large number of small requests, optimised together, section 2.9 (no value)")
            .against(1.0, "no gain"),
            Claim(f"{operation}, {largest} x {largest}: one call in turns, share of all links")
            .at_least(MIN_OF_LINKS, found[operation, "liquid", largest] / (NODES * LINK_RATE_BPS))
            .against(found[operation, "fragments", SMALL] / (NODES * LINK_RATE_BPS), "a message a fragment"),
        ]
    return judged(rows, checks)


def figures(rows: Rows) -> Figures:
    """Throughput over the size of the matrix."""
    bands = f"Bands of columns of {NODES} processes to {NODES} I/O nodes"
    title = f"{bands}, 10 Mbit/s links, stripe unit {STRIPE_UNIT} bytes"
    figure, axes = chart(title, size=(7.2, 4.6), xlabel="rows and columns of the matrix", ylabel=TOGETHER)
    for way, (name, colour, marker) in DIRECTIONS.items():
        for operation, line in (("write", "-"), ("read", "--")):
            chosen = where(rows, way=way, operation=operation)
            plot_throughput(axes, chosen, "side", f"{operation}, {name}", colour, marker=marker, linestyle=line)
    axes.axhline(NODES * LINK_RATE_BPS / 1e6, color=GREY, linewidth=1, label="all links together")
    finish(axes, rows, "side")
    ticks(axes, (row["side"] for row in rows))
    return {"columns": figure}


STUDY = Study.of_module(
    __name__,
    name="sfio_columns",
    title="Columns of an out-of-core matrix",
    answers="Gabrielyan 2007, section 2.9: "
    "access to columns of out-of-core matrices is many small requests, which SFIO optimises together",
    deviations=(
        "matrices of 0.13 to 8.4 MB, which fit in memory, accessed as those that do not; no size or figure is given",
        "fragments are sent one by one of the smallest matrix alone; medians of three; no disks",
    ),
    emulation=True,
)
